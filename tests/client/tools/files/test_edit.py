import os
import stat
from pathlib import Path

import pytest

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
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
