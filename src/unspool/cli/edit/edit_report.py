"""Prints edits: a table of before and after, what is removed and why, how to undo it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unspool.cli import output
from unspool.display import table, units
from unspool.edit import changes_as_json, edit_as_json
from unspool.errors import NothingFound

if TYPE_CHECKING:
    from unspool.edit import Edited, Planned
    from unspool.edit.apply import Journal
    from unspool.edit.planning import Payback

_MAX_ROWS = 12


def print_plan(planned: Planned, claude: bool | None, *, as_json: bool) -> None:
    """Print what an edit would do."""
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
    _print_sizes(planned)
    reasons = Counter((change.kind, change.reason) for change in planned.plan.changes).most_common()
    if reasons:
        pairs = [(f"{count:,} × {kind}", reason) for (kind, reason), count in reasons]
        output.print_section("what goes, and why", pairs, _MAX_ROWS)
    _print_checks(planned, claude)


def print_applied(edited: Edited, *, as_json: bool) -> None:
    """Print what an edit did and how to undo it."""
    planned = edited.planned
    if as_json:
        output.write_json({**edit_as_json(planned, claude=edited.claude), "undo_id": edited.undo_id})
        return
    output.print_heading(f"{planned.plan.operation} {planned.plan.source}")
    _print_sizes(planned)
    _print_checks(planned, edited.claude)
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
    """Print which edit was undone."""
    files = [action.target or action.path for action in journal.actions]
    if as_json:
        output.write_json(
            {"undo_id": journal.id, "operation": journal.operation, "source": journal.source,
             "session": journal.session, "path": journal.path, "files": files}
        )  # fmt: skip
        return
    # An edit that made a new session is undone by removing it.
    what = "removed again" if journal.session != journal.source else "as it was"
    output.print_line(
        f"undid {journal.operation} {journal.id}: {journal.session} is {what}, {units.amount(len(files), 'file')}"
    )


def print_log(journals: Sequence[Journal], *, as_json: bool) -> None:
    """Print the edits; as a table newest first."""
    if as_json:
        output.write_json(
            [{**edit.report, "undo_id": edit.id, "when": edit.when, "state": edit.state} for edit in journals]
        )
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
        (edit.id, edit.when, edit.operation, edit.session, edit.source, _tokens(edit), edit.state)
        for edit in reversed(journals)
    ]
    output.print_table(columns, rows)


def _tokens(journal: Journal) -> str:
    numbers = journal.report.get("context_tokens") or [0, 0]
    return f"{numbers[0]:,} → {numbers[1]:,}"


def _print_sizes(planned: Planned) -> None:
    plan = planned.plan
    columns = [table.TextColumn(""), *(table.TextColumn(name, right=True) for name in ("BEFORE", "AFTER", "LESS"))]
    # Estimates follow what the session itself was billed for; only the API counts exactly (`--exact`).
    label = "context tokens" if plan.exact_tokens else "context tokens, about"
    rows = [
        ("lines", f"{plan.lines.before:,}", f"{plan.lines.after:,}", _less(*plan.lines)),
        ("file", units.size(plan.file_bytes.before), units.size(plan.file_bytes.after), _less(*plan.file_bytes)),
        (label, f"{plan.context_tokens.before:,}", f"{plan.context_tokens.after:,}", _less(*plan.context_tokens)),
    ]
    output.print_table(columns, rows)
    if plan.removed:
        output.print_line()
        output.print_pairs(
            (name, f"{count:,}") for name, count in sorted(plan.removed.items(), key=lambda removed: -removed[1])
        )
    if plan.payback is not None:
        output.print_line(_describe_payback(plan.payback))


def _less(before: int, after: int) -> str:
    return f"{100 * (before - after) / before:.0f} %" if before else "–"


def _describe_payback(payback: Payback) -> str:
    # The API has cached the old context: the changed one is paid in full once before it saves anything.
    cost = f"${payback.rewrite_micros / 1e6:.4f}"
    once = f"reading the changed context anew costs about {cost} once ({payback.rewritten_tokens:,} tokens)"
    if payback.requests is None:
        return f"{once}; it does not pay for itself"
    each = f"${payback.saved_micros / 1e6:.4f}"
    after = f"{units.amount(payback.requests, 'request')}, about {units.amount(payback.turns or 0, 'turn')}"
    return f"{once}, each request less by {each}: it pays after {after}"


def _print_checks(planned: Planned, claude: bool | None) -> None:
    verified = planned.verified
    rules = "rules kept" if verified.invariants else "rules broken"
    results = [rules, "API takes it" if verified.replay else "API refuses it"]
    if claude is not None:
        results.append("Claude Code sends it as predicted" if claude else "Claude Code sends something else")
    output.print_line(f"checked: {', '.join(results)}")
    for fault in verified.faults[:_MAX_ROWS]:
        output.print_line(f"  {fault}")
