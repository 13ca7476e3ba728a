"""Finds, reads and copies the files that belong to a session besides its own. Links are not followed.

| where                                    | what                                                            |
|------------------------------------------|-----------------------------------------------------------------|
| `<project>/<id>/…`                       | agents, their meta files, workflows, long results, the title    |
| `<project>/agent-….jsonl`                | agents (until 2.0.76)                                           |
| `<config>/todos/<id>-agent-….json`       | todo lists                                                      |
| `<config>/{tasks,file-history,session-env}/<id>/…` | tasks, backups of the user's files, what hooks set    |
| `<config>/plans/<slug>.md`               | the plan                                                        |
| `<project>/sessions-index.json`          | an entry in it                                                  |

Rules
  1. A copy has all that its source has, under its own ids; agents whose calls were removed are left out.
  2. Paths of the session's own files that stand in results are changed with the files, so that they still lead to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.edit.apply.transaction import FileOperation
from unspool.edit.planning import ids
from unspool.edit.planning.ids import IdMap
from unspool.edit.planning.planner import PreparedEdit
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.errors import Unreadable, UnspoolError
from unspool.files import read_pieces
from unspool.format import encode_json
from unspool.format.side_files import AgentMeta, parse_object
from unspool.home import Session
from unspool.paths import join_names
from unspool.read import MAX_SEARCHED, endless_reason, find_config_folder

if TYPE_CHECKING:
    from unspool.graph import AgentFile

CONFIG_FOLDERS = {"task": "tasks", "backup": "file-history", "environment": "session-env"}
_LOCKS = (".lock", ".tmp")
_PIECE = 16 * 1024 * 1024


class SideFile(NamedTuple):
    """A file that belongs to a session."""

    path: Path
    role: str
    """`agent`, `lines`, `result`, `todos`, `task`, `backup`, `environment`, `plan`, `index` or `file`."""


class SessionFiles(NamedTuple):
    """The file of a session, its config folder, and its side files."""

    path: Path
    config: Path | None
    """The config folder; none for a session file outside of one."""
    files: list[SideFile]

    def with_role(self, role: str) -> list[SideFile]:
        """Return the files with a role."""
        return [file for file in self.files if file.role == role]


def find_session_files(session: Session, text: SessionText) -> SessionFiles:
    """Find the files that belong to a session."""
    path = session.path
    config = find_config_folder(path.parent)
    folder = path.with_suffix("")
    files = [SideFile(below, _role(below.relative_to(folder))) for below in _files_below(folder)]
    files += [
        SideFile(source.path, "agent") for source in session.agent_sources if not source.path.is_relative_to(folder)
    ]
    if config is not None:
        files += _find_in_config(config, session.id, text)
    if _is_regular(index := path.parent / "sessions-index.json"):
        files.append(SideFile(index, "index"))
    return SessionFiles(path, config, files)


def read_session_text(session: Session) -> SessionText:
    """Read a session's own file."""
    return parse_session_text(session.path.stem, read_file(session.path))


def read_agent_lines(path: Path, session_id: str) -> SessionText:
    """Read an agent's file; of one that several sessions used, the lines of this session."""
    text = parse_session_text(path.stem, read_file(path))
    # A file below the session is its own; until 2.0.76 files beside it could be shared.
    if "subagents" in path.parts:
        return text
    own = b"".join(entry.raw for entry in text.entries if entry.record.session_id in (None, session_id))
    return text if len(own) == len(text.data) else parse_session_text(path.stem, own)


