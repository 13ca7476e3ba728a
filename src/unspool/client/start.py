"""Starts a chat from the command line, headless or in a terminal, and returns its exit code.

Rules
  1. Modules that only a terminal needs are not imported without one, nor those of the network for a script.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.client.config import ChatOptions, ChatRuntime
from unspool.client.headless import control_protocol
from unspool.client.headless.initialize_request import parse_initialization
from unspool.client.headless.run import HeadlessRun, read_messages
from unspool.client.headless.stream_json import encode_line
from unspool.client.prompt.agent_definitions import parse_agents
from unspool.client.ui import open_chat
from unspool.errors import ApiFailed, UsageError

if TYPE_CHECKING:
    from unspool.client.protocols import Model
    from unspool.client.ui.terminal import Surface, Terminal

_SCRIPT_PREFIX = "script:"


@asynccontextmanager
async def open_model(name: str, environment: Mapping[str, str], values: Mapping[str, str]) -> AsyncIterator[Model]:
    """Open a connection to the API, or a scripted model (`script:FILE`)."""
    if name.startswith(_SCRIPT_PREFIX):
        from unspool.api.scripted import ScriptedModel, load_script

        yield ScriptedModel(load_script(Path(name.removeprefix(_SCRIPT_PREFIX)), values))
        return
    from unspool.api import Connection, endpoint_from_environment

    try:
        endpoint = endpoint_from_environment(environment)
    except ApiFailed as failed:  # no request was sent yet: what is missing is a setting
        raise UsageError(failed.message, hint=failed.hint) from None
    async with Connection(endpoint) as connection:
        yield connection


async def run_headless(options: ChatOptions, runtime: ChatRuntime, complain: Callable[[str, str | None], None]) -> int:
    """Run a chat without a terminal."""

    def write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    remote = control_protocol.RemoteUser(lambda value: write(encode_line(value)), runtime.new_id)
    messages = read_messages(sys.stdin.fileno()) if options.streams_in else None
    # A program of the SDK begins with `initialize`: its agents have to be known when the chat is opened.
    first = await anext(messages, None) if messages is not None else None
    agents = tuple(parse_agents(options.agents))
    if isinstance(first, control_protocol.ControlRequest) and first.subtype == "initialize":
        try:
            agents += parse_initialization(first.request, remote).agents
        except UsageError as error:
            write(encode_line(control_protocol.error_response(first.id, error.message)))
            raise
    opened = await open_chat.open_chat_from_settings(
        options.start, options.settings, runtime, remote if options.asks else None, agents
    )
    for problem in opened.problems:
        complain(problem, None)
    try:
        run = HeadlessRun(
            opened,
            output=options.output,
            write=write,
            complain=complain,
            new_id=runtime.new_id,
            partial=options.partial,
            replay=options.replay,
        )
        if messages is not None:
            return await run.run_stream(_put_back(first, messages), remote)
        assert options.prompt is not None
        return await run.run_prompt(options.prompt)
    finally:
        await opened.chat.close()


async def _put_back(
    first: control_protocol.InputMessage | None, rest: AsyncIterator[control_protocol.InputMessage]
) -> AsyncIterator[control_protocol.InputMessage]:
    """Yield a message that was taken, and then the rest."""
    if first is not None:
        yield first
    async for message in rest:
        yield message


async def run_in_terminal(options: ChatOptions, runtime: ChatRuntime) -> int:
    """Run a chat in this terminal."""
    from unspool.client.ui.render import RenderOptions
    from unspool.client.ui.terminal import Terminal

    environment = runtime.environment
    # A terminal that cannot move the cursor, or input that is piped, gets lines only.
    is_plain = environment.get("TERM", "dumb") in ("dumb", "unknown", "") or not sys.stdin.isatty()
    rendering = RenderOptions(colours=not environment.get("NO_COLOR"), plain=is_plain)
    await Terminal(options, runtime, rendering, _make_surface).run()
    return 0


def _make_surface(terminal: Terminal) -> Surface:
    if terminal.rendering.plain:
        from unspool.client.ui.plain_terminal import PlainTerminal

        return PlainTerminal(terminal)
    from unspool.client.session.prompt_history import read_prompt_history
    from unspool.client.ui.screen import PromptScreen

    options = terminal.options
    history = read_prompt_history(options.config / "history.jsonl", str(options.cwd.resolve()))
    return PromptScreen(terminal, history)
