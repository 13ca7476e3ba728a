"""What the text index costs, and how long a search takes: by the index, through all bytes, as a command.

Rules
  1. What the index adds is the CPU of a first sync with it less that of one without, against a bare `orjson.loads` of
     the lines. How much of the bytes is text that is indexed is said beside it: the cost is that of the text.
  2. Searches in this process are wall time, in a folder of 1 GB; words, pairs of words and phrases are drawn from the
     index itself, the same each time.
  3. What only looking through finds is compared with `grep`, which reads the same bytes and knows nothing of them.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from bench import child, corpus, decode
from bench.store import Synced
from bench.table import Row
from bench.usage import BARE, around, best, empty_folder, many, one_more, spent, unchanged, unspool
from unspool.read.source_tree import Kind, scan
from unspool.store import list_roots
from unspool.store.archive.archive import Archive
from unspool.store.database import locked, open_archive, open_store
from unspool.store.search.corpus import Corpus
from unspool.store.search.index import find_unindexed, update_index
from unspool.store.search.index_text import extract_texts
from unspool.store.search.search import search_corpora
from unspool.store.search.terms import WordQuery, parse_words
from unspool.store.sync.sync import SyncOptions, sync_folder

ROUNDS = 5
COMMAND_ROUNDS = 9
QUESTIONS = 300
GIGABYTE = 1_000_000_000
MISSING = ("zyxwvutsrq", "estimations", "TS99999")
"""Words that are nowhere."""


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    large = msgspec.structs.replace(parameters, size=GIGABYTE)
    return [*_cost(corpus.tree(parameters)), *_command(), *_searches(corpus.tree(large, corpus.CACHE, "gigabyte"))]


# What the index costs


def _cost(tree: Path) -> list[Row]:
    sides = [Synced(archive=False, indexing=indexing) for indexing in (False, True)]
    bare = []
    for number in range(ROUNDS):
        corpus.say(f"index: round {number + 1} of {ROUNDS}")
        bare.append(child.run(decode.reference, str(tree)))
        for side in sides:
            side.measure(tree)
    corpus.say("")
    without, whole = sides
    size = bare[0].counts["bytes"] / 1e6
    more, against = best(whole.rounds) - best(without.rounds), decode.AGAINST
    name = f"the index of {size:.0f} MB adds"
    return [
        Row(
            name=name, unit="s", ours=more, reference=best(bare), against=against, target=2.5,
            details={"indexed_share": round(_share(tree), 4)},
        ),
        Row(name="  text that is indexed", unit="MB", ours=_share(tree) * size, reference=size, against="the files"),
        Row(
            name="  store with index", unit="MB", ours=whole.store_size / 1e6, reference=size, against="the files",
            target=0.3,
        ),
    ]  # fmt: skip


def _share(tree: Path) -> float:
    """Return how much of the bytes is text that is indexed."""
    text = size = 0
    for source in scan(tree).of(Kind.SESSION, Kind.AGENT):
        for line in source.path.read_bytes().splitlines(keepends=True):
            size += len(line)
            text += sum(len(one.text.encode()) for said in extract_texts(line, 0) for one in said.texts)
    return text / size


# As a command


def _command() -> list[Row]:
    tree = many(1_000)
    bare, ours = [], []
    with empty_folder() as data:
        environment = around(tree, data)
        spent(unspool("sync"), environment)
        for number in range(COMMAND_ROUNDS):
            corpus.say(f"search: round {number + 1} of {COMMAND_ROUNDS}")
            bare.append(spent(BARE, environment).cpu)
            ours.append(spent(unspool("search", "error", "--indexed", "--json", "--limit", "20"), environment).cpu)
    corpus.say("")
    middle = [statistics.median(side) * 1000 for side in (ours, bare)]
    name = "`search` by the index, 1,000 sessions"
    return [Row(name=name, unit="ms", ours=middle[0], reference=middle[1], against="python -c pass", target=8)]


# In a folder of 1 GB


def _searches(tree: Path) -> list[Row]:
    with empty_folder() as data, closing(open_store(data)) as database, closing(open_archive(data)) as kept:
        corpus.say("sync of 1 GB")
        with locked(data):
            sync_folder(database, Archive(kept), tree, SyncOptions())
        corpus.say("index of 1 GB")
        with locked(data):
            update_index(database, lambda: Archive(kept), find_unindexed(database, tree))
        where = Corpus(tree, database, lambda: Archive(open_archive(data)))
        corpus.say("searches")
        found = [*_by_index(where, database), _appended(where, Archive(kept)), _looking(where, tree, "files")]
        with _gone(tree) as beside:
            with locked(data):
                sync_folder(database, Archive(kept), tree, SyncOptions())
            corpus.say("searches of the archive")
            found.append(_looking(where, beside, "archive"))
    corpus.say("")
    return found


def _by_index(where: Corpus, database: sqlite3.Connection) -> list[Row]:
    chance = random.Random(20260105)
    query = "SELECT term FROM vocabulary WHERE doc > 3 AND length(term) > 3 ORDER BY term"
    known = [term for (term,) in database.execute(query)]
    kinds: dict[str, Callable[[], str]] = {
        "a word": lambda: chance.choice(known),
        "two words": lambda: f"{chance.choice(known)} {chance.choice(known)}",
        "a beginning": lambda: f"{chance.choice(known)[:4]}*",
    }
    times: list[float] = []
    for ask in kinds.values():
        for _ in range(QUESTIONS // len(kinds)):
            search = partial(search_corpora, [where], _asked(ask()), limit=20, indexed_only=True)
            times.append(_milliseconds(search))
    times.sort()
    every = _milliseconds(lambda: database.execute("SELECT count(*) FROM passages WHERE tool = 'x'").fetchone())
    against = "a look at all passages"
    return [
        Row(
            name=f"{QUESTIONS} searches by the index of 1 GB, p95", unit="ms", ours=times[int(len(times) * 0.95)],
            reference=every, against=against, target=20, of_ratio=False,
        ),
        Row(name="  median", unit="ms", ours=statistics.median(times), reference=every, against=against),
    ]  # fmt: skip


def _appended(where: Corpus, archive: Archive) -> Row:
    """Measure how long it takes until a line that was synced can be found."""
    (root,) = list_roots(where.roots)
    session = max(root.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    assert where.database is not None
    times, syncs = [], []
    with unchanged(session):
        for number in range(20):
            with session.open("ab") as file:
                file.write(one_more(session.read_bytes(), number))
            syncs.append(_milliseconds(partial(sync_folder, where.database, archive, root, SyncOptions())))
            files = find_unindexed(where.database, where.roots)
            times.append(_milliseconds(partial(update_index, where.database, lambda: archive, files)))
    return Row(
        name="one more line is searchable after its sync in", unit="ms", ours=statistics.median(times),
        reference=statistics.median(syncs), against="the sync", target=5, of_ratio=False,
    )  # fmt: skip


def _looking(where: Corpus, bytes_of: Path, place: str) -> Row:
    """Measure a search that must look through everything, by the gigabyte."""
    size = sum(path.stat().st_size for path in bytes_of.rglob("*.jsonl")) / 1e9
    ours = max(_milliseconds(partial(search_corpora, [where], _asked(word))) for word in MISSING)
    command = ["grep", "-rciF", MISSING[0], str(bytes_of)]
    theirs = _milliseconds(partial(subprocess.run, command, stdout=subprocess.DEVNULL, check=False))
    return Row(
        name=f"a whole answer, a GB of {place}", unit="s", ours=ours / 1000 / size, reference=theirs / 1000 / size,
        against="grep -i, a GB of files", target=1 if place == "files" else 2, of_ratio=False,
    )  # fmt: skip


@contextmanager
def _gone(tree: Path) -> Iterator[Path]:
    """Take the sessions of a tree away for a while; return where they are."""
    beside = tree.with_name(f"{tree.name}-aside")
    shutil.rmtree(beside, ignore_errors=True)
    (tree / "projects").rename(beside)
    try:
        yield beside
    finally:
        beside.rename(tree / "projects")


def _asked(text: str) -> WordQuery:
    found = parse_words(text)
    assert found is not None
    return found


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000
