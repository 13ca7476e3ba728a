r"""Compute the `structuredPatch` of a change: hunks with three lines of context around each change. Pure.

As Claude Code makes them: the shortest edit script, removals before additions, a line without a line end at the end of
a text followed by `\ No newline at end of file`. Tabs stay tabs.

Rules
  1. A hunk's lines without the added ones are the old text, without the removed ones the new text.
  2. Time is bounded: where too many lines differ to find the shortest edit script, lines that occur once in both texts
     are matched first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from unspool.client.tool_result import Json

_CONTEXT_LINES = 3
_MAX_EDITS = 500
"""How many lines may differ before the shortest edit script is no longer searched for."""
_NO_LINE_END = "\\ No newline at end of file"


class _Match(NamedTuple):
    """Lines that stay: where they are in the old text and in the new one, and how many."""

    old: int
    new: int
    length: int


class _Path(NamedTuple):
    """The matches of an edit script, as a linked list from the last to the first."""

    match: _Match
    before: _Path | None


class _Change(NamedTuple):
    """Lines of the old text, `old` to `old_end`, that became lines of the new one; one of the two may be empty."""

    old: int
    old_end: int
    new: int
    new_end: int


def structured_patch(old: str, new: str) -> list[Json]:
    """Return the hunks that make one text of another."""
    before, after = _split_lines(old), _split_lines(new)
    changes = _find_changes(before, after)
    hunks: list[Json] = []
    group: list[_Change] = []
    for change in changes:
        if group and change.old - group[-1].old_end > 2 * _CONTEXT_LINES:
            hunks.append(_make_hunk(group, before, after))
            group = []
        group.append(change)
    return [*hunks, _make_hunk(group, before, after)] if group else hunks


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _make_hunk(changes: list[_Change], before: list[str], after: list[str]) -> Json:
    start = max(0, changes[0].old - _CONTEXT_LINES)
    new_start = max(0, changes[0].new - min(_CONTEXT_LINES, changes[0].old))
    end = min(len(before), changes[-1].old_end + _CONTEXT_LINES)
    new_end = changes[-1].new_end + end - changes[-1].old_end
    lines: list[str] = []
    reached = start
    for change in changes:
        lines += _prefix_lines(" ", before[reached : change.old])
        lines += _prefix_lines("-", before[change.old : change.old_end])
        lines += _prefix_lines("+", after[change.new : change.new_end])
        reached = change.old_end
    lines += _prefix_lines(" ", before[reached:end])
    return {
        "oldStart": start + 1,
        "oldLines": end - start,
        "newStart": new_start + 1,
        "newLines": new_end - new_start,
        "lines": lines,
    }


def _prefix_lines(prefix: str, lines: list[str]) -> list[str]:
    prefixed = []
    for line in lines:
        prefixed.append(prefix + line.removesuffix("\n"))
        if not line.endswith("\n"):
            prefixed.append(_NO_LINE_END)
    return prefixed


def _find_changes(before: list[str], after: list[str]) -> list[_Change]:
    """Return the changes between two texts, in order."""
    changes: list[_Change] = []
    old = new = 0
    for start, new_start, length in [*_match_lines(before, after), _Match(len(before), len(after), 0)]:
        if start > old or new_start > new:
            changes.append(_Change(old, start, new, new_start))
        old, new = start + length, new_start + length
    return changes


def _match_lines(before: list[str], after: list[str]) -> list[_Match]:
    # The search takes time and memory that grow with the square of the number of edits.
    shortest = _find_shortest(before, after, _MAX_EDITS)
    if shortest is not None:
        return shortest
    matches: list[_Match] = []
    old = new = 0
    anchors = _find_anchors(before, after)
    for at, new_at in [*anchors, (len(before), len(after))]:
        inner = _find_shortest(before[old:at], after[new:new_at], _MAX_EDITS // 5) or []
        matches += [_Match(old + start, new + new_start, length) for start, new_start, length in inner]
        if at < len(before) and new_at < len(after):
            matches.append(_Match(at, new_at, 1))
        old, new = at + 1, new_at + 1
    return matches


def _find_anchors(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """Return the places of lines that occur once in both texts, in the longest order that holds in both."""
    unique = _unique_lines(before) & _unique_lines(after)
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


def _unique_lines(lines: list[str]) -> set[str]:
    return {line for line, count in Counter(lines).items() if count == 1}


def _find_shortest(before: list[str], after: list[str], max_edits: int) -> list[_Match] | None:
    """Return the matches of the shortest edit script (Myers, 1986), with Claude Code's choice where there are several.

    None if it needs more than `max_edits` edits. A diagonal is the number of old lines read minus that of new lines;
    `reached` is how many old lines were read on each.
    """
    reached: dict[int, tuple[int, _Path | None]] = {}
    for steps in range(min(len(before) + len(after), max_edits) + 1):
        for diagonal in range(-steps, steps + 1, 2):
            place = _step(reached, diagonal, len(before), len(after)) if steps else (0, None)
            if place is None:
                reached.pop(diagonal, None)
                continue
            start, path = place
            old, new = start, start - diagonal
            while old < len(before) and new < len(after) and before[old] == after[new]:
                old, new = old + 1, new + 1
            if old > start:
                path = _Path(_Match(start, start - diagonal, old - start), path)
            if old == len(before) and new == len(after):
                return _list_matches(path)
            reached[diagonal] = (old, path)
    return None


def _step(
    reached: dict[int, tuple[int, _Path | None]], diagonal: int, old_length: int, new_length: int
) -> tuple[int, _Path | None] | None:
    """Return where one more removed or added line leads on a diagonal."""
    removed, added = reached.get(diagonal - 1), reached.get(diagonal + 1)
    if removed is not None and removed[0] >= old_length:
        removed = None
    if added is not None and added[0] - diagonal > new_length:
        added = None
    if removed is None or (added is not None and removed[0] < added[0]):
        return added
    return removed[0] + 1, removed[1]


def _list_matches(path: _Path | None) -> list[_Match]:
    matches = []
    while path is not None:
        matches.append(path.match)
        path = path.before
    return matches[::-1]
