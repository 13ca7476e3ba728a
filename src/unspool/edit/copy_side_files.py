"""The side files of a session that comes of an edit: which are copied, to where, as what.

Rules
  1. A copy has all that its source has, under its own ids; agents whose calls went are left out.
  2. Paths of the session's own files that stand in results are changed with the files, so that they still lead to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.edit import side_files
from unspool.edit.apply.transaction import Wanted
from unspool.edit.ids import Identity
from unspool.edit.planner import Prepared
from unspool.edit.session_view import Manuscript, read
from unspool.edit.side_files import SideFile, Surroundings, content, own_lines
from unspool.errors import UnspoolError
from unspool.format.blocks import ToolUse
from unspool.format.records import Assistant
from unspool.format.side_files.json import AgentMeta, parse_agent_meta
from unspool.graph.agents import AgentFile, agents

_IN_CONFIG = {"task": "tasks", "backup": "file-history", "environment": "session-env"}


class Destination(NamedTuple):
    """Where a session comes to lie."""

    path: Path
    modified: int
    """In milliseconds since 1970."""
    in_place: bool = False


def adapted(new: Identity, around: Surroundings, there: Destination, seed: bytes) -> Identity:
    """Return new ids with what the surroundings of a session ask for: agents, plans, paths."""
    folder = around.path.with_suffix("")
    paths: list[tuple[str, str]] = []
    if any(file.path.is_relative_to(folder) for file in around.files):
        above = around.path.parent.parent.name
        paths.append(
            (f"/{above}/{around.path.parent.name}/{new.source}/", f"/{above}/{there.path.parent.name}/{new.session}/")
        )
    if there.in_place:
        return replace(new, keeps_ids=True, uuids={}, paths=_in_json(paths))
    beside = [file for file in around.of("agent") if not file.path.is_relative_to(folder)]
    ids = [file.path.stem.removeprefix("agent-") for file in beside]
    names = side_files.new_slugs([file.path.stem for file in around.of("plan")], seed)
    paths += [(f"/plans/{old}.md", f"/plans/{fresh}.md") for old, fresh in names.items()]
    paths += [
        (f"/{_IN_CONFIG[role]}/{new.source}/", f"/{_IN_CONFIG[role]}/{new.session}/")
        for role in _IN_CONFIG
        if around.of(role)
    ]
    return replace(new, agents=side_files.new_agents(ids, seed), slugs=names, paths=_in_json(paths))


def copies(prepared: Prepared, around: Surroundings, there: Destination, seed: bytes) -> Iterator[Wanted]:
    """Yield what is made of the side files for a new session."""
    new = prepared.plan.identity
    assert new is not None
    gone = _agents_gone(prepared, around)
    for file in around.files:
        if file.path in gone:
            continue
        if file.role == "index":
            yield from _indexed(file, new, around, there)
        elif file.role in ("agent", "lines"):
            data = side_files.agent_lines(own_lines(file.path, new.source), new, seed)
            yield Wanted("create", _target(file, around, there, new), data=data)
        else:
            yield Wanted("create", _target(file, around, there, new), source=file.path)


def moves(prepared: Prepared, around: Surroundings, there: Destination, seed: bytes) -> Iterator[Wanted]:
    """Yield what becomes of the side files when a session moves to another project: those in the project go with it."""
    new = prepared.plan.identity
    assert new is not None
    for file in around.files:
        if not file.path.is_relative_to(around.path.parent) or file.role == "index":
            continue
        target = there.path.parent / file.path.relative_to(around.path.parent)
        if file.role in ("agent", "lines"):
            data = side_files.agent_lines(read(file.path.stem, content(file.path)), new, seed)
            yield Wanted("create", target, data=data)
        else:
            yield Wanted("create", target, source=file.path)
        yield Wanted("remove", file.path)


def _in_json(paths: list[tuple[str, str]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((side_files.in_json(old), side_files.in_json(new)) for old, new in paths)


def _target(file: SideFile, around: Surroundings, there: Destination, new: Identity) -> Path:
    folder = around.path.with_suffix("")
    if file.path.is_relative_to(folder):
        return there.path.with_suffix("") / file.path.relative_to(folder)
    if file.role == "agent":
        id = file.path.stem.removeprefix("agent-")
        return there.path.parent / f"agent-{new.agents[id]}.jsonl"
    assert around.config is not None
    if file.role == "todos":
        return file.path.with_name(side_files.todo_name(file.path.name, new))
    if file.role == "plan":
        return file.path.with_name(f"{new.slugs[file.path.stem]}.md")
    home = around.config / _IN_CONFIG[file.role]
    return home / new.session / file.path.relative_to(home / new.source)


def _indexed(file: SideFile, new: Identity, around: Surroundings, there: Destination) -> Iterator[Wanted]:
    target = there.path.parent / file.path.name
    if target != file.path:
        return  # another project has its own index, or none
    document = content(file.path)
    data = side_files.index_with(document, new, str(there.path), there.modified)
    if data is not None:
        yield Wanted("replace", file.path, data=data, read=document)


def _agents_gone(prepared: Prepared, around: Surroundings) -> set[Path]:
    """Return the files of agents whose calls are in the source and not in the result, and of those they started."""
    left = _calls(prepared.result)
    gone = _calls(prepared.source) - left
    if not gone or not around.of("agent"):
        return set()
    files = {file.path: own_lines(file.path, prepared.source.id) for file in around.of("agent")}
    names = {path.stem.removeprefix("agent-"): path for path in files}
    known = [AgentFile(id=id, entries=files[path].entries, meta=_meta(path)) for id, path in names.items()]
    linked = {names[agent.id]: agent.call.id for agent in agents(prepared.source.entries, known) if agent.call}
    found: set[Path] = set()
    while more := {path for path in files if linked.get(path) in gone} - found:
        found |= more
        gone |= {call for path in more for call in _calls(files[path])}
    return found | {path.with_suffix(".meta.json") for path in found}


def _meta(path: Path) -> AgentMeta | None:
    """Return what is said of an agent beside its file."""
    try:
        return parse_agent_meta(content(path.with_suffix(".meta.json")))
    except (UnspoolError, msgspec.DecodeError):
        return None


def _calls(manuscript: Manuscript) -> set[str]:
    return {
        block.id
        for entry in manuscript.entries
        if isinstance(entry.record, Assistant) and not isinstance(entry.record.message.content, str)
        for block in entry.record.message.content
        if isinstance(block, ToolUse)
    }
