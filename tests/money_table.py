"""Print what each surface says that all sessions of a tree cost: `python -m tests.money_table [TREE…]`.

Surfaces are what people add up or read off: `usage`, `ls`, SQL, the library, the JSON of the page, and a lake. Each of
them runs as people run it, in a process of its own. Without names the trees are those of `money_trees.py`, a part of
the conformance set, and real files if there are any. The exit code is 1 if two surfaces of a tree differ.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tests.money_trees import TREES, conformance_cases
from tests.serving import serving

ROOT = Path(__file__).parents[1]
NAMED_CASES = (
    "agent-beside-the-session", "agent-in-both-places", "agent-of-two-sessions", "agent-without-its-session",
    "all-together", "copy-in-another-project", "copy-under-another-name", "forked-session",
    "model-that-looks-like-another", "no-ids-at-all", "progress-of-a-lost-agent", "replayed-sidechain",
)  # fmt: skip
LIBRARY = """
import sys, unspool
home = unspool.open(sys.argv[1])
sums = [session.usage for session in home.sessions()]
cost, unpriced = sum(usage.cost_micros for usage in sums), sum(usage.unpriced for usage in sums)
table = home.usage(by="session")
assert table.totals["cost_micros"] in (cost, None) and sum(row["cost_micros"] or 0 for row in table) == cost
print(cost if cost or not unpriced else "null")
"""
SQL = """SELECT {key}, 'sessions' AS said_by, sum(cost_micros)::BIGINT AS cost, sum(unpriced_tokens)::BIGINT AS unpriced
FROM sessions GROUP BY ALL
UNION ALL SELECT {key}, 'responses', sum(cost_micros)::BIGINT, sum(unpriced_tokens)::BIGINT
FROM responses GROUP BY ALL"""

Cost: TypeAlias = int | None
"""Micro-dollars; None if nothing that was used has a price."""


class Surface(NamedTuple):
    """What says what sessions cost, and what it says."""

    name: str
    cost: Cost


class MoneyTree(NamedTuple):
    """A config folder, and a folder for what is kept of it."""

    name: str
    config: Path
    own: Path


@cache
def _prefix() -> tuple[str, ...]:
    """Return what takes away root's right to read everything, if this is root."""
    bound = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    if os.geteuid() or not shutil.which("setpriv"):
        return ()
    return () if subprocess.run([*bound, "true"], capture_output=True, check=False).returncode else bound


def can_be_unreadable() -> bool:
    """Tell whether files without permission cannot be read here."""
    return bool(os.geteuid() or _prefix())


