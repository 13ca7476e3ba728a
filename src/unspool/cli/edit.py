"""`unspool edit`: clones, forks, moves, trims, compresses and repairs sessions; undo and log."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from unspool.cli import options, output, session_argument
from unspool.cli.main import SuggestingGroup, on_step
from unspool.cli.options import parse_size
from unspool.display import TextColumn, units
from unspool.edit import (
    Edited,
    Planned,
    apply_edit,
    changes_as_json,
    edit_as_json,
    edit_log,
    plan_edit,
    read_session_text,
    undo_edit,
)
from unspool.edit.apply import Journal, list_unreadable
from unspool.edit.planning import Clone, Compress, Fork, Move, Operation, Payback, Repair, Trim, TrimTo
from unspool.errors import NotFound, NothingFound, Refused, UsageError
from unspool.paths import absolute_path, config_folder, data_folder, drop_nested, resolve_existing

if TYPE_CHECKING:
    from unspool.home import Session

_MAX_ROWS = 12
"""Rows of a list that are printed; `--json` has them all."""
_LOG_COLUMNS = [
    TextColumn("ID"),
    TextColumn("TIME", expendable=True),
    TextColumn("EDIT"),
    TextColumn("SESSION", least=8),
    TextColumn("RESULT", least=8),
    TextColumn("TOKENS", right=True),
    TextColumn("STATE"),
]


class EditGroup(SuggestingGroup):
    """The edits; `redact`, which needs the store and the rules of redaction, is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return ["redact", *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        if cmd_name != "redact":
            return super().get_command(ctx, cmd_name)
        from unspool.cli.edit_redaction import redact

        return redact


@click.group(cls=EditGroup)
def edit() -> None:
    """Clone, fork, move, trim, compress, repair or redact a session; undo edits.

    unspool plans every edit, checks that the result can be resumed, and writes all files or none. The result is a new
    session; the old one stays unchanged. Only `redact` always changes the session itself.

    \b
    unspool edit trim 945090a1 --results --superseded-reads --plan
    unspool edit fork 945090a1 --at 7
    unspool edit compress 945090a1 --keep-last 3 --no-model
    unspool edit redact 945090a1 --secrets --plan
    unspool edit undo
    """


_SIZE_HINT = "use for example `--larger-than 4kB`"


def _edit_options(command: options.Command) -> options.Command:
    """Add the options of every edit."""
    claude = click.option(
        "--claude",
        is_flag=False,
        flag_value="claude",
        metavar="[PATH]",
        help="Also resume a copy with the installed Claude Code against a scripted API, and compare the request",
    )
    plan = click.option("--plan", "only_plan", is_flag=True, help="Show what would change, and write nothing")
    exact = click.option("--exact", is_flag=True, help="Count tokens with the API, which receives the conversation")
    return plan(exact(claude(options.output_options(command))))


def _in_place_option(command: options.Command) -> options.Command:
    help_text = "Change the session itself, not a copy; refused while it is in use. Keeps a backup"
    return click.option("--in-place", is_flag=True, help=help_text)(command)


@edit.command()
@options.session_argument()
@_edit_options
def clone(session: str, **common: Any) -> None:
    """Copy a session and its side files under new ids.

    Resuming the copy sends the same request as the original. Usage reports do not count its cost again.

    \b
    unspool edit clone 945090a1
    claude --resume NEW-ID
    """
    _run(session, Clone(), **common)


@edit.command()
@options.session_argument()
@click.option(
    "--at", required=True, metavar="TURN|UUID", help="Turn number: `7`, `-1` (the last); or the start of a line's uuid"
)
@_edit_options
def fork(session: str, at: str, **common: Any) -> None:
    """Copy a session up to a turn or line, on any branch.

    A turn includes everything up to the next prompt. A line includes the rest of its response and the results of its
    calls. List the branches with `unspool show SESSION --tree`.

    \b
    unspool edit fork 945090a1 --at 7
    unspool edit fork 945090a1 --at 5f1c22
    """
    _run(session, Fork(at), **common)


@edit.command()
@options.session_argument()
@click.option("--to", required=True, metavar="DIR", help="Folder to resume the session in")
@_in_place_option
@_edit_options
def move(session: str, to: str, in_place: bool, **common: Any) -> None:
    """Copy or move a session to another project folder.

    Claude Code can then resume it there. Without `--in-place`, the command writes a copy. The working folders inside
    the lines stay unchanged.

    \b
    unspool edit move 945090a1 --to ~/code/shop-v2
    """
    _run(session, Move(to), in_place=in_place, **common)


@edit.command()
@options.session_argument()
@click.option(
    "--tools",
    is_flag=False,
    flag_value="",
    metavar="[NAMES]",
    help="Remove calls with their results: of all tools, or of `Bash,Read`",
)
@click.option("--results", is_flag=True, help="Replace results by a short note")
@click.option(
    "--older-than", type=click.IntRange(0), metavar="N", help="With --results: only results older than N turns"
)
@click.option(
    "--larger-than", metavar="SIZE", help="With --results: only results larger than this, like `2000` or `4kB`"
)
@click.option("--superseded-reads", is_flag=True, help="Remove file contents that were read again or changed later")
@click.option("--thinking", is_flag=True, help="Remove thinking before the last prompt")
@click.option("--images", is_flag=True, help="Remove images and documents")
@click.option("--range", "turns", metavar="A..B", help="Remove whole turns: `2..5`, `..3`, `4`")
@click.option(
    "--keep-last", type=click.IntRange(1), metavar="N", help="Remove all turns of the context except the last N"
)
@click.option("--outside", is_flag=True, help="Remove lines outside the context: other branches, compacted lines")
@click.option("--to", metavar="40%|TOKENS", help="Remove as much as needed to reach this size, like `40%` or `60000`")
@_in_place_option
@_edit_options
def trim(session: str, in_place: bool, **options: Any) -> None:
    """Remove parts of a session's context.

    Prompts and answers stay unchanged unless you remove whole turns. Anything that the model has not answered yet
    stays.

    \b
    unspool edit trim 945090a1 --results --superseded-reads
    unspool edit trim 945090a1 --results --older-than 5 --larger-than 4kB
    unspool edit trim 945090a1 --tools Bash,Grep
    unspool edit trim 945090a1 --to 40% --plan
    """
    common = {name: options.pop(name) for name in ("only_plan", "exact", "claude", "as_json", "config_dirs")}
    # Parsed later: `..3` and `-1` mean turns only when the session is open and its turns are counted.
    _run(session, lambda opened: _parse_trim(opened, **options), in_place=in_place, **common)


@edit.command()
@options.session_argument()
@click.option(
    "--keep-last", type=click.IntRange(0), default=2, show_default=True, metavar="N", help="Number of turns to keep"
)
@click.option("--keep-calls", is_flag=True, help="List the tool calls of older turns in the summary")
@click.option("--model", metavar="MODEL|script:FILE", help="Let this model write the summary; script:FILE for tests")
@click.option(
    "--no-model",
    is_flag=True,
    help="Write the summary without a model: prompts, changed files, last answer, open todos",
)
@_in_place_option
@_edit_options
def compress(
    session: str, *, keep_last: int, keep_calls: bool, model: str | None, no_model: bool, **common: Any
) -> None:
    """Replace older turns by a summary, as Claude Code's compaction does.

    The summary contains every prompt in full. The old turns stay in the file, outside the context.

    \b
    unspool edit compress 945090a1 --keep-last 3 --no-model
    unspool edit compress 945090a1 --model claude-haiku-4-5
    """
    if no_model == (model is not None):
        raise UsageError("no model given for the summary", hint="add `--model MODEL` or `--no-model`")
    _run(session, Compress(keep_last, keep_calls), model=model, **common)


@edit.command()
@options.session_argument()
@_in_place_option
@_edit_options
def repair(session: str, in_place: bool, **common: Any) -> None:
    """Repair a session that Claude Code cannot resume or the API refuses.

    Afterwards the session breaks no rule, or the command refuses and names the reason. Lines that are sound stay
    unchanged. A call without a result gets the text that Claude Code sends for an interrupted call; nothing else is
    made up. The exit code is 1 if there is nothing to repair.

    \b
    unspool doctor --session 945090a1
    unspool edit repair 945090a1 --plan
    unspool edit repair 945090a1 --in-place
    """
    _run(session, Repair(), in_place=in_place, **common)


@edit.command()
@click.argument("id", required=False)
@click.option("--merge", is_flag=True, help="Keep lines that were appended after the edit")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation")
@options.output_options
def undo(id: str | None, *, merge: bool, yes: bool, as_json: bool, config_dirs: tuple[str | None, ...]) -> None:
    """Undo an edit, byte for byte: the last one, or the one with this ID.

    ID is an edit id, or a session id for the last edit of that session. Only edits in the config folder count.

    \b
    unspool edit undo
    unspool edit undo 3f2a91c0
    unspool edit undo 3f2a91c0 --merge
    """
    own, configs = data_folder(os.environ), _resolve_configs(config_dirs)
    if id is None and len(configs) > 1:
        raise UsageError("missing argument ID", hint="name an edit or a session: there are several config folders")
    config = configs[0] if id is None else _find_config_of_edit(configs, id, own)
    if id is not None and not yes and sys.stdin.isatty() and sys.stderr.isatty():
        _confirm_older_edit(edit_log(folder=own, config=config), id)
    _print_undone(undo_edit(id, folder=own, config=config, merge=merge, at=on_step()), as_json=as_json)


@edit.command()
@options.output_options
@output.paged
def log(*, as_json: bool, config_dirs: tuple[str | None, ...]) -> None:
    """List the edits in the config folder and their state."""
    configs = _resolve_configs(config_dirs)
    everywhere = edit_log(folder=data_folder(os.environ))
    for unreadable in list_unreadable(data_folder(os.environ)):
        output.warn(f"cannot read the journal of an edit; its backups are in `{unreadable}`")
    here = [journal for journal in everywhere if any(map(journal.is_within, configs))]
    if others := len(everywhere) - len(here):
        output.warn(f"{units.amount(others, 'edit')} in other config folders; list them with `--config-dir DIR`")
    _print_log(here, configs, as_json=as_json)


def _resolve_configs(config_dirs: Iterable[str | None]) -> list[Path]:
    """Return the folders whose edits are meant; they may have been deleted since."""
    return drop_nested(map(_resolve_config, config_dirs))


def _resolve_config(config_dir: str | None) -> Path:
    named = config_folder(config_dir, os.environ)
    try:
        return resolve_existing(named)
    except NotFound:
        return absolute_path(named)


def _find_config_of_edit(configs: Sequence[Path], id: str, own: Path) -> Path:
    """Return the one of several folders that an edit was made in, by the edit's id or that of its session."""
    if len(configs) == 1:
        return configs[0]
    journals = [each for each in edit_log(folder=own) if each.id.startswith(id) or each.session.startswith(id)]
    having = [config for config in configs if any(journal.is_within(config) for journal in journals)]
    if len(having) > 1:
        hint = "name one with `--config-dir DIR`"
        raise UsageError(f"`{id}` matches edits in {len(having)} config folders", hint=hint)
    return having[0] if having else configs[0]


def _confirm_older_edit(journals: list[Journal], id: str) -> None:
    """Ask before an edit is undone that is not the last one of its session."""
    named = next((journal for journal in journals if journal.id.startswith(id)), None)
    if named is None:
        return
    later = [journal for journal in journals if journal.number > named.number and journal.state == "done"]
    if any(journal.session == named.session for journal in later):
        question = f"edit {named.id} is not the last edit of session {named.session}; undo it?"
        if not click.confirm(question, err=True):
            raise click.Abort


def _run(
    name: str,
    operation: Operation | Callable[[Session], Operation],
    *,
    only_plan: bool,
    exact: bool,
    claude: str | None,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
    in_place: bool = False,
    model: str | None = None,
) -> None:
    """Plan an edit, check it, apply it and print the result. The operation may depend on the session."""
    # From the files: what is edited must be what is on disk, not what the store has read of it.
    with session_argument.open_session(name, options.AccessOptions(config_dirs, no_store=True)) as session:
        options.refuse_other_agents(session.path)
        operation = operation(session) if callable(operation) else operation
        if model is not None:
            from unspool.edit import write_model_summary  # start-up: most edits do not use the API

            assert isinstance(operation, Compress)
            operation = write_model_summary(read_session_text(session), operation, model, os.environ)
        planned = plan_edit(session, operation, in_place=in_place)
        if exact:
            planned = _with_exact_tokens(planned)
        is_confirmed = None if claude is None else _check_with_claude_code(planned, claude)
        if only_plan:
            _print_plan(planned, is_confirmed, as_json=as_json)
            return
        if is_confirmed is False:
            raise Refused("Claude Code would send a different request than predicted", hint="nothing was written")
        edited = apply_edit(planned, folder=data_folder(os.environ), claude=is_confirmed, at=on_step())
    _print_applied(edited, as_json=as_json)


def _parse_trim(session: Session, **options: Any) -> Operation:
    """Return the operation that the options of `trim` describe."""
    if options["to"] is not None:
        return _parse_trim_to(options)
    if not options["results"] and (options["older_than"] is not None or options["larger_than"] is not None):
        raise UsageError("--older-than and --larger-than need --results", hint="add `--results`")
    turns = None
    if options["turns"] is not None:
        from unspool.export import parse_turn_range  # start-up: the outline is loaded only for a range of turns

        turns = parse_turn_range(options["turns"], len(session.turns))
        if turns is None:
            raise UsageError(f"invalid range of turns `{options['turns']}`", hint="use for example `--range 2..5`")
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
        larger_than=512 if options["larger_than"] is None else parse_size(options["larger_than"], _SIZE_HINT),
    )
    if trim == Trim(older_than=trim.older_than, larger_than=trim.larger_than):
        raise UsageError(
            "nothing to trim was named", hint="add for example `--results --superseded-reads`, or `--to 40%`"
        )
    return trim


