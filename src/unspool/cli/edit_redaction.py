"""`unspool edit redact`: removes texts, secrets or turns from a session, its files, the store and the archive."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from unspool.cli import options, output, session_argument, store_access
from unspool.cli.main import on_step
from unspool.display import units
from unspool.errors import NothingFound, UsageError
from unspool.paths import data_folder
from unspool.store import STORE, open_store, preferences, translate_errors

if TYPE_CHECKING:
    from unspool.edit import RedactionPlan
    from unspool.store import RemovalReport

_ALWAYS_OUT_OF_REACH = (
    "other copies of the files, such as backups of the disk, and what a web page or a terminal still shows",
)


@click.command()
@options.session_argument()
@click.option("--text", "texts", multiple=True, metavar="TEXT", help="Remove this text wherever it stands; may repeat")
@click.option(
    "--text-file",
    type=click.File("r", encoding="utf-8", lazy=False),
    metavar="FILE",
    help="Remove each line of this file; `-` is stdin. No text is then in the history of your shell",
)
@click.option("--regex", "patterns", multiple=True, metavar="RE2", help="Remove what this pattern matches; may repeat")
@click.option("--secrets", "with_secrets", is_flag=True, help="Remove keys, tokens and passwords that unspool finds")
@click.option("--turns", metavar="A..B", help="Remove every text of these turns: `2..5`, `..3`, `4`")
@click.option("--shred", is_flag=True, help="Also delete the backups that hold it; then the edit cannot be undone")
@click.option("--plan", "only_plan", is_flag=True, help="Show what would change, and write nothing")
@options.output_options
def redact(
    session: str,
    *,
    texts: tuple[str, ...],
    text_file: IO[str] | None,
    patterns: tuple[str, ...],
    with_secrets: bool,
    turns: str | None,
    shred: bool,
    only_plan: bool,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Remove a text, a pattern, secrets or turns from a session and everything made from it.

    Changes the session itself, its agents, long results, file backups, todos, tasks, plan and typed prompts; then the
    store, the text index, the archive and the column files. Markers like `[redacted]` stand in the place of what is
    removed. The session can still be resumed. `edit undo` gives its files back until the backups are deleted with
    `--shred`; the archive stays redacted. If the command was interrupted, run it again.

    \b
    unspool edit redact 945090a1 --secrets --plan
    unspool edit redact 945090a1 --text-file secrets.txt --shred
    unspool edit redact 945090a1 --turns 4..5
    """
    # Here and not above: every `edit` command loads this module, and only this one needs the rules of redaction.
    from unspool.edit import (
        RedactionRequest,
        apply_redaction,
        edit_as_json,
        find_backups,
        plan_redaction,
        shred_backups,
    )
    from unspool.store import RemovalScope, compact_databases, find_left, read_archived, remove_from_store

    folder = data_folder(os.environ)
    if text_file is not None:
        texts = (*texts, *_read_texts(text_file))
    with session_argument.open_session(session, options.AccessOptions(config_dirs, no_store=True)) as opened:
        options.refuse_other_agents(opened.path)
        request = RedactionRequest(
            texts,
            patterns,
            _read_rules(folder) if with_secrets else None,
            None if turns is None else _parse_turns(turns, len(opened.turns)),
        )
        # What only the archive still has must be found before anything is changed.
        early = RemovalScope(opened.path.stem, frozenset())
        plan = plan_redaction(opened, request, read_archived(folder, early))
    scope = RemovalScope(plan.session_id, plan.session_files, plan.whole_files, plan.owns_history_line)
    if only_plan:
        _print_plan(plan, find_backups(folder, plan.removal, plan.session_id), as_json=as_json)
        return
    at = on_step()
    applied = apply_redaction(plan, folder=folder, at=at)
    at("files written")
    report = remove_from_store(folder, scope, plan.removal, at)
    _bring_up_to_date(folder, plan.planned.files.config)
    at("synced")
    shredded = shred_backups(folder, plan.removal, plan.session_id, at) if shred else []
    unreached = [*report.unreached, *compact_databases(folder, at), *_ALWAYS_OUT_OF_REACH]
    left = find_left(folder, scope, plan.removal)
    result = {
        **edit_as_json(plan.planned),
        "session_id": plan.session_id,
        "source_session_id": plan.session_id,
        "undo_id": applied.id if applied and not shred else None,
        "files": [str(change.path) for change in plan.changes],
        "found": plan.found,
        "archived": report.archived,
        "rows": report.rows,
        "shredded": shredded,
        "elsewhere": list(map(str, plan.elsewhere)),
        "unreached": unreached,
        "left": left,
    }
    if as_json:
        output.write_document("edit-redact", result)
    else:
        _print_applied(plan, report, result)
    if applied is None and not (report.archived or report.rows or report.files or shredded):
        raise NothingFound("nothing to remove was found", hint="search for the text with `unspool search --regex`")


