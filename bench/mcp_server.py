"""The MCP server: CPU until `initialize` is answered, and how long tool calls take at 1 GB."""

from __future__ import annotations

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import corpus
from bench.table import Row

STARTS = 10
CALLS = 20
GIGABYTE = 1_000_000_000
IMPORT = [sys.executable, "-c", "import mcp"]
_MUST_FIND = ("search_sessions", "find_file_history", "recall_decisions")
_HELLO = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
}  # fmt: skip
_QUERIES = 10


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    large = msgspec.structs.replace(parameters, size=GIGABYTE)
    return [_start_row(), *_call_rows(corpus.tree(large, corpus.CACHE, "gigabyte"))]


def _start_row() -> Row:
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "config").mkdir()
        for command in (IMPORT, _command(Path(place) / "config")):
            _cpu(command, place)  # once before, so that bytecode is kept
        ours, bare = list[float](), list[float]()
        for number in range(STARTS):
            corpus.say(f"mcp: start {number + 1} of {STARTS}")
            bare.append(_cpu(IMPORT, place))
            ours.append(_cpu(_command(Path(place) / "config"), place))
    return Row(
        name="unspool mcp, start to initialize", unit="s", ours=statistics.median(ours),
        reference=statistics.median(bare), against="import mcp", target=1.2,
    )  # fmt: skip


def _age_files(tree: Path) -> None:
    """Let the files be as old as sessions mostly are: for the live board, all that was just written is at work."""
    for path in tree.rglob("*"):
        if path.is_file() and time.time() - path.stat().st_mtime < 7 * 86_400:
            os.utime(path, (time.time() - 30 * 86_400,) * 2)


def _call_rows(tree: Path) -> list[Row]:
    _age_files(tree)
    own = corpus.CACHE / "mcp-own"
    corpus.say("mcp: sync of 1 GB")
    environment = {**os.environ, "UNSPOOL_HOME": str(own)}
    sync = [sys.executable, "-m", "unspool", "sync", "--config-dir", str(tree)]
    subprocess.run(sync, env=environment, check=True, stdout=subprocess.DEVNULL)
    found = []
    words = _choose_words(tree)
    with _Client(tree, own) as client:
        sessions, paths = _session_ids(client), _changed_paths(client)
        calls: dict[str, Any] = {
            "search_sessions": lambda number: {"query": words[number % _QUERIES]},
            "search_sessions, list": lambda number: {"offset": number * 20},
            "read_session": lambda number: {"session": sessions[number % len(sessions)]},
            "read_session, turn": lambda number: {"session": sessions[number % len(sessions)], "turn": 1},
            "find_file_history": lambda number: {"path": paths[number % len(paths)]},
            "recall_decisions": lambda number: {
                "topic": f"why {words[number % _QUERIES]} and {words[(number + 3) % 10]}"
            },
            "usage": lambda number: {"period": ("daily", "model", "project")[number % 3]},
            "sql": lambda number: {"query": "SELECT name, count(*) FROM tool_calls GROUP BY name"},
            "list_running": lambda number: {"all": bool(number % 2)},
        }
        for name, make in calls.items():
            corpus.say(f"mcp: {name}")
            first, *taken = [client.call(name.partition(",")[0], make(number)) for number in range(CALLS + 1)]
            if (
                name in _MUST_FIND
                and (number := next((n for n in range(CALLS) if not client.finds(name, make(n))), -1)) >= 0
            ):
                sys.exit(f"mcp: {name} finds nothing for {make(number)}: that measures less than a search")
            walls, cpus = sorted(wall for wall, _ in taken), [cpu for _, cpu in taken]
            found.append(
                Row(name=f"{name} at 1 GB, p95", unit="ms", ours=walls[int(CALLS * 0.95) - 1] * 1000,
                    reference=max(statistics.mean(cpus) * 1000, 0.1), against="CPU of the server, on average",
                    target=300.0, of_ratio=False,
                    details={"first": first[0] * 1000, "median": statistics.median(walls) * 1000})
            )  # fmt: skip
    return found


def _choose_words(tree: Path) -> list[str]:
    """Return words of the prompts in a tree, from the most common to one that occurs once: each is found."""
    counts = Counter[str]()
    for line in (tree / "history.jsonl").read_text().splitlines():
        counts.update(re.findall(r"[a-z]{4,}", json.loads(line)["display"]))
    words = [word for word, _ in counts.most_common()]
    return [words[number * len(words) // _QUERIES] for number in range(_QUERIES)]


def _changed_paths(client: _Client) -> list[str]:
    """Return the files that most tool calls changed."""
    changed = "SELECT path FROM files_touched WHERE action <> 'read' AND added > 0 GROUP BY path"
    query = f"{changed} ORDER BY count(*) DESC LIMIT 20"
    text = client.ask("sql", {"query": query, "token_budget": 5_000})
    return [line for line in text.splitlines() if line.startswith("/")]


def _session_ids(client: _Client) -> list[str]:
    text = client.ask("search_sessions", {"token_budget": 5_000})
    return [line.split()[2] for line in text.splitlines() if line.startswith("- session")]


class _Client:
    """A server as a process, and requests to it."""

    def __init__(self, tree: Path, own: Path) -> None:
        self._process = subprocess.Popen(
            _command(tree), env={**os.environ, "UNSPOOL_HOME": str(own)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._number = 0

    def __enter__(self) -> _Client:
        self.request("initialize", _HELLO)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.request("tools/list", {})  # as every client does before its first call
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())["result"]

    def ask(self, tool: str, arguments: dict[str, Any]) -> str:
        return str(self.request("tools/call", {"name": tool, "arguments": arguments})["content"][0]["text"])

    def finds(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Tell whether the answer of a call has any text of a session."""
        return "<transcript-" in self.ask(tool, arguments)

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[float, float]:
        """Return the seconds that a call took, and the CPU seconds of the server meanwhile, its engine not included."""
        begun, used = time.perf_counter(), _cpu_of(self._process.pid)
        self.ask(tool, arguments)
        return time.perf_counter() - begun, _cpu_of(self._process.pid) - used

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def _cpu_of(pid: int) -> float:
    """Return the CPU seconds of a running process; 0 where the system does not say (macOS)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _command(config: Path) -> list[str]:
    return [sys.executable, "-m", "unspool", "mcp", "--config-dir", str(config)]


def _cpu(command: list[str], place: str) -> float:
    """Return the CPU seconds of a command; a server is sent `initialize`, and its input ends after the answer."""
    environment = {**os.environ, "UNSPOOL_HOME": f"{place}/own"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _running(command, environment) as process:
        if command != IMPORT:
            assert process.stdin
            assert process.stdout
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            process.stdout.readline()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        process.wait()
