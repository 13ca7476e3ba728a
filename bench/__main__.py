"""Runs the benchmarks named, or all of them but the large one: `python -m bench [NAME…]`; `--help` has the names.

Timings never gate: the exit code is 0 whatever they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import msgspec

from bench import (
    chain,
    chat,
    collect,
    columns,
    corpus,
    decode,
    edit,
    export,
    graph,
    lake,
    live,
    mcp_server,
    memory,
    mix,
    redact,
    sandbox,
    search,
    startup,
    store,
    table,
    usage,
    web,
)
from bench.families import FAMILIES
from bench.table import Row


def main() -> None:
    """Run and print."""
    options = _arguments()
    parameters = corpus.Parameters(size=round(options.size * 1e6), shares=_shares(options.families))
    benchmarks: dict[str, Callable[[], list[Row]]] = {
        "chain": chain.rows,
        "chat": chat.rows,
        "collect": lambda: collect.rows(parameters),
        "columns": lambda: columns.rows(parameters),
        "decode": lambda: decode.rows(parameters),
        "edit": edit.rows,
        "export": export.rows,
        "graph": lambda: graph.rows(parameters),
        "lake": lambda: lake.rows(parameters),
        "mcp": lambda: mcp_server.rows(parameters),
        "memory": memory.rows,
        "redact": lambda: redact.rows(parameters),
        "sandbox": sandbox.rows,
        "startup": startup.rows,
        "store": lambda: store.rows(parameters),
        "usage": lambda: usage.rows(parameters),
        "search": lambda: search.rows(parameters),
        "web": web.rows,
        "live": live.rows,
        "large": lambda: store.large_rows(parameters),
    }
    names = options.names or [name for name in benchmarks if name != "large"]
    if unknown := set(names) - {"corpus", *benchmarks}:
        sys.exit(f"no such benchmark: `{'`, `'.join(sorted(unknown))}`")
    if "corpus" in names:
        print("\n".join(mix.describe(mix.measure(corpus.tree(parameters)))))
    rows = [row for name, run in benchmarks.items() if name in names for row in run()]
    if options.json:
        print(msgspec.json.encode([row.as_data() for row in rows]).decode())
    elif rows:
        print("\n".join(table.lines(rows)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure unspool.")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="chat, collect, columns, corpus, decode, edit, export, graph, mcp, memory, redact, sandbox, startup, "
        "store, usage, search, web, live, large; "
        "default: all but corpus and large",
    )
    parser.add_argument("--size", type=float, default=300, metavar="MB", help="of the tree (default: 300)")
    parser.add_argument(
        "--families",
        default="2.0=0.2,2.1=0.6,2.1.160=0.2",
        metavar="NAME=SHARE,…",
        help="versions that wrote the tree, by share of sessions (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, with more figures")
    return parser.parse_args()


def _shares(text: str) -> tuple[tuple[str, float], ...]:
    pairs = [item.partition("=") for item in text.split(",")]
    if unknown := {name for name, _, _ in pairs} - set(FAMILIES):
        sys.exit(f"no such family: `{'`, `'.join(sorted(unknown))}`; there are `{'`, `'.join(FAMILIES)}`")
    return tuple((name, float(share or 1)) for name, _, share in pairs)


if __name__ == "__main__":
    main()
