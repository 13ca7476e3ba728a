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
from unspool.format import parse_zone, to_utc_text
from unspool.graph import PASSAGE_KINDS
from unspool.store.search import (
    KIND_ALIASES,
    MATCH_END,
    MATCH_START,
    SearchHit,
    SearchRequest,
    add_agent_turns,
    open_corpus,
    search_corpora,
)
from unspool.store.search import request as requests

DEFAULT_HITS: Final = 20
"""Hits that are printed as text if `--limit` is not given."""


@click.command()
@click.argument("words", nargs=-1)
@click.option(
    "--regex", metavar="PATTERN", help="Search the raw lines for a regular expression (re2), without the index"
)
@click.option("--in", "kinds", metavar="KIND,…", help=f"Only in these: {', '.join([*KIND_ALIASES, *PASSAGE_KINDS])}")
@click.option("--tool", metavar="NAME", help="Only in calls and results of this tool")
@click.option("--path", "target", metavar="GLOB", help="Only in tool calls on these files, like `*.py` or `src/*`")
@click.option("-p", "--project", metavar="TEXT", help="Only this project: its name, part of its path, or its key")
@click.option(
    "--session", metavar="SESSION", shell_complete=options.complete_session, help="Only this session and its agents"
)
@click.option("--since", metavar="TIME", help="Only since TIME: a date, an age like `12h` or `7d`, or `last week`")
@click.option("--until", metavar="TIME", help="Only until TIME; a date means the end of that day")
@click.option("--errors", is_flag=True, help="Only results of failed tool calls and API errors")
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    help=f"Only the best N hits; 0: all. Default: {DEFAULT_HITS}, with --json all",
)
@click.option("--indexed", is_flag=True, help="Search the index only: fast, but without the middle of long results")
@options.store_options
@options.list_output_options
@output.paged
def search(
    *,
    words: tuple[str, ...],
    regex: str | None,
    limit: int | None,
    indexed: bool,
    access: options.AccessOptions,
    as_json: bool,
    as_lines: bool,
    **fields: Any,
) -> None:
    """Search prompts, answers, tool results, plans and other text.

    All WORDS must occur in the same text. "Two words" in quotation marks are a phrase; `word*` matches the start of a
    word. A word also matches a part of a name: `user` finds `getUserName` and `user_id`. Sessions that Claude Code
    deleted are included if the archive has them.
    """
    if regex is not None and (words or indexed):
        raise UsageError("--regex cannot be combined with words or --indexed", hint="put everything into the pattern")
    request = SearchRequest(" ".join(map(_quote_phrase, words)), regex, **fields)
    # Before a folder is opened: a wrong request is an error at once, not after a sync.
    terms = requests.parse_terms(request)
    with store_access.open_folders(access) as opened:
        if opened.database is not None and not access.no_sync:
            store_access.update_text_index_if_quick(opened)
        timezone = opened.preferences.timezone
        zone = parse_zone(timezone) if timezone else None
        filters = requests.parse_filters(request, opened, datetime.now().astimezone(), zone)
        most = (None if as_json or as_lines else DEFAULT_HITS) if limit is None else limit or None
        hits = search_corpora([open_corpus(opened)], terms, filters, limit=most, indexed_only=indexed)
        hits = add_agent_turns(hits, opened)
    if as_lines:
        output.write_lines(map(_json_item, hits))
    elif as_json:
        output.write_document("search", {"items": [*map(_json_item, hits)]}, opened.skipped)
    elif hits:
        _print_hits(hits)
        if len(hits) == most and sys.stderr.isatty():
            click.echo(f"showing the best {most}; show all with `--limit 0`", err=True)
    if not hits:
        raise NothingFound("no matches", hint=_hint(words, indexed=indexed))


def _quote_phrase(word: str) -> str:
    """Return an argument as the query language has it: one that holds a blank is a phrase."""
    # The shell has taken the quotation marks of `search "high water"`; an argument with its own is left as it is.
    text = word.strip()
    if '"' in text or len(text.split()) < 2:
        return word
    return f'"{text.rstrip("*")}"' + ("*" if text.endswith("*") else "")


def _json_item(hit: SearchHit) -> dict[str, Any]:
    """Return a hit as `--json` writes it."""
    names = {"session_id": hit.session, "agent_id": hit.agent, "time": to_utc_text(hit.timestamp), "path": hit.file}
    return {**names, **hit._asdict(), "command": _command(hit) or None}


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
    depth = "" if not hit.agent and hit.kind in ("prompt", "answer", "queued", "title", "summary") else " --depth all"
    return options.pasteable(f"unspool show {name}") + (f" --turn {hit.turn}{depth}" if hit.turn else "")


def _hint(words: tuple[str, ...], *, indexed: bool) -> str:
    if indexed:
        return "search all text by removing `--indexed`"
    if len(words) > 1:
        return "all words must occur in the same text; use fewer words, or `word*` for the start of a word"
    return "use `word*` for the start of a word, or `--regex` for any text"
