"""`/config`, `/theme`, `/vim`, `/statusline`, `/memory`: change how the terminal looks, and what the model is told."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from unspool.client.ui.choice import ChoiceOption, ChoicePrompt
from unspool.client.ui.commands import overview
from unspool.client.ui.commands.interface_settings import CHOICES, user_settings_file, write_user_setting
from unspool.errors import NotFound, Unwritable, UsageError

if TYPE_CHECKING:
    from unspool.client.ui.terminal import Terminal

_MEANINGS = {
    "theme": "colours of the terminal",
    "editorMode": "keys of the prompt",
    "preferredNotifChannel": "how you are called when chat waits for you",
}


async def run_config_command(terminal: Terminal, arguments: str) -> None:
    """Let the user choose a setting and its value; `/config KEY VALUE` sets it at once."""
    key, _, value = arguments.partition(" ")
    if not key:
        interface = terminal.interface
        now = dict(zip(CHOICES, (interface.theme, interface.editor_mode, interface.notifications), strict=True))
        options = [ChoiceOption(f"{name}: {now[name]}", _MEANINGS[name]) for name in CHOICES]
        title = f"Change which setting? They are kept in {user_settings_file(terminal.options.config)}"
        picked = await terminal.surface.choose(ChoicePrompt(title, options, filters=True))
        if picked is None:
            return
        key = [*CHOICES][picked.first]
    if key not in CHOICES:
        raise UsageError(f"unknown setting `{key}`", hint=f"use one of: {', '.join(CHOICES)}")
    await _change(terminal, key, value.strip())


async def run_theme_command(terminal: Terminal, arguments: str) -> None:
    """Change the theme."""
    await _change(terminal, "theme", arguments)


async def run_vim_command(terminal: Terminal, arguments: str) -> None:
    """Switch between vim keys and the usual ones."""
    if arguments:
        raise UsageError(f"invalid argument `{arguments}`", hint="`/vim` switches between vim keys and the usual ones")
    await _change(terminal, "editorMode", "normal" if terminal.interface.editor_mode == "vim" else "vim")


async def _change(terminal: Terminal, key: str, value: str) -> None:
    choices = CHOICES[key]
    if not value:
        prompt = ChoicePrompt(f"Which {key}?", [ChoiceOption(name) for name in choices], filters=True)
        picked = await terminal.surface.choose(prompt)
        if picked is None:
            return
        value = choices[picked.first]
    if value not in choices:
        raise UsageError(f"invalid value `{value}` of `{key}`", hint=f"use one of: {', '.join(choices)}")
    write_user_setting(terminal.options.config, key, value)
    terminal.load_interface()
    _notify(terminal, f"{key}: {value}, written to {user_settings_file(terminal.options.config)}")


async def run_statusline_command(terminal: Terminal, arguments: str) -> None:
    """Show the command of the status line, set it (`/statusline COMMAND`) or remove it (`/statusline off`)."""
    config = terminal.options.config
    if arguments:
        value = None if arguments == "off" else {"type": "command", "command": arguments}
        write_user_setting(config, "statusLine", value)
        terminal.load_interface()
        _notify(terminal, f"status line: {arguments}, written to {user_settings_file(config)}")
    interface, line = terminal.interface, terminal.status_line
    if interface.has_ignored_status_line:
        _notify(terminal, "the status line does not run: this folder is not trusted; change it with `/trust`")
    elif interface.status_line is None:
        if not arguments:
            _notify(terminal, "no status line; set one with `/statusline COMMAND`: `unspool statusline` is one")
    elif not arguments:
        await line.settle()
        state = f"failed: {line.problem}" if line.problem else f"printed: {line.text}"
        terminal.surface.show(terminal.renderer().text(f"{interface.status_line}\n{state}") + "\n")


async def run_memory_command(terminal: Terminal, arguments: str) -> None:
    """Let the user choose a file with instructions, and open it in their editor."""
    files = overview.memory_files(terminal.opened)
    options = [ChoiceOption(str(file.path), f"{file.state}; {file.meaning}") for file in files]
    picked = await terminal.surface.choose(ChoicePrompt("Edit which instructions?", options, filters=True))
    if picked is None:
        return
    path = files[picked.first].path
    editor = overview.find_editor(dict(terminal.chat.runtime.environment))
    if editor is None:
        raise NotFound("no editor found", hint=f"set EDITOR, or edit `{path}` yourself")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        words = [*shlex.split(editor), str(path)]
    except (OSError, ValueError) as error:
        raise Unwritable(f"cannot edit `{path}`: {error}", hint="check EDITOR and the folder") from None
    code = await terminal.surface.run_program(words)
    if code:
        raise Unwritable(f"`{editor}` ended with exit code {code}", hint="set EDITOR to another editor")
    _notify(terminal, f"{path}: {files[picked.first].state}; the next session uses it, this one after `/clear`")


def _notify(terminal: Terminal, text: str) -> None:
    terminal.surface.show(terminal.renderer().notice(text) + "\n")
