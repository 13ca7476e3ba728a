"""CPU to decode every entry of a tree, against a bare `orjson.loads` of its lines.

The reference reads each file whole, splits it at line ends and decodes each line into dicts, which it forgets; so
reading and splitting count on both sides. Ours scans the tree and reads every file of lines as `unspool` does.
Lines to records alone, split before the clock starts, is measured too. Each side runs in a process of its own, in
turn.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bench import child, corpus
from bench.child import Measured, Task
from bench.table import Row

ROUNDS = 7
AGAINST = "read, split, orjson.loads"


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    root = str(corpus.tree(parameters))
    sides: dict[Task, list[Measured]] = {reference: [], ours: [], loads_only: [], decode_only: []}
    for number in range(ROUNDS):
        for task, measured in sides.items():
            corpus.say(f"decode: round {number + 1} of {ROUNDS}, {task.__name__}")
            measured.append(child.run(task, root))
    corpus.say("")
    bare, mine = sides[reference], sides[ours]
    counts = mine[0].counts
    if counts != bare[0].counts:
        raise SystemExit(f"the sides read different lines: {counts} and {bare[0].counts}")
    memory = [max(one.memory for one in side) / 1e6 for side in (mine, bare)]
    figures = {"ours": _figures(mine), "reference": _figures(bare), "counts": counts}
    whole = _row(f"decode {counts['bytes'] / 1e6:.0f} MB", _best, mine, bare)
    return [
        msgspec.structs.replace(whole, target=1.0, details=figures),
        _row("  median of the rounds", _median, mine, bare),
        Row(name="  peak memory", unit="MB", ours=memory[0], reference=memory[1], against=AGAINST),
        msgspec.structs.replace(
            _row("  lines to records alone", _best, sides[decode_only], sides[loads_only]), against="orjson.loads"
        ),
    ]


def _row(name: str, figure: Callable[[list[Measured]], float], mine: list[Measured], bare: list[Measured]) -> Row:
    return Row(name=name, unit="s", ours=figure(mine), reference=figure(bare), against=AGAINST)


def ours(argument: str) -> Callable[[], dict[str, int]]:
    """Scan the tree and iterate over all entries."""
    from unspool.format.codec import HISTORY, SESSION
    from unspool.read.source_tree import LINE_KINDS, Kind, scan
    from unspool.read.tail import pieces

    def work() -> dict[str, int]:
        count = size = 0
        for source in scan(Path(argument)).of(*LINE_KINDS):
            dialect = HISTORY if source.kind is Kind.HISTORY else SESSION
            reached = 0
            for piece in pieces(source.path, final=True, dialect=dialect):
                for _ in piece.items:
                    count += 1
                reached = piece.position.offset
            size += reached
        return {"entries": count, "bytes": size}

    return work


def reference(argument: str) -> Callable[[], dict[str, int]]:
    """Read each file, split it, decode each line."""
    import orjson

    def work() -> dict[str, int]:
        loads, count, size = orjson.loads, 0, 0
        for path in _files(argument):
            data = path.read_bytes()
            size += len(data)
            for line in data.split(b"\n"):
                if line:
                    loads(line)
                    count += 1
        return {"entries": count, "bytes": size}

    return work


def loads_only(argument: str) -> Callable[[], dict[str, int]]:
    """Decode each line; reading and splitting are done before."""
    import orjson

    lines = [line for path in _files(argument) for line in path.read_bytes().split(b"\n") if line]

    def work() -> dict[str, int]:
        loads = orjson.loads
        for line in lines:
            loads(line)
        return {"entries": len(lines)}

    return work


def decode_only(argument: str) -> Callable[[], dict[str, int]]:
    """Decode each line into its record; reading and splitting are done before."""
    from unspool.format.base import DECODE_ERRORS
    from unspool.format.codec import SESSION

    lines = [line for path in _files(argument) for line in path.read_bytes().split(b"\n") if line]

    def work() -> dict[str, int]:
        decode, refused = SESSION.decode, 0
        for line in lines:
            try:
                decode(line)
            except DECODE_ERRORS:
                refused += 1
        return {"entries": len(lines), "refused": refused}

    return work


def _files(root: str) -> Iterator[Path]:
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".jsonl"):
                yield Path(folder, name)


def _best(measured: list[Measured]) -> float:
    return min(one.cpu for one in measured)


def _median(measured: list[Measured]) -> float:
    return statistics.median(one.cpu for one in measured)


def _figures(measured: list[Measured]) -> dict[str, float]:
    best, counts = _best(measured), measured[0].counts
    return {
        "best_s": round(best, 4),
        "median_s": round(_median(measured), 4),
        "mb_per_s": round(counts["bytes"] / 1e6 / best, 1),
        "lines_per_s": round(counts["entries"] / best),
        "peak_mb": round(max(one.memory for one in measured) / 1e6, 1),
    }
