"""`unspool doctor --session`: whether one session keeps the rules that resuming it rests on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from unspool.cli import output, reading, sessions
from unspool.edit.checking import violations
from unspool.edit.found import Violation
from unspool.edit.invariants import RULES
from unspool.home import Session

_SHOWN = 10
"""How many violations of a rule are shown; `--json` has them all."""


def report(name: str, how: reading.How, *, as_json: bool) -> None:
    """Say which rules a session breaks."""
    with sessions.found(name, how) as session:
        found = violations(session)
    if as_json:
        output.write_json({"session": session.id, "path": str(session.path), "violations": as_data(found)})
    else:
        _show(session, found)


def as_data(found: list[Violation]) -> list[dict[str, str | int]]:
    """Return violations as plain data."""
    return [{"rule": one.rule, "file": one.file, "offset": one.offset, "message": one.message} for one in found]


def _show(session: Session, found: list[Violation]) -> None:
    output.heading(str(session.path))
    if not found:
        output.line("  keeps every rule: it can be resumed as it is")
        return
    for rule, count in sorted(Counter(one.rule for one in found).items()):
        output.line()
        output.heading(f"{rule}: {RULES[rule]}")
        same = [one for one in found if one.rule == rule]
        output.rows((f"{Path(one.file).name}:{one.offset}", one.message) for one in same[:_SHOWN])
        if count > _SHOWN:
            output.line(f"  … and {count - _SHOWN:,} more; `--json` lists all")
