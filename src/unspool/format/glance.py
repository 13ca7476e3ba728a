"""A line at a glance: the few fields that say what a session is about and what was billed, decoded without the rest.

Rules
  1. A field that is here has the name and the type it has in `records.py`, so that a line which both decoders take says
     the same to both. What this one refuses goes the long way.
  2. A misfit in a field that is not here goes unnoticed. On the long way it would leave that field out, and no other.
  3. Only what need not be asked further is told from the type: who wants more of a line decodes it whole.
"""

from collections.abc import Callable

import msgspec

from unspool.format.shape import Buffer, CamelShape, Shape
from unspool.format.usage import BilledUsage


class GlanceBlock(Shape, frozen=True):
    """A content block: what kind it is, what it is known by, its words."""

    type: str | None = None
    id: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    text: str = ""


class GlanceMessage(Shape, frozen=True):
    """The Messages API's part."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: BilledUsage | None = None
    content: str | tuple[GlanceBlock, ...] = ""


class Label(CamelShape, frozen=True):
    """What kind of thing something is: an attachment or progress by its type, an origin by its kind."""

    type: str | None = None
    kind: str | None = None


class Glance(CamelShape, frozen=True):
    """A line."""

    type: str | None = None
    message: GlanceMessage = GlanceMessage()
    uuid: str | None = None
    request_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    session_id_again: str | None = msgspec.field(default=None, name="session_id")
    agent_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    forked_from: object = None
    is_api_error_message: bool = False
    is_compact_summary: bool = False
    origin: Label | None = None
    subtype: str | None = None
    operation: str | None = None
    attachment: Label | None = None
    data: Label | None = None


glance: Callable[[Buffer], Glance] = msgspec.json.Decoder(Glance).decode
