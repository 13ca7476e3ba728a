"""Writes reviews of files as a patch that `git apply` takes, as far as that is exact.

Rules
  1. A patch of a net diff is exact: git turns the content before the session into the content after it.
  2. Without a net diff the changes of a file follow each other, as git applies them. Where a change has no exact
     patch it is left out, and a line before it says so: git skips text between patches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from unspool.page.analysis.file_content import RecordedChange
from unspool.page.analysis.net_diff import FileReview, NetHunk

_QUOTED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def format_patch(reviews: Iterable[FileReview], cwd: str | None) -> str:
    """Return files as one patch, with paths relative to the folder of the session."""
    parts = (part for review in reviews for part in split_patch(review, cwd))
    return "".join(part if isinstance(part, str) else _format_hunk(part) for part in parts)


def is_exact(review: FileReview) -> bool:
    """Tell whether all changes of a file are in its patch."""
    return review.is_net or all(map(_has_patch, review.changes))


def _has_patch(change: RecordedChange) -> bool:
    """Tell whether a change by itself is a patch: a line of one may say anything, also that it is two."""
    if change.is_new:
        return change.after is not None
    return bool(change.hunks) and not any("\n" in line for hunk in change.hunks for line in hunk.lines)


def relative_path(path: str, cwd: str | None) -> str:
    """Return a path as a patch names it: below the folder of the session, else without its root."""
    folder = (cwd or "").replace("\\", "/").rstrip("/")
    plain = path.replace("\\", "/") if ":" in path[:3] else path
    if folder and plain.startswith(folder + "/"):
        return plain[len(folder) + 1 :]
    return plain.lstrip("/") or "file"


def split_patch(review: FileReview, cwd: str | None) -> Iterator[str | NetHunk]:
    """Yield what the patch of a file consists of: its hunks, and the lines between them."""
    name = relative_path(review.path, cwd)
    if review.is_net:
        if review.hunks or (review.is_new and review.after == ""):
            yield from _one_patch(name, review.hunks, is_new=review.is_new)
        return
    yield f"# {_quote(name)}: {'; '.join(review.notes)}\n"
    for number, change in enumerate(review.changes):
        end = review.starts[number + 1] if number + 1 < len(review.starts) else len(review.hunks)
        hunks = review.hunks[review.starts[number] : end]
        if _has_patch(change):
            yield from _one_patch(name, hunks, is_new=change.is_new)
        else:
            yield f"# {_quote(name)}: change {number + 1} has no exact patch and is left out\n"


def _one_patch(name: str, hunks: Sequence[NetHunk], *, is_new: bool) -> Iterator[str | NetHunk]:
    old, new = _quote(f"a/{name}"), _quote(f"b/{name}")
    yield f"diff --git {old} {new}\n"
    if is_new:
        yield "new file mode 100644\n"
    if hunks:
        yield f"--- {'/dev/null' if is_new else old}\n+++ {new}\n"
    yield from hunks


def _format_hunk(hunk: NetHunk) -> str:
    return "".join([f"{hunk.header}\n", *(f"{line.sign}{line.text}\n" for line in hunk.lines)])


def _quote(name: str) -> str:
    """Return a name as git writes it: quoted if it has a character that would end it."""
    if not any(character in _QUOTED or character < " " for character in name):
        return name
    quoted = "".join(
        _QUOTED.get(character) or (f"\\{ord(character):03o}" if character < " " else character) for character in name
    )
    return f'"{quoted}"'
