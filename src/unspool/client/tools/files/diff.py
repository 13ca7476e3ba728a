r"""The structured patch of a change: a text before and after in, hunks with three lines around each change out. Pure.

As the program makes them: the shortest way from one to the other, removals before additions, lines that stand without
a line end at the end of a text followed by `\ No newline at end of file`. Tabs stay tabs.

Rules
  1. A hunk's lines without the added ones are what was there, without the removed ones what is there.
  2. Time is bounded: where there is too much to find the shortest way, lines that occur once in both texts lead it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]

CONTEXT = 3
_PATIENCE = 500
"""How many lines may differ before the shortest way is no longer looked for."""
_NO_END = "\\ No newline at end of file"


class Stretch(NamedTuple):
    """Lines that stay: where they are in the old text and in the new one, and how many."""

    old: int
    new: int
    length: int


class Way(NamedTuple):
    """How a place was reached: what stayed last, and the way there."""

    stretch: Stretch
    before: Way | None


class Run(NamedTuple):
    """Lines of the old text, from `old` to `old_end`, that became lines of the new one; one of the two may be none."""

    old: int
    old_end: int
    new: int
    new_end: int


def structured_patch(old: str, new: str) -> list[Json]:
    """Return the hunks that make one text of another."""
    before, after = _lines(old), _lines(new)
    runs = _runs(before, after)
    hunks: list[Json] = []
    group: list[Run] = []
    for run in runs:
        if group and run.old - group[-1].old_end > 2 * CONTEXT:
            hunks.append(_hunk(group, before, after))
            group = []
        group.append(run)
    return [*hunks, _hunk(group, before, after)] if group else hunks


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _hunk(runs: list[Run], before: list[str], after: list[str]) -> Json:
    start, new_start = max(0, runs[0].old - CONTEXT), max(0, runs[0].new - min(CONTEXT, runs[0].old))
    end = min(len(before), runs[-1].old_end + CONTEXT)
    new_end = runs[-1].new_end + end - runs[-1].old_end
    lines: list[str] = []
    reached = start
    for run in runs:
        lines += _marked(" ", before[reached : run.old])
        lines += _marked("-", before[run.old : run.old_end])
        lines += _marked("+", after[run.new : run.new_end])
        reached = run.old_end
    lines += _marked(" ", before[reached:end])
    return {
        "oldStart": start + 1,
        "oldLines": end - start,
        "newStart": new_start + 1,
        "newLines": new_end - new_start,
        "lines": lines,
    }


def _marked(mark: str, lines: list[str]) -> list[str]:
    marked = []
    for line in lines:
        marked.append(mark + line.removesuffix("\n"))
        if not line.endswith("\n"):
            marked.append(_NO_END)
    return marked


def _runs(before: list[str], after: list[str]) -> list[Run]:
    """Return what changed, in order."""
    runs: list[Run] = []
    old = new = 0
    for start, new_start, length in [*_kept(before, after), Stretch(len(before), len(after), 0)]:
        if start > old or new_start > new:
            runs.append(Run(old, start, new, new_start))
        old, new = start + length, new_start + length
    return runs


def _kept(before: list[str], after: list[str]) -> list[Stretch]:
    shortest = _shortest(before, after, _PATIENCE)
    if shortest is not None:
        return shortest
    kept: list[Stretch] = []
    old = new = 0
    anchors = _anchors(before, after)
    for at, new_at in [*anchors, (len(before), len(after))]:
        inner = _shortest(before[old:at], after[new:new_at], _PATIENCE // 5) or []
        kept += [Stretch(old + start, new + new_start, length) for start, new_start, length in inner]
        if at < len(before) and new_at < len(after):
            kept.append(Stretch(at, new_at, 1))
        old, new = at + 1, new_at + 1
    return kept


def _anchors(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """Return the places of lines that occur once in both texts, in the longest order that holds in both."""
    unique = _once(before) & _once(after)
    places = {line: at for at, line in enumerate(after)}
    pairs = [(at, places[line]) for at, line in enumerate(before) if line in unique]
    ends: list[int] = []  # of the best chain of each length, the pair it ends with
    earlier: list[int | None] = []
    for index, (_, new_at) in enumerate(pairs):
        length = bisect_left(ends, new_at, key=lambda end: pairs[end][1])
        earlier.append(ends[length - 1] if length else None)
        ends[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    last = ends[-1] if ends else None
    while last is not None:
        chain.append(pairs[last])
        last = earlier[last]
    return chain[::-1]


def _once(lines: list[str]) -> set[str]:
    return {line for line, count in Counter(lines).items() if count == 1}


def _shortest(before: list[str], after: list[str], patience: int) -> list[Stretch] | None:
    """Return what stays on the shortest way (Myers, 1986), with the program's choice where there are several.

    A diagonal is where so many more lines of the old text than of the new one are read; `reach` is how many of the old.
    """
    reach: dict[int, tuple[int, Way | None]] = {}
    for steps in range(min(len(before) + len(after), patience) + 1):
        for diagonal in range(-steps, steps + 1, 2):
            place = _next(reach, diagonal, len(before), len(after)) if steps else (0, None)
            if place is None:
                reach.pop(diagonal, None)
                continue
            start, way = place
            old, new = start, start - diagonal
            while old < len(before) and new < len(after) and before[old] == after[new]:
                old, new = old + 1, new + 1
            if old > start:
                way = Way(Stretch(start, start - diagonal, old - start), way)
            if old == len(before) and new == len(after):
                return _stretches(way)
            reach[diagonal] = (old, way)
    return None


def _next(
    reach: dict[int, tuple[int, Way | None]], diagonal: int, old_length: int, new_length: int
) -> tuple[int, Way | None] | None:
    """Return where one more line brings us: one that is removed, or one that is added."""
    removed, added = reach.get(diagonal - 1), reach.get(diagonal + 1)
    if removed is not None and removed[0] >= old_length:
        removed = None
    if added is not None and added[0] - diagonal > new_length:
        added = None
    if removed is None or (added is not None and removed[0] < added[0]):
        return added
    return removed[0] + 1, removed[1]


def _stretches(way: Way | None) -> list[Stretch]:
    stretches = []
    while way is not None:
        stretches.append(way.stretch)
        way = way.before
    return stretches[::-1]
