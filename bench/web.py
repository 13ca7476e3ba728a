"""The page in a real browser: a session of 20 MB and one of 200 MB, a list of 5,000; beside them claude-code-log.

Rules
  1. Times are those of the browser, from asking to seeing (`browser.py`), the median of the rounds; the server runs
     all the while, each round has a browser of its own.
  2. New means that the server was started on an empty store a moment ago; kept, that the folder was synced before and
     the server has nothing else to do. In both cases nobody has opened the page before.
  3. claude-code-log makes one page of the same file. Its first content is there when it has converted and the browser
     has painted: nobody sees anything before.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import child, corpus, hostile, long
from bench.browser import Opened, opened, resident, settle
from bench.long import Length
from bench.table import Row
from bench.usage import around, empty_folder, many, spent, unspool
from tests.serving import Served, serving

ROUNDS = 3
TWENTY = Length(20_000_000, 11_000)
TWO_HUNDRED = Length(200_000_000)
SESSIONS = 5_000
CLAUDE_CODE_LOG = "claude-code-log==1.7.0"

STEP = ".row"
"""A step of a session, on its page."""
LISTED = "main tbody tr"
"""A session, on the page of them all."""
THEIR_STEP = ".message"


class Page(NamedTuple):
    """What a page took, in the middle of the rounds, and what its server held."""

    first_content: float
    nodes: float
    memory: float
    server: float


def rows() -> list[Row]:
    """Measure."""
    twenty = long.folder("long-20", TWENTY)
    with empty_folder() as data:
        new = _page(twenty, data, f"/session/{long.ID}", STEP, synced=False)
        kept = _page(twenty, data, f"/session/{long.ID}", STEP, synced=True)
    theirs, problem = _theirs(long.file(twenty))
    against = problem or CLAUDE_CODE_LOG
    return [
        *_session_rows(new, kept, theirs, against),
        _larger(kept),
        *_list_rows(),
        *hostile.rows(),
    ]


def _session_rows(new: Page, kept: Page, theirs: Page, against: str) -> list[Row]:
    name = "a session of 20 MB, 11,000 records: first content"
    absolute: dict[str, Any] = {"of_ratio": False, "against": against}
    return [
        Row(name=name, unit="s", ours=new.first_content, reference=theirs.first_content, target=1, **absolute),
        Row(name="  synced before", unit="s", ours=kept.first_content, reference=theirs.first_content, **absolute),
        Row(name="  nodes", unit="", ours=new.nodes, reference=theirs.nodes, target=25_000, **absolute),
        Row(name="  renderer", unit="MB", ours=new.memory, reference=theirs.memory, target=250, **absolute),
        Row(
            name="  server", unit="MB", ours=max(new.server, kept.server), reference=_bare(), of_ratio=False,
            target=200, against="its libraries, loaded",
        ),
    ]  # fmt: skip


def _larger(smaller: Page) -> Row:
    folder = long.folder("long-200", TWO_HUNDRED)
    with empty_folder() as data:
        page = _page(folder, data, f"/session/{long.ID}", STEP, synced=True)
    return Row(
        name="a session of 200 MB, synced before: first content", unit="s", ours=page.first_content,
        reference=smaller.first_content, against="that of 20 MB", target=2, of_ratio=False,
        details={"nodes": page.nodes, "renderer_mb": page.memory, "server_mb": page.server},
    )  # fmt: skip


def _list_rows() -> list[Row]:
    tree = aged(SESSIONS)
    with empty_folder() as data:
        first = _page(tree, data, "/sessions", LISTED, synced=True)
        page = _page(tree, data, "/sessions", LISTED, synced=True, seen=True)
    with empty_folder() as data:
        one = _page(many(1), data, "/sessions", LISTED, synced=True, seen=True)
    return [
        Row(
            name=f"{SESSIONS:,} sessions: first rows", unit="s", ours=page.first_content, reference=one.first_content,
            against="one session", target=0.3, of_ratio=False, details={"nodes": page.nodes},
        ),
        Row(
            name="  asked for the first time", unit="s", ours=first.first_content, reference=one.first_content,
            against="one session",
        ),
        Row(
            name="  server", unit="MB", ours=page.server, reference=one.server, against="one session", target=200,
            of_ratio=False,
        ),
    ]  # fmt: skip


def _page(tree: Path, data: Path, path: str, selector: str, *, synced: bool, seen: bool = False) -> Page:
    """Open a page of a server of its own, several times over; `seen`: the server was asked for it once before."""
    rounds: list[Opened] = []
    if synced:
        spent(unspool("sync"), around(tree, data))
    server = 0
    for number in range(ROUNDS):
        corpus.say(f"{path}: round {number + 1} of {ROUNDS}")
        with served(tree, data if synced else data / f"new-{number}") as running:
            if synced:
                settle(running.pid)
            if seen:
                running.get(path)
            rounds.append(opened(running.address + path, selector, running))
            server = max(server, resident(running.pid))
    corpus.say("")
    return Page(
        statistics.median(one.first_content for one in rounds),
        max(one.nodes for one in rounds),
        statistics.median(one.memory for one in rounds) / 1e6,
        server / 1e6,
    )


@contextmanager
def served(tree: Path, data: Path) -> Iterator[Served]:
    """Serve a folder, with what is kept of it in another."""
    with serving(tree, environment=around(tree, data)) as running:
        running.enter()
        yield running


def aged(count: int) -> Path:
    """Return a folder of so many small sessions, an hour between any two: nobody has thousands in a day."""
    tree = many(count)
    now = time.time()
    for number, path in enumerate(sorted(tree.glob("projects/*/*.jsonl"))):
        os.utime(path, (now, now - number * 3600))
    return tree


def libraries(_: str) -> Callable[[], dict[str, int]]:
    """Load what a server needs, and serve nothing."""
    import jinja2  # noqa: F401
    import starlette.applications  # noqa: F401
    import uvicorn  # noqa: F401
    import watchfiles  # noqa: F401

    return dict


def _bare() -> float:
    return child.run(libraries, "").memory / 1e6


# claude-code-log


def _theirs(file: Path) -> tuple[Page, str]:
    """Convert the file and open what came out; return also what went wrong."""
    program, problem = claude_code_log(corpus.CACHE)
    if program is None:
        return Page(math.nan, math.nan, math.nan, math.nan), f"{CLAUDE_CODE_LOG}: {problem}"
    with empty_folder() as place:
        made = place / "page.html"
        command = [str(program), str(file), "-o", str(made), "--no-cache"]
        rounds = []
        for number in range(ROUNDS):
            corpus.say(f"{CLAUDE_CODE_LOG}: round {number + 1} of {ROUNDS}")
            made.unlink(missing_ok=True)
            took = spent(command, {**os.environ, "HOME": str(place)})
            rounds.append((took, opened(made.as_uri(), THEIR_STEP)))
        corpus.say("")
        return Page(
            statistics.median(took.wall + page.first_content for took, page in rounds),
            max(page.nodes for _, page in rounds),
            statistics.median(page.memory for _, page in rounds) / 1e6,
            max(took.memory for took, _ in rounds) / 1e6,
        ), ""


def claude_code_log(cache: Path) -> tuple[Path | None, str]:
    """Return the program, installed now in an environment of its own if it is not there yet; else what went wrong."""
    folder = corpus.ready(cache) / CLAUDE_CODE_LOG.replace("==", "-")
    program = folder / "bin" / "claude-code-log"
    if program.exists():
        return program, ""
    corpus.say(f"installing {CLAUDE_CODE_LOG}")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", CLAUDE_CODE_LOG],
    ):
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            return None, f"it could not be installed: {' '.join(done.stderr.split())[:80]}"
    return program, ""
