"""What lines of all types share.

Rules
  1. Nothing is required (`shape.py`, rule 1). Lines outside the conversation graph (titles, modes, queue
     operations, snapshots) have no uuid and often no timestamp.
  2. The set of types is open. A line of a type nobody has described is an `Unknown` with the envelope it has.
  3. Annotations here are objects, not strings (no `from __future__ import annotations`): sixty types inherit them, and
     the decoder would read each string again for each type, a fifth of the time it takes to load.
"""

from msgspec import field

from unspool.format.base import CamelShape


class Envelope(CamelShape, frozen=True):
    """Any line: the fields that any type may have."""

    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    user_type: str | None = None
    entrypoint: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    team_name: str | None = None
    is_meta: bool | None = None
    forked_from: object = None
    session_kind: str | None = None
    session_id_again: str | None = field(default=None, name="session_id")
    """The same id once more, as newer versions write it on some lines."""


class Record(Envelope, frozen=True, tag_field="type"):
    """A line of a known type; its class is the type."""


class Unknown(Envelope, frozen=True):
    """A line of a type nobody has described yet. Its envelope is read; its bytes hold the rest."""

    type: str | None = None
