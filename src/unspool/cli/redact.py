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

from unspool.cli import options, output
from unspool.display import clean, units
from unspool.errors import NotFound
from unspool.files import MAX_SIDE_FILE, read_whole
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.redact import Redacted, Redactor


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="List what would be redacted and where, without the secrets")
@click.option("--emails", is_flag=True, help="Also redact e-mail addresses")
@click.option("--homes", is_flag=True, help="Also redact the user name in home folder paths")
@click.option(
    "--rules", metavar="FILE", type=click.Path(path_type=Path), help="File with your own rules. Default: redact.json"
)
@options.json_option
@click.pass_context
def redact(
    ctx: click.Context,
    *,
    files: tuple[Path, ...],
    check: bool,
    emails: bool,
    homes: bool,
    rules: Path | None,
    as_json: bool,
) -> None:
    """Remove secrets from files, or list them.

    Replaces keys, tokens, passwords and private keys by markers like `[redacted:github-token:3f2a9c01be]`. The same
    secret gets the same marker. `unspool collect` does this to every line before it sends the line.
    """
    from unspool.export import read_redaction_options
    from unspool.redact import Redactor

    folder = data_folder(os.environ)
    redactor = Redactor(_redaction_key(folder), read_redaction_options(folder, rules, emails=emails, homes=homes))
    if check:
        if _report(redactor, files, as_json):
            ctx.exit(1)
        return
    for path in files:
        for _, redacted in _redact_lines(redactor, path):
            # In a pipe exactly what would be sent; a terminal must not obey escape sequences of a transcript.
            click.echo(clean(redacted.text) if sys.stdout.isatty() else redacted.text)


def _redaction_key(folder: Path) -> bytes:
    """Return the key of this machine; one for this run if it has none."""
    from unspool.collect import read_enrolment

    try:
        return read_enrolment(folder).secret
    except NotFound:
        return secrets.token_bytes(32)


def _redact_lines(redactor: Redactor, path: Path) -> Iterator[tuple[int, Redacted]]:
    """Yield the lines of a file after redaction, with their numbers. A file that is not JSONL is one line, number 0."""
    from unspool.read import read_line_chunks
    from unspool.redact import Redacted, decode_line, redact_line, redact_suspect_lines

    if path.suffix != ".jsonl":  # a private key spans many lines
        yield 0, redact_line(redactor, read_whole(path.resolve(), MAX_SIDE_FILE).removesuffix(b"\n"))
        return
    number, left_out = 0, list[tuple[int, int]]()
    for piece in read_line_chunks(path.resolve() if path.exists() else path, left_out=left_out):
        data = piece.data[piece.start : piece.end]
        # Only lines that may hold a secret are taken apart; most hold none.
        suspects, start = dict(redact_suspect_lines(redactor, data)), 0
        for line in data.removesuffix(b"\n").split(b"\n"):
            number += 1
            yield number, suspects.get(start) or Redacted(*decode_line(line))
            start += len(line) + 1
    for offset, length in left_out:
        click.echo(f"unspool: skipped a line of {length:,} bytes at {offset:,}: too long", err=True)


def _report(redactor: Redactor, files: tuple[Path, ...], as_json: bool) -> bool:
    """Print what would be redacted; return whether there is anything."""
    hits: list[dict[str, Any]] = []
    kinds: Counter[str] = Counter()
    lines = 0
    for path in files:
        for number, redacted in _redact_lines(redactor, path):
            lines += 1
            for hit in redacted.hits:
                kinds[hit.kind] += hit.number
                hits.append(
                    {"path": str(path), "line": number, "kind": hit.kind, "count": hit.number, "field": hit.path}
                )
    if as_json:
        items = [{**hit, "file": hit["path"]} for hit in hits]
        found = {"rules": redactor.version, "lines": lines, "kinds": dict(kinds), "items": items, "found": items}
        output.write_document("redact", found, [])
        return bool(hits)
    for row in hits:
        where = f"{row['path']}:{row['line']}" if row["line"] else row["path"]
        output.print_line(f"{where}: {row['kind']} × {row['count']}{' in ' if row['field'] else ''}{row['field']}")
    summary = ", ".join(f"{kind} {number:,}" for kind, number in kinds.most_common()) or "nothing"
    click.echo(f"{units.amount(lines, 'line')}: {summary} to redact (rules {redactor.version})", err=True)
    return bool(hits)
