"""Commands that begin with `/`: what was typed in, what to do about it out. The same with a terminal and without.

Rules
  1. A command of ours is done here and the model is not asked; what it said is written down as the program does.
  2. A command from `.claude/commands` is expanded, and is a prompt: the raw line, and its expansion as its child.
  3. What is no command is a prompt, also if it begins with `/`: a path, a pattern.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.front import reports

Json: TypeAlias = dict[str, Any]
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


def listed(chat: Chat) -> dict[str, str]:
    """Return the commands that need no terminal, with what they do."""
    return {name: TERMINAL[name] for name in HEADLESS}


def customs(chat: Chat) -> dict[str, str]:
    """Return the commands from `.claude/commands`, with what they do."""
    return {}


def agents(chat: Chat) -> list[str]:
    """Return the kinds of agents that can be sent."""
    return []


def key_source(chat: Chat) -> str:
    """Return where the key for the API comes from."""
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    return next((name for name in names if chat.world.environment.get(name)), "none")


def is_mistyped(text: str, known: Iterable[str]) -> bool:
    """Tell whether a text is meant for a command and is none: it is no path either."""
    name = name_of(text)
    return bool(name) and name not in known and not Path(f"/{name}").exists()


def local(chat: Chat, text: str) -> str | None:
    """Do a command that only says something; return what it says, None if the text is no such command."""
    say = _SAID.get(name_of(text))
    if say is None:
        return None
    output = say(chat)
    chat.local_command(name_of(text), text.partition(" ")[2].strip(), output)
    return output


async def turn(chat: Chat, prompt: str | list[Json]) -> Happening:
    """Take a prompt: a command of ours, one from `.claude/commands`, or words for the model."""
    if isinstance(prompt, str) and name_of(prompt) == "compact":
        async for event in chat.compact(prompt.partition(" ")[2].strip()):
            yield event
        yield _said("")
    elif isinstance(prompt, str) and (output := local(chat, prompt)) is not None:
        yield _said(output)
    else:
        async for event in chat.turn(prompt):
            yield event


_SAID: dict[str, Callable[[Chat], str]] = {
    "cost": reports.cost,
    "context": reports.context,
    "todos": reports.todos,
    "permissions": reports.permissions,
}


def _said(text: str) -> events.TurnEnded:
    empty = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    return events.TurnEnded(
        ending="end_turn", text=text, steps=0, usage=empty, models={}, cost_micros=0, duration_ms=0, api_ms=0
    )
