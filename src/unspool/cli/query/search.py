"""`unspool search`: words, or a pattern, found wherever they are."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import click

from unspool.cli import output, store_access
from unspool.display.safe import clean_line
from unspool.errors import NothingFound, Usage
from unspool.graph.search_text import KINDS
from unspool.store.access import Opened
from unspool.store.search import request as requests
from unspool.store.search.request import SHORT, Corpus, Hit, Question, Request
from unspool.store.search.results import AFTER, BEFORE
from unspool.store.search.search import search as searched
from unspool.store.usage.report import zone_of

SHOWN: Final = 20
"""Hits that a person is shown, if no number is named."""


@click.command()
@click.argument("words", nargs=-1)
@click.option("--regex", metavar="PATTERN", help="Search raw bytes for a pattern (of re2) instead, without the index.")
@click.option("--in", "kinds", metavar="KIND,…", help=f"Only in these: {', '.join([*SHORT, *KINDS])}.")
@click.option("--tool", metavar="NAME", help="Only in what went into this tool and came out of it.")
@click.option("--path", "target", metavar="GLOB", help="Only in tool calls on such files, as in `*.py` or `src/*`.")
@click.option("--project", metavar="TEXT", help="Only of this project: its name, a part of its path, or its key.")
@click.option("--session", metavar="SESSION", help="Only in this session and its agents.")
@click.option("--since", metavar="WHEN", help="Only since then: a date, or `12h`, `7d`, `2w` ago.")
@click.option("--until", metavar="WHEN", help="Only until then; a date means the end of that day.")
@click.option("--errors", is_flag=True, help="Only in results of failed tool calls, and errors of the API.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0), help=f"The best N. Default: {SHOWN}, with --json all; 0: all."
)
@click.option("--indexed", is_flag=True, help="Only what the index knows: at once, without the middle of long results.")
@store_access.options
@output.json_option
@output.folders_option
def search(
    words: tuple[str, ...],
    *,
    regex: str | None,
    kinds: str | None,
    tool: str | None,
    target: str | None,
    project: str | None,
    session: str | None,
    since: str | None,
    until: str | None,
    errors: bool,
    limit: int | None,
    indexed: bool,
    no_sync: bool,
    no_store: bool,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Find words in prompts, answers, tool results, plans and all the rest.

    All WORDS must be in the same text. "Two words" in quotation marks follow each other; `word*` is the beginning of a
    word. Names are found whole and by their parts: `user` finds `getUserName` and `user_id`. Sessions that Claude Code
    has deleted are found too, if the archive has them.
    """
    if regex is not None and (words or indexed):
        raise Usage("`--regex` goes with neither words nor `--indexed`", hint="put all of it into the pattern")
    request = Request(" ".join(words), regex, kinds, tool, target, project, session, since, until, errors)
    asked = requests.asked(request)
    how = store_access.How(None, no_sync, no_store)
    with _corpora(config_dirs, how) as (opened, corpora):
        chosen = opened[0].settings
        zone = zone_of(chosen.timezone) if chosen.timezone else None
        filters = requests.filters(request, opened, datetime.now().astimezone(), zone)
        most = (None if as_json else SHOWN) if limit is None else limit or None
        hits = searched(Question(asked, filters, most, indexed), corpora)
    if as_json:
        output.write_json([hit._asdict() for hit in hits])
    elif hits:
        _show(hits)
        if len(hits) == most and sys.stderr.isatty():
            click.echo(f"the best {most}; `--limit 0` shows all", err=True)
    if not hits:
        raise NothingFound("nothing found", hint=_hint(words, indexed=indexed))


@contextmanager
def _corpora(config_dirs: Iterable[str | None], how: store_access.How) -> Iterator[tuple[list[Opened], list[Corpus]]]:
    """Open folders, with the index up to date if that does not take long; else it goes on in the background."""
    with store_access.opened_each(config_dirs, how) as opened:
        for one in opened:
            if one.database is not None and not how.no_sync:
                store_access.index_or_go_on(one)
        yield opened, list(map(requests.corpus, opened))


def _show(hits: list[Hit]) -> None:
    """Write hits for a person: where, what, and how to open it."""
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
        click.echo(f"    {_marked(clean_line(hit.snippet), colour=colour)}")
        click.echo(f"    {clean_line(hit.file)}:{hit.offset}")
        if command := _command(hit):
            click.echo(f"    {command}")
        click.echo()


def _marked(snippet: str, *, colour: bool) -> str:
    if not colour:
        return snippet
    return snippet.replace(BEFORE, "\x1b[1;33m").replace(AFTER, "\x1b[0m")


def _command(hit: Hit) -> str:
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
