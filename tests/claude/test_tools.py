"""The file tools and those of Claude Code 2.1.29: the same calls in the same folder, the same words and results."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.claude.program import Place, installed
from tests.client.tools.calling import context_in
from unspool.client.tools.registry import built_in_tools, run_tool
from unspool.testing.api import scripted
from unspool.testing.pictures import curve

pytestmark = pytest.mark.claude

VERSION = "2.1.29"
Json: TypeAlias = dict[str, Any]
Call: TypeAlias = tuple[str, Json]

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": "# Title\ntext"},
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {},
            "execution_count": 3,
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
                {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["t1", "t2"]},
            ],
        },
    ],
    "metadata": {"language_info": {"name": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
NAMES = ["b.py", "a.py", "sub/c.py", "sub/deep/d.py", ".hidden/e.py", "ignored/f.py", "x.log", "sp ace.py", "[br].js"]


def furnish(work: Path) -> None:
    """Fill a folder, each file changed after the one before."""
    for number, name in enumerate(NAMES):
        path = work / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"import os\ndef f():\n    return 'needle {number}'\n# end\n")
        os.utime(path, (1000 + number, 1000 + number))
    (work / "tree" / ".gitignore").write_text("ignored/\n*.log\n")
    (work / "tree" / ".git").mkdir()
    (work / "tree" / "long.py").write_text("needle" + "x" * 600 + "\n")
    (work / "a.txt").write_text("".join(f"l{number}\n" for number in range(1, 31)))
    (work / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (work / "bom.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    (work / "no_end.txt").write_text("x\ny")
    (work / "quotes.txt").write_text("say “hello” it’s\n")
    (work / "unread.txt").write_text("unread\n")
    (work / "large.txt").write_text("word here\n" * 40_000)
    (work / "program.exe").write_bytes(b"MZ\0\0")
    (work / "dot.png").write_bytes(curve(24, 16))
    (work / "a.pdf").write_bytes(b"%PDF-1.4\n1 0 obj<</Type/Page>>endobj\n%%EOF\n")
    (work / "a.ipynb").write_text(json.dumps(NOTEBOOK, indent=1))


def calls(work: Path) -> list[Call]:
    """Return the calls, in the order they are made."""

    def read(name: str, **given: Any) -> Call:
        return "Read", {"file_path": str(work / name), **given}

    def edit(name: str, old: str, new: str, **given: Any) -> Call:
        return "Edit", {"file_path": str(work / name), "old_string": old, "new_string": new, **given}

    def write(name: str, content: str) -> Call:
        return "Write", {"file_path": str(work / name), "content": content}

    def cell(source: str, **given: Any) -> Call:
        return "NotebookEdit", {"notebook_path": str(work / "a.ipynb"), "new_source": source, **given}

    def glob(pattern: str, path: str = "tree") -> Call:
        return "Glob", {"pattern": pattern, "path": str(work / path)}

    def grep(pattern: str, path: str = "tree", **given: Any) -> Call:
        return "Grep", {"pattern": pattern, "path": str(work / path), **given}

    def todos(*statuses: str) -> Call:
        return "TodoWrite", {"todos": [{"content": "a", "activeForm": "b", "status": status} for status in statuses]}

    return [
        read("a.txt"), read("a.txt", offset=3, limit=2), read("a.txt", offset=99), read("crlf.txt"), read("bom.txt"),
        read("no_end.txt"), read("quotes.txt"), read("large.txt"), read("large.txt", offset=39_999, limit=1),
        read("program.exe"), read("dot.png"), read("a.pdf"), read("a.ipynb"), read("none.txt"), read("a.tx"), read("."),
        read("a.txt", offset=[]), ("Read", {}), read("a.txt", more=1),
        edit("unread.txt", "unread", "x"), edit("a.txt", "l3\n", "l3\nnew\n"), edit("a.txt", "l2", "q"),
        edit("a.txt", "l15", "l15"), edit("a.txt", "zzz", "y"), edit("a.txt", "l20\n", ""),
        edit("a.txt", "l2", "k", replace_all=True), edit("crlf.txt", "two\nthree", "2\n3"), edit("bom.txt", "one", "1"),
        edit("no_end.txt", "y", "z"), edit("no_end.txt", "x\n", ""), edit("quotes.txt", 'say "hello"', "say bye"),
        edit("a.ipynb", "a", "b"), edit("none.txt", "a", "b"), edit("new.txt", "", "made\nhere"),
        edit("a.txt", "", "x"), ("Edit", {"file_path": str(work / "a.txt"), "old_string": 1, "more": 2}),
        write("made/deep.txt", "one\ntwo\n"), write("made/deep.txt", "one\n2\n"), write("unread.txt", "x"),
        write("made/empty.txt", ""), ("Write", {"file_path": str(work / "x")}),
        cell("new\nsource", cell_id="c1"), cell("", cell_id="c1", edit_mode="delete"), cell("q", cell_id="nope"),
        cell("q", cell_id="cell-9"), cell("q"), cell("q", edit_mode="insert"),
        ("NotebookEdit", {"notebook_path": str(work / "a.txt"), "new_source": "q", "cell_id": "x"}),
        ("NotebookEdit", {"notebook_path": str(work / "none.ipynb"), "new_source": "q", "cell_id": "x"}),
        glob("**/*.py"), glob("*.py"), glob("*.{py,js}"), glob("*.none"), glob("*", "none"),
        glob("*", "a.txt"), glob("*.py", "tree/sub"), glob("[[]br].js"), glob("**/*.log"),
        grep("needle"), grep("NEEDLE", "tree", **{"-i": True}), grep("nothing"), grep("nothing", output_mode="content"),
        grep("nothing", output_mode="count"), grep("needle", "tree/a.py"), grep("needle", "none"),
        grep("needle", "tree/a.py", output_mode="content"),
        grep("return", "tree/a.py", output_mode="content", context=1),
        grep("needle", "tree", glob="a.py", output_mode="content", **{"-n": False}), grep("needle", head_limit=2),
        grep("needle", head_limit=2, offset=1), grep("needle", type="py"), grep("needle", glob="*.{js,log}"),
        grep("needle", glob="!*.py"), grep("needle", glob="a.py", output_mode="count"),
        grep("needle", glob="a.py", output_mode="content", head_limit=1), grep("needle", "tree/ignored"),
        grep(r"os.def", "tree/a.py", output_mode="content", multiline=True),
        grep("needle", "tree/long.py", output_mode="content"),
        todos("pending", "in_progress"), todos("completed"), todos("pending"), ("TodoWrite", {"todos": "odd"}),
    ]  # fmt: skip


def test_the_same_calls_have_the_same_words_and_results(tmp_path: Path) -> None:
    program = installed(VERSION)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for home in (theirs, ours):
        (home / "config").mkdir(parents=True)
        furnish(home / "work")
    made = calls(theirs / "work")
    steps: list[Any] = [{"content": [{"type": "tool_use", "name": name, "input": given}]} for name, given in made]
    place = Place(theirs, theirs / "work")
    allowed = ",".join(tool.name for tool in built_in_tools())
    with scripted({"cues": {"Go.": [*steps, "Done."]}, "default": "OK."}) as api:
        assert program.run(place, api.url, "Go.", "--allowedTools", allowed)["result"] == "Done."
    assert api.failures == []
    found = told(theirs)
    assert len(found) == len(made)
    desk = context_in(ours)
    different: list[Any] = []
    for (name, given), (words, result) in zip(calls(ours / "work"), found, strict=True):
        (tool,) = [tool for tool in built_in_tools() if tool.name == name]
        outcome = asyncio.run(run_tool(tool, given, desk, "toolu_1"))
        if str(result).startswith("InputValidationError"):
            result = outcome.result  # theirs is an account of the library that found it
        own, other = plain([outcome.content, outcome.result], ours), plain([words, result], theirs)
        if own != other:
            different.append((name, given, own, other))
    assert different == []
    assert contents(ours / "work") == contents(theirs / "work")


def told(home: Path) -> list[tuple[Any, Any]]:
    """Return what the model was told of each call, and what the session has of it."""
    (file,) = [path for path in (home / "config" / "projects").glob("*/*.jsonl") if not path.name.startswith("agent-")]
    records = [json.loads(line) for line in file.read_text().splitlines()]
    results = [record for record in records if "toolUseResult" in record]
    return [(record["message"]["content"][0]["content"], record["toolUseResult"]) for record in results]


def plain(value: Any, home: Path) -> Any:
    """Return words and results without what cannot be the same: where, how long, and what is said of malware."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False).replace(str(home), "HOME")
    text = re.sub(r'"durationMs": \d+', '"durationMs": 0', text)
    text = re.sub(r"\\n\\n<system-reminder>\\nWhenever you read a file.*?</system-reminder>\\n", "", text)
    return json.loads(text)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
