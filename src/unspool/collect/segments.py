"""Encodes and decodes a segment: lines of one source file, redacted, as one immutable object.

    segments/<org>/<device>/<stream>/<sequence, 10 digits>-<digest of the one before, 16 digits>.jsonl.zst

A stream holds the lines of one source file on one device. Its segments are numbered 1, 2, 3, … without gap.

Rules
  1. A name is put once and never overwritten (`SegmentStore.put_new`). A segment's name is known before its bytes are:
     its number and the digest of the segment before it. So of all writers that would continue a segment, one wins, and
     there are never two segments with one number, whoever retries or runs twice by mistake.
  2. The names form a chain: a listing and the objects' digests show whether one is missing or was exchanged.
  3. An object is one zstd frame with a checksum: a header line, then one line for each line of the source, in order.
  4. `start` and `end` are offsets in the source; segments of one generation cover it without gap or overlap. Of the
     bytes between, only blank lines are not in the segment.
  5. `head` and `boundary` show whether a file continues where the segment ends. They are keyed: with an unkeyed hash of
     text that is otherwise known, anybody could try out what was redacted.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unspool.errors import Unreadable
from unspool.store.archive import compress, decompress_pieces, frame_errors

VERSION = 1
FOLDER = "segments"
SIZE = 8 * 1024 * 1024
"""Bytes of lines after which a segment ends; compressed it is smaller. A longer line has a segment of its own."""

FIRST = "0" * 64
"""The digest that the first segment of a stream has in place of the one before."""

MOST = 512 * 1024 * 1024
"""Bytes that a segment may have when it is decompressed: the longest possible line with every character escaped."""
_PER_BYTE, _PER_LINE, _SPARE = 6, 128, 1024 * 1024
"""Bytes of a segment, at most, for each byte and line of its source: a character may become `\\u0000`, and a short
secret a long marker, for which there is room to spare."""

_LEVEL = 1
"""A quarter faster than 2, for a fiftieth more bytes."""
_NAME = re.compile(r"segments/([^/]+)/([^/]+)/([0-9a-f]{32})/([0-9]{10})-([0-9a-f]{16})\.jsonl\.zst")


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line of a segment: its device, its source file and how it was redacted."""

    unspool: str = msgspec.field(default="segment")
    version: int
    org: str
    user: str
    device: str
    key_id: str
    """Which key made the markers and the hashes."""
    stream: str
    sequence: int
    previous: str
    """SHA-256 of the segment before, as hexadecimal digits; `FIRST` if there is none."""
    project: str | None = None
    """The project's key: the name of its folder."""
    source: str
    """The file's path in the config folder."""
    kind: str
    """`session`, `agent`, `history`, `index`, `stats`, `todos`, `plan`, …: see `read.scan.Kind`."""
    session: str | None = None
    agent: str | None = None
    generation: int
    """1, and one more each time the file became another one. Of a side file, each time it changed."""
    start: int
    end: int
    """Where in the source its bytes begin and end."""
    lines: int
    rules: str
    """The version of the rules that it was redacted by."""
    redactions: dict[str, int] = {}
    """How many secrets of each kind were replaced."""
    written: str
    """When it was made, in UTC."""
    head: str
    """Keyed hash of the first bytes of the source, at most 4,096 and none after `end`."""
    boundary: str
    """Keyed hash of the last bytes before `end`, at most 4,096."""


class SegmentLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A line of the source."""

    offset: int
    length: int
    """Bytes it had in the source, its end not counted."""
    raw: str
    """Its text after redaction: the very text if nothing was redacted."""
    bad: bool = False
    """Whether it is not JSON, or not UTF-8."""


class Segment(NamedTuple):
    """A decoded segment."""

    header: SegmentHeader
    lines: list[SegmentLine]


class SegmentName(NamedTuple):
    """The parts of an object's name."""

    org: str
    device: str
    stream: str
    sequence: int
    previous: str
    """The first 16 digits of the digest of the segment before."""


_encoder = msgspec.json.Encoder()
_header = msgspec.json.Decoder(SegmentHeader)
_line = msgspec.json.Decoder(SegmentLine)


def pack_segment(header: SegmentHeader, lines: Iterable[SegmentLine]) -> bytes:
    """Return a segment as the bytes of its object."""
    return compress(_encoder.encode(header) + b"\n" + _encoder.encode_lines(list(lines)), _LEVEL)


def unpack_segment(data: bytes) -> Segment:
    """Decode an object; a damaged one, or one that is no segment, is `Unreadable`."""
    header, rest = _decompress(data)
    try:
        lines = _line.decode_lines(rest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"invalid segment: cannot read a line: {error}") from None
    # A segment's own name does not cover its bytes: zstd's checksum and this count show that it is whole.
    if len(lines) != header.lines:
        raise Unreadable(f"incomplete segment: {len(lines):,} of {header.lines:,} lines")
    return Segment(header, lines)


def unpack_header(data: bytes) -> SegmentHeader:
    """Return only the header of an object."""
    return _decompress(data)[0]


def segment_digest(data: bytes) -> str:
    """Return the digest of an object: SHA-256, as hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def name_segment(header: SegmentHeader) -> str:
    """Return the object's name for a segment."""
    return format_segment_name(SegmentName(header.org, header.device, header.stream, header.sequence, header.previous))


def format_segment_name(parts: SegmentName) -> str:
    """Return the object's name for its parts."""
    folder = f"{FOLDER}/{parts.org}/{parts.device}/{parts.stream}"
    return f"{folder}/{parts.sequence:010d}-{parts.previous[:16]}.jsonl.zst"


def parse_segment_name(name: str) -> SegmentName | None:
    """Return the parts of an object's name; None if it is not the name of a segment."""
    match = _NAME.fullmatch(name)
    return SegmentName(match[1], match[2], match[3], int(match[4]), match[5]) if match else None


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
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"invalid segment: cannot read its header: {error}") from None
    if header.unspool != "segment" or header.version != VERSION:
        hint = "upgrade unspool" if header.version > VERSION else None
        raise Unreadable(
            f"unsupported segment version: expected {VERSION}, got `{header.unspool}` {header.version}", hint=hint
        )
    return header
