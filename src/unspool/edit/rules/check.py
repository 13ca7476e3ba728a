"""What must be true of a session so that Claude Code resumes it and the Messages API takes it. One name for each rule.

| level      | rules     | where they are checked                                                       |
|------------|-----------|------------------------------------------------------------------------------|
| file       | F1        | here: whole lines, a line end after the last                                 |
| graph      | G1 – G6   | `graph_rules.py`: ids, pointers, leaf, blocks of a message, metadata         |
| API        | A1 – A7   | `api_rules.py`, on the messages that would be sent                           |
| accounting | C1        | `graph_rules.py`: what was used is written down                              |
| side files | S1, S2    | `side_rules.py`: agents, overflow of results, backups, the project's folder  |

Genuine files break some of these rules themselves. An edit may therefore keep what was wrong, and adds nothing
(`added`). Rules that compare two states (F2, F3, G3's "same leaf", A5, C2) are checked where both are at hand:
`verify.py`.

Rules
  1. Time is linear in the bytes of the session, whatever is in them.
  2. A violation is known by its rule and its subject, a line's or call's id: offsets move when a file is edited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from unspool.edit.rules import api, graph
from unspool.edit.rules.violation import Violation
from unspool.edit.session_view import Manuscript
from unspool.format.entry import BadLine, Entry
from unspool.graph.context.build import context_of
from unspool.graph.context.pairing import ContextMessage
from unspool.graph.threads import leaf as newest
from unspool.graph.threads import lines_of, main_graph

__all__ = ["RULES", "Checked", "Outlook", "Violation", "added", "check", "outlook"]

RULES = {
    "F1": "every line is one whole JSON object, and the last one ends with a line end",
    "G1": "ids of lines are unique, and every line names the session it lies in",
    "G2": "every pointer leads to a line of the file, no way up comes back on itself, there is one root",
    "G3": "there is a message to go on from",
    "G4": "blocks of a message stand in order, and a result hangs on its own call",
    "G5": "titles and last prompt lie where lists look for them; a compaction has its summary",
    "G6": "what a compaction preserves is there",
    "A1": "the first message is the user's; no message is empty, no text blank",
    "A2": "each call has exactly one result in the next message, at its beginning; no result is without a call",
    "A3": "what a tool is given is an object",
    "A4": "thinking has its signature",
    "A7": "calls that the API itself runs have their results beside them",
    "C1": "what an answer used is written down",
    "S1": "side files that lines speak of are there, and belong to this session",
    "S2": "the folder is named as the program names it",
}
"""Each rule in words."""


class Outlook(NamedTuple):
    """How a session is gone on with: from which line, with which lines, with which messages."""

    leaf: str | None
    lines: list[Entry]
    messages: list[ContextMessage]


class Checked(NamedTuple):
    """What was found, and the messages that were looked at."""

    violations: list[Violation]
    messages: list[ContextMessage]
    leaf: str | None = None


def outlook(manuscript: Manuscript, leaf: str | None = None) -> Outlook:
    """Return how a session is gone on with, from its own leaf or another line."""
    whole = main_graph(manuscript.entries)
    tip = whole.numbers.get(leaf) if leaf is not None else newest(whole)
    lines = lines_of(whole, tip, leaf)
    uuid = whole.nodes[tip].entry.record.uuid if tip is not None else None
    return Outlook(uuid, lines, context_of(lines))


def check(
    manuscript: Manuscript, file: str = "", *, seen: Outlook | None = None, levels: Collection[str] = "FGAC"
) -> Checked:
    """Look at a session's own file; what is known of it already is not found out again. `levels`: of these rules."""
    seen = seen or outlook(manuscript)
    messages = seen.messages
    found = [
        *_file(manuscript),
        *(graph.check(manuscript) if "G" in levels or "C" in levels else ()),
        *(api.check(messages) if "A" in levels else ()),
    ]
    return Checked(placed(found, file), messages, seen.leaf)


def placed(found: Iterable[Violation], file: str) -> list[Violation]:
    """Return violations with the file they are in, in order of place."""
    return sorted((violation._replace(file=file) for violation in found), key=lambda one: (one.offset, one.rule))


def added(
    after: Sequence[Violation], before: Sequence[Violation], known_as: Callable[[str], str] = str
) -> list[Violation]:
    """Return the violations that a source did not have; `known_as` gives the id that the source has for one."""
    had = Counter((violation.rule, violation.subject) for violation in before)
    new: list[Violation] = []
    for violation in after:
        key = (violation.rule, known_as(violation.subject))
        if had[key] <= 0:
            new.append(violation)
        had[key] -= 1
    return new


def _file(manuscript: Manuscript) -> Iterable[Violation]:
    for item in manuscript.items:
        if isinstance(item, BadLine):
            yield Violation("F1", item.offset, f"not a whole JSON object: {item.reason}", item.reason)
    if manuscript.data and not manuscript.data.endswith(b"\n"):
        yield Violation("F1", manuscript.items[-1].offset, "the last line has no line end", "end")
