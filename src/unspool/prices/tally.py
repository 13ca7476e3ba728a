"""Responses counted line by line, with as little work as a line needs. In: the lines of files. Out: a `Counting`.

Rules
  1. The outcome is that of `entries.of_entry` and `Counting.add` for every line.
  2. A `Response` is made of the first line of an answer. The lines that follow it and say the same are added to it
     before it is counted; most answers are then counted once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic

from msgspec.structs import force_setattr

from unspool.format.moments import moment
from unspool.format.shape import Buffer
from unspool.prices.answers import Answer, Dropped, Response, billed, content_size, stem
from unspool.prices.responses import Counting, S


class Tally(Generic[S]):
    """Takes the lines of one file."""

    def __init__(self, counting: Counting[S], source: S, file: str) -> None:
        self._counting, self._source, self.file = counting, source, file
        self._home = stem(file)
        self._open: Response | None = None
        """The response whose lines are being taken: nobody else has it yet."""
        self._answer: Answer
        """The line of it that counts."""
        self._last: str | None
        """The time of its last line."""
        self._moment: datetime | None
        """The same, if it has been looked at."""
        self._others: list[int]
        """Where its other lines are."""
        self.dropped: list[Dropped] = []

    def take(self, answer: Answer, line: Buffer, offset: int) -> None:
        """Take an answer's line."""
        open = self._open
        if open is not None and answer.message.id == open.id and self._goes_on(answer):
            self._go_on(open, answer, line, offset)
            return
        self.finish()
        found = billed(answer, line, offset, self._home)
        if isinstance(found, Dropped):
            self.dropped.append(found)
        else:
            self._open, self._answer, self._others = found, answer, []
            self._last, self._moment = answer.timestamp, None

    def finish(self) -> None:
        """Count the lines that were taken last: call it when there are no more."""
        if self._open is not None:
            self._counting.add(self._source, self._open, self._others)
            self._open = None

    def add(self, found: Response | Dropped) -> None:
        """Take what a line says."""
        if isinstance(found, Response):
            self._counting.add(self._source, found)
        else:
            self.dropped.append(found)

    def _goes_on(self, answer: Answer) -> bool:
        """Tell whether a line is one more of a response: only its output and its content are new, and it came later."""
        before = self._answer
        if answer.timestamp != self._last:
            now, last = moment(answer.timestamp), self._moment or moment(self._last)
            if now is None or last is None or now <= last:
                return False
            self._moment = now
        usage, most = answer.message.usage, before.message.usage
        return (
            usage is not None
            and most is not None
            and (usage == most or usage.output_tokens != most.output_tokens)
            and answer.message.model == before.message.model
            and answer.is_sidechain == before.is_sidechain
            and answer.session_id == before.session_id
            and answer.agent_id == before.agent_id
            and answer.forked_from == before.forked_from
        )

    def _go_on(self, open: Response, answer: Answer, line: Buffer, offset: int) -> None:
        final = open.final or answer.message.stop_reason is not None
        size = 0 if final else open.size + content_size(len(line))
        usage, most = answer.message.usage, self._answer.message.usage
        assert usage is not None
        assert most is not None
        self._last = answer.timestamp
        if usage.output_tokens > most.output_tokens:
            more = billed(answer, line, offset, self._home)
            assert isinstance(more, Response)
            self._others.append(open.offset)
            self._open, self._answer = more, answer
            force_setattr(more, "timestamp", open.timestamp)
            open = more
        else:
            self._others.append(offset)
        if final != open.final:
            force_setattr(open, "final", final)
        if size != open.size:
            force_setattr(open, "size", size)
