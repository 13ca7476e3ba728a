"""How a conversation is begun and led from the command line: what was asked for in, an exit code out.

Rules
  1. Nothing that only a terminal needs is imported without one, nothing that only the network needs for a script.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.client.config import Settings, Start, World
from unspool.client.headless import control_protocol
from unspool.client.headless.run import Headless, Speech, heard
from unspool.client.headless.stream_json import line
from unspool.client.permissions.trust import acting
from unspool.client.ui import open_chat
from unspool.client.ui.choice import Option, Picking
from unspool.errors import ApiFailed, Usage

if TYPE_CHECKING:
    from unspool.client.protocols import Model
    from unspool.client.ui.completion import Candidate
    from unspool.client.ui.render import Look
    from unspool.client.ui.terminal import Pick, Surface, Terminal

SCRIPT = "script:"


class Asked(NamedTuple):
    """What was asked for on the command line, but for what a conversation itself is told."""

    start: Start
    settings: Settings
    config: Path
    cwd: Path
    prompt: str | None
    output: str = "text"
    streams_in: bool = False
    """Whether prompts come as lines of JSON."""
    partial: bool = False
    replay: bool = False
    asks: bool = False
    """Whether the other end is asked for permission."""


@asynccontextmanager
async def answering(name: str, environment: Mapping[str, str], values: Mapping[str, str]) -> AsyncIterator[Model]:
    """Open who answers: the API, or a script."""
    if name.startswith(SCRIPT):
        from unspool.api.scripted.model import Scripted
        from unspool.api.scripted.script import load

        yield Scripted(load(Path(name.removeprefix(SCRIPT)), values))
        return
    from unspool.api.connection import Connection
    from unspool.api.endpoint import endpoint

    try:
        there = endpoint(environment)
    except ApiFailed as failed:  # nobody was asked yet: what is missing is a setting
        raise Usage(failed.message, hint=failed.hint) from None
    async with Connection(there) as connection:
        yield connection


async def headless(asked: Asked, world: World, complain: Callable[[str, str | None], None]) -> int:
    """Lead a conversation without a terminal."""

    def write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    speech = Speech(asked.output, write, complain, world.new_id, partial=asked.partial, replay=asked.replay)
    remote = control_protocol.Remote(lambda value: write(line(value)), world.new_id) if asked.asks else None
    led = await open_chat.opened(asked.start, asked.settings, world, remote)
    for problem in led.problems:
        complain(problem, None)
    try:
        run = Headless(led, speech)
        if asked.streams_in:
            return await run.talk(heard(sys.stdin.fileno()), remote)
        assert asked.prompt is not None
        return await run.ask(asked.prompt)
    finally:
        await led.chat.close()


async def in_terminal(asked: Asked, world: World) -> int:
    """Lead a conversation in this terminal."""
    from unspool.client.ui.render import Look
    from unspool.client.ui.terminal import Opening, Terminal

    environment = world.environment
    is_plain = environment.get("TERM", "dumb") in ("dumb", "unknown", "") or not sys.stdin.isatty()
    look = Look(colours=not environment.get("NO_COLOR"), plain=is_plain)
    opening = Opening(
        start=asked.start,
        open=lambda start, person: open_chat.opened(start, asked.settings, world, person),
        ask_trust=lambda pick: _trusted(pick, asked, world),
        is_trusted=lambda: open_chat.is_trusted(asked.settings, world),
        trust=lambda: open_chat.trust(world).add(asked.cwd),
        cwd=asked.cwd,
        config=asked.config,
        prompt=asked.prompt,
    )
    terminal = Terminal(opening, look, _surface(look, asked))
    await terminal.run()
    return 0


async def _trusted(pick: Pick, asked: Asked, world: World) -> bool:
    """Ask whether the folder is trusted, once, if there is anything in it that would act; False: leave."""
    found = acting(asked.cwd)
    if not found or open_chat.is_trusted(asked.settings, world):
        return True
    brings = f"It brings {', '.join(found)}: these may allow calls, and tell the model things."
    title = f"Do you trust this folder? {asked.cwd}\n{brings}"
    options = [
        Option("Yes, from now on", key="y"),
        Option("No, go on without them", key="n"),
        Option("Leave", key="l"),
    ]
    picked = await pick(Picking(title, options, at=1))
    if picked is None or picked.place == 2:
        return False
    if picked.place == 0:
        open_chat.trust(world).add(asked.cwd)
    return True


def _surface(look: Look, asked: Asked) -> Callable[[Terminal], Surface]:
    def made(terminal: Terminal) -> Surface:
        if look.plain:
            from unspool.client.ui.plain_terminal import Plain

            return Plain(terminal)
        from unspool.client.ui.completion import candidates
        from unspool.client.ui.screen import Screen

        def complete(before: str) -> list[Candidate]:
            return candidates(before, terminal.commands(), asked.cwd)

        return Screen(terminal, typed_before(asked.config, asked.cwd), complete, colours=look.colours)

    return made


def typed_before(config: Path, cwd: Path) -> list[str]:
    """Return what was typed in this folder before, the oldest first."""
    from unspool.client.session.prompt_history import typed

    return typed(config / "history.jsonl", str(cwd.resolve()))
