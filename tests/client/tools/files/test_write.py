import os
import stat
from pathlib import Path

import pytest

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.format.tools.files import WriteResult


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


def test_a_file_is_made_with_its_folders(context: ToolContext) -> None:
    path = context.workspace.root / "deep" / "er" / "a.txt"
    outcome = call(context, "Write", file_path=str(path), content="one\n")
    assert outcome.content == f"File created successfully at: {path}"
    assert outcome.result == {
        "type": "create",
        "filePath": str(path),
        "content": "one\n",
        "structuredPatch": [],
        "originalFile": None,
    }
    assert isinstance(decoded("Write", outcome), WriteResult)
    assert path.read_bytes() == b"one\n"


def test_what_was_just_written_may_be_written_again(context: ToolContext) -> None:
    path = context.workspace.root / "a.txt"
    call(context, "Write", file_path=str(path), content="one\ntwo\n")
    outcome = call(context, "Write", file_path=str(path), content="one\n2\n")
    assert text_of(outcome) == (
        f"The file {path} has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
        "     1→one\n     2→2\n     3→"
    )
    assert outcome.result["type"] == "update"
    assert outcome.result["originalFile"] == "one\ntwo\n"
    assert outcome.result["structuredPatch"][0]["lines"] == [" one", "-two", "+2"]


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa", "x", b"\xef\xbb\xbfx"),
        ("\ufeffa".encode("utf-16-le"), "\xe5", "\ufeff\xe5".encode("utf-16-le")),
        (b"a\nb\n", "x\r\ny\n", b"x\r\ny\n"),
    ],
)
def test_a_file_keeps_its_encoding_and_its_line_ends(
    context: ToolContext, before: bytes, content: str, after: bytes
) -> None:
    path = context.workspace.root / "a.txt"
    path.write_bytes(before)
    call(context, "Read", file_path=str(path))
    call(context, "Write", file_path=str(path), content=content)
    assert path.read_bytes() == after


def test_a_file_that_was_not_read_or_has_changed_is_not_written(context: ToolContext) -> None:
    path = context.workspace.root / "a.txt"
    path.write_text("mine")
    assert "not been read yet" in problem_of(call(context, "Write", file_path=str(path), content="x"))
    call(context, "Read", file_path=str(path))
    path.write_text("mine again")
    assert "modified since read" in problem_of(call(context, "Write", file_path=str(path), content="x"))
    assert path.read_text() == "mine again"


def test_the_mode_stays_and_a_new_file_has_the_usual_one(context: ToolContext) -> None:
    path = context.workspace.root / "a.sh"
    call(context, "Write", file_path=str(path), content="x")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o750)
    call(context, "Write", file_path=str(path), content="y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_nothing_is_left_beside_a_file(context: ToolContext) -> None:
    call(context, "Write", file_path="a.txt", content="x")
    call(context, "Write", file_path="a.txt", content="y")
    assert [path.name for path in context.workspace.root.iterdir()] == ["a.txt"]


def test_what_cannot_be_written_says_why(context: ToolContext) -> None:
    (context.workspace.root / "folder").mkdir()
    (context.workspace.root / "file").write_text("x")
    assert "not been read yet" in problem_of(call(context, "Write", file_path="folder", content="x"))
    assert problem_of(call(context, "Write", file_path="file/inside", content="x")).startswith("ENOTDIR: ")
    assert "surrogate" in problem_of(call(context, "Write", file_path="a.txt", content="\ud800"))
    os.mkfifo(context.workspace.root / "pipe")
    assert problem_of(call(context, "Write", file_path="pipe", content="x"))


def test_a_file_that_may_not_be_written_is_not_replaced(context: ToolContext) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    path = context.workspace.root / "a.txt"
    call(context, "Write", file_path=str(path), content="old")
    path.chmod(0o444)
    assert problem_of(call(context, "Write", file_path=str(path), content="new")).startswith("EACCES: ")
    assert path.read_text() == "old"


def test_a_file_in_a_folder_that_may_not_be_written_is_written_over(context: ToolContext) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    path = context.workspace.root / "folder" / "a.txt"
    call(context, "Write", file_path=str(path), content="old")
    path.parent.chmod(0o555)
    call(context, "Write", file_path=str(path), content="new")
    path.parent.chmod(0o755)
    assert path.read_text() == "new"


def test_a_full_disk_leaves_the_file_as_it_was(context: ToolContext) -> None:
    """A limit on the size of files is as good as a disk that is full."""
    import resource
    import signal

    path = context.workspace.root / "a.txt"
    call(context, "Write", file_path=str(path), content="old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        outcome = call(context, "Write", file_path=str(path), content="x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert problem_of(outcome).startswith("EFBIG: ")
    assert path.read_text() == "old"
    assert [path.name for path in context.workspace.root.iterdir()] == ["a.txt"]
