"""Commands that begin with `/`: what was typed in, what to do about it out. The same with a terminal and without.

Rules
  1. A command of ours is done here and the model is not asked; what it said is written down as the program does.
  2. A command from `.claude/commands` is expanded, and is a prompt: the raw line, and its expansion as its child.
  3. What is no command is a prompt, also if it begins with `/`: a path, a pattern.

[merged: expanding.py] What stands for more than its words, on its way to the model: custom commands, and files that are named with `@`.

Rules
  1. Commands and files in it are run and read under the same rules as the model's own calls: what has to be asked is
     asked, and what is refused is named in the text instead.
  2. What a command's `allowed-tools` allow holds until the turn has ended, and so does its `model`.
  3. A file that a prompt names comes with it if it may be read without asking: what is piped in may name any file.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from unspool.client import events
from unspool.client.prompt.custom_commands import Custom, expanded
from unspool.client.prompt.instructions import mentioned
from unspool.client.protocols import Wish
from unspool.client.tools.registry import run
from unspool.client.ui import status_text as reports
from unspool.client.ui.opened_chat import Led

Json: TypeAlias = dict[str, Any]


async def expanding_turn(led: Led, custom: Custom, arguments: str) -> AsyncGenerator[events.AnyEvent, None]:
    """Expand a command and take it as a prompt: its raw line, and its expansion as the line's child."""
    chat, model = led.chat, led.chat.model
    led.permissions.lend(custom.allowed)
    try:
        if custom.model and custom.model != "inherit":
            pass

            chat.set_model(model_name(custom.model))
        acting = Acting(led)
        text = await expanded(custom, arguments, acting.run, acting.read)
        said = chat.turn(raw(custom.name, arguments), [{"type": "text", "text": text}])
        async with aclosing(said) as happening:
            async for event in happening:
                yield event
    finally:
        led.permissions.take_back()
        if chat.model != model:
            chat.set_model(model)


async def named_files(led: Led, prompt: str) -> list[Json] | None:
    """Return the files that a prompt names, worded as what was read for the model; None if there are none."""
    acting, blocks = Acting(led), []
    for name in mentioned(prompt):
        path = led.chat.desk.cwd / name
        input = {"file_path": str(path)}
        if path.is_file() and led.permissions.judge("Read", input, led.chat.desk).behaviour == "allow":
            words = await acting.read(name)
            called = f"Called the Read tool with the following input: {msgspec.json.encode(input).decode()}"
            for told in (called, f"Result of calling the Read tool:\n{words}"):
                blocks.append({"type": "text", "text": f"<system-reminder>\n{told}\n</system-reminder>"})
    return blocks or None


def raw(name: str, arguments: str) -> str:
    """Return how the program writes down that a command was typed."""
    tags = f"<command-message>{name}</command-message>\n<command-name>/{name}</command-name>"
    return f"{tags}\n<command-args>{arguments}</command-args>" if arguments else tags


class Acting:
    """Runs what a command names, if it may."""

    def __init__(self, led: Led) -> None:
        self._led = led

    async def run(self, command: str) -> str:
        """Return what a shell command says."""
        return await self._called("Bash", {"command": command})

    async def read(self, name: str) -> str | None:
        """Return a file; None if there is none."""
        path = self._led.chat.desk.cwd / name
        if not path.is_file():
            return None
        return await self._called("Read", {"file_path": str(path)})

    async def _called(self, name: str, input: Json) -> str:
        chat = self._led.chat
        tool = next((tool for tool in chat.fittings.tools if tool.name == name), None)
        if tool is None:
            return f"({name} is not there)"
        ruling = self._led.permissions.judge(name, input, chat.desk)
        allowed = ruling.behaviour == "allow"
        if ruling.behaviour == "ask":
            call = f"command_{chat.world.new_id()}"
            permit = await chat.desk.person.permit(Wish(call, name, input, tool.target(input)), ruling)
            allowed = permit.allowed
        if not allowed:
            return f"({tool.target(input)}: not allowed, {ruling.why})"
        outcome = await run(tool, input, chat.desk, f"command_{chat.world.new_id()}")
        if isinstance(outcome.content, str):
            return outcome.content
        return "\n".join(str(block.get("text", "")) for block in outcome.content)


