"""One long session, alone in its folder: how many records and bytes in, its place out, the same bytes every time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec

from bench import corpus
from bench.families import FAMILIES, Family
from bench.transcript import Place, Transcript
from bench.words import Words
from unspool.paths import project_key

FOLDER = "/home/me/work/long"
ID = "10000000-0000-4000-8000-000000000001"
FIRST_PROMPT = "The first prompt of a long session."


class Length(msgspec.Struct, frozen=True):
    """How long."""

    size: int
    records: int | None = None
    """Without it as many as it takes, with lines of all sizes; with it large ones are left out."""
    seed: int = 1


class Long(Transcript):
    """A session that never ends by itself."""

    def go_on(self, most: float | None) -> None:
        """Write a turn; one whose lines have more bytes than that on average is written again."""
        before, parent = len(self.lines), self._parent
        while True:
            self.turn(self._words.size(5, 0.8, 60))
            made = self.lines[before:]
            if most is None or sum(map(len, made)) <= most * len(made):
                return
            del self.lines[before:]
            self._parent = parent


def session(length: Length, family: Family | None = None) -> list[bytes]:
    """Return the lines."""
    random = Random(length.seed)
    made = Long(family or FAMILIES["2.1.160"], Place(FOLDER, ID), Words(random), random)
    made.turn(2, FIRST_PROMPT)
    written, counted = 0, 0

    def news() -> int:
        nonlocal counted
        fresh = sum(map(len, made.lines[counted:]))
        counted = len(made.lines)
        return fresh

    written = news()
    while len(made.lines) < length.records if length.records else written < length.size:
        left = length.records - len(made.lines) if length.records else 0
        made.go_on(max(1_000.0, 1.6 * (length.size - written) / left) if left > 0 else None)
        written += news()
    return made.lines


def folder(name: str, length: Length, cache: Path = corpus.CACHE) -> Path:
    """Return a config folder with the session, made now if it is not there yet."""
    root, stamp = cache / name, cache / f"{name}.json"
    wanted = msgspec.json.encode({"length": length, "writers": corpus.digest(), "long": _digest()})
    if stamp.exists() and stamp.read_bytes() == wanted:
        return root
    corpus.ready(cache)
    stamp.unlink(missing_ok=True)
    corpus.say(f"making a session of {length.size / 1e6:.0f} MB")
    path = file(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(session(length)))
    stamp.write_bytes(wanted)
    corpus.say("")
    return root


def file(root: Path) -> Path:
    """Return where the session lies in its folder."""
    return root / "projects" / project_key(FOLDER) / f"{ID}.jsonl"


def appended(data: bytes, time: str) -> Iterator[bytes]:
    """Yield lines to add to a session at a time, one answer after the other: `live 0`, `live 1`, …"""
    last = next(line for line in reversed(data.splitlines()) if b'"requestId":' in line)
    record = msgspec.json.decode(last)
    parent, number = record["uuid"], 0
    while True:
        uuid = f"1ffe0000-0000-4000-8000-{number:012d}"
        said = {**record["message"], "id": f"msg_live{number}", "content": [{"type": "text", "text": f"live {number}"}]}
        line = {**record, "parentUuid": parent, "uuid": uuid, "requestId": f"req_live{number}", "message": said}
        line["timestamp"] = time
        yield msgspec.json.encode(line) + b"\n"
        parent, number = uuid, number + 1


def _digest() -> str:
    import hashlib

    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
