"""CPU to put sessions together (messages, calls, threads, context), against a bare `orjson.loads` of their lines.

Decoding is done before the clock starts: this is what comes on top of it. Then what a person waits for: the first line
of `unspool show` of a session of 20 MB. (`unspool ls` is measured in `store.py`.)
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import child, corpus, decode
from bench.child import Measured, Task
from bench.table import Row
from unspool.format.records import Entry

ROUNDS = 7
LARGE = 20_000_000


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    root = str(corpus.tree(parameters))
    sides: dict[Task, list[Measured]] = {decode.reference: [], put_together: [], context_alone: []}
    for number in range(ROUNDS):
        for task, measured in sides.items():
            corpus.say(f"graph: round {number + 1} of {ROUNDS}, {task.__name__}")
            measured.append(child.run(task, root))
    corpus.say("")
    bare, whole, context = (min(one.cpu for one in side) for side in sides.values())
    against = decode.AGAINST
    return [
        Row(name="graph and context", unit="s", ours=whole, reference=bare, target=1.5, against=against),
        Row(name="  context alone", unit="s", ours=context, reference=bare, against=against),
        _showing(Path(root)),
    ]


def put_together(argument: str) -> Callable[[], dict[str, int]]:
    """Make everything the library has of every session and agent."""
    from unspool.graph.context.build import build_context
    from unspool.graph.messages import group_messages
    from unspool.graph.threads import find_threads
    from unspool.graph.tool_calls import find_tool_calls

    sessions = _sessions(argument)

    def work() -> dict[str, int]:
        made = 0
        for entries in sessions:
            made += (
                len(group_messages(entries))
                + len(find_tool_calls(entries))
                + len(find_threads(entries))
                + len(build_context(entries))
            )
        return {"made": made}

    return work


def context_alone(argument: str) -> Callable[[], dict[str, int]]:
    """Make the context of every session and agent."""
    from unspool.graph.context.build import build_context

    sessions = _sessions(argument)
    return lambda: {"made": sum(len(build_context(entries)) for entries in sessions)}


def _sessions(root: str) -> list[list[Entry]]:
    from unspool.read.source_tree import Kind, scan
    from unspool.read.tail import read_items

    sources = scan(Path(root)).of(Kind.SESSION, Kind.AGENT)
    return [[item for item in read_items(source.path) if isinstance(item, Entry)] for source in sources]


def _showing(tree: Path) -> Row:
    path = corpus.CACHE / "00000000-0000-4000-8000-00000000beef.jsonl"
    data = b"".join(path.read_bytes() for path in sorted(tree.glob("projects/*/*.jsonl"))[:400])[:LARGE]
    path.write_bytes(data[: data.rindex(b"\n") + 1])
    waits = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "unspool", "show", str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        waits.append(time.perf_counter() - start)
        process.stdout.close()
        process.wait()
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare = time.perf_counter() - start
    path.unlink()
    return Row(
        name="show, first line of 20 MB", unit="s", ours=min(waits), reference=bare, target=1, of_ratio=False,
        against="python -c pass",
    )  # fmt: skip
