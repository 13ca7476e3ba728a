"""Prints usage reports as a table or CSV."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from itertools import zip_longest
from typing import Any

from unspool.cli import output
from unspool.display import TextColumn, clean_line, table, units
from unspool.format import parse_local_time
from unspool.store.usage import PERIODS, UsageFigures, UsageReport, UsageRow

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
    TextColumn("responses", right=True, expendable=True),
    TextColumn("cost", right=True),
]


def print_report(report: UsageReport, left_out: int, zone: tzinfo | None) -> None:
    """Write a report as a table, and below it the notes: estimates, models without a price, rows left out."""
    head = _HEADS.get(report.period) or [TextColumn(PERIODS[report.period].labels[0])]
    models = [] if report.period == "model" else [TextColumn("models", least=8, expendable=True)]
    columns = [*head, *models, *_NUMBERS]
    lines = [
        [*_head(report.period, row, zone), *_rest(report.period, row.figures, row.labels.get("is_gap", False))]
        for row in report.rows
    ]
    total = ["total", *[""] * (len(head) - 1), *_rest(report.period, report.totals)]
    if models:
        total[len(head)] = ""
    lines.append(total)
    # Bars only where no column has to be cut for them.
    cells = [[clean_line(cell) for cell in line] for line in lines]
    width = sum(table.natural_widths(columns, cells)) + 2 * len(columns) + _BAR
    if sys.stdout.isatty() and width <= output.terminal_width():
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
    each = max(1, (shutil.get_terminal_size().lines - 3) // len(groups) - 1)
    output.print_line(f"in {folder}")
    for (outcome, why), members in groups.items():
        output.print_heading(f"{outcome}: {units.amount(len(members), 'line')}, {why}")
        output.print_pairs((_place(line, folder), _describe_line(line, folder)) for line in members[:each])
    if left_out := sum(max(0, len(members) - each) for members in groups.values()):
        output.print_line(f"… and {left_out:,} more; --json lists all")


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
    counts = (*sent, numbers.cache_write_tokens, numbers.cache_read_tokens, numbers.responses)
    names = [] if period == "model" else [", ".join(dict.fromkeys(map(short_model_name, numbers.models)))]
    is_unpriced = numbers.unpriced_tokens and not numbers.cost_micros
    cost = "unpriced" if is_unpriced else units.dollars(numbers.cost_micros)
    return [*names, *(f"{count:,}" for count in counts), cost]


def _notes(report: UsageReport, left_out: int, zone: tzinfo | None) -> Iterable[str]:
    totals = report.totals
    if left_out:
        yield f"… and {units.amount(left_out, 'more row')}; the total is of all"
    for row in report.rows:
        if report.period == "blocks" and row.labels["is_active"]:
            yield _describe_active_block(row, zone)
    if count := totals.estimated_responses:
        has = "has only an early count of its output" if count == 1 else "have only an early count of their output"
        tokens, money = totals.estimated_output_tokens, units.dollars(totals.estimated_cost_micros)
        yield f"{units.amount(count, 'response')} {has}; with an estimate it would be {tokens:,} tokens, {money}"
    if totals.unpriced_tokens:
        names = ", ".join(name or _NONE for name in report.unpriced)
        yield f"{units.amount(totals.unpriced_tokens, 'token')} of models without a price: {names}"


def _describe_active_block(row: UsageRow, zone: tzinfo | None) -> str:
    """Return the rate of the active block, what it will cost at that rate, and when its limit resets."""
    labels, parts = row.labels, []
    if labels["burn_rate"] is not None:
        parts.append(f"{labels['burn_rate']:,} tokens a minute")
        parts.append(f"{units.dollars(labels['cost_per_hour_micros'])} an hour")
        parts.append(f"at this rate {units.dollars(labels['projected_cost_micros'])} in the end")
    if labels["resets_at"]:
        parts.append(f"limit reached, resets {parse_local_time(labels['resets_at'], zone):%Y-%m-%d %H:%M}")
    end = parse_local_time(labels["block_end"], zone)
    return f"active until {end:%H:%M}" + (f": {', '.join(parts)}" if parts else "")


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
        parts += [model, units.amount(tokens, "token"), units.dollars(line["cost_micros"])]
    elif counted := line.get("counted"):
        is_near = counted["file"] == line["file"]
        parts.append(f"counted at {counted['offset'] if is_near else _place(counted, folder)}")
    return "  ".join(part for part in parts if part)