def _parse_trim_to(options: dict[str, Any]) -> Operation:
    others = [name for name, value in options.items() if name not in ("to", "outside") and value not in (None, False)]
    if others:
        raise UsageError("--to cannot be combined with other selections", hint="use either `--to` or the other options")
    text = str(options["to"]).replace(",", "").replace("_", "")
    number, percent = text.removesuffix("%"), text.endswith("%")
    value = _parse_number(number)
    if value <= 0 or (percent and value >= 100):
        raise UsageError(f"invalid size `{options['to']}` for --to", hint="use for example `--to 40%` or `--to 60000`")
    limit = {"percent": value} if percent else {"tokens": int(value)}
    return TrimTo(**limit, outside=options["outside"])


def _parse_number(text: str) -> float:
    """Return the number that a text is; -1 if it is none, or infinite."""
    try:
        value = float(text)
    except ValueError:
        return -1.0
    return value if math.isfinite(value) else -1.0


def _with_exact_tokens(planned: Planned) -> Planned:
    """Let the API count the tokens of a plan; a warning says if it did not."""
    from unspool.edit import count_exact_tokens

    prepared = count_exact_tokens(planned.prepared, os.environ)
    if not prepared.plan.exact_tokens:
        output.warn("the API did not count the tokens; the figures are estimates")
    return msgspec.structs.replace(planned, prepared=prepared)


