"""Responses counted line by line, with as little work as a line needs. In: the lines of files. Out: a `Counting`.

Rules
  1. The outcome is that of `entries.of_entry` and `Counting.add` for every line.
  2. Lines of one answer that follow each other are made one before a `Response` is made of them.
"""

from __future__ import annotations

from typing import Generic

from unspool.format.shape import Buffer
from unspool.prices.answers import (
    Answer,
    Dropped,
    Response,
    Run,
    content_size,
    is_plain,
    response,
    run_of,
    stem,
)
from unspool.prices.responses import Counting, S


class Tally(Generic[S]):
    """Takes the lines of one file."""

    def __init__(self, counting: Counting[S], source: S, file: str) -> None:
        self._counting, self._source, self.file = counting, source, file
        self._home = stem(file)
        self._run: Run | None = None
        """The answer whose lines are being taken."""
        self.dropped: list[Dropped] = []

    def take(self, answer: Answer, line: Buffer, offset: int) -> None:
        """Take an answer's line."""
        run, message = self._run, answer.message
        if run is None or message.id != run.id or not _goes_on(answer, run):
            self.finish()
            found = run_of(answer, line, offset)
            if isinstance(found, Run):
                self._run = found
            else:
                self.dropped.append(found)
            return
        usage, most = message.usage, run.answer.message.usage
        assert usage is not None
        assert most is not None
        if usage.output_tokens > most.output_tokens:
            run.others.append(run.offset)
            run.answer, run.offset = answer, offset
        else:
            run.others.append(offset)
        run.last = answer.timestamp
        if message.stop_reason is not None:
            run.final = True
        else:
            run.size += content_size(len(line))

    def finish(self) -> None:
        """Count the lines that were taken last: call it when there are no more."""
        run, self._run = self._run, None
        if run is not None:
            self._counting.add(self._source, response(run, self._home), run.others)

    def add(self, found: Response | Dropped) -> None:
        """Take what a line says."""
        if isinstance(found, Response):
            self._counting.add(self._source, found)
        else:
            self.dropped.append(found)


def _goes_on(answer: Answer, run: Run) -> bool:
    """Tell whether a line is one more of a run: nothing but its output and its content is new, and it came later."""
    before = run.answer
    usage, most = answer.message.usage, before.message.usage
    time, earlier = answer.timestamp, run.last
    if not time or not earlier or time < earlier or not is_plain(time):
        return False
    if not run.others and not is_plain(earlier):  # with others, it has been looked at
        return False
    return (
        usage is not None
        and most is not None
        and (usage.output_tokens != most.output_tokens or usage == most)
        and answer.message.model == before.message.model
        and answer.is_sidechain == before.is_sidechain
        and answer.session_id == before.session_id
        and answer.agent_id == before.agent_id
        and answer.forked_from == before.forked_from
    )
