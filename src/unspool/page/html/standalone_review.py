"""The review of a session inside an exported file: one net diff per file, with the prompts behind each hunk.

Rules
  1. The diff of a file that one step changed is in the file already, in that step: the review names the step.
  2. What the review is made of is HTML of ours, in which every text of the session is escaped.
  3. A review stops at `_MAX_LINES` lines; the file says how many files are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from unspool.page.analysis import OUTSIDE, UNENDED, FileReview, NetHunk, relative_path
from unspool.page.detail import StepDetail
from unspool.page.detail_parts import PatchLine, PatchPart
from unspool.page.html.highlight import patch_rows
from unspool.page.html.line_numbers import drop_line_numbers
from unspool.page.readers import find_changed_files, read_reviews
from unspool.page.view import PageView

_MAX_LINES: Final = 20_000
_MAX_PROMPT: Final = 300


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
    if step:
        is_unended = any(line.text.endswith(UNENDED) for hunk in review.hunks for line in hunk.lines)
        about_lines = [{"step": step, **({"unended": 1} if is_unended else {})}]
    else:
        about_lines = [_describe_lines(hunk) for hunk in review.hunks]
    hunks = [
        {"by": _reasons(view, review, hunk), **lines}
        for hunk, lines in zip(review.hunks, about_lines, strict=False)  # a step shows all hunks at once
    ]
    about: dict[str, Any] = {"name": relative_path(review.path, cwd), "hunks": hunks}
    about |= {"plus": review.added, "minus": review.removed, "changes": len(review.changes)}
    return about | ({"new": 1} if review.is_new else {}) | ({"notes": list(review.notes)} if review.notes else {})


def _find_step(review: FileReview, patches: Mapping[str, int]) -> str | None:
    """Return the step that shows the whole diff of a file."""
    if len(review.changes) != 1 or any(OUTSIDE in hunk.changes for hunk in review.hunks):
        return None
    key = review.changes[0].key
    lines = (line for hunk in review.hunks for line in hunk.lines)
    shown = _digest((line.sign, line.text.removesuffix(UNENDED)) for line in lines)  # steps do not say it
    return key if patches.get(key) == shown else None


def _describe_lines(hunk: NetHunk) -> dict[str, Any]:
    rows = patch_rows(PatchLine(line.sign, line.old, line.new, line.text) for line in hunk.lines)
    outside = {"outside": 1} if OUTSIDE in hunk.changes else {}
    return {"at": hunk.header, "html": drop_line_numbers(str(rows)), **outside}


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
