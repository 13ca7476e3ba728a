"""A config folder that changes, and what must never be lost of it: a model that knows nothing of the store.

In: what is done to files, and when a sync has ended. Out: what the archive must have byte for byte, and what was billed
in all that was ever synced, read the naive way.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from unspool.store.archive.archive import Archive
from unspool.store.catalog.session_list import list_sessions
from unspool.store.database import open_archive, open_store
from unspool.store.search.index import find_unindexed, update_index
from unspool.store.sync.changes import read_stamps
from unspool.store.sync.sync import SyncOptions, SyncReport, sync_folder
from unspool.testing.build import assistant, note, session, text, tool_result, tool_use, user

KEY = "-home-me-project"
SEEN = 4000
"""Bytes at the head of a file in which a change is always noticed; further on it takes `--deep`."""


@cache
def lines(seed: int) -> tuple[bytes, ...]:
    """Return the lines of a session of a dozen turns; another seed, other lines and other ids."""
    turns = []
    patch = {"structuredPatch": [{"lines": ["-old", "+new", "+newer"]}]}
    for number in range(12):
        usage = {"output_tokens": 100 + number, "input_tokens": seed % 90 + 10}
        edit = tool_use("Edit", file_path=f"/home/me/project/{number % 5}.py", old_string="old", new_string="new")
        turns += [
            user(f"prompt {number} of {seed} {'.' * (seed * number % 50)}"),
            assistant(text("Let me look. ☃"), edit if number % 2 else tool_use("Bash", command="make"), usage=usage),
            tool_result("ok", error=number % 3 == 0, structured=patch),
            assistant("Done.", usage=usage, model="claude-haiku-4-5" if number % 2 else "claude-opus-4-5-20251101"),
        ]
    limit = assistant(text("5-hour limit reached ∙ resets 3pm"), model="<synthetic>")
    steps = [*turns[:5], limit, *turns[5:7], note("custom-title", customTitle=f"title {seed}"), *turns[7:]]
    start = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=17 * seed)
    version = "2.0.76" if seed % 2 else "2.1.325"
    return session(*steps, id=identity(seed), version=version, start=f"{start:%Y-%m-%dT%H:%M:%S}.000Z").lines


def identity(seed: int) -> str:
    """Return the id of the session of a seed."""
    return f"{seed:08x}-0000-4000-8000-{seed:012x}"


class World:
    """Files, what is written to them next, and all that was ever in them at a sync."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, list[bytes]] = {}
        """By path: what each generation of the file was when it was last synced."""
        self._inodes: dict[str, int] = {}
        self._coming: dict[Path, bytes] = {}
        """What a file goes on with: the rest of a torn line, and lines not written yet."""
        self._seed = 0
        (root / "projects" / KEY).mkdir(parents=True)

    @property
    def paths(self) -> list[Path]:
        """The files that are there."""
        return sorted(path for path in self._coming if path.exists())

    def create(self) -> Path:
        """Begin a file."""
        self._seed += 1
        path = self.root / "projects" / KEY / f"{identity(self._seed)}.jsonl"
        path.touch()
        self._coming[path] = b"".join(lines(self._seed))
        self.append(path, 1 + self._seed % 3)
        return path

    def fork(self, path: Path) -> Path:
        """Begin a file with what another has, as a session that was forked does: the copies must not count."""
        fork = self.create()
        fork.write_bytes(whole(path.read_bytes()))
        self.append(fork, 1)
        return fork

    def append(self, path: Path, count: int) -> None:
        """Write on in a file."""
        for _ in range(count):
            line, end, self._coming[path] = self._next(path).partition(b"\n")
            self._write(path, line + end)

    def tear(self, path: Path, cut: int) -> None:
        """Write a part of a line."""
        coming = self._next(path)
        cut = 1 + cut % (coming.index(b"\n") + 1)  # all of it but its end is a part too
        self._coming[path] = coming[cut:]
        self._write(path, coming[:cut])

    def break_off(self, path: Path) -> None:
        """End a torn line as if it were whole; what follows is another session's."""
        self._write(path, b"\n")
        self._go_otherwise(path)

    def truncate(self, path: Path, cut: int) -> None:
        """Take away the end of a file."""
        os.truncate(path, cut % max(path.stat().st_size, 1))
        self._go_otherwise(path)

    def rewrite(self, path: Path, cut: int, *, most: int | None = None) -> None:
        """Change numbers in the middle of a file, not after `most` bytes; it has the same size after."""
        data = path.read_bytes()
        at = data.find(b'"output_tokens":1', cut % max(len(data), 1), most)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + len(b'"output_tokens":'))
                file.write(b"2")

    def replace(self, path: Path) -> None:
        """Put another file in the place of one."""
        self._go_otherwise(path)
        beside = path.with_suffix(".new")
        beside.touch()
        coming = self._coming[path]
        first = coming.index(b"\n") + 1
        beside.write_bytes(coming[:first])
        self._coming[path] = coming[first:]
        beside.replace(path)

    def delete(self, path: Path) -> None:
        """Delete a file. One that is made again has something else in it."""
        path.unlink()
        self._go_otherwise(path)

    def recreate(self) -> None:
        """Make files again that were deleted."""
        for path in self._coming:
            if not path.exists():
                path.touch()
                self.append(path, 1)

    def synced(self) -> None:
        """Take note that all that is there now has been synced."""
        for path in self.paths:
            data, inode = path.read_bytes(), path.stat().st_ino
            generations = self.seen.setdefault(str(path), [b""])
            read = whole(generations[-1])
            goes_on = not read or (inode == self._inodes[str(path)] and data.startswith(read))
            generations[len(generations) - goes_on :] = [data]
            self._inodes[str(path)] = inode

    def _next(self, path: Path) -> bytes:
        if not self._coming[path]:
            self._go_otherwise(path)
        return self._coming[path]

    def _go_otherwise(self, path: Path) -> None:
        self._seed += 1
        self._coming[path] = b"".join(lines(1000 + self._seed))

    def _write(self, path: Path, data: bytes) -> None:
        with path.open("ab") as file:
            file.write(data)


