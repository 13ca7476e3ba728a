"""Options that several commands share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import click

from unspool.display import clean_line
from unspool.errors import UsageError, conflicting_options
from unspool.paths import (
    absolute_path,
    config_folder,
    data_folder,
    drop_nested,
    is_config_folder,
    resolve_existing,
)

if TYPE_CHECKING:
    from unspool.read import Skipped

Command: TypeAlias = Callable[..., Any]
"""A function that click decorators make a command of."""


class FiniteRange(click.FloatRange):
    """A number between bounds. Neither `inf`, nor `nan`, which is within all bounds because it is less than none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class AccessOptions(NamedTuple):
    """Which folders a command reads, and whether it may use and update the store."""

    config_dirs: tuple[str | None, ...] = (None,)
    """None is the folder that the environment names."""
    no_sync: bool = False
    no_store: bool = False
    wait: bool = False
    """Whether a large folder that was never read is synced first, however long that takes."""
    temporary_store: Path | None = None
    """Where the store is, if it is not that of the data folder."""


def output_options(command: Command) -> Command:
    """Add the options of every reading command: `--json` and `--config-dir`."""
    return json_option(folders_option(command))


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return click.option("-j", "--json", "as_json", is_flag=True, help="Print JSON")(command)


def list_output_options(command: Command) -> Command:
    """Add the options of commands that write lists: `--json`, `--jsonl` and `--config-dir`."""
    return json_or_lines_options(folders_option(command))


def json_or_lines_options(command: Command) -> Command:
    """Add `--json` as `as_json` and `--jsonl` as `as_lines`; both together are refused."""

    @click.option("-j", "--json", "as_json", is_flag=True, help="Print JSON: one document")
    @click.option("--jsonl", "as_lines", is_flag=True, help="Print JSON lines: one item per line")
    @wraps(command)
    def run(*, as_json: bool, as_lines: bool, **options: Any) -> None:
        if as_json and as_lines:
            raise conflicting_options("--json", "--jsonl")
        command(as_json=as_json, as_lines=as_lines, **options)

    return run


def one_folder_option(command: Command) -> Command:
    """Add `--config-dir` as `config_dir` to a command that writes into one folder: several are refused."""
    help_text = "Config folder. Also accepted before the command"
    return click.option(
        "--config-dir", "config_dir", metavar="PATH", multiple=True, callback=_one_config_dir, help=help_text
    )(command)


def folders_option(command: Command) -> Command:
    """Add `--config-dir` as `config_dirs`: once, several times, before the command and after it."""
    help_text = "Config folder, project, tree or file to read; repeatable. Also accepted before the command"
    return click.option(
        "--config-dir", "config_dirs", metavar="PATH", multiple=True, callback=_config_dirs, help=help_text
    )(command)


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Return the values of `--set NAME=VALUE`, by name."""
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {assignment} has no value", hint="use `--set NAME=VALUE`")
        values[name] = value
    return values


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([kmg]?)(i?)b?", re.IGNORECASE)


def parse_size(text: str, hint: str) -> int:
    """Return the bytes of a size such as `2000`, `4kB`, `1.5 MB` or `512MiB`.

    >>> parse_size("1.5 MB", ""), parse_size("512MiB", "") >> 20
    (1500000, 512)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"invalid size `{text}`", hint=hint)
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kmg".index(match[2].lower() or " "))


def store_options(command: Command) -> Command:
    """Add `--no-sync` and `--no-store`; the command gets them and `--config-dir` as `access`."""

    @click.option("--no-sync", is_flag=True, help="Use the store without reading new data")
    @click.option("--no-store", is_flag=True, help="Read the files, without the store")
    @wraps(command)
    def run(*, no_sync: bool, no_store: bool, config_dirs: tuple[str | None, ...], **options: Any) -> None:
        command(access=AccessOptions(config_dirs, no_sync, no_store), **options)

    return run


def find_config_folder(config_dir: str | None) -> Path:
    """Return the absolute path of the config folder that `--config-dir` or the environment names; it must exist.

    For commands that write into it: another agent's folder is refused.
    """
    root = resolve_existing(config_folder(config_dir, os.environ))
    refuse_other_agents(root)
    return root


def find_config_folders(config_dirs: Iterable[str | None]) -> list[Path]:
    """Return the absolute paths of config folders, which must exist; each once, and none that lies in another.

    In place of another agent's folder it is the one that its sessions are translated to.
    """
    return drop_nested(_find_folder_to_read(config_dir) for config_dir in config_dirs)


