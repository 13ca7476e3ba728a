"""A config folder with a payload in every place where a word of somebody else's can be.

Rules
  1. One session for each group of fields (`GROUPS`): a turn for each payload, which stands there alone.
  2. One session for each payload (`named`): in its title, folder, branch, model, version, file name, and in its agent.
  3. Side files hold all of them. Files and folders are named so too, where a name can be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.browser.payloads import Payload
from unspool.format.base import encode_json
from unspool.testing.build import (
    DOT,
    Built,
    Json,
    Step,
    assistant,
    attachment,
    compaction,
    document,
    image,
    note,
    progress,
    queued,
    raw,
    session,
    snapshot,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

CWD = "/home/me/poisoned"
KEY = "-home-me-poisoned"
Steps = list[Step]


def group_id(name: str) -> str:
    """Return the id of a group's session."""
    return f"bad00000-0000-4000-8000-{list(GROUPS).index(name):012d}"


def named_id(payload: Payload) -> str:
    """Return the id of a payload's own session."""
    return f"bad11111-0000-4000-8000-{payload.number:012d}"


def build(config: Path, every: list[Payload]) -> None:
    """Write the folder."""
    for name, steps in GROUPS.items():
        group(name, steps, every).save(config)
    for payload in every:
        named(payload).save(config)
        agent = session(
            user(payload.text), assistant(payload.text, model=payload.text), id=named_id(payload), cwd=payload.text,
            agent="a1b2c3d4e5f60718",
        )  # fmt: skip
        agent.save_agent(config, agentType=payload.text, description=payload.text, toolUseId=f"toolu_{payload.number}")
    _odd_names(config, every)
    _side_files(config, every)


def group(name: str, steps: Callable[[str], Steps], every: list[Payload]) -> Built:
    """Return the session of a group."""
    return session(*(step for payload in every for step in steps(payload.text)), id=group_id(name), cwd=CWD)


def named(payload: Payload) -> Built:
    """Return the session of a payload."""
    p = payload.text
    return session(
        note("ai-title", aiTitle=p),
        note("custom-title", customTitle=p),
        note("agent-name", agentName=p),
        note("summary", summary=p, leafUuid=p),
        user(p),
        assistant(tool_use("Agent", id=f"toolu_{payload.number}", description=p, prompt=p, subagent_type=p), model=p),
        tool_result(p, structured={"agentId": "a1b2c3d4e5f60718", "status": p, "content": [text(p)], "prompt": p}),
        assistant(p, model=p),
        note("pr-link", prNumber=payload.number, prUrl=p, prRepository=p, timestamp=p),
        note("last-prompt", lastPrompt=p),
        id=named_id(payload), cwd=p, branch=p, version=p, slug=p, entrypoint=p, userType=p,
    )  # fmt: skip


def _words(p: str) -> Steps:
    return [user(p), assistant(thinking(p, signature=p), p)]


def _blocks(p: str) -> Steps:
    said = {"type": "document", "title": p, "context": p, "source": {"type": "text", "media_type": p, "data": p}}
    odd = {"type": "image", "source": {"type": "url", "url": p, "media_type": p}}
    blocks: list[Json] = [text(p), image(DOT, p), image(p, p), odd, said, document(DOT, p), {"type": p, p: p}]
    return [user(*blocks), assistant({"type": "hologram", p: p}, {"type": "redacted_thinking", "data": p})]


def _call(use: Json, result: str | list[Json], structured: Any = None, *, error: bool = False) -> Steps:
    return [assistant(use), tool_result(result, structured=structured, error=error)]


def _tools(p: str) -> Steps:
    given: Json = {p: p, "deep": {p: [p]}}
    return [
        user("tools"),
        *_call(tool_use(p, **given), p, {p: [p, {p: p}]}),
        *_call(tool_use("Bash", command=p), f"<tool_use_error>{p}</tool_use_error>", f"Error: {p}", error=True),
        *_call(tool_use(f"mcp__{p}__{p}", **{p: p}), [text(p), image(DOT, p), {"type": p, p: p}], [text(p)]),
    ]


def _shell(p: str) -> Steps:
    long = {"persistedOutputPath": p, "persistedOutputSize": 9, "backgroundTaskId": p, "returnCodeInterpretation": p}
    use = tool_use("Bash", command=p, description=p, run_in_background=True)
    return [
        user("shell"),
        user(f"<bash-input>{p}</bash-input>"),
        user(f"<bash-stdout>{p}</bash-stdout><bash-stderr>{p}</bash-stderr>"),
        assistant(use),
        progress("bash_progress", output=p, fullOutput=p, elapsedTimeSeconds=1),
        tool_result(p, structured={"stdout": p, "stderr": p, "interrupted": False, **long}),
        *_call(
            tool_use("BashOutput", bash_id=p), p, {"shellId": p, "command": p, "stdout": p, "stderr": p, "status": p}
        ),
    ]


