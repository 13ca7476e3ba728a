"""`unspool export`: writes a session, or all of them as tables; or sends them to OpenTelemetry."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import Any

import click

from unspool.cli import options, output, store_access
from unspool.cli.query.ls import SessionChooser, SessionFilter, read_session_rows
from unspool.cli.session_argument import is_path, open_folders_of_session, open_session, parse_turns
from unspool.display import clean
from unspool.errors import NotFound, NothingFound, UsageError, conflicting_options, empty_session_name
from unspool.export import DEPTH_NAMES, Depth, json_data, parse_depth, render_markdown
from unspool.extras import require_extras
from unspool.home import Reader, Session
from unspool.other_agents import find_program, iter_originals
from unspool.paths import absolute_path, data_folder, resolve_existing
from unspool.read import LINE_KINDS, Line, LineBuffer, LongLine, Skipped, Source

_FORMS = {
    "jsonl": "The session file, byte for byte",
    "original": "What another agent wrote of its session, byte for byte",
    "md": "A transcript in Markdown",
    "html": "One HTML file with everything inside, for any browser, also offline",
    "json": "Turns, messages, tool calls, threads, agents and compactions",
    "messages": "The messages that resuming would send to the API",
}
_SUFFIXES = {".jsonl": "jsonl", ".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


def _form_options(command: options.Command) -> options.Command:
    """Add an option for each format, passed on as `form`; two of them are refused. The suffix of `-o` names one too."""

    @wraps(command)
    def run(*, target: str | None, **values: Any) -> None:
        given = [name for name in _FORMS if values.pop(f"as_{name}")]
        if len(given) > 1:
            raise conflicting_options(*(f"--{name}" for name in given))
        suffix = Path(target).suffix.lower() if target else ""
        command(form=given[0] if given else _SUFFIXES.get(suffix), target=target, **values)

    wrapped: options.Command = run
    for name, help_text in reversed(_FORMS.items()):
        short = ("-j",) if name == "json" else ()
        wrapped = click.option(*short, f"--{name}", f"as_{name}", is_flag=True, help=help_text)(wrapped)
    return wrapped


def _telemetry_options(command: options.Command) -> options.Command:
    """Add `--otlp` and the options that belong to it; with them, sessions are sent and no file is written."""

    @click.option(
        "--otlp",
        "address",
        metavar="[URL]",
        is_flag=False,
        flag_value="",
        help="Send sessions as traces and metrics to an OpenTelemetry receiver. Default: $OTEL_EXPORTER_OTLP_ENDPOINT",
    )
    @click.option("--since", metavar="TIME", help="With --otlp: only sessions active since TIME: a date, `12h`, `7d`")
    @click.option(
        "--content", is_flag=True, help="With --otlp: also send prompts, answers, and tool inputs and results"
    )
    @click.option("--again", is_flag=True, help="With --otlp: also send what the receiver already has")
    @wraps(command)
    def run(*, address: str | None, since: str | None, content: bool, again: bool, **values: Any) -> None:
        if address is None:
            if since or content or again:
                raise UsageError("--since, --content and --again need --otlp", hint="remove them")
            command(**values)
            return
        form, access = values.pop("form"), values.pop("access")
        session, project = values.pop("session"), values.pop("project")
        if form not in (None, "json") or any(values.values()):
            hint = "keep only SESSION, --project, --since, --content, --again and --json"
            raise UsageError("--otlp writes no file", hint=hint)
        from unspool.cli.team.telemetry import TelemetryOptions, send_telemetry  # start-up: few exports send anything

        wanted = TelemetryOptions(address, session, project, since, content, again)
        send_telemetry(wanted, access, as_json=form == "json")

    return run


@click.command()
@options.session_argument(required=False)
@_form_options
@click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout")
@click.option(
    "-t",
    "--turns",
    "--turn",
    "turns",
    metavar="A..B",
    help="With --md and --html: only these turns: `3`, `2..5`, `4..` or `-1`",
)
@click.option(
    "--depth",
    type=click.Choice(DEPTH_NAMES),
    help="With --md and --html: prompts only, also answers, also steps (default), or every line",
)
@click.option(
    "--all", "every", is_flag=True, help="With --html: export all sessions as a folder of pages with an index"
)
@click.option("--project", metavar="TEXT", help="With --html and --otlp: only the sessions of a project")
@click.option("--open", "show", is_flag=True, help="With --all and --project: open the index in the browser")
@click.option(
    "--parquet", metavar="DIR", help="Export all sessions as Parquet: every table of `unspool sql`, in a new folder"
)
@click.option("--duckdb", metavar="FILE", help="Export all sessions as a new DuckDB database")
@click.option("--raw", is_flag=True, help="With --parquet and --duckdb: add each raw line to `entries`")
@options.store_options
@options.folders_option
@_telemetry_options
def export(
    *,
    session: str | None,
    form: str | None,
    target: str | None,
    turns: str | None,
    depth: str | None,
    every: bool,
    project: str | None,
    show: bool,
    parquet: str | None,
    duckdb: str | None,
    raw: bool,
    access: options.AccessOptions,
) -> None:
    """Export a session as Markdown, HTML, JSON or raw lines; or all as tables.

    SESSION is a file, a title, an agent id, or the start of a session id. With `--jsonl`, an agent id means the agent's
    own file, otherwise the session it belongs to. On a terminal, control characters are replaced; in a pipe or file the
    bytes are exact.

    `--html` writes one file with outline, rows, details, images, agents and branches, for any browser, also offline.
    Only you can read a file written with `-o`. It contains everything in the session: check it before you share it.

    `--html --all -o DIR` writes a page for each session, and an index with search. Later runs write only what has
    changed.

    `--parquet` and `--duckdb` take no SESSION: they write the tables of all sessions, also deleted ones.

    `--otlp` sends all sessions, or one, without their texts unless you add `--content`. Later runs send only new data.
    """
    if parquet or duckdb:
        if session or form or target:
            raise UsageError("--parquet and --duckdb export all sessions", hint="remove SESSION and the other formats")
        _export_tables(access, parquet, duckdb, raw=raw)
        return
    if every or project:
        if form != "html" or session or turns or raw or not target or (every and project):
            hint = "use `unspool export --html --all -o DIR` or `unspool export --html --project NAME -o DIR`"
            raise UsageError("`--all` and `--project` write a folder of HTML pages", hint=hint)
        export_pages(access, project, Path(target), parse_depth(depth), show=show)
        return
    if show:
        raise UsageError("`--open` needs `--all` or `--project`", hint="leave it out")
    if form is None or session is None:
        hint = "add --md, --html, --json, --messages or --jsonl; or export all sessions with --parquet or --duckdb"
        raise UsageError("missing output format" if form is None else "missing argument SESSION", hint=hint)
    if raw:
        raise UsageError("--raw needs --parquet or --duckdb", hint="remove --raw")
    if (turns or depth) and form not in ("md", "html"):
        raise UsageError("--turns and --depth need --md or --html", hint="remove them")
    if form in ("jsonl", "original"):
        _export_lines(session, access, target, original=form == "original")
        return
    with open_session(session, access) as opened:
        if form in ("md", "html"):
            numbers = None if turns is None else parse_turns(opened, turns, "turns")
            _export_document(opened, form, parse_depth(depth), numbers, target)
            return
        _export_data(opened, form, target)


def _export_data(session: Session, form: str, target: str | None) -> None:
    """Write a session as a JSON document, or the messages that resuming would send."""
    if form == "json":
        data = output.make_document("export", json_data.session_to_json(session))
    else:
        data = json_data.context_to_json(session)
    text = output.json_text(data) + "\n"
    with output.open_target(target) as file:
        file.write(text.encode())


def _export_document(session: Session, form: str, depth: Depth, turns: range | None, target: str | None) -> None:
    """Write a session as Markdown or HTML."""
    if form == "md":
        pieces = iter([clean(render_markdown(session, depth=depth, turns=turns))])
    else:
        from unspool.extras import require_extras

        require_extras("web", feature="`unspool export --html`")
        from unspool.page.html import render_standalone
        from unspool.store import preferences

        prices = preferences.read_preferences(data_folder(os.environ)).prices
        pieces = render_standalone(session, depth=depth, turns=turns, prices=prices)
    _write((piece.encode() for piece in pieces), target)


def _export_lines(name: str, access: options.AccessOptions, target: str | None, *, original: bool) -> None:
    """Write a session file byte for byte, from the disk or from the archive; or the `original` that it is made of."""
    if not name.strip():
        raise empty_session_name()
    path = Path(name).expanduser()
    if os.path.lexists(path) and (find_program(path) or not original):
        path = resolve_existing(path)
        pieces = Reader().pieces(path)
        _copy(_read_originals(path, pieces) if original else pieces, target)
        return
    with open_folders_of_session(name, access) as opened:
        home = opened.home
        sources = [source for source in home.tree.sources if source.kind in LINE_KINDS and _is_named(source, name)]
        if len(sources) > 1:
            some = ", ".join(f"`{source.path.stem}`" for source in sources[:3])
            raise UsageError(f"`{name}` matches {len(sources)} files: {some}", hint="use more characters of the id")
        if not sources and is_path(name):
            raise NotFound(f"file not found: `{name}`", hint="list sessions with `unspool ls`")
        found = sources[0].path if sources else home.session(name).path
        pieces = home.reader.pieces(found)
        _copy(_read_originals(found, pieces) if original else pieces, target)


def _read_originals(path: Path, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Return what another agent wrote, from the translated lines that keep it."""
    program = find_program(path)
    if program is None:
        raise UsageError("--original is for sessions of other agents", hint="use --jsonl")
    # The rows of a database have no line ends of their own.
    return iter_originals(pieces, b"\n" if program == "opencode" else b"")


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
    access: options.AccessOptions,
    parquet: str | None,
    duckdb: str | None,
    *,
    raw: bool,
) -> None:
    """Write the tables of some folders to a new folder of Parquet files, or to a new database."""
    if parquet and duckdb:
        raise UsageError("--parquet and --duckdb cannot be used together", hint="remove one of them")
    from unspool.cli.query.sql import open_sql_tables  # start-up: a single session needs no SQL

    with open_sql_tables(access) as (tables, _):
        # Here, when it is known that DuckDB and the rest are installed.
        from unspool.store import IN_FOLDER, folder_parameters
        from unspool.store.columns import store_rows
        from unspool.store.sql import export as table_export

        query, lines = f"SELECT id FROM sources WHERE {IN_FOLDER}", None
        if raw:
            ids = {id for (id,) in tables.database.execute(query, folder_parameters(tables.roots))}
            sources = [source for source in store_rows.read_sources(tables.database) if source.id in ids]
            lines = table_export.read_raw_lines(sources, tables.folder, output.warn_left_out)
        if parquet:
            table_export.export_parquet(tables.setup, Path(parquet), lines)
        else:
            table_export.export_duckdb(tables.setup, Path(duckdb or ""), lines)


