"""Ingests segments with Spark: executors read and derive them, and the driver commits.

Rules
  1. The driver runs the ingest of a single machine (`run.py`): it lists, decides what is new, and writes to the tables
     with the same transactions. Both kinds of ingest can work on one lake, in turns or at once.
  2. A task is the new segments of one device. An executor reads them and the earlier parts of their streams, derives
     all rows, and returns them. It writes nothing but bundles, which are a cache: a task can be repeated at any time.
  3. Executors get the names of what to read, no credentials: these come from their own environment. If the lake has
     pseudonyms, they get the key of these. They read the list of what was forgotten, and tombstones.
  4. Streams with chains of their own, of earlier versions of the collector, are derived by the driver.
  5. The driver holds the rows of a batch. The job's memory bounds the new segments in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

from unspool.collect.lake.ingest import (
    ChainSlice,
    DerivedChains,
    IngestOptions,
    IngestProgress,
    IngestReport,
    NameUser,
    derive_chains,
)
from unspool.collect.lake.lake import Lake, open_lake, open_source
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.lake.trust import DeviceTrust, LakeTrust, OrgAdministrators
from unspool.collect.object_store import SegmentStore
from unspool.errors import Unreadable

MEMORY = 2 * 1024 * 1024 * 1024
"""Bytes that the driver may use, unless it is told otherwise: larger batches have more devices, so more tasks."""

_TASK_BYTES = 32 * 1024 * 1024
"""Bytes of streams of which an executor decodes a quarter at once."""


class _DerivationTask(NamedTuple):
    """New segments of a device, for an executor."""

    source: str
    lake: str
    chain: ChainSlice
    users: Mapping[str, str]
    trust: DeviceTrust
    """What the driver knows of the keys of the device: executors check signatures, and read no keys."""
    administrators: Mapping[str, OrgAdministrators]
    """Of the device's organisation: executors check the tombstones of rewritten segments."""
    name_user: NameUser | None
    """Returns the pseudonym of a user, in a lake that has pseudonyms."""


class _TaskRows(NamedTuple):
    """What a task gave, as Spark can carry it."""

    found: DerivedChains
    """Without its rows."""
    rows: dict[str, bytes]
    """By table, as an Arrow stream."""


def ingest_with_spark(context: Any, job: IngestJob, environment: Mapping[str, str]) -> IngestReport:
    """Ingest everything that is new with the executors of a `SparkContext`, and return."""
    return Ingester(job, environment, derive_chains=_SparkDerivation(context, job)).round()


class _SparkDerivation:
    """Derives the new segments of devices in Spark, one task for each device."""

    def __init__(self, context: Any, job: IngestJob) -> None:
        self._context, self._job = context, job

    def __call__(
        self,
        chains: Sequence[ChainSlice],
        progress: IngestProgress,
        users: Mapping[str, str],
        trust: LakeTrust,
        name_user: NameUser | None,
    ) -> Iterator[DerivedChains]:
        tasks = [
            _DerivationTask(
                self._job.source,
                self._job.lake,
                chain,
                {chain.home: users[chain.home]} if chain.home in users else {},
                trust.device(chain.home),
                trust.of_device(chain.home),
                name_user,
            )
            for chain in chains
        ]
        shared = self._context.broadcast(progress)
        try:
            results: list[_TaskRows] = (
                self._context.parallelize(tasks, len(tasks)).map(lambda task: _run_task(task, shared.value)).collect()
            )
        except _job_errors() as error:
            reason = str(error.java_exception.getMessage()).strip().partition("\n")[0]
            hint = "committed work is complete; run it again, and see the log of the executors"
            raise Unreadable(f"the Spark job failed: {reason}", hint=hint) from None
        finally:
            shared.unpersist()
        for found, rows in results:
            yield found._replace(rows={name: _decode_rows(data) for name, data in rows.items()})


def _job_errors() -> tuple[Any, ...]:
    """Return the exceptions of a job that failed; none if the context is not one of a JVM."""
    try:
        from py4j.protocol import Py4JJavaError
    except ModuleNotFoundError:
        return ()
    return (Py4JJavaError,)


def _run_task(task: _DerivationTask, progress: IngestProgress) -> _TaskRows:
    """Derive the new segments of a device, in an executor."""
    lake, object_store = _open(task.lake, task.source)
    trust = LakeTrust(None, None, task.administrators, devices={task.chain.home: task.trust})
    options = IngestOptions(users=task.users, batch_bytes=_TASK_BYTES, trust=trust, name_user=task.name_user)
    found = derive_chains(lake, object_store, [task.chain], progress, options)
    rows = {name: _encode_rows(batches) for name, batches in found.rows.items() if batches}
    return _TaskRows(found._replace(rows={}), rows)


@cache
def _open(lake: str, source: str) -> tuple[Lake, SegmentStore]:
    # Once for each Python worker: opening a lake is a request, and a connection.
    return open_lake(lake, os.environ), open_source(source, os.environ)


def _encode_rows(batches: Sequence[Any]) -> bytes:
    from arro3.core import Table
    from arro3.io import write_ipc_stream

    data = BytesIO()
    write_ipc_stream(Table.from_batches(list(batches)), data)
    return data.getvalue()


def _decode_rows(data: bytes) -> Sequence[Any]:
    from arro3.io import read_ipc_stream

    return list(read_ipc_stream(BytesIO(data)))
