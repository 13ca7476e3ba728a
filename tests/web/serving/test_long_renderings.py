"""Long renderings leave other pages their turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from tests.fuzz.surfaces import TOKEN, ask
from unspool.format import parse_zone
from unspool.store import preferences
from unspool.testing.build import assistant, session, tool_result, tool_use, user
from unspool.web import AllowedHosts, RequestGuard, create_app
from unspool.web.server import SWITCH_SECONDS
from unspool.web.serving.render_process import RenderProcess
from unspool.web.serving.site import Site

ID = "20000000-0000-4000-8000-000000000001"
_SERVE = """
import os, signal, sys
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from unspool.web.server import open_listener, run_server

@asynccontextmanager
async def lifespan(app):
    os.kill(os.getpid(), signal.SIGTERM)
    yield

app = Starlette(lifespan=lifespan)
run_server(app, open_listener("127.0.0.1", 0), lambda: print(sys.getswitchinterval(), flush=True))
"""


def test_a_thread_of_the_server_that_computes_gives_way_within_a_millisecond() -> None:
    done = subprocess.run([sys.executable, "-c", _SERVE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert float(done.stdout) == pytest.approx(SWITCH_SECONDS)
    assert SWITCH_SECONDS <= 0.001


def test_one_long_step_is_rendered_at_a_time_and_no_other_page_waits_for_it(tmp_path: Path) -> None:
    session(
        user("Show it"),
        assistant(tool_use("Bash", id="long", command="cat long")),
        tool_result("x" * 100_000, id="long"),
        id=ID,
    ).save(tmp_path / "claude")
    settings = preferences.read_preferences(tmp_path)
    site = Site(tmp_path / "claude", tmp_path, settings, lambda: datetime.now().astimezone(), list, parse_zone("UTC"))
    app = create_app(site, RequestGuard(AllowedHosts("127.0.0.1", 80), TOKEN))
    busy: threading.Lock = app.state.services.large_renderings
    answers: list[tuple[str, int]] = []

    async def visit(name: str, path: str) -> None:
        status, _ = await ask(app, path)
        answers.append((name, status))

    async def visit_all() -> None:
        _, page = await ask(app, f"/session/{ID}")
        step = page.decode().split('data-key="')[-1].partition('"')[0]  # the call
        await to_thread.run_sync(busy.acquire)
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(visit, f"long {number}", f"/session/{ID}/detail?step={step}&whole=1")
            for path in (f"/session/{ID}", f"/session/{ID}/detail?step={step}", "/", "/sessions"):
                await visit("other", path)
            assert answers == [("other", 200)] * 4
            busy.release()

    anyio.run(visit_all)
    process: RenderProcess = app.state.services.render_process
    assert process.pid not in (None, os.getpid())  # all three were rendered there
    process.close()
    assert sorted(answers) == [("long 0", 200), ("long 1", 200), ("long 2", 200), *[("other", 200)] * 4]
