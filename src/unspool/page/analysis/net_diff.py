"""Joins all changes of a file in a session into one diff, and knows which change each line of it comes from.

Rules
  1. The changes are applied one after the other to the content before the first. If one cannot be applied, or the first
     content is not known, there is no net diff: the changes are shown one by one, and the review says why.
  2. Where the file was found to be different before a change than after the one before, something else changed it: a
     command, an editor, a rewind. These lines are in the diff, because later changes build on them, and are marked.
  3. A line that was changed and changed back is not in the diff.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from unspool.page.analysis.file_content import RecordedChange, apply_change
from unspool.page.analysis.line_diff import ReplacedLines, compare_lines

MAX_CONTENT_CHARACTERS: Final = 4_000_000
"""Longer files have no net diff."""
CONTEXT_LINES: Final = 3
OUTSIDE: Final = -1
"""Stands for the change of a line that no tool call of the session made."""


class NetLine(NamedTuple):
    """A line of a diff with its numbers, and the change it comes from."""

    sign: str
    old: int | None
    new: int | None
    text: str
    change: int | None = None
    """Its place among the changes of the file, or `OUTSIDE`."""


class NetHunk(msgspec.Struct, frozen=True):
    """Lines of a file that stand together."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[NetLine, ...]
    changes: tuple[int, ...] = ()
    """The changes that its lines come from, in order."""

    @property
    def header(self) -> str:
        """Its first line in a patch."""
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@"


class FileReview(msgspec.Struct, frozen=True, kw_only=True):
    """All that a session did to a file."""

    path: str
    changes: tuple[RecordedChange, ...]
    hunks: tuple[NetHunk, ...] = ()
    is_net: bool = True
    """Whether the hunks are one diff; else they are those of the changes, one after the other."""
    is_new: bool = False
    notes: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    before: str | None = None
    after: str | None = None
    starts: tuple[int, ...] = ()
    """Without a net diff: which hunk is the first of each change."""


def review_file(
    path: str, changes: Sequence[RecordedChange], base: str | None = None, context: int = CONTEXT_LINES
) -> FileReview:
    """Return the review of a file; `base` is its content before the first change, if that is known from elsewhere."""
    first = changes[0]
    before = "" if first.is_new else first.before if first.before is not None else base
    tracked = _TrackedFile(before) if before is not None else None
    problem = "" if tracked else "the content before the first change is not known"
    for number, change in enumerate(changes):
        if tracked is None:
            break
        problem = tracked.apply(number, change)
        if problem:
            break
    if tracked is None or problem:
        return _review_one_by_one(path, changes, f"{problem}: the changes are shown one by one")
    assert before is not None
    hunks = tuple(_group(tracked, context))
    notes = []
    if tracked.was_changed_outside:
        notes.append("something else changed the file between two changes; those lines are marked")
    if tracked.after == before:
        notes.append("later changes undid all earlier ones")
    return FileReview(
        path=path,
        changes=tuple(changes),
        hunks=hunks,
        is_new=first.is_new,
        notes=tuple(notes),
        added=sum(line.sign == "+" for hunk in hunks for line in hunk.lines),
        removed=sum(line.sign == "-" for hunk in hunks for line in hunk.lines),
        before=before,
        after=tracked.after,
    )


