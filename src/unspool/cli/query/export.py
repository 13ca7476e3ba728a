"""`unspool export`: writes a session, or all of them as tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click

from unspool.cli import options, output
from unspool.cli.session_argument import is_path, open_folder_of_session, open_session, parse_turns
from unspool.display import clean
from unspool.errors import NotFound, UsageError
from unspool.export import DEPTH_NAMES, Depth, json_data, parse_depth, render_markdown
from unspool.home import Reader, Session
from unspool.paths import absolute_path, resolve_existing
from unspool.read import LINE_KINDS, Line, LineBuffer, LongLine, Source


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
    type=click.Choice(DEPTH_NAMES),
    help="With --md and --html: prompts; answers too; steps too (unless told otherwise); all, every line.",
)
@click.option("--parquet", metavar="DIR", help="All sessions: every table of `unspool sql`, in a new folder.")
@click.option("--duckdb", metavar="FILE", help="The same as a new DuckDB database.")
@click.option("--raw", is_flag=True, help="With these two: `entries` also has each line as it is written.")
@options.store_options
@options.folders_option
def export(
    *,
    session: str | None,
    form: str | None,
    target: str | None,
    turns: str | None,
    depth: str | None,
    parquet: str | None,
    duckdb: str | None,
    raw: bool,
    access: options.AccessOptions,
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
        if session or form or target:
            raise UsageError(
                "`--parquet` and `--duckdb` write all sessions", hint="leave out SESSION and the other formats"
            )
        _export_tables(config_dirs, access, parquet, duckdb, raw=raw)
        return
    if form is None or session is None:
        hint = "one of `--md`, `--html`, `--json`, `--messages`, `--jsonl`; or all with `--parquet`, `--duckdb`"
        raise UsageError("say which format to write" if form is None else "say which session to write", hint=hint)
    if raw or len(config_dirs) > 1:
        raise UsageError("`--raw` and several folders go with `--parquet` and `--duckdb`", hint="leave them out")
    if (turns or depth) and form not in ("md", "html"):
        raise UsageError("`--turns` and `--depth` go with `--md` and `--html`", hint="leave them out")
    access = access._replace(config_dir=config_dirs[0])
    if form == "jsonl":
        _export_lines(session, access, target)
        return
    with open_session(session, access) as opened:
        if form in ("md", "html"):
            numbers = None if turns is None else parse_turns(opened, turns, "turns")
            _export_document(opened, form, parse_depth(depth), numbers, target)
            return
        data = json_data.session_to_json(opened) if form == "json" else json_data.context_to_json(opened)
        text = output.json_text(data) + "\n"
    with output.open_target(target) as file:
        file.write(text.encode())


def _export_document(session: Session, form: str, depth: Depth, turns: range | None, target: str | None) -> None:
    """Write a session as Markdown or HTML."""
    if form == "md":
        pieces = iter([clean(render_markdown(session, depth=depth, turns=turns))])
    else:
        try:
            from unspool.page.html import render_standalone
        except ImportError as missing:
            raise UsageError(f"`--html` needs `{missing.name}`", hint="install `unspool[web]`") from None

        pieces = render_standalone(session, depth=depth, turns=turns)
    _write((piece.encode() for piece in pieces), target)


def _export_lines(name: str, access: options.AccessOptions, target: str | None) -> None:
    """Write a session file byte for byte, from the disk or from the archive."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        _copy(Reader().pieces(resolve_existing(path)), target)
        return
    with open_folder_of_session(name, access) as opened:
        home = opened.home
        sources = [source for source in home.tree.sources if source.kind in LINE_KINDS and _is_named(source, name)]
        if len(sources) > 1:
            some = ", ".join(f"`{source.path.stem}`" for source in sources[:3])
            raise UsageError(f"`{name}` fits {len(sources)} files: {some}", hint="give more of the id")
        if not sources and is_path(name):
            raise NotFound(f"no such file: `{name}`", hint="a session can also be named by its id")
        _copy(home.reader.pieces(sources[0].path if sources else home.session(name).path), target)


def _copy(pieces: Iterator[bytes], target: str | None) -> None:
    if target or not sys.stdout.isatty():
        _write(pieces, target)
        return
    lines = LineBuffer()
    for piece in pieces:
        _print_lines(lines.feed(piece))
    _print_lines(lines.finish())
    output.warn_of_cleaning()


def _write(pieces: Iterator[bytes], target: str | None) -> None:
    first = next(pieces, b"")  # before the file is created: a source that cannot be read leaves no empty file
    with output.open_target(target) as file:
        file.writelines(chain([first], pieces))


def _print_lines(lines: list[Line | LongLine]) -> None:
    for line in lines:
        text = bytes(line.data).decode(errors="replace") if isinstance(line, Line) else f"… {line.length:,} bytes …\n"
        click.echo(clean(text), nl=False)


def _is_named(source: Source, name: str) -> bool:
    if source.path == absolute_path(name):
        return True
    if source.agent_id:
        return source.agent_id.startswith(name) or source.path.stem == name
    return bool(source.session_id and source.session_id.startswith(name))


def _export_tables(
    config_dirs: Iterable[str | None],
    access: options.AccessOptions,
    parquet: str | None,
    duckdb: str | None,
    *,
    raw: bool,
) -> None:
    """Write the tables of some folders to a new folder of Parquet files, or to a new database."""
    if parquet and duckdb:
        raise UsageError("`--parquet` does not go with `--duckdb`", hint="choose one")
    from unspool.cli.query.sql import open_sql_tables  # start-up: a single session needs no SQL

    with open_sql_tables(config_dirs, access) as tables:
        # Here, when it is known that DuckDB and the rest are installed.
        from unspool.store import IN_FOLDER, folder_parameters
        from unspool.store.columns import store_rows
        from unspool.store.sql import export as table_export

        query, lines = f"SELECT id FROM sources WHERE {IN_FOLDER}", None
        if raw:
            ids = {id for root in tables.roots for (id,) in tables.database.execute(query, folder_parameters(root))}
            sources = [source for source in store_rows.read_sources(tables.database) if source.id in ids]
            lines = table_export.read_raw_lines(sources, tables.folder, output.warn_left_out)
        if parquet:
            table_export.export_parquet(tables.setup, Path(parquet), lines)
        else:
            table_export.export_duckdb(tables.setup, Path(duckdb or ""), lines)
