"""A config folder with a word in every place where a word can be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

S1, S2, S3 = (f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "123")
NEW_AGENT, OLD_AGENT = "a1b2c3d4e5f60718", "a1b2c3d"
KEY = "-home-me-shop"
LONG = "filler, more of a long result " * 50_000

PLANTED = {
    "wordprompt": "prompt", "wordblocks": "prompt", "wordlist": "prompt", "worddocument": "prompt",
    "wordlast": "prompt", "wordanswer": "answer", "wordthinking": "thinking", "wordinput": "tool_input",
    "wordnested": "tool_input", "wordresult": "tool_result", "wordparts": "tool_result", "wordhead": "tool_result",
    "wordmiddle": "tool_result", "wordtail": "tool_result", "wordstderr": "structured", "wordhook": "structured",
    "wordsystem": "structured", "wordunknown": "structured", "wordtorn": "structured", "wordoverflow": "overflow",
    "wordmcp": "overflow", "wordsummary": "summary", "wordcompact": "summary", "wordaway": "summary",
    "wordcustom": "title", "wordmodel": "title", "wordfile": "title", "wordqueued": "queued",
    "wordattached": "queued", "wordtodo": "todo", "wordactive": "todo", "wordtask": "todo", "wordplan": "plan",
    "wordhistory": "history", "wordpasted": "history", "wordsubagent": "answer", "wordoldagent": "answer",
    "wordsecond": "answer", "wordmemory": "structured", "wordworkflow": "structured",
}  # fmt: skip
"""Each word, and the kind of text it is planted in."""


def at(minute: int) -> str:
    return f"2026-01-05T09:{minute:02}:00.000Z"


def line(type: str, minute: int, **fields: Any) -> Json:
    number = f"{minute:02}{fields.pop('more', 0)}"
    common = {"uuid": f"00000000-0000-4000-8000-0000000{number:0>5}", "timestamp": at(minute), "sessionId": S1}
    return {"type": type, **common, "cwd": "/home/me/shop", "version": "2.1.30", "isSidechain": False, **fields}


def said(minute: int, *blocks: Json, **fields: Any) -> Json:
    message = {"id": f"msg_{minute}", "model": "claude-opus-4-5", "role": "assistant", "content": list(blocks)}
    return line("assistant", minute, message=message, **fields)


def asked(minute: int, content: Any, **fields: Any) -> Json:
    return line("user", minute, message={"role": "user", "content": content}, **fields)


def result(minute: int, id: str, content: Any, **fields: Any) -> Json:
    error = {"is_error": True} if fields.pop("failed", False) else {}
    return asked(minute, [{"type": "tool_result", "tool_use_id": id, "content": content, **error}], **fields)


def use(id: str, name: str, **input: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def main_session() -> list[Json | str]:
    return [
        asked(0, "find the wordprompt, please"),
        said(1, {"type": "thinking", "thinking": "a wordthinking", "signature": "c2ln"}),
        said(1, text("the wordanswer is here"), more=1),
        said(2, use("toolu_1", "Bash", command="echo wordinput", deep=[{"type": "wordnested"}])),
        result(3, "toolu_1", "out wordresult", toolUseResult={"stdout": "", "stderr": "a wordstderr"}, failed=True),
        said(4, use("toolu_2", "Read", file_path="/home/me/shop/src/cart.py")),
        result(5, "toolu_2", [text("in wordparts of blocks"), {"type": "image", "source": {"data": "wordpicture"}}]),
        asked(6, [text("again wordblocks"), {"type": "image", "source": {"type": "base64", "data": "wordpicture"}}]),
        said(7, use("toolu_3", "Bash", command="make log")),
        result(8, "toolu_3", f"wordhead {LONG} wordmiddle {LONG} wordtail"),
        asked(9, ["a wordlist of strings"]),
        asked(10, [{"type": "document", "title": "t", "source": {"type": "text", "data": "a worddocument"}}]),
        asked(11, "what went before: wordcompact", isCompactSummary=True),
        line("system", 12, subtype="informational", content="a wordsystem message"),
        line("system", 13, subtype="away_summary", content="while you were away: wordaway"),
        line("attachment", 14, attachment={"type": "hook_success", "stdout": "hook said wordhook"}),
        line("attachment", 15, attachment={"type": "queued_command", "prompt": "also wordattached"}),
        {"type": "queue-operation", "operation": "enqueue", "timestamp": at(16), "sessionId": S1,
         "content": "then wordqueued"},
        {"type": "summary", "summary": "About wordsummary", "leafUuid": "00000000-0000-4000-8000-000000000000"},
        {"type": "custom-title", "customTitle": "My wordcustom", "sessionId": S1},
        {"type": "ai-title", "aiTitle": "Its wordmodel", "sessionId": S1},
        {"type": "ai-title", "aiTitle": "Its wordmodel", "sessionId": S1},
        {"type": "last-prompt", "lastPrompt": "the wordlast", "sessionId": S1},
        line("never-seen", 17, payload={"deep": ["a wordunknown"]}),
        '{"type":"user","message":{"role":"user","content":"torn off at wordtorn',
        json.dumps(said(18, text("the first"))) + json.dumps(said(19, text("the wordsecond"))),
        said(20, use("toolu_9", "WebFetch", url="https://example.org")),
        result(21, "toolu_9", "<persisted-output> tool-results/toolu_9.txt"),
        said(22, use("call_7", "mcp__db__query", sql="select 1")),
        result(23, "call_7", "saved to tool-results/mcp-db-query-1767603600.txt"),
    ]  # fmt: skip


def write(path: Path, lines: Sequence[Json | str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))


def put(path: Path, words: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words if isinstance(words, str) else json.dumps(words))


def plant(root: Path) -> None:
    """Make a config folder with a word in every place where one can be."""
    project = root / "projects" / KEY
    own = project / S1
    write(project / f"{S1}.jsonl", main_session())
    agent = {"isSidechain": True, "agentId": NEW_AGENT}
    write(own / "subagents" / f"agent-{NEW_AGENT}.jsonl", [said(8, text("found the wordsubagent"), **agent)])
    old = {"isSidechain": True, "agentId": OLD_AGENT, "sessionId": S2}
    write(project / f"agent-{OLD_AGENT}.jsonl", [said(9, text("found the wordoldagent"), more=5, **old)])
    write(project / f"{S2}.jsonl", [asked(8, "the second", sessionId=S2, more=7)])
    put(own / "tool-results" / "toolu_9.txt", f"{LONG}\nline with wordoverflow\n{LONG}")
    put(own / "tool-results" / "mcp-db-query-1767603600.txt", '[{"a": "wordmcp"}]')
    put(own / "custom-title.json", {"customTitle": "named wordfile"})
    put(root / "todos" / f"{S1}-agent-{S1}.json",
        [{"content": "do wordtodo", "status": "pending", "activeForm": "doing wordactive"}])  # fmt: skip
    put(root / "tasks" / S1 / "1.json", {"id": "1", "subject": "a wordtask", "status": "pending"})
    put(root / "plans" / "keen-juggling-origami.md", "# Plan\n\n## Steps\n\n- [ ] the wordplan\n")
    pasted = {"1": {"id": 1, "type": "text", "content": "pasted wordpasted"}}
    write(root / "history.jsonl", [
        {"display": "typed wordhistory", "pastedContents": pasted, "timestamp": 1767603605000,
         "project": "/home/me/shop", "sessionId": S1}
    ])  # fmt: skip
    put(project / "memory" / "MEMORY.md", "# Notes\n\nremember wordmemory\n")
    put(own / "workflows" / "wf_1.json", {"runId": "wf_1", "status": "completed", "result": {"out": "wordworkflow"}})