def _check_with_claude_code(planned: Planned, command: str) -> bool:
    """Tell whether Claude Code, resuming the edited session, sends what was predicted; a warning says where not."""
    from unspool.edit.verify import compare_with_claude_code

    difference = compare_with_claude_code(planned.prepared, command)
    if difference is not None:
        output.warn(f"Claude Code sends a different request: {difference}")
    return difference is None


def _print_plan(planned: Planned, claude: bool | None, *, as_json: bool) -> None:
    """Print what an edit would do."""
    if as_json:
        faults = {"faults": list(planned.verified.faults)} if planned.verified.faults else {}
        if planned.verified.inherited:
            faults["inherited"] = list(planned.verified.inherited)
        changes = changes_as_json(planned.plan)
        data = {**_name_sessions(edit_as_json(planned, claude=claude)), "undo_id": None, "changes": changes, **faults}
        output.write_document("edit-plan", data)
        return
    output.print_heading(f"{planned.plan.operation} {planned.plan.source} (plan only, nothing is written)")
    _print_sizes(planned)
    reasons = Counter((change.kind, change.reason) for change in planned.plan.changes).most_common()
    if reasons:
        pairs = [(f"{count:,} × {kind}", reason) for (kind, reason), count in reasons]
        title = "repaired, with reason" if planned.plan.operation == "repair" else "removed, with reason"
        output.print_section(title, pairs, _MAX_ROWS)
    _print_checks(planned, claude)


