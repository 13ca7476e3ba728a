"""Load the settings that apply to a chat, from the settings files and flags; add a rule to the local file.

Rules
  1. A file of the folder is not even read before the folder is trusted.
  2. Of single values the nearest counts: flag, local, project, user.
  3. A file that cannot be read as settings stops everything: rules in it that deny would not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from unspool.errors import Refused, Unreadable
from unspool.files import atomic, list_settings_files
from unspool.permissions import (
    EffectiveSettings,
    PermissionRule,
    add_settings,
    decode_settings,
    parse_rule,
    split_rules,
)


def load_settings(
    config: Path, root: Path, *, trusted: bool, allowed: Iterable[str] = (), disallowed: Iterable[str] = ()
) -> EffectiveSettings:
    """Return the settings that apply in a folder, with the rules of flags; each flag may hold several rules."""
    settings = EffectiveSettings()
    user, *own = list_settings_files(config, root)
    if not trusted and any(Path(file.path).exists() for file in own):
        settings = EffectiveSettings(problems=(f"`{root}` is not trusted: its settings are ignored",))
    for file in (user, *own) if trusted else (user,):
        settings = add_settings(settings, file, file.read())
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
