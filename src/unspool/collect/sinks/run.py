"""Copies the tables of a lake to a database, and keeps them equal.

Rules
  1. Which rows change is found by comparing names of files (`data_files.py`); the database says in the same step as the
     rows which files it has. So a sink can be killed at any time and run again, and a round costs what is new.
  2. A database belongs to one lake. Another one, or a lake that was made anew, needs `again`.
  3. With `again` all rows are replaced in one step; readers see the old ones until then.
  4. Columns that unspool does not know yet are not copied. When it knows them later, their table is filled anew.
  5. A database that does not answer is tried again by `follow`; one that refuses is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.tables import lake_tables
from unspool.collect.sinks.address import SinkAddress
from unspool.collect.sinks.clickhouse import open_clickhouse
from unspool.collect.sinks.data_files import TableSnapshot, find_changes, read_rows, read_snapshot, split_changes
from unspool.collect.sinks.postgres import open_postgres
from unspool.collect.sinks.target import CopiedRows, FilledTable, OpenTarget, SinkTarget
from unspool.errors import ObjectStoreFailed, Refused, SinkFailed

STEPS = ("locked", "prepared", "planned", "removed", "copied", "written", "committed", "recorded", "done")
"""The points where the tests kill a sink, in order; `copied` comes once for each file, the others from `planned` to
`recorded` once for each table or step of it."""


class SinkJob(NamedTuple):
    """Which tables of which lake are copied, and where to."""

    lake: str
    address: SinkAddress
    tables: tuple[str, ...]
    again: bool = False
    on_step: Callable[[str], None] = lambda _: None
    """Called with the name of each of `STEPS` that is reached."""


class TableReport(NamedTuple):
    """What was copied of a table."""

    table: str
    version: int
    """Of the table in the lake."""
    files_added: int = 0
    files_removed: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    cells_altered: int = 0
    """Cells that the database cannot hold as they are."""
    columns_added: tuple[str, ...] = ()


class SinkReport(NamedTuple):
    """What a round has copied."""

    tables: tuple[TableReport, ...]
    left: tuple[str, ...]
    """Tables that were copied here once, and that this sink is not for."""
    seconds: float

    @property
    def is_changed(self) -> bool:
        """Whether anything was copied or removed."""
        return any(table.files_added or table.files_removed or table.columns_added for table in self.tables)


class SinkRunner:
    """Copies a lake to a database, round by round."""

    def __init__(self, job: SinkJob, environment: Mapping[str, str]) -> None:
        self._job = job
        self._lake: Lake = open_lake(job.lake, environment)
        open_kind = open_postgres if job.address.kind == "postgresql" else open_clickhouse
        self._open: OpenTarget = partial(open_kind, job.address, environment, job.on_step)
        self._again = job.again

    def run_once(self) -> SinkReport:
        """Copy what is new, and return."""
        with self._open() as target:
            return self._round(target, self._prepare(target))

    def follow(self, every: float) -> Iterator[SinkReport | ObjectStoreFailed | SinkFailed]:
        """Copy continuously; yield the report of each round that copied anything, or the failure that it met."""
        while True:
            try:
                with self._open() as target:
                    columns = self._prepare(target)
                    while True:
                        began = time.monotonic()
                        report, columns = self._round(target, columns), {}
                        if report.is_changed:
                            yield report
                        time.sleep(max(every - (time.monotonic() - began), 0.0))
            except (ObjectStoreFailed, SinkFailed) as error:
                if error.is_final:
                    raise
                yield error
            time.sleep(every)

    def _prepare(self, target: SinkTarget) -> dict[str, list[str]]:
        """Create what is missing in a database; return by table the columns that were added."""
        self._job.on_step("locked")
        self._check_lake(target.filled())
        added = target.prepare([lake_tables()[name] for name in self._job.tables])
        self._job.on_step("prepared")
        return added

    def _round(self, target: SinkTarget, columns: Mapping[str, Sequence[str]]) -> SinkReport:
        began, filled = time.monotonic(), target.filled()
        reports = tuple(
            self._copy_table(target, name, filled.get(name), tuple(columns.get(name, ()))) for name in self._job.tables
        )
        target.clean_up()
        # `--again` is for the first round only.
        self._again = False
        self._job.on_step("done")
        left = tuple(name for name in filled if name not in self._job.tables)
        return SinkReport(reports, left, round(time.monotonic() - began, 6))

    def _check_lake(self, filled: Mapping[str, FilledTable]) -> None:
        """Raise if the database has rows of another lake."""
        for name in self._job.tables:
            snapshot_id = str(self._lake.table(name).metadata().id)
            if name in filled and filled[name].lake_id != snapshot_id and not self._again:
                message = f"{self._job.address.words} has the table `{name}` of another lake"
                hint = "use another `--schema`, or replace all rows with `--again`"
                raise Refused(message, hint=hint)

    def _copy_table(
        self, target: SinkTarget, name: str, filled: FilledTable | None, columns: tuple[str, ...]
    ) -> TableReport:
        snapshot: TableSnapshot = read_snapshot(self._lake, lake_tables()[name])
        # The lake had these columns when its files were copied without them.
        again = self._again or (filled is not None and not filled.other_columns.isdisjoint(snapshot.table.names))
        report = TableReport(name, snapshot.version, columns_added=columns)
        if filled is not None and filled.version == snapshot.version and not again:
            return report
        changes = find_changes(snapshot, target.files(name), again=again)
        self._job.on_step("planned")
        copied = CopiedRows()
        for step in split_changes(changes):
            copied = copied.plus(target.change(snapshot, step, partial(read_rows, self._lake, snapshot.table)))
        target.record(snapshot)
        self._job.on_step("recorded")
        return report._replace(
            files_added=len(changes.added),
            files_removed=len(changes.removed),
            rows_added=copied.added,
            rows_removed=copied.removed,
            cells_altered=copied.altered,
        )
