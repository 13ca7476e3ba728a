"""The `unspool` command: loads subcommands when they are called and prints errors in one line.

Rules
  1. Nothing heavy is imported before a command runs: `unspool --help` loads click and this module.
  2. A wrong request ends in one line on stderr and a hint; a traceback is a bug.
  3. Exit codes: 0 done, 1 nothing found, 2 usage, 3 not found, 4 unreadable, 5 refused, 6 API or object store,
     130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple, NoReturn, TypeAlias

import click

from unspool import __version__
from unspool.display import clean, clean_line
from unspool.errors import UnspoolError, UsageError

_COMMANDS = {
    "ls": ("query.ls", "List the sessions, newest first."),
    "show": ("query.show", "Show a session: what was asked, what was done, what came of it."),
    "stats": ("query.stats", "Count what is in a session, or in all of them."),
    "usage": ("query.usage", "Add up tokens and cost: by day, session, model, 5-hour block and more."),
    "search": ("query.search", "Find words in prompts, answers, tool results, plans and all the rest."),
    "sql": ("query.sql", "Ask in SQL: sessions, messages, tool calls, files, responses and their cost."),
    "watch": ("query.watch", "Show which session is doing what, and which one needs you."),
    "serve": ("serve", "Show everything in the browser: who needs you, sessions, search, usage, SQL."),
    "chat": ("chat", "Work with a model; Claude Code can go on with it, and the other way round."),
    "edit": ("edit", "Clone, fork, move, trim or compress a session, and take it back."),
    "export": ("query.export", "Write a session out: byte for byte, as data, or to read; or all of them as tables."),
    "restore": ("restore", "Put a session back in place, byte for byte, from the archive."),
    "collect": ("team.collect", "Send sessions to a team's object store: redacted, each line once."),
    "lake": ("team.lake", "Make Delta tables of what collectors send, and ask them."),
    "redact": ("redact", "Write files without the secrets in them, or say what would be redacted."),
    "hooks": ("hooks", "Let Claude Code tell unspool what it is doing."),
    "sync": ("sync", "Bring the store up to date with a config folder."),
    "doctor": ("doctor", "Say what is in the data: what is known, unknown, damaged or missing."),
    "config": ("config", "Show the settings, or change one."),
    "demo": ("demo", "Write a realistic config folder to try things with."),
    "testing": ("testing", "Test programs that talk to the Messages API, without it."),
}
"""Each command's module and its line in `unspool --help`."""

_EXTRAS = {
    **dict.fromkeys(("starlette", "jinja2", "uvicorn", "anyio", "watchfiles", "nh3", "markdown_it", "pygments"), "web"),
    **dict.fromkeys(("duckdb", "arro3"), "sql"),
    **dict.fromkeys(("httpx2", "prompt_toolkit", "rich"), "chat"),
    **dict.fromkeys(("obstore", "deltalake"), "team"),
}
"""The libraries that are not in the base install, and the extra that brings each."""

StepHook: TypeAlias = Callable[[Mapping[str, str]], Callable[[str], None]]
"""Takes the environment and returns a callback that receives the name of each step of a write."""


class Invocation(NamedTuple):
    """The options before the command, and the hook of the tests."""

    config_dir: str | None
    step_hook: StepHook | None


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a command and return the command."""
        if cmd_name not in _COMMANDS:
            return None
        command = getattr(import_module(f"unspool.cli.{_COMMANDS[cmd_name][0]}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        # click's own listing imports every command for its help line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    epilog="`unspool COMMAND --help` tells more. Nothing leaves this machine but what chat and collect send.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config-dir",
    metavar="PATH",
    help="What to read: a config folder, one project of it, any tree or one file. "
    "Default: $CLAUDE_CONFIG_DIR, then ~/.claude.",
)
@click.version_option(__version__, prog_name="unspool")
@click.pass_context
def unspool(ctx: click.Context, config_dir: str | None) -> None:
    """Read, keep, search and continue the sessions Claude Code leaves in ~/.claude."""
    ctx.obj = Invocation(config_dir, ctx.obj)


def run_command_line(step_hook: StepHook | None = None) -> NoReturn:
    """Run the command line and exit. The hook is for tests (`unspool.testing.faults`)."""
    stream = sys.stdout
    try:
        code = unspool.main(prog_name="unspool", standalone_mode=False, obj=step_hook)
    except UnspoolError as error:
        print_error(error.message, error.hint)
        code = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:  # a kind of UsageError, but its message is the help
        print(error.format_message(), file=sys.stderr)
        code = 2
    except click.ClickException as error:
        code = _report_usage_error(error)
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except SystemExit as end:
        # If the reader of a pipe has gone (`| head`), click replaces stdout and exits with 1. That is no error.
        if sys.stdout is stream:
            raise
        code = 0 if end.code == 1 else end.code
    except ModuleNotFoundError as error:
        code = _report_missing_library(error)
    except BrokenPipeError:  # an OSError too, so it comes first
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains while it exits
        code = 0
    except OSError as error:
        print_error(f"{(error.strerror or str(error)).lower()}: `{error.filename}`", None)
        code = 4
    sys.exit(code or 0)


def _report_usage_error(error: click.ClickException) -> int:
    hint = None
    if isinstance(error, click.UsageError):
        hint = f"see `{error.ctx.command_path if error.ctx else 'unspool'} --help`"
    print_error(_reword_click_message(error.format_message()), hint)
    return error.exit_code


def _report_missing_library(error: ModuleNotFoundError) -> int:
    """Say which extra brings a library; one that no extra brings is a bug, and shows as one."""
    library = (error.name or "").partition(".")[0]
    if library not in _EXTRAS:
        raise error
    command = next((word for word in sys.argv[1:] if word in _COMMANDS), "")
    print_error(
        f"`unspool {command}` needs {library}, which is not installed",
        f"install it with: pip install 'unspool[{_EXTRAS[library]}]'",
    )
    return UsageError.exit_code


def step_hook() -> StepHook | None:
    """Return the hook that this run was started with; None outside tests, and in threads of a server."""
    context = click.get_current_context(silent=True)
    return context.find_root().obj.step_hook if context else None


def on_step() -> Callable[[str], None]:
    """Return the callback that receives the name of each step of a write; it does nothing outside tests."""
    hook = step_hook()
    return hook(os.environ) if hook else lambda _: None


def print_error(message: str, hint: str | None) -> None:
    """Print an error and its hint to stderr."""
    # Messages quote file names and titles, which may hold escape sequences.
    print(f"unspool: {clean_line(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {clean(hint)}", file=sys.stderr)


def _reword_click_message(message: str) -> str:
    """Return a message of click as ours are written: lower case, back quotes, no full stop."""
    reworded = message[:1].lower() + message[1:].removesuffix(".").replace(". Did you", "; did you")
    return reworded.replace("'", "`")
