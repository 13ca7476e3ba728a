"""Puts our server into the settings files of MCP clients and takes it out again. Reads and writes no files.

Rules
  1. All else stays byte for byte. A new member is indented as the file is, and has its line ends.
  2. A file that is not a JSON object is refused: the client would not read it either. Comments and commas at an end are
     taken where the client takes them.
  3. A server of our name that somebody else has put there is neither replaced nor removed.
  4. JSON with comments is changed as if blanks stood there. What changed is put in place in the file as it is.
"""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.errors import Refused
from unspool.format import json_edit

SERVER_NAME: Final = "unspool"
_REPAIR_HINT: Final = "fix the file first; nothing was changed"
_BY_HAND_HINT: Final = "change the file by hand; nothing was changed"


class ClientFile(NamedTuple):
    """The settings file of a client, and the member in it that lists MCP servers."""

    title: str
    path: Path
    member: str = "mcpServers"
    has_comments: bool = False
    """Whether the client takes JSON with comments."""


def list_clients(home: Path, config: Path, work: Path) -> dict[str, ClientFile]:
    """Return the clients we can install into; `config` is the config folder of Claude Code, `work` the current one."""
    # Claude Code keeps the servers of a user beside the default config folder, but inside any other.
    own = home / ".claude.json" if config == home / ".claude" else config / ".claude.json"
    desktop = "Library/Application Support/Claude" if sys.platform == "darwin" else ".config/Claude"
    return {
        "claude": ClientFile("Claude Code, all projects", own),
        "claude-project": ClientFile("Claude Code, this project", work / ".mcp.json"),
        "claude-desktop": ClientFile("Claude Desktop", home / desktop / "claude_desktop_config.json"),
        "cursor": ClientFile("Cursor", home / ".cursor" / "mcp.json", has_comments=True),
        "gemini": ClientFile("Gemini CLI", home / ".gemini" / "settings.json", has_comments=True),
        "vscode": ClientFile("VS Code, this folder", work / ".vscode" / "mcp.json", "servers", has_comments=True),
    }


def server_entry(command: Sequence[str]) -> dict[str, Any]:
    """Return how a client starts our server."""
    return {"type": "stdio", "command": command[0], "args": list(command[1:])}


def find_server(document: bytes, file: ClientFile) -> object:
    """Return the server of our name in a settings file; None if it has none."""
    servers = _parse(_blank(document, file)).get(file.member)
    return servers.get(SERVER_NAME) if isinstance(servers, dict) else None


def is_our_server(value: object) -> bool:
    """Tell whether a server is `unspool mcp`, wherever that is installed."""
    match value:
        case {"command": str() as command, "args": [*arguments]}:
            words = [command, *map(str, arguments)]
            return "mcp" in words and any(word.rpartition("/")[2] == "unspool" for word in words)
    return False


def add_server(document: bytes, file: ClientFile, entry: dict[str, Any]) -> bytes:
    """Return the bytes of a settings file with our server in it."""
    if find_server(document, file) == entry:
        return document
    return _edit(document, file, lambda plain: _add_entry(plain, file.member, entry))


def remove_server(document: bytes, file: ClientFile, backup: bytes | None) -> bytes | None:
    """Return a settings file without our server; None if there was no file before.

    `backup` is the file before ours was put in. Its bytes come back if nothing else has changed since.
    """
    entry = find_server(document, file)
    if backup is not None and isinstance(entry, dict) and add_server(backup, file, entry) == document:
        return backup
    before = _parse(_blank(backup, file)) if backup is not None else {}
    without = _edit(document, file, lambda plain: _remove_entry(plain, file.member, keep=file.member in before))
    if backup is None:
        return None if without.strip() == b"{}" else without
    return backup if _is_same(without, backup, file) else without


def _add_entry(document: bytes, member: str, entry: dict[str, Any]) -> bytes:
    settings = _parse(document)
    if member in settings and not isinstance(settings[member], dict):
        raise Refused(f"`{member}` is not a JSON object", hint=_REPAIR_HINT)
    if not document.strip():
        document = b"{}\n"
    unit, start = json_edit.find_indentation(document), json_edit.skip_space(document, 0)
    slot = json_edit.find_member(document, start, member)
    if slot is None:
        return json_edit.insert_value(document, start, {SERVER_NAME: entry}, key=member, unit=unit, level=1)
    inner = json_edit.find_member(document, slot.value_start, SERVER_NAME)
    if inner is not None:
        text = json_edit.format_value(entry, unit, 2, json_edit.find_line_end(document))
        return document[: inner.value_start] + text + document[inner.end :]
    return json_edit.insert_value(document, slot.value_start, entry, key=SERVER_NAME, unit=unit, level=2)


def _remove_entry(document: bytes, member: str, *, keep: bool) -> bytes:
    """Remove our server; and the member with all servers, if nothing is left in it and it shall not be kept."""
    while isinstance(servers := _parse(document).get(member), dict):
        if SERVER_NAME in servers:  # a key may be written twice
            document = json_edit.remove_value(document, (member, SERVER_NAME))
        elif servers or keep:
            break
        else:
            document = json_edit.remove_value(document, (member,))
    return document


def _parse(document: bytes) -> dict[str, Any]:
    """Return the settings; refuse what is no JSON object."""
    try:
        value = json.loads(document.decode()) if document.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Refused(f"the settings are not valid JSON: {str(error).lower()}", hint=_REPAIR_HINT) from None
    if not isinstance(value, dict):
        raise Refused("the settings are not a JSON object", hint=_REPAIR_HINT)
    return value


# What is no JSON, but stands in settings files: a byte order mark, comments, and commas before an end.


def _blank(document: bytes, file: ClientFile) -> bytes:
    """Return the settings as JSON of the same length, with blanks for what is no JSON."""
    if document.startswith(BOM_UTF8):
        document = b" " * len(BOM_UTF8) + document[len(BOM_UTF8) :]
    return json_edit.blank_comments(document) if file.has_comments else document


def _edit(document: bytes, file: ClientFile, edit: Callable[[bytes], bytes]) -> bytes:
    """Return the settings after an edit of the JSON in them."""
    plain = _blank(document, file)
    edited = edit(plain)
    if plain == document:
        return edited
    start = _count_same(plain, edited)
    # An edit begins at a token. It may seem to begin later, where its first blanks are like those for a comment.
    start = next((first for first, end in json_edit.find_comments(document) if first < start < end), start)
    most = min(len(plain), len(edited)) - start
    same = _count_same(plain[: -most - 1 : -1], edited[: -most - 1 : -1])
    made = document[:start] + edited[start : len(edited) - same] + document[len(document) - same :]
    if _blank(made, file).split() != edited.split() or _count_notes(made, file) != _count_notes(document, file):
        raise Refused("a comment stands where the settings would change", hint=_BY_HAND_HINT)
    return made


def _count_same(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their beginning."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)


def _count_notes(document: bytes, file: ClientFile) -> int:
    """Return how many characters of a document are no JSON."""
    plain = _blank(document, file)
    return 0 if plain == document else sum(one != other for one, other in zip(document, plain, strict=True))


def _is_same(one: bytes, other: bytes, file: ClientFile) -> bool:
    """Tell whether two settings files hold the same members in the same order, and no comment that may differ."""
    plain = [_blank(each, file) for each in (one, other)]
    has_notes = any(_count_notes(each, file) for each in (one, other))
    return not has_notes and json.dumps(_parse(plain[0])) == json.dumps(_parse(plain[1]))
