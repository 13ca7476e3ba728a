"""A session in, what is wrong with it out: its own file and what lies beside it, against every rule."""

from __future__ import annotations

from unspool.edit.rules import side_files
from unspool.edit.rules.check import check
from unspool.edit.rules.violation import Violation
from unspool.edit.session_view import Manuscript, read
from unspool.edit.side_files import beside, content, surroundings
from unspool.home import Session


def violations(session: Session) -> list[Violation]:
    """Return every rule that a session breaks, with file and offset."""
    manuscript = manuscript_of(session)
    found = check(manuscript, str(session.path)).violations
    around = surroundings(session, slugs(manuscript))
    return found + side_files.check(manuscript, beside(session, around), str(session.path))


def manuscript_of(session: Session) -> Manuscript:
    """Read a session's own file."""
    return read(session.path.stem, content(session.path))


def slugs(manuscript: Manuscript) -> tuple[str, ...]:
    """Return the names of a session's plans."""
    return tuple(dict.fromkeys(entry.record.slug for entry in manuscript.entries if entry.record.slug))
