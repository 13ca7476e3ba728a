"""CPU to redact a gigabyte of lines, against detect-secrets over a piece of the same lines; real files beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from bench import child, corpus
from bench.child import Measured, Task
from bench.table import Row

ROUNDS = 3
PIECE = 300_000
"""Bytes that the reference gets: it would take hours for all."""
TARGET = 1000 / 150
"""Seconds for a gigabyte: 150 MB/s."""
TARGET_WITH_NAMES = 1000 / 100
"""The same with addresses and home folders, of which every real line has some: 100 MB/s."""
AGAINST = "detect-secrets 1.5, a piece of it"


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    trees = {"lines like real ones": corpus.tree(parameters)}
    real = Path(os.environ.get("UNSPOOL_CORPUS") or Path(__file__).parents[2] / "shared" / "data" / "real")
    if real.is_dir():
        trees["real files"] = real
    found = []
    for name, tree in trees.items():
        ours, theirs = _best(redacted, tree, ROUNDS), _best(detected, tree, 1)
        details = {"bytes": ours.counts["bytes"], "redactions": ours.counts["redactions"]}
        found.append(
            Row(
                name=f"redact a GB of {name}", unit="s", ours=_per_gigabyte(ours), reference=_per_gigabyte(theirs),
                against=AGAINST, target=TARGET, of_ratio=False, details=details,
            )
        )  # fmt: skip
        names = _best(redacted_with_names, tree, ROUNDS)
        found.append(
            Row(
                name=f"redact a GB of {name}, --emails --homes", unit="s", ours=_per_gigabyte(names),
                reference=_per_gigabyte(theirs), against=AGAINST, target=TARGET_WITH_NAMES, of_ratio=False,
                details=dict(names.counts),
            )
        )  # fmt: skip
    return found


def _best(task: Task, tree: Path, rounds: int) -> Measured:
    corpus.say(f"redact: {task.__name__}")
    measured = min((child.run(task, str(tree)) for _ in range(rounds)), key=lambda one: one.cpu)
    corpus.say("")
    return measured


def _per_gigabyte(measured: Measured) -> float:
    return measured.cpu / measured.counts["bytes"] * 1e9


def redacted(argument: str) -> Callable[[], dict[str, int]]:
    """Redact every line of a tree; the rules have been used before, as they have in a collector."""
    return _redact_with(argument, emails=False, homes=False)


def redacted_with_names(argument: str) -> Callable[[], dict[str, int]]:
    """Redact addresses and home folders, too."""
    return _redact_with(argument, emails=True, homes=True)


def _redact_with(argument: str, *, emails: bool, homes: bool) -> Callable[[], dict[str, int]]:
    from unspool.redact.lines import redact_suspect_lines
    from unspool.redact.options import RedactionOptions
    from unspool.redact.redactor import Redactor

    redactor = Redactor(b"a key for measuring", RedactionOptions(emails=emails, homes=homes))
    files = [path.read_bytes() for path in _files(argument)]

    def work(files: list[bytes] = files) -> dict[str, int]:
        redactions = 0
        for data in files:
            for _, found in redact_suspect_lines(redactor, data):
                redactions += sum(hit.number for hit in found.hits)
        return {"bytes": sum(map(len, files)), "redactions": redactions}

    work(files[: len(files) // 4])
    return work


def detected(argument: str) -> Callable[[], dict[str, int]]:
    """Let detect-secrets look at the first lines of a tree."""
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    lines, size = list[str](), 0
    for path in _files(argument):
        for line in path.read_bytes().splitlines():
            if size + len(line) <= PIECE:
                lines.append(line.decode("utf-8", "replace"))
                size += len(line)

    def work() -> dict[str, int]:
        with default_settings():
            return {"bytes": size, "redactions": sum(1 for line in lines for _ in scan_line(line))}

    return work


def _files(tree: str) -> list[Path]:
    return sorted(Path(tree).rglob("*.jsonl"))