def _edits(p: str) -> Steps:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": [f"-{p}", f"+{p}", f" {p}", p]}
    done = {"filePath": p, "oldString": p, "newString": p, "originalFile": p, "structuredPatch": [hunk]}
    made: Json = {"type": "create", "filePath": p, "content": p, "structuredPatch": [], "originalFile": None}
    many = tool_use("MultiEdit", file_path=p, edits=[{"old_string": p, "new_string": p}])
    cell = tool_use("NotebookEdit", notebook_path=p, cell_id=p, new_source=p)
    backup = {"backupFileName": p, "version": 1, "backupTime": p}
    return [
        user("edits"),
        snapshot(**{p: backup}),
        *_call(tool_use("Edit", file_path=p, old_string=p, new_string=p), p, done),
        *_call(tool_use("Write", file_path=p, content=p), p, made),
        *_call(many, p, {"filePath": p, "edits": [{"old_string": p, "new_string": p}], "structuredPatch": [hunk]}),
        *_call(cell, p, {"notebook_path": p, "new_source": p, "cell_id": p, "language": p, "error": p}),
    ]


def _reads(p: str) -> Steps:
    file = {"filePath": p, "content": p, "numLines": 1, "startLine": 1, "totalLines": 1}
    shown = {"base64": DOT, "type": p, "originalSize": 70, "dimensions": {"originalWidth": p}}
    return [
        user("reads"),
        *_call(tool_use("Read", file_path=p), p, {"type": "text", "file": file}),
        *_call(tool_use("Read", file_path=p), [image(DOT, p)], {"type": "image", "file": shown}),
        *_call(tool_use("Grep", pattern=p, path=p, glob=p), p, {"mode": p, "content": p, "filenames": [p]}),
        *_call(tool_use("Glob", pattern=p, path=p), p, {"filenames": [p], "numFiles": 1}),
        *_call(tool_use("LS", path=p), p, p),
        *_call(tool_use("WebFetch", url=p, prompt=p), p, {"url": p, "result": p, "codeText": p, "code": 200}),
        *_call(tool_use("WebSearch", query=p), p, {"query": p, "results": [{"content": [{"title": p, "url": p}]}, p]}),
    ]


def _asking(p: str) -> Steps:
    asked = [{"question": p, "header": p, "options": [{"label": p, "description": p, "preview": p}]}]
    todos = [{"content": p, "status": p, "activeForm": p}]
    task = {"id": p, "subject": p, "description": p, "status": p, "owner": p}
    return [
        user("asking"),
        *_call(tool_use("AskUserQuestion", questions=asked), p, {"questions": asked, "answers": {p: p}}),
        *_call(tool_use("ExitPlanMode", plan=p, planFilePath=p), p, {"plan": p, "filePath": p}),
        *_call(tool_use("TodoWrite", todos=todos), p, {"oldTodos": todos, "newTodos": todos}),
        *_call(tool_use("TaskCreate", subject=p, description=p), p, {"task": task}),
        *_call(tool_use("TaskUpdate", taskId=p, status=p), p, {"taskId": p, "statusChange": {"from": p, "to": p}}),
        *_call(tool_use("Skill", skill=p, args=p), p, {"success": True, "commandName": p}),
        *_call(tool_use("Agent", description=p, prompt=p, subagent_type=p, model=p), p, {"agentId": p, "status": p}),
    ]


def _notes(p: str) -> Steps:
    hooks: Json = {"hookInfos": [{"command": p, "durationMs": 1}], "hookErrors": [p], "stopReason": p}
    hooked: Json = {"hookName": p, "hookEvent": p, "toolUseID": p, "command": p, "content": p, "stdout": p, "stderr": p}
    return [
        user("notes"),
        system(p, p, level=p),
        system("api_error", None, error={"message": p, "formatted": p, "status": p}, level=p),
        system("stop_hook_summary", None, hookCount=1, **hooks),
        system("informational", p),
        system("away_summary", p),
        attachment(p, **{p: p}),
        attachment("hook_success", **hooked),
        attachment("hook_blocking_error", blockingError={"blockingError": p, "command": p}, **hooked),
        attachment("file", filename=p, displayPath=p, content=p),
        attachment("nested_memory", path=p, content={"path": p, "content": p}),
        queued(p),
        note("queue-operation", operation=p, content=p, timestamp=p),
        note(p, **{p: p}),
        raw(encode_json({"type": p})[:-1] + b"\n"),
        raw(p.replace("\n", " ").encode() + b"\n"),
        user(f"<command-name>{p}</command-name><command-message>{p}</command-message><command-args>{p}</command-args>"),
        user(f"<local-command-stdout>{p}</local-command-stdout>"),
        user(
            f"<task-notification><task-id>{p}</task-id><summary>{p}</summary><result>{p}</result></task-notification>"
        ),
        user(text(f"[Request interrupted by user{p}]")),
        assistant(p, isApiErrorMessage=True, error=p, apiErrorStatus=p, model="<synthetic>"),
        compaction(p, trigger=p),
    ]


