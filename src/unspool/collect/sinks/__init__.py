"""Sinks: copy the tables of a lake to Postgres or ClickHouse and keep them equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.sinks.address import SinkAddress, parse_address
    from unspool.collect.sinks.run import STEPS, SinkJob, SinkReport, SinkRunner
    from unspool.collect.sinks.table_choice import choose_tables

__all__ = ["STEPS", "SinkAddress", "SinkJob", "SinkReport", "SinkRunner", "choose_tables", "parse_address"]

__getattr__ = lazy_door(__name__, {
    "address": "SinkAddress parse_address",
    "run": "STEPS SinkJob SinkReport SinkRunner",
    "table_choice": "choose_tables",
})
