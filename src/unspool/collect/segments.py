"""Encodes and decodes a segment: redacted lines of a device as one immutable object.

    segments/<org>/<device>/<day>/<sequence, 12 digits>-<digest of the one before, 16 digits>.jsonl.zst
    segments/<org>/<device>/<stream>/<sequence, 10 digits>-<digest of the one before, 16 digits>.jsonl.zst

A stream holds the lines of one source file on one device. The first layout has one chain for each device: a segment
has a part for each stream with new lines. The second, of earlier versions, has one chain for each stream. There a
segment is what a part is here: it has the same header and the same lines. Both are numbered 1, 2, 3, … without gap.

Rules
  1. A name is put once and never overwritten (`SegmentStore.put_new`). A segment's name is known before its bytes are:
     its number and the digest of the segment before it. So of all writers that would continue a segment, one wins, and
     there are never two segments with one number, whoever retries or runs twice by mistake.
  2. The names form a chain: a listing and the objects' digests show whether one is missing or was exchanged.
  3. An object is one zstd frame with a checksum: a header line, then the parts, each a header line and one line for
     each line of the source, in order.
  4. `start` and `end` are offsets in the source; the parts of one generation cover it without gap or overlap. Of the
     bytes between, only blank lines are not in a part.
  5. `head` and `boundary` show whether a file continues where the part ends. They are keyed: with an unkeyed hash of
     text that is otherwise known, anybody could try out what was redacted.
  6. A device with a key signs the header of its segments, which has the digest of the parts. The layout is the same:
     earlier versions ignore the signature (`trust/device_keys.py`).
  7. An administrator may rewrite a segment so that parts or lines in it are forgotten (`lake forget`). Then its header,
     and those of the changed parts, have the digest from before (`original`), with which the chain continues. A signed
     tombstone confirms it (`trust/tombstones.py`). A forgotten part keeps its numbers and has no lines.
  8. The day in a name is that on which the segment before was made (`next_day` in its header), and never before the day
     in that one's name. So names sort as the chain does, and rule 1 holds for writers whose clocks differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

from unspool.errors import Unreadable
from unspool.format import DECODE_ERRORS
from unspool.store.archive import compress, decompress_pieces, frame_errors

if TYPE_CHECKING:
    from unspool.collect.trust import DeviceKey

VERSION = 1
FOLDER = "segments"
SIZE = 8 * 1024 * 1024
"""Bytes of lines after which a segment ends; compressed it is smaller. A longer line has a segment of its own."""

FIRST = "0" * 64
"""The digest that the first segment of a chain has in place of the one before."""
FIRST_DAY, LAST_DAY = "2000-01-01", "2999-12-31"
"""The day in the name of the first segment of a device, and the latest possible one: all begin with a `2`."""

MOST = 512 * 1024 * 1024
"""Bytes that a segment may have when it is decompressed: the longest possible line with every character escaped."""
_PER_BYTE, _PER_LINE, _SPARE = 6, 128, 1024 * 1024
"""Bytes of a segment, at most, for each byte and line of its source: a character may become `\\u0000`, and a short
secret a long marker, for which there is room to spare."""

_LARGEST_HEADER = 16 * 1024 * 1024

_LEVEL = 1
"""A quarter faster than 2, for a fiftieth more bytes."""
_NAME = re.compile(r"segments/([^/]+)/([^/]+)/([0-9a-f]{32})/([0-9]{10})-([0-9a-f]{16})\.jsonl\.zst")
_DAY = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}")
_STREAM = re.compile(r"[0-9a-f]{32}")
_CHAIN_NAME = re.compile(rf"segments/([^/]+)/([^/]+)/({_DAY.pattern})/([0-9]{{12}})-([0-9a-f]{{16}})\.jsonl\.zst")


BoundedCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number, place or length that a device says: more than any file has, and no sum of some leaves a column."""


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a part, or of a segment of one stream: its source file and how it was redacted."""

    unspool: str = msgspec.field(default="segment")
    version: int
    org: str
    user: str
    device: str
    key_id: str
    """Which key made the markers and the hashes."""
    stream: str
    sequence: BoundedCount
    previous: str
    """SHA-256 of the part or segment before, as hexadecimal digits; `FIRST` if there is none."""
    project: str | None = None
    """The project's key: the name of its folder."""
    source: str
    """The file's path in the config folder."""
    kind: str
    """`session`, `agent`, `history`, `index`, `stats`, `todos`, `plan`, …: see `read.scan.Kind`."""
    session: str | None = None
    agent: str | None = None
    generation: BoundedCount
    """1, and one more each time the file became another one. Of a side file, each time it changed."""
    start: BoundedCount
    end: BoundedCount
    """Where in the source its bytes begin and end."""
    lines: BoundedCount
    rules: str
    """The version of the rules that it was redacted by."""
    redactions: dict[str, BoundedCount] = {}
    """How many secrets of each kind were replaced."""
    written: str
    """When it was made, in UTC."""
    modified: str = ""
    """When the source was last changed, in UTC, by the clock of its device. Earlier versions do not say it."""
    zone: str = ""
    """The time zone of the device when it was made, as its distance from UTC: `+02:00`."""
    head: str
    """Keyed hash of the first bytes of the source, at most 4,096 and none after `end`."""
    boundary: str
    """Keyed hash of the last bytes before `end`, at most 4,096."""
    original: str = ""
    """Only of a rewritten part: the digest that it had before. Then it has no `head` and no `boundary`."""

    @property
    def is_forgotten(self) -> bool:
        """Whether only the numbers of the part are left."""
        return bool(self.original) and not self.source


class SegmentLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A line of the source."""

    offset: BoundedCount
    length: BoundedCount
    """Bytes it had in the source, its end not counted."""
    raw: str
    """Its text after redaction: the very text if nothing was redacted."""
    bad: bool = False
    """Whether it is not JSON, or not UTF-8."""


class Segment(NamedTuple):
    """A decoded segment of one stream, or a decoded part."""

    header: SegmentHeader
    lines: list[SegmentLine]


class PartEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part in the header of a segment."""

    stream: str
    sequence: BoundedCount
    """Of the part in its stream."""
    size: BoundedCount
    """Bytes of the part."""
    before: str = ""
    """The segment that has the part of the stream before this one (`DeviceSegmentName.tail`); nothing if there is none,
    or if it is a segment of the stream alone."""


class DeviceSegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a segment of a device: its place in the chain, and its parts."""

    unspool: str = "device-segment"
    version: int = VERSION
    org: str
    user: str
    device: str
    sequence: BoundedCount
    previous: str
    """SHA-256 of the segment before; `FIRST` if there is none."""
    day: str
    """In its name."""
    next_day: str
    """In the name of the next one."""
    written: str
    """When it was made, in UTC."""
    parts: list[PartEntry]
    # Not a default value: without a key, a header has the very bytes that earlier versions write.
    parts_digest: str | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of all parts together, if the header is signed."""
    original: str | msgspec.UnsetType = msgspec.UNSET
    """Only of a rewritten segment: the digest that it had before."""


class SegmentPart(NamedTuple):
    """A part as it is in a segment: undecoded."""

    entry: PartEntry
    text: bytes


class UnpackedSegment(NamedTuple):
    """A segment of a device with the bytes of its header, which a signature covers."""

    header: DeviceSegmentHeader
    parts: list[SegmentPart]
    line: bytes


class SegmentName(NamedTuple):
    """The parts of an object's name."""

    org: str
    device: str
    stream: str
    sequence: int
    previous: str
    """The first 16 digits of the digest of the segment before."""


class DeviceSegmentName(NamedTuple):
    """The parts of the name of a device's segment."""

    org: str
    device: str
    day: str
    sequence: int
    previous: str
    """The first 16 digits of the digest of the segment before."""

    @property
    def tail(self) -> str:
        """The name without the folder of the device and the suffix."""
        return f"{self.day}/{self.sequence:012d}-{self.previous[:16]}"


class _Origin(msgspec.Struct, frozen=True):
    original: str = ""


