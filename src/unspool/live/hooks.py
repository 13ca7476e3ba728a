"""Our hooks in a settings file: its bytes in, its bytes with or without them out. Reads and writes nothing.

Rules
  1. All else stays byte for byte: order, white space, unknown fields, other people's hooks. What is added is indented
     as the file is.
  2. A file that is no JSON object, or has something else where hooks belong, is refused: the program would not read it
     either, and nobody would know what was meant.
  3. Installing twice changes nothing; hooks that an older unspool wrote, or that lead to another folder, are replaced.
  4. An event that a version of the program does not know makes it leave out the whole file (seen in 2.1.29), so
     `PermissionRequest` is only for versions that know it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import Refused
from unspool.format import json_edit
from unspool.live.hook_signals import EVENTS, MARK, command

PERMISSION_SINCE = (2, 0, 76)
"""The oldest version that was seen to take `PermissionRequest`."""
_TIMEOUT = 10
"""Seconds that the program waits for a hook of ours; it takes a hundredth of one."""


def events_for(version: str | None) -> tuple[str, ...]:
    """Return the events that a version of the program knows; without one all of them."""
    numbers = tuple(int(part) for part in (version or "").split(".") if part.isdigit())
    if numbers and numbers < PERMISSION_SINCE:
        return tuple(event for event in EVENTS if event != "PermissionRequest")
    return EVENTS


def installed(document: bytes) -> frozenset[str]:
    """Return the events that our hooks in a settings file tell of."""
    hooks = _checked(document).get("hooks") or {}
    return frozenset(event for event, groups in hooks.items() if any(_is_ours(group) for group in groups))


def with_hooks(document: bytes, folder: Path, version: str | None = None) -> bytes:
    """Return a settings file with our hooks in it."""
    if document.strip() and _says(document, folder, version):
        return document
    document = without_hooks(document) if document.strip() else b"{}\n"
    unit = _unit(document)
    for event in events_for(version):
        hook = {"type": "command", "command": command(event, folder), "timeout": _TIMEOUT}
        document = _added(document, ("hooks", event), {"hooks": [hook]}, unit)
    return document


def without_hooks(document: bytes) -> bytes:
    """Return a settings file without our hooks, and without what is empty then."""
    hooks = _checked(document).get("hooks") or {}
    for event, groups in hooks.items():
        for at in reversed([at for at, group in enumerate(groups) if _is_ours(group)]):
            document = _removed(document, ("hooks", event, at))
        if groups and all(_is_ours(group) for group in groups):
            document = _removed(document, ("hooks", event))
    if hooks and not _checked(document)["hooks"]:
        document = _removed(document, ("hooks",))
    return document


def same(one: bytes, other: bytes) -> bool:
    """Tell whether two settings files say the same, in the same order."""
    try:
        return json.dumps(_checked(one)) == json.dumps(_checked(other))
    except Refused:
        return False


def _says(document: bytes, folder: Path, version: str | None) -> bool:
    """Tell whether the hooks are there as they would be written."""
    hooks = _checked(document).get("hooks") or {}
    ours = {
        event: [hook.get("command") for group in groups if _is_ours(group) for hook in group["hooks"]]
        for event, groups in hooks.items()
    }
    wanted = {event: [command(event, folder)] for event in events_for(version)}
    return {event: commands for event, commands in ours.items() if commands} == wanted


def _is_ours(group: Any) -> bool:
    match group:
        case {"hooks": [{"command": str(words)}]}:
            return words.startswith(MARK)
        case _:
            return False


def _checked(document: bytes) -> dict[str, Any]:
    """Return what a settings file says, if hooks can be put into it."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"the settings are no JSON: {str(error).lower()}", hint=_MEND) from None
    if not isinstance(value, dict):
        raise Refused("the settings are no JSON object", hint=_MEND)
    hooks = value.get("hooks")
    if hooks is not None and not (isinstance(hooks, dict) and all(isinstance(one, list) for one in hooks.values())):
        raise Refused("`hooks` in the settings is no object of lists", hint=_MEND)
    return value


_MEND = "mend the file first; comments are not allowed in it. Nothing was changed"


def _unit(document: bytes) -> str:
    """Return what one level is indented by: what the first member is, or two spaces; nothing if all is on one line."""
    start = json_edit.skip_space(document, 0)
    first = next(json_edit.slots(document, start), None)
    if first is None:
        return "  "
    before = document[start + 1 : first.start].decode(errors="replace")
    return before.rpartition("\n")[2] if "\n" in before else ""


def _added(document: bytes, path: tuple[str, str], group: Any, unit: str) -> bytes:
    """Return the document with one more element in the list at a path, which is made if it is not there."""
    start = json_edit.skip_space(document, 0)
    hooks = _member(document, start, path[0])
    if hooks is None:
        return _inserted(document, start, (path[0], {path[1]: [group]}), (unit, 1))
    if document[hooks.value_start : hooks.end] == b"null":
        text = _text({path[1]: [group]}, unit, 1)
        return document[: hooks.value_start] + text + document[hooks.end :]
    event = _member(document, hooks.value_start, path[1])
    if event is None:
        return _inserted(document, hooks.value_start, (path[1], [group]), (unit, 2))
    return _inserted(document, event.value_start, (None, group), (unit, 3))


def _inserted(document: bytes, start: int, what: tuple[str | None, Any], where: tuple[str, int]) -> bytes:
    """Put a member or element at the end of the object or list that begins at `start`."""
    (key, value), (unit, level) = what, where
    slots = list(json_edit.slots(document, start))
    text = (json.dumps(key).encode() + b": " if key is not None else b"") + _text(value, unit, level)
    line = b"\n" + (unit * level).encode() if unit else b""
    if slots:
        at = slots[-1].end
        return document[:at] + (b"," + line if unit else b", ") + text + document[at:]
    end = json_edit.value_end(document, start)
    assert end is not None
    closing = b"\n" + (unit * (level - 1)).encode() if unit else b""
    return document[: start + 1] + line + text + closing + document[end - 1 :]


def _text(value: Any, unit: str, level: int) -> bytes:
    if not unit:
        return json.dumps(value, ensure_ascii=False).encode()
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return f"\n{unit * level}".join(lines).encode()


def _removed(document: bytes, path: tuple[str | int, ...]) -> bytes:
    """Take a member or element out, with the comma before it, or the one after it if it is the first."""
    start = json_edit.skip_space(document, 0)
    for key in path[:-1]:
        slot = _member(document, start, key)
        assert slot is not None
        start = slot.value_start
    slots = list(json_edit.slots(document, start))
    key = path[-1]
    at = key if isinstance(key, int) else max(number for number, slot in enumerate(slots) if slot.key == key)
    if at:
        return document[: slots[at - 1].end] + document[slots[at].end :]
    if len(slots) > 1:
        return document[: slots[0].start] + document[slots[1].start :]
    end = json_edit.value_end(document, start)
    assert end is not None
    return document[: start + 1] + document[end - 1 :]


def _member(document: bytes, start: int, key: str | int) -> json_edit.Slot | None:
    """Return a member or element; of a key that is written twice the last, as for every reader."""
    slots = list(json_edit.slots(document, start))
    if isinstance(key, int):
        return slots[key]
    return next((slot for slot in reversed(slots) if slot.key == key), None)
