"""Removes texts, patterns and secrets from lines and files: bytes in, bytes out.

    removal = TextRemoval(texts=["hunter2"])
    removal.clean_line(b'{"type":"user","message":{"content":"it is hunter2"}}')

Rules
  1. What nothing is found in stays as it is, byte for byte. In JSON only the strings change that hold a match; they are
     decoded first, so that no escape hides anything.
  2. Ids, types and times are never changed: the session must still be one. Nor are signatures and base64 data.
  3. A secret that was found once is removed wherever the same text stands, also where nothing says that it is one.
  4. With `same_length`, a line keeps its number of bytes: blanks follow it, and what is removed becomes `*` where a
     marker would be too long. Offsets of later lines stay valid.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final

import msgspec

from unspool.errors import UsageError
from unspool.format import encode_json
from unspool.redact.lines import is_json, redact_line
from unspool.redact.redactor import Redactor
from unspool.redact.rules import compile_pattern

MARKER: Final = "[redacted]"
SHORTEST_SECRET: Final = 6
"""Characters of a found secret that is removed everywhere; a shorter one only where it is recognized."""
_SHORTEST_ROW = 32
"""Characters of a row of a private key that is removed by itself: listings put numbers between the rows."""
_TEXTS_PER_PATTERN = 100
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]', re.DOTALL)
_QUOTE, _COLON = ord('"'), ord(":")

STRUCTURE: Final = frozenset(
    {"type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "id", "tool_use_id",
     "toolUseID", "toolUseId", "parentToolUseID", "sourceToolUseID", "sourceToolAssistantUUID", "leafUuid", "messageId",
     "requestId", "promptId", "agentId", "role", "timestamp", "version", "stop_reason", "model", "userType",
     "entrypoint", "permissionMode", "slug", "signature", "media_type", "backupFileName", "contentHash", "headUuid",
     "tailUuid", "anchorUuid", "allUuids", "operation", "mode", "level", "service_tier", "speed", "inference_geo",
     "backupTime", "forkedFrom", "isSidechain", "message", "content", "text", "thinking", "input",
     "name", "toolUseResult", "attachment", "snapshot", "trackedFileBackups", "cwd", "gitBranch", "usage", "status",
     "priority", "caller", "stop_sequence", "compactMetadata", "trigger"}
)  # fmt: skip
"""Keys that are never changed."""
IDENTITY: Final = STRUCTURE - {
    "message", "content", "text", "thinking", "input", "name", "toolUseResult", "attachment", "snapshot", "cwd",
    "gitBranch", "trackedFileBackups", "usage", "compactMetadata", "status", "priority",
}  # fmt: skip
"""Keys whose values are never changed."""


class SecretRecorder(Redactor):
    """A redactor that remembers the secrets it has found, by kind."""

    def __init__(self, key: bytes, *args: Any) -> None:
        super().__init__(key, *args)
        self.found: dict[bytes, str] = {}

    def make_marker(self, kind: str, secret: bytes) -> str:
        """Return the marker of a secret, and remember the secret."""
        if kind != "unreadable":
            self.found.setdefault(secret, kind)
        return super().make_marker(kind, secret)


class TextRemoval:
    """What is to be removed, and how."""

    def __init__(
        self,
        *,
        texts: Iterable[str] = (),
        patterns: Iterable[str] = (),
        redactor: Redactor | None = None,
        whole_lines: Collection[str] = frozenset(),
        whole_agents: Collection[str] = frozenset(),
    ) -> None:
        """Take literal texts, re2 patterns, a redactor, and ids of lines and agents of which no text stays."""
        self._redactor = redactor
        self.whole_lines, self.whole_agents = frozenset(whole_lines), frozenset(whole_agents)
        literals = sorted({one for text in texts for one in _spellings(text)}, key=lambda one: (-len(one), one))
        groups = [literals[at : at + _TEXTS_PER_PATTERN] for at in range(0, len(literals), _TEXTS_PER_PATTERN)]
        self._literals = [_compile("|".join(map(_escape, group))) for group in groups]
        self._patterns = [_compile_pattern(pattern) for pattern in patterns]

    def matches(self, data: bytes) -> bool:
        """Tell whether raw bytes, or the text they are in JSON, hold something that should be removed."""
        return any(pattern.search(data) for pattern in (*self._literals, *self._patterns))

    def clean_text(self, text: str, *, masked: bool = False) -> str:
        """Return a text without what is to be removed; the same object if there is nothing in it."""
        data = before = text.encode("utf-8", "surrogatepass")
        for pattern in (*self._literals, *self._patterns):
            data = _replace(pattern, data, masked=masked)
        text = text if data is before else data.decode("utf-8", "surrogatepass")
        if self._redactor is not None:
            text = self._redactor.redact_text(text, Counter(), personal=False)
        return text

    def clean_line(self, line: bytes, *, same_length: bool = False) -> bytes:
        """Return a line, without its end, as it should be."""
        return _fit(line, lambda masked: self._clean_line(line, masked=masked), same_length=same_length)

    def _blank_padded(self, line: bytes, *, same_length: bool) -> bytes:
        return _fit(line, lambda masked: blank_line(line, "*" if masked else MARKER), same_length=same_length)

    def clean_lines(self, data: bytes, *, same_length: bool = False, whole: bool = False) -> bytes:
        """Return the lines of a file as they should be; the same object if nothing changes. `whole`: without texts."""
        lines = data.split(b"\n")
        clean = self._blank_padded if whole else self.clean_line
        cleaned = [clean(line, same_length=same_length) if line else line for line in lines]
        return data if cleaned == lines else b"\n".join(cleaned)

    def clean_file(self, data: bytes) -> bytes:
        """Return the content of a file that is no file of lines: JSON, text or anything else."""
        return self._clean_line(data, masked=False)

    def _clean_line(self, line: bytes, *, masked: bool) -> bytes:
        if self.whole_lines and (uuid := _read_uuid(line)) is not None:
            # Of named turns all texts go; other lines of the conversation may say the same, and stay.
            return blank_line(line, "*" if masked else MARKER) if uuid in self.whole_lines else line
        if not is_json(line):
            return self._clean_plain(line, masked=masked)
        if masked:  # known secrets become `*` before the redactor can put a longer marker in their place
            line = replace_strings(line, lambda text: self.clean_text(text, masked=True))
        if self._redactor is not None:
            # It knows keys whose values are secrets, which a search of single strings cannot.
            line = self._redact_json(line)
        return line if masked else replace_strings(line, self.clean_text)

    def _redact_json(self, line: bytes) -> bytes:
        assert self._redactor is not None
        redacted = redact_line(self._redactor, line)
        return redacted.text.encode("utf-8", "surrogatepass") if redacted.hits else line

    def _clean_plain(self, data: bytes, *, masked: bool) -> bytes:
        try:
            text = data.decode()
        except UnicodeDecodeError:  # no text: the bytes are all that can be compared
            for pattern in (*self._literals, *self._patterns):
                data = _replace(pattern, data, masked=masked)
            return data
        cleaned = self.clean_text(text, masked=masked)
        return data if cleaned is text else cleaned.encode("utf-8", "surrogatepass")


def _fit(line: bytes, clean: Callable[[bool], bytes], *, same_length: bool) -> bytes:
    """Return a cleaned line, made as long as it was if that is asked for (rule 4)."""
    cleaned = clean(False)
    if not same_length or cleaned == line:
        return cleaned
    if len(cleaned) > len(line):
        cleaned = clean(True)
    if len(cleaned) > len(line):  # escapes of the rest were written in another way: nothing of the line may stay
        cleaned = b"{}" if len(line) > 1 else b" "
    return cleaned + b" " * (len(line) - len(cleaned))


class _Envelope(msgspec.Struct):
    uuid: str | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def _read_uuid(line: bytes) -> str | None:
    try:
        return _ENVELOPE.decode(line).uuid
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def secret_texts(found: Iterable[bytes]) -> Iterator[str]:
    """Yield the texts that are removed everywhere because they were found as secrets (rule 3)."""
    for secret in found:
        text = secret.decode("utf-8", "replace")
        if len(text.strip()) >= SHORTEST_SECRET:
            yield text.strip()
        rows = re.split(r"\s+|\\[nr]", text)
        if len(rows) > 1:
            yield from (row for row in rows if len(row) >= _SHORTEST_ROW)


def blank_line(line: bytes, marker: str = MARKER) -> bytes:
    """Return a line of JSON without any text but its structure; an image becomes a text."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return encode_json({"type": marker})
    return encode_json(_blank(value, marker))


