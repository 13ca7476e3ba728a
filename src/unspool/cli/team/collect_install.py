"""Installs the collector as a service of the system, and reads credentials from a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from unspool.collect import commands, unit_path, unit_text
from unspool.errors import NothingFound, Refused, Unreadable
from unspool.files import raise_unwritable, read_whole

_PASSED_VARIABLES = ("UNSPOOL_HOME", "CLAUDE_CONFIG_DIR")


def install_service(to: str, folder: Path, *, only_print: bool, passed: Sequence[str]) -> None:
    """Write the systemd unit or launchd file of the collector, and print how to start it."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    command = [sys.executable, "-m", "unspool", "collect", "--to", to, "--follow", *passed]
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    text = unit_text(command, environment, sys.platform)
    if only_print:
        click.echo(text.decode(), nl=False)
        return
    with raise_unwritable(f"cannot write `{path}`"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    click.echo(f"wrote {path}")
    click.echo(f"start it: {commands(path, sys.platform)[0]}")
    if not (folder / "enrolment.json").exists():
        click.echo("before that: unspool collect enrol --org NAME --user NAME", err=True)


def uninstall_service() -> None:
    """Remove the unit, and print how to end a collector that runs."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    if not path.exists():
        raise NothingFound(f"not installed: `{path}`")
    with raise_unwritable(f"cannot remove `{path}`"):
        path.unlink()
    click.echo(f"removed {path}")
    click.echo(f"end what runs: {commands(path, sys.platform)[1]}")


def load_credentials(path: Path | None) -> None:
    """Add the variables of a file to the environment of this process; those that are set already stay."""
    if path is None:
        return
    data = read_whole(path, 1024 * 1024)
    if path.stat().st_mode & 0o077:
        raise Refused(f"others may read `{path}`, which holds credentials", hint=f"chmod 600 {path}")
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not name or name.startswith("#"):
            continue
        if not equals or not name.replace("_", "").isalnum():
            raise Unreadable(f"not `NAME=VALUE`: line {number} of `{path}`")
        os.environ.setdefault(name, value.strip("\"'"))
