"""A session with one of everything a page shows, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import unspool
from unspool.page.view import PageView
from unspool.testing.build import (
    Step,
    assistant,
    attachment,
    compaction,
    image,
    note,
    progress,
    queued,
    raw,
    rewind,
    session,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)

ID = "11111111-1111-4111-8111-111111111111"
HUNK = {
    "oldStart": 10,
    "oldLines": 3,
    "newStart": 10,
    "newLines": 4,
    "lines": [" import os", "-x = 1", "+x = 2", "+y = 3", " # end"],
}
EDIT = {
    "filePath": "/home/me/project/a.py",
    "oldString": "x = 1",
    "newString": "x = 2\ny = 3",
    "originalFile": "…",
    "structuredPatch": [HUNK],
    "userModified": True,
    "replaceAll": False,
}
READ = {
    "type": "text",
    "file": {
        "filePath": "/home/me/project/a.py",
        "content": "import os\nx = 1\n# end\n",
        "numLines": 3,
        "startLine": 10,
        "totalLines": 40,
    },
}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    "multiSelect": False,
}
ANSI = "Exit code 1\n\x1b[31mFAILED\x1b[0m test_a\n\x1b[1;38;5;208mwarn\x1b[0m\nend"
BIG = {
    "input_tokens": 10,
    "cache_read_input_tokens": 90_000,
    "cache_creation_input_tokens": 1_000,
    "output_tokens": 300,
}


def steps() -> list[Step]:
    """Return what happens in the session."""
    return [
        note("mode", mode="normal"),
        user("Please fix **the bug**", image()),
        assistant(
            thinking("Let me look."), "I will look at it.", tool_use("Read", id="r1", file_path="/home/me/project/a.py")
        ),
        tool_result("10\timport os\n11\tx = 1\n12\t# end", id="r1", structured=READ),
        assistant(tool_use("Read", id="r2", file_path="/home/me/project/b.py")),
        tool_result("1\tb", id="r2"),
        assistant(tool_use("Grep", id="g1", pattern="x =", path="/home/me/project")),
        tool_result("a.py", id="g1", structured={"mode": "files_with_matches", "filenames": ["a.py"], "numFiles": 1}),
        assistant(
            tool_use("Edit", id="e1", file_path="/home/me/project/a.py", old_string="x = 1", new_string="x = 2\ny = 3")
        ),
        tool_result("The file has been updated.", id="e1", structured=EDIT),
        assistant(tool_use("Bash", id="b1", command="make test"), usage=BIG),
        tool_result(ANSI, id="b1", error=True, structured=f"Error: {ANSI}"),
        assistant(
            "Two at once.",
            tool_use("Agent", id="t1", description="Look", prompt="look around", subagent_type="Explore"),
            tool_use("Agent", id="t2", description="Read", prompt="read it"),
        ),
        tool_result("found it", id="t1", structured=_completed("a1", "look around", "found it")),
        tool_result("read", id="t2", structured=_completed("a2", "read it", "read")),
        assistant(tool_use("mcp__shots__take", id="m1", url="http://x.test/")),
        tool_result([{"type": "text", "text": "a shot"}, image()], id="m1"),
        assistant(tool_use("AskUserQuestion", id="q1", questions=[QUESTION])),
        tool_result("Blue", id="q1", structured={"questions": [QUESTION], "answers": {"Which colour?": "Blue"}}),
        system("stop_hook_summary", hookCount=1, hookInfos=[{"command": "lint"}], hookErrors=["lint failed"]),
        attachment("hook_non_blocking_error", hookName="PostToolUse:Edit", stderr="no such hook", exitCode=127),
        queued("and the docs"),
        assistant("All done."),
        note("pr-link", prNumber=7, prUrl="https://github.com/me/project/pull/7", prRepository="me/project"),
        note("brand-new-record", what="ever"),
        attachment("brand_new_attachment", what="ever"),
        raw(b'{"torn\n'),
        user("A wrong turn"),
        assistant("Going wrong."),
        rewind(1),
        user("The right turn"),
        progress("hook_progress", hookEvent="Stop", hookName="Stop", command="lint"),
        assistant("API Error: 529 overloaded", model="<synthetic>", isApiErrorMessage=True),
        compaction("What was said so far.", before=160_000, postTokens=12_000),
        user("<command-name>/model</command-name><command-args>opus</command-args>"),
        user("<local-command-stdout>Set model</local-command-stdout>"),
        user("Go on"),
        assistant(tool_use("Write", id="w1", file_path="/home/me/project/n.txt", content="a\nb\n")),
        tool_result(
            "created",
            id="w1",
            structured={
                "type": "create",
                "filePath": "/home/me/project/n.txt",
                "content": "a\nb\n",
                "structuredPatch": [],
            },
        ),
        user("[Request interrupted by user]"),
        user("Last one"),
        assistant(tool_use("Bash", id="b2", command="sleep 100")),
    ]


def agent_files(path: Path) -> None:
    """Write the agents beside a session's file: the first starts a third."""
    folder = path.with_suffix("") / "subagents"
    folder.mkdir(parents=True, exist_ok=True)
    inner = [
        user("look around"),
        assistant(tool_use("Task", id="t3", description="Deeper", prompt="look deeper")),
        tool_result("deep", id="t3", structured=_completed("a3", "look deeper", "deep")),
        assistant("found it"),
    ]
    files = {"a1": inner, "a2": [user("read it"), assistant("read")], "a3": [user("look deeper"), assistant("deep")]}
    for id, lines in files.items():
        (folder / f"agent-{id}.jsonl").write_bytes(session(*lines, agent=id, id=ID).data)


def built(config: Path, *more: Step, **options: Any) -> PageView:
    """Return the whole session as a page sees it."""
    path = session(*steps(), *more, id=ID, **options).save(config)
    agent_files(path)
    return PageView.read(unspool.open(config).session(ID))


def viewed(config: Path, *lines: Step, **options: Any) -> PageView:
    """Return a session of these steps as a page sees it."""
    session(*lines, id=ID, **options).save(config)
    return PageView.read(unspool.open(config).session(ID))


def _completed(id: str, prompt: str, words: str) -> dict[str, Any]:
    return {
        "status": "completed",
        "agentId": id,
        "prompt": prompt,
        "content": [{"type": "text", "text": words}],
        "totalDurationMs": 1200,
        "totalTokens": 4000,
        "totalToolUseCount": 3,
    }
