"""Checks a session on disk against every rule: its own file, and the files beside it."""

from __future__ import annotations

from unspool.edit.rules.check import check_rules
from unspool.edit.rules.side_files import SideFileNames, check_side_files
from unspool.edit.rules.violation import Violation
from unspool.edit.side_files import SessionFiles, find_session_files, read_agent_lines, read_session_text
from unspool.home import Session


def violations(session: Session) -> list[Violation]:
    """Return every rule that a session breaks, with file and offset."""
    text = read_session_text(session)
    found = check_rules(text, str(session.path))
    names = _side_file_names(session, find_session_files(session, text))
    return found + check_side_files(text, names, str(session.path))


def _side_file_names(session: Session, files: SessionFiles) -> SideFileNames:
    agents = [(str(file.path), read_agent_lines(file.path, session.id)) for file in files.with_role("agent")]
    if files.config is None:  # a session file outside of a config folder: what should lie beside it cannot be known
        return SideFileNames(agents=agents)
    return SideFileNames(
        project=files.path.parent.name,
        results=frozenset(file.path.name for file in files.with_role("result")),
        backups=frozenset(file.path.name for file in files.with_role("backup")),
        agents=agents,
    )
