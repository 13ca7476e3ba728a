"""The settings that a conversation is led by: files in, rules and a few values out; one rule more in the local file.

    <config>/settings.json              user      the person's own
    <root>/.claude/settings.json        project   shared, comes with the folder
    <root>/.claude/settings.local.json  local     the person's own for this folder, but it may come with it too

Rules
  1. What lies in the folder is not even read before the folder is trusted.
  2. Rules of all files hold together. Of single values the nearest counts: flag, local, project, user.
  3. What is wrong is said, never passed over in silence: a rule that should deny must not get lost. A file that cannot
     be read as settings stops everything.
  4. `permissions`, `model` and, from the user's own file, `env` act. All other keys are Claude Code's: hooks, helpers,
     servers and plugins of a settings file never run here.
  5. A folder's settings do not switch on `bypassPermissions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.client.permissions.file_access import Book
from unspool.errors import NotFound, Refused, Unreadable
from unspool.files import atomic
from unspool.files.open import read_whole
from unspool.permissions.rules import Rule, parsed, separated

Json: TypeAlias = dict[str, Any]
LARGEST = 1024 * 1024
_MODES = frozenset({"default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"})


class Loaded(NamedTuple):
    """What the settings say."""

    book: Book = Book()
    mode: str | None = None
    model: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the user's own settings."""
    added: tuple[Path, ...] = ()
    no_bypass: bool = False
    problems: tuple[str, ...] = ()


class Flags(NamedTuple):
    """What was said on the command line; each may hold several rules."""

    allowed: tuple[str, ...] = ()
    disallowed: tuple[str, ...] = ()


class _File(NamedTuple):
    """A settings file and whose it is."""

    source: str
    path: Path
    folder: Path
    """Where its paths begin."""


def load(config: Path, root: Path, *, trusted: bool, flags: Flags | None = None) -> Loaded:
    """Return what holds in a folder."""
    files = [_File("user", config / "settings.json", config)]
    inside = [_File("project", root / ".claude" / "settings.json", root)]
    inside += [_File("local", root / ".claude" / "settings.local.json", root)]
    problems: list[str] = []
    own = config.resolve()
    if trusted and (root / ".claude").resolve() != own:
        files += inside
    elif not trusted and any(file.path.exists() for file in inside) and (root / ".claude").resolve() != own:
        problems.append(f"`{root}` is not trusted: its settings do not act")
    loaded = Loaded(problems=tuple(problems))
    for file in files:
        loaded = _with(loaded, file, _document(file.path))
    return _with_flags(loaded, flags or Flags(), root)


def add_local_rule(root: Path, rule: str) -> None:
    """Put a rule that allows into the local settings of a folder."""
    path = root / ".claude" / "settings.local.json"
    before = atomic.current(path, within=root)
    if before.is_link:
        raise Refused(f"`{path}` leads out of the folder", hint="the rule holds for this session only")
    value = _decoded(before.data, path) if before.data is not None else {}
    permissions = value.setdefault("permissions", {})
    rules = permissions.setdefault("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(rules, list):
        raise Unreadable(f"`permissions` in `{path}` is no list of rules", hint="mend the file first")
    if rule not in rules:
        rules.append(rule)
        atomic.replace(before, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def _document(path: Path) -> Json:
    try:
        return _decoded(read_whole(path.resolve(), LARGEST), path)
    except NotFound:
        return {}
    except (OSError, RuntimeError) as error:
        raise Unreadable(f"cannot read `{path}`: {error}") from None


def _decoded(data: bytes, path: Path) -> Json:
    hint = "mend the file; rules in it that deny would not hold"
    try:
        value = msgspec.json.decode(data) if data.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"`{path}` is no JSON: {str(error).lower()}", hint=hint) from None
    if not isinstance(value, dict):
        raise Unreadable(f"`{path}` is no JSON object", hint=hint)
    return value


def _with(loaded: Loaded, file: _File, document: Json) -> Loaded:
    """Return what was known and what another file says."""
    problems = [*loaded.problems]
    permissions = document.get("permissions", {})
    if not isinstance(permissions, dict):
        raise Unreadable(f"`permissions` in `{file.path}` is no object", hint="mend the file")
    rules = {kind: _rules(permissions.get(kind), file, problems) for kind in Book._fields}
    mode, model = permissions.get("defaultMode"), document.get("model")
    if mode is not None and (mode not in _MODES or (mode == "bypassPermissions" and file.source != "user")):
        problems.append(f"`defaultMode` of the {file.source} settings does not act: `{mode}`")
        mode = None
    environment = document.get("env") if file.source == "user" else None
    if file.source != "user" and document.get("env"):
        problems.append(f"`env` of the {file.source} settings does not act")
    added = _texts(permissions.get("additionalDirectories"), "additionalDirectories", file, problems)
    no_bypass = loaded.no_bypass or permissions.get("disableBypassPermissionsMode") == "disable"
    return Loaded(
        book=Book(*((*getattr(loaded.book, kind), *rules[kind]) for kind in Book._fields)),
        mode=mode or loaded.mode,
        model=model if isinstance(model, str) else loaded.model,
        environment=_variables(environment) or loaded.environment,
        added=(*loaded.added, *(_folder(text, file.folder) for text in added)),
        no_bypass=no_bypass,
        problems=tuple(problems),
    )


def _with_flags(loaded: Loaded, flags: Flags, root: Path) -> Loaded:
    found: dict[str, list[Rule]] = {}
    for kind, texts in (("allow", flags.allowed), ("deny", flags.disallowed)):
        rules = [(text, parsed(text, "flag", str(root.resolve()))) for one in texts for text in separated(one)]
        for text, rule in rules:
            if rule is None:
                raise Refused(f"not a permission rule: `{text}`", hint="rules look like `Edit` or `Bash(npm test:*)`")
        found[kind] = [rule for _, rule in rules if rule is not None]
    book = loaded.book
    return loaded._replace(book=book._replace(allow=(*book.allow, *found["allow"]), deny=(*book.deny, *found["deny"])))


def _rules(value: Any, file: _File, problems: list[str]) -> list[Rule]:
    found = []
    for text in _texts(value, "permissions", file, problems):
        rule = parsed(text, file.source, str(file.folder.resolve()))
        if rule is None:
            problems.append(f"no rule, in the {file.source} settings: `{text}`")
        else:
            found.append(rule)
    return found


def _texts(value: Any, name: str, file: _File, problems: list[str]) -> Iterable[str]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    for one in values:
        if isinstance(one, str):
            yield one
        else:
            problems.append(f"no text in `{name}` of the {file.source} settings: `{one}`")


def _variables(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    plain = {name: str(one) for name, one in value.items() if isinstance(one, str | int | float)}
    return tuple((name, text) for name, text in plain.items() if "\0" not in name + text)


def _folder(text: str, base: Path) -> Path:
    try:
        return base / Path(text).expanduser()
    except RuntimeError:
        return base / text
