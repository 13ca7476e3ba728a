"""Merge settings files into the settings that apply: permission rules and a few values. Pure: bytes in.

Rules
  1. Rules of all files hold together. Of single values the nearest counts: of files that are added one after the other
     the last.
  2. Mistakes are reported, never skipped in silence: a rule that should deny must not get lost. A file that cannot be
     read as settings is an `Unreadable`.
  3. `permissions`, `model`, `sandbox.enabled` and, from the user's own file, `env` act here; `hooks` act in a chat
     (`client/hooks`). All other keys are Claude Code's: helpers, servers and plugins of a settings file never run.
  4. A folder's settings cannot switch on `bypassPermissions`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from unspool.errors import Unreadable
from unspool.permissions.rules import PermissionRule, RuleSet, parse_rule

if TYPE_CHECKING:  # this package is pure: only the type is used
    from unspool.files import SettingsFile

Json: TypeAlias = dict[str, Any]
_OWN_SOURCES = ("user", "flag")
"""Where only the user writes: the user's own file, and the command line."""
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
"""Of all modes only the last is for the user alone to switch on."""


class EffectiveSettings(NamedTuple):
    """The rules and values of all settings files that apply to a session."""

    rules: RuleSet = RuleSet()
    mode: str | None = None
    model: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the user's own settings."""
    added: tuple[str, ...] = ()
    """Other folders that tools may work in; one may begin with `~`."""
    no_bypass: bool = False
    sandbox: bool | None = None
    """Whether commands run in a sandbox, by `sandbox.enabled`."""
    problems: tuple[str, ...] = ()

    def mode_problem(self, mode: str) -> str | None:
        """Return why a mode cannot be used; None if it can."""
        if mode not in MODES:
            return f"there is no mode `{mode}`; there are {', '.join(f'`{name}`' for name in MODES)}"
        if mode == "bypassPermissions" and self.no_bypass:
            return "the settings do not allow `bypassPermissions` (`disableBypassPermissionsMode`)"
        return None


def add_settings(
    settings: EffectiveSettings, file: SettingsFile, data: bytes, *, any_mode: bool = False
) -> EffectiveSettings:
    """Return the settings together with those of another file, whose values take precedence.

    `any_mode` accepts every mode from every file: for sessions of Claude Code, which has more modes than a chat.
    """
    document = decode_settings(data, file.path)
    problems = [*settings.problems]
    permissions = document.get("permissions", {})
    if not isinstance(permissions, dict):
        raise Unreadable(f"`permissions` in `{file.path}` is not an object", hint="fix the file")
    rules = {kind: _parse_rules(permissions.get(kind), file, problems) for kind in RuleSet._fields}
    mode, model = permissions.get("defaultMode"), document.get("model")
    acting = MODES if file.source in _OWN_SOURCES else MODES[:-1]
    if mode is not None and mode not in acting and not (any_mode and isinstance(mode, str)):
        problems.append(f"`defaultMode` of the {file.source} settings does not act: `{mode}`")
        mode = None
    # Variables of a folder that came with a download could change what programs run.
    environment = document.get("env") if file.source in _OWN_SOURCES else None
    if file.source not in _OWN_SOURCES and document.get("env"):
        problems.append(f"`env` of the {file.source} settings does not act")
    added = _only_texts(permissions.get("additionalDirectories"), "additionalDirectories", file, problems)
    sandbox = _read_sandbox(document, file, problems)
    no_bypass = settings.no_bypass or permissions.get("disableBypassPermissionsMode") == "disable"
    return EffectiveSettings(
        rules=RuleSet(*((*getattr(settings.rules, kind), *rules[kind]) for kind in RuleSet._fields)),
        mode=mode or settings.mode,
        model=model if isinstance(model, str) else settings.model,
        environment=(*settings.environment, *_parse_environment(environment)),
        added=(*settings.added, *(_join_folder(file.folder, text) for text in added)),
        no_bypass=no_bypass,
        sandbox=settings.sandbox if sandbox is None else sandbox,
        problems=tuple(problems),
    )


def decode_settings(data: bytes, path: str) -> Json:
    """Return the object that a settings file holds; an empty file holds none."""
    hint = "mend the file; rules in it that deny would not hold"
    try:
        value = msgspec.json.decode(data) if data.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"`{path}` is not valid JSON: {str(error).lower()}", hint=hint) from None
    if not isinstance(value, dict):
        raise Unreadable(f"`{path}` is not a JSON object", hint=hint)
    return value


def _parse_rules(value: Any, file: SettingsFile, problems: list[str]) -> list[PermissionRule]:
    rules = []
    for text in _only_texts(value, "permissions", file, problems):
        rule = parse_rule(text, file.source, file.folder)
        if rule is None:
            problems.append(f"no rule, in the {file.source} settings: `{text}`")
        else:
            rules.append(rule)
    return rules


def _only_texts(value: Any, name: str, file: SettingsFile, problems: list[str]) -> Iterator[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    for item in values:
        if isinstance(item, str):
            yield item
        else:
            problems.append(f"no text in `{name}` of the {file.source} settings: `{item}`")


def _read_sandbox(document: Json, file: SettingsFile, problems: list[str]) -> bool | None:
    """Return whether a file switches the sandbox on or off; only the user's own file can switch it off."""
    section = document.get("sandbox")
    enabled = section.get("enabled") if isinstance(section, dict) else None
    if enabled is False and file.source not in _OWN_SOURCES:
        problems.append(
            f"`sandbox.enabled` of the {file.source} settings does not act: only your own can switch it off"
        )
        return None
    return enabled if isinstance(enabled, bool) else None


def _parse_environment(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    texts = {name: str(item) for name, item in value.items() if isinstance(item, str | int | float)}
    return tuple((name, text) for name, text in texts.items() if "\0" not in name + text)


def _join_folder(base: str, text: str) -> str:
    return text if text.startswith("~") else posixpath.join(base, text)
