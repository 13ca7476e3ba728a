import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.client.tools.calling import call, call_with, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, ToolOutcome
from unspool.client.tools.content.diff import structured_patch
from unspool.client.tools.registry import built_in_tools, preview_call
from unspool.format.tools.files import EditResult


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


def made(context: ToolContext, name: str, data: bytes, *, read: bool = True) -> Path:
    path = context.workspace.root / name
    path.write_bytes(data)
    if read:
        assert not call(context, "Read", file_path=str(path)).is_error
    return path


def edit(context: ToolContext, path: Path, old: str, new: str, **more: object) -> str:
    return text_of(call(context, "Edit", file_path=str(path), old_string=old, new_string=new, **more))


@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"}),
        ("Edit", {"file_path": "a.txt", "old_string": "t", "new_string": "T\n", "replace_all": True}),
        ("Edit", {"file_path": "new.txt", "old_string": "", "new_string": "one\ntwo"}),
        ("Write", {"file_path": "a.txt", "content": "one\n2\nthree"}),
        ("Write", {"file_path": "dos.txt", "content": "one\n2\n"}),
        ("Write", {"file_path": "deep/new.txt", "content": "x\n" * 2000}),
        ("Write", {"file_path": "deep/empty.txt", "content": ""}),
        ("NotebookEdit", {"notebook_path": "a.ipynb", "cell_number": 0, "new_source": "y = 2"}),
        ("NotebookEdit", {"notebook_path": "a.ipynb", "cell_type": "code", "new_source": "z", "edit_mode": "insert"}),
        ("NotebookEdit", {"notebook_path": "a.ipynb", "cell_number": 0, "new_source": "", "edit_mode": "delete"}),
    ],
)
def test_what_is_shown_before_is_what_is_written(context: ToolContext, name: str, input: dict[str, Any]) -> None:
    cell = {"cell_type": "code", "id": "c", "metadata": {}, "execution_count": 1, "outputs": [], "source": "x = 1"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    made(context, "a.txt", b"one\ntwo\nthree\n")
    made(context, "dos.txt", b"one\r\ntwo\r\n")
    made(context, "a.ipynb", json.dumps(notebook, indent=1).encode())
    path = context.workspace.root / (input.get("file_path") or input["notebook_path"])
    before = path.read_bytes() if path.exists() else None
    (tool,) = [tool for tool in built_in_tools() if tool.name == name]
    change = preview_call(tool, input, context, "toolu_1")
    assert isinstance(change, FileChange)
    assert (path.read_bytes() if path.exists() else None) == before  # nothing was changed
    assert (change.path, change.is_new) == (str(path), before is None)
    assert not call_with(context, name, input).is_error
    old, new = (before or b"").decode().replace("\r\n", "\n"), path.read_text().replace("\r\n", "\n")
    assert change.hunks == structured_patch(old, new)


def test_the_reason_why_an_edit_cannot_be_made_is_known_before(context: ToolContext) -> None:
    path = made(context, "a.txt", b"one\none\n")
    (tool,) = [tool for tool in built_in_tools() if tool.name == "Edit"]
    for old, words in {"two": "not found in file", "one": "Found 2 matches", "": "file already exists"}.items():
        input = {"file_path": str(path), "old_string": old, "new_string": "x"}
        outcome = preview_call(tool, input, context, "toolu_1")
        assert isinstance(outcome, ToolOutcome)
        assert words in problem_of(outcome)
        assert outcome == call_with(context, "Edit", input)


def test_a_piece_is_replaced_and_told_of(context: ToolContext) -> None:
    path = made(context, "a.txt", b"one\ntwo\nthree\n")
    outcome = call(context, "Edit", file_path=str(path), old_string="two", new_string="2")
    assert text_of(outcome) == f"The file {path} has been updated successfully."
    result = decoded("Edit", outcome)
    assert isinstance(result, EditResult)
    assert result.original_file == "one\ntwo\nthree\n"
    assert result.structured_patch[0].lines == (" one", "-two", "+2", " three")
    assert list(outcome.result) == [
        "filePath", "oldString", "newString", "originalFile", "structuredPatch", "userModified", "replaceAll",
    ]  # fmt: skip
    assert path.read_bytes() == b"one\n2\nthree\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\nb", "a", "x", b"\xef\xbb\xbfx\nb"),
        (b"a\r\nb\nc\r\nd\n", "b\nc", "x\ny", b"a\r\nx\ny\r\nd\n"),
        (b"caf\xe9\nb\n", "b", "c", b"caf\xe9\nc\n"),
        ("\ufeffhej\nd\xe5".encode("utf-16-le"), "d\xe5", "\xe4n", "\ufeffhej\n\xe4n".encode("utf-16-le")),
        (b"a  \nb", "a", "x   ", b"x     \nb"),
        ("it’s".encode(), "it's", "is", b"is"),
    ],
)
def test_what_is_not_meant_stays(context: ToolContext, before: bytes, old: str, new: str, after: bytes) -> None:
    path = made(context, "a.txt", before)
    edit(context, path, old, new)
    assert path.read_bytes() == after


