"""Which files belong to a session besides its own, and what they hold. Links are not followed.

| where                                    | what                                                            |
|------------------------------------------|-----------------------------------------------------------------|
| `<project>/<id>/…`                       | agents, their meta files, workflows, long results, the title    |
| `<project>/agent-….jsonl`                | agents (until 2.0.76)                                           |
| `<config>/todos/<id>-agent-….json`       | todo lists                                                      |
| `<config>/{tasks,file-history,session-env}/<id>/…` | tasks, backups of the user's files, what hooks set    |
| `<config>/plans/<slug>.md`               | the plan                                                        |
| `<project>/sessions-index.json`          | an entry in it                                                  |

[merged: sidecars.py] The side files of a new session: what each becomes. Bytes in, bytes out.

| file                           | becomes                                                                     |
|--------------------------------|-----------------------------------------------------------------------------|
| an agent's lines, a journal    | the same under the new session's id, new ids for its lines, same call ids   |
| an agent beside the session    | the same under a new agent id: those of all sessions lie in one folder      |
| a todo list                    | the same under a new name                                                   |
| a plan                         | a copy under a new name, so that each session has its own                   |
| an entry of the index          | one more entry                                                              |
| anything else                  | a copy                                                                      |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.edit.ids import Identity, made, made_agent, rewritten
from unspool.edit.rules.side_files import Beside
from unspool.edit.session_view import Manuscript, read
from unspool.errors import Refused, UnspoolError
from unspool.files.open import pieces_of
from unspool.format.entry import Entry
from unspool.format.json_edit import encode, patch
from unspool.home import Session
from unspool.paths import inside
from unspool.read.scan import config_around

INDEX = "sessions-index.json"
_LOCKS = (".lock", ".tmp")


class SideFile(NamedTuple):
    """A file that belongs to a session."""

    path: Path
    role: str
    """`agent`, `lines`, `result`, `todos`, `task`, `backup`, `environment`, `plan`, `index` or `file`."""


class Surroundings(NamedTuple):
    """Where a session lies, and what belongs to it."""

    path: Path
    config: Path | None
    """The config folder; none for a loose file."""
    files: list[SideFile]

    def of(self, *roles: str) -> list[SideFile]:
        """Return the files with these roles."""
        return [file for file in self.files if file.role in roles]


def surroundings(session: Session, slugs: tuple[str, ...] = ()) -> Surroundings:
    """Find what belongs to a session; `slugs` are the names of its plans."""
    path = session.path
    config = config_around(path.parent)
    folder = path.with_suffix("")
    files = [SideFile(one, _role(one.relative_to(folder))) for one in _below(folder)]
    files += [
        SideFile(source.path, "agent") for source in session.agent_sources if not source.path.is_relative_to(folder)
    ]
    if config is not None:
        files += _in_config(config, session.id, slugs)
    if _is_file(index := path.parent / INDEX):
        files.append(SideFile(index, "index"))
    return Surroundings(path, config, files)


def beside(session: Session, around: Surroundings) -> Beside:
    """Return the names that the rules of side files ask for."""
    return Beside(
        project=around.path.parent.name if around.config else None,
        results=frozenset(file.path.name for file in around.of("result")) if around.config else None,
        backups=frozenset(file.path.name for file in around.of("backup")) if around.config else None,
        agents=[(str(file.path), own_lines(file.path, session.id)) for file in around.of("agent")],
    )


def own_lines(path: Path, session_id: str) -> Manuscript:
    """Read an agent's file; of one that several sessions used, the lines of this one."""
    whole = read(path.stem, content(path))
    if path.parent.name == "subagents" or "subagents" in path.parts:
        return whole
    own = b"".join(entry.raw for entry in whole.entries if entry.record.session_id in (None, session_id))
    return whole if len(own) == len(whole.data) else read(path.stem, own)


def content(path: Path) -> bytes:
    """Return all bytes of a file, normally in one go; nothing but a regular one is opened."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return b"".join(pieces_of(path, max(size, 1 << 16)))


def _role(inner: Path) -> str:
    if inner.suffix == ".jsonl":
        return "agent" if inner.name.startswith("agent-") else "lines"
    return "result" if inner.parts[0] == "tool-results" else "file"


def _in_config(config: Path, id: str, slugs: tuple[str, ...]) -> Iterator[SideFile]:
    todos = config / "todos"
    if todos.is_dir():
        yield from (SideFile(one, "todos") for one in sorted(todos.glob(f"{id}-agent-*.json")) if _is_file(one))
    for name, role in (("tasks", "task"), ("file-history", "backup"), ("session-env", "environment")):
        for one in _below(config / name / id):
            if not one.name.endswith(_LOCKS):
                yield SideFile(one, role)
    for slug in slugs:
        try:
            plan = inside(config / "plans", f"{slug}.md")
        except UnspoolError:  # a slug that is no plain name leads nowhere
            continue
        if _is_file(plan):
            yield SideFile(plan, "plan")


def _below(folder: Path) -> list[Path]:
    """Return the regular files in a folder and those below it."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = []
    for above, folders, names in os.walk(folder):
        folders.sort()
        found += [path for path in (Path(above, name) for name in sorted(names)) if _is_file(path)]
    return found


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def agent_lines(agent: Manuscript, new: Identity, seed: bytes) -> bytes:
    """Return the lines of an agent's file, or of a journal, under the new ids."""
    own = {entry.record.uuid: made(seed, entry.record.uuid) for entry in agent.entries if entry.record.uuid}
    here = replace(new, uuids={**new.uuids, **own})
    pieces: list[bytes | memoryview] = []
    whole = memoryview(agent.data)
    for item in agent.items:
        if isinstance(item, Entry):
            pieces.append(rewritten(item, here))
        elif item is not agent.torn:
            pieces.append(whole[item.offset : item.offset + item.length])
    if pieces and bytes(pieces[-1][-1:]) != b"\n":
        pieces.append(b"\n")
    return b"".join(pieces)


def new_agents(ids: Iterable[str], seed: bytes) -> dict[str, str]:
    """Return new ids for agents that lie beside other sessions' agents."""
    return {id: made_agent(seed, id) for id in ids}


def new_slugs(slugs: Iterable[str], seed: bytes) -> dict[str, str]:
    """Return new names for plans."""
    return {slug: f"{slug}-{made(seed, slug)[:6]}" for slug in slugs}


def in_json(path: str) -> bytes:
    """Return a piece of a path as it stands in JSON."""
    return encode(path)[1:-1]


def todo_name(name: str, new: Identity) -> str:
    """Return the name of a todo list: `<session>-agent-<agent>.json`."""
    session, _, rest = name.partition("-agent-")
    agent = rest.removesuffix(".json")
    changed = new.session if agent == session else new.agents.get(agent, agent)
    return f"{new.session}-agent-{changed}.json"


def index_with(document: bytes, new: Identity, path: str, modified: int) -> bytes | None:
    """Return an index with one more entry, like that of the source; None if the source has none."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    entries: Any = value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return None
    own = next((one for one in entries if isinstance(one, dict) and one.get("sessionId") == new.source), None)
    if own is None:
        return None
    entry = {**own, "sessionId": new.session, "fullPath": path, "fileMtime": modified}
    try:
        return patch(document, {("entries", len(entries)): entry})
    except Refused:
        return None
