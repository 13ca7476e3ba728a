"""`unspool demo`: writes a config folder to try things with."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from unspool.cli import options, output
from unspool.demo import write_demo
from unspool.display import units


@click.command()
@click.argument("folder", metavar="DIR")
@options.json_option
def demo(folder: str, as_json: bool) -> None:
    """Write a realistic config folder to try things with.

    DIR becomes the config folder: it must be new or empty, or a demo written before. What is written is always the
    same, and all of it is made up.
    """
    target = Path(folder).expanduser()
    summary = write_demo(target)
    if as_json:
        output.write_json({"folder": str(target), **msgspec.structs.asdict(summary)})
        return
    output.print_line(
        f"wrote {units.amount(summary.sessions, 'session')} and {units.amount(summary.agents, 'sub-agent')} "
        f"to {folder}: {units.amount(summary.files, 'file')}, {units.size(summary.bytes)}"
    )
    output.print_line(f"try: unspool doctor {folder}")
