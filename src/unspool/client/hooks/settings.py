"""Reads the hooks of Claude Code's settings: `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [...]}]}}`.

Rules
  1. Hooks of all settings files run. Those of a folder run only if it is trusted: its files are not read otherwise.
  2. What is wrong with a hook is reported. Where it could have denied a call, it denies: a guard that was misspelt must
     not be missing in silence.
  3. `disableAllHooks` acts in the user's own file. In that of a folder it switches off the folder's own hooks only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unspool.client.hooks.command_hook import CommandHook
from unspool.client.hooks.registry import EVENTS, GUARD_EVENTS, Hook, RegisteredHook, UnsupportedHook
from unspool.client.tool_result import Json

DEFAULT_TIMEOUT = 600.0
"""In seconds, as Claude Code 2.1.325 has it for commands."""


class HookSource(NamedTuple):
    """The settings of one file."""

    name: str
    """user, project, local, or flag."""
    document: Json


class LoadedHooks(NamedTuple):
    """The hooks of settings, and what is wrong with some."""

    hooks: tuple[RegisteredHook, ...] = ()
    problems: tuple[str, ...] = ()


def load_hooks(sources: Iterable[HookSource], environment: Mapping[str, str], root: Path) -> LoadedHooks:
    """Return the hooks of settings files."""
    listed = [*sources]
    if any(source.name in ("user", "flag") and source.document.get("disableAllHooks") is True for source in listed):
        return LoadedHooks()
    off = {source.name for source in listed if source.document.get("disableAllHooks") is True}
    hooks: list[RegisteredHook] = []
    problems: list[str] = []
    for source in listed:
        if off and source.name in ("project", "local"):
            continue
        hooks += _parse_hooks(source, problems, environment, root)
    return LoadedHooks(tuple(hooks), tuple(problems))


def _parse_hooks(
    source: HookSource, problems: list[str], environment: Mapping[str, str], root: Path
) -> Iterator[RegisteredHook]:
    value = source.document.get("hooks")
    if value is None:
        return
    if not isinstance(value, dict):
        problems.append(f"`hooks` of the {source.name} settings is not an object")
        return
    for event, groups in value.items():
        if event not in EVENTS:
            problems.append(f"hooks for `{event}` of the {source.name} settings do not act: no such event here")
            continue
        for group in groups if isinstance(groups, list) else [groups]:
            matcher, members = _parse_group(group)
            for member in members:
                hook, problem = _parse_hook(member, environment, root)
                if problem is not None:
                    is_guard = event in GUARD_EVENTS and isinstance(hook, UnsupportedHook)
                    denies = ": it denies the calls that it matches" if is_guard else ""
                    problems.append(f"a `{event}` hook of the {source.name} settings: {problem}{denies}")
                on_failure = member.get("onFailure") if isinstance(member, dict) else None
                yield RegisteredHook(event, hook, matcher, on_failure if isinstance(on_failure, str) else None)


def _parse_group(group: Any) -> tuple[str, list[Any]]:
    """Return the matcher and the hooks of a group; one that is none has itself as a hook that cannot be called."""
    if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
        return "", [group]
    matcher = group.get("matcher")
    # A matcher that is no text matches everything: the hook may be meant to deny.
    return matcher if isinstance(matcher, str) else "", group["hooks"]


def _parse_hook(member: Any, environment: Mapping[str, str], root: Path) -> tuple[Hook, str | None]:
    """Return a hook, and what is wrong with it."""
    match member:
        case {"type": "command", "command": str(command), **rest} if command.strip():
            hook = CommandHook(command, _parse_timeout(rest.get("timeout")), environment, root)
            return hook, "`if` is not supported, the hook runs without it" if rest.get("if") else None
        case {"type": str(kind)} if kind != "command":
            problem = f"hooks of the type `{kind[:40]}` are not supported"
        case _:
            problem = "it has no command"
    return UnsupportedHook("hook", problem), problem


def _parse_timeout(value: Any) -> float:
    # In Python `True` is an integer; in JSON it is none.
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if is_number else DEFAULT_TIMEOUT