def read_file(path: Path) -> bytes:
    """Return all bytes of a regular file, normally in one read; one with a line without an end is refused."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    if size <= MAX_SEARCHED:
        return b"".join(read_pieces(path, max(size, 1 << 16)))
    # So large a file may be one line: that would be copied several times before anybody could say that it is too long.
    data, line = bytearray(), 0
    for piece in read_pieces(path, _PIECE):
        first = piece.find(b"\n")
        if len(data) + (len(piece) if first < 0 else first) - line > MAX_SEARCHED:
            raise Unreadable(f"cannot read all of `{path}`: {endless_reason(line, size)}")
        line = len(data) + piece.rfind(b"\n") + 1 if first >= 0 else line
        data += piece
    return bytes(data)


def _role(inner: Path) -> str:
    if inner.suffix == ".jsonl":
        return "agent" if inner.name.startswith("agent-") else "lines"
    return "result" if inner.parts[0] == "tool-results" else "file"


def _find_in_config(config: Path, id: str, text: SessionText) -> Iterator[SideFile]:
    todos = config / "todos"
    if todos.is_dir():
        yield from (SideFile(file, "todos") for file in sorted(todos.glob(f"{id}-agent-*.json")) if _is_regular(file))
    for role, name in CONFIG_FOLDERS.items():
        for file in _files_below(config / name / id):
            # Locks and temporary files are of a process that runs now.
            if not file.name.endswith(_LOCKS):
                yield SideFile(file, role)
    for slug in dict.fromkeys(entry.record.slug for entry in text.entries if entry.record.slug):
        try:
            plan = join_names(config / "plans", f"{slug}.md")
        except UnspoolError:  # a slug comes from a line: one that is no plain name could lead anywhere
            continue
        if _is_regular(plan):
            yield SideFile(plan, "plan")


def _files_below(folder: Path) -> list[Path]:
    """Return the regular files in a folder and those below it."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = []
    for above, folders, names in os.walk(folder):
        folders.sort()
        found += [path for path in (Path(above, name) for name in sorted(names)) if _is_regular(path)]
    return found


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


class Destination(NamedTuple):
    """The file that an edited session is written to."""

    path: Path
    modified: int
    """In milliseconds since 1970."""
    in_place: bool = False


def complete_id_map(id_map: IdMap, files: SessionFiles, destination: Destination, seed: bytes) -> IdMap:
    """Add to new ids what the side files of a session need: agents, plans, paths."""
    folder, project, target = files.path.with_suffix(""), files.path.parent, destination.path.parent
    source, session = id_map.source, id_map.session
    paths: list[tuple[str, str]] = []
    if any(file.path.is_relative_to(folder) for file in files.files):
        above = project.parent.name
        paths.append((f"/{above}/{project.name}/{source}/", f"/{above}/{target.name}/{session}/"))
    # A session that moves keeps its ids: only paths with the project in them change.
    if destination.in_place:
        return replace(id_map, keeps_ids=True, uuids={}, paths=_encode_paths(paths))
    agent_ids = [_agent_id(file.path) for file in files.with_role("agent") if not file.path.is_relative_to(folder)]
    slugs = [file.path.stem for file in files.with_role("plan")]
    new_slugs = {slug: f"{slug}-{ids.derive_uuid(seed, slug)[:6]}" for slug in slugs}
    paths += [(f"/plans/{old}.md", f"/plans/{new}.md") for old, new in new_slugs.items()]
    paths += [
        (f"/{name}/{source}/", f"/{name}/{session}/") for role, name in CONFIG_FOLDERS.items() if files.with_role(role)
    ]
    new_agents = {id: ids.derive_agent_id(seed, id) for id in agent_ids}
    return replace(id_map, agents=new_agents, slugs=new_slugs, paths=_encode_paths(paths))


def copy_side_files(
    prepared: PreparedEdit, files: SessionFiles, destination: Destination, seed: bytes
) -> Iterator[FileOperation]:
    """Yield the side files of a new session."""
    id_map = prepared.plan.id_map
    assert id_map is not None
    removed = _find_removed_agents(prepared, files)
    for file in files.files:
        if file.path in removed:
            continue
        if file.role == "index":
            yield from _extend_index(file, id_map, destination)
            continue
        target = _target_path(file, files, destination, id_map)
        if file.role in ("agent", "lines"):
            data = ids.rewrite_agent_lines(read_agent_lines(file.path, id_map.source), id_map, seed)
            yield FileOperation("create", target, data=data)
        else:
            yield FileOperation("create", target, source=file.path)


