"""Builds lines of a session file from what another agent wrote: records in, lines with the original bytes out.

Rules
  1. Every piece of the original gives at least one line, and the first of them has the piece verbatim: `originalLine`
     if it is UTF-8, else `originalBytes` in base64. Put together, they are the original file.
  2. What an agent's format says and Claude Code's does not is a record of the type `other-agent`. What this version
     does not know of an agent's format is a line of a type of its own (`codex/…`), which is counted as unknown.
  3. A field of any JSON type, anywhere, gives a line. What does not fit is left out, and is in the original.
  4. The torn end of a file, which is still being written, gives a torn line: its end is missing as well.
  5. Ids are made from what the original says, so that translating it once more gives the same lines.
"""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec

from unspool.format import DECODE_ERRORS, encode_json, repair_text

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

_LAST_YEAR_MS: Final = 4_102_444_800_000
"""The year 2100: a later time in milliseconds is damage."""
MAX_REMEMBERED: Final = 4096
"""Entries that a translator remembers of a kind, so that its state stays small."""


class SessionTranslator(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Translates one session, piece by piece. It is stored between two readings of a growing file."""

    program: ClassVar[str] = ""

    session_id: str = ""
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    model: str | None = None
    last_uuid: str | None = None
    """The last line of the conversation, which the next one follows."""
    pieces: int = 0
    last_time: str | None = None

    def translate(self, piece: bytes) -> bytes:
        """Return the lines for a piece: a line of the original with its end, or all of a document."""
        kept = keep_original(piece)
        try:
            first, *others = self._records_of(piece)
            lines = [encode_json(record) + b"\n" for record in (first | kept, *others)]
        except (RecursionError, OverflowError):  # nested as deep as a decoder goes, or a number that none can write
            lines = [encode_json({"type": f"{self.program}/unreadable", "sessionId": self.session_id} | kept) + b"\n"]
        # A blank line does not count: a line may come without its end first, which is then a piece of its own.
        self.pieces += bool(piece.strip())
        return b"".join(lines)

    def _records_of(self, piece: bytes) -> list[Json]:
        value = decode_value(piece)
        if isinstance(value, dict):
            return list(self.records(value)) or [self.other("empty")]
        if piece.strip():
            return [{"type": f"{self.program}/unreadable", "sessionId": self.session_id}]
        return [self.other("blank")]

    def records(self, value: Json) -> Iterable[Json]:
        """Return the records of an object of the original; each agent has its own."""
        raise NotImplementedError

    def other(self, kind: str, timestamp: object = None) -> Json:
        """Return a record for what has no counterpart in Claude Code's format."""
        record = {"type": "other-agent", "program": self.program, "kind": kind[:200], "sessionId": self.session_id}
        return record | self._time(timestamp)

    def unknown(self, kind: str, value: object, timestamp: object = None) -> Json:
        """Return a record for what this version does not know."""
        record = {"type": f"{self.program}/{kind[:200]}", "sessionId": self.session_id, "content": value}
        return record | self._time(timestamp)

    def node(self, type: str, key: str, timestamp: object, *, parent: str | object | None = ..., **fields: Any) -> Json:
        """Return a line of the conversation. It follows the one before, unless another parent is given."""
        uuid = make_uuid(self.program, self.session_id, key)
        record: Json = {
            "parentUuid": self.last_uuid if parent is ... else parent,
            "isSidechain": False,
            "sessionId": self.session_id,
            "type": type,
            **fields,
            "uuid": uuid,
        }
        named = {"cwd": self.cwd, "version": self.version, "gitBranch": self.branch}
        record |= {name: value for name, value in named.items() if value}
        self.last_uuid = uuid
        return record | self._time(timestamp)

    def user(self, key: str, timestamp: object, content: str | list[Json], **fields: Any) -> Json:
        """Return a line in the user's name."""
        return self.node("user", key, timestamp, message={"role": "user", "content": content}, **fields)

    def answer(
        self,
        key: str,
        timestamp: object,
        id: str,
        content: list[Json],
        *,
        usage: Json | None = None,
        stop_reason: str | None = None,
        **fields: Any,
    ) -> Json:
        """Return a line of the model's answer with the id `id`."""
        message: Json = {"id": id, "type": "message", "role": "assistant", "model": self.model, "content": content}
        message["stop_reason"] = stop_reason
        if usage is not None:
            message["usage"] = usage
        return self.node("assistant", key, timestamp, message=message, **fields)

    def compaction(self, key: str, timestamp: object, summary: str, before: int | None) -> Iterator[Json]:
        """Yield the boundary of a compaction, and the summary that stands for what was before it."""
        metadata = {"preTokens": before} if before else {}
        previous = self.last_uuid
        yield self.node(
            "system", f"{key}:boundary", timestamp, parent=None, subtype="compact_boundary", content="",
            logicalParentUuid=previous, compactMetadata=metadata,
        )  # fmt: skip
        yield self.user(key, timestamp, summary, isCompactSummary=True)

    def _time(self, timestamp: object) -> Json:
        text = timestamp if isinstance(timestamp, str) else format_milliseconds(timestamp)
        # What follows in the same piece may say no time of its own.
        self.last_time = text or self.last_time
        return {"timestamp": text} if text else {}


def keep_original(piece: bytes) -> Json:
    """Return the field that keeps a piece of the original."""
    try:
        return {"originalLine": piece.decode()}
    except UnicodeDecodeError:
        return {"originalBytes": base64.b64encode(piece).decode()}


_TORN: Final = b'{"type":"%s/torn","original'


def torn_line(program: str, piece: bytes) -> bytes:
    """Return a line for the torn end of a file: its own end is missing, so that it is read as what it is."""
    if not piece:
        return b""
    ((name, text),) = keep_original(piece).items()
    return _TORN % program.encode() + name.removeprefix("original").encode() + b'":' + encode_json(text)[:-1]


def read_originals(lines: bytes) -> bytes:
    """Return the original of a translated session file, byte for byte."""
    return b"".join(iter_originals([lines]))


def iter_originals(pieces: Iterable[bytes], end: bytes = b"") -> Iterator[bytes]:
    """Yield the original of a translated session file, whose bytes come in pieces; `end` follows each part of it."""
    rest: list[bytes] = []
    for piece in pieces:
        first, *lines = piece.split(b"\n")
        rest.append(first)
        for line in lines:
            if original := _original_of(b"".join(rest)):
                yield original + end
            rest = [line]
    if torn := b"".join(rest):
        yield _original_of(torn + b'"}')


class _Kept(msgspec.Struct):
    original_line: str | None = msgspec.field(default=None, name="originalLine")
    original_bytes: str | None = msgspec.field(default=None, name="originalBytes")


_decode_kept = msgspec.json.Decoder(_Kept).decode


def _original_of(line: bytes) -> bytes:
    try:
        kept = _decode_kept(line)
        if kept.original_line is not None:
            return kept.original_line.encode()
        return base64.b64decode(kept.original_bytes or "")
    except (*DECODE_ERRORS, Base64Error):  # not a line that was written here
        return b""


def decode_value(piece: bytes) -> object:
    """Return the JSON value of a piece; None if it is none."""
    try:
        return msgspec.json.decode(piece)
    except DECODE_ERRORS:
        pass
    try:  # half of a surrogate pair, or bytes that are not UTF-8: they read U+FFFD in the translation
        return msgspec.json.decode(repair_text(piece)[0])
    except DECODE_ERRORS:
        return None


def make_uuid(*parts: str) -> str:
    """Return an id with the shape of a UUID, made from texts."""
    digest = make_digest(*parts)
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def make_digest(*parts: str) -> str:
    """Return 32 hexadecimal digits made from texts."""
    from _blake2 import blake2b  # not `hashlib`, which would load OpenSSL

    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def format_milliseconds(value: object) -> str | None:
    """Return a time in milliseconds since 1970 as a timestamp."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LAST_YEAR_MS:
        return None
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text_of(value: object, *keys: str) -> str | None:
    """Return the text under some keys of nested objects; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) and value else None


