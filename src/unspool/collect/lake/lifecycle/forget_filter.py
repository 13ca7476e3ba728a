"""Takes what was forgotten out of segments and parts.

Rules
  1. An ingest, a check and `lake forget` itself use the same filter. So rows of a segment that was not rewritten yet,
     or that an old collector sends again, are those that it has after it was rewritten.
  2. A part of a forgotten session, stream or device becomes one of numbers only: no lines, no names, no keyed hashes
     with which somebody could test a guess. A line elsewhere that has a forgotten session's id is taken out.
  3. A changed part has its digest from before in its header: the next part of the stream continues that.
  4. Without anything forgotten the filter decodes nothing.
  5. A list that is older than what the tables say was forgotten is refused: its signature does not tell that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from unspool.collect.lake.streams import ReadSegment, StoredPart
from unspool.collect.lake.tables import LINES
from unspool.collect.segments import (
    Segment,
    SegmentHeader,
    SegmentLine,
    decode_part,
    encode_part,
    segment_digest,
    unpack_segment,
)
from unspool.collect.trust.tombstones import ForgetRules, list_name, original_digest, read_list
from unspool.errors import Refused
from unspool.store.archive import compress

if TYPE_CHECKING:
    from unspool.collect.lake.lake import Lake

_LEVEL = 1


def _keep_line(_: SegmentHeader, __: SegmentLine) -> bool:
    return False


class ForgetFilter:
    """What was forgotten, and whose signatures count."""

    def __init__(
        self,
        rules: ForgetRules,
        get: Callable[[str], bytes | None],
        trusted: Mapping[str, Collection[str]],
        drops_line: Callable[[SegmentHeader, SegmentLine], bool] = _keep_line,
    ) -> None:
        self.rules = rules
        self._get, self._trusted = get, trusted
        self._drops_line = drops_line
        """Says of a line whether it is forgotten, besides those that name a session."""

    def original_digest(self, name: str, data: bytes, original: str) -> str:
        """Return the digest with which a chain continues after an object; see `trust/tombstones.py`."""
        org = [*name.split("/"), ""][1]
        return original_digest(self._get, self._trusted.get(org, ()), name, data, original)

    def bundle_id(self, home: str, id: str) -> str:
        """Return the name of a stream's bundle: one from before a change is never read again."""
        number = self.rules.number(home)
        return f"{id}-{number}" if number else id

    def apply(self, home: str, position: int, part: StoredPart) -> StoredPart:
        """Return a part without what was forgotten; `position` is the number of its segment in the device's chain."""
        if not self.rules.concerns(home.partition("/")[0], home):
            return part
        if not part.is_segment:
            text = self.apply_text(home, position, part.data)
            return part if text is None else part._replace(data=text)
        changed = self.change(home, position, unpack_segment(part.data), segment_digest(part.data))
        return part if changed is None else part._replace(data=pack_stream_segment(changed))

    def apply_text(self, home: str, position: int, text: bytes) -> bytes | None:
        """Return the text of a part without what was forgotten; None if nothing of it was."""
        if not self.rules.concerns(home.partition("/")[0], home):
            return None
        changed = self.change(home, position, decode_part(text), segment_digest(text))
        return None if changed is None else encode_part(*changed)

    def apply_read(self, home: str, read: ReadSegment) -> ReadSegment:
        """Return a segment of a stream's own chain without what was forgotten."""
        if not self.rules.concerns(home.partition("/")[0], home):
            return read
        changed = self.change(home, 0, read.segment, read.digest)
        return read if changed is None else read._replace(segment=changed)

    def change(self, home: str, position: int, segment: Segment, digest: str) -> Segment | None:
        """Return a part without what was forgotten; None if nothing of it was."""
        header = segment.header
        if header.is_forgotten:
            return None
        original = header.original or digest
        if self.rules.is_forgotten(home, position, header.stream, header.session):
            emptied = _empty(header, original, is_whole=self.rules.device(home) is not None)
            # Of what is only too old, a collector that lost its state must find out that it has sent it.
            if position <= self.rules.kept_after(home):
                emptied = msgspec.structs.replace(emptied, head=header.head, boundary=header.boundary)
            return Segment(emptied, [])
        org = home.partition("/")[0]
        kept = [line for line in segment.lines if not self._is_dropped(org, header, line)]
        if len(kept) == len(segment.lines):
            return None
        changed = msgspec.structs.replace(header, lines=len(kept), head="", boundary="", original=original)
        return Segment(changed, kept)

    def _is_dropped(self, org: str, header: SegmentHeader, line: SegmentLine) -> bool:
        return self.rules.names_session(org, line.raw) or self._drops_line(header, line)


NO_FILTER = ForgetFilter(ForgetRules({}), lambda _: None, {})
"""A filter of a store of which nothing was forgotten: it refuses rewritten segments."""


def read_forget_filter(
    get: Callable[[str], bytes | None], trusted: Mapping[str, Collection[str]], orgs: Iterable[str]
) -> ForgetFilter:
    """Return the filter for the segments of some organisations; `get` reads the object store with the segments."""
    lists = {org: read_list(get, org, trusted.get(org, ())) for org in sorted(set(orgs))}
    return ForgetFilter(ForgetRules({org: one for org, one in lists.items() if one is not None}), get, trusted)


def forget_app(home: str) -> str:
    """Return the transaction that has the number of the last change with which lines of a device were forgotten."""
    return f"forget:{home}"


def has_forgotten(lake: Lake, org: str) -> bool:
    """Return whether lines of an organisation were forgotten in a lake."""
    return any(app.startswith(forget_app(f"{org}/")) for name in LINES for app in lake.versions(name))


def refuse_older_list(
    rules: ForgetRules, tables: Iterable[Mapping[str, int]], homes: Iterable[str] | None = None
) -> None:
    """Raise `Refused` if the list of what was forgotten is older than the tables, given by their transactions.

    Asked are the marks of some devices (`org/device`), or of all.
    """
    # An older list is signed too. With it, what was forgotten since could be sent again.
    marks, prefix = list(tables), forget_app("")
    if homes is None:
        homes = sorted({app.removeprefix(prefix) for versions in marks for app in versions if app.startswith(prefix)})
    for home in homes:
        known = max((versions.get(forget_app(home), 0) for versions in marks), default=0)
        if rules.number(home) < known:
            name = list_name(home.partition("/")[0])
            words = f"it lacks change {known:,}, by which lines of `{home}` were forgotten"
            hint = "restore the newest one from the store's version history"
            raise Refused(f"`{name}` is missing or older than the lake: {words}", hint=hint)


def pack_stream_segment(segment: Segment) -> bytes:
    """Return a segment of a stream's own chain as the bytes of its object."""
    return compress(encode_part(*segment), _LEVEL)


def _empty(header: SegmentHeader, original: str, *, is_whole: bool) -> SegmentHeader:
    """Return a header with its numbers and no names."""
    return msgspec.structs.replace(
        header,
        user="" if is_whole else header.user,
        project=None,
        source="",
        session=None,
        agent=None,
        lines=0,
        redactions={},
        head="",
        boundary="",
        original=original,
    )
