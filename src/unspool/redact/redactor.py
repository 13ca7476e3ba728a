"""Replaces secrets in a text by markers.

    [redacted:github-token:3f2a9c01be]

The last part is a keyed hash: the same secret has the same marker wherever it stands, and nobody without the key can
try out which secret it was.

Rules
  1. A text in which nothing is match is returned as it is, the very object.
  2. Redacting twice changes nothing: no rule finds a marker.
  3. Kinds that say more come first: a GitHub token is not reported as an assignment.
  4. Few secrets have white space in them. So only the text around a suspect place is searched, from white space to
     white space: a long text is searched once, and not once for each rule.
  5. Characters of no width, and escapes like `\\u0067` in text, are taken away before a second search. If it finds
     more, its text is the result. A token that a line end cuts is found if its parts together have the exact shape.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from unspool.redact import rules, values
from unspool.redact.options import DEFAULT_OPTIONS, RedactionOptions
from unspool.redact.personal import find_email_places, find_emails, find_homes
from unspool.redact.rules import compile_pattern
from unspool.redact.token_formats import CUT_TOKENS, ESCAPE, SAFE_LEFT, TOKENS, Token

Counts: TypeAlias = Counter[str]
_LONGEST_KEY = 64 * 1024
"""Bytes after its beginning in which the end of a private key is searched."""
_LONGEST_NAME = 64
_BEFORE, _AFTER = 2 * _LONGEST_NAME, 256
"""Bytes around a suspect place in which a secret may begin: a name before it, quotes and blanks after it."""
_AFTER_COOKIE = 4096
"""The same for a header of cookies, which has blanks in it."""
_ROWS = rf"(?:\s*[-+ ]?(?:[A-Za-z0-9+/=]{{1,80}}|{rules.KEY_END})\s*)+"
_IN_NAMES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


_MOST_KNOWN = 1024
_MOST_WINDOWS_KNOWN, _LONGEST_KNOWN = 16, 16 * 1024
"""Windows whose result is kept, and the bytes of the longest of them."""


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
        self._key, self._options, self._keep = key, options, frozenset(keep)
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._windows_known: dict[bytes, tuple[bytes | None, Counts]] = {}
        self.version = rules.rules_version(options.words)
        """The version of the rules."""
        self.looks_everywhere = options.looks_everywhere
        self._suspect = rules.suspect_pattern(options.hints)
        self._everywhere = (
            _private_keys,
            _putty_keys,
            *(_whole(rule.kind, compile_pattern(rule.pattern)) for rule in options.rules),
        )
        # In this order (rule 3): what an earlier step has replaced is hidden from the later ones.
        self._near = tuple(_steps())

    def find_suspects(self, data: bytes, start: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the spans of raw bytes where a secret may be, other than addresses and homes."""
        if self.looks_everywhere:
            yield start, len(data)
        else:
            yield from (match.span() for match in self._suspect.finditer(data, start))

    def has_suspect(self, data: bytes) -> bool:
        """Tell whether there is a place in raw bytes where a secret may be, other than addresses and homes."""
        return self.looks_everywhere or self._suspect.search(data) is not None

    def find_email_places(self, data: bytes) -> Iterator[int]:
        """Yield the offsets of raw bytes where an address to redact may be."""
        return find_email_places(data) if self._options.emails else iter(())

    def find_homes(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans of raw bytes with the names of home folders to redact."""
        return find_homes(data, raw=True) if self._options.homes else iter(())

    def redact_personal(self, data: bytes, counts: Counts, *, raw: bool) -> bytes:
        """Replace addresses and the names of home folders, in raw JSON or in text: nothing of them is ever escaped."""
        if self._options.emails:
            data = self.replace_spans(data, "email", find_emails(data), counts)
        if self._options.homes:
            data = self.replace_spans(data, "home", find_homes(data, raw=raw), counts)
        return data

    def replace_spans(self, data: bytes, kind: str, spans: Iterable[tuple[int, int]], counts: Counts) -> bytes:
        """Replace these spans, in their order, by markers of one kind."""
        pieces, reached = list[bytes](), 0
        for start, end in spans:
            pieces += [data[reached:start], self._mark(kind, data[start:end], counts)]
            reached = end
        return b"".join([*pieces, data[reached:]]) if pieces else data

    def redact_text(self, text: str, counts: Counts, *, personal: bool = True) -> str:
        """Replace the secrets of a text by markers; count them by kind. Without `personal`, not addresses and homes."""
        before = text.encode("utf-8", "surrogatepass")
        # First, on the whole text: a private key has white space in it, so no window would hold it.
        data = self._apply(before, self._everywhere, counts)
        pieces, reached = list[bytes](), 0
        for start, end in self._windows(data):
            piece = data[start:end]
            changed = self._redact_window(piece, counts)
            if changed is not piece:
                pieces += [data[reached:start], changed]
                reached = end
        if pieces:
            data = b"".join([*pieces, data[reached:]])
        if personal:
            data = self.redact_personal(data, counts, raw=False)
        return text if data is before else data.decode("utf-8", "surrogatepass")

    def _redact_window(self, piece: bytes, counts: Counts) -> bytes:
        # A line is asked first whether it holds a secret, and Claude Code writes each result of a tool twice.
        if (known := self._windows_known.get(piece)) is None:
            changed, found = self._redact_new_window(piece)
            known = None if changed is piece else changed, found
            if len(piece) <= _LONGEST_KNOWN:
                if len(self._windows_known) >= _MOST_WINDOWS_KNOWN:
                    self._windows_known.clear()
                self._windows_known[piece] = known
        counts.update(known[1])
        return piece if known[0] is None else known[0]

    def _redact_new_window(self, piece: bytes) -> tuple[bytes, Counts]:
        plain, found, in_plain = _without_disguise(piece), Counter[str](), Counter[str]()
        changed = self._apply(piece, self._near, found)
        if plain is not piece:  # rule 5
            again = self._apply(plain, self._near, in_plain)
            # As many are enough: a token may have been found in part, up to the character of no width.
            if in_plain and in_plain.total() >= found.total():
                changed, found = again, in_plain
        return changed, found

    def _apply(self, data: bytes, steps: tuple[_Step, ...], counts: Counts) -> bytes:
        for step in steps:
            if spans := sorted(step(data)):
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
            after = end + (_AFTER_COOKIE if b"ookie" in data[start:end] else _AFTER)
            match = compile_pattern(r"\s").search(data, after) if after < len(data) else None
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
        is_clean = not self.has_suspect(data) and self.redact_personal(data, Counter(), raw=False) is data
        return name if is_clean else self.redact_text(name, Counter())

    def make_marker(self, kind: str, secret: bytes) -> str:
        """Return the marker of a secret."""
        return f"[redacted:{kind}:{hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:10]}]"

    def _mark(self, kind: str, secret: bytes, counts: Counts) -> bytes:
        """Return the marker of a secret, and count it; the secret itself if the user wants to keep it."""
        # The same few names are in every line of a session.
        if (marker := self._known.get((kind, secret))) is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            made = self.make_marker(kind, secret)
            marker = self._known[kind, secret] = secret if self._is_kept(made) else made.encode()
        counts[kind] += marker != secret
        return marker

    def find_token_parts(self, text: str) -> dict[str, str]:
        """Return the parts of tokens that line ends or blanks cut, and beginnings at a `…`, each with its marker."""
        data, found = text.encode("utf-8", "replace"), dict[str, str]()
        for token in _cut_tokens(data, _LINE_END_OR_BLANK):
            parts = token.parts
            if token.left:  # only what is before the first blank is of the token for certain
                after = data[token.start + len(parts[0]) :][:4].lstrip(b" ")
                parts = parts[:1] if after.startswith(_CUT_MARK) and len(parts[0]) >= _SHORTEST_BEGINNING else []
            marker = self.make_marker(token.kind, b"".join(parts))
            if not self._is_kept(marker):
                found.update(dict.fromkeys((part.decode() for part in parts), marker))
        return found

    def redact_member(self, key: str, value: str, counts: Counts) -> str:
        """Redact the value of a JSON member: what its key calls a secret is replaced as a whole."""
        if key.lower() in {"auth", "_auth"}:
            kind = "basic-auth" if values.is_basic(value) else ""
        else:
            kind = "assignment" if is_secret_key(key) and values.is_member(key, value) else ""
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


def _steps() -> Iterator[_Step]:
    first, *others = (_grouped(rule) for rule in rules.GROUP_RULES)
    yield first  # it needs the key's id, which the tokens replace
    yield _broken_tokens  # else the first part of one would be taken for the whole
    yield _tokens
    yield from others
    yield _cookies
    yield _mnemonics
    yield _assignments(compile_pattern(rules.ASSIGNMENT))
    yield _assignments(compile_pattern(rules.OPTION))


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


def _putty_keys(text: bytes) -> Iterator[SecretSpan]:
    reached = 0
    while (start := text.find(b"Private-Lines:", reached)) >= 0:
        mac = compile_pattern(r"Private-MAC:[ \t]*[0-9a-f]*").search(text[start : start + _LONGEST_KEY])
        if mac:
            reached = start + mac.end()
        elif rows := compile_pattern(rules.PUTTY_ROWS).match(text, start):
            reached = rows.end()
        else:  # text about a key
            reached = start + 1
            continue
        yield SecretSpan(start, reached, "private-key")


def _tokens(text: bytes) -> Iterator[SecretSpan]:
    for pattern in (_any_token(), *(late for hint, late in _late_tokens() if hint.search(text))):
        for match in pattern.finditer(text):
            start, end = match.span()
            # The pattern has no groups, which would be slow: what stands before the token is taken away here.
            if left := compile_pattern(_LEFT_OF_TOKEN).match(text, start):
                start = left.end()
            if kind := _token_kind(text, start, end):
                yield SecretSpan(start, end, kind)


def _token_kind(text: bytes, start: int, end: int) -> str:
    """Return the kind of a token; empty if it is none after all."""
    secret = text[start:end]
    token = _find_token(secret)
    if token is None:
        return "token"
    if token.bounded and (_is_in_base64(text, start, end) or not _is_random(secret)):
        return ""
    # `sk-` before letters alone may be a part of a name; a key has digits.
    if token.kind in _NAMELIKE and not any(48 <= byte < 58 for byte in secret) and not _is_random(secret):
        return ""
    return token.kind


def _find_token(secret: bytes) -> Token | None:
    """Return the first kind of token whose pattern matches all of a secret."""
    # All patterns at once: 1 µs instead of 80 one by one. It also finds nothing if its memory is too small for the
    # secret, so only what it finds is believed.
    if numbers := _token_set().Match(secret):
        return TOKENS[min(numbers)]
    return next((token for token in TOKENS if compile_pattern(token.pattern).fullmatch(secret)), None)


@cache
def _token_set() -> Any:
    import re2  # here: most commands redact nothing

    patterns = re2.Set.FullMatchSet(rules.pattern_options(captures=False))
    for token in TOKENS:
        patterns.Add(token.pattern.encode())
    patterns.Compile()
    return patterns


def _is_random(secret: bytes) -> bool:
    return values.is_random(secret.decode("utf-8", "replace"))


def _is_in_base64(text: bytes, start: int, end: int) -> bool:
    before = text[max(start - 2, 0) : start]
    # `+` at the beginning of a line is the sign of a diff.
    return text[end : end + 1] in _IN_BASE64 or (before[-1:] in (b"+", b"/") and before[:-1] in _IN_BASE64)


_LEFT_OF_TOKEN = rf"(?:{ESCAPE}|[0-9;\[]+m)"
_NAMELIKE = frozenset({"openai-key", "modal-token", "vercel-token", "render-key", "buildkite-token"})
_IN_BASE64 = tuple(bytes([byte]) for byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-")


# What begins with any letter makes every letter of a text the beginning of a token: the states of re2 would not fit
# into its memory (a hundred times slower). Such patterns are searched one by one, where their hint is found.
@cache
def _any_token() -> Any:
    tokens = [token for token in TOKENS if not token.is_late]
    anchored, free = (
        "|".join(f"(?:{token.pattern})" for token in tokens if token.anchored is side) for side in (True, False)
    )
    return compile_pattern(f"{SAFE_LEFT}(?:{anchored})|{free}", captures=False)


@cache
def _late_tokens() -> tuple[tuple[Any, Any], ...]:
    return tuple(
        (
            compile_pattern(token.hint, captures=False),
            compile_pattern(f"{SAFE_LEFT if token.anchored else ''}(?:{token.pattern})", captures=False),
        )
        for token in TOKENS
        if token.is_late
    )


def _broken_tokens(text: bytes) -> Iterator[SecretSpan]:
    """Yield the tokens of a known length that line ends cut in parts."""
    if b"\n" not in text and b"\\n" not in text:
        return
    for token in _cut_tokens(text, _LINE_END):
        if len(token.parts) > 1 and token.left == 0:
            yield SecretSpan(token.start, token.end, token.kind)


class _CutToken(NamedTuple):
    """The parts of a token of a known length, the first one with its prefix, and how many characters are missing."""

    start: int
    end: int
    kind: str
    parts: list[bytes]
    left: int


def _cut_tokens(text: bytes, cut: str) -> Iterator[_CutToken]:
    """Yield the tokens that a pattern cuts in parts, whole ones and the beginnings of longer ones among them."""
    between = compile_pattern(cut)
    for match in compile_pattern(_CUT_PREFIXES, captures=False).finditer(text):
        head = text[match.start() : match.end()]
        kind, alphabet, left = next(token[1:] for token in CUT_TOKENS if head == token[0].encode())
        pattern, end, parts, reached = compile_pattern(f"{alphabet}+"), match.end(), list[bytes](), match.end()
        while left > 0 and len(parts) <= _MOST_CUTS and (part := pattern.match(text, end)):
            parts.append(part[0])
            left, end, reached = left - len(part[0]), part.end(), part.end()
            if left > 0 and (gap := between.match(text, end)):
                end = gap.end()
        # The last part ends where the length is reached: what is longer is another word.
        if left >= 0 and parts and len(parts[0]) >= _SHORTEST_PART and _is_random(b"".join(parts)):
            yield _CutToken(match.start(), reached, kind, [head + parts[0], *parts[1:]], left)


_MOST_CUTS, _SHORTEST_PART = 4, 3
_LINE_END = r"[ \t]*(?:\r?\n|(?:\\r)?\\n)(?:[ \t]*[0-9]{0,6}(?:\xe2\x86\x92|\t|[|:]))?[ \t|>+]*"
# Where a text became one line, a blank stands for its line ends.
_LINE_END_OR_BLANK = rf"(?:{_LINE_END}|[ \t]+[|>+]?[ \t]*)"
_CUT_MARK = "…".encode()
_SHORTEST_BEGINNING = 12
"""Characters of the beginning of a token that say that it is one."""
_CUT_PREFIXES = "|".join(prefix for prefix, *_ in CUT_TOKENS)


def _without_disguise(text: bytes) -> bytes:
    """Return a text without characters of no width and without escapes of letters; the same object if it has none."""
    plain = text
    if b"\\u00" in plain:
        plain = _ESCAPED_LETTER.sub(lambda match: bytes([int(match[1], 16)]), plain)
    if compile_pattern(rules.INVISIBLE, captures=False).search(plain):
        plain = _INVISIBLE.sub(b"", plain)
    return text if plain == text else plain


# Not of quotes and backslashes: they would damage JSON in a text.
_ESCAPED_LETTER = re.compile(rb"\\+u00(2[013-9a-fA-F]|[3467][0-9a-fA-F]|5[0-9abd-fABD-F])")
# Between letters only: others join pictures (emoji).
_INVISIBLE = re.compile(rb"(?<=[A-Za-z0-9_-])(?:" + rules.INVISIBLE.encode() + rb")+(?=[A-Za-z0-9_-])")


def _cookies(text: bytes) -> Iterator[SecretSpan]:
    if b"ookie" not in text and b"-b" not in text and b"OOKIE" not in text:
        return
    header, cookie = compile_pattern(rules.COOKIES), compile_pattern(rules.COOKIE)
    for match in header.finditer(text):
        first, last = _group(header, match, b"bare")
        for one in cookie.finditer(text[first:last]):
            start, end = _group(cookie, one, b"bare")
            if values.is_strange(text[first + start : first + end].decode("utf-8", "replace")):
                yield SecretSpan(first + start, first + end, "cookie")


def _mnemonics(text: bytes) -> Iterator[SecretSpan]:
    pattern = compile_pattern(rules.MNEMONIC)
    for match in pattern.finditer(text):
        start, end = _group(pattern, match, b"bare")
        words = list(re.finditer(rb"[a-z]+", text[start:end]))
        if number := values.count_seed_words([word[0].decode() for word in words]):
            yield SecretSpan(start, start + words[number - 1].end(), "mnemonic")


def _whole(kind: str, pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[SecretSpan]:
        return (SecretSpan(match.start(), match.end(), kind) for match in pattern.finditer(text))

    return step


def _grouped(rule: rules.GroupRule) -> _Step:
    pattern = compile_pattern(rule.pattern)
    hint = compile_pattern(rule.pattern, captures=False)

    def step(text: bytes) -> Iterator[SecretSpan]:
        # Cheap questions first: the search with groups is the slow one.
        lower = _lower(text)
        if (rule.words and not any(word in lower for word in rule.words)) or not hint.search(text):
            return
        for match in pattern.finditer(text):
            start, end = _group(pattern, match, b"bare", b"key", b"other")
            if rule.check(text[start:end].decode("utf-8", "replace")):
                yield SecretSpan(start, end, rule.kind)

    return step


@lru_cache(maxsize=1)
def _lower(text: bytes) -> bytes:
    return text.lower()  # once for all rules


def _assignments(pattern: Any) -> _Step:
    def step(text: bytes) -> Iterator[SecretSpan]:
        for match in pattern.finditer(text):
            start, end = _group(pattern, match, b"bare", b"phrase", b"words", b"double", b"single", b"code")
            first, last = match.span(pattern.groupindex[b"separator"])
            name = _name_before(text, first)
            # `[redacted:token:…` is a marker, although it reads like an assignment.
            if not text.endswith(b"[redacted:", 0, first - len(name)) and values.is_assigned(
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
    # What `cat -n`, `grep -n`, a diff or a log puts before a line is no part of it.
    before = before[match.end() :] if (match := _LINE_PREFIX.match(before)) else before
    return before.strip(b" \t-+*>\"'\\") == b"" and text[end : end + 1] in (b"", b"\n", b"\r", b"\\")


_LINE_PREFIX = re.compile(
    rb"(?:[ \t+<>-]*(?:[0-9]{1,7}(?:\xe2\x86\x92|\\u2192|\t|\\t|[:|-])|[\w./@-]{1,200}[:-][0-9]{1,7}[:-]"
    rb"|\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,+Z-]+\]?"
    rb"|\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE|debug|info|warn|error)\]?:?(?= )))+"
)


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
