"""Sessions folded into threads: sessions in, one row for each thread out.

Rules
  1. Sessions are of one thread if the first line of their conversations is the same, by its uuid and time: resuming and
     forking copy lines with both. A shared answer further on is not enough: excerpts of a session are no forks of it.
  2. So are a session and the one that it says it was forked from (`forkedFrom`), if that is there.
  3. The row of a thread is, among those that are wanted, the session that went on last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unspool.store.facets import Listed


class Thread(NamedTuple):
    """Sessions that share their beginning."""

    head: Listed
    others: tuple[Listed, ...]


def folded(wanted: Sequence[Listed], every: Iterable[Listed], only: str | None = None) -> list[Thread]:
    """Return the threads of some sessions, given all there are; `only` asks for one thread, each session for itself."""
    family = _families(every)
    if only is not None:
        same = {family[one.source_id] for one in every if one.id == only}
        return [Thread(one, ()) for one in wanted if family[one.source_id] in same]
    groups: dict[int, list[Listed]] = {}
    for one in wanted:
        groups.setdefault(family[one.source_id], []).append(one)
    return [_thread(group) if len(group) > 1 else Thread(group[0], ()) for group in groups.values()]


def _thread(group: list[Listed]) -> Thread:
    ordered = sorted(group, key=lambda one: (one.last or "", one.id, one.path), reverse=True)
    return Thread(ordered[0], tuple(ordered[1:]))


def _families(every: Iterable[Listed]) -> dict[int, int]:
    """Return for each session what its thread is known by: the first of its sessions."""
    parent: dict[int, int] = {}
    first: dict[str, int] = {}
    by_id: dict[str, int] = {}
    forks: list[tuple[int, str]] = []
    for one in every:
        parent[one.source_id] = one.source_id
        by_id.setdefault(one.id, one.source_id)
        if one.beginning is not None:
            parent[one.source_id] = first.setdefault(one.beginning, one.source_id)
        if one.forked_from is not None:
            forks.append((one.source_id, one.forked_from))

    def root(id: int) -> int:
        while parent[id] != id:
            id = parent[id]
        return id

    for id, origin in forks:
        if origin in by_id:
            parent[root(id)] = root(by_id[origin])
    return {id: root(id) for id in parent}
