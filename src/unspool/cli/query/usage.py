"""`unspool usage`: reports tokens and cost, as a table, CSV or JSON."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

from unspool.cli import options, output, store_access
from unspool.display import TextColumn, clean_line, table, units
from unspool.errors import NothingFound, UsageError
from unspool.format import parse_local_time, parse_zone, to_utc_text
from unspool.paths import data_folder
from unspool.store import StoreAccess, preferences
from unspool.store.usage import PERIODS, UsageFigures, UsageReport, UsageRequest, UsageRow, report, total_of_rows

if TYPE_CHECKING:
    from unspool.store.usage import Ledger

_NOTHING = "no billed responses found"

# Kept until the process ends, which it does without freeing memory (`__main__.py`, rule 2): freeing takes time.
_HELD: list[Ledger] = []

_NONE = "(none)"
_SHORT = re.compile(r"(?:claude-)?(.+?)(?:-\d{8})?", re.ASCII)
_FORMULA_STARTS = ("=", "+", "-", "@")
"""Characters that a spreadsheet takes for the beginning of a formula."""

_PARTS = " ▏▎▍▌▋▊▉"
_BAR = 12
_HEADS = {
    "session": [TextColumn("session"), TextColumn("project", least=8, expendable=True), TextColumn("last")],
    "agent": [TextColumn("agent", least=12), TextColumn("session")],
    "blocks": [TextColumn("block"), TextColumn("")],
    "model": [TextColumn("model", least=20)],
    "project": [TextColumn("project", least=12)],
    "branch": [TextColumn("branch", least=12)],
}
_NUMBERS = [
    TextColumn("input", right=True),
    TextColumn("output", right=True),
    TextColumn("cache write", right=True),
    TextColumn("cache read", right=True),
    TextColumn("total", right=True, expendable=True),
    TextColumn("responses", right=True, expendable=True),
    TextColumn("cost", right=True),
]


@click.command()
@click.argument("period", type=click.Choice(list(PERIODS)), default="daily", metavar="[PERIOD]")
@click.option("--since", metavar="TIME", help="Only since TIME: a date, an age like `12h` or `7d`, or `last week`")
@click.option("--until", metavar="TIME", help="Only until TIME; a date means the end of that day")
@click.option(
    "--tz", metavar="ZONE", help="Time zone of days and hours: Europe/Berlin, UTC, +05:30. Default: local time"
)
@click.option("-p", "--project", metavar="TEXT", help="Only this project: its name, part of its path, or its key")
@click.option("--order", type=click.Choice(["asc", "desc"]), help="Sort by time; rows without a time by cost")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    help="Only the newest N rows, 0 for all; totals count all rows",
)
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N periods; totals count these")
@click.option("--breakdown", is_flag=True, help="Show the models of each row below it")
@click.option("--active", is_flag=True, help="With blocks: only the running 5-hour window, with its limit")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a header and the rows, without totals")
@click.option("--explain", is_flag=True, help="Show which lines were counted, merged and dropped, and why")
@options.store_options
@options.list_output_options
@output.paged
def usage(
    *,
    period: str,
    since: str | None,
    until: str | None,
    tz: str | None,
    project: str | None,
    order: str | None,
    limit: int | None,
    last: int | None,
    breakdown: bool,
    active: bool,
    as_csv: bool,
    explain: bool,
    access: options.AccessOptions,
    as_json: bool,
    as_lines: bool,
) -> None:
    """Report tokens and cost by day, session, model, 5-hour block and more.

    PERIOD is daily (default), weekly, monthly, session, model, project, branch, agent or blocks.

    Every response counts once, however many lines and files repeat it. Costs follow the public price list; for a
    subscription they are what the same use would cost with the API. docs/usage.md explains the figures.
    """
    if as_csv and (as_json or explain):
        hint = "remove one of them; --explain --json works"
        raise UsageError("--csv cannot be used with --json or --explain", hint=hint)
    if as_csv and breakdown:
        raise UsageError("--csv cannot be used with --breakdown", hint="use `unspool usage model --csv`, or --json")
    if active and period != "blocks":
        raise UsageError("--active needs the period blocks", hint="run `unspool usage blocks --active`")
    if last is not None and period != "session" and not PERIODS[period].by_time:
        raise UsageError(f"--last cannot be used with {period}", hint="use --limit for the largest rows")
    own = preferences.read_preferences(data_folder(os.environ))
    zone = parse_zone(tz or own.timezone or "local")
    request = report.parse_request(period, datetime.now(UTC), zone, since=since, until=until)
    request = request._replace(project=project, order=order, breakdown=breakdown, limits=own.limits)
    with store_access.open_folders(access) as opened:
        ledger = opened.ledger
        _HELD.append(ledger)
        if explain:
            _explain(opened, ledger, request, as_json=as_json)
            return
        usage_report = report.keep_newest(report.report_usage(ledger, request), last, all_totals=False)
        if active:
            rows = [row for row in usage_report.rows if row.labels["is_active"]]
            usage_report = usage_report._replace(rows=rows, totals=total_of_rows(rows))
        if as_json or as_lines:
            shown = report.keep_newest(usage_report, limit or None, all_totals=True)
            _write_json(shown, opened, as_lines=as_lines)
            return
        _write_report(usage_report, request, limit, "csv" if as_csv else "table")


def _write_json(shown: UsageReport, opened: StoreAccess, *, as_lines: bool) -> None:
    """Write a report as a JSON document, or its rows as JSON lines."""
    data = shown.data()
    items = [_json_item(row) for row in data["rows"]]
    if as_lines:
        output.write_lines(items)
    else:
        named = {"period": shown.period, "items": items, "rows": items, "totals": data["totals"]}
        output.write_document("usage", named, opened.skipped)
    if not items:
        raise NothingFound(_NOTHING)


def _write_report(usage_report: UsageReport, request: UsageRequest, limit: int | None, form: str) -> None:
    shown = report.keep_newest(usage_report, limit or None, all_totals=True)
    if form == "csv":
        click.echo(csv_text(shown), nl=False)
    if not usage_report.rows:
        raise NothingFound(_NOTHING)
    if form == "csv":
        return
    left_out = len(usage_report.rows) - len(shown.rows)
    print_report(shown, left_out, request.zone)


def _explain(opened: StoreAccess, ledger: Ledger, request: UsageRequest, *, as_json: bool) -> None:
    from unspool.store.usage import UsageQuery

    lines = ledger.explain(UsageQuery(since=request.since, until=request.until, project=request.project))
    if as_json:
        explained = {outcome: [_json_explanation(line) for line in members] for outcome, members in lines.items()}
        output.write_document("usage-explain", explained, opened.skipped)
    if not any(lines.values()):
        raise NothingFound(_NOTHING)
    if not as_json:
        print_explanation(lines)


def _json_item(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the names that its labels have in every document, and times in UTC."""
    named = {new: row[old] for new, old in (("session_id", "session"), ("agent_id", "agent")) if old in row}
    times = (("started_at", "first"), ("started_at", "block_start"), ("ended_at", "last"))
    return named | {new: to_utc_text(row[old]) for new, old in times if old in row} | row


