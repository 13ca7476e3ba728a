"""Finds the session to resume by its id, title or file, or as the newest of the working folder.

Rules
  1. Sessions of the working folder come first; an id or a title in another folder is found too.
  2. The newest session is the one whose file changed last, of those that have at least one turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from unspool import home
from unspool.errors import NotFound, UnspoolError
from unspool.home import Home, Session
from unspool.paths import SESSION_ID, absolute_path, project_key
from unspool.read import scan

_MAX_HITS = 200
"""Texts that a search looks at; several may be of one session."""


def find_session_file(name: str, config: Path, cwd: Path) -> Path:
    """Return the session file that a path, an id or a title names."""
    path = Path(name).expanduser()
    if name.endswith(".jsonl") and path.is_file():
        return absolute_path(path)
    if SESSION_ID.fullmatch(name):
        local = _project_folder(config, cwd) / f"{name.lower()}.jsonl"
        if local.is_file():
            return local
    if not config.is_dir():
        raise NotFound(f"no session matches `{name}`", hint=f"the config folder `{config}` does not exist")
    # The same title may exist in several folders: that of the working folder is meant.
    if _project_folder(config, cwd).is_dir():
        try:
            return Home(scan(_project_folder(config, cwd))).session(name).path
        except NotFound:
            pass
    return home.open(config).session(name).path


def find_newest_session(config: Path, cwd: Path) -> Path:
    """Return the file of the newest session of a working folder."""
    for session in list_sessions(config, cwd):
        return session.path
    raise NotFound(f"no session to continue in `{cwd}`", hint="start a new session without `--continue`")


def list_sessions(config: Path, cwd: Path) -> Iterator[Session]:
    """Yield the sessions of a working folder that have at least one turn, the newest first."""
    folder = _project_folder(config, cwd)
    if folder.is_dir():
        for session in Home(scan(folder)).sessions():
            if SESSION_ID.fullmatch(session.path.stem) and session.turns:
                yield session


def search_sessions(words: str, config: Path, cwd: Path, data: Path) -> list[tuple[Path, str]]:
    """Return the sessions of a working folder whose text has some words in the index, with a piece of the text."""
    # Loaded only by a search: it needs SQLite and the reader of session files.
    from unspool.store import STORE, StoreAccess, open_store, preferences, translate_errors
    from unspool.store.search import MATCH_END, MATCH_START, SearchRequest, open_corpus, parse_terms, search_corpora

    if not words.strip() or not (data / STORE).is_file():
        return []
    folder = _project_folder(absolute_path(config), cwd)
    found: dict[Path, str] = {}
    try:
        with translate_errors(data), closing(open_store(data)) as database:
            opened = StoreAccess([absolute_path(config)], data, preferences.read_preferences(data), database)
            # The last word may be typed in part.
            terms = parse_terms(SearchRequest(words=f"{words.rstrip('*')}*"))
            for hit in search_corpora([open_corpus(opened)], terms, limit=_MAX_HITS, indexed_only=True):
                path = folder / f"{hit.session}.jsonl"
                if hit.session and path not in found and Path(hit.file).is_relative_to(folder) and path.is_file():
                    found[path] = hit.snippet.replace(MATCH_START, "").replace(MATCH_END, "")
    except UnspoolError:  # titles are searched all the same
        return []
    return [*found.items()]


def read_session(path: Path) -> Session:
    """Read a session file."""
    return next(Home(scan(path)).sessions())


def _project_folder(config: Path, cwd: Path) -> Path:
    return config / "projects" / project_key(str(cwd.resolve()))
