"""Load the settings that apply to a chat, from the settings files and flags; add a rule to the local file.

Rules
  1. A file of the folder is not even read before the folder is trusted.
  2. Of single values the nearest counts: flag, local, project, user. What `--settings` gives counts as a flag.
  3. A file that cannot be read as settings stops everything: rules in it that deny would not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import Refused, Unreadable
from unspool.files import SettingsFile, atomic, list_settings_files
from unspool.permissions import (
    EffectiveSettings,
    PermissionRule,
    add_settings,
    decode_settings,
    parse_rule,
    split_rules,
)


class SettingsSelection(NamedTuple):
    """Which settings a chat uses, where it does not use all files."""

    sources: tuple[str, ...] | None = None
    """Of user, project and local; None: all."""
    given: bytes | None = None
    """Settings that the command line gives, as JSON."""


ALL_SETTINGS = SettingsSelection()


def read_settings(
    config: Path, root: Path, *, trusted: bool, selection: SettingsSelection = ALL_SETTINGS
) -> tuple[list[tuple[SettingsFile, bytes]], bool]:
    """Return the settings that act in a folder, file by file, and whether the folder has some that do not."""
    wanted = selection.sources
    files = [file for file in list_settings_files(config, root) if wanted is None or file.source in wanted]
    acting = [file for file in files if trusted or file.source == "user"]
    is_ignored = any(Path(file.path).exists() for file in files if file not in acting)
    found = [(file, file.read()) for file in acting]
    if selection.given is not None:
        found.append((SettingsFile("flag", "--settings", str(root.resolve())), selection.given))
    return found, is_ignored


def load_settings(
    config: Path,
    root: Path,
    *,
    trusted: bool,
    allowed: Iterable[str] = (),
    disallowed: Iterable[str] = (),
    selection: SettingsSelection = ALL_SETTINGS,
) -> EffectiveSettings:
    """Return the settings that apply in a folder, with the rules of flags; each flag may hold several rules."""
    settings = EffectiveSettings()
    found, is_ignored = read_settings(config, root, trusted=trusted, selection=selection)
    if is_ignored:
        settings = EffectiveSettings(problems=(f"`{root}` is not trusted: its settings are ignored",))
    for file, data in found:
        settings = add_settings(settings, file, data)
    rules = settings.rules
    allow, deny = (*rules.allow, *_parse_flags(allowed, root)), (*rules.deny, *_parse_flags(disallowed, root))
    added = tuple(_expand_home(folder) for folder in settings.added)
    return settings._replace(rules=rules._replace(allow=allow, deny=deny), added=added)


def local_settings_file(root: Path) -> Path:
    """Return the local settings of a folder."""
    return root / ".claude" / "settings.local.json"


def add_local_rule(root: Path, rule: str) -> None:
    """Add a rule that allows to the local settings of a folder."""
    path = local_settings_file(root)
    before = atomic.read_current(path, within=root)
    if before.is_link:  # the rule would be written to a file outside of the folder
        raise Refused(f"`{path}` points outside the folder", hint="the rule applies to this session only")
    value = decode_settings(before.data, str(path)) if before.data is not None else {}
    permissions = value.setdefault("permissions", {})
    rules = permissions.setdefault("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(rules, list):
        raise Unreadable(f"`permissions` in `{path}` is not a list of rules", hint="fix the file first")
    if rule not in rules:
        rules.append(rule)
        atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _parse_flags(flags: Iterable[str], root: Path) -> Iterator[PermissionRule]:
    for text in (text for flag in flags for text in split_rules(flag)):
        rule = parse_rule(text, "flag", str(root.resolve()))
        if rule is None:
            raise Refused(f"invalid permission rule `{text}`", hint="write a rule like `Edit` or `Bash(npm test:*)`")
        yield rule


def _expand_home(folder: str) -> str:
    try:
        return str(Path(folder).expanduser())
    except RuntimeError:  # `~` and the name of nobody
        return folder
