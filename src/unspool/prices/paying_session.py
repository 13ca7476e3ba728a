"""Finds the session that pays for a response. Every list, report, SQL table and page uses these rules. Pure.

Rules
  1. The session of a file pays for each response whose counted copy (`responses.py`, rule 6) is in that file. A
     session's file has the session's name, and an agent's file is in the session's folder. The id on the line plays no
     part: files are renamed and copied, and then it names another session.
  2. An agent's file beside the sessions (until 2.0.76) is of the session that the line names. If the line names none,
     the name of the file stands for the session.
  3. Two files may have the name of one session, in two projects: each pays for what is in it and in the files of its
     own agents.
  4. Of a session that has no file, another file with the session's name pays; if there is none either, the session is
     listed with what is left of it, its agents' files (`MissingSession`). So what all sessions pay is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # start-up: a list of sessions whose costs are in the store needs no responses, and so no msgspec
    from unspool.prices.responses import Response

ENDING = ".jsonl"
ONLY_AGENTS = "only agents"
"""Why a list leaves out a session: its own file is not there."""


def find_paying_session(response: Response, file: str, session: str | None) -> str:
    """Return the id of the session that pays; `session` is the one that the file belongs to by its place, if any."""
    return session or response.session_id or _stem(file)


def attribute_responses(responses: Iterable[Response], file: str, session: str | None) -> list[Response]:
    """Return the responses of a file with the session that pays in place of the one that their lines name."""
    from msgspec.structs import replace

    attributed = []
    for response in responses:
        if not response.session_id or (session is not None and response.session_id != session):
            response = replace(response, session_id=find_paying_session(response, file, session))
        attributed.append(response)
    return attributed


def _stem(file: str) -> str:
    from unspool.prices.responses import file_stem

    return file_stem(file)


def own_file_path(file: str, session: str) -> str:
    """Return the path that the session's own file has, if there is one, given an agent's file of it.

    >>> own_file_path("/p/s1/subagents/agent-a.jsonl", "s1"), own_file_path("/p/agent-b.jsonl", "s1")
    ('/p/s1.jsonl', '/p/s1.jsonl')
    """
    folder, found, _ = file.rpartition("/subagents/")
    return (folder if found else f"{file.rpartition('/')[0]}/{session}") + ENDING


class MissingSession(NamedTuple):
    """A session that has no file of its own, and the files of its agents, in order."""

    id: str
    files: list[str]


class SessionFinder:
    """Finds the listed session that an agent's file, or a file that is not listed, belongs to."""

    def __init__(self, listed: Iterable[tuple[str, str]]) -> None:
        """Take the path and id of each listed session, in the order in which files of one session are preferred."""
        self._paths: set[str] = set()
        self._by_id: dict[str, str] = {}
        self._missing: dict[str, tuple[str, set[str]]] = {}
        for path, id in listed:
            self._paths.add(path)
            self._by_id.setdefault(id, path)

    def find(self, file: str, session: str) -> str:
        """Return the path of the session that pays for what is in a file; that of a missing session leads nowhere."""
        if file in self._paths:
            return file
        own = own_file_path(file, session)
        if own in self._paths:
            return own
        if session in self._by_id:
            return self._by_id[session]
        self._missing.setdefault(own, (session, set()))[1].add(file)
        return own

    @property
    def missing(self) -> dict[str, MissingSession]:
        """The sessions without a file among those looked for, by the path that their file would have."""
        return {path: MissingSession(id, sorted(files)) for path, (id, files) in sorted(self._missing.items())}