class Numbers(NamedTuple):
    """What was billed for a response."""

    output: int
    input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int


def billed(files: Iterable[list[bytes]]) -> dict[str, Numbers]:
    """Return what was billed in all generations of files."""
    found: dict[str, Numbers] = {}
    for generations in files:
        for data in generations:
            for id, numbers in naive(data):
                found[id] = max(found.get(id, numbers), numbers)
    return found


def naive(data: bytes) -> Iterator[tuple[str, Numbers]]:
    """Yield what every line says was billed; lines that are no JSON say nothing."""
    for line in data.split(b"\n"):
        for document in documents(line):
            message = document.get("message", {})
            usage = message.get("usage")
            if document.get("type") == "assistant" and usage and message["model"] != "<synthetic>":
                writes = usage["cache_creation"]
                yield (
                    message["id"],
                    Numbers(
                        usage["output_tokens"],
                        usage["input_tokens"],
                        usage["cache_read_input_tokens"],
                        writes["ephemeral_5m_input_tokens"],
                        writes["ephemeral_1h_input_tokens"],
                    ),
                )


def documents(line: bytes) -> list[dict[str, Any]]:
    """Return the objects that a line consists of; none if it is torn."""
    rest = line.decode("utf-8", "replace").strip()
    found: list[dict[str, Any]] = []
    while rest:
        try:
            document, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            return found
        found += [document] if isinstance(document, dict) else []
        rest = rest[end:].lstrip()
    return found


def whole(data: bytes) -> bytes:
    """Return a file without a torn line at its end."""
    head, _, rest = data.rpartition(b"\n")
    try:
        return data if json.loads(rest) else b""
    except ValueError:
        return head + b"\n" if head or data.startswith(b"\n") else b""


PLAIN = SyncOptions()


def synced(folder: Path, root: Path, wishes: SyncOptions = PLAIN) -> SyncReport:
    """Bring a store and its index up to date, in this process."""
    with closing(open_store(folder)) as database, closing(open_archive(folder)) as archive:
        fresh: dict[str, tuple[int, bytes]] = {}
        report = sync_folder(database, Archive(archive), root, wishes._replace(texts=fresh))
        update_index(database, lambda: Archive(archive), find_unindexed(database, root), fresh=fresh)
        return report


def archived(folder: Path) -> dict[str, list[bytes]]:
    """Return what the archive has of each file of lines, by generation."""
    found: dict[str, list[bytes]] = {}
    with closing(open_archive(folder)) as database:
        archive = Archive(database)
        for about in sorted(archive.files(), key=lambda about: about.generation):
            found.setdefault(about.path, []).append(b"".join(data for _, data in archive.read(about)))
            assert about.generation == len(found[about.path])
            assert archive.length(about) == len(found[about.path][-1])
    return found


def counted(folder: Path) -> list[tuple[str, Numbers]]:
    """Return the responses that count."""
    query = """SELECT id, output_tokens, input_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens
        FROM answers WHERE counted = 1 ORDER BY id"""
    with closing(sqlite3.connect(folder / "store.db")) as database:
        return [(id, Numbers(*numbers)) for id, *numbers in database.execute(query)]


def rows(folder: Path, root: Path) -> dict[str, dict[str, Any]]:
    """Return what `ls` lists, by path, without the cost: that is of all generations."""
    from unspool.store.usage.ledger import StoreLedger

    with closing(open_store(folder)) as database:
        found = list_sessions(database, root, StoreLedger(database, root, lambda: None))  # type: ignore[arg-type,return-value]
    return {row["path"]: {name: cell for name, cell in row.items() if name != "cost_micros"} for row in found}


