"""Names the rules that a session file must keep, and compares the violations of two states of a session.

| level      | rules     | where they are checked                                                       |
|------------|-----------|------------------------------------------------------------------------------|
| file       | F1        | `check.py`: whole lines, a line end after the last                           |
| graph      | G1 – G6   | `graph.py`: ids, pointers, leaf, blocks of a message, metadata               |
| API        | A1 – A7   | `check.py`: what the API would refuse in the request that resumes it         |
| accounting | C1        | `graph.py`: usage is recorded                                                |
| side files | S1, S2    | `check.py`: agents, overflow of results, backups, the project's folder       |

Genuine files break some of these rules themselves. An edit may therefore keep what was wrong, and adds nothing
(`new_violations`). Rules that compare two states (F2, F3, G3's "same leaf", A5, C2) are checked where both are at hand:
`edit/verify/verify.py`.

A violation is identified by its rule and its subject, the id of a line or call: offsets move when a file is edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

RULES = {
    "F1": "every line is one complete JSON object, and the last one ends with a newline",
    "G1": "line ids are unique, and every line names its own session",
    "G2": "every pointer refers to a line of the file, parents form no cycle, and there is one root",
    "G3": "there is a message to resume from",
    "G4": "blocks of a message are in order, and the parent of a result is its own call",
    "G5": "titles and last prompt are where session lists look for them; a compaction has its summary",
    "G6": "the lines that a compaction preserves exist",
    "A1": "the first message is the user's; no message is empty, no text blank",
    "A2": ("each call has exactly one result at the start of the next message, and each result has a call"),
    "A3": "the input of a tool is an object",
    "A4": "thinking blocks have a signature",
    "A7": "calls run by the API have their results in the same message",
    "C1": "every response has its usage",
    "S1": "side files that lines refer to exist and belong to this session",
    "S2": "the folder has the name that Claude Code gives it",
}
"""The text of each rule, as `unspool doctor` shows it."""


class Violation(NamedTuple):
    """A broken rule: file and offset say where, the subject says which line or call."""

    rule: str
    offset: int
    message: str
    subject: str = ""
    """The id of the line or call, or what else tells this violation from others of its rule."""
    file: str = ""


def sort_violations(violations: Iterable[Violation], file: str = "") -> list[Violation]:
    """Return violations with the file they are in, in order of place."""
    return sorted((violation._replace(file=file) for violation in violations), key=lambda one: (one.offset, one.rule))


def new_violations(
    after: Sequence[Violation], before: Sequence[Violation], source_subject: Callable[[str], str] = str
) -> list[Violation]:
    """Return the violations that the source did not have; `source_subject` translates a subject to the source's ids."""
    had = Counter((violation.rule, violation.subject) for violation in before)
    new: list[Violation] = []
    for violation in after:
        key = (violation.rule, source_subject(violation.subject))
        if had[key] <= 0:
            new.append(violation)
        had[key] -= 1
    return new
