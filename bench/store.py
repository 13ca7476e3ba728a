"""CPU, memory and disk of `unspool sync` over a folder that was never read, against a bare `orjson.loads` of its lines.

The whole command is measured, with the processes that read for it; the reference's interpreter and imports are not
counted. Then `unspool ls`, from the store and without it; and, when asked for by name, a folder ten times as large,
against the usual one.
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import msgspec

from bench import child, corpus, decode
from bench.child import Measured
from bench.table import Row
from bench.usage import BARE, Spent, around, best, empty_folder, many, peak, spent, unspool

ROUNDS = 5
LISTING_ROUNDS = 7
LISTED = 1_000
LISTED_MANY = 8_000
LARGE_ROUNDS = 2
TIMES = 10
ROOM = 6_000_000_000
"""Bytes that must be free for the large folder, its store and its archive."""


class Synced:
    """The rounds of one way to sync, and what they left on disk."""

    def __init__(self, *, archive: bool, indexing: bool = False) -> None:
        self.archive, self.indexing = archive, indexing
        self.rounds: list[Spent] = []
        self.store_size = self.archive_size = 0

    def measure(self, tree: Path, cache: Path = corpus.CACHE) -> None:
        """Sync once more, into an empty folder."""
        with empty_folder(cache) as data:
            environment = around(tree, data, cache)
            spent(unspool("config", "archive", "on" if self.archive else "off"), environment)
            spent(unspool("config", "indexing", "on" if self.indexing else "off"), environment)
            self.rounds.append(spent(unspool("sync", "--json"), environment))
            self.store_size, self.archive_size = (_size(data, name) for name in ("store.db", "archive.db"))

    @property
    def memory(self) -> float:
        """Megabytes of the process that had the most."""
        return max(one.memory for one in self.rounds) / 1e6


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    return [*_syncing(corpus.tree(parameters)), *_listing(many(LISTED)), _listing_many(many(LISTED_MANY))]


def _syncing(tree: Path) -> list[Row]:
    bare: list[Measured] = []
    alone, whole = Synced(archive=False), Synced(archive=True)
    for number in range(ROUNDS):
        for side in (alone, whole):
            corpus.say(f"sync: round {number + 1} of {ROUNDS}, archive {'on' if side.archive else 'off'}")
            side.measure(tree)
        bare.append(child.run(decode.reference, str(tree)))
    corpus.say("")
    against, counts = decode.AGAINST, bare[0].counts
    reference, size, memory = best(bare), counts["bytes"] / 1e6, max(one.memory for one in bare) / 1e6
    name = f"cold sync, {size:.0f} MB, {counts['entries']:,} lines"
    more = best(whole.rounds) - best(alone.rounds)
    return [
        Row(name=name, unit="s", ours=best(alone.rounds), reference=reference, against=against, target=2),
        _median(alone.rounds, bare),
        peak("  peak memory", alone.memory, memory, against),
        Row(name="  with the archive", unit="s", ours=best(whole.rounds), reference=reference, against=against),
        _median(whole.rounds, bare),
        Row(name="  the archive adds", unit="s", ours=more, reference=reference, against=against, target=2),
        peak("  peak memory", whole.memory, memory, against),
        *(
            Row(name=f"  the {name}", unit="MB", ours=held / 1e6, reference=size, against="the files", target=target)
            for name, held, target in (("store", whole.store_size, 0.1), ("archive", whole.archive_size, 0.25))
        ),
    ]


def _median(mine: list[Spent], bare: list[Measured]) -> Row:
    figures = [statistics.median(one.cpu for one in side) for side in (mine, bare)]
    return Row(name="  median of the rounds", unit="s", ours=figures[0], reference=figures[1], against=decode.AGAINST)


def _listing(tree: Path) -> list[Row]:
    ways = {"ls, from the store": [], "ls, without a store": ["--no-store"]}
    sides: dict[str, list[Spent]] = {name: [] for name in ways}
    bare: list[Measured] = []
    starts: list[Spent] = []
    with empty_folder() as data:
        environment = around(tree, data)
        spent(unspool("sync"), environment)
        for number in range(LISTING_ROUNDS):
            corpus.say(f"ls: round {number + 1} of {LISTING_ROUNDS}")
            for name, options in ways.items():
                sides[name].append(spent(unspool("ls", "--limit", "20", *options), environment))
            starts.append(spent(unspool("--help"), environment))
            bare.append(child.run(decode.reference, str(tree)))
    corpus.say("")
    size = bare[0].counts["bytes"] / 1e6
    return [
        Row(
            name=f"{name}, {LISTED:,} sessions, {size:.0f} MB", unit="s", ours=best(side) - best(starts),
            reference=best(bare), against=f"{decode.AGAINST}; without the start of the interpreter", target=2,
            details={"whole_s": round(best(side), 4), "wall_s": round(min(one.wall for one in side), 4)},
        )
        for name, side in sides.items()
    ]  # fmt: skip


def _listing_many(tree: Path) -> Row:
    ours: list[Spent] = []
    bare: list[Spent] = []
    with empty_folder() as data:
        environment = around(tree, data)
        spent(unspool("sync"), environment)
        for number in range(LISTING_ROUNDS):
            corpus.say(f"ls of {LISTED_MANY:,} sessions: round {number + 1} of {LISTING_ROUNDS}")
            ours.append(spent(unspool("ls", "--limit", "20"), environment))
            bare.append(spent(BARE, environment))
    corpus.say("")
    return Row(
        name=f"ls --limit 20 of {LISTED_MANY:,} sessions, wall time", unit="s", ours=min(one.wall for one in ours),
        reference=min(one.wall for one in bare), against="python -c pass", target=0.2, of_ratio=False,
        details={"cpu_s": round(best(ours), 4)},
    )  # fmt: skip


def large_rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure what a megabyte costs in a folder, and in one ten times as large, which is removed afterwards."""
    cache = corpus.ready()
    large = msgspec.structs.replace(parameters, size=TIMES * parameters.size)
    if shutil.disk_usage(cache).free < large.size / 3e9 * ROOM:
        raise SystemExit(f"not enough room for a folder of {large.size / 1e9:.1f} GB and its store")
    trees = corpus.tree(parameters), corpus.tree(large, cache, "large")
    try:
        return [*(row for archive in (False, True) for row in _per_megabyte(trees, archive=archive)), *_index(trees)]
    finally:
        (cache / "large.json").unlink()
        shutil.rmtree(trees[1])


