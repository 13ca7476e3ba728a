"""`unspool demo`: writes a config folder to try things with."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from unspool.cli import options, output
from unspool.demo import write_demo
from unspool.display import parse_time_expression, units


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--now", "time", metavar="TIME", help="Date the newest sessions TIME; without it, now")
@options.json_option
def demo(folder: str, time: str | None, as_json: bool) -> None:
    """Create a config folder with sample data.

    DIR becomes the config folder. It must be new, empty, or an earlier demo. All of the data is invented. The newest
    sessions have today's date, and one of them asks for permission. With `--now`, the dates are the same every time.
    """
    target, now = Path(folder).expanduser(), datetime.now().astimezone()
    summary = write_demo(target, (parse_time_expression(time, now) or now).astimezone(UTC))
    if as_json:
        names = {"path": str(target), "folder": str(target)}
        output.write_document("demo", {**names, **msgspec.structs.asdict(summary)})
        return
    output.print_line(
        f"wrote {units.amount(summary.sessions, 'session')} and {units.amount(summary.agents, 'sub-agent')} "
        f"to {folder}: {units.amount(summary.files, 'file')}, {units.size(summary.bytes)}"
    )
    output.print_line(f"try: unspool --config-dir {shlex.quote(folder)} ls")
