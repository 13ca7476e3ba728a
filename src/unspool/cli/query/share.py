"""`unspool share`: writes a redacted copy of a session to send to somebody, after a preview of what leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from unspool.cli import options, output
from unspool.cli.session_argument import open_session
from unspool.display import clean_line, units
from unspool.errors import Refused, confirmation_required, conflicting_options
from unspool.export import (
    ShareContent,
    SharedCopy,
    SharePreview,
    ShareRequest,
    copy_for_sharing,
    read_redaction_options,
    read_share_key,
)
from unspool.files import raise_unwritable, write_atomically
from unspool.paths import data_folder
from unspool.prices import Price
from unspool.store import preferences

_SUFFIXES = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".jsonl": "jsonl"}
_MAX_SHOWN_PLACES = 3


@click.command()
@options.session_argument()
@click.option("--html", "as_html", is_flag=True, help="One HTML file, for any browser, also offline (default)")
@click.option("--md", "as_md", is_flag=True, help="Markdown")
@click.option(
    "--jsonl", "as_jsonl", is_flag=True, help="Lines like those of a session file, which unspool can read again"
)
@click.option("-o", "--output", "target", metavar="FILE", help="File to write. Default: `share-ID.html` in this folder")
@click.option("-t", "--turns", "--turn", "turns", metavar="A..B", help="Only these turns: `3`, `2..5`, `4..` or `-1`")
@click.option("--thinking", is_flag=True, help="Include thinking")
@click.option("--results", is_flag=True, help="Include results of tools, attached files and output of commands")
@click.option("--images", is_flag=True, help="Include images")
@click.option("--no-agents", is_flag=True, help="Leave out sub-agents")
@click.option(
    "--keep", multiple=True, metavar="ID", help="Do not replace this text; the preview has the ids. Repeatable"
)
@click.option("--keep-emails", is_flag=True, help="Do not redact e-mail addresses")
@click.option("--keep-homes", is_flag=True, help="Do not redact the user name in home folder paths")
@click.option("-y", "--yes", is_flag=True, help="Write the file without asking")
@click.option("--force", is_flag=True, help="Overwrite an existing file")
@options.json_option
@options.store_options
@options.folders_option
def share(
    *,
    session: str,
    as_html: bool,
    as_md: bool,
    as_jsonl: bool,
    target: str | None,
    turns: str | None,
    thinking: bool,
    results: bool,
    images: bool,
    no_agents: bool,
    keep: tuple[str, ...],
    keep_emails: bool,
    keep_homes: bool,
    yes: bool,
    force: bool,
    as_json: bool,
    access: options.AccessOptions,
) -> None:
    """Write a redacted copy of a session, to send to somebody.

    First a preview lists what leaves, and every text that is replaced: secrets, e-mail addresses and the user name in
    paths. Then it asks. Only prompts, answers, tool calls and agents leave unless you include more. Only you can read
    the file.

    With `--json` the preview is a document, and a file is written only with `--yes`.
    """
    given = [name for name, is_set in (("html", as_html), ("md", as_md), ("jsonl", as_jsonl)) if is_set]
    if len(given) > 1:
        raise conflicting_options(*(f"--{name}" for name in given))
    form = given[0] if given else _SUFFIXES.get(Path(target).suffix.lower() if target else "", "html")
    if form == "html":
        from unspool.extras import require_extras

        require_extras("web", feature="`unspool share` as HTML")
    content = ShareContent(thinking=thinking, results=results, images=images, agents=not no_agents)
    folder = data_folder(os.environ)
    redaction = read_redaction_options(folder, None, emails=not keep_emails, homes=not keep_homes)
    with open_session(session, access) as opened:
        path = Path(target or f"share-{opened.id[:8]}.{form}")
        ask = not yes and not as_json
        _check_output(path, force=force, ask=ask, writes=yes or ask)
        copy_with = partial(copy_for_sharing, opened, key=read_share_key(folder), options=redaction)
        kept: frozenset[str] | None = frozenset(keep)
        while kept is not None:
            with copy_with(ShareRequest(content, turns, kept)) as copy:
                if not as_json:
                    _print_preview(copy.preview, form)
                switched = _ask(copy.preview, path) if ask else frozenset()
                if switched:
                    kept = kept ^ switched
                    continue
                if yes or ask:
                    _write(copy, form, path, preferences.read_preferences(folder).prices)
                if as_json:
                    _write_document(copy.preview, form, path if yes else None)
                kept = None


def _check_output(path: Path, *, force: bool, ask: bool, writes: bool) -> None:
    """Refuse to overwrite a file, and to ask where nobody can answer."""
    if writes and os.path.lexists(path) and not force:
        raise Refused(f"`{path}` already exists", hint="choose another name with `-o`, or add `--force`")
    if ask and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise confirmation_required()


def _ask(preview: SharePreview, path: Path) -> frozenset[str]:
    """Ask whether to write the file; return the replacements that the user wants to keep, or not any more."""
    words = f"Write {path}? [y/N, or numbers of replacements to switch]"
    answer = click.prompt(words, default="n", show_default=False).strip().lower()
    if answer in ("y", "yes"):
        return frozenset()
    numbers = [int(word) for word in answer.replace(",", " ").split() if word.isascii() and word.isdigit()]
    chosen = [preview.replacements[number - 1].id for number in numbers if 1 <= number <= len(preview.replacements)]
    if not chosen:
        raise click.Abort
    return frozenset(chosen)


def _print_preview(preview: SharePreview, form: str) -> None:
    output.print_line(
        f"{preview.title or preview.session_id} as {form}{f', turns {preview.turns}' if preview.turns else ''}"
    )
    output.print_line(
        f"leaves: {', '.join(preview.leaves)}; {units.amount(preview.lines, 'line')}, {units.size(preview.size)}"
    )
    if preview.left_out:
        output.print_line(f"stays: {', '.join(preview.stays)}")
    if not preview.replacements:
        output.print_line("replaced: nothing")
    for number, replacement in enumerate(preview.replacements, 1):
        state = "KEPT" if replacement.kept else "replaced"
        output.print_line(f"{number:>3}. {state}: {replacement.kind} × {replacement.count:,} ({replacement.id})")
        for place in replacement.places[:_MAX_SHOWN_PLACES]:
            where = f"agent {place.agent_id}" if place.agent_id else f"turn {place.turn}" if place.turn else "no turn"
            around = clean_line(f"{place.before[-30:]}[…]{place.after[:30]}")
            output.print_line(f"     {where}, line {place.line}, {place.field}: {around}")
        if replacement.count > _MAX_SHOWN_PLACES:
            output.print_line(f"     and {replacement.count - _MAX_SHOWN_PLACES:,} more")


def _write(copy: SharedCopy, form: str, path: Path, prices: Sequence[Price]) -> None:
    from unspool.page.html import render_shared  # loads what renders, which a preview does not need

    with raise_unwritable(f"cannot write `{path}`"):
        write_atomically(path, b"".join(render_shared(copy, form, prices)))
    output.warn(f"wrote {path}: {units.size(path.stat().st_size)}, {copy.preview.replaced:,} replaced")


def _write_document(preview: SharePreview, form: str, path: Path | None) -> None:
    values: dict[str, Any] = msgspec.to_builtins(preview)
    items = values.pop("replacements")
    output.write_document("share", {**values, "format": form, "path": str(path) if path else None, "items": items}, [])
