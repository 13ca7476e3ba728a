"""Installs the collector as a service of the system, and reads credentials from a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from unspool.collect import commands, unit_path, unit_text
from unspool.errors import NothingFound, Refused, Unreadable, Unwritable
from unspool.files import read_whole

_PASSED = ("UNSPOOL_HOME", "CLAUDE_CONFIG_DIR")


def install_service(to: str, folder: Path, *, only_print: bool, passed: Sequence[str]) -> None:
    """Write what lets the system start the collector; say what to do with it."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    command = [sys.executable, "-m", "unspool", "collect", "--to", to, "--follow", *passed]
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    text = unit_text(command, environment, sys.platform)
    if only_print:
        click.echo(text.decode(), nl=False)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or 'no reason given').lower()}") from None
    click.echo(f"wrote {path}")
    click.echo(f"start it: {commands(path, sys.platform)[0]}")
    if not (folder / "enrolment.json").exists():
        click.echo("before that: unspool collect enrol --org NAME --user NAME", err=True)


def uninstall_service() -> None:
    """Take it away; say how to end what runs."""
    path = unit_path(Path.home(), sys.platform, os.environ)
    if not path.exists():
        raise NothingFound(f"not installed: `{path}`")
    try:
        path.unlink()
    except OSError as error:
        raise Unwritable(f"cannot remove `{path}`: {(error.strerror or 'no reason given').lower()}") from None
    click.echo(f"removed {path}")
    click.echo(f"end what runs: {commands(path, sys.platform)[1]}")


def load_credentials(path: Path | None) -> None:
    """Put what a file says into the environment of this process; what is set there already counts."""
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
