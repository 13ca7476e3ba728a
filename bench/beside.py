"""What stands beside the conversation: the data of attachments, progress lines and snapshots, and usage."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from bench.tools import Json
from bench.words import Words

_ATTACHMENTS = {
    "task_reminder": 790,
    "hook_additional_context": 320,
    "hook_success": 300,
    "deferred_tools_delta": 150,
    "nested_memory": 130,
    "skill_listing": 110,
    "edited_text_file": 106,
    "command_permissions": 100,
    "hook_system_message": 94,
    "agent_listing_delta": 64,
    "queued_command": 39,
}


def attachment(words: Words, random: Random) -> Json:
    """Return an attachment of any kind."""
    (kind,) = random.choices(list(_ATTACHMENTS), list(_ATTACHMENTS.values()))
    text = words.prose(words.size(600, 1.0, 20_000))
    match kind:
        case "task_reminder":
            tasks = [{"id": str(n), "subject": text[:40], "status": "pending"} for n in range(len(text) // 200)]
            return {"type": kind, "content": tasks, "itemCount": len(tasks)}
        case "skill_listing":
            names = [words.name() for _ in range(60)]
            return {"type": kind, "content": words.prose(20_000), "isInitial": True, "names": names}
        case "agent_listing_delta":
            lines = [words.prose(300) for _ in range(30)]
            return {"type": kind, "addedTypes": [words.name() for _ in lines], "addedLines": lines}
        case "deferred_tools_delta":
            names = [words.name() for _ in range(40)]
            return {"type": kind, "addedNames": names, "addedLines": names, "removedNames": []}
        case "command_permissions":
            return {"type": kind, "allowedTools": ["Bash(git:*)"]}
        case "edited_text_file":
            return {"type": kind, "filename": words.path("/home/me"), "snippet": text}
        case "nested_memory":
            path = f"/home/me/{words.word()}/CLAUDE.md"
            content = {"path": path, "type": "Project", "content": text}
            return {"type": kind, "path": path, "content": content, "displayPath": "CLAUDE.md"}
        case "queued_command":
            return {"type": kind, "prompt": text, "commandMode": "prompt"}
        case _:
            where = {"hookName": "PostToolUse:Edit", "toolUseID": "toolu_01", "hookEvent": "PostToolUse"}
            return {"type": kind, **where, "content": [text] if kind == "hook_additional_context" else text}


def progress(words: Words, tool: str, *, shell: bool) -> Json:
    """Return what a shell command or a hook is doing."""
    if not shell:
        hook = {"type": "hook_progress", "hookEvent": "PostToolUse", "hookName": f"PostToolUse:{tool}"}
        return {**hook, "command": "callback"}
    output = words.shell(words.size(300, 1.2, 20_000))
    data = {"type": "bash_progress", "output": output[-200:], "fullOutput": output}
    return {**data, "elapsedTimeSeconds": 3, "totalLines": output.count("\n")}


def agent_progress(words: Words, random: Random, agent_id: str, prompt: str) -> Iterator[Json]:
    """Yield what an agent says, line by line; some versions repeat all that came before each time."""
    repeats = random.random() < 0.5
    seen: list[Json] = []
    for _ in range(words.size(8, 0.7, 60)):
        text = words.prose(words.size(500, 1.2, 20_000))
        message = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        said = {"message": message, "normalizedMessages": list(seen)}
        yield {**said, "type": "agent_progress", "prompt": prompt, "agentId": agent_id}
        if repeats:
            seen.append(message)


def snapshot(words: Words, id: str, time: str) -> Json:
    """Return a line that names the backups of files."""
    backup = {"backupFileName": "797879eb2ad671d7@v1", "version": 1, "backupTime": time}
    files = {f"src/{words.name()}.py": backup for _ in range(words.size(3, 1.0, 40) - 1)}
    inner = {"messageId": id, "trackedFileBackups": files, "timestamp": time}
    head = {"type": "file-history-snapshot", "messageId": id, "snapshot": inner}
    return {**head, "isSnapshotUpdate": len(files) > 2}


def usage(random: Random, *, newest: bool) -> Json:
    """Return the usage of a message. Its lines repeat it; in old versions a third of them end with the true output."""
    written, read = int(random.random() * 6000), int(random.random() * 150_000)
    output = int(random.random() * 1200) + 1
    counts = {"input_tokens": 4, "cache_creation_input_tokens": written, "cache_read_input_tokens": read}
    cache = {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}
    if not newest:
        return {**counts, "cache_creation": cache, "output_tokens": output, "service_tier": "standard"}
    once = {**counts, "output_tokens": output, "cache_creation": cache, "type": "message"}
    web = {"web_search_requests": 0, "web_fetch_requests": 0}
    head = {**counts, "output_tokens": output, "server_tool_use": web, "service_tier": "standard"}
    return {**head, "cache_creation": cache, "inference_geo": "", "iterations": [once], "speed": "standard"}
