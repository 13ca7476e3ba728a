"""Finds plugins: folders of `--plugin-dir`, and those that Claude Code has installed and the settings enable.

    <plugin>/.claude-plugin/plugin.json     its name
    <plugin>/commands, agents, skills, output-styles, hooks/hooks.json
    <plugin>/.mcp.json, or `mcpServers` of plugin.json: its MCP servers

Rules
  1. An installed plugin acts if the settings that act enable it (`enabledPlugins`): those of a folder only if it is
     trusted. A folder of `--plugin-dir` acts, as its user says so.
  2. Plugins are read, never installed or updated. What cannot be read is reported.
  3. Hooks and MCP servers of a plugin find its folder in `CLAUDE_PLUGIN_ROOT`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.client.prompt.definition_files import DEFINED_NAME, Plugin
from unspool.client.tool_result import Json
from unspool.errors import UnspoolError, UsageError
from unspool.files import read_whole

_MAX_BYTES = 1024 * 1024
_ROOT = "${CLAUDE_PLUGIN_ROOT}"


class LoadedPlugins(NamedTuple):
    """The plugins that act, and what is wrong with others."""

    plugins: tuple[Plugin, ...] = ()
    problems: tuple[str, ...] = ()


def load_plugins(config: Path, documents: Iterable[Json], folders: Sequence[Path] = ()) -> LoadedPlugins:
    """Return the plugins of folders, and the installed ones that settings enable; later settings go before."""
    enabled: dict[str, bool] = {}
    for document in documents:
        value = document.get("enabledPlugins")
        if isinstance(value, dict):
            enabled |= {name: given is True for name, given in value.items()}
    plugins, problems = [_open_plugin(folder, folder.name) for folder in folders], []
    if wanted := [name for name, is_on in enabled.items() if is_on]:
        installed = _installed_folders(config)
        for name in wanted:
            folder = installed.get(name)
            if folder is None:
                problems.append(f"the plugin `{name}` is enabled, but not installed")
                continue
            try:
                plugins.append(_open_plugin(folder, name.partition("@")[0]))
            except UsageError as error:
                problems.append(error.message)
    return LoadedPlugins(tuple({plugin.name: plugin for plugin in plugins}.values()), tuple(problems))


def read_plugin_hooks(plugin: Plugin) -> tuple[Json, tuple[str, ...]]:
    """Return the hooks of a plugin as those of a settings file, and what is wrong with them."""
    path = plugin.root / "hooks" / "hooks.json"
    if not path.is_file():
        return {}, ()
    document = _read_object(path)
    if document is None:
        return {}, (f"cannot read the hooks `{path}`",)
    hooks = document.get("hooks", document)
    return {"hooks": _with_root(hooks, plugin.root)}, ()


def read_plugin_servers(plugin: Plugin) -> tuple[Json, tuple[str, ...]]:
    """Return the MCP servers of a plugin as they are configured, and what is wrong with its files."""
    manifest = plugin.root / ".claude-plugin" / "plugin.json"
    named = (_read_object(manifest) or {}).get("mcpServers") if manifest.is_file() else None
    found: Json = {}
    problems: list[str] = []
    for source in (".mcp.json", named):
        if source is None or (source == ".mcp.json" and not (plugin.root / source).is_file()):
            continue
        servers = _read_servers(plugin.root, source) if isinstance(source, str) else source
        if isinstance(servers, dict):
            found |= servers
        else:
            problems.append(f"cannot read the MCP servers of the plugin `{plugin.name}`")
    return found, tuple(problems)


def _read_servers(root: Path, name: str) -> Any:
    """Return the servers in a file of a plugin; None if there are none that can be read."""
    path = (root / name).resolve()
    document = _read_object(path) if path.is_relative_to(root) else None
    # Both forms are in use: with and without `mcpServers` around the servers.
    return None if document is None else document.get("mcpServers", document)


def _with_root(value: Any, root: Path) -> Any:
    """Return hooks whose commands find the folder of their plugin; a path must not become part of a command."""
    match value:
        case dict():
            changed = {key: _with_root(inner, root) for key, inner in value.items()}
            command, arguments = value.get("command"), value.get("args")
            if isinstance(command, str) and isinstance(arguments, list):  # no shell reads these
                changed["command"] = command.replace(_ROOT, str(root))
                changed["args"] = [
                    item.replace(_ROOT, str(root)) if isinstance(item, str) else item for item in arguments
                ]
            elif isinstance(command, str):
                changed["command"] = f"export CLAUDE_PLUGIN_ROOT={shlex.quote(str(root))}; {command}"
            return changed
        case list():
            return [_with_root(item, root) for item in value]
        case _:
            return value


def _open_plugin(folder: Path, usual_name: str) -> Plugin:
    if not folder.is_dir():
        raise UsageError(f"plugin folder not found: `{folder}`")
    manifest = folder / ".claude-plugin" / "plugin.json"
    document = _read_object(manifest) if manifest.is_file() else {}
    if document is None:
        raise UsageError(f"cannot read the plugin `{manifest}`")
    name = document.get("name", usual_name)
    if not isinstance(name, str) or not DEFINED_NAME.fullmatch(name):
        raise UsageError(f"invalid plugin name in `{manifest}`")
    return Plugin(name, folder.resolve())


def _installed_folders(config: Path) -> dict[str, Path]:
    """Return the folders of installed plugins by `name@marketplace`, as Claude Code lists them."""
    document = _read_object(config / "plugins" / "installed_plugins.json") or {}
    listed = document.get("plugins")
    found = {}
    for name, value in listed.items() if isinstance(listed, dict) else ():
        for entry in _entries(value):
            if isinstance(path := entry.get("installPath"), str) and path:
                found[name] = Path(path)
    return found


def _entries(value: object) -> Iterator[Json]:
    """Yield the entries of a plugin: one in older lists, one for each scope in newer ones."""
    for entry in value if isinstance(value, list) else [value]:
        if isinstance(entry, dict):
            yield entry


def _read_object(path: Path) -> Json | None:
    try:
        return msgspec.json.decode(read_whole(path, _MAX_BYTES), type=Json)
    except (UnspoolError, OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
