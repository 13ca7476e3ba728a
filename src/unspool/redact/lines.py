"""Lines of a transcript redacted: bytes in, bytes out.

Rules
  1. A line in which nothing is found stays as it is, byte for byte. In others only the strings change that hold a
     secret: keys and values, decoded first, so that no escape hides anything.
  2. Valid JSON stays valid JSON. A line that is not JSON is redacted as text.
  3. Fails closed: a line that cannot be dealt with becomes a marker of the kind `unreadable`. It is never let through.
  4. Most lines are only searched, many at a time, for what may be a secret (`rules.suspect`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from unspool.format.json_edit import encode
from unspool.redact.redactor import Counts, Redactor, is_secret_key, opens_key

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]', re.DOTALL)
_is_json = msgspec.json.Decoder(msgspec.Raw).decode
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_QUOTE = ord('"')
_DEEPEST = 10_000
"""Containers in containers; deeper is not read by anybody."""


class Hit(NamedTuple):
    """Secrets of one kind in one string."""

    kind: str
    number: int
    path: str
    """The way to it: `message.content[0].text`; nothing in a line that is not JSON."""


class Redacted(NamedTuple):
    """A line after redaction."""

    text: str
    is_json: bool
    hits: tuple[Hit, ...] = ()


def suspects(redactor: Redactor, data: bytes) -> Iterator[int]:
    """Yield the places where lines begin that may hold a secret."""
    at = 0
    while (found := next(redactor.suspects(data, at), None)) is not None:
        yield data.rfind(b"\n", 0, found[0]) + 1
        at = data.find(b"\n", found[0]) + 1
        if not at or at >= len(data):
            return


def plain(line: bytes) -> tuple[str, bool]:
    """Return a line in which there is nothing to redact as text, and whether it is JSON."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace"), False
    try:
        _is_json(line)
    except (msgspec.DecodeError, RecursionError):
        return text, False
    return text, True


def redact_line(redactor: Redactor, line: bytes) -> Redacted:
    """Return a line, without its end, redacted."""
    try:
        if is_json(line):
            return _redact_json(redactor, line)
        counts: Counts = Counter()
        text = redactor.text(line.decode("utf-8", "replace"), counts)
        return Redacted(text, is_json=False, hits=_hits(counts, ""))
    except (ValueError, RecursionError, MemoryError, OverflowError):  # rule 3
        return closed(redactor, line)


def closed(redactor: Redactor, line: bytes) -> Redacted:
    """Return what stands for a line that cannot be dealt with."""
    text = redactor.marker("unreadable", line)
    return Redacted(f'"{text}"', is_json=True, hits=(Hit("unreadable", 1, ""),))


def is_json(line: bytes) -> bool:
    """Tell whether a line is a JSON document."""
    return plain(line)[1]


class _Walk:
    """Where in a document a pass over its text is."""

    def __init__(self) -> None:
        self._steps: list[str | int] = []
        self.is_key = False
        """Whether the next string is a key."""
        self._secret = False
        """Whether any key so far says that its value is a secret."""

    def mark(self, mark: bytes) -> None:
        """Take a bracket, a comma or a colon."""
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

    def name(self, key: str) -> None:
        """Take the key of a member."""
        if self._steps:
            self._steps[-1] = key
        self._secret = self._secret or is_secret_key(key)

    @property
    def member(self) -> str:
        """The key whose value, or an element of whose value, comes next, if that is a secret's; else nothing."""
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
        """The way to what comes next."""
        parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self._steps)
        return "".join(parts).removeprefix(".")


class _Places:
    """Tells whether a stretch of a line, later than the one before, has a place where a secret may be."""

    def __init__(self, redactor: Redactor, line: bytes) -> None:
        self._spans = redactor.suspects(line)
        self._next = next(self._spans, None)

    def any_in(self, start: int, end: int) -> bool:
        """Tell whether one begins, ends or lies there."""
        while self._next is not None and self._next[1] <= start:
            self._next = next(self._spans, None)
        return self._next is not None and self._next[0] < end


def _is_clean(redactor: Redactor, line: bytes) -> bool:
    """Tell whether nothing in a line is a secret after all, without following its structure."""
    places, counts = _Places(redactor, line), Counter[str]()
    for found in _STRING.finditer(line):
        if places.any_in(*found.span()):
            string = _decoded(found[0])
            if is_secret_key(string) or redactor.text(string, counts) is not string or opens_key(string):
                return False
    return True


def _redact_json(redactor: Redactor, line: bytes) -> Redacted:
    if not redactor.looks_everywhere and _is_clean(redactor, line):
        return Redacted(line.decode(), is_json=True)
    walk, places = _Walk(), _Places(redactor, line)
    pieces, hits, reached, opened = list[bytes](), list[Hit](), 0, False
    for found in _TOKEN.finditer(line):
        start, end = found.span()
        if line[start] != _QUOTE:
            mark = found[0]
            opened = opened and mark not in b"]}"
            walk.mark(mark)
            continue
        is_suspect = places.any_in(start, end)
        if not (is_suspect or walk.is_key or opened or walk.member):
            continue
        string, counts = _decoded(line[start:end]), Counter[str]()
        if walk.is_key:
            changed = redactor.text(string, counts) if is_suspect else string
            walk.name(changed)
        else:
            changed, opened = _value(redactor, string, walk, opened, counts)
        if changed != string:
            pieces += [line[reached:start], encode(changed)]
            reached = end
            hits += _hits(counts, walk.path)
    text = b"".join([*pieces, line[reached:]]) if pieces else line
    return Redacted(text.decode(), is_json=True, hits=tuple(hits))


def _value(redactor: Redactor, string: str, walk: _Walk, opened: bool, counts: Counts) -> tuple[str, bool]:
    """Return a value redacted, and whether a private key goes on in the next element of a list."""
    changed = redactor.member(walk.member, string, counts) if walk.member else string
    if changed == string and opened and walk.in_list:
        changed = redactor.rows(string, counts) or string
    if changed == string:
        changed = redactor.text(string, counts)
        opened = opened or (walk.in_list and opens_key(string))
    return changed, opened and "-----END" not in string


def _decoded(token: bytes) -> str:
    if b"\\" not in token:
        return token[1:-1].decode()
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded: str = json.loads(token, strict=False)  # a lone surrogate
        return decoded


def _hits(counts: Counts, path: str) -> tuple[Hit, ...]:
    return tuple(Hit(kind, count, path) for kind, count in counts.items())
