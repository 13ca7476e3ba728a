"""A conversation without a terminal (`-p`): one prompt, or lines of JSON, in; text, an object or a stream of them out.

Rules
  1. stdout has what was asked for and nothing else; what went wrong is one line on stderr, and in the exit code.
  2. Nobody sits there: what no rule allows is refused, the model is told, and the run goes on. With a program at the
     other end (`--permission-prompt-tool stdio`) it is asked.
  3. A signal interrupts as a person would: the session can be gone on with.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, NamedTuple, TypeAlias

from unspool.client import events
from unspool.client.headless import control_protocol, stream_json
from unspool.client.headless.stream_json import Stream
from unspool.client.ui import slash_commands
from unspool.client.ui.input_lines import lines_of
from unspool.client.ui.opened_chat import Led
from unspool.errors import UnspoolError

Json: TypeAlias = dict[str, Any]


class Speech(NamedTuple):
    """How it speaks."""

    output: str
    write: Callable[[str], None]
    """A line on stdout."""
    complain: Callable[[str, str | None], None]
    """A message and a hint on stderr."""
    new_id: Callable[[], str]
    partial: bool = False
    replay: bool = False


class Headless:
    """One run."""

    def __init__(self, led: Led, speech: Speech) -> None:
        self._led = led
        self._chat = chat = led.chat
        self._speech = speech
        self._stream = Stream(chat.session_id, speech.new_id, partial=speech.partial)
        self._failed: events.Failed | None = None
        self._ended: events.TurnEnded | None = None
        self._signal: int | None = None
        self._is_running = False
        self._waiting: asyncio.Queue[control_protocol.Said | None] = asyncio.Queue()
        """What was said and is not answered yet; None: nothing more comes."""

    async def ask(self, prompt: str | list[Json]) -> int:
        """Say one prompt, and what was queued meanwhile; return the exit code."""
        self._listen_to_signals()
        await self._turn(prompt)
        return self._code()

    async def talk(self, heard: AsyncIterator[control_protocol.Heard], remote: control_protocol.Remote | None) -> int:
        """Answer what comes, until nothing more does; return the exit code of the last turn."""
        self._listen_to_signals()
        listening = asyncio.ensure_future(self._listen(heard, remote))
        try:
            while not self._is_stopped() and (said := await self._waiting.get()) is not None:
                await self._turn(said.content, said.uuid)
                while not self._is_stopped() and (text := self._chat.next_prompt()) is not None:
                    await self._turn(text)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        return self._code()

    async def _turn(self, prompt: str | list[Json], uuid: str | None = None) -> None:
        self._failed = self._ended = None
        if self._speech.output == "stream-json":
            self._print(self._init())
            if self._speech.replay:
                self._print(self._replayed(prompt, uuid))
        self._is_running = True
        try:
            async with aclosing(slash_commands.turn(self._led, prompt)) as happening:
                async for event in happening:
                    self._tell(event)
        finally:
            self._is_running = False

    def _tell(self, event: events.Event) -> None:
        if type(event) is events.Failed:
            self._failed = event
        elif type(event) is events.TurnEnded:
            self._ended = event
        if self._speech.output == "stream-json":
            for told in self._stream.objects(event):
                self._print(told)
        elif type(event) is events.TurnEnded:
            self._conclude(event)
        if type(event) is events.TurnEnded:
            self._complain(event)

    def _conclude(self, ended: events.TurnEnded) -> None:
        from unspool.display.safe import clean

        if self._speech.output == "json":
            id, session = self._speech.new_id(), self._chat.session_id
            self._print(stream_json.result(ended, self._failed, session, id))
        elif ended.text:
            self._speech.write(clean(ended.text))

    def _complain(self, ended: events.TurnEnded) -> None:
        if self._failed is not None:
            self._speech.complain(self._failed.message, self._failed.hint)
        elif words := stream_json.limit_words(ended):
            self._speech.complain(words, f"`unspool chat --resume {self._chat.session_id}` goes on")

    async def _listen(
        self, heard: AsyncIterator[control_protocol.Heard], remote: control_protocol.Remote | None
    ) -> None:
        async for one in heard:
            match one:
                case control_protocol.Said(content=str(text)) if self._is_running:
                    self._chat.steer(text)
                case control_protocol.Said():
                    self._waiting.put_nowait(one)
                case control_protocol.Control():
                    self._print(self._done(one))
                case control_protocol.Replied() if remote is not None:
                    remote.replied(one)
                case control_protocol.Bad(reason=reason):
                    self._speech.complain(f"a line of the input was passed over: {reason}", None)
        if remote is not None:
            remote.gone()
        self._waiting.put_nowait(None)

    def _done(self, control: control_protocol.Control) -> Json:
        """Do what is asked of the conversation; return the answer."""
        try:
            match control.request:
                case {"subtype": "initialize"}:
                    return control_protocol.success(control.id, self._about())
                case {"subtype": "interrupt"}:
                    self._chat.interrupt()
                case {"subtype": "set_permission_mode", "mode": str(mode)}:
                    self._chat.set_mode(mode)
                    return control_protocol.success(control.id, {"mode": mode})
                case {"subtype": "set_model", "model": str() | None as model}:
                    self._chat.set_model(slash_commands.model_name(model) if model else self._chat.settings.model)
                case {"subtype": "get_context_usage"}:
                    used, limit = self._chat.window_state
                    return control_protocol.success(control.id, {"totalTokens": used, "maxTokens": limit})
                case _:
                    return control_protocol.refusal(control.id, f"unknown request: {control.subtype}")
        except UnspoolError as error:
            return control_protocol.refusal(control.id, error.message)
        return control_protocol.success(control.id)

    def _about(self) -> Json:
        listed = slash_commands.listed(self._led)
        named = [{"name": name, "description": words, "argumentHint": ""} for name, words in listed.items()]
        return {"commands": named, "output_style": "default", "available_output_styles": ["default"], "models": []}

    def _init(self) -> Json:
        began = self._chat.began()
        return stream_json.init(
            self._chat.session_id,
            self._speech.new_id(),
            cwd=began.cwd,
            tools=list(began.tools),
            model=self._chat.model,
            permissionMode=self._chat.mode,
            slash_commands=list(slash_commands.listed(self._led)),
            agents=list(self._led.agents),
            apiKeySource=slash_commands.key_source(self._chat.world.environment),
            claude_code_version=began.version,
        )

    def _replayed(self, prompt: str | list[Json], uuid: str | None) -> Json:
        return {
            "type": "user",
            "message": {"role": "user", "content": prompt},
            "session_id": self._chat.session_id,
            "parent_tool_use_id": None,
            "uuid": uuid or self._speech.new_id(),
            "isReplay": True,
        }

    def _print(self, value: Json) -> None:
        self._speech.write(stream_json.line(value))

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stopped, number)

    def _stopped(self, number: int) -> None:
        if self._signal is not None:  # twice: at once
            raise KeyboardInterrupt
        self._signal = number
        self._waiting.put_nowait(None)
        self._chat.interrupt()

    def _is_stopped(self) -> bool:
        return self._signal is not None

    def _code(self) -> int:
        if self._signal is not None:
            return 128 + self._signal
        return stream_json.exit_code(self._ended, self._failed)


async def heard(descriptor: int) -> AsyncGenerator[control_protocol.Heard, None]:
    """Yield what is said on a descriptor that may stay open, as it comes."""
    async for line in lines_of(descriptor):
        if one := control_protocol.hear(line):
            yield one