def _json_explanation(line: dict[str, Any]) -> dict[str, Any]:
    new_names = (("path", "file"), ("session_id", "session"), ("agent_id", "agent"), ("time", "timestamp"))
    named = {new: line[old] for new, old in new_names if old in line}
    if "timestamp" in line:
        named["time"] = to_utc_text(line["timestamp"])
    counted = {"counted": {"path": line["counted"]["file"], **line["counted"]}} if "counted" in line else {}
    return {**named, **line, **counted}


def print_report(report: UsageReport, left_out: int, zone: tzinfo | None) -> None:
    """Write a report as a table, and below it the notes: estimates, models without a price, rows left out."""
    head = _HEADS.get(report.period) or [TextColumn(PERIODS[report.period].labels[0])]
    models = [] if report.period == "model" else [TextColumn("models", least=8, expendable=True)]
    columns = [*head, *models, *_NUMBERS]
    lines = [
        line
        for row in report.rows
        for line in (
            [*_head(report.period, row, zone), *_rest(report.period, row.figures, row.labels.get("is_gap", False))],
            *(_model_line(report.period, part, len(head)) for part in row.by_model),
        )
    ]
    total = ["total", *[""] * (len(head) - 1), *_rest(report.period, report.totals)]
    if models:
        total[len(head)] = ""
    lines.append(total)
    # Bars only where no column has to be cut for them.
    cells = [[clean_line(cell) for cell in line] for line in lines]
    width = sum(table.natural_widths(columns, cells)) + 2 * len(columns) + _BAR
    has_parts = any(row.by_model for row in report.rows)
    if sys.stdout.isatty() and not has_parts and width <= output.terminal_width():
        columns.append(TextColumn(""))
        most = max(row.figures.cost_micros for row in report.rows)
        for line, row in zip_longest(lines, report.rows):
            line.append(draw_bar(row.figures.cost_micros, most) if row else "")
    output.print_table(columns, lines)
    for note in _notes(report, left_out, zone):
        output.print_line(note)


