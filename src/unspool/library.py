"""Opens config folders for Python programs and notebooks: `unspool.open`, and tables of usage.

    import unspool

    home = unspool.open()                       # $CLAUDE_CONFIG_DIR or ~/.claude; also other folders, or several
    for week in home.usage(by="week"):
        print(week["week"], week["cost_usd"])
    home.usage(by="project", since="30d").to_pandas()

Rules
  1. The numbers are those of `unspool usage` without a store and without prices of the user's own: each response counts
     once, across forks, files and folders.
  2. Nothing is written: no store, no archive, no settings.
"""

from __future__ import annotations

import html
import itertools
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from unspool import home as homes
from unspool.errors import Refused, UsageError
from unspool.extras import require_extras
from unspool.format import parse_zone
from unspool.other_agents import translate_folder
from unspool.paths import config_folder, data_folder, drop_nested, resolve_existing
from unspool.read import Kind, scan_all

if TYPE_CHECKING:
    import arro3.core
    import pandas
    import polars

    from unspool.store.usage import UsageReport

REPORTS: Final = {
    "day": "daily",
    "week": "weekly",
    "month": "monthly",
    "session": "session",
    "model": "model",
    "project": "project",
    "branch": "branch",
    "agent": "agent",
    "block": "blocks",
}
"""What `Home.usage` groups by, and the name of the report on the command line."""
_MICROS = 1_000_000
_HTML_ROWS = 100
"""Rows of a table that a notebook shows."""
_HTML_COLUMNS = ("input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens", "total_tokens", "cost_usd")


class UsageTable(Sequence[dict[str, Any]]):
    """A usage report: one dict for each day, week, project, …, with the names that `unspool usage --json` has.

    Money is in US dollars (`cost_usd`) and in whole millionths of a dollar (`cost_micros`). It is None if nothing that
    was used has a price.
    """

    def __init__(self, by: str, report: UsageReport) -> None:
        self.by = by
        """What the rows are grouped by."""
        self.rows = [_add_dollars(row.data()) for row in report.rows]
        """One dict for each group."""
        self.totals = _add_dollars(report.totals.data())
        """All rows together."""
        self.unpriced_models = report.unpriced
        """The models that were used and have no price."""

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """Return a row, or several."""
        return self.rows[index]

    def __repr__(self) -> str:
        return f"<UsageTable by {self.by}: {len(self.rows)} rows, {_format_cell(self.totals['cost_usd'])} US dollars>"

    def _repr_html_(self) -> str:
        labels = [name for name in (self.rows[0] if self.rows else {}) if name not in self.totals]
        names = [*labels, *_HTML_COLUMNS]
        rows = [[row[name] for name in names] for row in self.rows[:_HTML_ROWS]]
        more = len(self.rows) - len(rows)
        total = ["total", *[""] * (len(labels) - 1), *(self.totals[name] for name in _HTML_COLUMNS)] if rows else []
        return _html_table(names, [*rows, total]) + (f"<p>{more} more rows</p>" if more > 0 else "")

    def to_arrow(self) -> arro3.core.Table:
        """Return an Arrow table, which pyarrow, polars, pandas and DuckDB can read without copying."""
        require_extras("sql", feature="`to_arrow`")
        core: Any = import_module("arro3.core")
        names = list(self.rows[0]) if self.rows else list(self.totals)
        columns = {name: _arrow_array(core, [row[name] for row in self.rows]) for name in names}
        table: arro3.core.Table = core.Table.from_pydict(columns)
        return table

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame."""
        frame: polars.DataFrame = _import_library("polars").DataFrame(self.rows, infer_schema_length=None)
        return frame

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame."""
        frame: pandas.DataFrame = _import_library("pandas").DataFrame(self.rows)
        return frame


