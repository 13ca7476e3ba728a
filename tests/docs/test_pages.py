"""Every command of every page runs as printed, in order, in a fresh home, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.__main__ import PAGES
from tests.docs.page_blocks import line_matches, mark_variation, matches, read_blocks, renew, replace_outputs
from tests.docs.page_run import run_page
from unspool.demo import write_demo

WITH_COMMANDS = [page for page in PAGES if read_blocks(page.read_text())]
QUICK = {"README.md", "settings.md"}
"""Pages that take a few seconds; the others are marked slow."""
IDS = [pytest.param(page, id=page.name, marks=() if page.name in QUICK else pytest.mark.slow) for page in WITH_COMMANDS]


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return every file and folder below a folder, with mode, time of change and bytes."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        stat = path.lstat()
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


@pytest.mark.parametrize("page", IDS)
def test_all_commands_succeed_and_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    result = run_page(page.read_text(), tmp_path)
    for each in result.commands:
        words = f"{page.name}:{each.command.line}: {each.command.text}"
        assert (each.code, each.output) == (0, each.output), words
        assert matches(each.command.expected, each.output), f"{words}\n" + "\n".join(each.output)


@pytest.mark.parametrize("page", IDS)
def test_no_command_touches_the_readers_own_data(page: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / ".claude")
    (tmp_path / ".claude" / ".credentials.json").write_text("{}")
    before = state(tmp_path)
    run_page(page.read_text(), tmp_path)
    after = state(tmp_path)
    own = str(tmp_path / ".claude")
    assert {path: after.get(path) for path in before if path.startswith(own)} == {
        path: before[path] for path in before if path.startswith(own)
    }
    # Nothing is left over either: each page removes the folder that it made, and unspool's own data is in that.
    assert sorted(after) == sorted(before)


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    blocks = [block for page in WITH_COMMANDS for block in read_blocks(page.read_text()) if block.language == "console"]
    reasons = [block.reason for block in blocks if block.reason is not None]
    assert all(reasons)
    assert len(reasons) <= len(blocks) / 5, reasons


# The comparison


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (["a", "..."], ["a", "b", "c"]),
        (["...", "c"], ["a", "b", "c"]),
        (["a", "...", "c"], ["a", "c"]),
        (["took <duration>, <size>"], ["took 12.5 s, 3.4 kB"]),
        (["<id>  <date>  x"], ["3fefcfd0    2026-11-14  x"]),
        ([], []),
    ],
)
def test_what_varies_is_not_compared(expected: list[str], actual: list[str]) -> None:
    assert matches(expected, actual)
    assert renew(expected, actual) == expected


@pytest.mark.parametrize(
    ("expected", "actual"),
    [(["a"], ["b"]), (["a"], []), ([], ["a"]), (["a", "..."], ["b"]), (["<date> x"], ["2026-11-14 y"])],
)
def test_what_does_not_vary_is(expected: list[str], actual: list[str]) -> None:
    assert not matches(expected, actual)
    assert matches(renew(expected, actual), actual)


def test_outputs_are_rewritten_in_place(tmp_path: Path) -> None:
    page = (
        "# A\n\n```console\n$ echo a\n$ echo b; echo c\nold\n```\n\n<!-- not run: no key -->\n```console\n$ x\ny\n```\n"
    )
    result = run_page(page, tmp_path)
    assert result.not_run == ["no key"]
    fixed = replace_outputs(page, {each.command.line: each.output for each in result.commands})
    assert fixed == page.replace("$ echo a\n", "$ echo a\na\n").replace("old", "b\nc")


def test_a_failed_command_and_an_output_without_a_line_end_are_seen(tmp_path: Path) -> None:
    result = run_page("```console\n$ printf a\n$ cd /; false\n$ pwd\n```\n", tmp_path)
    assert [(each.code, each.output) for each in result.commands] == [(0, ["a"]), (1, []), (0, ["/"])]


def test_a_placeholder_stands_for_its_kind_alone() -> None:
    assert not line_matches("<date>", "yesterday")
    assert not line_matches("<number> rows", "many rows")


def test_what_differs_between_two_runs_becomes_a_placeholder() -> None:
    one = ["4d70d60c  2026-11-17T18:33:36+00:00  trim  6cb291c3-2f29-4…  9140d041", "same 12", "a"]
    two = ["77aa0b1c  2026-11-17T18:33:37+00:00  trim  0f00bc11-9e1a-4…  9140d041", "same 12", "b"]
    assert mark_variation(one, two) == ["<id>  <time>  trim  <id>  9140d041", "same 12", "a"]
