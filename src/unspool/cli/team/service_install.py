"""Installs and removes the services that `collect install` and `lake ingest --install` write."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from unspool.collect import Service, log_path, service_commands, unit_path, unit_text
from unspool.errors import NothingFound
from unspool.files import raise_unwritable
from unspool.paths import absolute_path

_PASSED_VARIABLES = ("UNSPOOL_HOME", "CLAUDE_CONFIG_DIR")
"""Variables of this environment that the service gets too."""
_URLS = frozenset({"source", "url"})
"""Options that take a folder or a URL."""


def list_service_options(values: Mapping[str, Any], left_out: Collection[str]) -> list[str]:
    """Return the options of the running command with which the service runs it."""
    arguments = []
    # From the command itself, not from a list: an option that came later must not be missing in the service.
    for option in click.get_current_context().command.params:
        name = option.name or ""
        value = values.get(name)
        if name in left_out or not isinstance(option, click.Option) or value == option.default:
            continue
        if option.is_flag:
            arguments += [option.opts[0]] if value else []
            continue
        for word in (value or ()) if option.multiple else (value,):
            if word is not None:
                arguments += [option.opts[0], _absolute_word(name, word)]
    return arguments


def install_service(service: Service, arguments: Sequence[str], *, only_print: bool) -> None:
    """Write the systemd unit or launchd file that runs unspool with these arguments, and print how to start it."""
    path = unit_path(Path.home(), sys.platform, os.environ, service)
    command = [sys.executable, "-m", "unspool", *arguments]
    environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    text = unit_text(command, environment, sys.platform, service)
    if only_print:
        click.echo(text.decode(), nl=False)
        return
    with raise_unwritable(f"cannot write `{path}`"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    click.echo(f"wrote {path}")
    click.echo(f"start it: {service_commands(path, sys.platform, service)[0]}")
    if sys.platform == "darwin":
        click.echo(f"its output: {log_path(Path.home(), service)}", err=True)
    else:
        click.echo("to keep it running after you log out: loginctl enable-linger", err=True)


def uninstall_service(service: Service) -> None:
    """Remove the unit, and print how to end a service that runs."""
    path = unit_path(Path.home(), sys.platform, os.environ, service)
    if not path.exists():
        raise NothingFound(f"not installed: `{path}`")
    with raise_unwritable(f"cannot remove `{path}`"):
        path.unlink()
    click.echo(f"removed {path}")
    click.echo(f"stop it if it runs: {service_commands(path, sys.platform, service)[1]}")


def _absolute_word(name: str, word: object) -> str:
    """Return the value of an option as text, with an absolute path: the system starts the service elsewhere."""
    is_path = isinstance(word, Path) or name == "config_dirs" or (name in _URLS and "://" not in str(word))
    if is_path or (name in ("include", "exclude") and str(word).startswith(("./", "../", "~"))):
        return str(absolute_path(Path(str(word)).expanduser()))
    return str(word)
