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
from pathlib import Path
from typing import Any

from unspool.api.scripted import serve_script
from unspool.edit.planning.planner import PreparedEdit
from unspool.edit.verify.request_diff import find_difference
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text
from unspool.errors import NotFound, Refused
from unspool.format import parse_version
from unspool.paths import project_key

RESUME_PROMPT = "What have we done so far?"
_TIMEOUT_SECONDS = 120


def compare_with_claude_code(prepared: PreparedEdit, command: str) -> str | None:
    """Let an installed Claude Code resume a planned session; return where it differs from what we predict."""
    version, sent = resume_with_claude_code(command, prepared.result.id, prepared.plan.data)
    return find_difference(
        strip_unrecorded_text(sent, version), predict_messages(prepared.result.entries, version), RESUME_PROMPT
    )


def resume_with_claude_code(command: str, id: str, data: bytes) -> tuple[tuple[int, ...], list[Any]]:
    """Let an installed Claude Code resume a session; return its version and the messages that it sends."""
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
        raise NotFound(f"no such program: `{command}`", hint="`--claude=PATH` names the one to ask")
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
        raise Refused(f"`{program[-1]}` does not say which version it is", hint="is it Claude Code?")
    return numbers


def _record_resume(program: list[str], place: Path, id: str, data: bytes) -> list[Any]:
    """Return the messages of the request that Claude Code makes when it resumes."""
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
        raise Refused(f"Claude Code did not resume it: {words}", hint="nothing was written")
    return list(requests[0]["messages"])


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
            f"`{' '.join(command[:2])}` could not be run: {error}", hint="`--claude=PATH` names another"
        ) from None