def _per_megabyte(trees: tuple[Path, Path], *, archive: bool) -> list[Row]:
    sizes = [sum(path.stat().st_size for path in tree.rglob("*.jsonl")) / 1e6 for tree in trees]
    sides = [Synced(archive=archive), Synced(archive=archive)]
    for number in range(LARGE_ROUNDS):
        for side, tree, size in zip(sides, trees, sizes, strict=True):
            corpus.say(f"sync of {size:.0f} MB: round {number + 1} of {LARGE_ROUNDS}")
            side.measure(tree)
    corpus.say("")
    usual, large = (best(side.rounds) * 1000 / size for side, size in zip(sides, sizes, strict=True))
    name = f"a MB of {sizes[1] / 1e3:.1f} GB, {'with' if archive else 'without'} the archive"
    against = f"a MB of {sizes[0] / 1e3:.1f} GB"
    return [
        Row(name=name, unit="ms", ours=large, reference=usual, against=against, target=1.1),
        peak("  peak memory", sides[1].memory, sides[0].memory, against),
    ]


def _index(trees: tuple[Path, Path]) -> list[Row]:
    """Measure what indexing a megabyte costs: a sync with it less one without."""
    costs, sizes = [], []
    for tree in trees:
        sizes.append(sum(path.stat().st_size for path in tree.rglob("*.jsonl")) / 1e6)
        corpus.say(f"index of {sizes[-1]:.0f} MB")
        sides = [Synced(archive=False, indexing=indexing) for indexing in (False, True)]
        for _ in range(LARGE_ROUNDS):
            for side in sides:
                side.measure(tree)
        costs.append((best(sides[1].rounds) - best(sides[0].rounds)) * 1000 / sizes[-1])
    corpus.say("")
    name, against = (f"a MB of {size / 1e3:.1f} GB" for size in reversed(sizes))
    return [Row(name=f"{name}, the index", unit="ms", ours=costs[1], reference=costs[0], against=against, target=1.25)]


def _size(folder: Path, name: str) -> int:
    """Return the bytes of a database with what lies beside it."""
    return sum(path.stat().st_size for path in folder.glob(f"{name}*"))