def _find_folder_to_read(config_dir: str | None) -> Path:
    from unspool.cli import output  # start-up: the module that prints is loaded by commands

    root, skipped = translate_folder(resolve_existing(config_folder(config_dir, os.environ)))
    output.warn_skipped(skipped)
    return root


def session_argument(**attributes: Any) -> Callable[[Command], Command]:
    """Add the argument SESSION, which shells complete."""
    return click.argument("session", shell_complete=complete_session, **attributes)


def translate_folder(root: Path) -> tuple[Path, list[Skipped]]:
    """Return the folder to read for a folder, and what could not be read of it: another agent's is translated first."""
    if is_config_folder(root):  # start-up: almost every folder is, and needs no reader of other agents
        return root, []
    from unspool import other_agents

    return other_agents.translate_folder(root, data_folder(os.environ))


def refuse_other_agents(path: Path) -> None:
    """Raise an error if a session or a folder is another agent's, for a command that changes it."""
    from unspool import other_agents  # start-up: most commands only read

    context = click.get_current_context(silent=True)
    action = context.command_path if context else "unspool"
    other_agents.refuse_other_agents(path, action)


def complete_session(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[Any]:
    """Return the sessions whose id begins with what was typed, newest first, from the store as it is."""
    from click.shell_completion import CompletionItem

    if os.sep in incomplete or incomplete.startswith(("~", ".")):
        return [CompletionItem(incomplete, type="file")]
    from unspool.store.catalog import find_session_ids

    named = [*(getattr(ctx.find_root(), "params", {}).get("config_dirs") or ()), *(ctx.params.get("config_dirs") or ())]
    named = [folder for folder in named if folder] or list(_environment_folders()) or [None]
    roots = [absolute_path(config_folder(folder, os.environ)) for folder in dict.fromkeys(named)]
    found = find_session_ids(data_folder(os.environ), roots, incomplete)
    return [CompletionItem(id, help=clean_line(title)[:60]) for id, title in found]


def pasteable(text: str) -> str:
    """Return text with `--config-dir` in the commands that it quotes, if it was given: so that they can be pasted."""
    context = click.get_current_context(silent=True)
    named: tuple[str, ...] = context.meta.get(_GIVEN, ()) if context else ()
    if not named:
        return text
    import shlex  # start-up: most commands print none

    given = " ".join(f"--config-dir {shlex.quote(folder)}" for folder in dict.fromkeys(named))
    return _QUOTED_COMMAND.sub(lambda match: f"{match[1]}unspool {given} ", text)


def resume_command(session_id: str, cwd: str | None) -> str:
    """Return the command that resumes a session in Claude Code, with the config folder that was named."""
    from unspool.display import resume_command as command  # start-up: most commands print none

    context = click.get_current_context(silent=True)
    named: tuple[str, ...] = context.meta.get(_GIVEN, ()) if context else ()
    return command(session_id, cwd, str(Path(named[0]).expanduser().absolute()) if named else None)


_GIVEN = "unspool.config_dirs"
"""Where the context keeps the values of `--config-dir`, before and after the command."""
_QUOTED_COMMAND = re.compile(
    r"(^|`)unspool (?=(?:ls|show|stats|usage|search|sql|watch|serve|edit|export|restore|collect|hooks|sync|doctor)\b)"
)


def _config_dirs(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> tuple[str | None, ...]:
    given = (*ctx.find_root().obj.config_dirs, *values)
    ctx.meta[_GIVEN] = given
    return given or _environment_folders() or (None,)


def _environment_folders() -> tuple[str, ...]:
    """Return the folders that `$CLAUDE_CONFIG_DIR` lists with commas; none if it names one, which may have a comma."""
    named = os.environ.get("CLAUDE_CONFIG_DIR", "")
    if "," not in named or Path(named).expanduser().exists():
        return ()
    return tuple(folder.strip() for folder in named.split(",") if folder.strip())


def _one_config_dir(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    named = list(dict.fromkeys(_config_dirs(ctx, parameter, values)))
    if len(named) > 1:
        command = ctx.command_path.removeprefix("unspool ")
        raise UsageError(
            f"`{command}` writes to one config folder, but {len(named)} were given", hint="pass `--config-dir` once"
        )
    return named[0]