def tables(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows that a store has, with paths for numbers, and without what depends on when they were written."""
    queries = {
        "sources": "SELECT path, kind, generation, size, offset, archived, lines, gone IS NULL FROM sources",
        "answers": f"""SELECT path, a.generation, {", ".join(f"a.{name}" for name in _ANSWER)} FROM answers a
            JOIN sources ON source_id = sources.id WHERE counted = 1""",
        "sessions": "SELECT path, sessions.* FROM sessions JOIN sources ON source_id = sources.id",
        "limits": "SELECT path, l.generation, l.offset, notice FROM limits l JOIN sources ON source_id = sources.id",
        "bad_lines": "SELECT path, b.generation, b.offset, b.length, b.reason FROM bad_lines b JOIN sources "
        "ON source_id = sources.id",
        "agents": "SELECT path, a.session_id, a.agent_id FROM agents a JOIN sources ON source_id = sources.id",
        "history": "SELECT path, h.generation, h.offset, display FROM history h JOIN sources ON source_id = sources.id",
        "todos": "SELECT path, t.position, t.content FROM todos t JOIN sources ON source_id = sources.id",
        "plans": "SELECT path, p.content FROM plans p JOIN sources ON source_id = sources.id",
        "indexed": "SELECT path, i.generation, i.offset, i.state IS NULL FROM indexed i JOIN sources "
        "ON source_id = sources.id",
        "prompts": "SELECT path, p.generation, p.offset, p.time FROM prompts p JOIN sources ON source_id = sources.id",
        "passages": f"SELECT {_PASSAGE}, tool, target, failed, time FROM passages p JOIN sources "
        "ON source_id = sources.id",
        "words": f"SELECT {_PASSAGE}, term, col, count(*) FROM temp.instances JOIN passages p ON p.id = doc "
        f"JOIN sources ON source_id = sources.id GROUP BY {_PASSAGE}, term, col",
    }
    queries |= {
        "digests": """SELECT path, d.generation, d.offset, whole, beginning, tools, compactions FROM digests d
            JOIN sources ON source_id = sources.id""",
        "changed_files": """SELECT s.path, p.path, changes, added, removed FROM changed_files c
            JOIN paths p ON p.id = path_id JOIN sources s ON s.id = c.source_id""",
        "tallies": """SELECT path, files, added, removed, tools, peak, curve FROM tallies
            JOIN sources ON source_id = sources.id""",
    }
    with closing(sqlite3.connect(folder / "store.db")) as database:
        database.execute("CREATE VIRTUAL TABLE temp.instances USING fts5vocab (main, words, instance)")
        found = {name: sorted(database.execute(query).fetchall(), key=repr) for name, query in queries.items()}
    found["sessions"] = [(path, *rest) for path, _, *rest in found["sessions"]]
    return found


_PASSAGE = "path, p.generation, p.offset, p.number, p.kind"
_ANSWER = (
    "id", "copies", "offset", "time", "model", "session_id", "agent_id", "project", "input_tokens", "output_tokens",
    "cache_read_tokens", "final", "estimated_output_tokens", "cost_micros",
)  # fmt: skip


def check_integrity(folder: Path) -> None:
    """Let SQLite look at every page of store and archive."""
    for name in ("store.db", "archive.db"):
        with closing(sqlite3.connect(folder / name)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []
            if name == "store.db":
                database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
                stamps = "SELECT path, size, modified, device, inode FROM sources WHERE gone IS NULL"
                known = read_stamps(database, Path("/"))
                packed = {(path + name, *stamp) for path, names in known.items() for name, stamp in names.items()}
                assert packed == set(database.execute(stamps))


def check(world: World, folder: Path, fresh: Path) -> None:
    """Compare a store and its archive with the model, row by row; `fresh` is a place for a new store."""
    check_integrity(folder)
    assert archived(folder) == world.seen
    assert counted(folder) == sorted(billed(world.seen.values()).items())
    found = rows(folder, world.root)
    assert {path for path, row in found.items() if row["gone"]} == world.seen.keys() - set(map(str, world.paths))
    synced(fresh, world.root)
    assert {path: row for path, row in found.items() if not row["gone"]} == rows(fresh, world.root)
    ours, theirs = tables(folder), tables(fresh)
    there = {path for path, row in found.items() if not row["gone"]}
    for name in ("changed_files", "tallies") if is_indexed(folder) else ():
        assert [row for row in ours[name] if row[0] in there] == theirs[name]


def is_indexed(folder: Path) -> bool:
    """Tell whether all that was read is indexed: not every command sees to that."""
    with closing(sqlite3.connect(folder / "store.db")) as database:
        return bool(database.execute("SELECT count(*) FROM unindexed").fetchone() == (0,))


def differences(one: Iterable[Any], other: Iterable[Any]) -> list[Any]:
    """Return what only one of two has, or has more often."""
    ours, theirs = Counter(map(repr, one)), Counter(map(repr, other))
    return [*(ours - theirs).elements(), *(theirs - ours).elements()]
