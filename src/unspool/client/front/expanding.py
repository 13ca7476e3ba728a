"""What stands for more than its words, on its way to the model: custom commands, and files that are named with `@`.

Rules
  1. Commands and files in it are run and read under the same rules as the model's own calls: what has to be asked is
     asked, and what is refused is named in the text instead.
  2. What a command's `allowed-tools` allow holds until the turn has ended, and so does its `model`.
  3. A file that a prompt names comes with it if it may be read without asking: what is piped in may name any file.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec

from unspool.client import events
from unspool.client.front.led import Led
from unspool.client.mentions import mentioned
from unspool.client.person import Wish
from unspool.client.slash import Custom, expanded
from unspool.client.tools.run import run

Json: TypeAlias = dict[str, Any]


async def turn(led: Led, custom: Custom, arguments: str) -> AsyncGenerator[events.AnyEvent, None]:
    """Expand a command and take it as a prompt: its raw line, and its expansion as the line's child."""
    chat, model = led.chat, led.chat.model
    led.permissions.lend(custom.allowed)
    try:
        if custom.model and custom.model != "inherit":
            from unspool.client.front.commands import model_name

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