Happening: TypeAlias = AsyncGenerator[events.AnyEvent, None]

TERMINAL = {
    "help": "what can be typed",
    "resume": "go on with another session of this folder",
    "tree": "the branches of this session; go on from another one",
    "fork": "go on in a copy of this session",
    "rewind": "go back to an earlier prompt: conversation, files or both",
    "compact": "make the conversation shorter: /compact [what to keep]",
    "clear": "begin a new session",
    "cost": "what it has cost",
    "context": "how full the context is",
    "model": "go on with another model: /model [NAME]",
    "permissions": "what is allowed, and by what",
    "export": "write the conversation to a file: /export [FILE]",
    "todos": "the todo list",
    "trust": "trust this folder: its settings, agents and commands may act",
    "rename": "give the session a title: /rename TITLE",
    "exit": "leave; so does Ctrl-D",
}
"""The commands of the terminal, with what they do."""
HEADLESS = ("compact", "context", "cost", "permissions", "todos")
"""Those that need nobody."""
_NAME = re.compile(r"/([\w:.-]+)(?:\s|\Z)")
ALIASES = {"opus": "claude-opus-5-5", "sonnet": "claude-sonnet-5-5", "haiku": "claude-haiku-5-5"}
DEFAULT_MODEL = "claude-opus-5-5"


def name_of(text: str) -> str:
    """Return the name of the command that a text is; empty if it is none."""
    found = _NAME.match(text)
    return found[1] if found else ""


def model_name(name: str) -> str:
    """Return the model that is meant: `opus`, `sonnet` and `haiku` are the newest of their kind."""
    base, bracket, rest = name.partition("[")
    return ALIASES.get(base.lower(), base) + bracket + rest


def listed(led: Led) -> dict[str, str]:
    """Return the commands that need no terminal, with what they do."""
    return {**{name: TERMINAL[name] for name in HEADLESS}, **customs(led)}


def customs(led: Led) -> dict[str, str]:
    """Return the commands from `.claude/commands`, with what they do."""
    return {name: f"{custom.description} ({custom.source})" for name, custom in led.customs.items()}


def key_source(environment: Mapping[str, str]) -> str:
    """Return where the key for the API comes from."""
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    return next((name for name in names if environment.get(name)), "none")


def is_mistyped(text: str, known: Iterable[str]) -> bool:
    """Tell whether a text is meant for a command and is none: it is no path either."""
    name = name_of(text)
    return bool(name) and name not in known and not Path(f"/{name}").exists()


def local(led: Led, text: str) -> str | None:
    """Do a command that only says something; return what it says, None if the text is no such command."""
    say = _SAID.get(name_of(text))
    if say is None:
        return None
    output = say(led)
    led.chat.local_command(name_of(text), _arguments(text), output)
    return output


async def turn(led: Led, prompt: str | list[Json]) -> Happening:
    """Take a prompt: a command of ours, one from `.claude/commands`, or words for the model."""
    if isinstance(prompt, str) and (output := local(led, prompt)) is not None:
        yield _said(output)
        return
    async with aclosing(await _happening(led, prompt)) as happening:
        async for event in happening:
            yield event
    if isinstance(prompt, str) and name_of(prompt) == "compact":
        yield _said("")


async def _happening(led: Led, prompt: str | list[Json]) -> Happening:
    if not isinstance(prompt, str):
        return led.chat.turn(prompt)
    name = name_of(prompt)
    if name == "compact":
        return led.chat.compact(_arguments(prompt))
    if (custom := led.customs.get(name)) is not None:
        return expanding_turn(led, custom, _arguments(prompt))
    return led.chat.turn(prompt, await named_files(led, prompt))


_SAID: dict[str, Callable[[Led], str]] = {
    "cost": lambda led: reports.cost(led.chat),
    "context": lambda led: reports.context(led.chat),
    "todos": lambda led: reports.todos(led.chat),
    "permissions": reports.permissions,
}


def _arguments(text: str) -> str:
    return text.partition(" ")[2].strip()


def _said(text: str) -> events.TurnEnded:
    empty = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    return events.TurnEnded(
        ending="end_turn", text=text, steps=0, usage=empty, models={}, cost_micros=0, duration_ms=0, api_ms=0
    )