def _envelope(p: str) -> Steps:
    where: Json = {"cwd": p, "gitBranch": p, "version": p, "slug": p, "entrypoint": p, "userType": p, "sessionKind": p}
    who: Json = {
        "promptId": p,
        "permissionMode": p,
        "promptSource": p,
        "origin": {"kind": p},
        "teamName": p,
        "effort": p,
    }
    usage: Json = {"service_tier": p, "input_tokens": p, "speed": p, "inference_geo": p, "output_tokens": p}
    use = tool_use("Bash", id=p, command="ls")
    odd = {"message": {"id": p, "role": "assistant", "model": p, "content": [use], "stop_reason": p, "usage": usage}}
    return [
        user("envelope", **where, **who),
        assistant("words", model=p, stop_reason=p, requestId=p, attributionAgent=p, attributionMcpServer=p, **where),
        Step(lambda writer: writer.add({"type": "assistant", "requestId": p, "timestamp": p, **odd, **where})),
        user("late", timestamp=p, uuid=f"{p} {p}", **who),
        note("mode", mode=p),
        note("permission-mode", permissionMode=p),
        note("frame-link", path=p, frameUrl=p, title=p),
    ]


GROUPS: dict[str, Callable[[str], Steps]] = {
    "words": _words,
    "blocks": _blocks,
    "tools": _tools,
    "shell": _shell,
    "edits": _edits,
    "reads": _reads,
    "asking": _asking,
    "notes": _notes,
    "envelope": _envelope,
}


def file_name(payload: Payload) -> str | None:
    """Return the payload as the name of a file, if it can be one."""
    name = payload.text.replace("/", "∕").replace("\0", "")
    return name if 0 < len(name.encode()) <= 200 and name not in {".", ".."} else None


def _odd_names(config: Path, every: list[Payload]) -> None:
    """Sessions, projects, plans and memory under names that a payload is."""
    line = session(user("named oddly"), assistant("yes")).data
    for name in filter(None, map(file_name, every)):
        for folder in (config / "projects" / KEY, config / "projects" / name):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.jsonl").write_bytes(line)
        for folder in (config / "plans", config / "projects" / KEY / "memory"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.md").write_text(f"# {name}\n\n- [ ] {name}\n")


def _side_files(config: Path, every: list[Payload]) -> None:
    first = named_id(every[0])
    for folder in ("todos", f"tasks/{first}", "sessions", f"file-history/{first}"):
        (config / folder).mkdir(parents=True, exist_ok=True)
    todos = [{"content": p.text, "status": p.text, "activeForm": p.text} for p in every]
    (config / "todos" / f"{first}-agent-{first}.json").write_bytes(encode_json(todos))
    typed = []
    for p in every:
        task = {"id": p.text, "subject": p.text, "description": p.text, "status": p.text, "owner": p.text}
        (config / "tasks" / first / f"{p.number}.json").write_bytes(encode_json(task))
        pasted = {"1": {"id": 1, "type": p.text, "content": p.text}}
        line = {"display": p.text, "pastedContents": pasted, "timestamp": 1_772_445_840_000, "project": p.text}
        typed.append(encode_json({**line, "sessionId": p.text}) + b"\n")
        process = {"pid": 4_100_000 + p.number, "sessionId": named_id(p), "cwd": p.text, "name": p.text}
        process |= {"status": p.text, "version": p.text, "kind": p.text, "waitingFor": p.text, "procStart": p.text}
        (config / "sessions" / f"{process['pid']}.json").write_bytes(encode_json(process))
        (config / "file-history" / first / f"{p.number:016x}@v1").write_text(p.text, errors="replace")
    (config / "history.jsonl").write_bytes(b"".join(typed))
    rules = [p.text for p in every]
    settings = {"model": rules[0], "permissions": {"allow": rules, "deny": rules}, "env": {p: p for p in rules}}
    hooks = {p: [{"matcher": p, "hooks": [{"type": "command", "command": p}]}] for p in rules}
    (config / "settings.json").write_bytes(encode_json({**settings, "hooks": hooks, **{p: p for p in rules}}))
