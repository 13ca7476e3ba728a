import os
from pathlib import Path

import pytest

from tests.client.tools.calling import call, decoded, desk_in, problem_of, text_of
from unspool.client.tool_context import Desk
from unspool.format.tools.files import GlobResult


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with files, each changed after the one before."""
    desk = desk_in(tmp_path)
    names = ["b.py", "a.py", "sub/c.py", ".hidden/d.py", "ignored/e.py", "x.js", ".git/f.py", "né ü.py"]
    for number, name in enumerate(names):
        path = desk.place.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        os.utime(path, (1000 + number, 1000 + number))
    (desk.place.root / ".gitignore").write_text("ignored/\n")
    (desk.place.root / "link.py").symlink_to("a.py")
    (desk.place.root / "loop").symlink_to(".")
    return desk


def found(desk: Desk, pattern: str, path: str | None = None) -> list[str]:
    outcome = call(desk, "Glob", pattern=pattern, path=path)
    result = decoded("Glob", outcome)
    assert isinstance(result, GlobResult)
    assert list(outcome.result) == ["filenames", "durationMs", "numFiles", "truncated"]
    assert result.num_files == len(result.filenames)
    assert text_of(outcome) == ("\n".join(result.filenames) or "No files found")
    return [str(Path(name).relative_to(desk.place.root)) for name in result.filenames]


def test_files_come_in_the_order_they_were_changed(desk: Desk) -> None:
    every = ["b.py", "a.py", "sub/c.py", ".hidden/d.py", "ignored/e.py", "né ü.py"]
    assert found(desk, "**/*.py") == every
    assert found(desk, "*.py") == every


def test_a_folder_can_be_asked_for(desk: Desk) -> None:
    assert found(desk, "*.py", "sub") == ["sub/c.py"]
    assert found(desk, "*.py", str(desk.place.root / "sub")) == ["sub/c.py"]
    assert found(desk, f"{desk.place.root}/sub/**/*.py") == ["sub/c.py"]
    assert found(desk, f"{desk.place.root}/a.py") == ["a.py"]
    assert found(desk, "sub/*.{py,js}") == ["sub/c.py"]


def test_what_is_git_s_own_is_found_only_by_its_name(desk: Desk) -> None:
    assert found(desk, ".git/**") == [".git/f.py"]


def test_nothing_found_is_no_error(desk: Desk) -> None:
    assert found(desk, "*.nope") == []


def test_a_hundred_files_are_shown_and_no_more(desk: Desk) -> None:
    for number in range(120):
        path = desk.place.root / f"f{number:03}.txt"
        path.write_text("x")
        os.utime(path, (5000 + number, 5000 + number))
    outcome = call(desk, "Glob", pattern="*.txt")
    assert outcome.result["truncated"] is True
    assert [Path(name).name for name in outcome.result["filenames"]] == [
        f"f{number:03}.txt" for number in range(20, 120)
    ]
    assert text_of(outcome).endswith("\n(Results are truncated. Consider using a more specific path or pattern.)")


def test_what_cannot_be_looked_through_says_why(desk: Desk) -> None:
    assert problem_of(call(desk, "Glob", pattern="*", path="none")) == "Directory does not exist: none"
    assert problem_of(call(desk, "Glob", pattern="*", path="a.py")) == "Path is not a directory: a.py"
    assert "must not contain `..`" in problem_of(call(desk, "Glob", pattern="../*"))
    assert "a `[` is not closed" in problem_of(call(desk, "Glob", pattern="[a"))


def test_a_name_that_is_no_text_is_shown_as_such(desk: Desk) -> None:
    try:
        Path(os.fsdecode(os.fsencode(desk.place.root) + b"/caf\xe9.rs")).write_text("x")
    except OSError:
        pytest.skip("names of files are texts here")
    assert text_of(call(desk, "Glob", pattern="*.rs")).endswith("caf\ufffd.rs")
