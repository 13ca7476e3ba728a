"""Searches files byte by byte, in as many threads as there are cores.

Rules
  1. Bytes are searched as they are; only a line that contains what is searched for is decoded. re2 does the searching
     and lets other threads run meanwhile.
  2. What the index has found is found again here, and recognised by its place. Passages that the index holds whole are
     skipped.
  3. A line that is too long to be held is searched in pieces; one that cannot be decoded as it is. Both are
     `structured`.
  4. A file that cannot be read does not keep the others from being searched.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from unspool.errors import UnspoolError
from unspool.format import BadLine, Json, decode_plain
from unspool.graph import Passage, extract_passages
from unspool.read import LineChunk
from unspool.store.search.corpus import CHUNK_BYTES, MAX_LINE_BYTES, CorpusReader, SearchedFile
from unspool.store.search.index_text import WHOLE_NAMES, is_cut
from unspool.store.search.results import SearchMatch, add_tool_from_bytes, add_tool_from_file, make_match
from unspool.store.search.terms import SearchTerms, compile_re2

if TYPE_CHECKING:
    from unspool.store.archive.archive import Archive

_OVERLAP: Final = 64 * 1024
"""Bytes that two pieces of a long line share."""
_MAX_THREADS: Final = 8


def scan_files(
    files: Iterable[SearchedFile],
    terms: SearchTerms,
    archive: Callable[[], Archive] | None,
    *,
    agents: frozenset[str],
    only_new: bool = False,
) -> list[SearchMatch]:
    """Search files; return the matches in no order.

    `agents` have files of their own, so what progress lines repeat of them is skipped. `only_new` searches only what
    the index does not cover yet.
    """
    waiting = sorted(files, key=lambda file: file.size)
    found: list[SearchMatch] = []
    errors: list[Exception] = []
    lock = threading.Lock()

    def work_in_thread() -> None:
        try:
            work()
        except (sqlite3.DatabaseError, OSError) as error:  # raised again by the thread that waits for this one
            errors.append(error)

    def work() -> None:
        with closing(CorpusReader(archive)) as reader:
            scanner = _Scanner(terms, reader, agents, only_new=only_new)
            while True:
                with lock:
                    if not waiting:
                        return
                    file = waiting.pop()
                matches: list[SearchMatch] = []
                with suppress(UnspoolError):  # what was found before the error stays
                    matches.extend(scanner.matches(file))
                found.extend(matches)

    count = min(os.cpu_count() or 1, _MAX_THREADS, len(waiting))
    threads = [threading.Thread(target=work_in_thread, daemon=True) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


class _Scanner:
    """Searches files in one thread."""

    def __init__(self, terms: SearchTerms, reader: CorpusReader, agents: frozenset[str], *, only_new: bool) -> None:
        self._terms, self._reader, self._agents, self._only_new = terms, reader, agents, only_new
        self._find = compile_re2(terms.byte_pattern).search

    def matches(self, file: SearchedFile) -> Iterator[SearchMatch]:
        """Yield what is found in a file."""
        if not file.has_lines:
            yield from self._match_text(file)
            return
        left_out: list[tuple[int, int]] = []
        for lines in self._reader.lines(file, file.indexed_to if self._only_new else 0, left_out):
            offset, data, at, end = lines
            while (found := self._find(data, at, end)) is not None:
                first = data.rfind(b"\n", at, found.start()) + 1 or at
                at = data.find(b"\n", found.end(), end) + 1 or end
                line = data[first:at]
                if self._terms.may_match(line):
                    yield from self._match_line(file, line, offset + first, lines)
        for offset, length in left_out:
            yield from self._match_long_line(file, offset, length)

    def _match_line(self, file: SearchedFile, line: bytes, offset: int, around: LineChunk) -> Iterator[SearchMatch]:
        is_found = False
        for at, value in decode_plain(line, offset):
            if isinstance(value, BadLine):
                text = line[at - offset : at - offset + value.length].decode("utf-8", "replace")
                if self._terms.count(text):
                    is_found = True
                    yield self._make_match(file, (at, 0), _structured(text), {})
                continue
            if self._is_repeated(value):
                is_found = True
                continue
            for number, passage in enumerate(extract_passages(value)):
                if not self._is_in_index(file, at, passage) and self._terms.count(passage.text):
                    is_found = True
                    if passage.call is not None and passage.tool is None:
                        # Mostly the call is a few lines above its result.
                        near = add_tool_from_bytes(passage, around.data[: at - around.offset])
                        passage = near or add_tool_from_file(passage, self._reader, file, around.offset)
                    yield self._make_match(file, (at, number), passage, value)
        if not is_found and self._terms.is_raw:  # the pattern matches bytes between the texts
            _, value = next(iter(decode_plain(line, offset)), (0, {}))
            passage = _structured(line.decode("utf-8", "replace"))
            yield self._make_match(file, (offset, -1), passage, value if isinstance(value, dict) else {})

    def _make_match(self, file: SearchedFile, place: tuple[int, int], passage: Passage, line: Json) -> SearchMatch:
        match = make_match(self._terms, file, place, passage, line)
        return match._replace(indexed=passage.kind != "structured" and not is_cut(passage))

    def _is_in_index(self, file: SearchedFile, offset: int, passage: Passage) -> bool:
        """Whether the index holds a passage whole: all but structured data, and kinds that are indexed in part."""
        if self._terms.is_raw or offset >= file.indexed_to:
            return False
        return passage.kind != "structured" and passage.kind not in WHOLE_NAMES

    def _is_repeated(self, line: Json) -> bool:
        data = line.get("data") if line.get("type") == "progress" else None
        return isinstance(data, dict) and data.get("agentId") in self._agents

    def _match_long_line(self, file: SearchedFile, offset: int, length: int) -> Iterator[SearchMatch]:
        """Yield the first match in a line that is too long to be held."""
        for start in range(offset, offset + length, CHUNK_BYTES):
            end = min(start + CHUNK_BYTES + _OVERLAP, offset + length)
            data = self._reader.bytes_between(file, start, end)
            found = self._find(data, 0, len(data))
            if found is not None:
                near = data[max(found.start() - 2000, 0) : found.end() + 2000].decode("utf-8", "replace")
                if self._terms.count(near) or self._terms.is_raw:
                    yield self._make_match(file, (offset, 0), _structured(near), {})
                    return

    def _match_text(self, file: SearchedFile) -> Iterator[SearchMatch]:
        """Yield a match in an overflow file, which is one passage."""
        data = self._reader.text(file, MAX_LINE_BYTES)
        if self._find(data, 0, len(data)) is None:
            return
        text = data.decode("utf-8", "replace")
        spans = self._terms.spans(text) if self._terms.count(text) else []
        if spans:
            before = text[: spans[0][0]]
            place = (len(before.rpartition("\n")[0].encode()) + ("\n" in before), 0)
            call = file.path.rpartition("/")[2].partition(".")[0]
            passage = Passage("overflow", "user", text, call)
            yield make_match(self._terms, file, place, passage, {})._replace(indexed=False)


def _structured(text: str) -> Passage:
    return Passage("structured", "system", text)
