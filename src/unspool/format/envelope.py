"""The fields that lines of all types share, and the record of a line of an unknown type.

Rules
  1. Nothing is required. Lines outside the conversation graph (titles, modes, queue operations, snapshots) have no uuid
     and often no timestamp.
  2. The set of types is open. A line of a type that is not described here is an `Unknown` with the envelope it has.
"""

from msgspec import field

from unspool.format.base import CamelShape


class Envelope(CamelShape, frozen=True):
    """The fields that a line of any type may have."""

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
    """The session id again, as newer versions write it on some lines."""
    original_line: str | None = None
    """Of a session that was translated from another agent's: the line as that agent wrote it."""
    original_bytes: str | None = None
    """The same in base64, if it is not UTF-8."""


def parse_version(version: str | None) -> tuple[int, ...]:
    """Return the numbers of a version of Claude Code; what is no number is left out, and a line may give any text.

    >>> parse_version("2.1.29")
    (2, 1, 29)
    """
    parts = (version or "").split(".")
    return tuple(int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 10)


class Record(Envelope, frozen=True, tag_field="type"):
    """Base of a line of a known type; the class says which."""


class Unknown(Envelope, frozen=True):
    """A line of a type that is not described yet: only its envelope is decoded, its bytes hold the rest."""

    type: str | None = None