def _read_texts(file: IO[str]) -> list[str]:
    try:
        return [line.strip() for line in file.read().splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise UsageError("the file of texts is not UTF-8", hint="write one text on each line") from None


def _read_rules(folder: Path) -> Any:
    from unspool.export import read_redaction_options

    return read_redaction_options(folder, None, emails=False, homes=False)


def _parse_turns(text: str, count: int) -> range:
    from unspool.export import parse_turn_range

    turns = parse_turn_range(text, count)
    if turns is None:
        raise UsageError(f"invalid range of turns `{text}`", hint="use for example `--turns 2..5`")
    return turns


def _bring_up_to_date(folder: Path, root: Path | None) -> None:
    """Read the changed files into the store, if there is one, and fill its text index again."""
    if root is None or not (folder / STORE).exists():
        return
    settings = preferences.read_preferences(folder)
    with translate_errors(folder), closing(open_store(folder)) as database:
        store_access.sync_store(database, root.resolve(), folder, settings)
        if settings.indexing:
            store_access.update_text_index(database, root.resolve(), folder)


def _print_plan(plan: RedactionPlan, backups: list[str], *, as_json: bool) -> None:
    from unspool.edit import edit_as_json

    files = [str(change.path) for change in plan.changes]
    if as_json:
        data = {
            **edit_as_json(plan.planned),
            "session_id": plan.session_id,
            "source_session_id": plan.session_id,
            "undo_id": None,
            "files": files,
            "found": plan.found,
            "backups": backups,
            "elsewhere": list(map(str, plan.elsewhere)),
            "faults": list(plan.planned.verified.faults),
        }
        output.write_document("edit-redact-plan", data)
        return
    output.print_heading(f"redact {plan.session_id} (plan only, nothing is written)")
    _print_files(plan)
    if backups:
        output.print_line(f"{units.amount(len(backups), 'edit')} with backups that hold it: `--shred` deletes them")
    for fault in plan.planned.verified.faults:
        output.print_line(f"refused: {fault}")


def _print_files(plan: RedactionPlan) -> None:
    if plan.found:
        output.print_section("secrets", [(f"{count:,} × {kind}", "") for kind, count in plan.found.items()], 20)
    lines = sum(count for kind, count in plan.planned.plan.removed.items() if kind == "line")
    output.print_line(
        f"changes {units.amount(lines, 'line')} of the session, {units.amount(len(plan.changes), 'file')}"
    )
    for change in plan.changes:
        output.print_line(f"  {change.path}")
    for path in plan.elsewhere:
        output.print_line(f"also in, unchanged: {path}")
    verified = plan.planned.verified
    rules = "rules kept" if verified.invariants else "rules broken"
    output.print_line(f"checked: {rules}, {'API takes it' if verified.replay else 'API refuses it'}")


def _print_applied(plan: RedactionPlan, report: RemovalReport, result: dict[str, Any]) -> None:
    output.print_heading(f"redact {plan.session_id}")
    _print_files(plan)
    output.print_line(
        f"removed from {units.amount(report.rows, 'row')} of the store and {units.amount(report.archived, 'file')} of "
        "the archive; rebuilt the text index"
    )
    if result["undo_id"]:
        output.print_line(options.pasteable(f"undo it with `unspool edit undo {result['undo_id']}`"))
        output.print_line("that gives the session's files back; earlier versions of them in the archive stay redacted")
        output.print_line("delete the backups with the same command and `--shred`")
    if result["shredded"]:
        output.print_line(f"cannot be undone any more: {', '.join(result['shredded'])}")
    output.print_line()
    output.print_line("cannot be reached")
    for words in result["unreached"]:
        output.print_line(f"  {words}")
    if result["left"]:
        output.print_line("still found in")
        for path in result["left"]:
            output.print_line(f"  {path}")
    else:
        output.print_line("searched every byte of the data folder: it holds nothing of it" + _except(result))


def _except(result: dict[str, Any]) -> str:
    return " but the backups of the edit" if result["undo_id"] else ""
