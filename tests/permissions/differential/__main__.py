"""Runs the differential fuzz of the permission judge: `python -m tests.permissions.differential [--runs N]`.

Prints each violation with the seed of its batch, then what was done, and exits with 1 if there was a violation or a
mutant that was not found. With `--record` the list of mutants is written anew.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.permissions.differential.fuzz import Tally, fuzz_batch
from tests.permissions.differential.mutants import (
    FOUND,
    INERT,
    MAX_COMMANDS,
    Finding,
    is_possible,
    list_mutants,
    search,
    write_findings,
)
from tests.permissions.differential.recorder import find_missing_tools
from tests.permissions.differential.shell_driver import SHELLS

_MUTANT_SEEDS = (1, 2)


def main() -> None:
    """Run batches until there were enough runs, then search for every mutant."""
    parser = argparse.ArgumentParser(prog="python -m tests.permissions.differential")
    parser.add_argument("--runs", type=int, default=50_000, help="how many commands are run, each shell counted")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--mutants", action=argparse.BooleanOptionalAction, default=True, help="search for the mutants")
    parser.add_argument("--only", default="", help="only mutants whose names begin with this")
    parser.add_argument("--record", action="store_true", help=f"write {FOUND.name} anew")
    options = parser.parse_args()
    if missing := find_missing_tools():
        sys.exit(f"the differential fuzz needs {', '.join(missing)}")
    with ProcessPoolExecutor(options.workers) as pool:
        has_failed = bool(options.runs) and run_fuzz(pool, options.runs, options.first, options.workers)
        if options.mutants:
            has_failed |= search_mutants(pool, options.only, record=options.record)
    sys.exit(has_failed)


def run_fuzz(pool: ProcessPoolExecutor, runs: int, first: int, workers: int) -> bool:
    """Run batches; return whether there was a violation."""
    began, tally, seed = time.monotonic(), Tally(), first
    while tally.runs < runs:
        for number, found in enumerate(pool.map(fuzz_batch, range(seed, seed + workers))):
            for violation in found.violations:
                print(f"seed {seed + number}, {violation.shell}: {violation.command!r}: {violation.what}", flush=True)
            tally = tally.add(found)
        seed += workers
        print(f"{tally.runs:,} runs, {len(tally.violations)} violations", file=sys.stderr, flush=True)
    print(
        f"{tally.judged:,} commands judged; {tally.allowed:,} allowed; {tally.runs:,} runs in {len(SHELLS)} shells "
        f"({tally.stopped} stopped); {len(tally.violations)} violations; {(time.monotonic() - began) / 60:.1f} min"
    )
    return bool(tally.violations)


def search_mutants(pool: ProcessPoolExecutor, only: str, *, record: bool) -> bool:
    """Search for every mutant whose name begins with a text; return whether one was not found."""
    began = time.monotonic()
    mutants = [mutant for mutant in list_mutants() if is_possible(mutant) and mutant.name.startswith(only)]
    found: dict[str, tuple[int, Finding] | None] = {}
    for mutant, finding in zip(mutants, pool.map(_search_by_name, [mutant.name for mutant in mutants]), strict=True):
        found[mutant.name] = finding
        print(f"{mutant.name}: {'not found' if finding is None else 'found'}", file=sys.stderr, flush=True)
    survivors = [name for name, finding in found.items() if finding is None]
    for name in survivors:
        print(f"not found: {name}")
    others = [mutant.name for mutant in list_mutants() if not is_possible(mutant)]
    if others:
        print(f"not tried, because the program is not here: {', '.join(others)}")
    minutes = (time.monotonic() - began) / 60
    print(f"{len(found)} mutants; {len(found) - len(survivors)} found; {len(INERT)} rules inert; {minutes:.1f} min")
    if record:
        write_findings({name: finding for name, finding in found.items() if finding is not None})
    return bool(survivors)


def _search_by_name(name: str) -> tuple[int, Finding] | None:
    """Search for a mutant with one seed after the other; by its name, as functions are not handed to a process."""
    mutant = next(mutant for mutant in list_mutants() if mutant.name == name)
    for seed in _MUTANT_SEEDS:
        if (finding := search(mutant, seed, MAX_COMMANDS)) is not None:
            return seed, finding
    return None


if __name__ == "__main__":
    main()
