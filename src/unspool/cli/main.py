"""The `unspool` command: loads subcommands when they are called and prints errors in one line.

Rules
  1. Nothing heavy is imported before a command runs: `unspool --help` loads click and this module.
  2. A wrong request ends in one line on stderr and a hint; a traceback is a bug.
  3. Exit codes are those of `EXIT_CODES`, in every command.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias

import click

from unspool import __version__
from unspool.display import clean, clean_line
from unspool.errors import AmbiguousSession, MissingExtra, UnspoolError

_COMMANDS = {
    "ls": ("query.ls", "List sessions, newest first."),
    "show": ("query.show", "Show a session: prompts, tool calls, results."),
    "stats": ("query.stats", "Count turns, calls, errors and blocks, of one session or all."),
    "compare": ("analysis.compare", "Compare two sessions, two branches, or groups of sessions."),
    "insights": ("analysis.insights", "Report where money and time go: by tool, file, project and failure."),
    "usage": ("query.usage", "Report tokens and cost by day, session, model, 5-hour block and more."),
    "search": ("query.search", "Search prompts, answers, tool results, plans and other text."),
    "sql": ("query.sql", "Run SQL on sessions, messages, tool calls, files and costs."),
    "watch": ("query.watch", "Show what each session is doing, and which one needs you."),
    "serve": ("serve", "Serve the web page: live sessions, search, usage, SQL."),
    "chat": ("chat", "Chat with a model in a session that Claude Code can resume."),
    "edit": ("edit", "Clone, fork, move, trim, compress, repair or redact a session; undo edits."),
    "export": ("query.export", "Export a session as Markdown, HTML, JSON or raw lines; or all as tables."),
    "share": ("query.share", "Write a redacted copy of a session, to send to somebody."),
    "restore": ("restore", "Restore a deleted session from the archive, byte for byte."),
    "collect": ("team.collect", "Send redacted sessions to a team's object store."),
    "lake": ("team.lake", "Build Delta tables from collected sessions, and query them."),
    "redact": ("redact", "Remove secrets from files, or list them."),
    "statusline": ("claude_code.statusline", "Print a status line for Claude Code, or install it."),
    "mcp": ("claude_code.mcp", "Serve the history of sessions to agents over MCP."),
    "hooks": ("claude_code.hooks", "Install or remove hooks that report the status of Claude Code."),
    "sync": ("sync", "Update the store from a config folder."),
    "doctor": ("doctor", "Check the data: unknown, damaged or missing parts."),
    "schema": ("documents.schema", "Print the JSON Schema of the --json output of a command."),
    "config": ("config", "Show or change settings."),
    "completion": ("query.completion", "Print the completion script of a shell."),
    "demo": ("demo", "Create a config folder with sample data."),
    "testing": ("testing", "Serve a scripted Messages API for tests."),
}
"""Each command's module and its line in `unspool --help`."""

EXIT_CODES = {
    0: "Done. Also a query of `unspool sql` without rows, and `unspool doctor` with findings.",
    1: "Nothing found: the request was fine, and nothing matches it. The one exception: `unspool redact --check` exits "
    "with 1 if it finds something to redact, and with 0 if it does not.",
    2: "Wrong usage: an unknown option, options that cannot be used together, a value that cannot be parsed.",
    3: "Not found: no such session, turn, file or folder.",
    4: "Unreadable: a file exists but cannot be read or written.",
    5: "Refused: it is possible, but unspool does not do it; or an extra is not installed.",
    6: "The Messages API or the object store refused or did not answer.",
    130: "Interrupted with Ctrl-C.",
}
"""The meaning of each exit code, for docs/cli.md."""

_SESSION_ID = re.compile(r"[0-9a-f]{4,8}(-[0-9a-f-]*)?", re.ASCII)

StepHook: TypeAlias = Callable[[Mapping[str, str]], Callable[[str], None]]
"""Takes the environment and returns a callback that receives the name of each step of a write."""


class Invocation(NamedTuple):
    """The options before the command, and the hook of the tests."""

    config_dirs: tuple[str, ...]
    step_hook: StepHook | None
    no_pager: bool = False


class SuggestingGroup(click.Group):
    """A group that lists its commands in the order they are written, takes aliases, and suggests what was meant."""

    aliases: Mapping[str, str] = MappingProxyType({})
    """Other names of commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order they are written."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, by its own name, and the rest of the words."""
        name, *rest = args
        name = self.aliases.get(name, name)
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing and not name.startswith("-"):
            raise click.UsageError(self._describe_unknown(ctx, name), ctx)
        return (name, command, rest) if command is not None else super().resolve_command(ctx, args)

    def _describe_unknown(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches  # only for an error

        near = get_close_matches(name.lower(), [*self.list_commands(ctx), *self.aliases], n=1)
        suggestion = f"; did you mean `{self.aliases.get(near[0], near[0])}`?" if near else ""
        if not near and self is unspool and _SESSION_ID.fullmatch(name):
            suggestion = f"; did you mean `show {name}`?"
        return f"no such command `{name}`{suggestion}"


class LazyGroup(SuggestingGroup):
    """A group that knows its commands by name and imports one only to run it."""

    aliases = MappingProxyType(
        {
            "list": "ls", "sessions": "ls", "cat": "show", "view": "show", "find": "search", "grep": "search",
            "cost": "usage", "costs": "usage", "query": "sql", "web": "serve", "settings": "config",
        }
    )  # fmt: skip

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(_COMMANDS)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; the commands that the hint of an error names carry `--config-dir` if it was given."""
        try:
            return super().invoke(ctx)
        except UnspoolError as error:
            from unspool.cli import options, session_argument  # only for an error

            if isinstance(error, AmbiguousSession):
                error.hint = session_argument.describe_ambiguous(error)
            if error.hint:
                error.hint = options.pasteable(error.hint)
            raise

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
    epilog="Aliases: `list` for `ls`, `find` for `search`, `cost` for `usage`. "
    "Run `unspool COMMAND --help` for details. Only chat and collect send data to other machines.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config-dir",
    "config_dirs",
    metavar="PATH",
    multiple=True,
    help="Config folder, project, tree or file to read; repeatable. Default: $CLAUDE_CONFIG_DIR, then ~/.claude",
)
@click.option("--no-pager", is_flag=True, help="Do not show long output in a pager.")
@click.version_option(__version__, prog_name="unspool")
@click.pass_context
def unspool(ctx: click.Context, config_dirs: tuple[str, ...], no_pager: bool) -> None:
    """Read, archive, search and resume the sessions that Claude Code stores in ~/.claude."""
    ctx.obj = Invocation(config_dirs, ctx.obj, no_pager)


def run_command_line(step_hook: StepHook | None = None) -> NoReturn:
    """Run the command line and exit. The hook is for tests (`unspool.testing.faults`)."""
    stream = sys.stdout
    try:
        code = unspool.main(prog_name="unspool", standalone_mode=False, obj=step_hook)
    except MissingExtra as error:
        code = _report_missing_extra(error)
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
    from unspool.extras import extra_of, missing_extra  # start-up: only this needs it

    extra = extra_of(error.name or "")
    if extra is None:
        raise error
    return _report_missing_extra(missing_extra(extra))


def _report_missing_extra(error: MissingExtra) -> int:
    command = next((word for word in sys.argv[1:] if word in _COMMANDS), "")
    print_error(error.describe(error.feature or f"`{f'unspool {command}'.rstrip()}`"), error.hint)
    return error.exit_code


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
