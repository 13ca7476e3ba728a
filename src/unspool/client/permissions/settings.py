"""Load the settings files that apply to a chat: permission rules and a few values; add a rule to the local file.

    <config>/settings.json              user      the user's own
    <root>/.claude/settings.json        project   shared, comes with the folder
    <root>/.claude/settings.local.json  local     the user's own for this folder, but it may come with it too

Rules
  1. A file of the folder is not even read before the folder is trusted.
  2. Rules of all files hold together. Of single values the nearest counts: flag, local, project, user.
  3. Mistakes are reported, never skipped in silence: a rule that should deny must not get lost. A file that cannot be
     read as settings stops everything.
  4. `permissions`, `model` and, from the user's own file, `env` act. All other keys are Claude Code's: hooks, helpers,
     servers and plugins of a settings file never run here.
  5. A folder's settings cannot switch on `bypassPermissions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.errors import NotFound, Refused, Unreadable
from unspool.files import atomic, read_whole
from unspool.permissions import PermissionRule, RuleSet, parse_rule, split_rules

Json: TypeAlias = dict[str, Any]
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
_MAX_BYTES = 1024 * 1024


class EffectiveSettings(NamedTuple):
    """The rules and values of all settings files that apply to a chat."""

    rules: RuleSet = RuleSet()
    mode: str | None = None
    model: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the user's own settings."""
    added: tuple[Path, ...] = ()
    no_bypass: bool = False
    problems: tuple[str, ...] = ()


class _SettingsFile(NamedTuple):
    """A settings file, whose it is, and what it holds."""

    source: str
    path: Path
    folder: Path
    """The folder that paths in its rules are relative to."""


def load_settings(
    config: Path, root: Path, *, trusted: bool, allowed: Iterable[str] = (), disallowed: Iterable[str] = ()
) -> EffectiveSettings:
    """Return the settings that apply in a folder, with the rules of flags; each flag may hold several rules."""
    files = [_SettingsFile("user", config / "settings.json", config)]
    own = [_SettingsFile("project", root / ".claude" / "settings.json", root)]
    own += [_SettingsFile("local", root / ".claude" / "settings.local.json", root)]
    settings = EffectiveSettings()
    # In the home folder, `.claude` is the config folder: its file is the user's, and must not count twice.
    if (root / ".claude").resolve() != config.resolve():
        if trusted:
            files += own
        elif any(file.path.exists() for file in own):
            settings = EffectiveSettings(problems=(f"`{root}` is not trusted: its settings do not act",))
    for file in files:
        settings = _add_file(settings, file, _read_document(file.path))
    rules = settings.rules
    allow, deny = (*rules.allow, *_parse_flags(allowed, root)), (*rules.deny, *_parse_flags(disallowed, root))
    return settings._replace(rules=rules._replace(allow=allow, deny=deny))


def add_local_rule(root: Path, rule: str) -> None:
    """Add a rule that allows to the local settings of a folder."""
    path = root / ".claude" / "settings.local.json"
    before = atomic.read_current(path, within=root)
    if before.is_link:  # the rule would be written to a file outside of the folder
        raise Refused(f"`{path}` leads out of the folder", hint="the rule holds for this session only")
    value = _decode_document(before.data, path) if before.data is not None else {}
    permissions = value.setdefault("permissions", {})
    rules = permissions.setdefault("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(rules, list):
        raise Unreadable(f"`permissions` in `{path}` is no list of rules", hint="mend the file first")
    if rule not in rules:
        rules.append(rule)
        atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _read_document(path: Path) -> Json:
    try:
        return _decode_document(read_whole(path.resolve(), _MAX_BYTES), path)
    except NotFound:
        return {}
    except (OSError, RuntimeError) as error:
        raise Unreadable(f"cannot read `{path}`: {error}") from None


def _decode_document(data: bytes, path: Path) -> Json:
    hint = "mend the file; rules in it that deny would not hold"
    try:
        value = msgspec.json.decode(data) if data.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"`{path}` is no JSON: {str(error).lower()}", hint=hint) from None
    if not isinstance(value, dict):
        raise Unreadable(f"`{path}` is no JSON object", hint=hint)
    return value


def _add_file(settings: EffectiveSettings, file: _SettingsFile, document: Json) -> EffectiveSettings:
    """Return the settings together with those of another file."""
    problems = [*settings.problems]
    permissions = document.get("permissions", {})
    if not isinstance(permissions, dict):
        raise Unreadable(f"`permissions` in `{file.path}` is no object", hint="mend the file")
    rules = {kind: _parse_rules(permissions.get(kind), file, problems) for kind in RuleSet._fields}
    mode, model = permissions.get("defaultMode"), document.get("model")
    if mode is not None and (mode not in MODES or (mode == "bypassPermissions" and file.source != "user")):
        problems.append(f"`defaultMode` of the {file.source} settings does not act: `{mode}`")
        mode = None
    # Variables of a folder that came with a download could change what programs run.
    environment = document.get("env") if file.source == "user" else None
    if file.source != "user" and document.get("env"):
        problems.append(f"`env` of the {file.source} settings does not act")
    added = _only_texts(permissions.get("additionalDirectories"), "additionalDirectories", file, problems)
    no_bypass = settings.no_bypass or permissions.get("disableBypassPermissionsMode") == "disable"
    return EffectiveSettings(
        rules=RuleSet(*((*getattr(settings.rules, kind), *rules[kind]) for kind in RuleSet._fields)),
        mode=mode or settings.mode,
        model=model if isinstance(model, str) else settings.model,
        environment=_parse_environment(environment) or settings.environment,
        added=(*settings.added, *(_expand_folder(text, file.folder) for text in added)),
        no_bypass=no_bypass,
        problems=tuple(problems),
    )


def _parse_flags(flags: Iterable[str], root: Path) -> Iterator[PermissionRule]:
    for text in (text for flag in flags for text in split_rules(flag)):
        rule = parse_rule(text, "flag", str(root.resolve()))
        if rule is None:
            raise Refused(f"not a permission rule: `{text}`", hint="rules look like `Edit` or `Bash(npm test:*)`")
        yield rule


def _parse_rules(value: Any, file: _SettingsFile, problems: list[str]) -> list[PermissionRule]:
    rules = []
    for text in _only_texts(value, "permissions", file, problems):
        rule = parse_rule(text, file.source, str(file.folder.resolve()))
        if rule is None:
            problems.append(f"no rule, in the {file.source} settings: `{text}`")
        else:
            rules.append(rule)
    return rules


def _only_texts(value: Any, name: str, file: _SettingsFile, problems: list[str]) -> Iterator[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    for item in values:
        if isinstance(item, str):
            yield item
        else:
            problems.append(f"no text in `{name}` of the {file.source} settings: `{item}`")


def _parse_environment(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    texts = {name: str(item) for name, item in value.items() if isinstance(item, str | int | float)}
    return tuple((name, text) for name, text in texts.items() if "\0" not in name + text)


def _expand_folder(text: str, base: Path) -> Path:
    try:
        return base / Path(text).expanduser()
    except RuntimeError:
        return base / text
