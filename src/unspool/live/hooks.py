"""Adds our hooks to the bytes of a settings file and removes them again. Reads and writes no files.

Rules
  1. All else stays byte for byte: order, white space, unknown fields, other people's hooks. What is added is indented
     as the file is.
  2. A file that is not a JSON object, or has something else where hooks belong, is refused: Claude Code would not read
     it either, and what was meant is unknown.
  3. Installing twice changes nothing; hooks of an older unspool, or for another folder, are replaced.
  4. An event that a version of Claude Code does not know makes it ignore the whole file (seen in 2.1.29), so
     `PermissionRequest` is only for versions that know it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import Refused
from unspool.format import json_edit, parse_version
from unspool.live.hook_signals import COMMAND_PREFIX, HOOK_EVENTS, hook_command

PERMISSION_REQUEST_SINCE = (2, 0, 76)
"""The oldest version that was seen to accept `PermissionRequest`."""
_TIMEOUT = 10
"""Seconds that Claude Code waits for one of our hooks, which takes a hundredth of a second."""


def supported_events(version: str | None) -> tuple[str, ...]:
    """Return the hook events that a version of Claude Code knows; all of them if no version is given."""
    numbers = parse_version(version)
    if numbers and numbers < PERMISSION_REQUEST_SINCE:
        return tuple(event for event in HOOK_EVENTS if event != "PermissionRequest")
    return HOOK_EVENTS


def installed_events(document: bytes) -> frozenset[str]:
    """Return the events for which a settings file holds our hooks."""
    hooks = _parse(document).get("hooks") or {}
    return frozenset(event for event, groups in hooks.items() if any(_is_ours(group) for group in groups))


def add_hooks(document: bytes, folder: Path, version: str | None = None) -> bytes:
    """Return the bytes of a settings file with our hooks."""
    if document.strip() and _has_current_hooks(document, folder, version):
        return document
    document = remove_hooks(document) if document.strip() else b"{}\n"
    unit = json_edit.find_indentation(document)
    for event in supported_events(version):
        hook = {"type": "command", "command": hook_command(event, folder), "timeout": _TIMEOUT}
        document = _append(document, event, {"hooks": [hook]}, unit)
    return document


def remove_hooks(document: bytes) -> bytes:
    """Return the bytes of a settings file without our hooks, and without members that are empty then."""
    hooks = _parse(document).get("hooks") or {}
    for event, groups in hooks.items():
        # From the end: removing an element moves those after it.
        for at in reversed([at for at, group in enumerate(groups) if _is_ours(group)]):
            document = json_edit.remove_value(document, ("hooks", event, at))
        if groups and all(_is_ours(group) for group in groups):
            document = json_edit.remove_value(document, ("hooks", event))
    if hooks and not _parse(document)["hooks"]:
        document = json_edit.remove_value(document, ("hooks",))
    return document


def is_same_settings(one: bytes, other: bytes) -> bool:
    """Return whether two settings files hold the same members in the same order."""
    try:
        return json.dumps(_parse(one)) == json.dumps(_parse(other))
    except Refused:
        return False


def _has_current_hooks(document: bytes, folder: Path, version: str | None) -> bool:
    """Return whether our hooks are there exactly as they would be written."""
    hooks = _parse(document).get("hooks") or {}
    ours = {
        event: [hook.get("command") for group in groups if _is_ours(group) for hook in group["hooks"]]
        for event, groups in hooks.items()
    }
    expected = {event: [hook_command(event, folder)] for event in supported_events(version)}
    return {event: commands for event, commands in ours.items() if commands} == expected


def _is_ours(group: Any) -> bool:
    match group:
        case {"hooks": [{"command": str(words)}]}:
            return words.startswith(COMMAND_PREFIX)
        case _:
            return False


def _parse(document: bytes) -> dict[str, Any]:
    """Return the settings; refuse a file into which no hooks can be put."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the settings are not valid JSON: {str(error).lower()}", hint=_REPAIR_HINT) from None
    if not isinstance(value, dict):
        raise Refused("the settings are not a JSON object", hint=_REPAIR_HINT)
    hooks = value.get("hooks")
    if hooks is not None and not (isinstance(hooks, dict) and all(isinstance(one, list) for one in hooks.values())):
        raise Refused("`hooks` in the settings is not an object of lists", hint=_REPAIR_HINT)
    return value


_REPAIR_HINT = "fix the file first (it must not contain comments); nothing was changed"


def _append(document: bytes, event: str, group: Any, unit: str) -> bytes:
    """Append a group to the list of an event, and create that list and `hooks` if they are not there."""
    start = json_edit.skip_space(document, 0)
    hooks = json_edit.find_member(document, start, "hooks")
    if hooks is None:
        return json_edit.insert_value(document, start, {event: [group]}, key="hooks", unit=unit, level=1)
    if document[hooks.value_start : hooks.end] == b"null":
        return document[: hooks.value_start] + json_edit.format_value({event: [group]}, unit, 1) + document[hooks.end :]
    groups = json_edit.find_member(document, hooks.value_start, event)
    if groups is None:
        return json_edit.insert_value(document, hooks.value_start, [group], key=event, unit=unit, level=2)
    return json_edit.insert_value(document, groups.value_start, group, key=None, unit=unit, level=3)
