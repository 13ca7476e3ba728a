"""`unspool redact`: lists what would be redacted in a file, or writes the file without it."""

from __future__ import annotations

import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unspool.cli import output
from unspool.display import clean
from unspool.errors import NotFound
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.redact import Redacted, RedactionOptions, Redactor

RULES = "redact.json"
"""Rules of one's own, in the data folder."""

_LIMIT = 1024 * 1024


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Say what would be redacted, and where; never the secret itself.")
@click.option("--emails", is_flag=True, help="Redact addresses of e-mail too.")
@click.option("--homes", is_flag=True, help="Redact the user's name in paths of home folders too.")
@click.option(
    "--rules", metavar="FILE", type=click.Path(path_type=Path), help="Rules of your own. Default: redact.json."
)
@output.json_option
def redact(
    *, files: tuple[Path, ...], check: bool, emails: bool, homes: bool, rules: Path | None, as_json: bool
) -> None:
    """Write files without the secrets in them, or say what would be redacted.

    Keys, tokens, passwords, private keys and the like become markers as `[redacted:github-token:3f2a9c01be]`; the same
    secret has the same marker. This is what `unspool collect` does to every line before it leaves the machine.
    """
    from unspool.redact import Redactor

    folder = data_folder(os.environ)
    redactor = Redactor(_key(folder), redaction_options(folder, rules, emails=emails, homes=homes))
    if check:
        _report(redactor, files, as_json)
        return
    for path in files:
        for _, redacted in _lines(redactor, path):
            click.echo(clean(redacted.text) if _is_terminal() else redacted.text)


def redaction_options(folder: Path, rules: Path | None, *, emails: bool, homes: bool) -> RedactionOptions:
    """Return what is to be redacted: by a file of rules and by flags."""
    from msgspec.structs import replace

    from unspool.redact import DEFAULT_OPTIONS, parse_options

    path = rules or folder / RULES
    found = parse_options(read_whole(path, _LIMIT), str(path)) if rules or path.exists() else DEFAULT_OPTIONS
    return replace(found, emails=found.emails or emails, homes=found.homes or homes)


def _key(folder: Path) -> bytes:
    """Return the key of this machine; one for this run if it has none."""
    from unspool.collect import read_enrolment

    try:
        return read_enrolment(folder).secret
    except NotFound:
        return secrets.token_bytes(32)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _lines(redactor: Redactor, path: Path) -> Iterator[tuple[int, Redacted]]:
    """Yield the lines of a file after redaction, by number. What is no file of lines is one whole, number 0."""
    from unspool.read import read_line_chunks
    from unspool.redact import Redacted, decode_line, find_suspect_lines, redact_line

    if path.suffix != ".jsonl":  # a private key goes over many lines
        yield 0, redact_line(redactor, read_whole(path.resolve(), MAX_SIDE_FILE).removesuffix(b"\n"))
        return
    number, left_out = 0, list[tuple[int, int]]()
    for piece in read_line_chunks(path.resolve() if path.exists() else path, left_out=left_out):
        data = piece.data[piece.start : piece.end]
        starts, at = set(find_suspect_lines(redactor, data)), 0
        for line in data.removesuffix(b"\n").split(b"\n"):
            number += 1
            yield number, redact_line(redactor, line) if at in starts else Redacted(*decode_line(line))
            at += len(line) + 1
    for offset, length in left_out:
        click.echo(f"unspool: a line of {length:,} bytes at {offset:,} is too long and was left out", err=True)


def _report(redactor: Redactor, files: tuple[Path, ...], as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    lines = 0
    for path in files:
        for number, redacted in _lines(redactor, path):
            lines += 1
            for hit in redacted.hits:
                kinds[hit.kind] += hit.number
                found.append(
                    {"file": str(path), "line": number, "kind": hit.kind, "count": hit.number, "path": hit.path}
                )
    if as_json:
        output.write_json({"rules": redactor.version, "lines": lines, "kinds": dict(kinds), "found": found})
        return
    for one in found:
        where = f"{one['file']}:{one['line']}" if one["line"] else one["file"]
        output.print_line(f"{where}: {one['kind']} × {one['count']}{' in ' if one['path'] else ''}{one['path']}")
    told = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common()) or "nothing"
    click.echo(f"{output.amount(lines, 'line')}: {told} to redact (rules {redactor.version})", err=True)
