"""`unspool edit`: clones, forks, moves, trims and compresses sessions; undo and log."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from unspool.cli import output, session_argument, store_access
from unspool.cli.edit import edit_options, edit_report
from unspool.cli.main import on_step
from unspool.errors import Refused, UsageError
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.edit.planning import Operation


class _Group(click.Group):
    """A group that lists its commands in the order they are written here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_Group)
def edit() -> None:
    """Clone, fork, move, trim or compress a session, and take it back.

    Every edit is planned, checked against the rules that resuming rests on, and applied all at once. A new session
    comes of it; the old one stays as it is.

    \b
    unspool edit trim 945090a1 --results --superseded-reads --plan
    unspool edit trim 945090a1 --to 40%
    unspool edit fork 945090a1 --at 7
    unspool edit compress 945090a1 --keep-last 3 --no-model
    unspool edit undo
    """


def _edit_options(command: output.Command) -> output.Command:
    """Add the options of every edit."""
    claude = click.option(
        "--claude",
        is_flag=False,
        flag_value="claude",
        metavar="[PATH]",
        help="Also let an installed Claude Code resume a copy, against a scripted API, and compare what it sends.",
    )
    plan = click.option("--plan", "only_plan", is_flag=True, help="Say what would be done, and write nothing.")
    exact = click.option("--exact", is_flag=True, help="Let the API count tokens: it is sent the conversation.")
    return plan(exact(claude(output.output_options(command))))


def _in_place_option(command: output.Command) -> output.Command:
    help_text = "Edit the session itself. Only while nobody works with it; a backup is kept."
    return click.option("--in-place", is_flag=True, help=help_text)(command)


@edit.command()
@click.argument("session")
@_edit_options
def clone(session: str, **common: Any) -> None:
    """Copy a session, with everything that belongs to it, under new ids.

    Resumed, the copy sends what the original would. What it cost is not counted again.

    \b
    unspool edit clone 945090a1
    claude --resume NEW-ID
    """
    from unspool.edit.planning import Clone

    _run(session, Clone(), **common)


@edit.command()
@click.argument("session")
@click.option(
    "--at", required=True, metavar="TURN|UUID", help="`7`, `-1` (the last), or the beginning of a line's uuid."
)
@_edit_options
def fork(session: str, at: str, **common: Any) -> None:
    """Make a new session of an old one up to some point, on any branch.

    A turn is meant with all that followed it, up to the next prompt; a line with the rest of its answer and the results
    of its calls. `unspool show SESSION --tree` shows the branches.

    \b
    unspool edit fork 945090a1 --at 7
    unspool edit fork 945090a1 --at 5f1c22
    """
    from unspool.edit.planning import Fork

    _run(session, Fork(at), **common)


@edit.command()
@click.argument("session")
@click.option("--to", required=True, metavar="DIR", help="The folder to go on in.")
@_in_place_option
@_edit_options
def move(session: str, to: str, in_place: bool, **common: Any) -> None:
    """Put a session where Claude Code finds it in another folder.

    A copy comes to lie there; with `--in-place` the session itself moves. What the lines say of the folder they were
    written in stays: it is history.

    \b
    unspool edit move 945090a1 --to ~/code/shop-v2
    """
    from unspool.edit.planning import Move

    _run(session, Move(to), in_place=in_place, **common)


@edit.command()
@click.argument("session")
@click.option(
    "--tools", is_flag=False, flag_value="", metavar="[NAMES]", help="Calls with their results: all, or `Bash,Read`."
)
@click.option("--results", is_flag=True, help="What results say; a stub stays that says what was there.")
@click.option("--older-than", type=click.IntRange(0), metavar="N", help="Only results older than so many turns.")
@click.option("--larger-than", metavar="SIZE", help="Only results larger than this: `2000`, `4kB`.")
@click.option("--superseded-reads", is_flag=True, help="Files that were read again, or changed, later.")
@click.option("--thinking", is_flag=True, help="Thinking before the last prompt.")
@click.option("--images", is_flag=True, help="Pictures and documents.")
@click.option("--range", "turns", metavar="A..B", help="Whole turns: `2..5`, `..3`, `4`.")
@click.option("--keep-last", type=click.IntRange(1), metavar="N", help="All turns of the context but the last N.")
@click.option("--outside", is_flag=True, help="Lines outside the context: other branches, what was compacted.")
@click.option("--to", metavar="40%|TOKENS", help="As much of all this as it takes, mildest first.")
@_in_place_option
@_edit_options
def trim(session: str, in_place: bool, **options: Any) -> None:
    """Take out of a session's context what it no longer needs.

    Prompts and answers stay, word for word, unless turns are named. What the model has not answered yet is left alone.

    \b
    unspool edit trim 945090a1 --results --superseded-reads
    unspool edit trim 945090a1 --results --older-than 5 --larger-than 4kB
    unspool edit trim 945090a1 --tools Bash,Grep
    unspool edit trim 945090a1 --to 40% --plan
    """
    common = {name: options.pop(name) for name in ("only_plan", "exact", "claude", "as_json", "config_dir")}
    # Parsed later: `..3` and `-1` mean turns only when the session is open and its turns are counted.
    _run(session, lambda turn_count: _parse_trim(turn_count, **options), in_place=in_place, **common)