_encoder = msgspec.json.Encoder()
_origin = msgspec.json.Decoder(_Origin)
_header = msgspec.json.Decoder(SegmentHeader)
_device_header = msgspec.json.Decoder(DeviceSegmentHeader)
_line = msgspec.json.Decoder(SegmentLine)


def encode_part(header: SegmentHeader, lines: Iterable[SegmentLine]) -> bytes:
    """Return a part as it is in a segment."""
    return _encoder.encode(header) + b"\n" + _encoder.encode_lines(list(lines))


def decode_part(text: bytes) -> Segment:
    """Decode a part; a damaged one is `Unreadable`."""
    first, _, rest = text.partition(b"\n")
    return _decode_lines(_decode_header(first), rest)


def decode_part_header(text: bytes) -> SegmentHeader:
    """Return only the header of a part."""
    return _decode_header(text.partition(b"\n")[0])


def pack_device_segment(header: DeviceSegmentHeader, parts: Iterable[bytes], key: DeviceKey | None = None) -> bytes:
    """Return a segment of a device as the bytes of its object; with a key its header is signed."""
    body = b"".join(parts)
    if key is None:
        line = _encoder.encode(header)
    else:
        line = key.sign_line(
            "segment", _encoder.encode(msgspec.structs.replace(header, parts_digest=segment_digest(body)))
        )
    return compress(b"".join([line, b"\n", body]), _LEVEL)


def unpack_device_segment(data: bytes) -> tuple[DeviceSegmentHeader, list[SegmentPart]]:
    """Return the header and the parts of an object; a damaged one, or one that is no segment, is `Unreadable`."""
    header, parts, _ = unpack_signed_segment(data)
    return header, parts


def unpack_signed_segment(data: bytes) -> UnpackedSegment:
    """Do the same, and return the bytes of the header too. Whether a signature holds is for the caller to check."""
    try:
        pieces = decompress_pieces(data, MOST)
        rest = bytearray()
        for piece in pieces:
            rest += piece
            if b"\n" in piece or len(rest) > _LARGEST_HEADER:
                break
        first, _, start = bytes(rest).partition(b"\n")
        header = _decode_device_header(first)
        rest, limit = bytearray(start), sum(entry.size for entry in header.parts)
        for piece in pieces:
            if len(rest) > limit:
                break
            rest += piece
    except frame_errors() as error:
        raise Unreadable(f"invalid segment: {error}") from None
    if len(rest) != limit:
        raise Unreadable(f"invalid segment: not the {limit:,} bytes of parts that its header names")
    parts, offset = [], 0
    for entry in header.parts:
        parts.append(SegmentPart(entry, bytes(memoryview(rest)[offset : offset + entry.size])))
        offset += entry.size
    if not header.original and any(_is_rewritten(part.text) for part in parts):
        raise Unreadable("invalid segment: a part of it was rewritten, and it was not")
    return UnpackedSegment(header, parts, first)


def _is_rewritten(text: bytes) -> bool:
    # In a JSON string the quotes would follow a backslash: these bytes can only be a key.
    return b',"original":"' in text.partition(b"\n")[0]


def read_original(data: bytes) -> str:
    """Return the digest that an object says it had before it was rewritten; nothing if it was not."""
    try:
        first = next(decompress_pieces(data, MOST), b"").partition(b"\n")[0]
        return _origin.decode(first).original
    except DECODE_ERRORS:
        return ""
    except frame_errors():
        return ""


def part_digest(header: SegmentHeader, text: bytes) -> str:
    """Return the digest with which a stream continues after a part, or after a segment of its own."""
    return header.original or segment_digest(text)


def unpack_segment(data: bytes) -> Segment:
    """Decode an object; a damaged one, or one that is no segment, is `Unreadable`."""
    return _decode_lines(*_decompress(data))


