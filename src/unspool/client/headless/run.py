"""Runs a chat without a terminal (`-p`): takes one prompt, or lines of JSON, and prints text, JSON or stream-json.

Rules
  1. stdout holds the requested output and nothing else; what went wrong is one line on stderr, and in the exit code.
  2. No user is present: what no rule allows is refused, the model is told so, and the run continues. With a program at
     the other end (`--permission-prompt-tool stdio`) that program is asked.
  3. A signal interrupts as a user would: the session can be resumed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import suppress

from unspool.client import events
from unspool.client.headless import control_protocol, stream_json
from unspool.client.headless.initialize_request import parse_initialization
from unspool.client.headless.stream_json import StreamJsonEncoder
from unspool.client.mcp.servers import ServerState
from unspool.client.tool import normalize_name
from unspool.client.tool_result import Json
from unspool.client.ui import slash_commands
from unspool.client.ui.input_lines import read_lines
from unspool.client.ui.open_chat import OpenedChat, resolve_model
from unspool.errors import UnspoolError, UsageError
from unspool.format import FORMAT_VERSION


class HeadlessRun:
    """One run of a chat, from its first prompt to its exit code."""

    def __init__(
        self,
        opened: OpenedChat,
        *,
        output: str,
        write: Callable[[str], None],
        complain: Callable[[str, str | None], None],
        new_id: Callable[[], str],
        partial: bool = False,
        replay: bool = False,
    ) -> None:
        """Prepare a run; `write` prints a line on stdout, `complain` a message and a hint on stderr."""
        self._opened, self._chat = opened, opened.chat
        self._output, self._write, self._complain, self._new_id = output, write, complain, new_id
        self._replay = replay
        self._is_initialized = False
        self._unreplayed: tuple[str | list[Json], str | None] | None = None
        """The prompt of the turn until it is repeated to the program, and the uuid that the program gave it."""
        self._prompt_lines: dict[str, str] = {}
        """The lines of prompts, by the uuids that the program gave them."""
        self._structured: Json | None = None
        """The structured output of this turn."""
        self._encoder = StreamJsonEncoder(self._chat.session_id, new_id, partial=partial)
        self._failed: events.TurnFailed | None = None
        self._ended: events.TurnEnded | None = None
        self._signal: int | None = None
        self._is_running = False
        self._prompts: asyncio.Queue[control_protocol.PromptMessage | None] = asyncio.Queue()
        """Prompts that wait for their turn; None: no more will come."""
        self._starting: asyncio.Future[None] | None = None
        """The wait for MCP servers."""
        self._changes: set[asyncio.Future[None]] = set()
        """Changes of MCP servers that are under way."""

    async def run_prompt(self, prompt: str | list[Json]) -> int:
        """Run one prompt and return the exit code."""
        self._listen_to_signals()
        await self._turn(prompt)
        return self._exit_code()

    async def run_stream(
        self, messages: AsyncIterator[control_protocol.InputMessage], remote: control_protocol.RemoteUser | None
    ) -> int:
        """Answer messages until no more come; return the exit code of the last turn."""
        self._listen_to_signals()
        listening = asyncio.ensure_future(self._listen(messages, remote))
        try:
            while not self._is_stopped() and (message := await self._prompts.get()) is not None:
                await self._turn(message.content, message.uuid)
                while not self._is_stopped() and (text := self._chat.next_prompt()) is not None:
                    await self._turn(text)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        return self._exit_code()

    async def _turn(self, prompt: str | list[Json], uuid: str | None = None) -> None:
        self._failed = self._ended = self._structured = None
        await self._wait_for_servers()
        if self._is_stopped():
            return
        if self._output == "stream-json":
            self._print(self._init_object())
        self._unreplayed = (prompt, uuid)
        self._is_running = True
        try:
            await slash_commands.run_turn(self._opened, prompt, self._report)
        finally:
            self._is_running = False

    async def _wait_for_servers(self) -> None:
        """Wait until all MCP servers have started or failed, or a signal comes; say what went wrong with them."""
        servers = self._chat.services.mcp
        if servers:
            self._starting = asyncio.ensure_future(servers.wait_started())
            await asyncio.wait({self._starting})
            for problem in servers.take_problems():
                self._complain(problem, None)

    def _replay_prompt(self, line: str | None) -> None:
        """Repeat the prompt of the turn, with the uuid of its line unless the program has given it one."""
        unreplayed, self._unreplayed = self._unreplayed, None
        if unreplayed is None:
            return
        prompt, uuid = unreplayed
        if uuid is not None and line is not None:
            self._prompt_lines[uuid] = line
        if self._replay and self._output == "stream-json":
            self._print(self._replay_object(prompt, uuid or line))

    def _report(self, event: events.ChatEvent) -> None:
        if type(event) is events.TurnBegan:
            self._replay_prompt(event.uuid)
        elif type(event) is events.TurnEnded:  # a command of ours has no line of its own
            self._replay_prompt(None)
        if type(event) is events.TurnFailed:
            self._failed = event
        elif type(event) is events.TurnEnded:
            self._ended = event
        elif type(event) is events.CallEnded and event.name == "StructuredOutput" and not event.is_error:
            self._structured = event.input
        elif type(event) is events.HookReported:
            for notice in event.notices:
                self._complain(notice, None)
        if self._output == "stream-json":
            for value in self._encoder.objects(event):
                self._print(self._with_output(value))
        elif type(event) is events.TurnEnded:
            self._print_result(event)
        if type(event) is events.TurnEnded:
            self._report_failure(event)

    def _print_result(self, ended: events.TurnEnded) -> None:
        # The output may be shown by a terminal, so it is made safe.
        from unspool.display import clean

        if self._output == "json":
            id, session = self._new_id(), self._chat.session_id
            self._print(self._with_output(stream_json.result_object(ended, self._failed, session, id)))
        elif ended.text:
            self._write(clean(ended.text))

    def _with_output(self, value: Json) -> Json:
        """Return an object to print; a result has the structured output that the turn gave."""
        has_output = value["type"] == "result" and self._structured is not None
        return {**value, "structured_output": self._structured} if has_output else value

    def _report_failure(self, ended: events.TurnEnded) -> None:
        if self._failed is not None:
            self._complain(self._failed.message, self._failed.hint)
        elif message := stream_json.limit_message(ended):
            self._complain(message, f"resume with `unspool chat --resume {self._chat.session_id}`")

    async def _listen(
        self, messages: AsyncIterator[control_protocol.InputMessage], remote: control_protocol.RemoteUser | None
    ) -> None:
        async for message in messages:
            match message:
                # A text that comes during a turn reaches the model at its next step, as in a terminal.
                case control_protocol.PromptMessage(content=str(text)) if self._is_running:
                    self._chat.steer(text)
                case control_protocol.PromptMessage():
                    self._prompts.put_nowait(message)
                case control_protocol.ControlRequest(subtype="mcp_reconnect" | "mcp_toggle" | "stop_task" as subtype):
                    # In a task of its own: a server inside the program answers through this very loop.
                    change = self._stop_task if subtype == "stop_task" else self._change_server
                    changing = asyncio.ensure_future(change(message))
                    self._changes.add(changing)
                    changing.add_done_callback(self._changes.discard)
                case control_protocol.ControlRequest():
                    self._print(self._handle_control(message, remote))
                case control_protocol.ControlResponse() if remote is not None:
                    remote.resolve(message)
                case control_protocol.InvalidInput(reason=reason):
                    self._complain(f"skipped a line of the input: {reason}", None)
        # Nobody can answer any more: what still waits for permission is refused.
        if remote is not None:
            remote.close()
        self._prompts.put_nowait(None)

    def _handle_control(
        self, control: control_protocol.ControlRequest, remote: control_protocol.ControlChannel | None
    ) -> Json:
        """Apply a control request to the chat and return the response."""
        try:
            match control.request:
                case {"subtype": "initialize"}:
                    self._initialize(control.request, remote)
                    return control_protocol.success_response(control.id, self._capabilities())
                case {"subtype": "interrupt"}:
                    self._chat.interrupt()
                case {"subtype": "set_permission_mode", "mode": str(mode)}:
                    self._chat.set_mode(mode)
                    return control_protocol.success_response(control.id, {"mode": mode})
                case {"subtype": "set_model", "model": str() | None as model}:
                    self._chat.set_model(resolve_model(model) if model else self._chat.settings.model)
                case {"subtype": "mcp_status"}:
                    listed = [_server_as_json(state) for state in self._chat.services.mcp.states()]
                    return control_protocol.success_response(control.id, {"mcpServers": listed})
                case {"subtype": "rewind_files", "user_message_id": str(uuid)}:
                    if self._is_running:
                        raise UsageError("files cannot be rewound during a turn")
                    self._chat.rewind(self._prompt_lines.get(uuid, uuid), conversation=False, files=True)
                case {"subtype": "get_context_usage"}:
                    used, limit = self._chat.window_state
                    return control_protocol.success_response(control.id, {"totalTokens": used, "maxTokens": limit})
                case _:
                    return control_protocol.error_response(control.id, f"unknown request: {control.subtype}")
        except UnspoolError as error:
            return control_protocol.error_response(control.id, error.message)
        return control_protocol.success_response(control.id)

    async def _change_server(self, control: control_protocol.ControlRequest) -> None:
        """Connect to an MCP server again, or disconnect from it, and print the response."""
        servers, name = self._chat.services.mcp, str(control.request.get("serverName", ""))
        try:
            if control.subtype == "mcp_toggle" and control.request.get("enabled") is not True:
                await servers.disable(name)
            else:
                await servers.reconnect(name)
                state = next(state for state in servers.states() if state.server.key == normalize_name(name))
                if state.status != "connected":
                    raise UsageError(state.problem)
        except UnspoolError as error:
            self._print(control_protocol.error_response(control.id, error.message))
        else:
            self._print(control_protocol.success_response(control.id))

    async def _stop_task(self, control: control_protocol.ControlRequest) -> None:
        """End a background command or agent, and print the response."""
        tasks, id = self._chat.context.tasks, str(control.request.get("task_id", ""))
        task = tasks.get(id)
        if task is None or task.ended.is_set():
            self._print(control_protocol.error_response(control.id, f"no running task has the id {id}"))
            return
        await task.stop()
        if not task.ended.is_set():
            tasks.end(task, "killed")
        self._print(control_protocol.success_response(control.id))

    def _initialize(self, request: Json, remote: control_protocol.ControlChannel | None) -> None:
        """Register the hooks of the program; its agents were given when the chat was opened."""
        if remote is None:
            return
        if self._is_initialized:
            raise UsageError("already initialized")
        given = parse_initialization(request, remote)
        for agent in given.agents:
            if self._chat.services.agents.get(agent.name) != agent:
                raise UsageError(f"the agent `{agent.name}` comes too late: send `initialize` first")
        self._chat.services.hooks.add(given.hooks)
        self._is_initialized = True

    def _capabilities(self) -> Json:
        listed = slash_commands.headless_commands(self._opened)
        commands = [{"name": name, "description": text, "argumentHint": ""} for name, text in listed.items()]
        return {
            "commands": commands,
            "output_style": self._opened.output_style,
            "available_output_styles": [*self._opened.output_styles],
            "models": [],
            # Without these the SDK refuses hooks with `on_failure`.
            "hook_on_failure_supported": True,
            "hooks_applied": True,
        }

    def _init_object(self) -> Json:
        services = self._chat.services
        return stream_json.init_object(
            self._chat.session_id,
            self._new_id(),
            cwd=str(self._chat.workspace.root),
            tools=[*(tool.name for tool in services.tools), *(tool.name for tool in services.mcp.tools())],
            mcp_servers=[{"name": state.server.name, "status": state.status} for state in services.mcp.states()],
            model=self._chat.model,
            permissionMode=self._chat.mode,
            slash_commands=list(slash_commands.headless_commands(self._opened)),
            agents=list(self._opened.agents),
            apiKeySource=_api_key_source(self._chat.runtime.environment),
            claude_code_version=FORMAT_VERSION,
            output_style=self._opened.output_style,
            skills=[skill.name for skill in self._opened.skills.values()],
            plugins=[{"name": plugin.name, "path": str(plugin.root)} for plugin in self._opened.plugins],
        )

    def _replay_object(self, prompt: str | list[Json], uuid: str | None) -> Json:
        return {
            "type": "user",
            "message": {"role": "user", "content": prompt},
            "session_id": self._chat.session_id,
            "parent_tool_use_id": None,
            "uuid": uuid or self._new_id(),
            "isReplay": True,
        }

    def _print(self, value: Json) -> None:
        self._write(stream_json.encode_line(value))

    def _listen_to_signals(self) -> None:
        # SIGHUP too: a run over ssh has to leave a session that can be resumed.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._handle_signal, number)

    def _handle_signal(self, number: int) -> None:
        if self._signal is not None:  # the second signal stops at once
            raise KeyboardInterrupt
        self._signal = number
        self._prompts.put_nowait(None)
        if self._starting is not None:
            self._starting.cancel()
        self._chat.interrupt()

    def _is_stopped(self) -> bool:
        return self._signal is not None

    def _exit_code(self) -> int:
        if self._signal is not None:
            return 128 + self._signal
        return stream_json.exit_code(self._ended, self._failed)


def _server_as_json(state: ServerState) -> Json:
    """Return an MCP server by the field names of the SDK."""
    value: Json = {"name": state.server.name, "status": state.status, "scope": state.server.scope}
    if state.version:
        value["serverInfo"] = state.version
    if state.status == "failed":
        value["error"] = state.problem
    prefix = f"mcp__{state.server.key}__"
    return {**value, "tools": [{"name": name.removeprefix(prefix)} for name in state.tools]}


async def read_messages(descriptor: int) -> AsyncGenerator[control_protocol.InputMessage, None]:
    """Yield the messages on a file descriptor, which may stay open, as they come."""
    async for line in read_lines(descriptor):
        if message := control_protocol.parse_line(line):
            yield message


def _api_key_source(environment: Mapping[str, str]) -> str:
    names = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    return next((name for name in names if environment.get(name)), "none")