@edit.command()
@click.argument("session")
@click.option("--keep-last", type=click.IntRange(0), default=2, show_default=True, metavar="N", help="Turns that stay.")
@click.option("--keep-calls", is_flag=True, help="Name the calls of older turns in the summary.")
@click.option("--model", metavar="MODEL|script:FILE", help="Let this model write the summary; `script:` for tests.")
@click.option("--no-model", is_flag=True, help="Ask no model: prompts, files touched, last words, open todos.")
@_in_place_option
@_edit_options
def compress(
    session: str, *, keep_last: int, keep_calls: bool, model: str | None, no_model: bool, **common: Any
) -> None:
    """Make a summary of a session's older turns, as Claude Code's own compaction does.

    Every prompt stands in it word for word. The old turns stay in the file, out of the context.

    \b
    unspool edit compress 945090a1 --keep-last 3 --no-model
    unspool edit compress 945090a1 --model claude-haiku-4-5
    """
    if no_model == (model is not None):
        raise UsageError("who is to write the summary?", hint="either `--model MODEL` or `--no-model`")
    from unspool.edit.planning import Compress

    _run(session, Compress(keep_last, keep_calls), model=model, **common)


@edit.command()
@click.argument("id", required=False)
@output.json_option
def undo(id: str | None, as_json: bool) -> None:
    """Take an edit back, byte for byte: the last one, or the one with this ID.

    \b
    unspool edit undo
    unspool edit undo 3f2a91c0
    """
    from unspool.edit import undo_edit

    edit_report.print_undone(undo_edit(id, folder=data_folder(os.environ), at=on_step()), as_json=as_json)


@edit.command()
@output.json_option
def log(as_json: bool) -> None:
    """List the edits that were made, and which of them stand."""
    from unspool.edit import edit_log

    edit_report.print_log(edit_log(folder=data_folder(os.environ)), as_json=as_json)


def _run(
    name: str,
    operation: Operation | Callable[[int], Operation],
    *,
    only_plan: bool,
    exact: bool,
    claude: str | None,
    as_json: bool,
    config_dir: str | None,
    in_place: bool = False,
    model: str | None = None,
) -> None:
    """Plan an edit, check it, apply it and print the result. The operation may depend on the number of turns."""
    from unspool.edit import apply_edit, plan_edit

    # From the files: what is edited must be what is on disk, not what the store has read of it.
    with session_argument.open_session(name, store_access.AccessOptions(config_dir, no_store=True)) as session:
        operation = operation(len(session.turns)) if callable(operation) else operation
        if model is not None:
            operation = edit_options.with_model_summary(session, operation, model)
        planned = plan_edit(session, operation, in_place=in_place)
        if exact:
            planned = edit_options.with_exact_tokens(planned)
        is_confirmed = None if claude is None else edit_options.check_with_claude_code(planned, claude)
        if only_plan:
            edit_report.print_plan(planned, is_confirmed, as_json=as_json)
            return
        if is_confirmed is False:
            raise Refused("Claude Code would send something else than predicted", hint="nothing was written")
        edited = apply_edit(planned, folder=data_folder(os.environ), claude=is_confirmed, at=on_step())
    edit_report.print_applied(edited, as_json=as_json)


def _parse_trim(turn_count: int, **options: Any) -> Operation:
    """Return the operation that the options of `trim` describe, for a session with so many turns."""
    from unspool.edit.planning import Trim

    if options["to"] is not None:
        return _parse_trim_to(options)
    if not options["results"] and (options["older_than"] is not None or options["larger_than"] is not None):
        raise UsageError("`--older-than` and `--larger-than` are about `--results`", hint="add `--results`")
    turns = None
    if options["turns"] is not None:
        from unspool.export import parse_turn_range  # start-up: the outline is loaded only for a range of turns

        turns = parse_turn_range(options["turns"], turn_count)
        if turns is None:
            raise UsageError(f"not a range of turns: `{options['turns']}`", hint="as in `--range 2..5`")
    tools = options["tools"]
    trim = Trim(
        # `--tools` alone is the empty text: no names, which means all tools.
        tools=None if tools is None else tuple(filter(None, (name.strip() for name in tools.split(",")))),
        results=options["results"],
        superseded_reads=options["superseded_reads"],
        thinking=options["thinking"],
        images=options["images"],
        turns=turns,
        keep_last=options["keep_last"],
        outside=options["outside"],
        older_than=options["older_than"] or 0,
        larger_than=512 if options["larger_than"] is None else _parse_size(options["larger_than"]),
    )
    if trim == Trim(older_than=trim.older_than, larger_than=trim.larger_than):
        raise UsageError("what is to be trimmed?", hint="for example `--results --superseded-reads`, or `--to 40%`")
    return trim


def _parse_trim_to(options: dict[str, Any]) -> Operation:
    from unspool.edit.planning import TrimTo

    others = [name for name, value in options.items() if name not in ("to", "outside") and value not in (None, False)]
    if others:
        raise UsageError("`--to` chooses what goes by itself", hint="name what is to go, or how much")
    text = str(options["to"]).replace(",", "").replace("_", "")
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if value <= 0 or (percent and value >= 100):
        raise UsageError(f"not a share or number of tokens: `{options['to']}`", hint="as in `--to 40%` or `--to 60000`")
    if percent:
        return TrimTo(percent=value, outside=options["outside"])
    return TrimTo(tokens=int(value), outside=options["outside"])


def _parse_size(text: str) -> int:
    """Return the bytes of a size such as `2000`, `4kB` or `1.5 MB`."""
    number = text.strip().lower().removesuffix("b").strip()
    factor = {"k": 1000, "m": 1_000_000}.get(number[-1:], 1)
    try:
        value = float(number.rstrip("km")) * factor
    except ValueError:
        value = -1.0
    if value < 0:
        raise UsageError(f"not a size: `{text}`", hint="as in `--larger-than 4kB`")
    return int(value)
