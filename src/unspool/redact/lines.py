"""Redacts the lines of a transcript: bytes in, text out.

Rules
  1. A line in which nothing is match stays as it is, byte for byte. In others only the strings change that hold a
     secret: keys and values, decoded first, so that no escape hides anything.
  2. Valid JSON stays valid JSON. A line that is not JSON is redacted as text.
  3. Fails closed: a line that cannot be processed becomes a marker of the kind `unreadable`. It is never let through.
  4. Most lines are only searched, many at a time, for what may be a secret (`rules.suspect_pattern`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from unspool.format import encode_json
from unspool.redact.redactor import Counts, Redactor, is_secret_key, opens_key

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]', re.DOTALL)
_check_json = msgspec.json.Decoder(msgspec.Raw).decode
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_QUOTE = ord('"')
_DEEPEST = 10_000
"""Nesting of containers; no reader takes more."""


class SecretHit(NamedTuple):
    """Secrets of one kind in one string."""

    kind: str
    number: int
    path: str
    """The path to it: `message.content[0].text`; empty for an address or a home, and in a line that is not JSON."""


class Redacted(NamedTuple):
    """A line after redaction."""

    text: str
    is_json: bool
    hits: tuple[SecretHit, ...] = ()


def find_suspect_lines(redactor: Redactor, data: bytes) -> Iterator[int]:
    """Yield the offsets of the lines that may hold a secret, other than an address or a home."""
    at = 0
    while (match := next(redactor.find_suspects(data, at), None)) is not None:
        yield data.rfind(b"\n", 0, match[0]) + 1
        at = data.find(b"\n", match[0]) + 1
        if not at or at >= len(data):
            return


def redact_suspect_lines(redactor: Redactor, data: bytes) -> Iterator[tuple[int, Redacted]]:
    """Yield the lines in which there may be something to redact, by offset, each as `redact_line` redacts it."""
    # With `homes` nearly every line is one of them. To search each alone, and for everything, takes half as long again.
    homes = dict(_group_by_line(data, redactor.find_homes(data)))
    others = {*find_suspect_lines(redactor, data)}
    others.update(start for start, _ in _group_by_line(data, ((at, at) for at in redactor.find_email_places(data))))
    for start in sorted(others | homes.keys()):
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)]
        if start not in others and is_json(line):
            counts: Counts = Counter()
            spans = ((first - start, last - start) for first, last in homes[start])
            text = redactor.replace_spans(line, "home", spans, counts).decode()
            yield start, Redacted(text, is_json=True, hits=_hits(counts, ""))
        else:
            yield start, redact_line(redactor, line)


def _group_by_line(data: bytes, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield the offsets of the lines that have some of the spans, each with its spans."""
    group, start, end = list[tuple[int, int]](), 0, -1
    for span in spans:
        if span[0] > end:
            if group:
                yield start, group
            group, start = [], data.rfind(b"\n", 0, span[0]) + 1
            end = data.find(b"\n", span[0])
            end = end if end >= 0 else len(data)
        group.append(span)
    if group:
        yield start, group


def decode_line(line: bytes) -> tuple[str, bool]:
    """Decode a line in which there is nothing to redact; return also whether it is JSON."""
    try:
        text = line.decode()
        _check_json(line)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return line.decode("utf-8", "replace"), False
    return text, True


def redact_line(redactor: Redactor, line: bytes) -> Redacted:
    """Redact a line without its end."""
    try:
        if is_json(line):
            return _redact_json(redactor, line)
        counts: Counts = Counter()
        text = redactor.redact_text(line.decode("utf-8", "replace"), counts)
        return Redacted(text, is_json=False, hits=_hits(counts, ""))
    except (ValueError, RecursionError, MemoryError, OverflowError):  # rule 3
        return redact_whole_line(redactor, line)


def redact_whole_line(redactor: Redactor, line: bytes) -> Redacted:
    """Return a marker in place of a line that cannot be processed."""
    text = redactor.make_marker("unreadable", line)
    return Redacted(f'"{text}"', is_json=True, hits=(SecretHit("unreadable", 1, ""),))


def is_json(line: bytes) -> bool:
    """Tell whether a line is a JSON document."""
    return decode_line(line)[1]