def csv_text(report: UsageReport) -> str:
    """Return the rows as CSV (RFC 4180) with a header; text that a spreadsheet would run gets a `'` before it."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*PERIODS[report.period].labels, *UsageFigures._fields])
    for row in report.rows:
        writer.writerow([_cell(value) for value in row.data().values()])
    return text.getvalue()


def print_explanation(lines: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write which lines were counted, merged and dropped, by reason; as many places as fit a page."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for outcome, members in lines.items():
        for line in members:
            groups.setdefault((outcome, line["why"]), []).append(line)
    folder = _common_folder({line["file"] for members in lines.values() for line in members})
    each = max(1, (output.terminal_size((80, 24)).lines - 3) // len(groups) - 1)
    output.print_line(f"in {folder}")
    for (outcome, why), members in groups.items():
        output.print_heading(f"{outcome}: {units.amount(len(members), 'line')}, {why}")
        output.print_pairs((_place(line, folder), _describe_line(line, folder)) for line in members[:each])
    if left_out := sum(max(0, len(members) - each) for members in groups.values()):
        output.print_line(f"… and {left_out:,} more; list all with --json")


def draw_bar(value: int, most: int) -> str:
    """Return a bar whose length is the share of a value in the largest one."""
    full, rest = divmod(value * _BAR * 8 // most, 8) if most else (0, 0)
    return ("█" * full + _PARTS[rest]).rstrip()


def short_model_name(model: str) -> str:
    """Return a model's name without the prefix and the date that most names have.

    >>> short_model_name("claude-opus-4-5-20251101")
    'opus-4-5'
    """
    match = _SHORT.fullmatch(model)
    return match[1] if match else model


def _head(period: str, row: UsageRow, zone: tzinfo | None) -> list[str]:
    labels = row.labels
    match period:
        case "session":
            return [(labels["session"] or _NONE)[:8], labels["project"] or _NONE, (labels["last"] or _NONE)[:10]]
        case "agent":
            is_main = labels["session"] is None and labels["agent"] == "main"
            return [labels["agent"], "" if is_main else (labels["session"] or _NONE)[:8]]
        case "blocks":
            return _block(labels, zone)
        case _:
            return [labels[PERIODS[period].labels[0]] or _NONE]


def _block(labels: Mapping[str, Any], zone: tzinfo | None) -> list[str]:
    start, end = parse_local_time(labels["block_start"], zone), parse_local_time(labels["block_end"], zone)
    if start is None or end is None:
        return [_NONE, ""]
    if labels["is_gap"]:
        return [f"{start:%Y-%m-%d %H:%M}", f"gap of {units.duration(end - start)}"]
    return [f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}", "active" if labels["is_active"] else ""]


def _rest(period: str, numbers: UsageFigures, is_gap: bool = False) -> list[str]:
    if is_gap:
        return [""] * (1 + len(_NUMBERS))
    sent = (numbers.input_tokens, numbers.output_tokens)
    counts = (*sent, numbers.cache_write_tokens, numbers.cache_read_tokens, numbers.total_tokens, numbers.responses)
    names = [] if period == "model" else [", ".join(dict.fromkeys(map(short_model_name, numbers.models)))]
    cost = units.cost(numbers.cost_micros, numbers.unpriced_tokens)
    return [*names, *(f"{count:,}" for count in counts), cost]


def _model_line(period: str, part: UsageRow, heads: int) -> list[str]:
    """Return the line of one model below a row."""
    names, *numbers = _rest("", part.figures)
    # In the first column, which no table leaves out for want of width.
    rest = ["", *numbers] if period != "model" else numbers
    return [f"  {names or _NONE}", *[""] * (heads - 1), *rest]


def _notes(report: UsageReport, left_out: int, zone: tzinfo | None) -> Iterable[str]:
    totals = report.totals
    if left_out:
        yield f"… and {units.amount(left_out, 'more row')}; the total counts all"
    for row in report.rows:
        if report.period == "blocks" and row.labels["is_active"]:
            yield _describe_active_block(row, zone)
    if count := totals.estimated_responses:
        has = "has only a partial count of its output" if count == 1 else "have only a partial count of their output"
        tokens = totals.estimated_output_tokens
        money = units.cost(totals.estimated_cost_micros, totals.unpriced_tokens)
        yield f"{units.amount(count, 'response')} {has}; the estimated total is {tokens:,} tokens, {money}"
    if totals.unpriced_tokens:
        names = ", ".join(name or _NONE for name in report.unpriced)
        yield (
            f"{units.amount(totals.unpriced_tokens, 'token')} of models without a known price, not in the cost: {names}"
        )


def _describe_active_block(row: UsageRow, zone: tzinfo | None) -> str:
    """Return the rate of the active block, what it will cost at that rate, and when its limit resets."""
    labels, parts = row.labels, []
    if labels["burn_rate"] is not None:
        parts.append(f"{labels['burn_rate']:,} tokens a minute")
        parts.append(f"{units.dollars(labels['cost_per_hour_micros'])} an hour")
        parts.append(f"projected {units.dollars(labels['projected_cost_micros'])}")
    if labels["limit_amount"]:
        parts.append(_describe_limit(labels))
    if labels["resets_at"]:
        parts.append(f"limit reached, resets {parse_local_time(labels['resets_at'], zone):%Y-%m-%d %H:%M}")
    end = parse_local_time(labels["block_end"], zone)
    return f"active until {end:%H:%M}" + (f": {', '.join(parts)}" if parts else "")


def _describe_limit(labels: Mapping[str, Any]) -> str:
    amount = labels["limit_amount"]
    limit = units.dollars(amount) if labels["limit_unit"] == "cost" else f"{amount:,} tokens"
    source = "the largest earlier window" if labels["limit_is_learned"] else "the limit in the settings"
    used = labels["limit_used_percent"]
    return f"{used}% of {limit} used, {max(100 - used, 0)}% left ({source})"


def _cell(value: Any) -> Any:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple():
            return _cell(";".join(value))
        case str():
            # Cleaned first: what is taken out must not bring a formula to the front.
            text = clean_line(value)
            return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
        case _:
            return value


def _common_folder(files: Iterable[str]) -> str:
    """Return the folder that all files lie in."""
    # What the first and the last in sorted order share, all between them share.
    first, last = min(files), max(files)
    shared = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    return first[:shared].rpartition("/")[0]


def _place(line: Mapping[str, Any], folder: str) -> str:
    return f"{line['file'].removeprefix(folder).lstrip('/')}:{line['offset']}"


def _describe_line(line: Mapping[str, Any], folder: str) -> str:
    parts = [line.get("id") or ""]
    if "cost_micros" in line:
        tokens = sum(line.get(f"{kind}_tokens", 0) for kind in ("input", "output", "cache_write", "cache_read"))
        model = short_model_name(line.get("model") or _NONE)
        parts += [model, units.amount(tokens, "token"), units.cost(line["cost_micros"])]
    elif counted := line.get("counted"):
        is_near = counted["file"] == line["file"]
        parts.append(f"counted at {counted['offset'] if is_near else _place(counted, folder)}")
    return "  ".join(part for part in parts if part)
