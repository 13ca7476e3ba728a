"""`unspool hooks`: installs and removes the hooks that report what Claude Code is doing."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import click

from unspool.cli import options, output
from unspool.cli.claude_code.settings_change import confirm_change
from unspool.display import units
from unspool.errors import NothingFound, Refused
from unspool.files import FileSnapshot, atomic, make_folder
from unspool.format import format_timestamp
from unspool.live import SIGNALS_FOLDER, HookSignals, find_session_files, projects_folder
from unspool.live import hooks as settings
from unspool.paths import data_folder

BACKUP = ".unspool-backup"
_TAIL = 256 * 1024
"""Bytes at the end of a session file in which the version of Claude Code is searched."""
_VERSION = re.compile(rb'"version":"([0-9]+(?:\.[0-9]+)+)"')


@click.command()
@click.argument("action", type=click.Choice(["status", "install", "remove"]), default="status")
@click.option("--yes", is_flag=True, help="Change the settings without asking")
@options.json_option
@options.one_folder_option
def hooks(action: str, yes: bool, as_json: bool, config_dir: str | None) -> None:
    """Install or remove hooks that report the status of Claude Code.

    `install` adds hooks to settings.json in the config folder, `remove` deletes them; both show the change and ask
    first. `status` shows what is installed. With hooks, the live board knows when a session asks for permission, waits
    or ends, also with older versions of Claude Code.

    A hook is one shell command that writes the start of its input to a file in $UNSPOOL_HOME/signals. It prints
    nothing, does not need unspool, and never fails. Everything else in the settings stays unchanged, byte for byte. A
    backup of the settings stays next to them until you remove the hooks.
    """
    root = options.find_config_folder(config_dir)
    if not root.is_dir():
        raise Refused(f"`{root}` is not a config folder", hint="name a config folder with `--config-dir DIR`")
    folder = data_folder(os.environ) / SIGNALS_FOLDER
    before = atomic.read_current(root / "settings.json", within=root)
    if action == "status":
        _print_status(before, folder, as_json)
    elif action == "install":
        _install(before, folder, _newest_version(root), yes=yes, as_json=as_json)
    else:
        _remove(before, yes=yes, as_json=as_json)


def _install(before: FileSnapshot, folder: Path, version: str | None, *, yes: bool, as_json: bool) -> None:
    after = settings.add_hooks(before.data or b"", folder, version)
    events = list(settings.supported_events(version))
    message = "the hooks are already installed"
    if after != before.data:
        confirm_change(before, after, yes=yes, as_json=as_json)
        # Before the hooks: without the folder they write nothing.
        make_folder(folder)
        left = atomic.read_current(_backup(before), within=before.path.parent)
        if left.data is not None and before.data is not None and not settings.installed_events(before.data):
            atomic.remove_file(left)  # the backup of an installation that was undone by hand
        atomic.replace_file(before, after, backup=_backup(before))
        message = "hooks installed; new sessions use them"
    output.print_result("hooks-change", {"changed": after != before.data, "events": events}, message, as_json=as_json)


def _remove(before: FileSnapshot, *, yes: bool, as_json: bool) -> None:
    if before.data is None or not settings.installed_events(before.data):
        raise NothingFound("the settings contain no hooks of unspool")
    after: bytes | None = settings.remove_hooks(before.data)
    backup = atomic.read_current(_backup(before), within=before.path.parent)
    assert after is not None
    # The user's own file comes back byte for byte, unless something else in it was changed since.
    if backup.data is not None and _is_same_without_hooks(backup.data, after):
        after = backup.data
    elif backup.data is None and after.strip() == b"{}":
        after = None  # there was no file before
    confirm_change(before, after, yes=yes, as_json=as_json)
    if after is None:
        atomic.remove_file(before)
    else:
        atomic.replace_file(before, after)
    if backup.data is not None:
        atomic.remove_file(backup)
    output.print_result("hooks-change", {"changed": True, "events": []}, "hooks removed", as_json=as_json)


def _is_same_without_hooks(backup: bytes, after: bytes) -> bool:
    """Tell whether a file without our hooks says what it said before they were installed."""
    with suppress(Refused):
        # Removing takes empty lists of hooks out too: the backup is treated alike before both are compared.
        emptied = settings.remove_hooks(settings.add_hooks(backup, Path("/")))
        return settings.is_same_settings(emptied, after)
    return False


def _backup(before: FileSnapshot) -> Path:
    return before.path.with_name(before.path.name + BACKUP)


def _print_status(before: FileSnapshot, folder: Path, as_json: bool) -> None:
    events = settings.installed_events(before.data) if before.data is not None else frozenset()
    signals = HookSignals(folder).by_session()
    times = [signal.at for by_event in signals.values() for signal in by_event.values()]
    newest: datetime | None = max(times, default=None)
    if as_json:
        places = {"path": str(before.path), "settings": str(before.path)}
        places |= {"signals_path": str(folder), "signals": str(folder)}
        counts = {"installed": bool(events), "events": sorted(events), "sessions": len(signals)}
        times_of_newest = {"newest_at": format_timestamp(newest), "newest": newest.isoformat()} if newest else {}
        newest_fields = {"newest_at": None, "newest": None} | times_of_newest
        output.write_document("hooks", {**places, **counts, **newest_fields})
        return
    named = (
        ", ".join(sorted(events))
        if events
        else options.pasteable("not installed; add them with `unspool hooks install`")
    )
    received = f"{units.amount(len(signals), 'session')}, last {newest:%Y-%m-%d %H:%M:%S} UTC" if newest else "none yet"
    output.print_line(f"hooks: {named}")
    output.print_line(f"settings: {before.path}")
    output.print_line(f"signals: {received}, in {folder}")


def _newest_version(root: Path) -> str | None:
    """Return the version of Claude Code that wrote the newest session."""
    # A version that does not know an event ignores the whole settings file (seen in 2.1.29).
    files = sorted(find_session_files(projects_folder(root)), key=lambda file: -file[1].modified)[:5]
    for path, stamp in files:
        with suppress(OSError), Path(path).open("rb") as file:
            file.seek(max(0, stamp.size - _TAIL))
            if versions := _VERSION.findall(file.read(_TAIL)):
                return str(versions[-1].decode())
    return None
