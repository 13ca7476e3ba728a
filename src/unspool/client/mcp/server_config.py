"""Parses the configuration of one MCP server, as `mcpServers` of a file or of a flag has it.

    {"command": "npx", "args": ["-y", "a-server"], "env": {"KEY": "${KEY}"}}
    {"type": "http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}}

Rules
  1. `${VAR}` is a variable of the environment, `${VAR:-default}` has a value for where it is not set. A variable that
     is not set and has no default is a problem: the server is not started with half of its configuration.
  2. A configuration that is not understood is a problem of its own server, and of no other.
  3. The digest of a server is that of its configuration before variables are put in: it says what was approved.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from unspool.client.tool import normalize_name
from unspool.errors import UsageError

Scope: TypeAlias = Literal["user", "project", "local", "flag", "plugin"]
Transport: TypeAlias = Literal["stdio", "http", "sse", "sdk"]
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w{0,200})(?::-([^}]*))?\}", re.ASCII)
_TRANSPORTS: dict[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "sse": "sse",
    "sdk": "sdk",
}
_NOT_SUPPORTED = ("headersHelper", "oauth")
"""Keys without which a server could not be reached as its user means."""


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How to start or reach one server."""

    name: str
    scope: Scope
    transport: Transport
    command: str = ""
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    """More variables for the environment of the process."""
    url: str = ""
    headers: dict[str, str] = {}
    digest: str = ""

    @property
    def key(self) -> str:
        """The name as it stands in the names of tools."""
        return normalize_name(self.name)

    @property
    def target(self) -> str:
        """What is started or reached, in one line."""
        return " ".join([self.command, *self.arguments]) if self.transport == "stdio" else self.url


def parse_server(name: str, value: Any, scope: Scope, environment: Mapping[str, str]) -> ServerConfig:
    """Return the configuration of a server; a `UsageError` says what is wrong with it."""
    if not name.strip() or not normalize_name(name).strip("_"):
        raise UsageError(f"invalid name of an MCP server: `{name}`")
    if not isinstance(value, dict):
        raise _wrong(name, "its configuration is not an object")
    for key in _NOT_SUPPORTED:
        if value.get(key):
            raise _wrong(name, f"`{key}` is not supported")
    kind = value.get("type", "stdio")
    transport = _TRANSPORTS.get(kind) if isinstance(kind, str) else None
    if transport is None:
        raise _wrong(name, f"its type `{kind}` is not supported: use stdio, http or sse")
    expand = _Expansion(name, environment)
    digest = hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
    made = ServerConfig(name=name, scope=scope, transport=transport, digest=digest)
    if transport == "stdio":
        command, arguments = value.get("command"), value.get("args") or []
        if not isinstance(command, str) or not command:
            raise _wrong(name, "it has neither a `command` nor a `type`")
        if not isinstance(arguments, list):
            raise _wrong(name, "its `args` are not a list")
        made = msgspec.structs.replace(
            made,
            command=expand.text(command),
            arguments=tuple(expand.text(argument) for argument in arguments),
            variables=expand.texts(value.get("env"), "env"),
        )
    elif transport != "sdk":
        url = value.get("url")
        if not isinstance(url, str) or not expand.text(url).startswith(("http://", "https://")):
            raise _wrong(name, "its `url` is not an address that begins with http:// or https://")
        headers = expand.texts(value.get("headers"), "headers")
        made = msgspec.structs.replace(made, url=expand.text(url), headers=headers)
    if expand.missing:
        names = ", ".join(f"`{variable}`" for variable in dict.fromkeys(expand.missing))
        raise _wrong(name, f"{names} of its configuration is not set in the environment")
    return made


class _Expansion:
    """Puts variables of the environment into the texts of one server."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self._name, self._environment = name, environment
        self.missing: list[str] = []

    def text(self, value: Any) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise _wrong(self._name, "a value of its configuration is not a text")
        return _VARIABLE.sub(self._value, value)

    def texts(self, value: Any, field: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _wrong(self._name, f"its `{field}` is not an object")
        return {str(key): self.text(item) for key, item in value.items()}

    def _value(self, match: re.Match[str]) -> str:
        found: str | None = self._environment.get(match[1], match[2])
        if found is None:
            self.missing.append(match[1])
            return match[0]
        return found


def _wrong(name: str, why: str) -> UsageError:
    return UsageError(f"MCP server `{name}`: {why}")
