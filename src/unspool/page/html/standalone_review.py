"""The review of a session inside an exported file: one net diff per file, with the prompts behind each hunk.

Rules
  1. The diff of a file that one step changed is in the file already, in that step: the review names the step.
  2. What the review is made of is HTML of ours, in which every text of the session is escaped.
  3. Which words of a line differ, and what stands between the hunks of a patch, is said here; the script puts the rows
     side by side, and the patch together.
  4. A review stops at `_MAX_LINES` lines; the file says how many files are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from unspool.display import clean
from unspool.page.analysis import OUTSIDE, UNENDED, FileReview, NetHunk, relative_path, split_patch
from unspool.page.detail import StepDetail
from unspool.page.detail_parts import PatchLine, PatchPart
from unspool.page.html.diff_rows import find_word_marks
from unspool.page.html.highlight import patch_rows
from unspool.page.html.line_numbers import drop_line_numbers
from unspool.page.readers import find_changed_files, read_reviews
from unspool.page.view import PageView

_MAX_LINES: Final = 20_000
_MAX_PROMPT: Final = 300
_NO_PATCH: Final = "-"
"""Stands for what comes before a hunk that is in no patch."""


def digest_patch(detail: StepDetail) -> int | None:
    """Return a hash of the diff that a step shows; None if it shows none, several or not all of it."""
    match [part for part in detail.rendered if isinstance(part, PatchPart)]:
        case [PatchPart(more=0, lines=lines)]:
            return _digest((line.sign, line.text) for line in lines if line.sign != "@")
        case _:
            return None


def describe_review(view: PageView, patches: Mapping[str, int], turns: range | None) -> dict[str, Any]:
    """Return the review as data for the file's script; `patches` are the hashes of the diffs of steps, by key."""
    found = find_changed_files(view)
    files, lines, cwd = [], 0, view.index.facts.cwd
    reviews = read_reviews(view, found.files, 3, turns)
    used: set[int] = set()
    for review in reviews:
        lines += sum(len(hunk.lines) for hunk in review.hunks)
        if lines > _MAX_LINES:
            break
        used |= {change.turn for change in review.changes if change.turn}
        files.append(_describe_file(view, review, cwd, patches))
    return {
        "files": files,
        "left": (len(found.files) if turns is None else len(reviews)) - len(files),
        "agents": found.agents_left_out,
        "prompts": {turn: view.index.turns[turn].prompt[:_MAX_PROMPT] for turn in sorted(used)},
    }


def _describe_file(view: PageView, review: FileReview, cwd: str | None, patches: Mapping[str, int]) -> dict[str, Any]:
    step = _find_step(review, patches)
    heads, end = _split_heads(review, cwd)
    hunks = [
        {
            "by": _reasons(view, review, hunk),
            "at": hunk.header,
            **({"step": step, "rows": len(hunk.lines)} if step else {"html": _rows(hunk)}),
            **_describe_marks(hunk),
            **({"head": head} if head else {}),
        }
        for hunk, head in zip(review.hunks, heads, strict=True)
    ]
    about: dict[str, Any] = {"name": relative_path(review.path, cwd), "hunks": hunks}
    about |= {"plus": review.added, "minus": review.removed, "changes": len(review.changes)}
    about |= {"new": 1} if review.is_new else {}
    about |= {"end": end} if end else {}
    about |= {"inexact": 1} if not _is_shown_exactly(review) else {}
    return about | ({"notes": list(review.notes)} if review.notes else {})


def _find_step(review: FileReview, patches: Mapping[str, int]) -> str | None:
    """Return the step that shows the whole diff of a file."""
    if len(review.changes) != 1 or any(OUTSIDE in hunk.changes for hunk in review.hunks):
        return None
    key = review.changes[0].key
    lines = (line for hunk in review.hunks for line in hunk.lines)
    shown = _digest((line.sign, line.text.removesuffix(UNENDED)) for line in lines)  # steps do not say it
    return key if patches.get(key) == shown else None


def _split_heads(review: FileReview, cwd: str | None) -> tuple[list[str], str]:
    """Return what stands before each hunk in the patch of a file, and after the last; a hunk may be left out of it."""
    heads, before = dict[int, str](), ""
    for part in split_patch(review, cwd):
        if isinstance(part, str):
            before += part
        else:
            heads[id(part)], before = before, ""
    return [heads.get(id(hunk), _NO_PATCH) for hunk in review.hunks], before


def _is_shown_exactly(review: FileReview) -> bool:
    """Tell whether the rows of a file show its very characters, so that a patch can be made of them."""
    return all(
        "\x1b" not in line.text and "\r" not in line.text and clean(line.text) == line.text
        for hunk in review.hunks
        for line in hunk.lines
    )


def _rows(hunk: NetHunk) -> str:
    rows = patch_rows(PatchLine(line.sign, line.old, line.new, line.text.removesuffix(UNENDED)) for line in hunk.lines)
    return drop_line_numbers(str(rows))


def _describe_marks(hunk: NetHunk) -> dict[str, Any]:
    """Return the words that differ, the lines without an end, and whether something else changed some of the lines."""
    marks = [
        [at, *(_count_units(text, place) for pair in found for place in pair)]
        for at, found in find_word_marks(hunk.lines).items()
        if clean(text := hunk.lines[at].text) == text
    ]
    unended = [at for at, line in enumerate(hunk.lines) if line.text.endswith(UNENDED)]
    about = {"marks": marks, "unended": unended, "outside": int(OUTSIDE in hunk.changes)}
    return {name: value for name, value in about.items() if value}


def _count_units(text: str, place: int) -> int:
    """Return a place in a text as scripts count: a character outside of the first 65,536 is two."""
    return place if text.isascii() else len(text[:place].encode("utf-16-le", "surrogatepass")) // 2


def _reasons(view: PageView, review: FileReview, hunk: NetHunk) -> list[list[Any]]:
    """Return the turns behind a hunk, each once: its number, the agent, whether it was abandoned, and the steps."""
    by_turn: dict[tuple[int | None, str | None], list[str]] = {}
    for number in hunk.changes:
        if number != OUTSIDE:
            change = review.changes[number]
            by_turn.setdefault((change.turn, change.agent), []).append(change.key)
    return [
        [turn, agent, int(bool(turn) and view.index.is_abandoned(turn or 0)), keys[:8]]
        for (turn, agent), keys in by_turn.items()
    ]


def _digest(lines: Iterable[tuple[str, str]]) -> int:
    return hash(tuple(lines))
