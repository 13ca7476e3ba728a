import os
from pathlib import Path

import pytest

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.format.tools.files import GlobResult


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    """A folder with files, each changed after the one before."""
    context = context_in(tmp_path)
    names = ["b.py", "a.py", "sub/c.py", ".hidden/d.py", "ignored/e.py", "x.js", ".git/f.py", "né ü.py"]
    for number, name in enumerate(names):
        path = context.workspace.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        os.utime(path, (1000 + number, 1000 + number))
    (context.workspace.root / ".gitignore").write_text("ignored/\n")
    (context.workspace.root / "link.py").symlink_to("a.py")
    (context.workspace.root / "loop").symlink_to(".")
    return context


def found(context: ToolContext, pattern: str, path: str | None = None) -> list[str]:
    outcome = call(context, "Glob", pattern=pattern, path=path)
    result = decoded("Glob", outcome)
    assert isinstance(result, GlobResult)
    assert list(outcome.result) == ["filenames", "durationMs", "numFiles", "truncated"]
    assert result.num_files == len(result.filenames)
    assert text_of(outcome) == ("\n".join(result.filenames) or "No files found")
    return [str(Path(name).relative_to(context.workspace.root)) for name in result.filenames]


def test_files_come_in_the_order_they_were_changed(context: ToolContext) -> None:
    every = ["b.py", "a.py", "sub/c.py", ".hidden/d.py", "ignored/e.py", "né ü.py"]
    assert found(context, "**/*.py") == every
    assert found(context, "*.py") == every


def test_a_folder_can_be_asked_for(context: ToolContext) -> None:
    assert found(context, "*.py", "sub") == ["sub/c.py"]
    assert found(context, "*.py", str(context.workspace.root / "sub")) == ["sub/c.py"]
    assert found(context, f"{context.workspace.root}/sub/**/*.py") == ["sub/c.py"]
    assert found(context, f"{context.workspace.root}/a.py") == ["a.py"]
    assert found(context, "sub/*.{py,js}") == ["sub/c.py"]


def test_what_is_git_s_own_is_found_only_by_its_name(context: ToolContext) -> None:
    assert found(context, ".git/**") == [".git/f.py"]


def test_nothing_found_is_no_error(context: ToolContext) -> None:
    assert found(context, "*.nope") == []


def test_a_hundred_files_are_shown_and_no_more(context: ToolContext) -> None:
    for number in range(120):
        path = context.workspace.root / f"f{number:03}.txt"
        path.write_text("x")
        os.utime(path, (5000 + number, 5000 + number))
    outcome = call(context, "Glob", pattern="*.txt")
    assert outcome.result["truncated"] is True
    assert [Path(name).name for name in outcome.result["filenames"]] == [
        f"f{number:03}.txt" for number in range(20, 120)
    ]
    assert text_of(outcome).endswith("\n(Results are truncated. Consider using a more specific path or pattern.)")


def test_what_cannot_be_looked_through_says_why(context: ToolContext) -> None:
    assert problem_of(call(context, "Glob", pattern="*", path="none")) == "Directory does not exist: none"
    assert problem_of(call(context, "Glob", pattern="*", path="a.py")) == "Path is not a directory: a.py"
    assert "must not contain `..`" in problem_of(call(context, "Glob", pattern="../*"))
    assert "a `[` is not closed" in problem_of(call(context, "Glob", pattern="[a"))


def test_a_name_that_is_no_text_is_shown_as_such(context: ToolContext) -> None:
    try:
        Path(os.fsdecode(os.fsencode(context.workspace.root) + b"/caf\xe9.rs")).write_text("x")
    except OSError:
        pytest.skip("names of files are texts here")
    assert text_of(call(context, "Glob", pattern="*.rs")).endswith("caf\ufffd.rs")
