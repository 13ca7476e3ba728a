from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from unspool.client.tools.content.diff import structured_patch

lines = st.lists(st.sampled_from(["a", "b", "c", "", "\t"]), max_size=30).map("\n".join)
NO_END = "\\ No newline at end of file"


def applied(old: str, hunks: list[dict[str, Any]]) -> str:
    """Apply a patch as `patch` does: each line that stays or goes must be where the hunk says."""
    before, after, reached = ended(old), [], 0
    for hunk in hunks:
        start = hunk["oldStart"] - 1
        after += before[reached:start]
        assert len(after) == hunk["newStart"] - 1
        was, now = sides(hunk["lines"])
        assert before[start : start + hunk["oldLines"]] == was
        assert len(now) == hunk["newLines"]
        after += now
        reached = start + hunk["oldLines"]
    return "".join(after + before[reached:])


def ended(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [line for line in text.split("\n")[-1:] if line]


def sides(marked: list[str]) -> tuple[list[str], list[str]]:
    was: list[str] = []
    now: list[str] = []
    for at, line in enumerate(marked):
        if line == NO_END:
            continue
        text = line[1:] + ("" if marked[at + 1 : at + 2] == [NO_END] else "\n")
        if line[0] in " -":
            was.append(text)
        if line[0] in " +":
            now.append(text)
    return was, now


@given(lines, lines)
def test_a_patch_makes_the_new_text_of_the_old(old: str, new: str) -> None:
    assert applied(old, structured_patch(old, new)) == new


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 3000), st.integers(1, 7))
def test_a_patch_of_a_large_change_still_makes_the_new_text_of_the_old(size: int, step: int) -> None:
    old = "".join(f"{at}\n" for at in range(size))
    new = "".join(f"{at}\n" if at % step else "other\n" for at in range(size))
    assert applied(old, structured_patch(old, new)) == new


def test_what_differs_too_much_is_led_by_lines_that_occur_once() -> None:
    old = "".join(f"{at}\n" for at in range(20_000))
    new = "".join("x\n" if at % 10 == 0 else f"{at}\n" for at in range(20_000))
    hunks = structured_patch(old, new)
    assert sum(line.startswith("-") for hunk in hunks for line in hunk["lines"]) == 2000


def test_lines_are_as_the_program_writes_them() -> None:
    old = "".join(f"l{at}\n" for at in range(1, 31))
    (hunk,) = structured_patch(old, old.replace("l3\n", "l3\nnew\n"))
    marked = [" l1", " l2", " l3", "+new", " l4", " l5", " l6"]
    assert hunk == {"oldStart": 1, "oldLines": 6, "newStart": 1, "newLines": 7, "lines": marked}


def test_a_text_without_a_last_line_end_says_so_as_the_program_does() -> None:
    (hunk,) = structured_patch("x\ny", "x\nz")
    assert hunk["lines"] == [" x", "-y", NO_END, "+z", NO_END]
    (made,) = structured_patch("", "created\nhere")
    assert made == {
        "oldStart": 1,
        "oldLines": 0,
        "newStart": 1,
        "newLines": 2,
        "lines": ["+created", "+here", NO_END],
    }


def test_changes_close_to_each_other_share_a_hunk_and_others_do_not() -> None:
    old = "".join(f"{at}\n" for at in range(40))
    near = structured_patch(old, old.replace("\n5\n", "\nx\n").replace("\n12\n", "\nx\n"))
    far = structured_patch(old, old.replace("\n5\n", "\nx\n").replace("\n13\n", "\nx\n"))
    assert [len(near), len(far)] == [1, 2]