def _print_applied(edited: Edited, *, as_json: bool) -> None:
    """Print what an edit did and how to undo it."""
    planned = edited.planned
    if as_json:
        data = _name_sessions(edit_as_json(planned, claude=edited.claude))
        output.write_document("edit", {**data, "undo_id": edited.undo_id})
        return
    output.print_heading(f"{planned.plan.operation} {planned.plan.source}")
    _print_sizes(planned)
    _print_checks(planned, edited.claude)
    output.print_line()
    where = "in place" if planned.plan.in_place else str(edited.path)
    output.print_pairs(
        [
            ("session", planned.plan.session),
            ("written", where),
            ("resume with", options.resume_command(planned.plan.session, planned.resume_folder)),
            ("undo it with", options.pasteable(f"unspool edit undo {edited.undo_id}")),
        ]
    )


def _print_undone(journal: Journal, *, as_json: bool) -> None:
    """Print which edit was undone."""
    files = [action.target or action.path for action in journal.actions]
    if as_json:
        data = {"operation": journal.operation, "source": journal.source, "session": journal.session}
        output.write_document(
            "edit-undo", {"undo_id": journal.id, **_name_sessions(data), "path": journal.path, "files": files}
        )
        return
    # An edit that made a new session is undone by removing it.
    what = "removed again" if journal.session != journal.source else "restored"
    if journal.merges:
        what += " with the lines that were added since"
    output.print_line(
        f"undid {journal.operation} {journal.id}: {journal.session} is {what}, {units.amount(len(files), 'file')}"
    )
    if journal.operation == "redact":
        output.print_line("earlier versions of its files in the archive stay redacted")


