"""Every command and every page, run in this process on one config folder, and what went wrong with them.

In-process, because a process for each command costs 0.2 s and a round has some seventy of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from unspool.cli.main import unspool
from unspool.errors import UnspoolError
from unspool.format import parse_zone
from unspool.store import preferences
from unspool.web import AllowedHosts, RequestGuard, create_app
from unspool.web.serving import Site

EXIT_CODES = {0, 1, 3, 4, 5, 6}
"""Not 2: a command line that is wrong would try nothing."""
TOKEN = "t" * 40
STEP = re.compile(r"[?&;]step=([^&\"'<> ]+)")
LONGEST = 120.0
"""Seconds after which a command or page is taken to hang; the slowest takes five."""
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


class Hang(BaseException):
    """A command or page did not end. No `OSError`, which commands may handle."""


COMMANDS = [
    "ls", "ls --json", "ls --all --no-store", "ls --has error,agent --json", "ls --since 3650d --until 2027-01-01",
    "usage", "usage daily --json", "usage session --json", "usage model --csv", "usage blocks --json",
    "usage monthly --no-store --json", "usage --explain", "usage project --tz +05:30", "stats", "stats --json",
    "stats --json --no-store", "search tide", "search tide --json", "search tide --no-store", "search x --errors",
    "search --regex t.de --json", "search water --tool Bash --path *.py", "doctor", "doctor --json",
    "doctor --json --no-store", "watch --once", "watch --once --json", "sync", "sync --json",
    "hooks status --json", "config", "edit log", "compare --by model", "compare --by prompt --json --no-store",
    "insights --sql tools",
]  # fmt: skip
"""Commands for a whole folder. Those that need a session are below."""

SESSION_COMMANDS = [
    "show {id}", "show {id} --depth all", "show {id} --tree", "show {id} --no-store --turn -1", "stats {id} --json",
    "stats {id}", "export {id} --jsonl", "export {id} --md", "export {id} --md --depth all", "export {id} --html",
    "export {id} --json", "export {id} --messages", "doctor --session {id} --json", "doctor --session {id}",
    "edit clone {id} --plan", "edit fork {id} --at 1 --plan", "edit trim {id} --results --superseded-reads --plan",
    "edit trim {id} --to 40% --plan", "edit compress {id} --keep-last 1 --no-model --plan",
    "edit move {id} --to / --plan", "edit clone {id}", "edit trim {id} --to 60%", "restore {id} --dry-run --json",
    "edit repair {id} --plan", "share {id} --json", "share {id} --json --results --thinking --images",
    "search tide --session {id}", "edit trim {id} --results --in-place", "edit undo --yes", "restore {id}",
    "compare {id} {id}", "compare {id}#1 {id} --json", "compare {id} {id} --messages",
    "edit redact {id} --secrets --text tide --plan", "edit redact {id} --turns 1 --json", "edit undo --yes",
    "show {id} --json", "show {id} --file .", "redact {path} --emails --homes",
    "redact --check {path} --json", "doctor --session {id} --error 'tool_use ids were found without tool_result'",
]  # fmt: skip

SLOW_COMMANDS = [
    "sql 'SELECT count(*), sum(cost_micros) FROM sessions' --json", "sql 'FROM tool_calls' --format csv",
    "sql 'FROM blocks LIMIT 5'", "insights", "insights --json --since 3650d",
    "export --parquet {out}/parquet", "collect --to file://{out}/bucket --org o --user u",
    "collect --status --json --to file://{out}/bucket", "lake init {out}/lake",
    "lake ingest --from file://{out}/bucket --to {out}/lake",
    "lake verify --from file://{out}/bucket --lake {out}/lake --json",
    "lake sql --lake {out}/lake 'SELECT count(*) FROM responses'",
    "lake status --from file://{out}/bucket --lake {out}/lake --json",
    "export --html --all -o {out}/site", "export --duckdb {out}/tables.db --raw",
]  # fmt: skip
"""Commands that start processes; run in some rounds only."""

LAST_COMMANDS = [
    "edit undo --yes",
    "edit undo --merge --yes",
    "edit log --json",
    "sync --deep --json",
    "sync --rebuild --json",
    "ls --json",
    "doctor --json",
]
"""Commands that change the data folder, after all others."""

PAGES = [
    "/", "/board.json", "/sessions", "/sessions.json", "/sessions?q=tide", "/search?q=tide", "/search.json?q=tide",
    "/usage", "/usage.json?range=all", "/usage?period=session&range=all", "/usage?period=blocks&range=all",
    "/palette.json", "/palette.json?q=yesterday", "/sql", "/search?errors=1", "/search/errors?since=all",
    "/search/errors.json?since=all", "/sessions?group=day", "/sessions?group=project&hidden=1",
    "/sessions/values?facet=file", "/notes", "/compare", "/files?path=a", "/insights", "/insights.json?project=a",
    "/cost?since=1970-01-02",
    "/cost.json?since=1970-01-02&order=output", *(
        f"/library/{kind}{suffix}" for kind in ("plans", "memory", "todos", "tasks", "history", "settings", "versions")
        for suffix in ("", ".json")
    ),
]  # fmt: skip

SESSION_PAGES = [
    "/session/{id}", "/session/{id}.json", "/session/{id}?depth=all", "/session/{id}/rows?depth=all",
    "/session/{id}/outline", "/session/{id}/chart", "/session/{id}/chart.json", "/session/{id}/agents",
    "/session/{id}/agents.json", "/session/{id}/find?words=tide", "/session/{id}/find.json?words=tide",
    "/session/{id}/head", "/session/{id}/cost", "/session/{id}/cost.json", "/session/{id}/review",
    "/session/{id}/review.json", "/session/{id}/review?view=split&context=100", "/session/{id}/review.patch",
    "/session/{id}/time", "/session/{id}/time.json?turn=0", "/session/{id}/share",
    "/session/{id}/share.json?format=html&results=1&thinking=1&images=1&agents=1", "/notes/{id}",
    "/compare?a={id}&b={id}", "/compare.json?a={id}&b={id}%231",
]  # fmt: skip


def run_everything(
    config: Path, data: Path, *, slow: bool, sessions: int | None = None, rebuild: bool = True, may_refuse: bool = False
) -> Iterator[Failure]:
    """Run every command and ask for every page; yield what failed.

    `sessions` limits how many are looked at. With `may_refuse`, a page may answer with an error that it explains.
    """
    with environment(config, data):
        for command in COMMANDS:
            yield from run_command(command)
        ids = session_ids(config)[:sessions]
        for id in ids:
            path = next((config / "projects").glob(f"*/{id}.jsonl"), config / "gone.jsonl")
            for command in SESSION_COMMANDS:
                yield from run_command(command.replace("{id}", id).replace("{path}", shlex.quote(str(path))))
        if slow:
            for name in ("parquet", "site"):
                shutil.rmtree(data.parent / name, ignore_errors=True)
            (data.parent / "tables.db").unlink(missing_ok=True)
            for command in SLOW_COMMANDS:
                yield from run_command(command.replace("{out}", str(data.parent)))
        try:
            with _limit_time():
                yield from asyncio.run(ask_pages(config, data, ids, may_refuse=may_refuse))
        except UnspoolError:  # settings that cannot be read: the server does not start
            pass
        except (Exception, Hang):  # noqa: BLE001
            yield Failure("pages", traceback.format_exc())
        for command in LAST_COMMANDS if rebuild else ():
            yield from run_command(command)


_runs = [0]


def count_runs() -> int:
    """Return how many commands were run and pages asked for in this process."""
    return _runs[0]


def session_ids(config: Path) -> list[str]:
    """Return the ids that are the names of session files."""
    return sorted(path.stem for path in (config / "projects").glob("*/*.jsonl") if len(path.stem) == 36)


def run_command(command: str) -> list[Failure]:
    """Run one command, written as for a shell; return how it failed, if it did."""
    _runs[0] += 1
    arguments = shlex.split(command)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with _limit_time():
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
    if code == 2 and "`" + os.environ["UNSPOOL_HOME"] in words:
        return []  # rules of redaction that are wrong: it says in which file
    if "Traceback" in words or (code or 0) not in EXIT_CODES:
        return [Failure(command, f"{words}\nexit code {code}")]
    if "--json" in arguments and not code and "watch" not in arguments:
        try:
            json.loads(written)
        except ValueError as error:
            return [Failure(command, f"not JSON: {error}: {written[:200]!r}")]
    return []


async def ask_pages(config: Path, data: Path, ids: list[str], *, may_refuse: bool = False) -> list[Failure]:
    """Ask for every page, and for those of some sessions; return what failed."""
    settings = preferences.read_preferences(data)
    site = Site(config, data, settings, lambda: datetime.now().astimezone(), list, parse_zone("UTC"))
    app = create_app(site, RequestGuard(AllowedHosts("127.0.0.1", 80), TOKEN))
    failures: list[Failure] = []

    async def visit(path: str) -> str:
        try:
            status, body = await ask(app, path)
        except Exception:  # noqa: BLE001
            failures.append(Failure(path, traceback.format_exc()))
            return ""
        if (status >= 500 or status in (401, 403)) and not may_refuse:  # nothing is tried by who is not let in
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
            await visit(f"/session/{id}/same?step={step}")
    return failures


async def ask(app: Any, path: str) -> tuple[int, bytes]:
    """Send a GET request to an ASGI application; return the status and the body."""
    _runs[0] += 1
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
def _limit_time() -> Iterator[None]:
    """Raise `Hang` in code that takes too long; if that does not help, say where it hangs and end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    faulthandler.dump_traceback_later(2 * LONGEST, exit=True, file=2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def environment(config: Path, data: Path) -> Iterator[None]:
    """Let commands read one config folder and keep their data in another."""
    before = dict(os.environ)
    os.environ.update(CLAUDE_CONFIG_DIR=str(config), UNSPOOL_HOME=str(data), HOME=str(data.parent), COLUMNS="100")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        sys.stdout.flush()
