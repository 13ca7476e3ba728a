"""An installed Claude Code as the judge: it resumes a planned session, and what it sends is compared with ours.

Rules
  1. It sees nothing of this machine: a folder of its own for home, config and work, an address on loopback, no key.
  2. Nothing of the session's own folder is touched; what it writes goes with its folder.
  3. Versions before 2.1.100 read a session otherwise (`readers.py`); what they send is compared with that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from unspool.api.scripted.server import scripted
from unspool.edit.planner import Prepared
from unspool.edit.verify.request_diff import difference
from unspool.edit.verify.versions import predicted, without_surroundings
from unspool.errors import NotFound, Refused
from unspool.paths import project_key

MARKER = "What have we done so far?"
_SECONDS = 120


def judged(prepared: Prepared, command: str) -> str | None:
    """Let an installed Claude Code resume a planned session; return where it differs from what we predict."""
    version, sent = resumed(command, prepared.result.id, prepared.plan.data)
    return difference(without_surroundings(sent, version), predicted(prepared.result.entries, version), MARKER)


def resumed(command: str, id: str, data: bytes) -> tuple[tuple[int, ...], list[Any]]:
    """Let an installed Claude Code resume a session; return its version and the messages that it sends."""
    program = _program(command)
    with tempfile.TemporaryDirectory(prefix="unspool-") as folder:
        place = Path(folder).resolve()
        return _version(program, place), _sent(program, place, id, data)


def _program(command: str) -> list[str]:
    """Return how a program is started: one on the path, a file, or a script for node."""
    named = os.path.expanduser(command)  # noqa: PTH111 - a name on the path is no path
    node = shutil.which("node") if named.endswith(".js") and Path(named).is_file() else None
    found = named if node else shutil.which(named)
    if found is None:
        raise NotFound(f"no such program: `{command}`", hint="`--claude=PATH` names the one to ask")
    return [*([node] if node else []), str(Path(found).absolute())]


def environment(place: Path, url: str) -> dict[str, str]:
    """Return all that the program may see."""
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


def _version(program: list[str], place: Path) -> tuple[int, ...]:
    done = _run([*program, "--version"], place, "http://127.0.0.1:9")
    words = done.stdout.split()
    numbers = tuple(int(part) for part in (words[0] if words else "").split(".") if part.isdigit())
    if not numbers:
        raise Refused(f"`{program[-1]}` does not say which version it is", hint="is it Claude Code?")
    return numbers


def _sent(program: list[str], place: Path, id: str, data: bytes) -> list[Any]:
    """Return the messages of the request that resuming makes."""
    work = place / "work"
    work.mkdir()
    session = place / "config" / "projects" / project_key(str(work)) / f"{id}.jsonl"
    session.parent.mkdir(parents=True)
    session.write_bytes(data)
    answers = {"steps": [], "default": {"content": "Much."}}
    with scripted(answers, strict=False) as api:
        done = _run([*program, "-p", "--resume", session.stem, "--output-format", "json", "--", MARKER], place, api.url)
        asked = [body for body in api.bodies if body.get("tools") and MARKER in str(body.get("messages"))]
    if not asked:
        words = " ".join((done.stdout + done.stderr).split())[:200]
        raise Refused(f"Claude Code did not resume it: {words}", hint="nothing was written")
    return list(asked[0]["messages"])


def _run(command: list[str], place: Path, url: str) -> subprocess.CompletedProcess[str]:
    work = place / "work"
    try:
        return subprocess.run(
            command,
            cwd=work if work.is_dir() else place,
            env=environment(place, url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(
            f"`{' '.join(command[:2])}` could not be run: {error}", hint="`--claude=PATH` names another"
        ) from None
