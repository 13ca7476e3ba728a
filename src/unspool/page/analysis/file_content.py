"""Finds what a file contained after a change, from what the tool call recorded.

Rules
  1. The patch in the result is what happened. It is applied only where its lines fit the content exactly.
  2. Where the content has tabs, the replaced strings go first: some versions of Claude Code write tabs as spaces into
     the patch. If a string was changed by the user before it was accepted, only the patch can tell.
  3. What cannot be found out is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool.format.tools import Hunk


class Replaced(NamedTuple):
    """A string that a tool call replaced."""

    old: str
    new: str
    everywhere: bool = False


class RecordedChange(NamedTuple):
    """One change of a file by a tool call."""

    key: str
    """The step."""
    path: str
    time: str | None = None
    turn: int | None = None
    agent: str | None = None
    before: str | None = None
    """What the file contained, if the result says so; empty for a new file."""
    after: str | None = None
    """What it contained afterwards, if all of it was written."""
    hunks: tuple[Hunk, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    is_new: bool = False
    is_modified: bool = False
    """The user changed it before accepting it."""


def apply_change(change: RecordedChange, before: str | None) -> str | None:
    """Return the content of a file after a change; None if it cannot be told."""
    if change.after is not None:
        return change.after
    if before is None:
        return None
    patched = apply_hunks(before, change.hunks) if change.hunks else None
    replaced = None if change.is_modified else _apply_replaced(before, change.replaced)
    if replaced is not None and any("\t" in text for text in (before, *(one.new for one in change.replaced))):
        return replaced
    return patched if patched is not None else replaced


def apply_hunks(before: str, hunks: Sequence[Hunk]) -> str | None:
    """Return a text with a patch applied; None if a line of the patch does not fit."""
    lines = before.split("\n")
    done: list[str] = []
    at = 0
    for hunk in hunks:
        start = max(0, hunk.old_start - 1)  # a patch of an empty file begins at line 0 or 1
        if not at <= start <= len(lines):
            return None
        done += lines[at:start]
        at, last = start, ""
        unended: set[str] = set()
        for line in hunk.lines:
            sign, text = line[:1] or " ", line[1:]
            if sign == "\\":
                unended.add(last)
            elif sign == "+":
                done.append(text)
            elif at < len(lines) and lines[at] == text:
                at += 1
                if sign != "-":
                    done.append(text)
            else:
                return None
            last = sign if sign != "\\" else last
        if unended == {"+"} and lines[at:] == [""]:  # the last line has lost its end
            at += 1
        elif unended == {"-"} and at == len(lines):  # it has got one
            done.append("")
    return "\n".join([*done, *lines[at:]])


def _apply_replaced(before: str, replaced: Sequence[Replaced]) -> str | None:
    text = before
    for one in replaced:
        if not one.old:
            if text:
                return None
            text = one.new
        elif one.old not in text:
            return None
        else:
            text = text.replace(one.old, one.new) if one.everywhere else text.replace(one.old, one.new, 1)
    return text if replaced else None