def test_all_of_several_are_replaced_if_all_are_meant(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a b a")
    words = edit(context, path, "a", "c", replace_all=True)
    assert words == f"The file {path} has been updated. All occurrences of 'a' were successfully replaced with 'c'."
    assert path.read_bytes() == b"c b c"


def test_what_cannot_be_replaced_says_why_in_the_words_of_the_program(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a b a")
    wrapped = "<tool_use_error>{}</tool_use_error>".format
    assert edit(context, path, "x", "y") == wrapped("String to replace not found in file.\nString: x")
    assert edit(context, path, "a", "a") == wrapped(
        "No changes to make: old_string and new_string are exactly the same."
    )
    assert edit(context, path, "a", "y").startswith("<tool_use_error>Found 2 matches of the string to replace, but")
    assert edit(context, path, "", "y") == wrapped("Cannot create new file - file already exists.")
    assert edit(context, path.with_suffix(".md"), "a", "b") == wrapped("File does not exist. Did you mean a.txt?")
    assert path.read_bytes() == b"a b a"


def test_a_file_is_changed_only_by_who_has_read_it(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a", read=False)
    outcome = call(context, "Edit", file_path=str(path), old_string="a", new_string="b")
    assert problem_of(outcome) == "File has not been read yet. Read it first before writing to it."
    call(context, "Read", file_path=str(path))
    path.write_bytes(b"a, and more")
    outcome = call(context, "Edit", file_path=str(path), old_string="a", new_string="b")
    assert problem_of(outcome).startswith("File has been modified since read, either by the user or by a linter.")
    assert path.read_bytes() == b"a, and more"


def test_a_file_that_was_touched_and_is_the_same_may_be_changed(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a")
    os.utime(path, (0, 0))
    edit(context, path, "a", "b")
    assert path.read_bytes() == b"b"


def test_a_change_may_follow_a_change(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a")
    edit(context, path, "a", "b")
    edit(context, path, "b", "c")
    assert path.read_bytes() == b"c"


def test_nothing_in_place_of_nothing_makes_a_file_or_fills_an_empty_one(context: ToolContext) -> None:
    path = context.workspace.root / "deep" / "new.txt"
    edit(context, path, "", "made\n")
    assert path.read_bytes() == b"made\n"
    empty = made(context, "empty.txt", b"")
    edit(context, empty, "", "filled")
    assert empty.read_bytes() == b"filled"


def test_the_mode_of_a_file_stays_and_a_link_stays_a_link(context: ToolContext) -> None:
    path = made(context, "a.sh", b"a")
    path.chmod(0o751)
    link = context.workspace.root / "link.sh"
    link.symlink_to("a.sh")
    edit(context, link, "a", "b")
    assert link.is_symlink()
    assert path.read_bytes() == b"b"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


def test_a_file_with_two_names_keeps_both(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a")
    other = context.workspace.root / "b.txt"
    other.hardlink_to(path)
    edit(context, path, "a", "b")
    assert other.read_bytes() == b"b"


def test_a_file_is_kept_before_it_is_changed(context: ToolContext) -> None:
    path = made(context, "a.txt", b"a")
    kept: list[tuple[Path, bytes]] = []
    context.back_up = lambda path: kept.append((path, path.read_bytes()))
    edit(context, path, "a", "b")
    assert kept == [(path, b"a")]


def test_a_notebook_is_for_another_tool(context: ToolContext) -> None:
    words = edit(context, context.workspace.root / "a.ipynb", "a", "b")
    assert (
        words == "<tool_use_error>File is a Jupyter Notebook. Use the NotebookEdit to edit this file.</tool_use_error>"
    )


def test_a_file_that_is_too_large_is_for_other_tools(context: ToolContext) -> None:
    path = context.workspace.root / "large.txt"
    with path.open("wb") as file:
        file.truncate(70 << 20)
    context.known_files.record(path, b"")
    outcome = call(context, "Edit", file_path=str(path), old_string="a", new_string="b")
    assert problem_of(outcome) == "File is too large (70 MB; 64 MB at most). Use Bash for it."


def test_a_long_file_is_not_written_into_the_session(context: ToolContext) -> None:
    path = context.workspace.root / "long.txt"
    path.write_text("a line of it\n" * 200_000 + "end\n")
    call(context, "Read", file_path=str(path), offset=200_001)
    outcome = call(context, "Edit", file_path=str(path), old_string="end", new_string="END")
    assert outcome.result["originalFile"] is None
    assert outcome.result["structuredPatch"][0]["lines"][-2:] == ["-end", "+END"]
    decoded("Edit", outcome)
