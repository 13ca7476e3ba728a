"""Starts a chat from the command line, headless or in a terminal, and returns its exit code.

Rules
  1. Modules that only a terminal needs are not imported without one, nor those of the network for a script.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.headless import control_protocol
from unspool.client.headless.run import HeadlessRun, read_messages
from unspool.client.headless.stream_json import encode_line
from unspool.client.permissions.trust import find_acting_files
from unspool.client.ui import open_chat
from unspool.client.ui.choice import ChoiceOption, ChoicePrompt
from unspool.errors import ApiFailed, UsageError

if TYPE_CHECKING:
    from unspool.client.protocols import Model
    from unspool.client.ui.completion import CompletionCandidate
    from unspool.client.ui.render import RenderOptions
    from unspool.client.ui.terminal import Choose, Surface, Terminal

_SCRIPT_PREFIX = "script:"


class ChatOptions(NamedTuple):
    """The options of the command line that are no settings of the chat itself."""

    start: SessionStart
    settings: ChatSettings
    config: Path
    cwd: Path
    prompt: str | None
    output: str = "text"
    streams_in: bool = False
    """Whether prompts come as lines of JSON."""
    partial: bool = False
    replay: bool = False
    asks: bool = False
    """Whether the program at the other end is asked for permission."""


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

    remote = (
        control_protocol.RemoteUser(lambda value: write(encode_line(value)), runtime.new_id) if options.asks else None
    )
    opened = await open_chat.open_chat_from_settings(options.start, options.settings, runtime, remote)
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
        if options.streams_in:
            return await run.run_stream(read_messages(sys.stdin.fileno()), remote)
        assert options.prompt is not None
        return await run.run_prompt(options.prompt)
    finally:
        await opened.chat.close()


async def run_in_terminal(options: ChatOptions, runtime: ChatRuntime) -> int:
    """Run a chat in this terminal."""
    from unspool.client.ui.render import RenderOptions
    from unspool.client.ui.terminal import ChatOpener, Terminal

    environment = runtime.environment
    # A terminal that cannot move the cursor, or input that is piped, gets lines only.
    is_plain = environment.get("TERM", "dumb") in ("dumb", "unknown", "") or not sys.stdin.isatty()
    rendering = RenderOptions(colours=not environment.get("NO_COLOR"), plain=is_plain)
    opener = ChatOpener(
        start=options.start,
        open=lambda start, user: open_chat.open_chat_from_settings(start, options.settings, runtime, user),
        ask_trust=lambda choose: _ask_trust(choose, options, runtime),
        is_trusted=lambda: open_chat.is_trusted(options.settings, runtime),
        trust=lambda: open_chat.trusted_folders(runtime).add(options.cwd),
        cwd=options.cwd,
        config=options.config,
        prompt=options.prompt,
    )
    terminal = Terminal(opener, rendering, _make_surface(rendering, options))
    await terminal.run()
    return 0


async def _ask_trust(choose: Choose, options: ChatOptions, runtime: ChatRuntime) -> bool:
    """Ask whether the folder is trusted, if it holds anything that would act; False: the user wants to leave."""
    files = find_acting_files(options.cwd)
    if not files or open_chat.is_trusted(options.settings, runtime):
        return True
    brings = f"It brings {', '.join(files)}: these may allow calls, and tell the model things."
    title = f"Do you trust this folder? {options.cwd}\n{brings}"
    answers = [
        ChoiceOption("Yes, from now on", key="y"),
        ChoiceOption("No, go on without them", key="n"),
        ChoiceOption("Leave", key="l"),
    ]
    picked = await choose(ChoicePrompt(title, answers, cursor=1))
    if picked is None or picked.first == 2:
        return False
    if picked.first == 0:
        open_chat.trusted_folders(runtime).add(options.cwd)
    return True


def _make_surface(rendering: RenderOptions, options: ChatOptions) -> Callable[[Terminal], Surface]:
    def make(terminal: Terminal) -> Surface:
        if rendering.plain:
            from unspool.client.ui.plain_terminal import PlainTerminal

            return PlainTerminal(terminal)
        from unspool.client.session.prompt_history import read_prompt_history
        from unspool.client.ui.completion import find_completions
        from unspool.client.ui.screen import PromptScreen

        history = read_prompt_history(options.config / "history.jsonl", str(options.cwd.resolve()))

        def complete(before: str) -> list[CompletionCandidate]:
            return find_completions(before, terminal.commands(), options.cwd)

        return PromptScreen(terminal, history, complete, colours=rendering.colours)

    return make
