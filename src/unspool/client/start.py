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

import msgspec

from unspool.client.config import ChatOptions, ChatRuntime
from unspool.client.headless import control_protocol
from unspool.client.headless.initialize_request import parse_initialization
from unspool.client.headless.run import HeadlessRun, read_messages
from unspool.client.headless.stream_json import encode_line, hook_objects
from unspool.client.hooks.registry import HookCallProgress
from unspool.client.prompt.agent_definitions import parse_agents
from unspool.client.ui import open_chat
from unspool.display import clean_line
from unspool.errors import ApiFailed, UsageError

if TYPE_CHECKING:
    from unspool.client.protocols import Model
    from unspool.client.ui.terminal import Surface, Terminal

_SCRIPT_PREFIX = "script:"
_MAX_NAMES = 20


@asynccontextmanager
async def open_model(
    name: str,
    environment: Mapping[str, str],
    values: Mapping[str, str],
    server: str | None = None,
    *,
    quick: bool = False,
) -> AsyncIterator[Model]:
    """Open a connection to the API, to a server that `--endpoint` names, or a scripted model (`script:FILE`).

    A `quick` connection does not wait for a server that does not answer.
    """
    if name.startswith(_SCRIPT_PREFIX):
        from unspool.api.scripted import ScriptedModel, load_script

        yield ScriptedModel(load_script(Path(name.removeprefix(_SCRIPT_PREFIX)), values))
        return
    from unspool.api import (
        DEFAULT_RETRY,
        QUICK_RETRY,
        Connection,
        endpoint_from_environment,
        endpoint_from_name,
    )

    try:
        endpoint = endpoint_from_name(server, environment) if server else endpoint_from_environment(environment)
    except ApiFailed as failed:  # no request was sent yet: what is missing is a setting
        raise UsageError(failed.message, hint=failed.hint) from None
    async with Connection(endpoint, retry=QUICK_RETRY if quick else DEFAULT_RETRY) as connection:
        yield connection


async def choose_model(options: ChatOptions, model: Model) -> ChatOptions:
    """Return the options with a model that a server of `--endpoint` has, and with the context window it says."""
    from unspool.api import Connection

    settings, served = options.settings, []
    try:
        served = await model.models() if isinstance(model, Connection) else []
    except ApiFailed:
        if not settings.model:
            raise
    name = settings.model
    if not name:
        if len(served) != 1:
            names = ", ".join(found.name for found in served[:_MAX_NAMES]) or "it lists none"
            raise UsageError("missing option --model", hint=f"choose one of its models: {clean_line(names)}")
        name = served[0].name
    window = settings.window or next((found.window for found in served if found.name == name), None)
    return options._replace(settings=msgspec.structs.replace(settings, model=name, window=window, only_model=True))


def without_key(environment: Mapping[str, str], model: Model) -> dict[str, str]:
    """Return the environment without the key of the endpoint: commands that the model runs are not to see it."""
    from unspool.api import Connection

    hidden = model.endpoint.key_setting if isinstance(model, Connection) else None
    return {name: value for name, value in environment.items() if name != hidden}


async def run_headless(options: ChatOptions, runtime: ChatRuntime, complain: Callable[[str, str | None], None]) -> int:
    """Run a chat without a terminal."""

    def write(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    remote = control_protocol.RemoteUser(lambda value: write(encode_line(value)), runtime.new_id)
    messages = read_messages(sys.stdin.fileno()) if options.streams_in else None
    # A program of the SDK begins with `initialize`: its agents have to be known when the chat is opened.
    first = await anext(messages, None) if messages is not None else None
    agents, settings = tuple(parse_agents(options.agents)), options.settings
    if isinstance(first, control_protocol.ControlRequest) and first.subtype == "initialize":
        try:
            given = parse_initialization(first.request, remote)
            agents += given.agents
            settings = msgspec.structs.replace(settings, skills=given.skills)
        except UsageError as error:
            write(encode_line(control_protocol.error_response(first.id, error.message)))
            raise
    opened = await open_chat.open_chat_from_settings(
        options.start,
        settings,
        runtime,
        remote if options.asks else None,
        agents,
        send_control=remote.send_or_fail if messages is not None else None,
    )
    for problem in (*opened.problems, *_unapproved(opened)):
        complain(problem, None)
    if options.output == "stream-json":
        session_id = opened.chat.session_id

        def write_hook(progress: HookCallProgress) -> None:
            for value in hook_objects(progress, session_id, runtime.new_id, all_events=options.hook_events):
                write(encode_line(value))

        opened.chat.services.hooks.observe(write_hook)
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


def _unapproved(opened: open_chat.OpenedChat) -> list[str]:
    """Return that servers of `.mcp.json` are not used, because nobody is here to approve them."""
    names = ", ".join(f"`{server.name}`" for server in opened.chat.services.mcp.pending)
    if not names:
        return []
    how = "approve them in a terminal, or with `enabledMcpjsonServers` in the settings"
    return [f"MCP servers of .mcp.json are not approved and not used: {names} ({how})"]


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
