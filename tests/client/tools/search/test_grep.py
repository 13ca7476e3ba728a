import asyncio
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.client.tools.search.grep import GrepTool
from unspool.client.tools.search.grep_engines import GrepQuery, find_ripgrep, search_files
from unspool.client.tools.search.walk import StopSignal
from unspool.format.tools.files import GrepResult

FILES = {
    "a.py": "import os\ndef f():\n    return 'needle 0'\n# end\n",
    "sub/b.py": "needle\n\nNeedle\nlast needle",
    "sub/c.js": "one\r\nneedle two\r\n",
    ".hidden/d.py": "a needle in hay\n",
    "ignored/e.py": "needle\n",
    "x.log": "needle\n",
    "long.py": "needle" + "x" * 600 + "\n",
    "latin.py": "caf\udce9 needle\n",
    "binary.py": "needle\0\n",
    ".git/config": "needle\n",
    ".gitignore": "ignored/\n*.log\n",
    "empty.py": "",
}

ASKED: list[dict[str, Any]] = [
    {"pattern": "needle"},
    {"pattern": "needle", "output_mode": "content"},
    {"pattern": "needle", "output_mode": "content", "-n": False},
    {"pattern": "needle", "output_mode": "count"},
    {"pattern": "NEEDLE", "-i": True, "output_mode": "count"},
    {"pattern": "needle", "output_mode": "content", "-C": 1},
    {"pattern": "needle", "output_mode": "content", "-B": 1},
    {"pattern": "needle", "output_mode": "content", "-A": 1, "path": "sub"},
    {"pattern": "^$", "output_mode": "content", "path": "sub"},
    {"pattern": "", "output_mode": "content", "path": "sub"},
    {"pattern": "", "output_mode": "count"},
    {"pattern": "needle$", "output_mode": "content"},
    {"pattern": r"os\s+def", "output_mode": "content"},
    {"pattern": r"os.def", "output_mode": "content", "multiline": True},
    {"pattern": r"needle.*needle", "output_mode": "content", "multiline": True, "path": "sub/b.py"},
    {"pattern": "needle", "glob": "*.py"},
    {"pattern": "needle", "glob": "!*.py"},
    {"pattern": "needle", "glob": "*.log"},
    {"pattern": "needle", "glob": "sub/*.py"},
    {"pattern": "needle", "glob": "*.js *.log"},
    {"pattern": "needle", "glob": "*.js,a.py"},
    {"pattern": "needle", "glob": "*.{js,log}"},
    {"pattern": "needle", "type": "py"},
    {"pattern": "needle", "path": "ignored"},
    {"pattern": "needle", "path": "x.log", "output_mode": "content"},
    {"pattern": "needle", "path": "a.py", "output_mode": "count"},
    {"pattern": "needle", "output_mode": "content", "head_limit": 2},
    {"pattern": "needle", "output_mode": "content", "head_limit": 2, "offset": 3},
    {"pattern": "needle", "output_mode": "count", "head_limit": 2},
    {"pattern": "-needle"},
    {"pattern": "nothing like it"},
]


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    context = context_in(tmp_path)
    for number, (name, text) in enumerate(FILES.items()):
        path = context.workspace.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.utime(path, (1000 + number, 1000 + number))
    (context.workspace.root / "link.py").symlink_to("a.py")
    context.environment = {**context.environment, "PATH": ""}
    return context


def grep(context: ToolContext, pattern: str, **given: Any) -> str:
    outcome = call(context, "Grep", pattern=pattern, **given)
    assert not outcome.is_error, outcome.content
    assert isinstance(decoded("Grep", outcome), GrepResult)
    return text_of(outcome)


def test_files_come_with_those_changed_last_first(context: ToolContext) -> None:
    assert grep(context, "needle") == "Found 6 files\nlatin.py\nlong.py\n.hidden/d.py\nsub/c.js\nsub/b.py\na.py"


def test_lines_come_with_their_files_and_numbers(context: ToolContext) -> None:
    assert grep(context, "needle", output_mode="content").split("\n") == [
        ".hidden/d.py:1:a needle in hay",
        "a.py:3:    return 'needle 0'",
        "latin.py:1:caf\ufffd needle",
        "long.py:1:[Omitted long matching line]",
        "sub/b.py:1:needle",
        "sub/b.py:4:last needle",
        "sub/c.js:2:needle two",
    ]
    assert grep(context, "needle", output_mode="content", path="a.py") == "3:    return 'needle 0'"


def test_lines_around_are_shown_with_a_dash(context: ToolContext) -> None:
    words = grep(context, "needle", output_mode="content", path="sub", **{"-C": 1})
    assert words.split("\n") == [
        "sub/b.py:1:needle",
        "sub/b.py-2-",
        "sub/b.py-3-Needle",
        "sub/b.py:4:last needle",
        "--",
        "sub/c.js-1-one",
        "sub/c.js:2:needle two",
    ]


def test_lines_are_counted(context: ToolContext) -> None:
    words = grep(context, "needle", output_mode="count", path="sub")
    assert words == "sub/b.py:2\nsub/c.js:1\n\nFound 3 total occurrences across 2 files."


def test_nothing_found_is_no_error(context: ToolContext) -> None:
    assert grep(context, "nothing like it") == "No files found"
    assert grep(context, "nothing like it", output_mode="content") == "No matches found"