def name_of(value: object, *keys: str) -> str | None:
    """Return a text that is short enough to be repeated on each line, such as the name of a folder or a model."""
    text = text_of(value, *keys)
    return text if text is not None and len(text) <= MAX_REMEMBERED else None


def object_of(value: object, *keys: str) -> Json:
    """Return the object under some keys of nested objects; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def list_of(value: object, *keys: str) -> list[Any]:
    """Return the list under some keys of nested objects; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def count_of(value: object, *keys: str) -> int:
    """Return the count under some keys of nested objects: what is none, or negative, is 0."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < 10**12 else 0


def make_usage(fresh: int, output: int, *, read: int = 0, written: int = 0, thinking: int | None = None) -> Json:
    """Return the usage of a response: tokens that were not cached, tokens of the answer, and those of the cache."""
    usage: Json = {
        "input_tokens": max(fresh, 0),
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    return usage if thinking is None else usage | {"output_tokens_details": {"thinking_tokens": thinking}}


def text_block(text: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": text}


def thinking_block(text: str) -> Json:
    """Return a block of reasoning."""
    return {"type": "thinking", "thinking": text}


def call_block(id: str, name: str, input: object) -> Json:
    """Return a tool call."""
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result_block(id: str, content: str | list[Json], *, failed: bool | None = None) -> Json:
    """Return the result of a tool call; `failed` only if the original says so."""
    block: Json = {"type": "tool_result", "tool_use_id": id, "content": content}
    return block if failed is None else block | {"is_error": failed}


def image_block(data: str, media_type: str) -> Json:
    """Return an image in base64."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def image_of_address(address: str) -> Json:
    """Return an image by its address, which may hold the image itself (`data:image/png;base64,…`)."""
    head, comma, data = address.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return image_block(data, head.removeprefix("data:").removesuffix(";base64"))
    return {"type": "image", "source": {"type": "url", "url": address}}


def remember(known: dict[str, T], key: str, value: T) -> None:
    """Keep a value by its key; the oldest one goes if there are too many."""
    known[key] = value
    if len(known) > MAX_REMEMBERED:
        del known[next(iter(known))]
