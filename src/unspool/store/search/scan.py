"""Files looked through byte by byte, by as many threads as there are cores: haystacks in, matches out.

Rules
  1. Bytes are searched as they are; only a line that has what is looked for is decoded. re2 does it, which lets other
     threads work meanwhile.
  2. What the index has found is found again here, and told apart by its place. Passages that the index has whole need
     not be looked at twice.
  3. A line that is too long to be held is looked through in pieces; a torn one as it is. Both are `structured`.
  4. A file that cannot be read costs no other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.errors import UnspoolError
from unspool.format.entry import BadLine
from unspool.format.plain_lines import Json, whole
from unspool.graph.search_text import Passage, passages, said
from unspool.read.chunks import Lines
from unspool.store.search.corpus import LONGEST, PIECE, Haystack, Reader
from unspool.store.search.index_text import WHOLE_NAMES, is_cut
from unspool.store.search.results import Asked, Match, match
from unspool.store.search.terms import compiled

if TYPE_CHECKING:
    from unspool.store.archive.archive import Archive

_OVERLAP: Final = 64 * 1024
"""Bytes that two pieces of a long line share."""
_THREADS: Final = 8


class Scanning(NamedTuple):
    """What is looked for, where, and how the archive is opened."""

    asked: Asked
    archive: Callable[[], Archive] | None
    agents: frozenset[str]
    """Sub-agents that have files of their own: what progress lines repeat of them is found there."""
    only_new: bool = False
    """Only what the index does not know yet."""


def scan(haystacks: Iterable[Haystack], scanning: Scanning) -> list[Match]:
    """Look through files; return what was found, in no order."""
    waiting = sorted(haystacks, key=lambda haystack: haystack.size)
    found: list[Match] = []
    lock = threading.Lock()

    def work() -> None:
        with closing(_Worker(scanning)) as worker:
            while True:
                with lock:
                    if not waiting:
                        return
                    haystack = waiting.pop()
                found.extend(worker.matches(haystack))

    count = min(os.cpu_count() or 1, _THREADS, len(waiting))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return found


class _Worker:
    """One thread."""

    def __init__(self, scanning: Scanning) -> None:
        self._asked, self._scanning = scanning.asked, scanning
        self._reader = Reader(scanning.archive)
        self._find = compiled(scanning.asked.needle).search

    def close(self) -> None:
        """Let go of what was opened."""
        self._reader.close()

    def matches(self, haystack: Haystack) -> list[Match]:
        """Return what is found in a file."""
        found: list[Match] = []
        with suppress(UnspoolError):
            found.extend(self._in_lines(haystack) if haystack.has_lines else self._in_text(haystack))
        return found

    def _in_lines(self, haystack: Haystack) -> Iterator[Match]:
        left_out: list[tuple[int, int]] = []
        start = haystack.indexed if self._scanning.only_new else 0
        for lines in self._reader.lines(haystack, start, left_out):
            offset, data, at, end = lines
            while (found := self._find(data, at, end)) is not None:
                first = data.rfind(b"\n", at, found.start()) + 1 or at
                at = data.find(b"\n", found.end(), end) + 1 or end
                line = data[first:at]
                if self._asked.may_be_in(line):
                    yield from self._in_line(haystack, line, offset + first, lines)
        for offset, length in left_out:
            yield from self._in_long_line(haystack, offset, length)

    def _in_line(self, haystack: Haystack, line: bytes, offset: int, around: Lines) -> Iterator[Match]:
        found = False
        for at, value in whole(line, offset):
            if isinstance(value, BadLine):
                text = line[at - offset : at - offset + value.length].decode("utf-8", "replace")
                if self._asked.count(text):
                    found = True
                    yield self._match(haystack, (at, 0), Passage("structured", "system", text), {})
                continue
            if self._is_repeated(value):
                found = True
                continue
            for number, passage in enumerate(passages(value)):
                if not self._is_known(haystack, at, passage) and self._asked.count(passage.text):
                    found = True
                    called = self._called(haystack, passage, at, around)
                    yield self._match(haystack, (at, number), called, value)
        if not found and self._asked.is_raw:
            text = line.decode("utf-8", "replace")
            _, value = next(iter(whole(line, offset)), (0, {}))
            yield self._match(
                haystack, (offset, -1), Passage("structured", "system", text), value if isinstance(value, dict) else {}
            )

    def _match(self, haystack: Haystack, place: tuple[int, int], passage: Passage, line: Json) -> Match:
        found = match(self._asked, haystack, place, passage, line)
        return found._replace(indexed=passage.kind != "structured" and not is_cut(passage))

    def _is_known(self, haystack: Haystack, offset: int, passage: Passage) -> bool:
        """Tell whether the index has a passage whole: all but structured data, and what is indexed in part."""
        if self._asked.is_raw or offset >= haystack.indexed:
            return False
        return passage.kind != "structured" and passage.kind not in WHOLE_NAMES

    def _is_repeated(self, line: Json) -> bool:
        data = line.get("data") if line.get("type") == "progress" else None
        return isinstance(data, dict) and data.get("agentId") in self._scanning.agents

    def _in_long_line(self, haystack: Haystack, offset: int, length: int) -> Iterator[Match]:
        """Yield a match in a line that is too long to be held: the first one."""
        for start in range(offset, offset + length, PIECE):
            end = min(start + PIECE + _OVERLAP, offset + length)
            data = self._reader.window(haystack, start, end)
            found = self._find(data, 0, len(data))
            if found is not None:
                near = data[max(found.start() - 2000, 0) : found.end() + 2000].decode("utf-8", "replace")
                if self._asked.count(near) or self._asked.is_raw:
                    passage = Passage("structured", "system", near)
                    yield self._match(haystack, (offset, 0), passage, {})
                    return

    def _in_text(self, haystack: Haystack) -> Iterator[Match]:
        """Yield a match in a text: an overflow file is one passage."""
        data = self._reader.whole(haystack, LONGEST)
        if self._find(data, 0, len(data)) is None:
            return
        text = data.decode("utf-8", "replace")
        spans = self._asked.spans(text) if self._asked.count(text) else []
        if spans:
            before = text[: spans[0][0]]
            place = (len(before.rpartition("\n")[0].encode()) + ("\n" in before), 0)
            call = haystack.path.rpartition("/")[2].partition(".")[0]
            passage = Passage("overflow", "user", text, call)
            yield match(self._asked, haystack, place, passage, {})._replace(indexed=False)

    def _called(self, haystack: Haystack, passage: Passage, offset: int, around: Lines) -> Passage:
        """Return a passage with the tool that its call names: mostly the call is a few lines above."""
        if passage.call is None or passage.tool is not None:
            return passage
        near = around.data[: offset - around.offset]
        return with_call(passage, near) or with_call_before(passage, self._reader, haystack, around.offset)


def with_call_before(passage: Passage, reader: Reader, haystack: Haystack, end: int) -> Passage:
    """Return a passage with the tool that its call names, wherever in the file before an offset that is."""
    for data in reader.before(haystack, end):
        if (found := with_call(passage, data)) is not None:
            return found
    return passage


def with_call(passage: Passage, data: bytes) -> Passage | None:
    """Return a passage with the tool that its call names, if the call is in some bytes."""
    assert passage.call is not None
    id, end = f'"{passage.call}"'.encode(), len(data)
    while (at := data.rfind(id, 0, end)) >= 0:
        start = data.rfind(b"\n", 0, at) + 1
        stop = data.find(b"\n", at) + 1 or len(data)
        for _, value in whole(data[start:stop]):
            for one in said(value) if isinstance(value, dict) else ():
                if one.kind == "tool_input" and one.call == passage.call:
                    return passage._replace(tool=one.tool, target=one.target)
        end = start
    return None


def result_of(line: bytes) -> str | None:
    """Return the id of the tool call whose result a line is."""
    for _, value in whole(line):
        for one in said(value) if isinstance(value, dict) else ():
            if one.kind == "tool_result":
                return one.call
    return None