class Home(homes.Home):
    """Config folders that were opened: their sessions, and what all of them used and cost."""

    def __repr__(self) -> str:
        roots = ", ".join(str(root) for root in self.tree.roots)
        return f"<Home {roots}: {sum(1 for _ in self.tree.of(Kind.SESSION))} sessions>"

    def _repr_html_(self) -> str:
        shown = [session for _, session in zip(range(_HTML_ROWS), self.sessions(), strict=False)]
        rows = [[session.id, session.title, session.project, session.facts.last] for session in shown]
        return _html_table(["session_id", "title", "project", "last"], rows)

    def usage(
        self,
        by: str = "day",
        *,
        since: str | date | datetime | None = None,
        until: str | date | datetime | None = None,
        project: str | None = None,
        timezone: str = "local",
    ) -> UsageTable:
        """Return tokens and cost of each day, or of each of another group.

        `by` is `day`, `week`, `month`, `session`, `model`, `project`, `branch`, `agent` or `block`, a window of five
        hours. `since` and `until` are dates, times, or text as on the command line
        (`7d`, `2026-11-01`); both are included. `project` is a project's name or a part of its path. `timezone` is the
        zone that days begin in: `local`, `UTC`, or a name such as `Europe/Berlin`.
        """
        # Imported here: who only reads sessions needs no part of the store.
        from unspool.store.usage import FileLedger, parse_request, read_lines, report_usage

        if by not in REPORTS:
            raise UsageError(f"cannot group usage by `{by}`", hint=f"use one of {', '.join(REPORTS)}")
        zone = parse_zone(timezone)
        request = parse_request(
            REPORTS[by], datetime.now(UTC), zone, since=_time_text(since), until=_time_text(until)
        )._replace(project=project)
        sources = self.tree.of(Kind.SESSION, Kind.AGENT)
        lines = (read_lines(source.place, source.project, source.session_id) for source in sources)
        return UsageTable(by, report_usage(FileLedger(lines, on_failed=self.skip), request))


def open(*paths: str | Path) -> Home:
    """Open config folders, projects, trees or files; without any, `$CLAUDE_CONFIG_DIR`, else `~/.claude`.

    Of several folders the sessions are listed together, and a response that is in more than one counts once.
    """
    named: Iterable[str | None] = map(str, paths) if paths else [None]
    own = data_folder(os.environ)
    folders = [translate_folder(resolve_existing(config_folder(path, os.environ)), own) for path in named]
    home = Home(scan_all(drop_nested(root for root, _ in folders)))
    for _, skipped in folders:
        for one in skipped:
            home.skip(one)
    return home


def _add_dollars(row: dict[str, Any]) -> dict[str, Any]:
    dollars = {
        name.replace("_micros", "_usd"): None if micros is None else micros / _MICROS
        for name, micros in row.items()
        if name.endswith("_micros")
    }
    return row | dollars


def _time_text(time: str | date | datetime | None) -> str | None:
    return time.isoformat() if isinstance(time, date) else time


def _arrow_array(core: Any, values: Sequence[Any]) -> Any:
    """Return a column: numbers, text, lists of text, or nothing at all."""
    known = next((value for value in values if value is not None), None)
    if any(isinstance(value, float) for value in values):
        kind = core.DataType.float64()
    elif isinstance(known, bool):
        kind = core.DataType.bool()
    elif isinstance(known, int):
        kind = core.DataType.int64()
    elif isinstance(known, list | tuple):
        ends = itertools.accumulate(len(value or ()) for value in values)
        texts = [text for value in values for text in value or ()]
        offsets = core.Array([0, *ends], core.DataType.int32())
        return core.list_array(offsets, core.Array(texts, core.DataType.string()))
    else:
        kind = core.DataType.string()
    return core.Array(list(values), kind)


def _import_library(name: str) -> Any:
    """Import a library that no extra of unspool installs."""
    try:
        return import_module(name)
    except ImportError:
        raise Refused(f"this needs {name}, which is not installed", hint=f"pip install {name}") from None


def _html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table for a notebook. Titles and names come from transcripts, so all of it is escaped."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_format_cell(cell))}</td>" for cell in row) + "</tr>" for row in rows if row
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_cell(cell: object) -> str:
    match cell:
        case None:
            return "–"
        case bool():
            return str(cell).lower()
        case int():
            return f"{cell:,}"
        case float():
            return f"{cell:,.4f}"
        case tuple() | list():
            return ", ".join(map(str, cell))
        case _:
            return str(cell)
