"""The shape of a session: its turns by number, which branch each is on, and the tree they form.

Rules
  1. Turns are numbered in file order from 1, whichever branch they are on. What comes before the first is number 0.
  2. A turn whose prompt is not part of the graph (queued, before 2.1.100) is on the branch of the turn before it.

[merged: nested.py] The agents of a session under the calls that started them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unspool.display.units import amount
from unspool.export.story import Call, Story
from unspool.format.entry import Entry
from unspool.graph.agents import Agent, AgentClass
from unspool.graph.threads import Thread, is_boundary
from unspool.graph.turns import Turn
from unspool.home import Session


class Section(msgspec.Struct, frozen=True):
    """A turn and where it stands."""

    number: int
    entries: tuple[Entry, ...]
    """The prompt's line first, but for number 0, which has none."""
    turn: Turn | None = None
    left: bool = False
    """On a branch that was left: a resumed session does not go on from here."""
    starts_branch: bool = False


class Branch(msgspec.Struct, frozen=True):
    """Turns that follow one another, and what follows the last of them."""

    sections: tuple[Section, ...]
    branches: tuple[Branch, ...] = ()

    @property
    def compacted(self) -> tuple[int, ...]:
        """The numbers of the turns in which the conversation was compacted."""
        return tuple(one.number for one in self.sections if any(map(is_boundary, one.entries)))


def sections(session: Session) -> list[Section]:
    """Return the turns of a session with their numbers; number 0 only if something comes before the first."""
    found = []
    first = session.turns[0].prompt.offset if session.turns else None
    before = tuple(entry for entry in session.entries if first is None or entry.offset < first)
    if before:
        found.append(Section(0, before))
    active = _offsets(session.thread)
    known = {offset for thread in session.threads for offset in _offsets(thread)}
    forks = {thread.fork.offset for thread in session.threads if thread.fork is not None}
    left = False
    for number, turn in enumerate(session.turns, 1):
        offset = turn.prompt.offset
        left = offset not in active if offset in known else left
        entries = (turn.prompt, *turn.entries)
        found.append(Section(number, entries, turn, left, any(entry.offset in forks for entry in entries[:1])))
    return found


def tree(session: Session) -> tuple[Branch, ...]:
    """Return the turns as the tree their branches form: normally one branch with all of them."""
    numbered = [section for section in sections(session) if section.turn is not None]
    ways = [_way(numbered, session.threads, thread) for thread in session.threads] or [numbered]
    return _grown([way for way in ways if way])


def chosen(wanted: str, count: int) -> range | None:
    """Return the turns a person means by `3`, `-1`, `2..5`, `4..` or `..3`; None if it is none of these.

    >>> chosen("2..", 5), chosen("-1", 5)
    (range(2, 6), range(5, 6))
    """
    first, dots, last = wanted.partition("..")
    try:
        start = _number(first, count) if first else 1
        stop = (_number(last, count) if last else count) if dots else start
    except ValueError:
        return None
    if not first and not dots:
        return None
    return range(max(start, 0), min(stop, count) + 1)


def _number(text: str, count: int) -> int:
    number = int(text)
    return count + 1 + number if number < 0 else number


def _offsets(thread: Thread | None) -> set[int]:
    return {entry.offset for entry in thread.entries} if thread else set()


def _way(numbered: Sequence[Section], threads: Sequence[Thread], thread: Thread) -> list[Section]:
    """Return the turns of a thread; one that no thread has goes where the turn before it goes."""
    own = _offsets(thread)
    known = {offset for one in threads for offset in _offsets(one)}
    way: list[Section] = []
    for section in numbered:
        offset = section.entries[0].offset
        follows = section.number == 1 or (way and way[-1].number == section.number - 1)
        if offset in own or (offset not in known and follows):
            way.append(section)
    return way


def _grown(ways: list[list[Section]]) -> tuple[Branch, ...]:
    """Join ways by what they have in common at their start."""
    groups: dict[int, list[list[Section]]] = {}
    for way in ways:
        groups.setdefault(way[0].number, []).append(way)
    branches = []
    for group in groups.values():
        shared = 0
        shortest = min(group, key=len)
        while shared < len(shortest) and all(way[shared].number == shortest[shared].number for way in group):
            shared += 1
        rest = [way[shared:] for way in group if way[shared:]]
        branches.append(Branch(tuple(shortest[:shared]), _grown(rest)))
    return tuple(branches)


class NestedAgent(msgspec.Struct, frozen=True):
    """An agent and its lines."""

    agent: Agent
    entries: Sequence[Entry]

    @property
    def words(self) -> str:
        """What it is, on one line."""
        kind = self.agent.type or (self.agent.kind.value if self.agent.kind is not AgentClass.TASK else "")
        return " ".join(part for part in (f"agent {self.agent.id}", f"({kind})" if kind else "") if part)


def by_call(session: Session) -> dict[str, list[NestedAgent]]:
    """Return the agents of a session by the call that started each."""
    found: dict[str, list[NestedAgent]] = {}
    for agent, file in zip(session.agents, session.agent_files, strict=True):
        if agent.call is not None:
            found.setdefault(agent.call.id, []).append(NestedAgent(agent, file.entries))
    return found


def did(entries: Sequence[Entry]) -> str:
    """Say how much an agent did: `12 calls, 1 failed`."""
    calls = [step.call for step in Story(entries).steps(entries) if isinstance(step, Call)]
    failed = sum(call.failed for call in calls)
    return amount(len(calls), "call") + (f", {failed:,} failed" if failed else "")
