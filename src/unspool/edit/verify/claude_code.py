"""Lets an installed Claude Code resume a planned session, and compares what it sends with what we predict.

Rules
  1. It sees nothing of this machine: a folder of its own for home, config and work, an address on loopback, no key.
  2. Nothing in the session's own folder is touched; what Claude Code writes is deleted with its folder.
  3. Versions before 2.1.100 read a session differently (`versions.py`); what they send is compared with that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from unspool.api.scripted import serve_script
from unspool.edit.planning.planner import PreparedEdit
from unspool.edit.verify.request_diff import find_difference
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text
from unspool.errors import NotFound, Refused
from unspool.format import Attachment, Entry, attachments, encode_json, parse_version
from unspool.graph.context import TOOL_LOADED
from unspool.paths import project_key

RESUME_PROMPT = "What have we done so far?"
_TIMEOUT_SECONDS = 120


def compare_with_claude_code(prepared: PreparedEdit, command: str) -> str | None:
    """Let an installed Claude Code resume a planned session; return where it differs from what we predict."""
    version, request = request_of_claude_code(command, prepared.result.id, prepared.plan.data)
    # For the model that it continues with: another one is sent other messages.
    predicted = predict_messages(prepared.result.entries, version, request.get("model"))
    predicted = _without_absent_tools(predicted, _find_recorded_tools(prepared.result.entries))
    return find_difference(strip_unrecorded_text(request["messages"], version), predicted, RESUME_PROMPT)


def _find_recorded_tools(entries: Iterable[Entry]) -> set[str]:
    """Return the names of tools that are described in the session itself (from 2.1.325 on)."""
    found = (entry.record.attachment for entry in entries if isinstance(entry.record, Attachment))
    tools = (tool for data in found if isinstance(data, attachments.DeferredToolsRecord) for tool in data.entries)
    return {str(tool.get("name")) for tool in tools if isinstance(tool, dict)}


def _without_absent_tools(messages: list[dict[str, Any]], recorded: Container[str]) -> list[dict[str, Any]]:
    """Leave out references to tools of servers: none is connected here, and Claude Code knows only recorded ones."""

    def is_absent(block: object) -> bool:
        name = block.get("tool_name") if isinstance(block, dict) and block.get("type") == "tool_reference" else None
        return isinstance(name, str) and name.startswith("mcp__") and name not in recorded

    def clean(message: dict[str, Any]) -> dict[str, Any]:
        results = [block for block in message["content"] if isinstance(block.get("content"), list)]
        if not any(is_absent(item) for result in results for item in result["content"]):
            return message
        blocks = [
            {**block, "content": [item for item in block["content"] if not is_absent(item)] or _REFERENCES_REMOVED}
            if isinstance(block.get("content"), list)
            else block
            for block in message["content"]
        ]
        has_reference = '"tool_reference"' in encode_json(blocks).decode()
        return {**message, "content": [b for b in blocks if has_reference or b.get("text") != TOOL_LOADED]}

    return [clean(message) for message in messages]


_REFERENCES_REMOVED = [{"type": "text", "text": "[Tool references removed - tools no longer available]"}]


def resume_with_claude_code(command: str, id: str, data: bytes) -> tuple[tuple[int, ...], list[Any]]:
    """Let an installed Claude Code resume a session; return its version and the messages that it sends."""
    version, request = request_of_claude_code(command, id, data)
    return version, list(request["messages"])


def request_of_claude_code(command: str, id: str, data: bytes) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Let an installed Claude Code resume a session; return its version and the request that it sends."""
    program = _resolve_command(command)
    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        place = Path(folder).resolve()
        return _read_version(program, place), _record_resume(program, place, id, data)


def _resolve_command(command: str) -> list[str]:
    """Return the command line of a program: one on the path, a file, or a script for node."""
    named = os.path.expanduser(command)  # noqa: PTH111 - a name on the path is no path
    node = shutil.which("node") if named.endswith(".js") and Path(named).is_file() else None
    found = named if node else shutil.which(named)
    if found is None:
        raise NotFound(f"program not found: `{command}`", hint="name Claude Code with `--claude=PATH`")
    return [*([node] if node else []), str(Path(found).absolute())]


def isolated_environment(place: Path, url: str) -> dict[str, str]:
    """Return the whole environment that Claude Code is run with."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": str(place),
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "TMPDIR": str(place),
        "CLAUDE_CONFIG_DIR": str(place / "config"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


def _read_version(program: list[str], place: Path) -> tuple[int, ...]:
    # An address where nothing listens: telling its version needs no API.
    run = _run([*program, "--version"], place, "http://127.0.0.1:9")
    words = run.stdout.split()
    numbers = parse_version(words[0] if words else None)
    if not numbers:
        raise Refused(f"`{program[-1]} --version` printed no version", hint="name Claude Code with `--claude=PATH`")
    return numbers


def _record_resume(program: list[str], place: Path, id: str, data: bytes) -> dict[str, Any]:
    """Return the request that Claude Code makes when it resumes."""
    work = place / "work"
    work.mkdir()
    session = place / "config" / "projects" / project_key(str(work)) / f"{id}.jsonl"
    session.parent.mkdir(parents=True)
    session.write_bytes(data)
    # Not strict: an old version may send what today's API refuses, and only the messages matter here.
    with serve_script({"steps": [], "default": {"content": "Much."}}, strict=False) as api:
        run = _run(
            [*program, "-p", "--resume", session.stem, "--output-format", "json", "--", RESUME_PROMPT], place, api.url
        )
        # Requests without tools are Claude Code's own, for a title and the like.
        requests = [body for body in api.bodies if body.get("tools") and RESUME_PROMPT in str(body.get("messages"))]
    if not requests:
        words = " ".join((run.stdout + run.stderr).split())[:200]
        raise Refused(f"Claude Code could not resume the session: {words}", hint="nothing was written")
    return dict(requests[0])


def _run(command: list[str], place: Path, url: str) -> subprocess.CompletedProcess[str]:
    work = place / "work"
    try:
        return subprocess.run(
            command,
            cwd=work if work.is_dir() else place,
            env=isolated_environment(place, url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(
            f"cannot run `{' '.join(command[:2])}`: {error}", hint="name another with `--claude=PATH`"
        ) from None
