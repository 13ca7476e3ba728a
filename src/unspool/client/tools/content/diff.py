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
from difflib import Match, SequenceMatcher
from typing import TypeAlias

from unspool.client.tool_result import Json

_CONTEXT_LINES = 3
_MAX_EDITS = 500
"""How many lines may differ before the shortest edit script is no longer searched for."""
_NO_LINE_END = "\\ No newline at end of file"
_Path: TypeAlias = "tuple[Match, _Path] | None"
"""The matches of an edit script, as a linked list from the last to the first."""
_Opcode: TypeAlias = tuple[str, int, int, int, int]


def structured_patch(old: str, new: str) -> list[Json]:
    """Return the hunks that make one text of another."""
    before, after = _split_lines(old), _split_lines(new)
    if not before:  # nothing to search for: a new file may be long
        return [_make_hunk([("insert", 0, 0, 0, len(after))], before, after)] if after else []
    groups = _LineMatcher(before, after).get_grouped_opcodes(_CONTEXT_LINES)
    return [_make_hunk(group, before, after) for group in groups]


class _LineMatcher(SequenceMatcher[str]):
    """Groups changes into hunks as `difflib` does, but finds the lines that stay by the shortest edit script."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__()  # without the texts: it would index them for a search that is not made
        self._before, self._after = before, after

    def get_matching_blocks(self) -> list[Match]:
        """Return the lines that stay; blocks that follow each other directly are one."""
        blocks: list[Match] = []
        for match in _match_lines(self._before, self._after):
            last = blocks[-1] if blocks else Match(-1, -1, 0)
            if (last.a + last.size, last.b + last.size) == (match.a, match.b):
                blocks[-1] = Match(last.a, last.b, last.size + match.size)
            else:
                blocks.append(match)
        return [*blocks, Match(len(self._before), len(self._after), 0)]


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return [*ended, lines[-1]] if lines[-1] else ended


def _make_hunk(opcodes: list[_Opcode], before: list[str], after: list[str]) -> Json:
    lines: list[str] = []
    for tag, old, old_end, new, new_end in opcodes:
        if tag == "equal":
            lines += _prefix_lines(" ", before[old:old_end])
        else:
            lines += _prefix_lines("-", before[old:old_end]) + _prefix_lines("+", after[new:new_end])
    return {
        "oldStart": opcodes[0][1] + 1,
        "oldLines": opcodes[-1][2] - opcodes[0][1],
        "newStart": opcodes[0][3] + 1,
        "newLines": opcodes[-1][4] - opcodes[0][3],
        "lines": lines,
    }


def _prefix_lines(prefix: str, lines: list[str]) -> list[str]:
    prefixed = []
    for line in lines:
        prefixed.append(prefix + line.removesuffix("\n"))
        if not line.endswith("\n"):
            prefixed.append(_NO_LINE_END)
    return prefixed


def _match_lines(before: list[str], after: list[str]) -> list[Match]:
    # The search takes time and memory that grow with the square of the number of edits.
    shortest = _find_shortest(before, after, _MAX_EDITS)
    if shortest is not None:
        return shortest
    matches: list[Match] = []
    old = new = 0
    anchors = _find_anchors(before, after)
    for at, new_at in [*anchors, (len(before), len(after))]:
        inner = _find_shortest(before[old:at], after[new:new_at], _MAX_EDITS // 5) or []
        matches += [Match(old + start, new + new_start, length) for start, new_start, length in inner]
        if at < len(before) and new_at < len(after):
            matches.append(Match(at, new_at, 1))
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


def _find_shortest(before: list[str], after: list[str], max_edits: int) -> list[Match] | None:
    """Return the matches of the shortest edit script (Myers, 1986), with Claude Code's choice where there are several.

    None if it needs more than `max_edits` edits. A diagonal is the number of old lines read minus that of new lines;
    `reached` is how many old lines were read on each.
    """
    reached: dict[int, tuple[int, _Path]] = {}
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
                path = (Match(start, start - diagonal, old - start), path)
            if old == len(before) and new == len(after):
                return _list_matches(path)
            reached[diagonal] = (old, path)
    return None


def _step(
    reached: dict[int, tuple[int, _Path]], diagonal: int, old_length: int, new_length: int
) -> tuple[int, _Path] | None:
    """Return where one more removed or added line leads on a diagonal."""
    removed, added = reached.get(diagonal - 1), reached.get(diagonal + 1)
    if removed is not None and removed[0] >= old_length:
        removed = None
    if added is not None and added[0] - diagonal > new_length:
        added = None
    if removed is None or (added is not None and removed[0] < added[0]):
        return added
    return removed[0] + 1, removed[1]


def _list_matches(path: _Path) -> list[Match]:
    matches = []
    while path is not None:
        match, path = path
        matches.append(match)
    return matches[::-1]
