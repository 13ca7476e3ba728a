"""`unspool export`: a session written out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from unspool.cli import output
from unspool.display import clean
from unspool.errors import NotFound, Usage
from unspool.paths import config_folder, existing
from unspool.read.files import open_regular
from unspool.read.scan import LINE_KINDS, Source, scan

_PIECE = 1024 * 1024


@click.command()
@click.argument("file")
@click.option("--jsonl", is_flag=True, help="The lines as they are, byte for byte.")
@click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
@output.config_option
def export(file: str, jsonl: bool, target: str | None, config_dir: str | None) -> None:
    """Write a session out, byte for byte.

    FILE is a file, or the id of a session or sub-agent in the config folder; the beginning of the id is enough.
    On a terminal the text is shown with escape sequences made harmless; in a pipe or a file it is exact.
    """
    if not jsonl:
        raise Usage("say which format to write", hint="`unspool export FILE --jsonl`")
    source = _find(file, config_dir)
    if target:
        _save(source, Path(target))
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
        raise NotFound(f"no such session: `{name}`", hint="`unspool doctor` tells what there is")
    if len(found) > 1:
        some = ", ".join(f"`{source.path.stem}`" for source in found[:3])
        raise Usage(f"`{name}` fits {len(found)} files: {some}", hint="give more of the id")
    return found[0].path


def _is_named(source: Source, name: str) -> bool:
    if source.agent_id:
        return source.agent_id.startswith(name) or source.path.stem == name
    return bool(source.session_id and source.session_id.startswith(name))


def _save(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise Usage(f"`{target}` exists", hint="name a file that does not")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _copy(source, descriptor)
    finally:
        os.close(descriptor)


def _copy(source: Path, target: int) -> None:
    with open_regular(source) as descriptor:
        offset = 0
        while data := os.pread(descriptor, _PIECE, offset):
            offset += len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