def _decode_lines(header: SegmentHeader, rest: bytes | bytearray) -> Segment:
    try:
        lines = _line.decode_lines(rest)
    except DECODE_ERRORS as error:
        raise Unreadable(f"invalid segment: cannot read a line: {error}") from None
    # A segment's own name does not cover its bytes: zstd's checksum and this count show that it is whole.
    if len(lines) != header.lines:
        raise Unreadable(f"incomplete segment: {len(lines):,} of {header.lines:,} lines")
    return Segment(header, lines)


def unpack_header(data: bytes) -> SegmentHeader:
    """Return only the header of an object."""
    return _decompress(data)[0]


def segment_digest(data: bytes) -> str:
    """Return the digest of an object or a part: SHA-256, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def format_segment_name(parts: SegmentName) -> str:
    """Return the object's name for its parts."""
    folder = f"{FOLDER}/{parts.org}/{parts.device}/{parts.stream}"
    return f"{folder}/{parts.sequence:010d}-{parts.previous[:16]}.jsonl.zst"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return the parts of an object's name; None if it is not the name of a segment."""
    match = _NAME.fullmatch(name)
    return SegmentName(match[1], match[2], match[3], int(match[4]), match[5]) if match else None


def format_device_segment_name(name: DeviceSegmentName) -> str:
    """Return the object's name for a segment of a device."""
    return f"{FOLDER}/{name.org}/{name.device}/{name.tail}.jsonl.zst"


def parse_device_segment_name(name: str) -> DeviceSegmentName | None:
    """Return the parts of an object's name; None if it is not the name of a device's segment."""
    match = _CHAIN_NAME.fullmatch(name)
    return DeviceSegmentName(match[1], match[2], match[3], int(match[4]), match[5]) if match else None


def following_day(day: str, written: str) -> str:
    """Return the day in the name of the segment after one that has a day in its name and was made at a time.

    >>> following_day("2026-01-05", "2026-01-07T09:00:00Z"), following_day("2026-01-05", "1970-01-01T00:00:00Z")
    ('2026-01-07', '2026-01-05')
    """
    clock = min(written[:10], LAST_DAY)
    return max(day, clock) if _DAY.fullmatch(clock) else day


def _decompress(data: bytes) -> tuple[SegmentHeader, bytearray]:
    """Return the header and the bytes after it, which are unpacked only as far as the header allows."""
    # A segment of a machine that lies is only data: a frame of 133 kB once took 1.1 GB of memory.
    try:
        pieces = decompress_pieces(data, MOST)
        first, _, start = next(pieces, b"").partition(b"\n")
        header = _decode_header(first)
        rest = bytearray(start)
        limit = _PER_BYTE * max(header.end - header.start, 0) + _PER_LINE * max(header.lines, 0) + _SPARE
        for piece in pieces:
            if len(rest) > limit:
                break
            rest += piece
    except frame_errors() as error:
        raise Unreadable(f"invalid segment: {error}") from None
    if len(rest) > limit:
        raise Unreadable(f"invalid segment: more than {limit:,} bytes for the lines that its header names")
    return header, rest


def _decode_header(line: bytes) -> SegmentHeader:
    try:
        header = _header.decode(line)
    except DECODE_ERRORS as error:
        raise Unreadable(f"invalid segment: cannot read its header: {error}") from None
    _check_version(header, "segment")
    return header


def _decode_device_header(line: bytes) -> DeviceSegmentHeader:
    try:
        header = _device_header.decode(line)
    except DECODE_ERRORS as error:
        raise Unreadable(f"invalid segment: cannot read its header: {error}") from None
    _check_version(header, "device-segment")
    # The name of a stream becomes part of names of objects: with another one, a device could make an ingest ask for
    # names that no store can have.
    if not all(_STREAM.fullmatch(entry.stream) for entry in header.parts) or not _DAY.fullmatch(header.next_day):
        raise Unreadable("invalid segment: its header makes no sense")
    return header


def _check_version(header: SegmentHeader | DeviceSegmentHeader, kind: str) -> None:
    if header.unspool != kind or header.version != VERSION:
        hint = "upgrade unspool" if header.version > VERSION else None
        message = f"unsupported segment version: expected {VERSION}, got `{header.unspool}` {header.version}"
        raise Unreadable(message, hint=hint)