class _JsonCursor:
    """The place in a JSON document of a pass over its text."""

    def __init__(self) -> None:
        self._steps: list[str | int] = []
        self.is_key = False
        """Whether the next string is a key."""
        self._secret = False
        """Whether any key so far is the name of a secret."""

    def pass_mark(self, mark: bytes) -> None:
        """Move past a bracket, a comma or a colon."""
        steps = self._steps
        if mark in b"{[":
            if len(steps) >= _DEEPEST:
                raise ValueError("too deep")
            steps.append("" if mark == b"{" else 0)
            self.is_key = mark == b"{"
        elif mark in b"}]":
            if steps:
                steps.pop()
            self.is_key = False
        elif mark == b",":
            if steps and isinstance(last := steps[-1], int):
                steps[-1] = last + 1
            self.is_key = bool(steps) and isinstance(steps[-1], str)
        else:
            self.is_key = False

    def pass_key(self, key: str) -> None:
        """Move past the key of a member."""
        if self._steps:
            self._steps[-1] = key
        self._secret = self._secret or is_secret_key(key)

    @property
    def member(self) -> str:
        """The key of the value, or of the list, that comes next, if it is the name of a secret; else empty."""
        if not self._secret:
            return ""
        key = next((step for step in reversed(self._steps) if isinstance(step, str)), "")
        return key if is_secret_key(key) else ""

    @property
    def in_list(self) -> bool:
        """Whether an element of a list comes next."""
        return bool(self._steps) and isinstance(self._steps[-1], int)

    @property
    def path(self) -> str:
        """The path to what comes next."""
        parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self._steps)
        return "".join(parts).removeprefix(".")


class _SuspectSpans:
    """Tells which spans of a line, asked in order, have a place where a secret may be."""

    def __init__(self, redactor: Redactor, line: bytes) -> None:
        self._spans = redactor.find_suspects(line)
        self._next = next(self._spans, None)

    def overlap(self, start: int, end: int) -> bool:
        """Tell whether a suspect place overlaps a span."""
        while self._next is not None and self._next[1] <= start:
            self._next = next(self._spans, None)
        return self._next is not None and self._next[0] < end


def _is_clean(redactor: Redactor, line: bytes) -> bool:
    """Tell whether no string of a line is a secret after all, without following its structure."""
    if not redactor.has_suspect(line):
        return True
    suspects, counts = _SuspectSpans(redactor, line), Counter[str]()
    for match in _STRING.finditer(line):
        if suspects.overlap(*match.span()):
            string = _decoded(match[0])
            if (
                is_secret_key(string)
                or redactor.redact_text(string, counts, personal=False) is not string
                or opens_key(string)
            ):
                return False
    return True


def _redact_json(redactor: Redactor, line: bytes) -> Redacted:
    # Most suspect lines hold no secret; this pass is cheaper than one that follows the structure.
    if not redactor.looks_everywhere and _is_clean(redactor, line):
        return _redact_personal(redactor, line, [])
    cursor, suspects = _JsonCursor(), _SuspectSpans(redactor, line)
    pieces, hits, reached, opened = list[bytes](), list[SecretHit](), 0, False
    for match in _TOKEN.finditer(line):
        start, end = match.span()
        if line[start] != _QUOTE:
            mark = match[0]
            opened = opened and mark not in b"]}"
            cursor.pass_mark(mark)
            continue
        is_suspect = suspects.overlap(start, end)
        if not (is_suspect or cursor.is_key or opened or cursor.member):
            continue
        string, counts = _decoded(line[start:end]), Counter[str]()
        if cursor.is_key:
            changed = redactor.redact_text(string, counts) if is_suspect else string
            cursor.pass_key(changed)
        else:
            changed, opened = _redact_value(redactor, string, cursor, opened, counts)
        if changed != string:
            pieces += [line[reached:start], encode_json(changed)]
            reached = end
            hits += _hits(counts, cursor.path)
    return _redact_personal(redactor, b"".join([*pieces, line[reached:]]) if pieces else line, hits)


def _redact_personal(redactor: Redactor, line: bytes, hits: list[SecretHit]) -> Redacted:
    """Redact addresses and homes in the raw line: every line has a home folder in it, decoding all would be slow."""
    counts: Counts = Counter()
    changed = redactor.redact_personal(line, counts, raw=True)
    return Redacted(changed.decode(), is_json=True, hits=(*hits, *_hits(counts, "")))


def _redact_value(
    redactor: Redactor, string: str, cursor: _JsonCursor, opened: bool, counts: Counts
) -> tuple[str, bool]:
    """Redact a value; return also whether a private key continues in the next element of a list."""
    changed = redactor.redact_member(cursor.member, string, counts) if cursor.member else string
    if changed == string and opened and cursor.in_list:
        changed = redactor.redact_key_rows(string, counts) or string
    if changed == string:
        changed = redactor.redact_text(string, counts)
        opened = opened or (cursor.in_list and opens_key(string))
    return changed, opened and "-----END" not in string


def _decoded(token: bytes) -> str:
    if b"\\" not in token:
        return token[1:-1].decode()
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded: str = json.loads(token, strict=False)  # a lone surrogate, which msgspec refuses
        return decoded


def _hits(counts: Counts, path: str) -> tuple[SecretHit, ...]:
    return tuple(SecretHit(kind, count, path) for kind, count in counts.items())
