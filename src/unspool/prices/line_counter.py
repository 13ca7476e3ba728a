"""Responses counted line by line, with as little work as a line needs. In: the lines of files. Out: a `Counting`.

Rules
  1. The outcome is that of `entries.of_entry` and `Counting.add` for every line.
  2. Lines of an answer that follow each other are taken as one, if only their output and their content are new and
     they came in the order of their times: of these one counts, and a `Response` is made of that alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic

from unspool.format.base import BilledUsage, Buffer, Usage
from unspool.format.timestamps import moment
from unspool.prices.responses import ENVELOPE, SYNTHETIC, Answer, Counting, Dropped, Response, S, billed, response, stem


class Tally(Generic[S]):
    """Takes the lines of one file."""

    def __init__(self, counting: Counting[S], source: S, file: str) -> None:
        self._counting, self._source, self.file = counting, source, file
        self._home = stem(file)
        self.dropped: list[Dropped] = []
        self._id: str | None = None
        """The answer whose lines are being taken, if any: what follows is said of it."""
        self._best: Answer
        """The line that counts, so far,"""
        self._usage: BilledUsage | Usage
        """what it says was used,"""
        self._offset: int
        """where it is,"""
        self._others: list[int]
        """and where the others are."""
        self._first: str | None
        """The time of the first line,"""
        self._last: str | None
        """that of the last one,"""
        self._moment: datetime | None
        """and what that means, if it was looked at."""
        self._final: bool
        self._size: int

    def take(self, answer: Answer, line: Buffer, offset: int) -> None:
        """Take an answer's line."""
        message = answer.message
        id, usage = message.id, message.usage
        if not id or usage is None or message.model == SYNTHETIC:
            self.finish()
            self.add(billed(answer, line, offset, self._home))
            return
        if id != self._id or not self._goes_on(answer, usage):
            self.finish()
            self._id, self._best, self._usage, self._offset, self._others = id, answer, usage, offset, []
            self._first, self._moment, self._final, self._size = answer.timestamp, None, False, 0
        elif usage.output_tokens > self._usage.output_tokens:
            self._others.append(self._offset)
            self._best, self._usage, self._offset = answer, usage, offset
        else:
            self._others.append(offset)
        self._last = answer.timestamp
        if message.stop_reason is not None:
            self._final, self._size = True, 0
        elif not self._final and len(line) > ENVELOPE:
            self._size += len(line) - ENVELOPE

    def finish(self) -> None:
        """Count the lines that were taken last: call it when there are no more."""
        if self._id is not None:
            told = (self._first, self._final, self._size)
            made = response(self._best, self._id, self._offset, self._home, told)
            self._counting.add(self._source, made, self._others)
            self._id = None

    def add(self, found: Response | Dropped) -> None:
        """Take what a line says."""
        if isinstance(found, Response):
            self._counting.add(self._source, found)
        else:
            self.dropped.append(found)

    def _goes_on(self, answer: Answer, usage: BilledUsage | Usage) -> bool:
        """Tell whether a line can be taken with those before it (rule 2)."""
        best = self._best
        if answer.timestamp != self._last:
            now, last = moment(answer.timestamp), self._moment or moment(self._last)
            if now is None or last is None or now <= last:
                return False
            self._moment = now
        return (
            (usage == self._usage or usage.output_tokens != self._usage.output_tokens)
            and answer.message.model == best.message.model
            and answer.is_sidechain == best.is_sidechain
            and answer.session_id == best.session_id
            and answer.agent_id == best.agent_id
            and answer.forked_from == best.forked_from
        )
