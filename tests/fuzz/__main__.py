"""Runs the fuzz of every command and page: `python -m tests.fuzz [--seconds N] [--seed N] [--only KIND]`.

A round is a folder with damage of one kind: in the session and side files (`tree`), in unspool's own files (`own`), or
files that are swapped while they are read (`swap`). Prints each cause once, with the seed of the round that shows it,
and exits with 1 if there was any.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.hostile_tree import write_hostile_tree
from tests.fuzz.own_files import FilledFolder, run_damaged, write_user_files
from tests.fuzz.surfaces import Failure, count_runs, run_everything, session_ids
from tests.fuzz.swaps import swap_files
from unspool.demo import write_demo

KINDS = ("tree", "own", "swap")


def main() -> None:
    """Run rounds until the time is up."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, help="only this round")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=KINDS, help="only rounds of this kind")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else itertools.count(options.first)
    began, causes, rounds = time.monotonic(), dict[str, int](), dict.fromkeys(KINDS, 0)
    with tempfile.TemporaryDirectory() as folder:
        filled = FilledFolder(Path(folder) / "filled")
        for seed in seeds:
            if time.monotonic() > began + options.seconds:
                break
            # Half of all rounds are hostile trees, and one in six swaps files.
            kind = options.only or ("tree", "own", "tree", "own", "tree", "swap")[seed % 6]
            rounds[kind] += 1
            slow = options.seed is not None or seed % 16 in (0, 1, 5)
            for failure in run_round(kind, seed, Path(folder), filled, slow=slow):
                if failure.cause not in causes:
                    print(f"{kind} seed {seed}: `{failure.surface}`\n{failure.detail}\n", flush=True)
                causes[failure.cause] = causes.get(failure.cause, 0) + 1
    for cause, count in sorted(causes.items(), key=lambda item: -item[1]):
        print(f"{count:6} × {cause}")
    spent = time.monotonic() - began
    print(
        f"{spent:.0f} s; {sum(rounds.values())} rounds ({', '.join(f'{rounds[kind]} {kind}' for kind in KINDS)}); "
        f"{count_runs():,} commands and pages; {len(causes)} causes of failure"
    )
    sys.exit(bool(causes))


def run_round(kind: str, seed: int, folder: Path, filled: FilledFolder, *, slow: bool) -> Iterator[Failure]:
    """Make a folder with damage of one kind, and run everything on it."""
    if kind == "tree":
        with tempfile.TemporaryDirectory(dir=folder) as own:
            write_hostile_tree(Path(own) / "claude", seed)
            yield from run_everything(Path(own) / "claude", Path(own) / "data", slow=slow)
        return
    if not filled.is_kept:
        write_demo(filled.config)
        yield from run_everything(filled.config, filled.data, slow=True, sessions=4, rebuild=False)
        write_user_files(filled.data, session_ids(filled.config)[:4])
        filled.keep()
    filled.put_back()
    if kind == "own":
        yield from run_damaged(filled, seed, slow=slow, sessions=2)
        return
    with swap_files(filled.config, seed):
        yield from run_everything(filled.config, filled.data, slow=slow, sessions=3, may_refuse=True)


if __name__ == "__main__":
    main()
