"""Parses `settings.json` and `settings.local.json` of Claude Code, and masks their secrets.

People write these files by hand, so one wrong value costs only itself. Keys are what is known of 2.1.x; the file may
hold more.
"""

from typing import Any, Final

import msgspec
from msgspec import field

from unspool.format.base import CamelShape
from unspool.format.side_files.json import parse_object

MASK: Final = "***"
# Commands that print credentials, and tables whose values may be tokens.
_HELPERS: Final = (
    "api_key_helper",
    "aws_auth_refresh",
    "aws_credential_export",
    "gcp_auth_refresh",
    "otel_headers_helper",
)
_TABLES: Final = ("env", "extra_known_marketplaces")


class PermissionSettings(CamelShape, frozen=True):
    """Permission rules like `Bash(git diff:*)`: deny goes before ask, ask before allow."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    default_mode: str | None = None
    additional_directories: tuple[str, ...] = ()
    disable_bypass_permissions_mode: str | None = None


class HookSettings(CamelShape, frozen=True):
    """One hook: a `command`, a `prompt` or `agent`, an `http` request, an `mcp_tool`."""

    type: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    shell: str | None = None
    prompt: str | None = None
    model: str | None = None
    url: str | None = None
    headers: dict[str, Any] = field(default_factory=dict)
    allowed_env_vars: tuple[str, ...] = ()
    server: str | None = None
    tool: str | None = None
    input: dict[str, Any] = field(default_factory=dict)
    timeout: int | float | None = None
    """Seconds."""
    condition: str | None = field(default=None, name="if")
    status_message: str | None = None
    in_background: bool | None = field(default=None, name="async")
    async_rewake: bool | None = None
    continue_on_block: bool | None = None
    once: bool | None = None


class HookMatcher(CamelShape, frozen=True):
    """The hooks for what `matcher` matches; no matcher is any."""

    matcher: str | None = None
    hooks: tuple[HookSettings, ...] = ()


class StatusLine(CamelShape, frozen=True):
    """The command that writes the status line."""

    type: str | None = None
    command: str | None = None
    padding: int | None = None
    refresh_interval: int | float | None = None


class SandboxNetwork(CamelShape, frozen=True):
    """What a sandboxed command may connect to."""

    allowed_domains: tuple[str, ...] = ()
    denied_domains: tuple[str, ...] = ()
    allow_unix_sockets: tuple[str, ...] = ()
    allow_all_unix_sockets: bool | None = None
    allow_local_binding: bool | None = None
    http_proxy_port: int | None = None
    socks_proxy_port: int | None = None


class SandboxFilesystem(CamelShape, frozen=True):
    """What a sandboxed command may read and write."""

    allow_read: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()


class Sandbox(CamelShape, frozen=True):
    """Whether and how commands are sandboxed."""

    enabled: bool | None = None
    auto_allow_bash_if_sandboxed: bool | None = None
    allow_unsandboxed_commands: bool | None = None
    excluded_commands: tuple[str, ...] = ()
    network: SandboxNetwork | None = None
    filesystem: SandboxFilesystem | None = None


class Attribution(CamelShape, frozen=True):
    """The signature of commits and pull requests."""

    commit: str | None = None
    pr: str | None = None


class ClaudeCodeSettings(CamelShape, frozen=True):
    """A settings file. It holds secrets: show `masked()`, never this. Its `repr` is masked already."""

    permissions: PermissionSettings = PermissionSettings()
    hooks: dict[str, tuple[HookMatcher, ...]] = field(default_factory=dict)
    """By event: `PreToolUse`, `Stop`, …"""
    disable_all_hooks: bool | None = None
    env: dict[str, Any] = field(default_factory=dict)
    api_key_helper: str | None = None
    aws_auth_refresh: str | None = None
    aws_credential_export: str | None = None
    gcp_auth_refresh: str | None = None
    otel_headers_helper: str | None = None
    model: str | None = None
    effort_level: str | None = None
    always_thinking_enabled: bool | None = None
    cleanup_period_days: int | None = None
    """After how many days without a change Claude Code deletes a session; 30 if absent."""
    auto_memory_enabled: bool | None = None
    include_co_authored_by: bool | None = None
    attribution: Attribution | None = None
    status_line: StatusLine | None = None
    output_style: str | None = None
    language: str | None = None
    theme: str | None = None
    sandbox: Sandbox | None = None
    enabled_plugins: dict[str, Any] = field(default_factory=dict)
    extra_known_marketplaces: dict[str, Any] = field(default_factory=dict)
    enable_all_project_mcp_servers: bool | None = None
    enabled_mcpjson_servers: tuple[str, ...] = ()
    disabled_mcpjson_servers: tuple[str, ...] = ()
    force_login_method: str | None = None
    plans_directory: str | None = None
    auto_updates_channel: str | None = None
    respect_gitignore: bool | None = None
    claude_md_excludes: tuple[str, ...] = ()

    def masked(self) -> "ClaudeCodeSettings":
        """Return a copy that is safer to show: what may hold a secret keeps its name and loses its value.

        Commands of hooks and of the status line stay readable: a secret inside one is for `redact` to find.
        """
        changes: dict[str, Any] = {name: MASK for name in _HELPERS if getattr(self, name) is not None}
        changes |= {name: dict.fromkeys(getattr(self, name), MASK) for name in _TABLES}
        changes["hooks"] = {event: tuple(map(_mask_hooks, matchers)) for event, matchers in self.hooks.items()}
        return msgspec.structs.replace(self, **changes)

    def __repr__(self) -> str:
        shown = msgspec.structs.asdict(self.masked())
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items() if value)})"


def parse_settings(document: bytes | str) -> ClaudeCodeSettings:
    """Parse a settings file; raises `msgspec.DecodeError` for what is not a JSON object."""
    return parse_object(document, ClaudeCodeSettings)


def _mask_hooks(matcher: HookMatcher) -> HookMatcher:
    hooks = (
        msgspec.structs.replace(
            hook,
            url=hook.url and MASK,
            headers=dict.fromkeys(hook.headers, MASK),
            input=dict.fromkeys(hook.input, MASK),
        )
        for hook in matcher.hooks
    )
    return msgspec.structs.replace(matcher, hooks=tuple(hooks))
