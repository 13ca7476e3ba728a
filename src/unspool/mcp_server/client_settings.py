"""Puts our server into the settings files of MCP clients and takes it out again. Reads and writes no files.

Rules
  1. All else stays byte for byte. A new member is indented as the file is.
  2. A file that is not a JSON object is refused: the client would not read it either.
  3. A server of our name that somebody else has put there is neither replaced nor removed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from unspool.errors import Refused
from unspool.format import json_edit

SERVER_NAME: Final = "unspool"
_REPAIR_HINT: Final = "fix the file first (it must not contain comments); nothing was changed"


class ClientFile(NamedTuple):
    """The settings file of a client, and the member in it that lists MCP servers."""

    title: str
    path: Path
    member: str = "mcpServers"


def list_clients(home: Path, config: Path, work: Path) -> dict[str, ClientFile]:
    """Return the clients we can install into; `config` is the config folder of Claude Code, `work` the current one."""
    # Claude Code keeps the servers of a user beside the default config folder, but inside any other.
    own = home / ".claude.json" if config == home / ".claude" else config / ".claude.json"
    desktop = "Library/Application Support/Claude" if sys.platform == "darwin" else ".config/Claude"
    return {
        "claude": ClientFile("Claude Code, all projects", own),
        "claude-project": ClientFile("Claude Code, this project", work / ".mcp.json"),
        "claude-desktop": ClientFile("Claude Desktop", home / desktop / "claude_desktop_config.json"),
        "cursor": ClientFile("Cursor", home / ".cursor" / "mcp.json"),
        "gemini": ClientFile("Gemini CLI", home / ".gemini" / "settings.json"),
        "vscode": ClientFile("VS Code, this folder", work / ".vscode" / "mcp.json", "servers"),
    }


def server_entry(command: Sequence[str]) -> dict[str, Any]:
    """Return how a client starts our server."""
    return {"type": "stdio", "command": command[0], "args": list(command[1:])}


def find_server(document: bytes, member: str) -> object:
    """Return the server of our name in a settings file; None if it has none."""
    servers = parse_client_settings(document).get(member)
    return servers.get(SERVER_NAME) if isinstance(servers, dict) else None


def is_our_server(value: object) -> bool:
    """Tell whether a server is `unspool mcp`, wherever that is installed."""
    match value:
        case {"command": str() as command, "args": [*arguments]}:
            words = [command, *map(str, arguments)]
            return "mcp" in words and any(word.rpartition("/")[2] == "unspool" for word in words)
    return False


def add_server(document: bytes, member: str, entry: dict[str, Any]) -> bytes:
    """Return the bytes of a settings file with our server in it."""
    settings = parse_client_settings(document)
    servers = settings.get(member)
    if isinstance(servers, dict) and servers.get(SERVER_NAME) == entry:
        return document
    if member in settings and not isinstance(servers, dict):
        raise Refused(f"`{member}` is not a JSON object", hint=_REPAIR_HINT)
    if not document.strip():
        document = b"{}\n"
    unit, start = json_edit.find_indentation(document), json_edit.skip_space(document, 0)
    slot = json_edit.find_member(document, start, member)
    if slot is None:
        return json_edit.insert_value(document, start, {SERVER_NAME: entry}, key=member, unit=unit, level=1)
    inner = json_edit.find_member(document, slot.value_start, SERVER_NAME)
    if inner is not None:
        return document[: inner.value_start] + json_edit.format_value(entry, unit, 2) + document[inner.end :]
    return json_edit.insert_value(document, slot.value_start, entry, key=SERVER_NAME, unit=unit, level=2)


def remove_server(document: bytes, member: str, backup: bytes | None) -> bytes | None:
    """Return a settings file without our server; None if there was no file before.

    `backup` is the file before ours was put in. Its bytes come back if nothing else has changed since.
    """
    without = _remove_entry(document, member)
    before = parse_client_settings(backup) if backup is not None else {}
    if parse_client_settings(without).get(member) == {} and member not in before:
        without = json_edit.remove_value(without, (member,))
    if backup is None:
        return None if without.strip() == b"{}" else without
    return backup if _is_same(without, backup) else without


def parse_client_settings(document: bytes) -> dict[str, Any]:
    """Return the settings; refuse what is no JSON object."""
    try:
        value = json.loads(document) if document.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Refused(f"the settings are not valid JSON: {str(error).lower()}", hint=_REPAIR_HINT) from None
    if not isinstance(value, dict):
        raise Refused("the settings are not a JSON object", hint=_REPAIR_HINT)
    return value


def _remove_entry(document: bytes, member: str) -> bytes:
    while find_server(document, member) is not None:  # a key may be written twice
        document = json_edit.remove_value(document, (member, SERVER_NAME))
    return document


def _is_same(one: bytes, other: bytes) -> bool:
    """Tell whether two settings files hold the same members in the same order."""
    return json.dumps(parse_client_settings(one)) == json.dumps(parse_client_settings(other))
