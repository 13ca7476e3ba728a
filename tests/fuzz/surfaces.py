"""Every command and every page, run in this process on one config folder, and what went wrong with them.

In-process, because a process for each command costs 0.2 s and a round has some seventy of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from unspool.cli.main import unspool
from unspool.errors import UnspoolError
from unspool.store import parse_zone, preferences
from unspool.web import AllowedHosts, RequestGuard, create_app
from unspool.web.serving import Site

EXIT_CODES = {0, 1, 3, 4, 5, 6}
"""Not 2: a command line that is wrong would try nothing."""
TOKEN = "t" * 40
STEP = re.compile(r"[?&;]step=([^&\"'<> ]+)")
MAX_STEPS = 12
"""Steps of a session that are opened; all of them would take most of the time of a round."""


class Failure(NamedTuple):
    """A command or page that ended in an exception, or in an exit code that does not exist."""

    surface: str
    detail: str

    @property
    def cause(self) -> str:
        """The place and kind of the exception, by which failures are told apart."""
        lines = [line.strip() for line in self.detail.splitlines() if line.strip()]
        places = [line for line in lines if line.startswith("File ") and "/unspool/" in line]
        return f"{lines[-1][:100] if lines else '?'} at {places[-1] if places else '?'}"


COMMANDS = [
    "ls", "ls --json", "ls --all --no-store", "ls --has error,agent --json", "ls --since 3650d --until 2027-01-01",
    "usage", "usage daily --json", "usage session --json", "usage model --csv", "usage blocks --json",
    "usage monthly --no-store --json", "usage --explain", "usage project --tz +05:30", "stats", "stats --json",
    "stats --json --no-store", "search tide", "search tide --json", "search tide --no-store", "search x --errors",
    "search --regex t.de --json", "search water --tool Bash --path *.py", "doctor", "doctor --json",
    "doctor --json --no-store", "watch --once", "watch --once --json", "sync", "sync --json",
    "hooks status --json", "config", "edit log",
]  # fmt: skip
"""Commands for a whole folder. Those that need a session are below."""

SESSION_COMMANDS = [
    "show {id}", "show {id} --depth all", "show {id} --tree", "show {id} --no-store --turn -1", "stats {id} --json",
    "stats {id}", "export {id} --jsonl", "export {id} --md", "export {id} --md --depth all", "export {id} --html",
    "export {id} --json", "export {id} --messages", "doctor --session {id} --json", "doctor --session {id}",
    "edit clone {id} --plan", "edit fork {id} --at 1 --plan", "edit trim {id} --results --superseded-reads --plan",
    "edit trim {id} --to 40% --plan", "edit compress {id} --keep-last 1 --no-model --plan",
    "edit move {id} --to / --plan", "edit clone {id}", "edit trim {id} --to 60%", "restore {id} --dry-run --json",
    "search tide --session {id}",
]  # fmt: skip

SLOW_COMMANDS = [
    "sql 'SELECT count(*), sum(cost_micros) FROM sessions' --json", "sql 'FROM tool_calls' --format csv",
    "sql 'FROM blocks LIMIT 5'", "export --parquet {out}/parquet", "collect --to file://{out}/bucket --org o --user u",
    "collect --status --json --to file://{out}/bucket", "lake init {out}/lake",
    "lake ingest --from file://{out}/bucket --to {out}/lake",
    "lake verify --from file://{out}/bucket --lake {out}/lake --json",
    "lake sql --lake {out}/lake 'SELECT count(*) FROM responses'",
]  # fmt: skip
"""Commands that start processes; run in some rounds only."""

PAGES = [
    "/", "/board.json", "/sessions", "/sessions.json", "/sessions?q=tide", "/search?q=tide", "/search.json?q=tide",
    "/usage", "/usage.json", "/usage?by=session", "/palette.json", "/sql", *(
        f"/library/{kind}{suffix}" for kind in ("plans", "memory", "todos", "tasks", "history", "settings", "versions")
        for suffix in ("", ".json")
    ),
]  # fmt: skip

SESSION_PAGES = [
    "/session/{id}", "/session/{id}.json", "/session/{id}?depth=all", "/session/{id}/rows?depth=all",
    "/session/{id}/outline", "/session/{id}/chart", "/session/{id}/chart.json", "/session/{id}/agents",
    "/session/{id}/agents.json", "/session/{id}/find?words=tide", "/session/{id}/find.json?words=tide",
]  # fmt: skip


def run_everything(config: Path, data: Path, *, slow: bool) -> Iterator[Failure]:
    """Run every command and ask for every page; yield what failed."""
    with _environment(config, data):
        for command in COMMANDS:
            yield from run_command(command)
        ids = session_ids(config)
        for id in ids:
            for command in SESSION_COMMANDS:
                yield from run_command(command.replace("{id}", id))
        if slow:
            for command in SLOW_COMMANDS:
                yield from run_command(command.replace("{out}", str(data.parent)))
        yield from asyncio.run(_ask_pages(config, data, ids))


def session_ids(config: Path) -> list[str]:
    """Return the ids that are the names of session files."""
    return sorted(path.stem for path in (config / "projects").glob("*/*.jsonl") if len(path.stem) == 36)


def run_command(command: str) -> list[Failure]:
    """Run one command, written as for a shell; return how it failed, if it did."""
    arguments = shlex.split(command)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = unspool.main(arguments, prog_name="unspool", standalone_mode=False)
        except (UnspoolError, click.ClickException) as error:
            code = error.exit_code
            print(error, file=sys.stderr)
        except OSError:
            code = 4
        except SystemExit as error:
            code = error.code
        except BaseException:  # noqa: BLE001 # to find any is what this is for
            return [Failure(command, traceback.format_exc())]
    for stream in (out, err):
        stream.flush()
    written, words = out.buffer.getvalue(), err.buffer.getvalue().decode()
    if "Traceback" in words or (code or 0) not in EXIT_CODES:
        return [Failure(command, f"{words}\nexit code {code}")]
    if "--json" in arguments and not code and "watch" not in arguments:
        try:
            json.loads(written)
        except ValueError as error:
            return [Failure(command, f"not JSON: {error}: {written[:200]!r}")]
    return []


async def _ask_pages(config: Path, data: Path, ids: list[str]) -> list[Failure]:
    settings = preferences.read_preferences(data)
    site = Site(config, data, settings, lambda: datetime.now().astimezone(), lambda: None, parse_zone("UTC"))
    app = create_app(site, RequestGuard(AllowedHosts("127.0.0.1", 80), TOKEN))
    failures: list[Failure] = []

    async def visit(path: str) -> str:
        try:
            status, body = await ask(app, path)
        except Exception:  # noqa: BLE001
            failures.append(Failure(path, traceback.format_exc()))
            return ""
        if status >= 500:
            failures.append(Failure(path, body.decode()))
        return body.decode(errors="replace")

    for page in PAGES:
        await visit(page)
    for id in map(quote, ids):
        bodies = [await visit(page.replace("{id}", id)) for page in SESSION_PAGES]
        steps = sorted(set(STEP.findall("".join(bodies))))
        for step in steps[:: 1 + len(steps) // MAX_STEPS]:
            for rest in ("", "&tab=raw", "&whole=1"):
                await visit(f"/session/{id}/detail?step={step}{rest}")
            await visit(f"/session/{id}/detail.json?step={step}")
    return failures


async def ask(app: Any, path: str) -> tuple[int, bytes]:
    """Send a GET request to an ASGI application; return the status and the body."""
    name, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": name, "raw_path": name.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"127.0.0.1:80"), (b"authorization", f"Bearer {TOKEN}".encode())],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")

    await app(scope, receive, send)
    return status, body


@contextlib.contextmanager
def _environment(config: Path, data: Path) -> Iterator[None]:
    """Let commands read one config folder and keep their data in another."""
    before = dict(os.environ)
    os.environ.update(CLAUDE_CONFIG_DIR=str(config), UNSPOOL_HOME=str(data), HOME=str(data.parent), COLUMNS="100")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.stdout.flush()
