"""The lake: turns the segments of many devices into Delta tables, each line once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.lake import maintenance, run
    from unspool.collect.lake.ingest import IngestReport
    from unspool.collect.lake.lake import LAKE_VERSION, create_lake, open_lake, open_source
    from unspool.collect.lake.lifecycle.rederivation import AgainSelection
    from unspool.collect.lake.run import IngestJob, IngestShard
    from unspool.collect.lake.spark import ingest_with_spark
    from unspool.collect.lake.sql import engine_setup
    from unspool.collect.lake.status import DeviceStatus, read_status, status_metrics
    from unspool.collect.lake.tables import lake_tables
    from unspool.collect.lake.users import bind_users, read_users, sign_bindings
    from unspool.collect.lake.verify import verify_lake

__all__ = [
    "LAKE_VERSION", "AgainSelection", "DeviceStatus", "IngestJob", "IngestReport", "IngestShard", "bind_users",
    "create_lake", "engine_setup", "ingest_with_spark", "lake_tables", "maintenance", "open_lake", "open_source",
    "read_status", "read_users", "run", "sign_bindings", "status_metrics", "verify_lake",
]

__getattr__ = lazy_door(__name__, {
    "ingest": "IngestReport",
    "lake": "LAKE_VERSION create_lake open_lake open_source",
    "lifecycle.rederivation": "AgainSelection",
    "run": "IngestJob IngestShard",
    "spark": "ingest_with_spark",
    "sql": "engine_setup",
    "status": "DeviceStatus read_status status_metrics",
    "tables": "lake_tables",
    "users": "bind_users read_users sign_bindings",
    "verify": "verify_lake",
})
