"""How soon a page shows what another process wrote, with 5,000 files watched; what watching costs meanwhile.

Rules
  1. The time is from just before the line is written, by the writer's clock, to the moment the page has it, by the
     browser's: one machine, one clock.
  2. Lines are written one at a time, far enough apart that none waits for another.
  3. The reference is `tail -F` of the same file at the same time: what a program needs that does nothing but wait.
"""

from __future__ import annotations

import math
import os
import selectors
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from playwright.sync_api import Page

from bench import corpus, long
from bench.browser import browser, cpu_seconds, resident, settle, window
from bench.table import Row
from bench.usage import around, empty_folder, spent, unchanged, unspool
from bench.web import SESSIONS, STEP, aged, served
from tests.browser.visiting import let_in

LINES = 60
BETWEEN = 0.25
IDLE = 30.0
GIVE_UP = 30.0

# Says when each line was written: milliseconds since 1970, just before.
_WRITE = """
import sys, time
path, between = sys.argv[1], float(sys.argv[2])
lines = sys.stdin.buffer.readlines()
with open(path, "ab", buffering=0) as file:
    for line in lines:
        time.sleep(between)
        print(time.time() * 1000, flush=True)
        file.write(line)
"""
_SEEN = """
window.seen = {};
new MutationObserver((changes) => {
  const now = performance.timeOrigin + performance.now();
  for (const change of changes) {
    for (const node of change.addedNodes) {
      const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
      for (let text = walker.currentNode; text; text = walker.nextNode()) {
        const found = text.nodeType === Node.TEXT_NODE && /^live (\\d+)$/.exec(text.data.trim());
        if (found) window.seen[found[1]] ??= now;
      }
    }
  }
}).observe(document, { childList: true, subtree: true });
"""


def rows() -> list[Row]:
    """Measure."""
    tree = aged(SESSIONS)
    session = sorted(tree.glob("projects/*/*.jsonl"))[0]
    with empty_folder() as data:
        corpus.say("live: sync")
        spent(unspool("sync"), around(tree, data))
        with unchanged(session), served(tree, data) as running, browser() as started, window(started) as page:
            page.add_init_script(_SEEN)
            let_in(page.context, running)
            page.goto(f"{running.address}/session/{session.stem}?follow=1")
            page.wait_for_selector(STEP)
            settle(running.pid)
            corpus.say("live: idle")
            before = cpu_seconds(running.pid)
            time.sleep(IDLE)
            busy = (cpu_seconds(running.pid) - before) / IDLE * 100
            ours, theirs = _latencies(page, session)
            memory = resident(running.pid) / 1e6
    corpus.say("")
    return _rows(ours, theirs, busy, memory)


def _rows(ours: list[float], theirs: list[float], busy: float, memory: float) -> list[Row]:
    sides = [sorted(side) for side in (ours, theirs)]
    late = [side[math.ceil(len(side) * 0.95) - 1] for side in sides]
    middle = [statistics.median(side) for side in sides]
    return [
        Row(
            name=f"a line is on the page, {SESSIONS:,} files watched, p95", unit="ms", ours=late[0], reference=late[1],
            against="tail -F", target=100, of_ratio=False, details={"lines": len(ours), "longest_ms": max(ours)},
        ),
        Row(name="  median", unit="ms", ours=middle[0], reference=middle[1], against="tail -F"),
        Row(
            name=f"  server, nothing happens for {IDLE:.0f} s: CPU", unit="%", ours=busy, reference=math.nan,
            against="one core", target=1, of_ratio=False,
        ),
        Row(
            name="  server, memory", unit="MB", ours=memory, reference=math.nan, against="-", target=200, of_ratio=False
        ),
    ]  # fmt: skip


def _latencies(page: Page, session: Path) -> tuple[list[float], list[float]]:
    """Return how many milliseconds each line took: to the page, and to `tail`."""
    corpus.say("live: lines")
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = list(islice(long.appended(session.read_bytes(), now), LINES))
    with _tail(session) as tail:
        writer = [sys.executable, "-c", _WRITE, str(session), str(BETWEEN)]
        process = subprocess.Popen(writer, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(b"".join(lines))
        process.stdin.close()
        heard = _heard(tail, LINES)
        assert process.stdout is not None
        written = [float(line) for line in process.stdout.read().split()]
        process.wait()
    page.wait_for_function(f"() => Object.keys(window.seen).length >= {LINES}", timeout=GIVE_UP * 1000)
    seen: dict[str, float] = page.evaluate("window.seen")
    return (
        [seen[str(number)] - at for number, at in enumerate(written)],
        [heard[number] - at for number, at in enumerate(written)],
    )


@contextmanager
def _tail(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["tail", "-n", "0", "-F", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _heard(tail: subprocess.Popen[bytes], count: int) -> list[float]:
    """Return when each of so many lines came out, in milliseconds since 1970."""
    assert tail.stdout is not None
    times: list[float] = []
    deadline = time.monotonic() + GIVE_UP + count * BETWEEN
    with selectors.DefaultSelector() as selector:
        selector.register(tail.stdout, selectors.EVENT_READ)
        while len(times) < count and time.monotonic() < deadline:
            if selector.select(1):
                times += [time.time() * 1000] * os.read(tail.stdout.fileno(), 1 << 20).count(b"\n")
    return times
