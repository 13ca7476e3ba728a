"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click

from unspool.errors import UsageError
from unspool.paths import config_folder, resolve_existing

Command: TypeAlias = Callable[..., Any]
"""A function that click decorators make a command of."""


class AccessOptions(NamedTuple):
    """Which folder a command reads, and whether it may use and update the store."""

    config_dir: str | None
    no_sync: bool = False
    no_store: bool = False
    wait: bool = False
    """Whether a large folder that was never read is synced first, however long that takes."""


def output_options(command: Command) -> Command:
    """Add the options of every reading command: `--json` and `--config-dir`."""
    return json_option(config_option(command))


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON.")(command)


def config_option(command: Command) -> Command:
    """Add `--config-dir`, which may also stand before the command."""
    help_text = "What to read; may also stand before the command."
    return click.option("--config-dir", metavar="PATH", callback=_config_dir, help=help_text)(command)


def folders_option(command: Command) -> Command:
    """Add `--config-dir` as `config_dirs`: once, several times, or before the command."""
    help_text = "What to read; several times for several folders. May also stand before the command."
    return click.option(
        "--config-dir", "config_dirs", metavar="PATH", multiple=True, callback=_config_dirs, help=help_text
    )(command)


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Return the values of `--set NAME=VALUE`, by name."""
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(f"`--set {assignment}` names no value", hint="`--set NAME=VALUE`")
        values[name] = value
    return values


def store_options(command: Command) -> Command:
    """Add `--no-sync` and `--no-store`; the command gets them, and `--config-dir` if it has it, as `access`."""

    @click.option("--no-sync", is_flag=True, help="Answer from the store as it is.")
    @click.option("--no-store", is_flag=True, help="Answer from the files; leave the store alone.")
    @wraps(command)
    def run(*, no_sync: bool, no_store: bool, config_dir: str | None = None, **options: Any) -> None:
        command(access=AccessOptions(config_dir, no_sync, no_store), **options)

    return run


def find_config_folder(config_dir: str | None) -> Path:
    """Return the absolute path of the config folder that `--config-dir` or the environment names; it must exist."""
    return resolve_existing(config_folder(config_dir, os.environ))


def _config_dir(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    return value or ctx.find_root().obj.config_dir


def _config_dirs(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> tuple[str | None, ...]:
    return values or (ctx.find_root().obj.config_dir,)
