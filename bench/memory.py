"""Peak memory of reading files far larger than a session should be, and that every byte of them is accounted for.

The reference for ordinary lines, and for one long line that is held, is `orjson.loads` of one line after another.
A line of a gigabyte is not given to it: there the reference is a process that has loaded the reader and read
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import child, corpus
from bench.families import FAMILIES
from bench.table import Row
from bench.usage import around, empty_folder, spent, unspool

GIGABYTE = 1_000_000_000
HELD = 64 * 1024 * 1024 - 4096
"""A line of just under 64 MiB: the longest that is held in memory."""
INDEXED = 63_000_000
_BLOCK = 8_000_000


def rows() -> list[Row]:
    """Measure."""
    cache = corpus.ready()
    return [
        _row("read 1 GB of lines", cache / "lines.jsonl", ordinary(GIGABYTE), one_by_one, 150),
        _row("read one line of 1 GB", cache / "long.jsonl", long_line(GIGABYTE), nothing, 300),
        _row("read one line of 64 MiB", cache / "held.jsonl", long_line(HELD), one_by_one, None),
        _indexed(),
    ]


def _indexed() -> Row:
    """Measure the memory of indexing two long lines, which were synced before."""
    with empty_folder() as data:
        tree = data / "tree"
        session = tree / "projects" / "-home-me" / "11111111-1111-4111-8111-111111111111.jsonl"
        session.parent.mkdir(parents=True)
        session.write_bytes(b"".join(long_line(INDEXED)) * 2)
        environment = around(tree, data / "own")
        for setting in ("archive", "indexing"):
            spent(unspool("config", setting, "off"), environment)
        spent(unspool("sync"), environment)
        spent(unspool("config", "indexing", "on"), environment)
        ours = spent(unspool("sync"), environment)
    return Row(
        name="index two lines of 63 MB", unit="MB", ours=ours.memory / 1e6, reference=2 * INDEXED / 1e6,
        against="the file", target=150, of_ratio=False,
    )  # fmt: skip


def _row(name: str, path: Path, pieces: Iterator[bytes], reference: child.Task, target: float | None) -> Row:
    with _file(path, pieces) as size:
        corpus.say(f"{name}: ours")
        mine = child.run(ours, str(path))
        corpus.say(f"{name}: {reference.__name__}")
        other = child.run(reference, str(path))
    corpus.say("")
    if mine.counts["bytes"] != size:
        raise SystemExit(f"{name}: {size:,} bytes in the file, {mine.counts['bytes']:,} accounted for")
    return Row(
        name=name,
        unit="MB",
        ours=mine.memory / 1e6,
        reference=other.memory / 1e6,
        against=AGAINST[reference],
        target=target,
        of_ratio=False,
        details={"file_bytes": size, **mine.counts, "cpu_s": round(mine.cpu, 3)},
    )


def ordinary(size: int) -> Iterator[bytes]:
    """Yield lines of usual sizes: the same few megabytes again and again."""
    shares = tuple((name, 1.0) for name in FAMILIES)
    small = corpus.Parameters(size=_BLOCK, shares=shares)
    lines = b"".join(made.data for made in corpus.files(small) if made.name.endswith(".jsonl"))
    for _ in range(size // len(lines) + 1):
        yield lines


def long_line(size: int) -> Iterator[bytes]:
    """Yield one line: a prompt with that much text."""
    head = b'{"type":"user","message":{"role":"user","content":"'
    tail = b'"},"uuid":"00000000-0000-4000-8000-000000000001"}\n'
    yield head
    text = b"the quick brown fox\\n" * (_BLOCK // 21)
    left = size - len(head) - len(tail)
    while left > len(text):
        yield text
        left -= len(text)
    yield b"x" * left
    yield tail


def ours(argument: str) -> Callable[[], dict[str, int]]:
    """Read the file to its end."""
    from unspool.format.records import Entry
    from unspool.read.tail import pieces

    def work() -> dict[str, int]:
        entries = others = size = 0
        for piece in pieces(Path(argument), final=True):
            for item in piece.items:
                size += item.length
                if isinstance(item, Entry):
                    entries += 1
                else:
                    others += 1
        return {"entries": entries, "others": others, "bytes": size}

    return work


def one_by_one(argument: str) -> Callable[[], dict[str, int]]:
    """Decode one line after another."""
    import orjson

    def work() -> dict[str, int]:
        size = 0
        with Path(argument).open("rb") as file:
            for line in file:
                size += len(line)
                orjson.loads(line)
        return {"bytes": size}

    return work


def nothing(_: str) -> Callable[[], dict[str, int]]:
    """Load the reader."""
    import unspool.read.tail  # noqa: F401 - loading it is what is measured

    return dict


AGAINST = {one_by_one: "orjson.loads line by line", nothing: "the reader loaded, nothing read"}


@contextmanager
def _file(path: Path, pieces: Iterator[bytes]) -> Iterator[int]:
    """Write a file, give its size, and remove it afterwards."""
    corpus.say(f"making {path.name}")
    try:
        with path.open("wb") as file:
            size = sum(file.write(piece) for piece in pieces)
        yield size
    finally:
        path.unlink(missing_ok=True)