def export_pages(access: options.AccessOptions, project: str | None, folder: Path, depth: Depth, *, show: bool) -> None:
    """Write the sessions of a project, or all, to a folder; pages that are up to date stay as they are."""
    require_extras("web", feature="`unspool export --html`")
    from unspool.page.html import CollectedSession, write_collection

    wanted = SessionFilter(project, None, None, None, None, ())
    with store_access.open_folders(access) as opened:
        rows = read_session_rows(opened, SessionChooser(wanted, None, show_all=False), wanted)
        sessions = {str(session.own_path): session for session in opened.home.sessions()}
        collected = [
            CollectedSession(
                session=sessions[row["path"]],
                title=row["title"],
                project=row["project"],
                started=row["started"],
                last=row["last"],
                turns=row["turns"],
                cost_micros=row["cost_micros"],
                unpriced_tokens=row["unpriced_tokens"],
            )
            for row in rows
            if row["path"] in sessions
        ]
        if not collected:
            raise NothingFound("no sessions found")
        with output.progress_bar(len(collected), "writing pages") as advance:
            report = write_collection(
                collected, folder, depth=depth, prices=opened.preferences.prices, on_page=lambda: advance(1)
            )
        opened.skip(*(Skipped(path, reason) for path, reason in report.failed))
    output.print_line(f"wrote {report.written:,} pages, {report.unchanged:,} unchanged; open {report.index_page}")
    if show:
        import webbrowser

        webbrowser.open(report.index_page.absolute().as_uri())
