"""What is wrong with the side files of a tree: those that cannot be read, and an index that has gone stale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.format import settings, sidecars
from unspool.read.files import MAX_SIDE_FILE, read_whole
from unspool.read.scan import Kind, Source, Tree

_STALE = 1.0
"""Milliseconds by which a time in the index may differ: the program rounds."""


class SideFinding(NamedTuple):
    """Something about a side file."""

    file: Path
    kind: str
    message: str


_PARSERS: dict[Kind, Callable[[bytes], object]] = {
    Kind.INDEX: sidecars.parse_sessions_index,
    Kind.STATS: sidecars.parse_stats,
    Kind.SETTINGS: settings.parse_settings,
    Kind.TODOS: sidecars.parse_todos,
    Kind.TASK: sidecars.parse_task,
    Kind.REGISTRY: sidecars.parse_process,
    Kind.AGENT_META: sidecars.parse_agent_meta,
    Kind.TITLE: sidecars.parse_custom_title,
    Kind.WORKFLOW: sidecars.parse_workflow,
}


def findings(tree: Tree) -> Iterator[SideFinding]:
    """Yield what is wrong with the side files of a tree."""
    for source in tree.of(*_PARSERS):
        try:
            parsed = _PARSERS[source.kind](read_whole(source.path, MAX_SIDE_FILE))
        except (UnspoolError, msgspec.DecodeError) as error:
            yield SideFinding(source.path, "unreadable", str(error))
            continue
        if isinstance(parsed, sidecars.SessionsIndex):
            yield from _index_findings(source.path, parsed, tree)


def _index_findings(path: Path, index: sidecars.SessionsIndex, tree: Tree) -> Iterator[SideFinding]:
    """Compare an index with the session files beside it. The paths written in it are never opened."""
    files = {s.session_id: s for s in tree.of(Kind.SESSION) if s.path.parent == path.parent}
    listed = {entry.session_id: entry for entry in index.entries}
    for session_id, entry in listed.items():
        source = files.get(session_id)
        if source is None:
            yield SideFinding(path, "index entry without file", f"`{session_id}` is listed but not there")
        elif _is_stale(entry, source):
            yield SideFinding(path, "stale index time", f"`{session_id}` has changed since it was listed")
    for name in sorted(str(session_id) for session_id in files.keys() - listed.keys()):
        yield SideFinding(path, "file without index entry", f"`{name}` is there but not listed")


def _is_stale(entry: sidecars.IndexEntry, source: Source) -> bool:
    if entry.file_mtime is None:
        return False
    return abs(source.modified / 1e6 - entry.file_mtime) > _STALE
