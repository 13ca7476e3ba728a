"""Runs the fuzz of every command and page: `python -m tests.fuzz [--seconds N] [--seed N]`.

Prints each cause once, with the seed of the tree that shows it, and exits with 1 if there was any.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.hostile_tree import write_hostile_tree
from tests.fuzz.surfaces import run_everything


def main() -> None:
    """Run rounds until the time is up."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, help="only this tree")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    seeds = [options.seed] if options.seed is not None else itertools.count(options.first)
    end, causes, rounds = time.monotonic() + options.seconds, dict[str, int](), 0
    for seed in seeds:
        if time.monotonic() > end:
            break
        rounds += 1
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "claude"
            write_hostile_tree(config, seed)
            slow = options.seed is not None or seed % 8 == 0
            for failure in run_everything(config, Path(folder) / "data", slow=slow):
                if failure.cause not in causes:
                    print(f"seed {seed}: `{failure.surface}`\n{failure.detail}\n", flush=True)
                causes[failure.cause] = causes.get(failure.cause, 0) + 1
    for cause, count in sorted(causes.items(), key=lambda item: -item[1]):
        print(f"{count:6} × {cause}")
    print(f"{rounds} trees, {len(causes)} causes of failure")
    sys.exit(bool(causes))


if __name__ == "__main__":
    main()
