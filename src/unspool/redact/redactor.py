"""Replaces secrets in a text by markers.

    [redacted:github-token:3f2a9c01be]

The last part is a keyed hash: the same secret has the same marker wherever it stands, and nobody without the key can
try out which secret it was.

Rules
  1. A text in which nothing is match is returned as it is, the very object.
  2. Redacting twice changes nothing: no rule finds a marker.
  3. Kinds that say more come first: a GitHub token is not reported as an assignment.
  4. No secret but a private key has white space in it. So only the text around a suspect place is searched, from white
     space to white space: a long text is searched once, and not once for each rule.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from unspool.redact import rules
from unspool.redact.options import DEFAULT_OPTIONS, RedactionOptions
from unspool.redact.rules import compile_pattern
from unspool.redact.token_formats import SAFE_LEFT, TOKENS

Counts: TypeAlias = Counter[str]
_LONGEST_KEY = 64 * 1024
"""Bytes after its beginning in which the end of a private key is searched."""
_LONGEST_NAME = 64
_BEFORE, _AFTER = 2 * _LONGEST_NAME, 256
"""Bytes around a suspect place in which a secret may begin: a name before it, quotes and blanks after it."""
_ROWS = rf"(?:\s*[-+ ]?(?:[A-Za-z0-9+/=]{{1,80}}|{rules.KEY_END})\s*)+"
_IN_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class SecretSpan(NamedTuple):
    """The bytes of a secret in a text, and its kind."""

    start: int
    end: int
    kind: str


class Redactor:
    """Replaces secrets by markers, with one key and one set of rules."""

    def __init__(
        self, key: bytes, options: RedactionOptions = DEFAULT_OPTIONS, keep: Collection[str] = frozenset()
    ) -> None:
        """Take a key, the rules, and the hashes of markers whose texts the user wants to keep."""
        self._key, self._keep = key, frozenset(keep)
        self.version = rules.rules_version(options.words)
        """The version of the rules."""
        self.looks_everywhere = options.looks_everywhere
        self._suspect = rules.suspect_pattern(options.hints)
        self._everywhere = (
            _private_keys,
            *(_whole(rule.kind, compile_pattern(rule.pattern)) for rule in options.rules),
        )
        # In this order (rule 3): what an earlier step has replaced is hidden from the later ones.
        self._near = tuple(_steps(options))

    def find_suspects(self, data: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the spans of raw bytes where a secret may be."""
        if self.looks_everywhere:
            yield start, len(data)
        else:
            yield from (match.span() for match in self._suspect.finditer(data, start))

    def redact_text(self, text: str, counts: Counts) -> str:
        """Replace the secrets of a text by markers; count them by kind."""
        before = text.encode("utf-8", "surrogatepass")
        # First, on the whole text: a private key has white space in it, so no window would hold it.
        data = self._apply(before, self._everywhere, counts)
        pieces, reached = list[bytes](), 0
        for start, end in self._windows(data):
            piece = data[start:end]
            changed = self._apply(piece, self._near, counts)
            if changed is not piece:
                pieces += [data[reached:start], changed]
                reached = end
        if pieces:
            data = b"".join([*pieces, data[reached:]])
        return text if data is before else data.decode("utf-8", "surrogatepass")

    def _apply(self, data: bytes, steps: tuple[_Step, ...], counts: Counts) -> bytes:
        for step in steps:
            if spans := list(step(data)):
                data = self._replace(data, spans, counts)
        return data

    def _windows(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans of a text in which there may be a secret, from white space to white space (rule 4)."""
        first = last = 0
        for start, end in (match.span() for match in self._suspect.finditer(data)):
            if end <= last:
                continue
            left = max(start - _BEFORE, 0)
            left = left and data.rfind(b" ", 0, left) + 1
            match = compile_pattern(r"\s").search(data, end + _AFTER) if end + _AFTER < len(data) else None
            right = match.start() if match else len(data)
            if left <= last and last:
                last = right
            else:
                if last:
                    yield first, last
                first, last = left, right
        if last:
            yield first, last

    def redact_name(self, name: str) -> str:
        """Redact a short text, fast if there is nothing in it."""
        data = name.encode("utf-8", "surrogatepass")
        return self.redact_text(name, Counter()) if any(True for _ in self.find_suspects(data)) else name

    def make_marker(self, kind: str, secret: bytes) -> str:
        """Return the marker of a secret."""
        return f"[redacted:{kind}:{hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:10]}]"

    def redact_member(self, key: str, value: str, counts: Counts) -> str:
        """Redact the value of a JSON member: what its key calls a secret is replaced as a whole."""
        if key.lower() in {"auth", "_auth"}:
            kind = "basic-auth" if rules.is_basic(value) else ""
        else:
            kind = "assignment" if is_secret_key(key) and rules.is_member(key, value) else ""
        if not kind:
            return value
        marker = self.make_marker(kind, value.encode("utf-8", "surrogatepass"))
        if self._is_kept(marker):
            return value
        counts[kind] += 1
        return marker

    def redact_key_rows(self, text: str, counts: Counts) -> str | None:
        """Return a marker for a text that is nothing but rows of a private key, None for any other."""
        data = text.encode("utf-8", "surrogatepass")
        if not data.strip() or compile_pattern(_ROWS).fullmatch(data) is None:
            return None
        marker = self.make_marker("private-key", data.strip())
        if self._is_kept(marker):
            return None
        counts["private-key"] += 1
        return marker

    def _is_kept(self, marker: str) -> bool:
        # By the hash alone: the same text may be a secret of two kinds.
        return bool(self._keep) and marker[-11:-1] in self._keep

    def _replace(self, data: bytes, spans: list[SecretSpan], counts: Counts) -> bytes:
        pieces, reached = list[bytes](), 0
        for start, end, kind in spans:
            if start < reached:
                continue
            marker = self.make_marker(kind, data[start:end])
            if self._is_kept(marker):
                continue
            pieces += [data[reached:start], marker.encode()]
            counts[kind] += 1
            reached = end
        return b"".join([*pieces, data[reached:]]) if pieces else data


@cache
def is_secret_key(key: str) -> bool:
    """Tell whether a JSON key says that its value is a secret."""
    if key.lower() in {"auth", "_auth"}:
        return True
    return len(key) <= 128 and compile_pattern(rules.MEMBER).fullmatch(key.encode("utf-8", "replace")) is not None


def opens_key(text: str) -> bool:
    """Tell whether a private key begins in a text and does not end in it."""
    if "PRIVATE KEY" not in text:
        return False
    data = text.encode("utf-8", "replace")
    begins = [match.end() for match in compile_pattern(rules.KEY_BEGIN).finditer(data)]
    return bool(begins) and compile_pattern(rules.KEY_END).search(data, begins[-1]) is None


_Step: TypeAlias = Callable[[bytes], Iterator[SecretSpan]]


def _steps(options: RedactionOptions) -> Iterator[_Step]:
    yield _tokens
    yield _grouped("url-password", compile_pattern(rules.USERINFO), _is_password)
    yield _grouped("url-password", compile_pattern(rules.TOKEN_URL), rules.is_bearer)
    yield _grouped("bearer-token", compile_pattern(rules.BEARER), rules.is_bearer)
    yield _grouped("basic-auth", compile_pattern(rules.BASIC), rules.is_basic)
    yield _grouped("basic-auth", compile_pattern(rules.AUTH), rules.is_basic)
    yield _grouped("login", compile_pattern(rules.LOGIN), rules.is_login)
    yield _assignments(compile_pattern(rules.ASSIGNMENT))
    yield _assignments(compile_pattern(rules.OPTION))
    if options.emails:
        yield _whole("email", compile_pattern(rules.EMAIL))
    if options.homes:
        yield _grouped("home", compile_pattern(rules.HOME), lambda _: True)


def _private_keys(text: bytes) -> Iterator[SecretSpan]:
    if b"PRIVATE KEY" not in text:
        return
    reached = 0
    for begin in compile_pattern(rules.KEY_BEGIN).finditer(text):
        if begin.start() < reached:
            continue
        tail = text[begin.end() : begin.end() + _LONGEST_KEY]
        end = compile_pattern(rules.KEY_END).search(tail)
        if end and compile_pattern(rules.KEY_ROW).search(tail[: end.start()]):
            reached = begin.end() + end.end()
        elif end is None and (cut := compile_pattern(rules.KEY_CUT).match(text, begin.start())):
            reached = cut.end()
        else:  # text about a key
            continue
        yield SecretSpan(begin.start(), reached, "private-key")
    for rest in compile_pattern(rules.KEY_REST).finditer(text):
        if rest.start() >= reached:
            yield SecretSpan(rest.start(), rest.end(), "private-key")


def _tokens(text: bytes) -> Iterator[SecretSpan]:
    pattern = _any_token()
    for match in pattern.finditer(text):
        start, end = _group(pattern, match, b"anchored", b"free")
        secret = text[start:end]
        kind = next((token.kind for token in TOKENS if compile_pattern(token.pattern).fullmatch(secret)), "token")
        # `sk-` before letters alone may be a part of a name; a key has digits.
        if kind != "openai-key" or any(48 <= byte < 58 for byte in secret):
            yield SecretSpan(start, end, kind)


@cache
def _any_token() -> Any:
    anchored, free = (
        "|".join(f"(?:{token.pattern})" for token in TOKENS if token.anchored is side) for side in (True, False)
    )
    return compile_pattern(f"{SAFE_LEFT}(?P<anchored>{anchored})|(?P<free>{free})")


def _is_password(value: str) -> bool:
    return rules.MARKER.search(value) is None and not value.startswith(("$", "{", "<", "*", "%")) and "..." not in value


def _whole(kind: str, pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[SecretSpan]:
        return (SecretSpan(match.start(), match.end(), kind) for match in pattern.finditer(text))

    return step


def _grouped(kind: str, pattern: Any, check: Callable[[str], bool]) -> _Step:
    def step(text: bytes) -> Iterator[SecretSpan]:
        for match in pattern.finditer(text):
            start, end = _group(pattern, match, b"bare", b"key", b"other")
            if check(text[start:end].decode("utf-8", "replace")):
                yield SecretSpan(start, end, kind)

    return step


def _assignments(pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[SecretSpan]:
        for match in pattern.finditer(text):
            start, end = _group(pattern, match, b"bare", b"phrase", b"words", b"double", b"single")
            first, last = match.span(pattern.groupindex[b"separator"])
            name = _name_before(text, first)
            # `[redacted:token:…` is a marker, although it reads like an assignment.
            if not text.endswith(b"[redacted:", 0, first - len(name)) and rules.is_assigned(
                name,
                text[start:end].decode("utf-8", "replace"),
                quoted=match[pattern.groupindex[b"bare"]] is None,
                spaced=text[first:last] != text[first:last].strip(),
                alone=_is_alone(text, first - len(name), end),
                follows=text[end : end + 1].decode("utf-8", "replace"),
            ):
                yield SecretSpan(start, end, "assignment")

    return step


def _is_alone(text: bytes, start: int, end: int) -> bool:
    """Tell whether a name and its value are alone on a line."""
    before = text[max(start - _LONGEST_NAME, 0) : start].replace(b"\\n", b"\n").rpartition(b"\n")[2]
    return before.strip(b" \t-+\"'\\") == b"" and text[end : end + 1] in (b"", b"\n", b"\r", b"\\")


def _name_before(text: bytes, end: int) -> str:
    """Return the whole name that ends at an offset: all of `DB_PASSWORD`."""
    start = end
    while start > 0 and end - start < _LONGEST_NAME and text[start - 1] in _IN_NAMES:
        start -= 1
    return text[start:end].decode()


def _group(pattern: Any, match: Any, *names: bytes) -> tuple[int, int]:
    """Return the span of the first of these groups that took part in a match."""
    numbers = (pattern.groupindex[name] for name in names if name in pattern.groupindex)
    start, end = next(match.span(number) for number in numbers if match[number] is not None)
    return int(start), int(end)
