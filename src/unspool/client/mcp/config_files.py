"""Finds the MCP servers of a chat: in `.mcp.json`, in `.claude.json`, and in what `--mcp-config` gives.

    flag      --mcp-config FILE or JSON, several               before all others
    local     .claude.json, `projects` → folder → `mcpServers`
    project   .mcp.json of the folder or above it in its repository
    user      .claude.json, `mcpServers`
    plugin    .mcp.json or the manifest of a plugin that acts; its servers are called `plugin:PLUGIN:SERVER`

Rules
  1. A server of `.mcp.json` is used only in a trusted folder, and only if it was approved: by the user when asked, or
     by settings (`enabledMcpjsonServers`, `enableAllProjectMcpServers`). `disabledMcpjsonServers` goes before both.
     Where nobody can be asked it is not used.
  2. With `--strict-mcp-config` only what the flag gives counts. Sources that `--setting-sources` leaves out are not
     read.
  3. A file or a server that is not understood is named, and the others are used all the same. What `--mcp-config`
     gives has to be right: the user has just written it.
  4. Servers of plugins need no approval, as in Claude Code: the user has enabled the plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.client.mcp.approvals import FolderApprovals
from unspool.client.mcp.server_config import Scope, ServerConfig, parse_server
from unspool.client.tool import normalize_name
from unspool.errors import UnspoolError, UsageError
from unspool.files import atomic

PROJECT_FILE = ".mcp.json"
_MAX_BYTES = 64 * 1024 * 1024
"""Of `.claude.json`, which grows with the projects in it."""


class McpFlags(NamedTuple):
    """What the command line says about MCP servers."""

    configs: tuple[str, ...] = ()
    """Files, or JSON objects."""
    is_strict: bool = False


class ConfigScope(NamedTuple):
    """Where servers are looked for."""

    config: Path
    root: Path
    environment: Mapping[str, str]
    trusted: bool
    sources: tuple[str, ...] | None = None
    """Of user, project and local; None: all."""


class PluginServers(NamedTuple):
    """The servers of one plugin, as they are configured."""

    plugin: str
    root: Path
    servers: Mapping[str, Any]


class McpConfiguration(NamedTuple):
    """The servers of a chat."""

    servers: tuple[ServerConfig, ...] = ()
    pending: tuple[ServerConfig, ...] = ()
    """Servers of `.mcp.json` that nobody has approved or declined."""
    problems: tuple[str, ...] = ()


class SettingsAnswers(NamedTuple):
    """What settings say about the servers of `.mcp.json`."""

    enabled: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    enables_all: bool = False

    @classmethod
    def collect(cls, settings: Iterable[Mapping[str, Any]]) -> SettingsAnswers:
        """Return what several settings say together."""
        enabled, disabled, enables_all = set[str](), set[str](), False
        for data in settings:
            enabled |= _names(data.get("enabledMcpjsonServers"))
            disabled |= _names(data.get("disabledMcpjsonServers"))
            enables_all = enables_all or data.get("enableAllProjectMcpServers") is True
        return cls(frozenset(enabled), frozenset(disabled), enables_all)


def find_servers(
    scope: ConfigScope,
    flags: McpFlags,
    settings: Sequence[Mapping[str, Any]],
    approvals: FolderApprovals,
    plugins: Iterable[PluginServers] = (),
) -> McpConfiguration:
    """Return the servers that a chat uses, and those that its user has to be asked about."""
    found: dict[str, ServerConfig] = {}
    pending: list[ServerConfig] = []
    problems: list[str] = []
    if not flags.is_strict:
        own = _read_own_file(scope, problems)
        of_folder = _folder_entry(own, scope.root)
        answers = SettingsAnswers.collect([*settings, of_folder])
        for plugin in plugins:
            found |= _parse_plugin(plugin, scope.environment, problems)
        if _is_wanted(scope, "user"):
            found |= _parse_all(own.get("mcpServers"), "user", scope.environment, problems)
        if _is_wanted(scope, "project"):
            for server in _read_project_file(scope, problems):
                answer = _decide(server, answers, approvals)
                if answer == "approved":
                    found[server.name] = server
                elif answer is None:
                    pending.append(server)
        if _is_wanted(scope, "local"):
            found |= _parse_all(of_folder.get("mcpServers"), "local", scope.environment, problems)
        switched_off = _names(of_folder.get("disabledMcpServers"))
        found = {name: server for name, server in found.items() if normalize_name(name) not in switched_off}
    for given in flags.configs:
        found |= _parse_flag(given, scope)
    unique = {server.key: server for server in found.values()}
    waiting = tuple(server for server in pending if server.key not in unique)
    return McpConfiguration(tuple(unique.values()), waiting, tuple(problems))


def project_file(root: Path) -> Path | None:
    """Return the `.mcp.json` of a folder: its own, or the nearest one above it in its repository."""
    folder = root.resolve()
    if (folder / PROJECT_FILE).is_file():
        return folder / PROJECT_FILE
    repository = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)
    for place in folder.parents if repository is not None else ():
        if not place.is_relative_to(repository or place):
            return None
        if (place / PROJECT_FILE).is_file():
            return place / PROJECT_FILE
    return None


def own_file(config: Path) -> Path:
    """Return the `.claude.json` that belongs to a config folder: in it, or beside it where it is `~/.claude`."""
    inside = config / ".claude.json"
    return config.parent / ".claude.json" if config.name == ".claude" and not inside.exists() else inside


def _decide(server: ServerConfig, settings: SettingsAnswers, approvals: FolderApprovals) -> str | None:
    """Return whether a server of `.mcp.json` is approved or declined; None: nobody has said."""
    if server.key in settings.disabled:
        return "declined"
    if server.key in settings.enabled or settings.enables_all:
        return "approved"
    return approvals.answer(server)


def _is_wanted(scope: ConfigScope, source: str) -> bool:
    return scope.sources is None or source in scope.sources


def _read_own_file(scope: ConfigScope, problems: list[str]) -> Mapping[str, Any]:
    path = own_file(scope.config)
    # Most chats have no server of their own, and the file may be long: it is parsed only if it names one.
    try:
        data = atomic.read_current(path, within=path.parent, limit=_MAX_BYTES).data
    except UnspoolError as error:
        problems.append(error.message)
        return {}
    if data is None or (b"mcpServers" not in data and b"Mcp" not in data):
        return {}
    value = _decode(data)
    if value is None:
        problems.append(f"`{path}` is not a JSON object: its MCP servers are not used")
    return value or {}


def _read_project_file(scope: ConfigScope, problems: list[str]) -> list[ServerConfig]:
    path = project_file(scope.root)
    if path is None:
        return []
    if not scope.trusted:
        problems.append(f"`{scope.root}` is not trusted: the MCP servers of its {PROJECT_FILE} are not used")
        return []
    try:
        data = atomic.read_current(path, within=path.parent).data
    except UnspoolError as error:
        problems.append(error.message)
        return []
    value = _decode(data or b"{}")
    servers = value.get("mcpServers") if value is not None else None
    if not isinstance(servers, dict):
        problems.append(f"`{path}` has no object `mcpServers`: it is not used")
        return []
    return [*_parse_all(servers, "project", scope.environment, problems).values()]


def _folder_entry(own: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
    projects = own.get("projects")
    entry = projects.get(str(root.resolve())) if isinstance(projects, dict) else None
    return entry if isinstance(entry, dict) else {}


def _parse_all(
    servers: Any, scope: Scope, environment: Mapping[str, str], problems: list[str]
) -> dict[str, ServerConfig]:
    found = {}
    for name, value in servers.items() if isinstance(servers, dict) else ():
        try:
            found[name] = parse_server(name, value, scope, environment)
        except UsageError as error:
            problems.append(error.message)
    return found


def _parse_plugin(
    plugin: PluginServers, environment: Mapping[str, str], problems: list[str]
) -> dict[str, ServerConfig]:
    """Return the servers of a plugin, which find its folder in `CLAUDE_PLUGIN_ROOT`."""
    root = {"CLAUDE_PLUGIN_ROOT": str(plugin.root)}
    named = {f"plugin:{plugin.plugin}:{name}": value for name, value in plugin.servers.items()}
    parsed = _parse_all(named, "plugin", {**environment, **root}, problems)
    return {
        name: msgspec.structs.replace(server, variables={**root, **server.variables}) for name, server in parsed.items()
    }


def _parse_flag(given: str, scope: ConfigScope) -> dict[str, ServerConfig]:
    """Return the servers of one `--mcp-config`; a `UsageError` says what is wrong with it."""
    text = given.strip()
    if text.startswith("{"):
        value = _decode(text.encode())
    else:
        try:
            value = _decode((scope.root / Path(text).expanduser()).read_bytes())
        except (OSError, RuntimeError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"cannot read `{text}` of --mcp-config: {str(why).lower()}") from None
    servers = value.get("mcpServers") if value is not None else None
    if not isinstance(servers, dict):
        hint = 'write `{"mcpServers": {"NAME": {"command": "PROGRAM"}}}`'
        raise UsageError("--mcp-config is not a JSON object with `mcpServers`", hint=hint)
    return {name: parse_server(name, server, "flag", scope.environment) for name, server in servers.items()}


def _decode(data: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _names(value: Any) -> frozenset[str]:
    return (
        frozenset(normalize_name(name) for name in value if isinstance(name, str))
        if isinstance(value, list)
        else (frozenset())
    )
