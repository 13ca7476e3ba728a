"""A config folder with everything that makes lines hard to read as tables."""

# ruff: noqa: E501 - a line for each thing that happens

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unspool.testing.build import (
    assistant,
    attachment,
    compaction,
    document,
    image,
    note,
    progress,
    queued,
    raw,
    result_block,
    rewind,
    session,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

ONE, TWO, THREE = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")
KEY = "-home-me-project"
PATCH = {"type": "update", "filePath": "/a/b.py", "structuredPatch": [{"lines": [" x", "-y", "+z", "+w"]}]}


def write(root: Path) -> Path:
    """Write the folder; the first session is forked by the second, agents are in both layouts."""
    project = root / "projects" / KEY
    project.mkdir(parents=True)
    main = session(
        raw(b'{"type":"summary","summary":"A title","leafUuid":"nowhere"}{"type":"summary","summary":"two"}\n'),
        user("Look \0 at this \U0001f600", todos=[]),
        assistant(thinking("hm"), text("Let me see."), tool_use("Read", file_path="/a/b.py"), tool_use("Bash", command="ls")),
        tool_result("two lines\nof text", structured={"type": "text", "file": {"content": "x"}}),
        tool_result("it failed", error=True, structured="Error: it failed"),
        raw(b'{"type":"user","message":{"role":"user","content":"no uuid, no time"}}\n'),
        raw(b'{"type":"assistant","uuid":"u-lone","sessionId":"' + ONE.encode() + b'","timestamp":"2026-01-05T09:30:00Z",'
            b'"message":{"model":"claude-haiku-4-5","content":[{"type":"text","text":"half \\ud800 a pair"}],'
            b'"usage":{"input_tokens":10,"output_tokens":3,"new_field":{"x":1.50}}}}\n'),
        assistant(tool_use("Edit", id="toolu_edit", file_path="/a/b.py", old_string="y", new_string="z")),
        tool_result("done", structured=PATCH),
        tool_result("done again", id="toolu_edit"),
        user(result_block("toolu_early", [{"type": "text", "text": "before its call"}, image("A" * 5000)])),
        assistant(tool_use("mcp__x__y", id="toolu_early", deep={"a": [1, {"b": None}]}, nul="\0")),
        assistant({"type": "brand_new", "payload": {"k": [1, 2]}}, {"type": "tool_use", "id": "toolu_open", "name": "Gash", "input": None}),
        raw(b"this is no JSON\n"),
        raw(b"\n"),
        raw(b'[1, 2, 3]\n'),
        queued("typed meanwhile"),
        user("Now the pictures", image(), document("cGRm")),
        assistant("I see.", usage={"output_tokens": 500, "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 150}}),
        compaction("What happened so far", keep=2, postTokens=900, durationMs=1234.5),
        system("api_error", "Overloaded", level="error"),
        system(None, "from 1.0"),
        attachment("task_reminder", content=[], itemCount=0),
        note("unheard-of", value={"a": 1}),
        note("custom-title", customTitle="The dirty one"),
        user("<command-name>/clear</command-name>"),
        user("Caveat", isMeta=True),
        user("One way"),
        assistant("This way."),
        rewind(),
        user("Another way"),
        assistant(tool_use("Task", id="toolu_task", prompt="Find it", description="find", subagent_type="Explore")),
        progress("agent_progress", agentId="a000002", prompt="p", message=None),
        tool_result("found", structured={"status": "completed", "agentId": "a000001", "content": []}),
        assistant(tool_use("Task", id="toolu_word", prompt="Word for word", description="words")),
        tool_result("ok", structured=[{"type": "text", "text": "a list"}]),
        assistant(text("Done."), model="<synthetic>"),
        assistant("Unpriced.", model="glm-4.7", version=None),
        id=ONE,
    )  # fmt: skip
    data = main.data
    (project / f"{ONE}.jsonl").write_bytes(data + data.splitlines(keepends=True)[3] + b'{"type":"user","torn')
    fork = session(
        user("Go on elsewhere"), assistant("Yes.", model="claude-haiku-4-5"), id=TWO, start="2026-02-01T00:00:00.000Z"
    )
    (project / f"{TWO}.jsonl").write_bytes(b"".join(main.lines[:12]) + fork.data)
    (project / f"{THREE}.jsonl").touch()
    _agents(project)
    _beside(root)
    return root


def _agents(project: Path) -> None:
    inside = project / ONE / "subagents"
    inside.mkdir(parents=True)
    for id, prompt in (("a000001", "Find it"), ("a000002", "By progress"), ("a000003", "Word for word")):
        made = session(
            user(prompt),
            assistant("Found.", tool_use("Grep", pattern="x")),
            id=ONE,
            agent=id,
            start="2026-01-06T00:00:00.000Z",
        )
        (inside / f"agent-{id}.jsonl").write_bytes(made.data)
    (inside / "agent-a000004.jsonl").write_bytes(session(user("Warmup"), assistant("ok"), id=ONE, agent="a000004").data)
    (inside / "agent-a000004.meta.json").write_text(json.dumps({"agentType": "general", "description": "said beside"}))
    shared = [
        session(user(f"of {id}"), assistant("ok"), id=id, agent="a00000f", version="2.0.76").data for id in (ONE, TWO)
    ]
    (project / "agent-a00000f.jsonl").write_bytes(b"".join(shared))
    (project / "agent-a0000ff.jsonl").touch()


def _beside(root: Path) -> None:
    history: list[dict[str, Any]] = [
        {"display": "first \0", "pastedContents": {}, "timestamp": 1767600000000, "project": "/p"},
        {"display": "second", "pastedContents": {"1": {"id": 1, "type": "text", "content": "pasted"}},
         "timestamp": 1767600001500, "project": "/q", "sessionId": ONE},
    ]  # fmt: skip
    (root / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in history))
    (root / "todos").mkdir()
    todos = [{"content": "a", "status": "completed", "activeForm": "doing a"}, {"content": "b", "status": "pending"}]
    (root / "todos" / f"{ONE}-agent-{ONE}.json").write_text(json.dumps(todos))
    (root / "plans").mkdir()
    (root / "plans" / "keen-red-fox.md").write_text("# Fox\n\n- [ ] run\n")
    days = [{"date": "2026-01-05", "messageCount": 3, "sessionCount": 1, "toolCallCount": 2}]
    (root / "stats-cache.json").write_text(
        json.dumps({"version": 1, "lastComputedDate": "2026-01-05", "dailyActivity": days})
    )
