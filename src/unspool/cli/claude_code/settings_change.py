"""Shows a change of Claude Code's settings and asks whether to make it."""

from __future__ import annotations

import difflib
import sys

import click

from unspool.cli import output
from unspool.errors import Refused
from unspool.files import FileSnapshot


def confirm_change(before: FileSnapshot, after: bytes | None, *, yes: bool, as_json: bool) -> None:
    """Show what changes and ask; without a terminal there is nobody to ask."""
    if not as_json:
        _print_difference(before, after)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("not a terminal; pass --yes to confirm", hint="add `--yes`")
    click.confirm("Change the settings?", abort=True)


def _print_difference(before: FileSnapshot, after: bytes | None) -> None:
    if before.is_link:
        output.print_line(f"settings.json is a symbolic link to {before.path}, which would change")
    old = (before.data or b"").decode(errors="replace").splitlines()
    new = (after or b"").decode(errors="replace").splitlines()
    source, target = ("/dev/null" if data is None else str(before.path) for data in (before.data, after))
    for line in difflib.unified_diff(old, new, source, target, n=1):
        output.print_line(line.rstrip("\n"))