def _print_log(journals: Sequence[Journal], configs: Sequence[Path], *, as_json: bool) -> None:
    """Print the edits of config folders; a table for each, newest first."""
    if as_json:
        items = [
            {
                **_name_sessions(edit.report),
                "undo_id": edit.id,
                "time": edit.when,
                "when": edit.when,
                "state": edit.state,
            }
            for edit in journals
        ]
        output.write_document("edit-log", {"items": items}, [])
    if not journals:
        names = ", ".join(f"`{config}`" for config in configs)
        raise NothingFound(f"no edits in {names}", hint="see `unspool edit --help`")
    if as_json:
        return
    having = [config for config in configs if any(journal.is_within(config) for journal in journals)]
    for number, config in enumerate(having):
        if number:
            output.print_line()
        output.print_heading(f"{config}")
        _print_log_table([journal for journal in journals if journal.is_within(config)])
    if unresolved := [edit.id for edit in journals if edit.state == "unresolved"]:
        output.print_line()
        output.print_line("unresolved: the process was killed and the session changed afterwards; a backup exists")
        command = options.pasteable(f"`unspool edit undo --merge {unresolved[0]}`")
        output.print_line(f"restore it and keep the new lines with {command}")


def _name_sessions(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of an edit with the names that session ids have in every document."""
    return {"session_id": report.get("session"), "source_session_id": report.get("source"), **report}


def _print_log_table(journals: Sequence[Journal]) -> None:
    rows = []
    for edit in reversed(journals):
        before, after = edit.report.get("context_tokens") or (0, 0)
        tokens = f"{before:,} → {after:,}"
        rows.append((edit.id, edit.when, edit.operation, edit.session, edit.source, tokens, edit.state))
    output.print_table(_LOG_COLUMNS, rows)


def _print_sizes(planned: Planned) -> None:
    plan = planned.plan
    columns = [TextColumn(""), *(TextColumn(name, right=True) for name in ("BEFORE", "AFTER", "LESS"))]
    # Estimates follow what the session itself was billed for; only the API counts exactly (`--exact`).
    label = "context tokens" if plan.exact_tokens else "context tokens (estimate)"
    rows = [
        ("lines", f"{plan.lines.before:,}", f"{plan.lines.after:,}", _less(*plan.lines)),
        ("file", units.size(plan.file_bytes.before), units.size(plan.file_bytes.after), _less(*plan.file_bytes)),
        (label, f"{plan.context_tokens.before:,}", f"{plan.context_tokens.after:,}", _less(*plan.context_tokens)),
    ]
    output.print_table(columns, rows)
    if plan.removed:
        output.print_line()
        output.print_pairs(
            (name, f"{count:,}") for name, count in sorted(plan.removed.items(), key=lambda removed: -removed[1])
        )
    if plan.payback is not None:
        output.print_line(_describe_payback(plan.payback))


def _less(before: int, after: int) -> str:
    return f"{100 * (before - after) / before:.0f} %" if before else "–"


def _describe_payback(payback: Payback) -> str:
    # The API has cached the old context: the changed one is paid in full once before it saves anything.
    cost = f"${payback.rewrite_micros / 1e6:.4f}"
    once = f"reading the changed context costs about {cost} once ({payback.rewritten_tokens:,} tokens)"
    if payback.requests is None:
        return f"{once}; it does not pay off"
    each = f"${payback.saved_micros / 1e6:.4f}"
    after = f"{units.amount(payback.requests, 'request')}, about {units.amount(payback.turns or 0, 'turn')}"
    return f"{once}, then saves {each} per request: pays off after {after}"


def _print_checks(planned: Planned, claude: bool | None) -> None:
    verified = planned.verified
    rules = "rules kept" if verified.invariants else "rules broken"
    results = [rules, "API takes it" if verified.replay else "API refuses it"]
    if claude is not None:
        results.append("Claude Code sends the predicted request" if claude else "Claude Code sends a different request")
    output.print_line(f"checked: {', '.join(results)}")
    for fault in verified.faults[:_MAX_ROWS]:
        output.print_line(f"  {fault}")
    for problem in verified.inherited[:_MAX_ROWS]:
        output.print_line(f"  {problem} (also for the source)")
