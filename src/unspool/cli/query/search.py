"""`unspool search`: finds words or a pattern in sessions and side files."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import Any, Final

import click

from unspool.cli import options, output, store_access
from unspool.display import clean_line
from unspool.errors import NothingFound, UsageError
from unspool.graph import PASSAGE_KINDS
from unspool.store import parse_zone
from unspool.store.search import (
    KIND_ALIASES,
    MATCH_END,
    MATCH_START,
    SearchHit,
    SearchRequest,
    open_corpus,
    search_corpora,
)
from unspool.store.search import request as requests

DEFAULT_HITS: Final = 20
"""Hits that are printed as text if `--limit` is not given."""


@click.command()
@click.argument("words", nargs=-1)
@click.option("--regex", metavar="PATTERN", help="Search raw bytes for a pattern (of re2) instead, without the index.")
@click.option("--in", "kinds", metavar="KIND,…", help=f"Only in these: {', '.join([*KIND_ALIASES, *PASSAGE_KINDS])}.")
@click.option("--tool", metavar="NAME", help="Only in what went into this tool and came out of it.")
@click.option("--path", "target", metavar="GLOB", help="Only in tool calls on such files, as in `*.py` or `src/*`.")
@click.option("--project", metavar="TEXT", help="Only of this project: its name, a part of its path, or its key.")
@click.option("--session", metavar="SESSION", help="Only in this session and its agents.")
@click.option("--since", metavar="WHEN", help="Only since then: a date, or `12h`, `7d`, `2w` ago.")
@click.option("--until", metavar="WHEN", help="Only until then; a date means the end of that day.")
@click.option("--errors", is_flag=True, help="Only in results of failed tool calls, and errors of the API.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"The best N. Default: {DEFAULT_HITS}, with --json all; 0: all.",
)
@click.option("--indexed", is_flag=True, help="Only what the index knows: at once, without the middle of long results.")
@options.store_options
@options.json_option
@options.folders_option
def search(
    *,
    words: tuple[str, ...],
    regex: str | None,
    limit: int | None,
    indexed: bool,
    access: options.AccessOptions,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
    **fields: Any,
) -> None:
    """Find words in prompts, answers, tool results, plans and all the rest.

    All WORDS must be in the same text. "Two words" in quotation marks follow each other; `word*` is the beginning of a
    word. Names are found whole and by their parts: `user` finds `getUserName` and `user_id`. Sessions that Claude Code
    has deleted are found too, if the archive has them.
    """
    if regex is not None and (words or indexed):
        raise UsageError("`--regex` goes with neither words nor `--indexed`", hint="put all of it into the pattern")
    request = SearchRequest(" ".join(words), regex, **fields)
    # Before a folder is opened: a wrong request is an error at once, not after a sync.
    terms = requests.parse_terms(request)
    with store_access.open_folders(config_dirs, access) as opened:
        for folder in opened:
            if folder.database is not None and not access.no_sync:
                store_access.update_text_index_if_quick(folder)
        timezone = opened[0].preferences.timezone
        zone = parse_zone(timezone) if timezone else None
        filters = requests.parse_filters(request, opened, datetime.now().astimezone(), zone)
        most = (None if as_json else DEFAULT_HITS) if limit is None else limit or None
        hits = search_corpora(list(map(open_corpus, opened)), terms, filters, limit=most, indexed_only=indexed)
    if as_json:
        output.write_json([hit._asdict() for hit in hits])
    elif hits:
        _print_hits(hits)
        if len(hits) == most and sys.stderr.isatty():
            click.echo(f"the best {most}; `--limit 0` shows all", err=True)
    if not hits:
        raise NothingFound("nothing found", hint=_hint(words, indexed=indexed))


def _print_hits(hits: list[SearchHit]) -> None:
    """Write hits as text: where, what, and the command that shows it."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for hit in hits:
        where = [
            hit.session[:8] if hit.session else "no session",
            f"turn {hit.turn}" if hit.turn else "",
            hit.kind.replace("_", " ") + (f" of {hit.tool}" if hit.tool else ""),
            f"agent {hit.agent}" if hit.agent else "",
            hit.project or "",
            (hit.timestamp or "")[:16].replace("T", " "),
        ]
        head = clean_line(" · ".join(part for part in where if part))
        click.echo(click.style(head, bold=True) if colour else head)
        click.echo(f"    {_highlight(clean_line(hit.snippet), colour=colour)}")
        click.echo(f"    {clean_line(hit.file)}:{hit.offset}")
        if command := _command(hit):
            click.echo(f"    {command}")
        click.echo()


def _highlight(snippet: str, *, colour: bool) -> str:
    if not colour:
        return snippet
    # The marks become escape sequences only after the snippet was cleaned: these are the only ones in it.
    return snippet.replace(MATCH_START, "\x1b[1;33m").replace(MATCH_END, "\x1b[0m")


def _command(hit: SearchHit) -> str:
    """Return the command that shows a hit."""
    if hit.session is None:
        return ""
    name = clean_line(hit.session)
    depth = "" if hit.kind in ("prompt", "answer", "queued", "title", "summary") else " --depth all"
    return f"unspool show {name}" + (f" --turn {hit.turn}{depth}" if hit.turn else "")


def _hint(words: tuple[str, ...], *, indexed: bool) -> str:
    if indexed:
        return "without `--indexed` all that was ever read is looked through"
    if len(words) > 1:
        return "all words must be in the same text; fewer find more, and `word*` finds how words begin"
    return "`word*` finds how words begin, `--regex` any bytes"
