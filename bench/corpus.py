"""A made-up config folder to measure on: parameters in, a tree of session files out, the same bytes every time.

It is kept in `.bench/` and made again only if the parameters, or the modules that write it, have changed.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from bench import beside, families, tools, transcript, words
from bench.families import FAMILIES, Family
from bench.transcript import Place, Transcript
from bench.words import Words
from unspool.paths import project_key

CACHE = Path(__file__).parent.parent / ".bench"
_SMALLEST = 10_000
"""Bytes of a session that is as good as empty: a prompt and its answer may have more."""
_WRITERS = (beside, families, tools, transcript, words, sys.modules[__name__])


class Parameters(msgspec.Struct, frozen=True):
    """What a tree is made from. The shares of the families are shares of sessions."""

    size: int = 300_000_000
    """How many bytes of session files, at least."""
    seed: int = 1
    shares: tuple[tuple[str, float], ...] = (("2.0", 0.2), ("2.1", 0.6), ("2.1.160", 0.2))
    projects: int = 40
    sessions: int | None = None
    """Exactly so many files of sessions, much alike in size and without those of agents; else as it comes."""


class Made(NamedTuple):
    """A file of the tree."""

    name: str
    data: bytes


def tree(parameters: Parameters, cache: Path = CACHE, name: str = "tree") -> Path:
    """Return the folder with the tree, made now if it is not there yet."""
    root, stamp = cache / name, cache / f"{name}.json"
    wanted = msgspec.json.encode({"parameters": parameters, "writers": digest()})
    if stamp.exists() and stamp.read_bytes() == wanted:
        return root
    ready(cache)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    written = 0
    for made in files(parameters):
        path = root / made.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.data)
        written += len(made.data)
        say(f"making a tree: {written / 1e6:.0f} of {parameters.size / 1e6:.0f} MB")
    say("")
    stamp.write_bytes(wanted)
    return root


def ready(cache: Path = CACHE) -> Path:
    """Make the cache folder, which keeps itself out of version control."""
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    return cache


def say(words: str) -> None:
    """Show a line of progress in place of the one before."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def files(parameters: Parameters) -> Iterator[Made]:
    """Yield every file of a tree."""
    random = Random(parameters.seed)
    vocabulary = Words(random)
    folders = [f"/home/me/work/{vocabulary.word()}-{vocabulary.word()}" for _ in range(parameters.projects)]
    names, weights = zip(*parameters.shares, strict=True)
    history: list[bytes] = []
    written = 0
    while written < parameters.size if parameters.sessions is None else len(history) < parameters.sessions:
        (name,) = random.choices(names, weights)
        place = Place(random.choice(folders), _session_id(random))
        if parameters.sessions is None:
            session = _session(FAMILIES[name], place, vocabulary, random)
        else:
            share = (parameters.size - written) // (parameters.sessions - len(history))
            session = _alike(FAMILIES[name], place, vocabulary, random, share)
        for made in session:
            written += len(made.data)
            yield made
        prompt = {"display": vocabulary.prose(80), "pastedContents": {}, "timestamp": 1_760_000_000_000}
        history.append(msgspec.json.encode({**prompt, "project": place.folder, "sessionId": place.session_id}))
    yield Made("history.jsonl", b"\n".join(history) + b"\n")
    yield Made("settings.json", b'{"cleanupPeriodDays": 30}\n')


def _session(family: Family, place: Place, words: Words, random: Random) -> Iterator[Made]:
    """Yield the file of a session and those of its agents. Some are empty, some hold nothing but titles."""
    project = f"projects/{project_key(place.folder)}"
    session = Transcript(family, place, words, random)
    chance = random.random()
    if chance > 0.3:
        for _ in range(words.size(1, 1.0, 40)):
            session.turn(words.size(5, 0.8, 60))
    elif chance > 0.1 and not family.newest:
        for _ in range(words.size(2, 0.7)):
            session.summary()
    yield Made(f"{project}/{place.session_id}.jsonl", b"".join(session.lines))
    inner = project if family.beside else f"{project}/{place.session_id}/subagents"
    for agent_id, prompt in session.agents:
        agent = Transcript(family, place._replace(agent_id=agent_id), words, random)
        agent.turn(words.size(9, 0.7, 80), prompt)
        yield Made(f"{inner}/agent-{agent_id}.jsonl", b"".join(agent.lines))
        if family.newest:
            yield Made(f"{inner}/agent-{agent_id}.meta.json", b'{"agentType":"Explore"}')
    for _ in range(0 if family.newest else words.size(1, 0.5) - 1):
        agent_id = f"a{random.getrandbits(24):06x}"
        agent = Transcript(family, place._replace(agent_id=agent_id), words, random)
        agent.warm_up()
        yield Made(f"{inner}/agent-{agent_id}.jsonl", b"".join(agent.lines))


def _alike(family: Family, place: Place, words: Words, random: Random, size: int) -> Iterator[Made]:
    """Yield the file of a session of about that size; one that became far too large is begun again."""
    lines: list[bytes] = []
    while not 0 < sum(map(len, lines)) <= 2 * max(size, _SMALLEST):
        session = Transcript(family, place, words, random)
        lines = session.lines
        while not lines or sum(map(len, lines)) < size:
            session.turn(1 + int(random.random() * 3))
    yield Made(f"projects/{project_key(place.folder)}/{place.session_id}.jsonl", b"".join(lines))


def _session_id(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"


def digest() -> str:
    """Return what tells one edition of the writers from another."""
    text = b"".join(Path(str(module.__file__)).read_bytes() for module in _WRITERS)
    return hashlib.sha256(text).hexdigest()
