"""`unspool show --file`: prints files as they were before a session changed them, or the difference.

Rules
  1. `PATH` lists, `PATH@v2` is one version, `PATH@v1..v3` or `--diff` is the difference of two.
  2. A file whose name is exactly the argument goes first: a name may end in `@v2` too.
  3. In a pipe or a file the bytes are exact; on a terminal they are made safe.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple, TypeAlias

import click

from unspool.cli import output
from unspool.display import TextColumn, clean, clean_line, units
from unspool.errors import NotFound, UsageError
from unspool.export import (
    FileHistoryVersion,
    diff_versions,
    find_versions,
    read_version,
    version_label,
    version_to_json,
)
from unspool.format import parse_local_time, to_utc_text
from unspool.home import Session

_SPEC = re.compile(r"(.+)@v([0-9]{1,9})(?:\.\.v?([0-9]{1,9}))?", re.DOTALL)
_COLUMNS = [
    TextColumn("file", least=20),
    TextColumn("version"),
    TextColumn("time"),
    TextColumn("size", right=True),
    TextColumn("copy"),
]
History: TypeAlias = dict[str, list[FileHistoryVersion]]
"""The versions of each file, by its path."""


class _Selection(NamedTuple):
    """The files that match the argument, and the versions that it names."""

    files: History
    first: int | None = None
    second: int | None = None


def print_file_versions(session: Session, spec: str, *, diff: bool, target: str | None, as_json: bool) -> None:
    """Write what `--file` names: a list of versions, one version, or the difference of two."""
    selection = _parse_spec(find_versions(session), spec, session)
    if selection.first is None and not diff:
        if target:
            raise UsageError("missing version", hint=f"use for example `--file {spec}@v1 -o FILE`")
        _write_list(session, selection.files, as_json=as_json)
        return
    if as_json:
        raise UsageError(
            "--json prints only the list of versions", hint="use `--file PATH --json`, without a version or `--diff`"
        )
    if diff or selection.second is not None:
        data = _diff(session, *_versions_to_compare(selection))
    else:
        data = read_version(session, _find_version(selection, selection.first))
    _write(data, target)


def _parse_spec(history: History, spec: str, session: Session) -> _Selection:
    if files := _match_files(history, spec, session):
        return _Selection(files)
    match = _SPEC.fullmatch(spec)
    path, number = (match[1], match[2]) if match else spec.rpartition("@")[::2]
    files = _match_files(history, path, session) if path else {}
    if not files:
        raise NotFound(
            f"this session changed no file that matches `{path if match else spec}`", hint=_describe_history(history)
        )
    if not match:
        raise UsageError(
            f"invalid version `{number}`", hint=f"use for example `--file {path}@v1` or `--file {path}@v1..v2`"
        )
    return _Selection(files, int(number), int(match[3]) if match[3] else None)


def _match_files(history: History, name: str, session: Session) -> History:
    """Return the file of exactly this name, else those whose path ends with it."""
    # Paths of a session from Windows have backslashes; either kind may be typed.
    name, folder = _slashes(name), _slashes(session.cwd or "").rstrip("/")
    exact = {path: history[path] for path in history if name in (_slashes(path), f"{folder}/{_slashes(path)}")}
    ending = f"/{name.removeprefix('./').lstrip('/')}"
    return exact or {path: history[path] for path in history if f"/{_slashes(path)}".endswith(ending)}


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _describe_history(history: History) -> str:
    if not history:  # Claude Code keeps versions of files since 2.0.36
        return "the session has no versions: it changed no file, or Claude Code was older than 2.0.36"
    more = f" and {len(history) - 3:,} more" if len(history) > 3 else ""
    return f"the session has versions of {', '.join(f'`{path}`' for path in list(history)[:3])}{more}"


def _only_file(files: History) -> list[FileHistoryVersion]:
    if len(files) > 1:
        some = ", ".join(f"`{path}`" for path in list(files)[:3])
        raise UsageError(f"the path matches {len(files)} files: {some}", hint="use more of the path")
    return next(iter(files.values()))


def _find_version(selection: _Selection, number: int | None) -> FileHistoryVersion:
    known = _only_file(selection.files)
    matching = [version for version in known if version.number == number]
    if not matching:
        there = ", ".join(f"v{version.number}" for version in known)
        raise NotFound(f"`{known[0].path}` has no version `v{number}`", hint=f"it has {there}")
    return matching[-1]


def _versions_to_compare(selection: _Selection) -> tuple[FileHistoryVersion, FileHistoryVersion]:
    """Return the two versions that were named, else one and the version before it."""
    if selection.second is not None:
        return _find_version(selection, selection.first), _find_version(selection, selection.second)
    known = _only_file(selection.files)
    newer = known[-1] if selection.first is None else _find_version(selection, selection.first)
    before = [version for version in known if version.number < newer.number]
    if not before:
        label = f"`{newer.path}@v{newer.number}`"
        raise NotFound(f"no earlier version than {label}", hint="compare two versions with `--file PATH@v1..v2`")
    return before[-1], newer


def _diff(session: Session, old: FileHistoryVersion, new: FileHistoryVersion) -> bytes:
    difference = diff_versions(session, old, new)
    if not difference:
        names = [clean_line(version_label(version)) for version in (old, new)]
        click.echo(f"no difference: {names[0]} and {names[1]}", err=True)
    return difference.encode("utf-8", "surrogateescape")  # bytes that are not UTF-8 come out as they were


def _write(data: bytes, target: str | None) -> None:
    if target or not sys.stdout.isatty():
        with output.open_target(target) as file:
            file.write(data)
    elif b"\0" in data:
        click.echo(f"binary file, {units.size(len(data))}; write it with `-o FILE` or a pipe", err=True)
    else:
        text = data.decode(errors="replace")
        shown = clean(text)
        output.show_pages(shown)
        if shown != text:
            output.warn_of_cleaning()


def _write_list(session: Session, files: History, *, as_json: bool) -> None:
    rows = [version_to_json(session, version) for known in files.values() for version in known]
    if as_json:
        items = [{"path": row["file"], **row, "time": to_utc_text(row["time"])} for row in rows]
        output.write_document("show-file", {"session_id": session.id, "items": items}, session.home.skipped)
    else:
        output.print_table(_COLUMNS, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> list[str]:
    when = parse_local_time(row["time"])
    return [
        row["file"],
        f"v{row['version']}",
        f"{when:%Y-%m-%d %H:%M}" if when else "",
        "" if row["bytes"] is None else units.size(row["bytes"]),
        "none (the file did not exist)" if row["copy"] == "none" else row["copy"],
    ]
