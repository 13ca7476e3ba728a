"""Compares two lists of lines, and two lines word by word, in a time that is bounded.

Rules
  1. What is alike at the beginning and at the end is left out first: an edit of a long file is a short comparison.
  2. What is left is compared only if it is short; else all of it counts as replaced. No text can make it slow.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

MAX_COMPARED_LINES: Final = 3_000
_MAX_COMPARED_WORDS: Final = 40
_MAX_MARKED_CHARACTERS: Final = 2_000
_WORD = re.compile(r"\w+|\s+|[^\w\s]")


class ReplacedLines(NamedTuple):
    """Lines `old_start` to `old_end` became `new_start` to `new_end`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def compare_lines(
    old: Sequence[Hashable], new: Sequence[Hashable], most: int = MAX_COMPARED_LINES
) -> list[ReplacedLines]:
    """Return what differs between two lists, in order."""
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if not middle_old and not middle_new:
        return []
    if not middle_old or not middle_new or max(len(middle_old), len(middle_new)) > most:
        return [ReplacedLines(start, start + len(middle_old), start, start + len(middle_new))]
    # With `autojunk`: without it many equal lines take a time that grows with the cube of their number.
    codes = SequenceMatcher(None, middle_old, middle_new).get_opcodes()
    return [
        ReplacedLines(start + old_start, start + old_end, start + new_start, start + new_end)
        for tag, old_start, old_end, new_start, new_end in codes
        if tag != "equal"
    ]


def mark_words(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return which characters of two lines differ, word by word; nothing if the lines have little in common."""
    if max(len(old), len(new)) > _MAX_MARKED_CHARACTERS:
        return [], []
    words = [_WORD.findall(text) for text in (old, new)]
    changed = compare_lines(words[0], words[1], _MAX_COMPARED_WORDS)
    places = [_offsets(each) for each in words]
    marks: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for one in changed:
        if one.old_end > one.old_start:
            marks[0].append((places[0][one.old_start], places[0][one.old_end]))
        if one.new_end > one.new_start:
            marks[1].append((places[1][one.new_start], places[1][one.new_end]))
    marked = sum(end - start for side in marks for start, end in side)
    # If nearly all of both lines is marked, the marks say no more than the colours of the lines.
    return marks if marked * 4 <= (len(old) + len(new)) * 3 else ([], [])


def _offsets(words: Sequence[str]) -> list[int]:
    offsets = [0]
    for word in words:
        offsets.append(offsets[-1] + len(word))
    return offsets