def _blank(value: Any, marker: str) -> Any:
    match value:
        case {"type": "image" | "document", "source": _}:
            return {"type": "text", "text": marker}
        case dict():
            kept = IDENTITY | {"name"} if value.get("type") == "tool_use" else IDENTITY
            return {key: one if key in kept or _is_id(key) else _blank(one, marker) for key, one in value.items()}
        case list():
            return [_blank(one, marker) for one in value]
        case str():
            return marker if value.strip() else value
        case _:
            return value


def _is_id(key: str) -> bool:
    return key.endswith(("Id", "ID", "Uuid", "UUID", "OutputPath"))


def replace_strings(line: bytes, clean: Callable[[str], str]) -> bytes:
    """Return JSON in which strings are replaced, but for those that give it its structure (rule 2)."""
    pieces, reached = list[bytes](), 0
    keys: list[str] = []
    """The key of each open object; of a list, the key that it is the value of."""
    for match in _TOKEN.finditer(line):
        start, end = match.span()
        if line[start] != _QUOTE:
            if match[0] in b"{[":
                keys.append("" if match[0] == b"{" or not keys else keys[-1])
            elif match[0] in b"}]" and keys:
                keys.pop()
            continue
        string = _decode_string(line[start:end])
        if _is_key(line, end):
            keys[-1:] = [string]
            if _is_structure(string, keys):
                continue
        elif keys and _is_identity(keys[-1], string, keys):
            continue
        changed = clean(string)
        if changed != string:
            pieces += [line[reached:start], encode_json(changed)]
            reached = end
    return b"".join([*pieces, line[reached:]]) if pieces else line


