"""Secrets in a text replaced by markers: text in, text out.

    [redacted:github-token:3f2a9c01be]

The last part is a keyed hash: the same secret has the same marker wherever it stands, and nobody without the key can
try out which secret it was.

Rules
  1. A text in which nothing is found is returned as it is, the very object.
  2. Redacting twice changes nothing: no rule finds a marker.
  3. Kinds that say more come first: what is a GitHub token is not just an assignment.
  4. No secret but a private key has white space in it. So it is enough to look at what stands around a suspicion, from
     white space to white space: a long text is searched once, and not once for each rule.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from unspool.redact import rules
from unspool.redact import rules as checks
from unspool.redact.options import PLAIN, Options
from unspool.redact.rules import compiled
from unspool.redact.token_formats import SAFE_LEFT, TOKENS

Counts: TypeAlias = Counter[str]
_REACH = 64 * 1024
"""How far from its beginning the end of a private key is looked for."""
_LONGEST_NAME = 64
_BEFORE, _AFTER = 2 * _LONGEST_NAME, 256
"""How far around a suspicion a secret may begin: a name before it, quotes and blanks after it."""
_ROWS = rf"(?:\s*[-+ ]?(?:[A-Za-z0-9+/=]{{1,80}}|{rules.KEY_END})\s*)+"
_IN_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class Span(NamedTuple):
    """A secret in a text, by its bytes."""

    start: int
    end: int
    kind: str


class Redactor:
    """Replaces secrets, with one key and one set of rules."""

    def __init__(self, key: bytes, options: Options = PLAIN) -> None:
        self._key = key
        self.version = rules.version(options.words)
        """Names the rules."""
        self.looks_everywhere = options.looks_everywhere
        self._suspect = rules.suspect(options.hints)
        self._everywhere = (_private_keys, *(_whole(rule.kind, compiled(rule.pattern)) for rule in options.rules))
        self._near = tuple(_steps(options))

    def suspects(self, data: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the places in raw bytes where a secret may be."""
        if self.looks_everywhere:
            yield start, len(data)
        else:
            yield from self._suspect_spans(data, start)

    def _suspect_spans(self, data: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        return (found.span() for found in self._suspect.finditer(data, start))

    def text(self, text: str, counts: Counts) -> str:
        """Return a text with markers for its secrets; they are counted by kind."""
        before = text.encode("utf-8", "surrogatepass")
        data = self._done(before, self._everywhere, counts)
        pieces, reached = list[bytes](), 0
        for start, end in self._windows(data):
            piece = data[start:end]
            changed = self._done(piece, self._near, counts)
            if changed is not piece:
                pieces += [data[reached:start], changed]
                reached = end
        if pieces:
            data = b"".join([*pieces, data[reached:]])
        return text if data is before else data.decode("utf-8", "surrogatepass")

    def _done(self, data: bytes, steps: tuple[_Step, ...], counts: Counts) -> bytes:
        for step in steps:
            if spans := list(step(data)):
                data = self._replaced(data, spans, counts)
        return data

    def _windows(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the parts of a text in which there may be a secret, from white space to white space (rule 4)."""
        first = last = 0
        for start, end in self._suspect_spans(data):
            if end <= last:
                continue
            left = max(start - _BEFORE, 0)
            left = left and data.rfind(b" ", 0, left) + 1
            found = compiled(r"\s").search(data, end + _AFTER) if end + _AFTER < len(data) else None
            right = found.start() if found else len(data)
            if left <= last and last:
                last = right
            else:
                if last:
                    yield first, last
                first, last = left, right
        if last:
            yield first, last

    def name(self, name: str) -> str:
        """Return a short text redacted, in little time if there is nothing in it."""
        data = name.encode("utf-8", "surrogatepass")
        return self.text(name, Counter()) if any(True for _ in self.suspects(data)) else name

    def marker(self, kind: str, secret: bytes) -> str:
        """Return what stands for a secret."""
        return f"[redacted:{kind}:{hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:10]}]"

    def member(self, key: str, value: str, counts: Counts) -> str:
        """Return the value of a JSON member: what its key calls a secret is one whole."""
        if key.lower() in {"auth", "_auth"}:
            kind = "basic-auth" if checks.is_basic(value) else ""
        else:
            kind = "assignment" if is_secret_key(key) and checks.is_member(key, value) else ""
        if not kind:
            return value
        counts[kind] += 1
        return self.marker(kind, value.encode("utf-8", "surrogatepass"))

    def rows(self, text: str, counts: Counts) -> str | None:
        """Return a marker for a text that is nothing but rows of a private key; None if it is something else."""
        data = text.encode("utf-8", "surrogatepass")
        if not data.strip() or compiled(_ROWS).fullmatch(data) is None:
            return None
        counts["private-key"] += 1
        return self.marker("private-key", data.strip())

    def _replaced(self, data: bytes, spans: list[Span], counts: Counts) -> bytes:
        pieces, reached = list[bytes](), 0
        for start, end, kind in spans:
            if start < reached:
                continue
            pieces += [data[reached:start], self.marker(kind, data[start:end]).encode()]
            counts[kind] += 1
            reached = end
        return b"".join([*pieces, data[reached:]])


@cache
def is_secret_key(key: str) -> bool:
    """Tell whether a JSON key says that its value is a secret."""
    if key.lower() in {"auth", "_auth"}:
        return True
    return len(key) <= 128 and compiled(rules.MEMBER).fullmatch(key.encode("utf-8", "replace")) is not None


def opens_key(text: str) -> bool:
    """Tell whether a private key begins in a text and does not end in it."""
    if "PRIVATE KEY" not in text:
        return False
    data = text.encode("utf-8", "replace")
    begins = [found.end() for found in compiled(rules.KEY_BEGIN).finditer(data)]
    return bool(begins) and compiled(rules.KEY_END).search(data, begins[-1]) is None


_Step: TypeAlias = Callable[[bytes], Iterator[Span]]


def _steps(options: Options) -> Iterator[_Step]:
    yield _tokens
    yield _grouped("url-password", compiled(rules.USERINFO), _is_password)
    yield _grouped("url-password", compiled(rules.TOKEN_URL), checks.is_bearer)
    yield _grouped("bearer-token", compiled(rules.BEARER), checks.is_bearer)
    yield _grouped("basic-auth", compiled(rules.BASIC), checks.is_basic)
    yield _grouped("basic-auth", compiled(rules.AUTH), checks.is_basic)
    yield _grouped("login", compiled(rules.LOGIN), checks.is_login)
    yield _assignments(compiled(rules.ASSIGNMENT))
    yield _assignments(compiled(rules.OPTION))
    if options.emails:
        yield _whole("email", compiled(rules.EMAIL))
    if options.homes:
        yield _grouped("home", compiled(rules.HOME), lambda _: True)


def _private_keys(text: bytes) -> Iterator[Span]:
    if b"PRIVATE KEY" not in text:
        return
    reached = 0
    for begin in compiled(rules.KEY_BEGIN).finditer(text):
        if begin.start() < reached:
            continue
        reach = text[begin.end() : begin.end() + _REACH]
        end = compiled(rules.KEY_END).search(reach)
        if end and compiled(rules.KEY_ROW).search(reach[: end.start()]):
            reached = begin.end() + end.end()
        elif end is None and (cut := compiled(rules.KEY_CUT).match(text, begin.start())):
            reached = cut.end()
        else:  # it is only spoken of
            continue
        yield Span(begin.start(), reached, "private-key")
    for rest in compiled(rules.KEY_REST).finditer(text):
        if rest.start() >= reached:
            yield Span(rest.start(), rest.end(), "private-key")


def _tokens(text: bytes) -> Iterator[Span]:
    pattern = _any_token()
    for found in pattern.finditer(text):
        start, end = _group(pattern, found, b"anchored", b"free")
        secret = text[start:end]
        kind = next((token.kind for token in TOKENS if compiled(token.pattern).fullmatch(secret)), "token")
        if kind != "openai-key" or any(48 <= byte < 58 for byte in secret):
            yield Span(start, end, kind)


@cache
def _any_token() -> Any:
    anchored, free = ("|".join(f"(?:{one.pattern})" for one in TOKENS if one.anchored is so) for so in (True, False))
    return compiled(f"{SAFE_LEFT}(?P<anchored>{anchored})|(?P<free>{free})")


def _is_password(value: str) -> bool:
    return (
        checks.MARKER.search(value) is None and not value.startswith(("$", "{", "<", "*", "%")) and "..." not in value
    )


def _whole(kind: str, pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[Span]:
        return (Span(found.start(), found.end(), kind) for found in pattern.finditer(text))

    return step


def _grouped(kind: str, pattern: Any, check: Callable[[str], bool]) -> _Step:
    def step(text: bytes) -> Iterator[Span]:
        for found in pattern.finditer(text):
            start, end = _group(pattern, found, b"bare", b"key", b"other")
            if check(text[start:end].decode("utf-8", "replace")):
                yield Span(start, end, kind)

    return step


def _assignments(pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[Span]:
        for found in pattern.finditer(text):
            start, end = _group(pattern, found, b"bare", b"phrase", b"words", b"double", b"single")
            first, last = found.span(pattern.groupindex[b"separator"])
            name = _name_before(text, first)
            form = checks.Form(
                quoted=found[pattern.groupindex[b"bare"]] is None,
                spaced=text[first:last] != text[first:last].strip(),
                alone=_is_alone(text, first - len(name), end),
                follows=text[end : end + 1].decode("utf-8", "replace"),
            )
            if text.endswith(b"[redacted:", 0, first - len(name)):
                continue
            if checks.is_assigned(name, text[start:end].decode("utf-8", "replace"), form):
                yield Span(start, end, "assignment")

    return step


def _is_alone(text: bytes, start: int, end: int) -> bool:
    """Tell whether a name and its value are all that stands on a line."""
    before = text[max(start - _LONGEST_NAME, 0) : start].replace(b"\\n", b"\n").rpartition(b"\n")[2]
    return before.strip(b" \t-+\"'\\") == b"" and text[end : end + 1] in (b"", b"\n", b"\r", b"\\")


def _name_before(text: bytes, end: int) -> str:
    """Return a name by where it ends: all of `DB_PASSWORD`."""
    start = end
    while start > 0 and end - start < _LONGEST_NAME and text[start - 1] in _IN_NAMES:
        start -= 1
    return text[start:end].decode()


def _group(pattern: Any, found: Any, *names: bytes) -> tuple[int, int]:
    """Return where the first of these groups is that took part in a match."""
    numbers = (pattern.groupindex[name] for name in names if name in pattern.groupindex)
    start, end = next(found.span(number) for number in numbers if found[number] is not None)
    return int(start), int(end)
