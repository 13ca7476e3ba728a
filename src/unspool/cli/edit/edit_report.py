"""Prints edits: a table of before and after, what is removed and why, how to undo it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unspool.cli import output
from unspool.display import table
from unspool.edit import changes_as_json, edit_as_json
from unspool.errors import NothingFound

if TYPE_CHECKING:
    from unspool.edit import Edited, Planned
    from unspool.edit.apply import Journal
    from unspool.edit.planning import Payback

_SHOWN = 12


def print_plan(planned: Planned, claude: bool | None, *, as_json: bool) -> None:
    """Say what an edit would do."""
    if as_json:
        faults = {"faults": list(planned.verified.faults)} if planned.verified.faults else {}
        output.write_json(
            {
                **edit_as_json(planned, claude=claude),
                "undo_id": None,
                "changes": changes_as_json(planned.plan),
                **faults,
            }
        )
        return
    output.print_heading(f"{planned.plan.operation} {planned.plan.source}: nothing is written")
    _table(planned)
    _reasons(planned)
    _checks(planned, claude)


def print_applied(edited: Edited, *, as_json: bool) -> None:
    """Say what an edit did."""
    planned = edited.planned
    if as_json:
        output.write_json({**edit_as_json(planned, claude=edited.claude), "undo_id": edited.undo_id})
        return
    output.print_heading(f"{planned.plan.operation} {planned.plan.source}")
    _table(planned)
    _checks(planned, edited.claude)
    output.print_line()
    where = "in place" if planned.plan.in_place else str(edited.path)
    output.print_pairs(
        [
            ("session", planned.plan.session),
            ("written", where),
            ("go on", f"claude --resume {planned.plan.session}"),
            ("take it back", f"unspool edit undo {edited.undo_id}"),
        ]
    )


def print_undone(journal: Journal, *, as_json: bool) -> None:
    """Say what was taken back."""
    files = [action.target or action.path for action in journal.actions]
    if as_json:
        output.write_json(
            {"undo_id": journal.id, "operation": journal.operation, "source": journal.source,
             "session": journal.session, "path": journal.path, "files": files}
        )  # fmt: skip
        return
    what = "removed again" if journal.session != journal.source else "as it was"
    output.print_line(
        f"undid {journal.operation} {journal.id}: {journal.session} is {what}, {output.amount(len(files), 'file')}"
    )


def print_log(journals: Sequence[Journal], *, as_json: bool) -> None:
    """List edits, newest first."""
    if as_json:
        output.write_json([{**one.report, "undo_id": one.id, "when": one.when, "state": one.state} for one in journals])
        return
    if not journals:
        raise NothingFound("no edits yet", hint="`unspool edit --help` tells what there is")
    columns = [
        table.TextColumn("ID"),
        table.TextColumn("WHEN", expendable=True),
        table.TextColumn("EDIT"),
        table.TextColumn("SESSION", least=8),
        table.TextColumn("CAME OF", least=8),
        table.TextColumn("TOKENS", right=True),
        table.TextColumn("STATE"),
    ]
    rows = [
        (one.id, one.when, one.operation, one.session, one.source, _tokens(one), one.state)
        for one in reversed(journals)
    ]
    table.write_table(columns, rows, output.terminal_width())


def _tokens(journal: Journal) -> str:
    numbers = journal.report.get("context_tokens") or [0, 0]
    return f"{numbers[0]:,} → {numbers[1]:,}"


def _table(planned: Planned) -> None:
    plan = planned.plan
    columns = [table.TextColumn(""), *(table.TextColumn(name, right=True) for name in ("BEFORE", "AFTER", "LESS"))]
    words = "context tokens" if plan.exact_tokens else "context tokens, about"
    rows = [
        ("lines", f"{plan.lines.before:,}", f"{plan.lines.after:,}", _less(*plan.lines)),
        ("file", output.size(plan.file_bytes.before), output.size(plan.file_bytes.after), _less(*plan.file_bytes)),
        (words, f"{plan.context_tokens.before:,}", f"{plan.context_tokens.after:,}", _less(*plan.context_tokens)),
    ]
    table.write_table(columns, rows, output.terminal_width())
    if plan.removed:
        output.print_line()
        output.print_pairs(
            (name, f"{count:,}") for name, count in sorted(plan.removed.items(), key=lambda one: -one[1])
        )
    if plan.payback is not None:
        output.print_line(_worth(plan.payback))


def _less(before: int, after: int) -> str:
    return f"{100 * (before - after) / before:.0f} %" if before else "–"


def _worth(payback: Payback) -> str:
    cost = f"${payback.rewrite_micros / 1e6:.4f}"
    once = f"reading the changed context anew costs about {cost} once ({payback.rewritten_tokens:,} tokens)"
    if payback.requests is None:
        return f"{once}; it does not pay for itself"
    each = f"${payback.saved_micros / 1e6:.4f}"
    after = f"{output.amount(payback.requests, 'request')}, about {output.amount(payback.turns or 0, 'turn')}"
    return f"{once}, each request less by {each}: it pays after {after}"


def _reasons(planned: Planned) -> None:
    counts = Counter((change.kind, change.reason) for change in planned.plan.changes)
    if not counts:
        return
    output.print_line()
    output.print_heading("what goes, and why")
    output.print_pairs((f"{count:,} × {kind}", reason) for (kind, reason), count in counts.most_common(_SHOWN))
    if len(counts) > _SHOWN:
        output.print_line(f"  … and {len(counts) - _SHOWN:,} more; `--json` lists all")


def _checks(planned: Planned, claude: bool | None) -> None:
    found = planned.verified
    words = ["rules kept" if found.invariants else "rules broken", "API takes it" if found.replay else "API refuses it"]
    if claude is not None:
        words.append("Claude Code sends it as predicted" if claude else "Claude Code sends something else")
    output.print_line(f"checked: {', '.join(words)}")
    for fault in found.faults[:_SHOWN]:
        output.print_line(f"  {fault}")
