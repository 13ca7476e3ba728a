"""`unspool export`: a session written out.

[merged: export_tables.py] `unspool export --parquet` and `--duckdb`: all tables written out for other tools.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click

from unspool.cli import output
from unspool.cli import store_access as reading
from unspool.cli.query import sql_access as columns
from unspool.cli.session_argument import around, found, is_path
from unspool.display.safe import clean
from unspool.errors import NotFound, NothingFound, Usage
from unspool.export import json_data as data
from unspool.export.depth import WORDS, Depth, depth_of
from unspool.export.markdown import markdown
from unspool.export.outline import chosen
from unspool.home import Reader, Session
from unspool.paths import absolute, existing
from unspool.read.lines import Line, LineBuffer, LongLine
from unspool.read.scan import LINE_KINDS, Source


@click.command()
@click.argument("session", required=False)
@click.option("--jsonl", "form", flag_value="jsonl", help="The lines as they are, byte for byte.")
@click.option("--md", "form", flag_value="md", help="A transcript to read, as Markdown.")
@click.option("--html", "form", flag_value="html", help="One file to open in a browser: everything inside, no network.")
@click.option("--json", "form", flag_value="json", help="Turns, messages, tool calls, threads, agents, compactions.")
@click.option("--messages", "form", flag_value="messages", help="What the API would be sent if it were resumed now.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
@click.option("--turns", metavar="A..B", help="With --md and --html: only these turns, as `3`, `2..5`, `4..` or `-1`.")
@click.option(
    "--depth",
    type=click.Choice(WORDS),
    help="With --md and --html: prompts; answers too; steps too (unless told otherwise); all, every line.",
)
@click.option("--parquet", metavar="DIR", help="All sessions: every table of `unspool sql`, in a new folder.")
@click.option("--duckdb", metavar="FILE", help="The same as a new DuckDB database.")
@click.option("--raw", is_flag=True, help="With these two: `entries` also has each line as it is written.")
@reading.options
@output.folders_option
def export(
    session: str | None,
    *,
    form: str | None,
    target: str | None,
    turns: str | None,
    depth: str | None,
    parquet: str | None,
    duckdb: str | None,
    raw: bool,
    no_sync: bool,
    no_store: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Write a session out: byte for byte, as data, or to read; or all of them as tables.

    SESSION is a file, the beginning of a session's id, an agent's id or a title. With `--jsonl` an agent's id means the
    agent's own file, otherwise the session it belongs to. On a terminal the text is shown with escape sequences made
    harmless; in a pipe or a file it is exact.

    `--html` is one file with outline, rows, details, images, agents and branches, for any browser, also offline. A file
    written with `-o` can be read by nobody else. Nothing is left out of it: think before you send it.

    `--parquet` and `--duckdb` take no SESSION: they write the tables of all sessions, deleted ones too.
    """
    if parquet or duckdb:
        pass

        if session or form or target:
            raise Usage("`--parquet` and `--duckdb` write all sessions", hint="leave out SESSION and the other formats")
        export_tables(config_dirs, reading.How(None, no_sync, no_store), parquet, duckdb, raw=raw)
        return
    if form is None or session is None:
        hint = "one of `--md`, `--html`, `--json`, `--messages`, `--jsonl`; or all with `--parquet`, `--duckdb`"
        raise Usage("say which format to write" if form is None else "say which session to write", hint=hint)
    if raw or len(config_dirs) > 1:
        raise Usage("`--raw` and several folders go with `--parquet` and `--duckdb`", hint="leave them out")
    if (turns or depth) and form not in ("md", "html"):
        raise Usage("`--turns` and `--depth` go with `--md` and `--html`", hint="leave them out")
    how = reading.How(config_dirs[0], no_sync, no_store)
    if form == "jsonl":
        _lines(session, how, target)
        return
    with found(session, how) as one:
        if form in ("md", "html"):
            _to_read(one, form, depth_of(depth), _chosen(one, turns), target)
            return
        text = output.json_text(_data(one, form)) + "\n"
    if target:
        with output.new_file(target) as file:
            file.write(text.encode())
    else:
        click.echo(text, nl=False)


