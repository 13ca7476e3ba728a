"""Puts our status line into the bytes of Claude Code's settings file and takes it out again. Reads and writes no files.

Rules
  1. All else stays byte for byte. A new member is indented as the file is; one that is there gets another value in
     its place.
  2. A file that is not a JSON object is refused: Claude Code would not read it either.
  3. The status line of somebody else is replaced only if that is asked for, and comes back when ours is removed.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from unspool.errors import Refused
from unspool.format import json_edit

MEMBER = "statusLine"
_REPAIR_HINT = "fix the file first (it must not contain comments); nothing was changed"


def parse_settings(document: bytes) -> dict[str, Any]:
    """Return the settings; refuse what is no JSON object."""
    try:
        value = json.loads(document) if document.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Refused(f"the settings are not valid JSON: {str(error).lower()}", hint=_REPAIR_HINT) from None
    if not isinstance(value, dict):
        raise Refused("the settings are not a JSON object", hint=_REPAIR_HINT)
    return value


def is_our_status_line(value: object) -> bool:
    """Tell whether a `statusLine` runs `unspool statusline`, wherever that is installed."""
    command = value.get("command") if isinstance(value, dict) else None
    if not isinstance(command, str):
        return False
    words = command.replace("'", " ").replace('"', " ").split()
    names = [word.rpartition("/")[2] for word in words]
    return any(pair == ("unspool", "statusline") for pair in pairwise(names))


def find_status_line(document: bytes) -> object:
    """Return the `statusLine` of a settings file; None if it has none."""
    return parse_settings(document).get(MEMBER)


def add_status_line(document: bytes, command: str) -> bytes:
    """Return the bytes of a settings file with our status line in place of any other."""
    settings = parse_settings(document)
    value = {"type": "command", "command": command}
    if settings.get(MEMBER) == value:
        return document
    if not document.strip():
        document = b"{}\n"
    return _set_member(document, value)


def remove_status_line(document: bytes, backup: bytes | None) -> bytes | None:
    """Return a settings file without our status line; None if there was no file before.

    `backup` is the file before ours was put in. Its bytes come back if nothing else has changed since; if something
    has, only its `statusLine` does.
    """
    without = _remove_member(document)
    if backup is None:
        return None if without.strip() == b"{}" else without
    if _is_same(without, _remove_member(backup)):
        return backup
    before = parse_settings(backup)
    return _set_member(document, before[MEMBER]) if MEMBER in before else without


def _set_member(document: bytes, value: object) -> bytes:
    start, unit = json_edit.skip_space(document, 0), json_edit.find_indentation(document)
    slot = json_edit.find_member(document, start, MEMBER)
    if slot is None:
        return json_edit.insert_value(document, start, value, key=MEMBER, unit=unit, level=1)
    return document[: slot.value_start] + json_edit.format_value(value, unit, 1) + document[slot.end :]


def _remove_member(document: bytes) -> bytes:
    while MEMBER in parse_settings(document):  # a key may be written twice
        document = json_edit.remove_value(document, (MEMBER,))
    return document


def _is_same(one: bytes, other: bytes) -> bool:
    """Tell whether two settings files hold the same members in the same order."""
    return json.dumps(parse_settings(one)) == json.dumps(parse_settings(other))
