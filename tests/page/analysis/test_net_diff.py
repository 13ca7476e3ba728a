"""All changes of a file are one diff: what it removes and adds makes the last content of the first."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.format.tools import Hunk
from unspool.page.analysis import (
    OUTSIDE,
    FileReview,
    RecordedChange,
    Replaced,
    format_patch,
    is_exact,
    mark_words,
    review_file,
)
from unspool.page.analysis.file_content import apply_change, apply_hunks
from unspool.page.analysis.line_diff import compare_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d", "}", "é\u2028f", "\tx"]), max_size=12)
CONTENT = st.builds(lambda lines, ended: "\n".join(lines) + ("\n" if ended and lines else ""), LINES, st.booleans())


def contents_up_to(most: int) -> st.SearchStrategy[list[str]]:
    """Contents of which each differs from the one before."""
    lists = st.lists(CONTENT, min_size=2, max_size=most)
    return lists.map(lambda texts: [text for text, _ in groupby(texts)]).filter(lambda texts: len(texts) > 1)


def patch(before: str, after: str) -> tuple[Hunk, ...]:
    """Return the hunks between two contents as Claude Code writes them, with its mark for a missing line end."""
    old, new = (text.split("\n") for text in (before, after))
    unended = [bool(lines[-1]) for lines in (old, new)]
    old, new = (lines if lines[-1] else lines[:-1] for lines in (old, new))
    marked = [
        [*lines[:-1], lines[-1] + "\0"] if last else lines for lines, last in zip((old, new), unended, strict=True)
    ]
    hunks = []
    for group in difflib.SequenceMatcher(None, marked[0], marked[1], autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in marked[0][old_start:old_end]]
            else:
                lines += [f"-{line}" for line in marked[0][old_start:old_end]]
                lines += [f"+{line}" for line in marked[1][new_start:new_end]]
        written = [
            part
            for line in lines
            for part in ((line[:-1], "\\ No newline at end of file") if line.endswith("\0") else (line,))
        ]
        first, last = group[0], group[-1]
        hunks.append(Hunk(first[1] + 1, last[2] - first[1], first[3] + 1, last[4] - first[3], tuple(written)))
    return tuple(hunks)


def change(before: str, after: str, *, known: bool = True, key: str = "1.0") -> RecordedChange:
    return RecordedChange(key, "/p/file.py", before=before if known else None, hunks=patch(before, after))


def rebuild(review: FileReview) -> str:
    """Return what the hunks of a review make of the first content."""
    assert review.before is not None
    hunks = []
    for hunk in review.hunks:
        lines = [part for line in hunk.lines for part in f"{line.sign}{line.text}".split("\n")]
        hunks.append(
            Hunk(
                max(hunk.old_start, 1 if hunk.old_lines else 0),
                hunk.old_lines,
                hunk.new_start,
                hunk.new_lines,
                tuple(lines),
            )
        )
    done = apply_hunks(review.before, hunks)
    assert done is not None
    return done


@given(before=CONTENT, after=CONTENT)
def test_a_recorded_patch_makes_the_new_content_of_the_old(before: str, after: str) -> None:
    assert apply_hunks(before, patch(before, after)) == after


@given(contents=contents_up_to(5), context=st.integers(0, 4))
def test_any_sequence_of_changes_is_one_diff_from_the_first_to_the_last_content(
    contents: list[str], context: int
) -> None:
    changes = [change(*pair) for pair in pairwise(contents)]
    review = review_file("/p/file.py", changes, context=context)
    assert (review.is_net, review.before, review.after) == (True, contents[0], contents[-1])
    if context:
        assert rebuild(review) == contents[-1]
    assert (not review.hunks) == (contents[0] == contents[-1])


@given(contents=contents_up_to(4))
def test_the_first_content_alone_is_enough(contents: list[str]) -> None:
    changes = [change(*pair, known=number == 0) for number, pair in enumerate(pairwise(contents))]
    assert review_file("/p/file.py", changes).after == contents[-1]


def test_each_line_knows_the_change_that_made_it() -> None:
    contents = ["a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\nB\nc\nD\n"]
    (hunk,) = review_file("/p/f", [change(*pair) for pair in pairwise(contents)]).hunks
    owners = {(line.sign, line.text): line.change for line in hunk.lines if line.sign != " "}
    assert owners == {("-", "b"): 0, ("+", "B"): 0, ("-", "d"): 1, ("+", "D"): 1}
    assert hunk.changes == (0, 1)


def test_a_line_that_was_changed_back_is_not_in_the_diff() -> None:
    review = review_file("/p/f", [change("a\nb\n", "a\nX\n"), change("a\nX\n", "a\nb\n")])
    assert review.hunks == ()
    assert review.notes == ("later changes undid all earlier ones",)


def test_what_something_else_changed_is_marked() -> None:
    review = review_file("/p/f", [change("a\nb\n", "A\nb\n"), change("A\nb\nnew\n", "A\nB\nnew\n")])
    owners = {line.text: line.change for hunk in review.hunks for line in hunk.lines if line.sign == "+"}
    assert owners == {"A": 0, "B": 1, "new": OUTSIDE}
    assert "something else changed the file" in review.notes[0]


def test_without_the_first_content_the_changes_stand_one_by_one() -> None:
    review = review_file("/p/f", [change("a\nb\n", "a\nX\n", known=False)])
    assert (review.is_net, review.added, review.removed) == (False, 1, 1)
    assert "not known" in review.notes[0]
    requested = RecordedChange("1.0", "/p/f", replaced=(Replaced("a", "b"),))
    review = review_file("/p/f", [requested])
    assert not is_exact(review)
    assert "left out" in format_patch([review], "/p")


def test_tabs_are_taken_from_the_replaced_strings() -> None:
    before = "if x:\n\ty = 1\n\tz = 2\n"
    edit = RecordedChange(
        "1.0", "/p/f", before=before, hunks=(Hunk(1, 3, 1, 3, (" if x:", "-    y = 1", "+    y = 3", "     z = 2")),),
        replaced=(Replaced("\ty = 1", "\ty = 3"),),
    )  # fmt: skip
    assert apply_change(edit, before) == "if x:\n\ty = 3\n\tz = 2\n"


def test_a_hundred_thousand_lines_are_compared_without_comparing_all_pairs() -> None:
    old = [f"line {number % 7}" for number in range(100_000)]
    new = [f"other {number % 5}" for number in range(100_000)]
    (found,) = compare_lines(old, new)
    assert found == (0, 100_000, 0, 100_000)


@given(old=st.text("ab (", max_size=40), new=st.text("ab (", max_size=40))
def test_marks_are_ranges_of_the_lines_and_what_is_not_marked_is_alike(old: str, new: str) -> None:
    marks = mark_words(old, new)
    for text, ranges in zip((old, new), marks, strict=True):
        assert all(0 <= start < end <= len(text) for start, end in ranges)
    if any(marks):
        kept = [
            "".join(
                character for at, character in enumerate(text) if not any(start <= at < end for start, end in ranges)
            )
            for text, ranges in zip((old, new), marks, strict=True)
        ]
        assert kept[0] == kept[1]


# with the real git

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="there is no git")


def apply_with_git(folder: Path, before: dict[str, str | None], text: str) -> None:
    """Write files, and apply a patch to them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in before.items():
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode())
    done = subprocess.run(
        [str(GIT), "apply", "--whitespace=nowarn", "-"],
        input=text.encode(),
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (done.stderr.decode(), text)


CASES: dict[str, Sequence[str]] = {
    "one edit": ("a\nb\nc\n", "a\nX\nc\n"),
    "two edits far apart": (
        "\n".join(map(str, range(40))) + "\n",
        "\n".join(["x", *map(str, range(1, 39)), "y"]) + "\n",
    ),
    "the last line loses its end": ("a\nb\n", "a\nb"),
    "the last line gets an end": ("a\nb", "a\nb\n"),
    "neither has one": ("a\nb", "a\nc"),
    "emptied": ("a\nb\n", ""),
    "filled": ("", "a\nb"),
    "three contents": ("a\nb\nc\n", "a\nX\nc\n", "a\nX\nc\nd\n"),
    "carriage returns": ("a\r\nb\r\n", "a\r\nX\r\n"),
    "line separators in a line": ("a\u2028b\n\x0cc\n", "a\u2028X\n\x0cc\n"),
}


@needs_git
@pytest.mark.parametrize("name", CASES)
def test_git_applies_the_patch_and_gets_the_last_content(name: str, tmp_path: Path) -> None:
    contents = CASES[name]
    changes = [change(*pair) for pair in pairwise(contents)]
    text = format_patch([review_file("/p/src/file.py", changes)], "/p")
    apply_with_git(tmp_path, {"src/file.py": contents[0]}, text)
    assert (tmp_path / "src/file.py").read_bytes() == contents[-1].encode()


@needs_git
@pytest.mark.parametrize("name", ["a b.py", 'quo"te.py', "back\\slash.py", "tab\there.py", "Überschrift.py", "-n.py"])
def test_git_makes_new_files_whatever_their_names(name: str, tmp_path: Path) -> None:
    made = RecordedChange("1.0", f"/p/{name}", before="", after="x = 1\n", is_new=True)
    apply_with_git(tmp_path, {}, format_patch([review_file(f"/p/{name}", [made])], "/p"))
    assert (tmp_path / name).read_text() == "x = 1\n"


@needs_git
def test_git_applies_changes_one_after_the_other_where_the_first_content_is_not_known(tmp_path: Path) -> None:
    contents = ["a\nb\nc\n", "a\nX\nc\n", "a\nX\nY\n"]
    changes = [change(*pair, known=False) for pair in pairwise(contents)]
    review = review_file("/p/file.py", changes)
    assert not review.is_net
    assert is_exact(review)
    apply_with_git(tmp_path, {"file.py": contents[0]}, format_patch([review], "/p"))
    assert (tmp_path / "file.py").read_text() == contents[-1]


@needs_git
def test_several_files_are_one_patch(tmp_path: Path) -> None:
    reviews = [
        review_file("/p/one.py", [change("a\n", "b\n")]),
        review_file("/p/two.py", [RecordedChange("2.0", "/p/two.py", before="", after="new", is_new=True)]),
    ]
    apply_with_git(tmp_path, {"one.py": "a\n"}, format_patch(reviews, "/p"))
    assert [(tmp_path / name).read_text() for name in ("one.py", "two.py")] == ["b\n", "new"]
