"""A search in files by ripgrep: what is looked for in, the files it is in out.

Rules
  1. Only a ripgrep from outside of the folders the session works in is run, and no settings of its own are read.
  2. It is ended when the time is up, when it has said enough, and when the call is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from unspool.client.desk import Desk
from unspool.client.places import is_inside
from unspool.client.tools.searching import LONGEST, SECONDS, TOO_LONG, Hits, Line, Search
from unspool.client.tools.tool import BadCall, ToolFailed
from unspool.client.tools.walk import OWN_FOLDERS

_MOST = 8 << 20
"""Bytes that are read of what it says: a line of it is short."""
_ROW = re.compile(rb"--\n|([^\0]+)\0(\d+)([:-])([^\n]*)\n")
_MODES = {"content": "--line-number", "files_with_matches": "--files-with-matches", "count": "--count"}


def program(desk: Desk) -> str | None:
    """Return where ripgrep is; None if it is not there, or is not to be trusted."""
    found = shutil.which("rg", path=desk.environment.get("PATH", ""))
    return None if found is None or is_inside(Path(found).resolve(), desk) else found


async def ripgrep(search: Search, program: str, desk: Desk) -> list[Hits]:
    """Return the files that have what is looked for, by name."""
    process = await asyncio.create_subprocess_exec(
        program,
        *_arguments(search),
        cwd=search.base,
        env=dict(desk.environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    words = asyncio.ensure_future(process.stderr.read())
    said, piece = b"", b"-"
    try:
        async with asyncio.timeout(SECONDS):
            while len(said) < _MOST and (piece := await process.stdout.read(1 << 16)):
                said += piece
    except TimeoutError:
        raise ToolFailed(TOO_LONG) from None
    finally:
        if piece:  # it has not ended by itself
            with suppress(ProcessLookupError):
                process.kill()
        problem = (await words).decode(errors="replace").strip()
        await process.wait()
    if not said and problem:
        raise BadCall(f"The search cannot be made: {problem.removeprefix('rg: ')}")
    return list(_read(said, search))


def _arguments(search: Search) -> list[str]:
    arguments = ["--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--null"]
    arguments += ["--hidden", "--sort=path", f"--max-columns={LONGEST}", _MODES[search.mode]]
    arguments += [f"--glob=!{folder}" for folder in sorted(OWN_FOLDERS)] + [f"--glob={glob}" for glob in search.globs]
    arguments += ["--ignore-case"] * search.ignore_case
    arguments += ["--multiline", "--multiline-dotall"] * search.multiline
    arguments += [f"--type={search.kind}"] if search.kind else []
    arguments += [f"--before-context={search.before}", f"--after-context={search.after}"]
    return [*arguments, f"--regexp={search.pattern}", "--", str(search.root)]


def _read(said: bytes, search: Search) -> Iterator[Hits]:
    match search.mode:
        case "files_with_matches":
            yield from (Hits(os.fsdecode(path)) for path in said.split(b"\0")[:-1])
        case "count":
            for path, count in re.findall(rb"([^\0]+)\0(\d+)\n", said):
                yield Hits(os.fsdecode(path), matches=int(count))
        case "content":
            rows = (row.groups() for row in _ROW.finditer(said) if row[1] is not None)
            for path, lines in groupby(rows, key=lambda row: row[0]):
                shown = tuple(Line(int(number), text, mark == b":") for _, number, mark, text in lines)
                yield Hits(os.fsdecode(path), lines=shown)