def move_side_files(
    prepared: PreparedEdit, files: SessionFiles, destination: Destination, seed: bytes
) -> Iterator[FileOperation]:
    """Yield what happens to the side files when a session moves to another project: those in the project move too."""
    id_map = prepared.plan.id_map
    assert id_map is not None
    project = files.path.parent
    for file in files.files:
        if not file.path.is_relative_to(project) or file.role == "index":
            continue
        target = destination.path.parent / file.path.relative_to(project)
        if file.role in ("agent", "lines"):
            text = parse_session_text(file.path.stem, read_file(file.path))
            yield FileOperation("create", target, data=ids.rewrite_agent_lines(text, id_map, seed))
        else:
            yield FileOperation("create", target, source=file.path)
        yield FileOperation("remove", file.path)


def read_agent_files(files: SessionFiles, session_id: str) -> list[AgentFile]:
    """Read the agents of a session, as `link_agents` takes them."""
    from unspool.graph import AgentFile  # start-up: most sessions have no agents

    return [
        AgentFile(
            id=_agent_id(file.path),
            entries=read_agent_lines(file.path, session_id).entries,
            meta=_read_meta(file.path),
        )
        for file in files.with_role("agent")
    ]


def _encode_paths(paths: list[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    """Return parts of paths as they stand in JSON, without the quotes."""
    return tuple((encode_json(old)[1:-1], encode_json(new)[1:-1]) for old, new in paths)


def _agent_id(path: Path) -> str:
    return path.stem.removeprefix("agent-")


def _target_path(file: SideFile, files: SessionFiles, destination: Destination, id_map: IdMap) -> Path:
    folder = files.path.with_suffix("")
    if file.path.is_relative_to(folder):
        return destination.path.with_suffix("") / file.path.relative_to(folder)
    if file.role == "agent":
        return destination.path.parent / f"agent-{id_map.agents[_agent_id(file.path)]}.jsonl"
    assert files.config is not None
    if file.role == "todos":
        return file.path.with_name(ids.new_todo_name(file.path.name, id_map))
    if file.role == "plan":
        return file.path.with_name(f"{id_map.slugs[file.path.stem]}.md")
    home = files.config / CONFIG_FOLDERS[file.role]
    return home / id_map.session / file.path.relative_to(home / id_map.source)


def _extend_index(file: SideFile, id_map: IdMap, destination: Destination) -> Iterator[FileOperation]:
    if destination.path.parent != file.path.parent:
        return  # another project has its own index, or none
    document = read_file(file.path)
    data = ids.add_index_entry(document, id_map, str(destination.path), destination.modified)
    if data is not None:
        yield FileOperation("replace", file.path, data=data, base=document)


def _find_removed_agents(prepared: PreparedEdit, files: SessionFiles) -> set[Path]:
    """Return the files of agents whose calls are in the source and not in the result, and of those they started."""
    agent_files = files.with_role("agent")
    gone = _call_ids(prepared.source) - _call_ids(prepared.result) if agent_files else set()
    if not gone:
        return set()
    from unspool.graph import AgentFile, link_agents  # start-up: few edits remove calls of agents

    texts = {file.path: read_agent_lines(file.path, prepared.source.id) for file in agent_files}
    paths = {_agent_id(path): path for path in texts}
    known = [AgentFile(id=id, entries=texts[path].entries, meta=_read_meta(path)) for id, path in paths.items()]
    linked = {paths[agent.id]: agent.call.id for agent in link_agents(prepared.source.entries, known) if agent.call}
    found: set[Path] = set()
    # Agents start agents: each that is found may be the caller of more.
    while more := {path for path in texts if linked.get(path) in gone} - found:
        found |= more
        gone |= {call for path in more for call in _call_ids(texts[path])}
    return found | {path.with_suffix(".meta.json") for path in found}


def _read_meta(path: Path) -> AgentMeta | None:
    """Read the meta file beside an agent's file."""
    try:
        return parse_object(read_file(path.with_suffix(".meta.json")), AgentMeta)
    except (UnspoolError, msgspec.DecodeError):
        return None


def _call_ids(text: SessionText) -> set[str]:
    return {id for entry in text.entries for id in entry.call_ids}
