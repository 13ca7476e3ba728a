"""Describes what a chat consists of: `/status`, `/agents`, `/hooks`, and the files of `/memory`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from unspool.display import units

if TYPE_CHECKING:
    from unspool.client.ui.open_chat import OpenedChat

_KEYS = {
    "ANTHROPIC_API_KEY": "API key of the environment",
    "ANTHROPIC_AUTH_TOKEN": "token of the environment",
}


class MemoryFile(NamedTuple):
    """A file with instructions for the model."""

    path: Path
    meaning: str

    @property
    def state(self) -> str:
        """Its size, or that it does not exist yet."""
        try:
            return units.size(self.path.stat().st_size)
        except OSError:
            return "new"


def status_text(opened: OpenedChat) -> str:
    """Return version, session, model, endpoint, permissions and settings of a chat."""
    from unspool import __version__

    chat, rules = opened.chat, opened.permissions
    environment = chat.runtime.environment
    server = environment.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
    used, limit = chat.window_state
    key = next((words for name, words in _KEYS.items() if environment.get(name)), "no key")
    settings = [file for file in _settings_files(opened) if file.is_file()]
    rows = {
        "Version": f"unspool {__version__}",
        "Session": f"{chat.session_id}{f' ({chat.title})' if chat.title else ''}",
        "File": str(chat.path) if chat.path.exists() else f"{chat.path} (not written yet)",
        "Folder": f"{chat.workspace.root} ({'trusted' if rules.trusted else 'not trusted'})",
        "Model": chat.model,
        # Without user and password, if the address has some.
        "Server": f"{_without_login(server)} ({key})",
        "Mode": chat.mode,
        "Context": f"{used:,} of {limit:,} tokens",
        "Cost": units.dollars(chat.totals.cost_micros),
        "Sandbox": "on" if rules.sandbox is not None and chat.context.sandbox is not None else "off",
        "Settings": ", ".join(map(str, settings)) or "none",
        "Tasks": str(sum(task.status == "running" for task in chat.context.tasks.all())) + " in the background",
    }
    width = max(map(len, rows))
    return "\n".join([*(f"{name:<{width}}  {value}" for name, value in rows.items()), *opened.problems])


def agents_text(opened: OpenedChat) -> str:
    """Return the kinds of subagents, with where they come from and what they may use."""
    lines = []
    for agent in opened.chat.services.agents.values():
        tools = "all tools" if agent.tools is None else ", ".join(agent.tools) or "no tools"
        without = f" without {', '.join(agent.disallowed)}" if agent.disallowed else ""
        model = f", {agent.model}" if agent.model else ""
        lines += [f"{agent.name} ({agent.source}): {agent.description}", f"    {tools}{without}{model}"]
        if agent.path is not None:
            lines.append(f"    {agent.path}")
    lines.append("Add one as agents/NAME.md in the config folder, or in .claude of this folder.")
    return "\n".join(lines)


def hooks_text(opened: OpenedChat) -> str:
    """Return the hooks of a chat by event, with what they match."""
    hooks = opened.chat.services.hooks.list_all()
    if not hooks:
        return "no hooks; add some as `hooks` to settings.json"
    lines = []
    for event in dict.fromkeys(hook.event for hook in hooks):
        lines.append(event)
        for hook in (hook for hook in hooks if hook.event == event):
            matcher = f"[{hook.matcher}] " if hook.matcher else ""
            matcher += f"if {hook.condition.text}: " if hook.condition is not None else ""
            fails = f" (a failure: {hook.on_failure})" if hook.on_failure else ""
            lines.append(f"    {matcher}{hook.hook.label}{fails}")
    return "\n".join(lines)


def memory_files(opened: OpenedChat) -> list[MemoryFile]:
    """Return the files with instructions that can be edited, whether or not they exist."""
    config, root = opened.chat.workspace.config, opened.chat.workspace.root
    return [
        MemoryFile(root / "CLAUDE.md", "of this project, shared with the folder"),
        MemoryFile(root / "CLAUDE.local.md", "of this project, your own"),
        MemoryFile(config / "CLAUDE.md", "of all projects, your own"),
    ]


def find_editor(environment: dict[str, str]) -> str | None:
    """Return the command of the user's editor."""
    import shutil

    for name in ("VISUAL", "EDITOR"):
        if command := environment.get(name, "").strip():
            return command
    return next((name for name in ("nano", "vim", "vi") if shutil.which(name, path=environment.get("PATH"))), None)


def _settings_files(opened: OpenedChat) -> list[Path]:
    config, root = opened.chat.workspace.config, opened.chat.workspace.root
    local = [root / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return [config / "settings.json", *(local if opened.permissions.trusted else [])]


def _without_login(address: str) -> str:
    try:
        parts = urlsplit(address)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        return "an invalid address"
