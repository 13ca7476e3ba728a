"""`unspool export`: a session written out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from unspool.cli import output
from unspool.cli.sessions import find
from unspool.display import clean
from unspool.errors import NotFound, Usage
from unspool.export import data
from unspool.export.markdown import markdown
from unspool.home import Session
from unspool.paths import config_folder, existing
from unspool.read.files import open_regular
from unspool.read.scan import LINE_KINDS, Source, scan

_PIECE = 1024 * 1024


@click.command()
@click.argument("session")
@click.option("--jsonl", "form", flag_value="jsonl", help="The lines as they are, byte for byte.")
@click.option("--md", "form", flag_value="md", help="A transcript to read, as Markdown.")
@click.option("--json", "form", flag_value="json", help="Turns, messages, tool calls, threads, agents, compactions.")
@click.option("--messages", "form", flag_value="messages", help="What the API would be sent if it were resumed now.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
@output.config_option
def export(session: str, form: str | None, target: str | None, config_dir: str | None) -> None:
    """Write a session out: byte for byte, as data, or to read.

    SESSION is a file, the beginning of a session's id, an agent's id or a title. With `--jsonl` an agent's id means the
    agent's own file, otherwise the session it belongs to. On a terminal the text is shown with escape sequences made
    harmless; in a pipe or a file it is exact.
    """
    if form is None:
        raise Usage("say which format to write", hint="one of `--md`, `--json`, `--messages`, `--jsonl`")
    if form == "jsonl":
        _lines(_find(session, config_dir), target)
        return
    found = find(session, config_dir)
    text = clean(markdown(found)) if form == "md" else output.json_text(_data(found, form)) + "\n"
    if target:
        with _new_file(Path(target)) as descriptor:
            _write(descriptor, text.encode())
    else:
        click.echo(text, nl=False)


def _data(session: Session, form: str) -> dict[str, Any]:
    return data.everything(session) if form == "json" else data.context(session)


def _lines(source: Path, target: str | None) -> None:
    if target:
        with _new_file(Path(target)) as descriptor:
            _copy(source, descriptor)
    elif sys.stdout.isatty():
        with open_regular(source) as descriptor, os.fdopen(os.dup(descriptor), "rb") as lines:
            for line in lines:
                click.echo(clean(line.decode(errors="replace")), nl=False)
        click.echo("shown with escape sequences made harmless; redirect the output for the exact bytes", err=True)
    else:
        _copy(source, sys.stdout.buffer.fileno())


def _find(name: str, config_dir: str | None) -> Path:
    """Return the file a person means."""
    path = Path(name).expanduser()
    if os.path.lexists(path):
        return existing(path)
    if os.sep in name or name.endswith(".jsonl"):
        raise NotFound(f"no such file: `{name}`", hint="a session can also be named by its id")
    folder = existing(config_folder(config_dir, os.environ))
    found = [source for source in scan(folder).sources if source.kind in LINE_KINDS and _is_named(source, name)]
    if not found:
        return find(name, config_dir).path
    if len(found) > 1:
        some = ", ".join(f"`{source.path.stem}`" for source in found[:3])
        raise Usage(f"`{name}` fits {len(found)} files: {some}", hint="give more of the id")
    return found[0].path


def _is_named(source: Source, name: str) -> bool:
    if source.agent_id:
        return source.agent_id.startswith(name) or source.path.stem == name
    return bool(source.session_id and source.session_id.startswith(name))


@contextmanager
def _new_file(target: Path) -> Iterator[int]:
    """Make a file that nobody else may read; one that is there stays as it is."""
    if os.path.lexists(target):
        raise Usage(f"`{target}` exists", hint="name a file that does not")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(source: Path, target: int) -> None:
    with open_regular(source) as descriptor:
        offset = 0
        while piece := os.pread(descriptor, _PIECE, offset):
            offset += len(piece)
            _write(target, piece)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
