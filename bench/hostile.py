"""How long other requests wait while steps are rendered that take the longest: one row of `bench/web.py`.

One thread after another opens the steps, whole: a result that is one line of 1 MB, a diff of 100,000 lines, a file on
which the lexer of its language is quadratic, and a terminal that changes its colour at every letter. Meanwhile other
pages are requested one after the other, and the page of the same session too.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from urllib.parse import quote

from bench.table import Row
from bench.usage import empty_folder
from tests.serving import Served, serving
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "77777777-7777-4777-8777-777777777777"
DIFF_LINES = 100_000
REQUESTS = 120


def rows() -> list[Row]:
    """Measure."""
    with empty_folder() as place:
        build(place / "claude")
        with serving(place / "claude", home=place / "data") as running:
            running.enter()
            quiet = _latencies(running, REQUESTS)
            busy = _measure(running)
    p99 = busy[int(len(busy) * 0.99) - 1]
    return [
        Row(
            name="a request while the longest steps are rendered (p99)", unit="s", ours=p99, target=0.2,
            of_ratio=False, reference=quiet[int(len(quiet) * 0.99) - 1], against="nothing is rendered",
            details={"requests": len(busy), "slowest": busy[-1]},
        )
    ]  # fmt: skip


def build(config: Path) -> None:
    """Write the session."""
    lines = ["+x = 1" if number % 2 else "-x = 2" for number in range(DIFF_LINES)]
    hunk = {"oldStart": 1, "oldLines": DIFF_LINES // 2, "newStart": 1, "newLines": DIFF_LINES // 2, "lines": lines}
    change = {"filePath": "/p/a.txt", "oldString": "a", "newString": "b", "structuredPatch": [hunk]}
    blank = {"type": "text", "file": {"filePath": "/p/A.java", "content": "\n" * 60_000, "numLines": 60_000,
                                      "startLine": 1, "totalLines": 60_000}}  # fmt: skip
    session(
        user("Show me the longest steps"),
        assistant(tool_use("Bash", id="line", command="cat long")),
        tool_result("x" * 1_000_000, id="line"),
        assistant(tool_use("Edit", id="diff", file_path="/p/a.txt", old_string="a", new_string="b")),
        tool_result("done", id="diff", structured=change),
        assistant(tool_use("Read", id="java", file_path="/p/A.java")),
        tool_result("1\t", id="java", structured=blank),
        assistant(tool_use("Bash", id="colours", command="cat colours")),
        tool_result("\x1b[31ma\x1b[32mb" * 50_000, id="colours"),
        id=ID,
    ).save(config)


def _measure(running: Served) -> list[float]:
    page = running.get(f"/session/{ID}").text
    keys = sorted({part.partition('"')[0] for part in page.split('data-key="')[1:]})
    done = threading.Event()

    def render() -> None:
        while not done.is_set():
            for key in keys:
                running.get(f"/session/{ID}/detail?step={quote(key)}&whole=1")

    worker = threading.Thread(target=render)
    worker.start()
    try:
        return _latencies(running, REQUESTS)
    finally:
        done.set()
        worker.join()


def _latencies(running: Served, count: int) -> list[float]:
    """Return how long each of so many requests took, sorted."""
    paths = ("/sessions", "/usage", f"/session/{ID}", "/search?q=longest", "/", "/static/session.css")
    taken = []
    for number in range(count):
        began = time.perf_counter()
        assert running.get(paths[number % len(paths)]).status == 200
        taken.append(time.perf_counter() - began)
    return sorted(taken)
