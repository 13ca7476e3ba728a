"""The tools that answer with figures: `usage`, `sql`, and `list_running`."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from unspool.display import units
from unspool.errors import UnspoolError, UsageError
from unspool.mcp_server.answer import one_line
from unspool.mcp_server.arguments import RunningArguments, SqlArguments, UsageArguments
from unspool.mcp_server.history import History
from unspool.store.sql import fetch_text_rows
from unspool.store.usage import PERIODS, UsageFigures, parse_request, report_usage

_MAX_ROWS: Final = 500
_MAX_DRAINED: Final = 20_000
"""Rows after those that are shown, read so that the engine can be kept."""
_CELL: Final = 500
"""Characters of a cell."""
_MAX_RUNNING: Final = 50


def report_costs(history: History, given: UsageArguments) -> str:
    """Answer with tokens and costs, newest first."""
    if given.period not in PERIODS:
        raise UsageError(f"unknown period `{one_line(given.period, 40)}`", hint=f"use one of: {', '.join(PERIODS)}")
    answer = history.begin_answer(given.token_budget)
    site = history.site
    request = parse_request(given.period, site.now(), site.zone, since=given.since, until=given.until)
    with site.open() as access:
        report = report_usage(access.ledger, request._replace(project=given.project, order="desc"))
    answer.add(f"total · {_describe_figures(report.totals)}")
    label = PERIODS[given.period].labels[0]
    shown = 0
    for row in report.rows:
        name = row.labels[label] or "(none)"
        more = [str(row.labels[other]) for other in ("project", "session") if other != label and row.labels.get(other)]
        text = " · ".join([answer.line(str(name), 120), *(answer.line(each, 80) for each in more)])
        if row.labels.get("is_gap"):
            shown += 1
            continue
        if not answer.add(f"- {text} · {_describe_figures(row.figures)}"):
            break
        shown += 1
    if shown < len(report.rows):
        answer.hint(f"{len(report.rows) - shown:,} more rows: name a shorter time with since and until.")
    return answer.finish()


def _describe_figures(figures: UsageFigures) -> str:
    return (
        f"{units.cost(figures.cost_micros, figures.unpriced_tokens)} · {units.tokens(figures.input_tokens)} in, "
        f"{units.tokens(figures.output_tokens)} out, {units.tokens(figures.cache_read_tokens)} cache read, "
        f"{units.tokens(figures.cache_write_tokens)} cache written · {figures.responses:,} responses"
    )


def run_sql(history: History, given: SqlArguments) -> str:
    """Answer with the rows of a query, which runs in the locked engine."""
    answer = history.begin_answer(given.token_budget)
    with history.sql_engine.open() as engine:
        try:
            header, found = fetch_text_rows(engine, given.query, null="NULL")
            rows = list(islice(found, given.offset, given.offset + _MAX_ROWS + 1))
            # An engine whose result is not read to its end must be started again.
            deque(islice(found, _MAX_DRAINED), maxlen=0)
        except UnspoolError as error:
            # DuckDB quotes values of the tables in its messages: they are text of transcripts too.
            answer.add(f"error: {error.message}", most=answer.left - 4)
            answer.hint(error.hint or "Tables: SHOW TABLES. Columns: DESCRIBE sessions.")
            return answer.finish()
    answer.add(" | ".join(header.names), most=answer.left - 4)
    shown = 0
    for row in rows[:_MAX_ROWS]:
        if not answer.add(" | ".join(answer.line(cell or "", _CELL) for cell in row), most=max(answer.left // 2, 40)):
            break
        shown += 1
    if not rows:
        answer.hint("No rows.")
    elif shown < len(rows):
        answer.hint(f'More rows: the same query with "offset": {given.offset + shown}.')
    return answer.finish()


def list_running(history: History, given: RunningArguments) -> str:
    """Answer with what each session is doing now, those that need the user first."""
    from unspool.live.state import BoardGroup, describe_verdict, row_sort_key

    answer = history.begin_answer(given.token_budget)
    now = history.site.now()
    resting = (BoardGroup.ENDED, BoardGroup.IDLE)
    rows = sorted(history.read_board(now), key=row_sort_key)
    chosen = [row for row in rows if given.all or row.group not in resting]
    shown = 0
    for row in chosen[:_MAX_RUNNING]:
        parts = [
            f"- session {row.session_id[:8]}" + (f" agent {row.agent_id}" if row.agent_id else ""),
            row.group.value,
            answer.line(describe_verdict(row.verdict, now), 160),
            answer.line(row.title or row.goal, 120),
            answer.line(row.project or "", 60),
            answer.line(row.branch or "", 60),
            f"last line {row.last.astimezone(history.site.zone):%Y-%m-%d %H:%M}" if row.last else "",
        ]
        if not answer.add(" · ".join(part for part in parts if part)):
            break
        shown += 1
    answer.hint(f"{shown} of {len(chosen)} sessions that are at work; {len(rows) - len(chosen)} are at rest.")
    return answer.finish()