def test_a_part_can_be_asked_for_and_says_so(context: ToolContext) -> None:
    outcome = call(context, "Grep", pattern="needle", output_mode="content", head_limit=1, offset=1)
    assert text_of(outcome) == (
        "a.py:3:    return 'needle 0'\n\n[Showing results with pagination = limit: 1, offset: 1]"
    )
    assert (outcome.result["appliedLimit"], outcome.result["appliedOffset"]) == (1, 1)
    assert grep(context, "needle", head_limit=2).startswith("Found 2 files limit: 2, offset: 0\n")
    assert grep(context, "needle", head_limit=0) == grep(context, "needle")


def test_too_much_is_cut_and_says_where_to_go_on(context: ToolContext) -> None:
    (context.workspace.root / "many.txt").write_text("a line of some length\n" * 5000)
    outcome = call(context, "Grep", pattern="line", output_mode="content", path="many.txt")
    shown = outcome.result["numLines"]
    assert len(text_of(outcome)) < 21_000
    assert text_of(outcome).endswith(f"[Showing results with pagination = limit: {shown}, offset: 0]")
    more = grep(context, "line", output_mode="content", path="many.txt", offset=shown)
    assert more.startswith(f"{shown + 1}:a line")


def test_what_cannot_be_searched_says_why(context: ToolContext) -> None:
    assert problem_of(call(context, "Grep", pattern="x", path="none")) == "Path does not exist: none"
    os.mkfifo(context.workspace.root / "pipe")
    assert problem_of(call(context, "Grep", pattern="x", path="pipe")) == "Not a regular file: pipe"
    assert "missing ): (a. It must be" in problem_of(call(context, "Grep", pattern="(a"))
    assert "invalid perl operator: (?=" in problem_of(call(context, "Grep", pattern="a(?=b)"))
    assert problem_of(call(context, "Grep", pattern="x", type="nosuch")).startswith("Unknown file type: nosuch.")
    assert "a `[` is not closed" in problem_of(call(context, "Grep", pattern="x", glob="[a"))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", "\n", "ab"]), max_size=30).map("".join),
    st.sampled_from(["a", "ab$", "^b", "a\\s*b", "^$", "b|a", ""]),
)
def test_a_line_is_found_if_and_only_if_it_matches_by_itself(text: str, pattern: str) -> None:
    import re
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_text(text)
        found = search_files(GrepQuery(pattern, path, path.parent, "content"), StopSignal(10), lambda path: False)
    lines = text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n")
    expected = [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    assert [line.number for hits in found for line in hits.lines] == expected


def test_a_search_ends_when_its_time_is_up(context: ToolContext) -> None:
    stop = StopSignal(-1)
    with pytest.raises(Exception, match="The search took more than 20 seconds"):
        search_files(GrepQuery("x", context.workspace.root, context.workspace.root, "count"), stop, context.is_hidden)


def test_what_a_rule_hides_is_not_found(context: ToolContext) -> None:
    context.is_hidden = lambda path: path.name == "a.py"
    assert "a.py" not in grep(context, "needle")
    assert grep(context, "needle", path="a.py", output_mode="content") == "No matches found"
    assert "a.py" not in text_of(call(context, "Glob", pattern="*.py"))


def test_whatever_the_pattern_the_time_does_not_explode(context: ToolContext) -> None:
    (context.workspace.root / "evil.txt").write_text("a" * 5000 + "\n")
    began = time.monotonic()
    assert grep(context, "(a*)*(a*)*(a*)*b", path="evil.txt") == "No files found"
    assert time.monotonic() - began < 5


@pytest.fixture
def ripgrep(context: ToolContext) -> Callable[[], ToolContext]:
    """The same context with ripgrep within reach."""
    where = shutil.which("rg")

    def reach() -> ToolContext:
        if where is None:
            pytest.skip("no ripgrep here")
        context.environment = {**context.environment, "PATH": str(Path(where).parent)}
        (context.workspace.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        return context

    return reach


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: " ".join(f"{key}={value}" for key, value in asked.items()))
def test_ripgrep_finds_the_same(
    context: ToolContext, ripgrep: Callable[[], ToolContext], asked: dict[str, Any]
) -> None:
    context.is_hidden = lambda path: path.name == "d.py"
    own = call(context, "Grep", **asked)
    theirs = call(ripgrep(), "Grep", **asked)
    assert theirs == own


def test_a_ripgrep_of_the_project_is_not_run(context: ToolContext) -> None:
    fake = context.workspace.root / "bin" / "rg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\ntouch was-run\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    context.environment = {**context.environment, "PATH": str(fake.parent)}
    assert find_ripgrep(context) is None
    grep(context, "needle")
    assert not (context.workspace.root / "was-run").exists()


def test_a_ripgrep_that_does_not_end_is_ended_with_the_call(context: ToolContext, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "rg"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    context.environment = {**context.environment, "PATH": str(slow.parent)}

    async def begin_and_cancel() -> int:
        task = asyncio.ensure_future(GrepTool().run({"pattern": "x"}, context, "toolu_1"))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int((tmp_path / "pid").read_text())

    pid = asyncio.run(asyncio.wait_for(begin_and_cancel(), 20))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