def run(tree: MoneyTree, *command: str) -> str:
    """Run a command of `unspool`, or Python code, on a tree; return what it prints."""
    environment = {
        "HOME": str(tree.own / "home"),
        "UNSPOOL_HOME": str(tree.own / "store"),
        "UNSPOOL_ORG": "acme",
        "UNSPOOL_DEVICE": device_name(tree),
        "UNSPOOL_USER": "me",
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(ROOT / "src"),
    }
    tree.own.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*_prefix(), sys.executable, *command],
        capture_output=True,
        check=False,
        text=True,
        env=environment,
        cwd=tree.own,
        timeout=300,
    )
    # 1: nothing was found. 4: something could not be read, and the rest was.
    assert done.returncode in (0, 1, 4), (command, done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def device_name(tree: MoneyTree) -> str:
    """Return the name that a tree has in a lake."""
    return tree.name.replace(" ", "-")[:60]


def unspool(tree: MoneyTree, *arguments: str) -> str:
    """Run `unspool` on a tree."""
    return run(tree, "-m", "unspool", *arguments, "--config-dir", str(tree.config))


def ask_commands(tree: MoneyTree) -> Iterator[Surface]:
    """Yield what the commands and the library say, without the store and with it."""
    unspool(tree, "sync")  # a large tree would be read in the background
    for option, kind in ((("--no-store",), "files"), ((), "store")):
        report = json.loads(unspool(tree, "usage", "session", "--json", *option))
        yield Surface(f"usage, {kind}", report["totals"]["cost_micros"])
        yield Surface(f"usage session, {kind}", total(report["rows"]))
        listed = json.loads(unspool(tree, "ls", "--all", "--json", *option))["items"]
        yield Surface(f"ls, {kind}", total(listed))
    yield Surface("library", json.loads(run(tree, "-c", LIBRARY, str(tree.config))))


def total(rows: Sequence[dict[str, Any]]) -> Cost:
    """Return what rows cost together: None if no part of it is known."""
    known = sum(row.get("cost_micros") or 0 for row in rows)
    return known if known or not any(row.get("unpriced_tokens") for row in rows) else None


def ask_sql(tree: MoneyTree) -> Iterator[Surface]:
    """Yield what SQL says."""
    rows = csv.DictReader(io.StringIO(unspool(tree, "sql", "--format", "csv", SQL.format(key="'' AS device"))))
    yield from _sql_surfaces("sql", list(rows))


def ask_page(tree: MoneyTree) -> Iterator[Surface]:
    """Yield what the JSON of the page says."""
    with serving(tree.config, home=tree.own / "store", prefix=_prefix()) as served:
        served.enter()
        yield Surface("page usage", served.get("/usage.json?range=all").json["totals"]["cost_micros"])
        page = served.get("/sessions.json?hidden=1&limit=1000").json
        yield Surface("page sessions", page["cost_micros"])
        folded = sum(row["folded_cost_micros"] for row in page["rows"])
        rows = total(page["rows"])
        yield Surface("page rows", (rows or 0) + folded if rows is not None or folded else None)


def collect(tree: MoneyTree, place: Path) -> None:
    """Send a tree to an object store in a folder."""
    unspool(tree, "collect", "--once", "--to", place.as_uri())


def ask_lake(trees: Sequence[MoneyTree], place: Path) -> dict[str, list[Surface]]:
    """Return what one lake of many trees says of each: making it takes long, and so it is made once."""
    lake, whole = str(place / "lake"), MoneyTree("lake", place, place / "own")
    run(whole, "-m", "unspool", "lake", "init", lake)
    run(whole, "-m", "unspool", "lake", "ingest", "--from", (place / "segments").as_uri(), "--to", lake)
    query = SQL.format(key="device")
    said = run(whole, "-m", "unspool", "lake", "sql", "--lake", lake, "--format", "csv", query)
    rows = list(csv.DictReader(io.StringIO(said)))
    return {
        tree.name: list(_sql_surfaces("lake", [row for row in rows if row["device"] == device_name(tree)]))
        for tree in trees
    }


def _sql_surfaces(name: str, rows: Sequence[dict[str, str]]) -> Iterator[Surface]:
    for table in ("sessions", "responses"):
        row = next((row for row in rows if row["said_by"] == table), {"cost": "", "unpriced": ""})
        # Of no rows at all the sum is null too; of null and 0 it is 0.
        cost, unpriced = int(row["cost"] or 0), int(row["unpriced"] or 0)
        yield Surface(f"{name} {table}", cost if cost or not unpriced else None)


def make_trees(place: Path, names: Sequence[str] = ()) -> list[MoneyTree]:
    """Write the trees with these names, or all."""
    made = []
    for name, write in TREES.items():
        if (names and name not in names) or (name.startswith("unreadable") and not can_be_unreadable()):
            continue
        config = place / "trees" / name / ".claude"
        config.parent.mkdir(parents=True)
        write(config)
        made.append(MoneyTree(name, config, place / "own" / name))
    for name, config in conformance_cases():
        if name in (names or NAMED_CASES):
            made.append(MoneyTree(name, config, place / "own" / name))
    corpus = Path(os.environ.get("UNSPOOL_CORPUS") or ROOT.parent / "shared" / "data" / "real")
    if corpus.is_dir() and (not names or "real files" in names):
        made.append(MoneyTree("real files", corpus.resolve(), place / "own" / "real files"))
    return made


def ask_everything(trees: Sequence[MoneyTree], place: Path, *, with_lake: bool = True) -> dict[str, list[Surface]]:
    """Return what each surface says of each tree."""
    said = {}
    for tree in trees:
        said[tree.name] = [*ask_commands(tree), *ask_sql(tree), *ask_page(tree)]
        if with_lake:
            collect(tree, place / "segments")
    if with_lake:
        for name, surfaces in ask_lake(trees, place).items():
            said[name] += surfaces
    return said


def format_cost(cost: Cost) -> str:
    """Return a cost as a cell of the table."""
    return "?" if cost is None else f"{cost / 1e6:.6f}"


def print_table(said: dict[str, list[Surface]]) -> bool:
    """Print a row for each tree; return whether the surfaces agree."""
    names = [surface.name for surface in next(iter(said.values()))]
    print("|", " | ".join(["tree", *names, "equal"]), "|")
    print("|", " | ".join(["---"] * (len(names) + 2)), "|")
    for tree, surfaces in said.items():
        equal = len({surface.cost for surface in surfaces}) == 1
        print(
            "|", " | ".join([tree, *(format_cost(surface.cost) for surface in surfaces), "yes" if equal else "NO"]), "|"
        )
    return all(len({surface.cost for surface in surfaces}) == 1 for surfaces in said.values())


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        try:
            return 0 if print_table(ask_everything(make_trees(place, sys.argv[1:]), place)) else 1
        finally:
            for path in place.rglob("*"):
                if path.is_dir() and not path.stat().st_mode & 0o500:
                    path.chmod(0o700)


if __name__ == "__main__":
    sys.exit(main())
