"""What lines of a file say: lines in; billed responses, bad lines, facts of a session out. No files, no database.

Rules
  1. Of most lines a glance is enough. What decodes the others whole is loaded when there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unspool.format.glance import Glance, Label, glance
from unspool.format.shape import UNDECODABLE
from unspool.format.stringify import encode
from unspool.graph.gathering import Facts, Gathering
from unspool.paths import project_name
from unspool.prices.answers import BilledLine, Response, billed_line
from unspool.prices.responses import Counting
from unspool.prices.tally import Tally
from unspool.read.lines import Line, LongLine
from unspool.read.scan import Kind
from unspool.store.billed import milliseconds

if TYPE_CHECKING:
    from unspool.format.entry import Entry, Item


class Taken:
    """What the lines of a file said so far."""

    def __init__(
        self,
        kind: str,
        file: str,
        gathering: Gathering,
        lengths: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._kind, self._gathering = kind, gathering
        self._lengths = lengths
        """By offset: how long lines were that are not as they were written."""
        self.lines = 0
        self._counting = Counting[int]()
        self.tally = Tally(self._counting, 0, file)
        self.bad: list[tuple[int, int, str]] = []
        self.history: list[Any] = []
        self.owners: dict[str, None] = {}

    def take(self, lines: list[Line | LongLine]) -> None:
        """Take the next lines of the file."""
        match self._kind:
            case Kind.SESSION.value:
                self._take_glances(lines)
            case Kind.AGENT.value:
                self._take_agents(lines)
            case _:
                self.take_items(self.decoded(lines))

    def answers(self) -> list[Response]:
        """Return what was billed, each once; after `tally.finish`."""
        return [response for _, response in self._counting.billed()]

    def limits(self) -> list[tuple[int, int | None, str]]:
        """Return where the program said that a limit was reached, when, and in which words."""
        return [(one.offset, milliseconds(one.timestamp), one.notice) for one in self.tally.dropped if one.notice]

    def decoded(self, lines: list[Line | LongLine]) -> list[Item]:
        """Return lines decoded whole."""
        from unspool.format.codec import HISTORY, SESSION
        from unspool.read.tail import decode_lines

        return decode_lines(lines, HISTORY if self._kind == Kind.HISTORY.value else SESSION)

    def take_items(self, items: list[Item]) -> None:
        """Take lines that were decoded whole."""
        from unspool.format.entry import BadLine, Entry
        from unspool.graph.facts import take
        from unspool.prices.entries import BILLED, take_entry

        for item in items:
            if type(item) is Entry:
                self.lines += 1
                if self._kind == Kind.SESSION.value:
                    take(self._gathering, item)
                elif self._kind == Kind.HISTORY.value:
                    self._take_history(item)
                    continue
                elif item.record.session_id:
                    self.owners[item.record.session_id] = None
                if type(item.record) in BILLED:
                    take_entry(self.tally, item)
            elif isinstance(item, BadLine):
                self.lines += 1
                self.bad.append((item.offset, item.length, item.reason))

    def _take_glances(self, lines: list[Line | LongLine]) -> None:
        gather = self._gathering.take_glance
        for line in lines:
            try:
                seen = glance(line.data) if type(line) is Line else None
            except UNDECODABLE:
                seen = None
            if seen is None or (seen.data and _tells_of_agent(seen.data, line)) or not gather(line.offset, seen):
                self.take_items(self.decoded([line]))
                continue
            self.lines += 1
            if seen.type == "assistant":
                self._bill(seen, line)

    def _take_agents(self, lines: list[Line | LongLine]) -> None:
        """Take lines of an agent: only what was billed matters, and whose it is."""
        for line in lines:
            try:
                answer = billed_line(line.data) if type(line) is Line else None
            except UNDECODABLE:
                answer = None
            if answer is None or (answer.type == "progress" and _has_usage(line)):
                self.take_items(self.decoded([line]))
                continue
            self.lines += 1
            if answer.session_id:
                self.owners[answer.session_id] = None
            if answer.type == "assistant":
                self._bill(answer, line)

    def _bill(self, answer: Glance | BilledLine, line: Line | LongLine) -> None:
        assert type(line) is Line
        length = self._lengths.get(line.offset) if self._lengths else None
        if length is not None and (answer.message.id or answer.uuid):  # its size counts, and it is known by an id
            self.tally.take(answer, bytes(length), line.offset)
        else:
            self.tally.take(answer, line.data, line.offset)

    def _take_history(self, entry: Entry) -> None:
        from unspool.store.side_rows import history_row  # of one file in a thousand

        self.history.append(history_row(entry))


def session_row(facts: Facts, session_id: str, project_key: str | None) -> tuple[object, ...]:
    """Return a row of `sessions`, without its file."""
    return (
        session_id,
        facts.title,
        facts.titled_by,
        facts.first_prompt,
        facts.cwd,
        project_name(facts.cwd, project_key),
        facts.branch,
        facts.slug,
        encode(facts.versions).decode(),
        encode(facts.models).decode(),
        facts.started,
        facts.last,
        facts.wall,
        facts.active,
        facts.turns,
        facts.messages,
        facts.tool_calls,
        facts.errors,
        facts.images,
        facts.compactions,
        encode(facts.pull_requests).decode(),
        facts.context_tokens,
        facts.hidden,
    )


def _tells_of_agent(told: Label, line: Line | LongLine) -> bool:
    """Tell whether a progress line may repeat an agent's answer."""
    return told.type == "agent_progress" and _has_usage(line)


def _has_usage(line: Line | LongLine) -> bool:
    """Tell whether a line may bill something. Asked of few: what tells of a hook or a command bills nothing."""
    return type(line) is not Line or b'"usage"' in bytes(line.data)