def _to_read(session: Session, form: str, depth: Depth, turns: range | None, target: str | None) -> None:
    """Write a session for people."""
    if form == "md":
        pieces = iter([clean(markdown(session, depth=depth, turns=turns))])
    else:
        try:
            from unspool.page.html.standalone import standalone
        except ImportError as missing:
            raise Usage(f"`--html` needs `{missing.name}`", hint="install `unspool[web]`") from None

        pieces = standalone(session, depth=depth, turns=turns)
    first = next(pieces, "")  # a file that cannot be read makes none
    if target:
        with output.new_file(target) as file:
            file.writelines(piece.encode() for piece in chain([first], pieces))
    else:
        for piece in chain([first], pieces):
            click.echo(piece, nl=False)


def _chosen(session: Session, turns: str | None) -> range | None:
    """Return the turns a person means."""
    if turns is None:
        return None
    count = len(session.turns)
    wanted = chosen(turns, count)
    if wanted is None:
        raise Usage(f"not turns: `{turns}`", hint="as in `--turns 3`, `--turns -1` or `--turns 2..5`")
    if not wanted:
        raise NothingFound(f"no such turns: `{turns}`", hint=f"the session has {output.amount(count, 'turn')}")
    return wanted


def _data(session: Session, form: str) -> dict[str, Any]:
    return data.everything(session) if form == "json" else data.context(session)


def _lines(name: str, how: reading.How, target: str | None) -> None:
    """Write a file of lines, byte for byte: one that is there, or that the archive has."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        _copy(Reader().pieces(existing(path)), target)
        return
    with around(name, how) as opened:
        home = opened.home
        sources = [source for source in home.tree.sources if source.kind in LINE_KINDS and _is_named(source, name)]
        if len(sources) > 1:
            some = ", ".join(f"`{source.path.stem}`" for source in sources[:3])
            raise Usage(f"`{name}` fits {len(sources)} files: {some}", hint="give more of the id")
        if not sources and is_path(name):
            raise NotFound(f"no such file: `{name}`", hint="a session can also be named by its id")
        _copy(home.reader.pieces(sources[0].path if sources else home.session(name).path), target)


def _copy(pieces: Iterator[bytes], target: str | None) -> None:
    if target:
        first = next(pieces, b"")  # a file that cannot be read makes none
        with output.new_file(target) as file:
            file.writelines(chain([first], pieces))
    elif sys.stdout.isatty():
        lines = LineBuffer()
        for piece in pieces:
            _show(lines.feed(piece))
        _show(lines.finish())
        click.echo("shown with escape sequences made harmless; redirect the output for the exact bytes", err=True)
    else:
        for piece in pieces:
            _write(sys.stdout.buffer.fileno(), piece)


def _show(lines: list[Line | LongLine]) -> None:
    for line in lines:
        text = bytes(line.data).decode(errors="replace") if isinstance(line, Line) else f"… {line.length:,} bytes …\n"
        click.echo(clean(text), nl=False)


def _is_named(source: Source, name: str) -> bool:
    if source.path == absolute(name):
        return True
    if source.agent_id:
        return source.agent_id.startswith(name) or source.path.stem == name
    return bool(source.session_id and source.session_id.startswith(name))


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def export_tables(
    config_dirs: Iterable[str | None], how: reading.How, parquet: str | None, duckdb: str | None, *, raw: bool
) -> None:
    """Write the tables of some folders to a new folder of Parquet files, or to a new database."""
    if parquet and duckdb:
        raise Usage("`--parquet` does not go with `--duckdb`", hint="choose one")
    with columns.opened(config_dirs, how) as tables:
        from unspool.store.columns import store_rows as snapshot
        from unspool.store.sql import export as dump
        from unspool.store.sync.changes import WITHIN, within

        query, lines = f"SELECT id FROM sources WHERE {WITHIN}", None
        if raw:
            ids = {id for root in tables.roots for (id,) in tables.database.execute(query, within(root))}
            known = [one for one in snapshot.sources(tables.database) if one.id in ids]
            lines = dump.raw_lines(known, tables.folder, _left_out)
        if parquet:
            dump.to_parquet(tables.setup, Path(parquet), lines)
        else:
            dump.to_duckdb(tables.setup, Path(duckdb or ""), lines)


def _left_out(path: str, reason: str) -> None:
    reading.warn(f"left out `{path}`: {reason}")