def _is_structure(key: str, keys: list[str]) -> bool:
    return (key in STRUCTURE or _is_id(key)) and not _is_free(keys)


def _is_identity(key: str, value: str, keys: list[str]) -> bool:
    if key in _MEDIA:
        return len(value) >= _LONGEST_TOKEN and _BASE64.fullmatch(value) is not None
    return key in IDENTITY and (key in _ALWAYS or not _is_free(keys))


def _is_free(keys: list[str]) -> bool:
    """Tell whether a place is within what a tool was given or gave back: any key may stand there."""
    return any(key in _FREE for key in keys[:-1])


_FREE = frozenset({"input", "toolUseResult"})
_ALWAYS = frozenset({"type", "agentId"})
_MEDIA = frozenset({"data", "base64"})
_LONGEST_TOKEN = 512
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]*+")


def _is_key(line: bytes, end: int) -> bool:
    while end < len(line) and line[end] in b" \t\r\n":
        end += 1
    return end < len(line) and line[end] == _COLON


def _decode_string(token: bytes) -> str:
    if b"\\" not in token:
        return token[1:-1].decode("utf-8", "surrogatepass")
    try:
        return msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json

        decoded: str = json.loads(token, strict=False)  # a lone surrogate
        return decoded


def _replace(pattern: Any, data: bytes, *, masked: bool) -> bytes:
    pieces, reached = list[bytes](), 0
    for match in pattern.finditer(data):
        start, end = match.span()
        if end <= start:  # a pattern that matches nothing removes nothing
            continue
        pieces += [data[reached:start], b"*" * (end - start) if masked else MARKER.encode()]
        reached = end
    return b"".join([*pieces, data[reached:]]) if pieces else data


def _spellings(text: str) -> Iterator[str]:
    """Yield a text, and how it is written in JSON and in JSON within JSON."""
    import json

    for _ in range(3):
        yield text
        for ascii_only in (False, True):
            yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        text = json.dumps(text, ensure_ascii=False)[1:-1]


def _escape(text: str) -> str:
    # Byte by byte: the pattern is compiled for Latin-1, and the text is UTF-8.
    return "".join(f"\\x{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


def _compile(pattern: str) -> Any:
    return compile_pattern(pattern, captures=False)


def _compile_pattern(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = 1 << 26
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern.encode(), options)
    except re2.error as error:
        words = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise UsageError(f"invalid pattern: {words}", hint="re2 has no look-around and no back-references") from None
    if compiled.search(b"") is not None or compiled.search(MARKER.encode()) is not None:
        raise UsageError(
            "the pattern matches empty text or the marker `[redacted]`", hint="name what the text must contain"
        )
    return compiled
