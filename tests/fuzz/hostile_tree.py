"""Makes config folders in which any field of any line and any file may hold any JSON.

A tree is the demo folder with damage at random places. The same seed makes the same tree, so that a failure that names
its seed can be made again: `python -m tests.fuzz --seed N`.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

from msgspec import inspect

from unspool.demo import write_demo
from unspool.format.records import KnownRecord
from unspool.format.tools.parse import RESULT_TYPES

HUGE = 10**30
DEEP = 200
"""Levels of nesting: more than any record has, but `json.dumps` can still write it."""


MARKS = [
    "<command-name>", "<command-message>", "<local-command-stdout>", "<task-notification><task-id>", "<bash-input>",
    "<bash-stdout>", "Claude AI usage limit reached|", "You've hit your limit · resets 9am (", "API Error: ",
    "[Request interrupted by user", "This session is being continued", "Caveat: ", "<system-reminder>", "2.1.",
    "agentId: ", "<persisted-output>", "data:image/png;base64,", "@v", "toolu_", "/", "~", "file:///",
    "<tool_use_error>",
]  # fmt: skip
"""Beginnings of texts that are parsed further."""


def _deep(_: random.Random) -> Any:
    value: Any = "deep"
    for _level in range(DEEP):
        value = [value] if _level % 2 else {"content": value}
    return value


VALUES: list[Callable[[random.Random], Any]] = [
    lambda _: None,
    lambda _: True,
    lambda _: False,
    lambda _: 0,
    lambda _: -1,
    lambda _: HUGE,
    lambda _: -HUGE,
    lambda _: 2**63,
    lambda _: -(2**63) - 1,
    lambda _: 2**53 + 1,
    lambda _: 1e308,
    lambda _: -1e308,
    lambda _: 0.1,
    lambda _: "",
    lambda _: " ",
    lambda _: "NaN",
    lambda _: "-Infinity",
    lambda _: "x",
    lambda _: "\ud800",
    lambda _: "\0",
    lambda _: "\x1b[2J\x1b]0;title\x07",
    lambda _: "a" + "\u0301" * 3000,
    lambda _: "../outside/of/it",
    lambda _: "2026-99-99T99:99:99Z",
    lambda _: "0000-00-00T00:00:00.000Z",
    lambda _: "9999-12-31T23:59:59.999999-14:00",
    lambda _: "0001-01-01T00:00:00+14:00",
    lambda _: [],
    lambda _: {},
    lambda _: ["x"],
    lambda _: [None, 1, "x", [], {}],
    lambda _: {"x": 1},
    lambda _: {"type": ["x"], "content": {"type": {}}},
    lambda _: [{"type": ["text"], "text": "tide"}, {"type": {}}, {"type": 3}, {"type": None}, 5, "words", None, []],
    lambda _: {"type": "text", "text": ["tide"]},
    lambda _: [{"type": "tool_use", "id": {}, "name": [], "input": 3}, {"type": "tool_result", "tool_use_id": []}],
    lambda _: [{"type": "image", "source": {"type": "base64", "data": 3}}, {"type": "document", "source": []}],
    _deep,
    lambda rng: "".join(chr(rng.choice((9, 13, 27, 34, 92, 160, 0x300, 0x202E, 0x1F600, 0xFFFF))) for _ in range(50)),
    lambda rng: rng.randint(-(10**18), 10**18),
    lambda rng: "9" * rng.choice((19, 400, 5000)),
    lambda rng: rng.choice(MARKS) + rng.choice(("", "9" * 5000, "x</x>", "\x1b[" + "9" * 5000 + "m", "\n\n<a")),
]


def write_hostile_tree(folder: Path, seed: int) -> None:
    """Write a config folder whose damage is decided by `seed`."""
    rng = random.Random(seed)
    write_demo(folder)
    # A tree with all sessions takes most of the time of a round; three with their agents and side files are enough.
    sessions = sorted((folder / "projects").glob("*/*.jsonl"))
    for path in rng.sample(sessions, max(0, len(sessions) - 4)):
        path.unlink()
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".jsonl":
            lines = [damage_line(line, rng) for line in path.read_bytes().splitlines(keepends=True)]
            for _ in range(rng.randrange(12)):
                lines.insert(rng.randrange(len(lines) + 1), damage_line(make_line(rng, lines), rng, often=0.6))
            path.write_bytes(b"".join(lines))
        elif "@v" in path.name and rng.random() < 0.2:
            path.rename(path.with_name(path.name.split("@")[0] + "@v" + "9" * rng.choice((1, 18, 30, 200))))
        elif path.suffix == ".json" and rng.random() < 0.5:
            path.write_bytes(damage_line(path.read_bytes(), rng, often=1.0))


def make_line(rng: random.Random, lines: list[bytes]) -> bytes:
    """Return a line of any declared kind with most of its declared fields, in the thread of another line."""
    value = _make_value(rng.choice(_record_types()), rng, 0)
    neighbour = _read_object(rng.choice(lines)) if lines else {}
    for name in ("sessionId", "cwd", "version", "timestamp", "isSidechain", "agentId"):
        if name in neighbour and rng.random() < 0.9:
            value[name] = neighbour[name]
    if rng.random() < 0.7:
        value["parentUuid"] = neighbour.get("uuid")
    value["uuid"] = f"{rng.getrandbits(32):08x}-0000-4000-8000-{rng.getrandbits(48):012x}"
    if value.get("type") == "user" and rng.random() < 0.5:
        value["toolUseResult"] = _make_value(rng.choice(_result_types()), rng, 0)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _read_object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


@cache
def _record_types() -> list[inspect.Type]:
    return list(inspect.multi_type_info(get_args(KnownRecord)))


@cache
def _result_types() -> list[inspect.Type]:
    return list(inspect.multi_type_info(sorted({kind for kinds in RESULT_TYPES.values() for kind in kinds}, key=str)))


def _make_value(info: inspect.Type, rng: random.Random, level: int) -> Any:
    """Return a value of a declared type; now and then of another."""
    if level > 6 or (level and rng.random() < 0.02):
        return rng.choice(VALUES)(rng)
    match info:
        case inspect.StructType():
            value = {info.tag_field: info.tag} if info.tag_field else {}
            for field in info.fields:
                if rng.random() < 0.8:
                    value[field.encode_name] = _make_value(field.type, rng, level + 1)
            return value
        case inspect.UnionType():
            return _make_value(rng.choice(info.types), rng, level + 1)
        case inspect.VarTupleType() | inspect.ListType():
            return [_make_value(info.item_type, rng, level + 1) for _ in range(rng.randrange(3))]
        case inspect.DictType():
            return {rng.choice(("a", "src/a.py", "")): _make_value(info.value_type, rng, level + 1)}
        case inspect.StrType():
            return rng.choice(("x", "tide", "src/a.py", "2026-01-05T09:00:00.000Z", "Bash", "Read", "text", *MARKS))
        case inspect.IntType():
            return rng.choice((0, 1, 7, 1500, -5, 10**15))
        case inspect.FloatType():
            return rng.choice((0.5, -2.0, 1e12))
        case inspect.BoolType():
            return rng.random() < 0.5
        case inspect.NoneType():
            return None
        case _:
            return rng.choice(VALUES)(rng)


def damage_line(line: bytes, rng: random.Random, often: float = 0.25) -> bytes:
    """Return a line, or with some probability a line that holds something else in up to three places."""
    if rng.random() > often:
        return line
    chance = rng.random()
    if chance < 0.03:
        return line[: rng.randrange(len(line) + 1)]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # the demo has damaged lines of its own
        return line
    if chance < 0.06:
        value = rng.choice(VALUES)(rng)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _damage(value, rng)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass") + b"\n"


def _damage(value: Any, rng: random.Random) -> None:
    """Replace, remove, double or rename one thing somewhere in a value."""
    places = list(_places(value))
    if not places:
        return
    container, key = rng.choice(places)
    action = rng.random()
    if action < 0.75:
        container[key] = rng.choice(VALUES)(rng)
    elif action < 0.85:
        del container[key]
    elif isinstance(container, list):
        container.append(container[key])
    else:
        container[rng.choice(("type", "content", "message", "id", "new", ""))] = container[key]


def _places(value: Any, level: int = 0) -> list[tuple[Any, Any]]:
    """Return every container with every key or index in it. What is deep is not entered further."""
    if level > 12:
        return []
    found: list[tuple[Any, Any]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        found += _places(inner, level + 1)
    return found
