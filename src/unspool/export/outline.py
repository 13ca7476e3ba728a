"""Numbers the turns of a session, finds the branch of each and the tree they form, and its agents by their calls.

Rules
  1. Turns are numbered in file order from 1, whichever branch they are on. What comes before the first is number 0.
  2. A turn whose prompt is not part of the graph (queued, before 2.1.100) is on the branch of the turn before it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

from unspool.display import amount
from unspool.export.story import ToolCallStep, build_story
from unspool.format import Entry
from unspool.graph import Agent, AgentClass, Thread, Turn, find_tool_calls, is_boundary, lay_out_threads
from unspool.home import Session


class Section(msgspec.Struct, frozen=True):
    """A turn, its number and its branch."""

    number: int
    entries: tuple[Entry, ...]
    """The prompt's line first, but for number 0, which has none."""
    turn: Turn | None = None
    left: bool = False
    """On an abandoned branch: a resumed session does not continue from here."""
    starts_branch: bool = False


class Branch(msgspec.Struct, frozen=True):
    """Turns that follow one another, and the branches after the last of them."""

    sections: tuple[Section, ...]
    branches: tuple[Branch, ...] = ()

    @property
    def compacted(self) -> tuple[int, ...]:
        """The numbers of the turns in which the conversation was compacted."""
        return tuple(section.number for section in self.sections if any(map(is_boundary, section.entries)))


def number_sections(session: Session) -> list[Section]:
    """Return the turns of a session with their numbers; number 0 only if something comes before the first."""
    sections = []
    first = session.turns[0].prompt.offset if session.turns else None
    before = tuple(entry for entry in session.entries if first is None or entry.offset < first)
    if before:
        sections.append(Section(0, before))
    layout, starts = lay_out_threads(session.threads), [turn.prompt.offset for turn in session.turns]
    for number, turn in enumerate(session.turns, 1):
        left = layout.is_abandoned(starts[place] for place in range(number - 1, -1, -1))
        entries = (turn.prompt, *turn.entries)
        sections.append(Section(number, entries, turn, left, starts_branch=starts[number - 1] in layout.forks))
    return sections


def build_branch_tree(session: Session) -> tuple[Branch, ...]:
    """Return the turns as the tree their branches form: normally one branch with all of them."""
    numbered = [section for section in number_sections(session) if section.turn is not None]
    known = lay_out_threads(session.threads).known
    paths = [_thread_sections(numbered, known, thread) for thread in session.threads] or [numbered]
    return _merge_paths([path for path in paths if path])


def parse_turn_range(text: str, count: int) -> range | None:
    """Return the numbers of the turns that `3`, `-1`, `2..5`, `4..` or `..3` selects; None for any other text.

    >>> parse_turn_range("2..", 5), parse_turn_range("-1", 5)
    (range(2, 6), range(5, 6))
    """
    first, dots, last = text.partition("..")
    try:
        start = _parse_number(first, count) if first else 1
        stop = (_parse_number(last, count) if last else count) if dots else start
    except ValueError:
        return None
    if not first and not dots:
        return None
    return range(max(start, 0), min(stop, count) + 1)


def _parse_number(text: str, count: int) -> int:
    number = int(text)
    return count + 1 + number if number < 0 else number


def _thread_sections(numbered: Sequence[Section], known: Set[int], thread: Thread) -> list[Section]:
    """Return the turns of a thread; one that is on no thread belongs to the thread of the turn before it."""
    own = {entry.offset for entry in thread.entries}
    path: list[Section] = []
    for section in numbered:
        offset = section.entries[0].offset
        follows = section.number == 1 or (path and path[-1].number == section.number - 1)
        if offset in own or (offset not in known and follows):
            path.append(section)
    return path


def _merge_paths(paths: list[list[Section]]) -> tuple[Branch, ...]:
    """Merge paths by the turns they have in common at their start."""
    groups: dict[int, list[list[Section]]] = {}
    for path in paths:
        groups.setdefault(path[0].number, []).append(path)
    branches = []
    for group in groups.values():
        shared = 0
        shortest = min(group, key=len)
        while shared < len(shortest) and all(path[shared].number == shortest[shared].number for path in group):
            shared += 1
        rest = [path[shared:] for path in group if path[shared:]]
        branches.append(Branch(tuple(shortest[:shared]), _merge_paths(rest)))
    return tuple(branches)


class NestedAgent(msgspec.Struct, frozen=True):
    """An agent and its lines."""

    agent: Agent
    entries: Sequence[Entry]

    @property
    def label(self) -> str:
        """The id and the type of the agent, on one line."""
        kind = self.agent.type or (self.agent.kind.value if self.agent.kind is not AgentClass.TASK else "")
        return " ".join(part for part in (f"agent {self.agent.id}", f"({kind})" if kind else "") if part)


def group_agents_by_call(session: Session) -> dict[str, list[NestedAgent]]:
    """Return the agents of a session by the id of the call that started each."""
    by_call: dict[str, list[NestedAgent]] = {}
    for agent, file in zip(session.agents, session.agent_files, strict=True):
        if agent.call is not None:
            by_call.setdefault(agent.call.id, []).append(NestedAgent(agent, file.entries))
    return by_call


def find_agent_turns(session: Session) -> dict[str, int]:
    """Return the number of the turn in which each agent was started, also by another agent; by the agent's id."""
    numbers = {entry.offset: section.number for section in number_sections(session) for entry in section.entries}
    turn_of_call = {call.id: numbers.get(call.use_entry.offset) for call in session.tool_calls}
    call_of_agent = {agent.id: agent.call.id for agent in session.agents if agent.call is not None}
    caller = {
        call.id: agent.id
        for agent, file in zip(session.agents, session.agent_files, strict=True)
        for call in find_tool_calls(file.entries)
    }
    found: dict[str, int] = {}
    for agent in call_of_agent:
        current: str | None = agent
        for _ in call_of_agent:  # as deep as agents may be nested; damaged files may form a circle
            call = call_of_agent.get(current or "")
            if call is None or turn_of_call.get(call) is not None:
                break
            current = caller.get(call)
        else:
            call = None
        if (turn := turn_of_call.get(call or "")) is not None:
            found[agent] = turn
    return found


def summarize_calls(entries: Sequence[Entry]) -> str:
    """Return how many tool calls some entries have: `12 calls, 1 failed`."""
    calls = [step.call for step in build_story(entries).steps(entries) if isinstance(step, ToolCallStep)]
    failed = sum(call.failed for call in calls)
    return amount(len(calls), "call") + (f", {failed:,} failed" if failed else "")
