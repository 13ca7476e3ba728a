"""`unspool statusline`: prints the status line of Claude Code, and installs or removes it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from unspool.cli import options, output
from unspool.cli.claude_code.settings_change import confirm_change
from unspool.display import TextColumn
from unspool.errors import NothingFound, Refused
from unspool.files import FileSnapshot, atomic
from unspool.statusline import FIELDS, claude_settings, print_status_line

BACKUP = ".unspool-statusline-backup"
_ACTIONS = ("print", "install", "uninstall", "status", "fields")
_COLUMNS = [TextColumn("field"), TextColumn("shows", least=30)]


@click.command()
@click.argument("action", type=click.Choice(_ACTIONS), default="print", metavar="[ACTION]")
@click.option("--yes", "-y", is_flag=True, help="Change the settings without asking")
@click.option("--replace", is_flag=True, help="With install: replace the status line of another program")
@options.json_option
@options.one_folder_option
def statusline(*, action: str, yes: bool, replace: bool, as_json: bool, config_dir: str | None) -> None:
    """Print a status line for Claude Code, or install it.

    ACTION is print (the default), install, uninstall, status or fields.

    `install` sets `statusLine` in settings.json of the config folder; it shows the change and asks first. Claude Code
    then shows the line below its prompt: model, git branch, context, and the cost of the session, of today and of the
    5-hour window. `uninstall` restores the settings byte for byte.

    `print` reads the JSON that Claude Code sends on stdin. Set another template with
    `unspool config statusline.template TEMPLATE`; `unspool statusline fields` lists its fields.
    """
    if action == "print":
        print_status_line(config_dir)
        return
    if action == "fields":
        _print_fields(as_json)
        return
    root = options.find_config_folder(config_dir)
    if not root.is_dir():
        raise Refused(f"`{root}` is not a config folder", hint="name the folder that has `settings.json`")
    before = atomic.read_current(root / "settings.json", within=root)
    if action == "status":
        _print_status(before, as_json)
    elif action == "install":
        _install(before, replace=replace, yes=yes, as_json=as_json)
    else:
        _uninstall(before, yes=yes, as_json=as_json)


def status_line_command() -> str:
    """Return the command that runs this unspool from any folder."""
    for place in (Path(sys.argv[0]), Path(sys.executable).with_name("unspool")):
        if place.is_absolute() and place.name == "unspool" and os.access(place, os.X_OK) and place.is_file():
            return f"{shlex.quote(str(place))} statusline"
    # -P: the folder that Claude Code works in is untrusted, and modules in it must not be imported.
    return f"{shlex.quote(sys.executable)} -P -m unspool statusline"


def describe_status_line(value: object) -> str:
    """Return what is known of the `statusLine` of a settings file in a few words."""
    if value is None:
        return "not installed"
    return "installed" if claude_settings.is_our_status_line(value) else "another program's"


def _install(before: FileSnapshot, *, replace: bool, yes: bool, as_json: bool) -> None:
    document = before.data or b""
    there = claude_settings.find_status_line(document)
    is_ours = claude_settings.is_our_status_line(there)
    if there is not None and not is_ours and not replace:
        hint = "pass --replace to use unspool's; `unspool statusline uninstall` brings the other one back"
        raise Refused("the settings have the status line of another program", hint=hint)
    after = claude_settings.add_status_line(document, status_line_command())
    is_changed = after != document
    if is_changed:
        confirm_change(before, after, yes=yes, as_json=as_json)
        backup = atomic.read_current(_backup(before), within=before.path.parent)
        if not is_ours and backup.data is not None:
            atomic.remove_file(backup)  # of a status line that somebody took out by hand
        # A status line of ours that only moves keeps the backup of what was there before the first.
        kept = None if is_ours else _backup(before)
        atomic.replace_file(before, after, backup=kept)
    message = "installed; Claude Code shows it from the next prompt on" if is_changed else "already installed"
    output.print_result(
        "statusline-change", {"changed": is_changed, "path": str(before.path)}, message, as_json=as_json
    )


def _uninstall(before: FileSnapshot, *, yes: bool, as_json: bool) -> None:
    if before.data is None or not claude_settings.is_our_status_line(claude_settings.find_status_line(before.data)):
        raise NothingFound("the settings have no status line of unspool")
    backup = atomic.read_current(_backup(before), within=before.path.parent)
    after = claude_settings.remove_status_line(before.data, backup.data)
    confirm_change(before, after, yes=yes, as_json=as_json)
    if after is None:
        atomic.remove_file(before)
    else:
        atomic.replace_file(before, after)
    if backup.data is not None:
        atomic.remove_file(backup)
    output.print_result(
        "statusline-change", {"changed": True, "path": str(before.path)}, "uninstalled", as_json=as_json
    )


def _backup(before: FileSnapshot) -> Path:
    return before.path.with_name(before.path.name + BACKUP)


def _print_status(before: FileSnapshot, as_json: bool) -> None:
    value = claude_settings.find_status_line(before.data or b"")
    state = describe_status_line(value)
    if as_json:
        data = {"path": str(before.path), "installed": state == "installed", "status_line": value}
        output.write_document("statusline", data)
        return
    output.print_line(f"status line: {state}")
    output.print_line(f"settings: {before.path}")


def _print_fields(as_json: bool) -> None:
    if as_json:
        items = [{"name": name, "shows": meaning} for name, meaning in FIELDS.items()]
        output.write_document("statusline-fields", {"items": items}, [])
        return
    output.print_table(_COLUMNS, [[f"{{{name}}}", meaning] for name, meaning in FIELDS.items()])