class _TrackedFile:
    """The lines of a file while changes are applied: which line of the first content, or which change, each is."""

    def __init__(self, before: str) -> None:
        self.base = split_lines(before)
        self.lines = self.base
        self.after = before
        self.was_changed_outside = False
        self.owners: list[int | None] = [None] * len(self.base)
        self._origins: list[int | None] = list(range(len(self.base)))
        self.removed_by: dict[int, int] = {}

    def apply(self, number: int, change: RecordedChange) -> str:
        """Apply a change; return why it cannot be."""
        if change.before is not None and change.before != self.after and not (number == 0 and change.is_new):
            self.was_changed_outside = True
            self._replace(change.before, OUTSIDE)
        after = apply_change(change, self.after)
        if after is None:
            return f"change {number + 1} does not fit the content before it"
        if len(after) > MAX_CONTENT_CHARACTERS:
            return "the file is too long for one diff"
        self._replace(after, number)
        return ""

    def _replace(self, text: str, number: int) -> None:
        lines = split_lines(text)
        owners, origins, at = list[int | None](), list[int | None](), 0
        for one in compare_lines(self.lines, lines):
            owners += self.owners[at : one.old_start]
            origins += self._origins[at : one.old_start]
            for origin in self._origins[one.old_start : one.old_end]:
                if origin is not None:
                    self.removed_by[origin] = number
            owners += [number] * (one.new_end - one.new_start)
            origins += [None] * (one.new_end - one.new_start)
            at = one.old_end
        self.owners = owners + self.owners[at:]
        self._origins = origins + self._origins[at:]
        self.lines, self.after = lines, text


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text without their ends; the last one ends with `\` if its end is missing.

    A form feed or U+2028 ends no line of a diff.
    """
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += UNENDED
    return lines


UNENDED: Final = "\n\\ No newline at end of file"
"""Follows a last line without its end, as in a patch."""


def _group(tracked: _TrackedFile, context: int) -> Iterator[NetHunk]:
    """Yield the differences between the first and the last content with some lines around them."""
    replacements = compare_lines(tracked.base, tracked.lines)
    groups: list[list[ReplacedLines]] = []
    for one in replacements:
        if groups and one.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(one)
        else:
            groups.append([one])
    for group in groups:
        start = max(0, group[0].old_start - context)
        end = min(len(tracked.base), group[-1].old_end + context)
        lines = tuple(_hunk_lines(tracked, group, start, end))
        old, new = sum(line.sign != "+" for line in lines), sum(line.sign != "-" for line in lines)
        new_start = group[0].new_start - (group[0].old_start - start)
        changes = tuple(sorted({line.change for line in lines if line.change is not None}))
        # A range without lines is named by the line before it, as in every patch.
        yield NetHunk(start + (old > 0), old, new_start + (new > 0), new, lines, changes)


def _hunk_lines(tracked: _TrackedFile, group: Sequence[ReplacedLines], start: int, end: int) -> Iterator[NetLine]:
    at, ahead = start, group[0].new_start - group[0].old_start
    for one in group:
        for number in range(at, one.old_start):
            yield NetLine(" ", number + 1, number + 1 + ahead, tracked.base[number])
        for number in range(one.old_start, one.old_end):
            yield NetLine("-", number + 1, None, tracked.base[number], tracked.removed_by.get(number))
        for number in range(one.new_start, one.new_end):
            yield NetLine("+", None, number + 1, tracked.lines[number], tracked.owners[number])
        at, ahead = one.old_end, one.new_end - one.old_end
    for number in range(at, end):
        yield NetLine(" ", number + 1, number + 1 + ahead, tracked.base[number])


# without a net diff


def _review_one_by_one(path: str, changes: Sequence[RecordedChange], note: str) -> FileReview:
    hunks: list[NetHunk] = []
    starts = []
    for number, change in enumerate(changes):
        starts.append(len(hunks))
        hunks += _recorded_hunks(number, change)
    return FileReview(
        path=path,
        changes=tuple(changes),
        hunks=tuple(hunks),
        is_net=False,
        is_new=changes[0].is_new,
        notes=(note,),
        added=sum(line.sign == "+" for hunk in hunks for line in hunk.lines),
        removed=sum(line.sign == "-" for hunk in hunks for line in hunk.lines),
        starts=tuple(starts),
    )


def _recorded_hunks(number: int, change: RecordedChange) -> Iterator[NetHunk]:
    """Yield the hunks of a change as its result has them; without any, what was requested, without numbers."""
    if change.is_new and change.after is not None:
        added = [NetLine("+", None, at, text, number) for at, text in enumerate(split_lines(change.after), 1)]
        yield NetHunk(0, 0, 1, len(added), tuple(added), (number,))
        return
    for hunk in change.hunks:
        lines: list[NetLine] = []
        old, new = hunk.old_start, hunk.new_start
        for line in hunk.lines:
            sign, text = line[:1] or " ", line[1:]
            match sign:
                case "+":
                    lines.append(NetLine("+", None, new, text, number))
                    new += 1
                case "-":
                    lines.append(NetLine("-", old, None, text, number))
                    old += 1
                case "\\":
                    if lines:
                        lines[-1] = lines[-1]._replace(text=lines[-1].text + UNENDED)
                case _:
                    lines.append(NetLine(" ", old, new, text))
                    old, new = old + 1, new + 1
        counts = old - hunk.old_start, new - hunk.new_start
        yield NetHunk(hunk.old_start, counts[0], hunk.new_start, counts[1], tuple(lines), (number,))
    if not change.hunks:
        for one in change.replaced:
            lines = [NetLine("-", None, None, text, number) for text in one.old.split("\n")]
            lines += [NetLine("+", None, None, text, number) for text in one.new.split("\n")]
            yield NetHunk(0, 0, 0, 0, tuple(lines), (number,))


def _range(start: int, count: int) -> str:
    return str(start) if count == 1 else f"{start},{count}"
