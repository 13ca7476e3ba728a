"""The connection to one MCP server: starts it, lists what it offers, calls it, and starts it again.

Rules
  1. Whatever a server does costs its own calls only. It has `MCP_TIMEOUT` milliseconds to start (30 s), and
     `MCP_TOOL_TIMEOUT` for a call (100,000 s, as in Claude Code: the user can interrupt it).
  2. The SDK's client is entered and left by one task: its cancel scopes demand that. Calls come from other tasks. Each
     waits for its answer and for the end of that task, whichever comes first.
  3. A server that has ended is started again by the next call, at most three times in a session.
  4. The handshake is `initialize`, which every server knows. Its requests for answers of the model (sampling) are
     refused; those to the user are passed on (`elicitation.py`).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from unspool.client.mcp.connection_end import ConnectionEnd, ServerEnded, TransportContext
from unspool.client.mcp.elicitation import ElicitationRequests
from unspool.client.mcp.offers import MAX_LISTED, ServerOffers, parse_prompts, parse_resources, parse_tools
from unspool.client.mcp.server_config import ServerConfig
from unspool.client.mcp.sign_in import SIGN_IN_SECONDS, SignInFailed, can_sign_in, kept_provider, open_sign_in
from unspool.client.mcp.transports import open_transport
from unspool.client.tool_result import Json
from unspool.display import clean_line

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types
    from mcp.client.session import ClientSession

Status: TypeAlias = Literal["pending", "connected", "failed", "disabled", "needs-auth"]
_T = TypeVar("_T")
_START_MS = 30_000
_CALL_MS = 100_000_000
_MAX_RESTARTS = 3
_MAX_PAGES = 50
_MAX_PROBLEM = 300
_SESSION_UNKNOWN = 404
"""The HTTP status with which a server that was started again refuses an earlier session."""
_NO_LOGIN = (401, 403)
"""The HTTP statuses with which a server refuses whoever has not signed in."""
_STOP_SECONDS = 5.0
"""How long to wait for a server that is stopped; its process is ended after two."""


class ServerConnection:
    """One server, connected or not."""

    def __init__(self, server: ServerConfig, context: TransportContext) -> None:
        self.server = server
        self.status: Status = "pending"
        self.problem = ""
        """Why it is not connected."""
        self.offers = ServerOffers()
        """What it offers; also after it has ended, until it is connected again."""
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._end = ConnectionEnd()
        self._settled = asyncio.Event()
        """Set when the start has succeeded or failed."""
        self._session: ClientSession | None = None
        self._show_address: Callable[[str], None] | None = None
        """Gets the address of a sign-in; None: nobody was asked to sign in."""
        self._questions = ElicitationRequests(server.name, context.form_user)
        self._restarts = 0
        self._restarting = asyncio.Lock()
        """Held while it is started again: calls may run side by side."""
        self._changed = asyncio.Event()
        """Set when the server says that what it offers has changed."""

    def start(self, show_address: Callable[[str], None] | None = None) -> None:
        """Begin to connect; with `show_address` also sign in, where the server asks for it."""
        self.status, self.problem, self._show_address = "pending", "", show_address
        self._end, self._settled, self._changed = ConnectionEnd(), asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._supervise(self._end, self._settled))

    async def wait_settled(self) -> None:
        """Wait until the start has succeeded or failed."""
        await self._settled.wait()

    async def stop(self, status: Status = "disabled") -> None:
        """Disconnect."""
        task, self._task = self._task, None
        if task is not None:
            is_starting = not self._settled.is_set()
            self._end.end("it was stopped")
            if is_starting:
                task.cancel()
            done, _ = await asyncio.wait({task}, timeout=_STOP_SECONDS)
            if not done:
                task.cancel()
                await asyncio.wait({task}, timeout=_STOP_SECONDS)
        self.status = status

    async def reconnect(self, show_address: Callable[[str], None] | None = None) -> None:
        """Disconnect and connect again; return when that has succeeded or failed."""
        async with self._restarting:
            await self.stop("pending")
            self._restarts = 0
            self.start(show_address)
        await self.wait_settled()

    async def call_tool(self, name: str, input: Json, on_progress: Callable[[Json], None]) -> Json:
        """Call a tool and return its result; a `ServerEnded` says why there is none."""
        import mcp_types as types

        async def report(progress: float, total: float | None, message: str | None) -> None:
            fields = {"progress": progress, "total": total, "progressMessage": message}
            on_progress({key: value for key, value in fields.items() if value is not None})

        # Not the session's `call_tool`: it would match the result against a schema with the server's own patterns.
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=input))
        result = await self._ask(
            f'tool "{name}"',
            lambda session: session.send_request(request, types.CallToolResult, progress_callback=report),
        )
        return _to_json(result)

    async def read_resource(self, uri: str) -> list[Json]:
        """Return the contents of a resource."""
        import mcp_types as types

        request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=uri))
        result = await self._ask(
            f'resource "{uri}"', lambda session: session.send_request(request, types.ReadResourceResult)
        )
        contents = _to_json(result).get("contents")
        return [part for part in contents if isinstance(part, dict)] if isinstance(contents, list) else []

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> list[Json]:
        """Return the messages of a prompt."""
        import mcp_types as types

        request = types.GetPromptRequest(params=types.GetPromptRequestParams(name=name, arguments=arguments))
        result = await self._ask(
            f'prompt "{name}"', lambda session: session.send_request(request, types.GetPromptResult)
        )
        messages = _to_json(result).get("messages")
        return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []

    async def _ask(self, what: str, request: Callable[[ClientSession], Awaitable[_T]]) -> _T:
        """Send a request, and return its answer; a `ServerEnded` says why there is none."""
        await self._ensure_connected()
        with self._questions.during_call():
            return await self._send(what, request)

    async def _send(self, what: str, request: Callable[[ClientSession], Awaitable[_T]]) -> _T:
        session, task, end = self._session, self._task, self._end
        assert session is not None
        assert task is not None
        seconds = _milliseconds(self._context.environment, "MCP_TOOL_TIMEOUT", _CALL_MS) / 1000
        job = asyncio.ensure_future(request(session))
        job.add_done_callback(_take_exception)
        ending = asyncio.ensure_future(end.event.wait())
        try:
            await asyncio.wait({job, ending, task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not job.done() and not end.event.is_set() and not task.done():
                raise ServerEnded(f'MCP server "{self.server.name}" {what} timed out after {seconds:g} s')
            if not job.done():
                # The server may have answered and ended: its answer is on the way to us.
                await asyncio.wait({job}, timeout=0.2)
            if not job.done():
                raise ServerEnded(f'MCP server "{self.server.name}" {what}: {self._describe_end(end)}')
            if (error := job.exception()) is not None:
                if end.http_status == _SESSION_UNKNOWN or _is_closed(error):
                    end.end("")  # the next call connects again
                raise ServerEnded(self._describe_failure(error, end)) from None
            return job.result()
        finally:
            ending.cancel()
            if not job.done():
                job.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({job}, timeout=1)

    def _describe_failure(self, error: BaseException, end: ConnectionEnd) -> str:
        # A request that was open when the connection closed fails with an error of the SDK: why it closed says more.
        if end.event.is_set():
            return f'MCP server "{self.server.name}": {self._describe_end(end)}'
        return describe_error(error)

    async def _ensure_connected(self) -> None:
        if self.status == "disabled":
            raise ServerEnded(f'MCP server "{self.server.name}" is disabled')
        async with self._restarting:
            if self._end.event.is_set() and self._task is not None:
                # It has ended, and its process is still being cleared away.
                await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
            if self.status == "failed" and self._restarts < _MAX_RESTARTS:
                self._restarts += 1
                await self.stop("pending")
                self.start()
        await self.wait_settled()
        if self._session is None or self.status != "connected":
            raise ServerEnded(f'MCP server "{self.server.name}" is not connected: {self.problem}')

    async def _supervise(self, end: ConnectionEnd, settled: asyncio.Event) -> None:
        """Run the connection, and say why it ended."""
        job = asyncio.create_task(self._run(end, settled))
        seconds = _start_seconds(self._context.environment)
        seconds += 0 if self._show_address is None else SIGN_IN_SECONDS
        try:
            waiting = asyncio.ensure_future(settled.wait())
            await asyncio.wait({job, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not job.done() and not settled.is_set():
                end.end(f"it did not start within {seconds:g} s")
                job.cancel()
            await asyncio.wait({job})
        except asyncio.CancelledError:
            job.cancel()
            await asyncio.wait({job})
            raise
        finally:
            self._session = None
            self.status = "needs-auth" if end.http_status in _NO_LOGIN and can_sign_in(self.server) else "failed"
            self.problem = self._describe_job(job, end)
            end.event.set()
            settled.set()

    async def _run(self, end: ConnectionEnd, settled: asyncio.Event) -> None:
        # In a thread: to import the SDK takes most of a second, and a terminal should take keys meanwhile.
        await asyncio.to_thread(importlib.import_module, "mcp")
        # Without a handler of ours, what the SDK logs of a server would be printed, as the server wrote it.
        for name in ("mcp", "client", "httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)

        async with self._open_auth() as auth:
            await self._run_client(open_transport(self.server, self._context, end, auth), end, settled)

    @asynccontextmanager
    async def _open_auth(self) -> AsyncIterator[httpx2.Auth | None]:
        """Yield what signs requests: with the tokens of an earlier sign-in, or with those of one that follows now."""
        environment = self._context.environment
        if self._show_address is not None and can_sign_in(self.server):
            async with open_sign_in(self.server, environment, self._show_address) as provider:
                yield provider
        else:
            yield kept_provider(self.server, environment)

    async def _run_client(self, transport: Any, end: ConnectionEnd, settled: asyncio.Event) -> None:
        from mcp.client.client import Client

        client = Client(
            transport,
            mode="legacy",
            cache=None,
            client_info=_client_info(),
            list_roots_callback=self._list_roots,
            elicitation_callback=self._answer_question,
            message_handler=self._handle_message,
        )
        async with client:
            self._session = client.session
            self.offers = await self._list_offers(client.session)
            self.status = "connected"
            settled.set()
            await self._follow_changes(client.session, end)

    async def _follow_changes(self, session: ClientSession, end: ConnectionEnd) -> None:
        """List again what the server says has changed, until the connection ends."""
        while not end.event.is_set():
            waits = [asyncio.ensure_future(self._changed.wait()), asyncio.ensure_future(end.event.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self._changed.is_set() and not end.event.is_set():
                self._changed.clear()
                self.offers = await self._list_offers(session)

    async def _list_offers(self, session: ClientSession) -> ServerOffers:
        import mcp_types as types

        can = session.server_capabilities
        tools: list[Json] = []
        prompts: list[Json] = []
        resources: list[Json] = []
        if can is not None and can.tools is not None:
            tools = await _list_all(
                lambda at: session.send_request(
                    types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=at)), types.ListToolsResult
                ),
                "tools",
            )
        if can is not None and can.prompts is not None:
            prompts = await _list_all(
                lambda at: session.send_request(
                    types.ListPromptsRequest(params=types.PaginatedRequestParams(cursor=at)), types.ListPromptsResult
                ),
                "prompts",
            )
        if can is not None and can.resources is not None:
            resources = await _list_all(
                lambda at: session.send_request(
                    types.ListResourcesRequest(params=types.PaginatedRequestParams(cursor=at)),
                    types.ListResourcesResult,
                ),
                "resources",
            )
        described, problems = await asyncio.to_thread(parse_tools, self.server, tools)
        info = session.server_info
        return ServerOffers(
            tools=described,
            prompts=parse_prompts(self.server, prompts),
            resources=parse_resources(resources),
            has_resources=can is not None and can.resources is not None,
            instructions=session.instructions or "",
            version={} if info is None else {"name": info.name, "version": info.version},
            problems=problems,
        )

    async def _list_roots(self, context: Any) -> Any:
        import mcp_types as types

        root: Path = self._context.root
        listed = {"roots": [{"uri": root.as_uri(), "name": root.name or "root"}]}
        return types.ListRootsResult.model_validate(listed)

    async def _answer_question(self, context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        import mcp_types as types

        end = self._end
        answer = await self._questions.answer(_to_json(params))
        if self._questions.is_flooding:
            end.end("it asked the user again and again")
        content: dict[str, Any] | None = None if answer.content is None else {**answer.content}
        return types.ElicitResult(action=answer.action, content=content)

    async def _handle_message(self, message: Any) -> None:
        method = getattr(message, "method", None) or getattr(getattr(message, "root", None), "method", None)
        if isinstance(method, str) and method.endswith("/list_changed"):
            self._changed.set()
        await asyncio.sleep(0)

    def _describe_job(self, job: asyncio.Task[None], end: ConnectionEnd) -> str:
        # Always taken: an exception that nobody takes is printed.
        error = None if job.cancelled() else job.exception()
        if end.reason or error is None:
            return self._describe_end(end)
        if (failed := _find_sign_in_failure(error)) is not None:
            return f"the sign-in failed: {failed}"
        return self._describe_error(describe_error(error), end)

    def _describe_error(self, text: str, end: ConnectionEnd) -> str:
        if end.http_status in _NO_LOGIN and can_sign_in(self.server):
            return (
                f"it needs a login (HTTP status {end.http_status}): type `/mcp login {self.server.name}` in a terminal"
            )
        return _with_errors(text, end)

    def _describe_end(self, end: ConnectionEnd) -> str:
        return self._describe_error(end.reason or "it closed the connection", end)


def _find_sign_in_failure(error: BaseException) -> str | None:
    """Return why a sign-in failed, if that is what an error is about."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    is_ours = isinstance(error, SignInFailed) or type(error).__module__.startswith("mcp.client.auth")
    return describe_error(error) if is_ours else None


def describe_error(error: BaseException) -> str:
    """Return an error of the SDK, or of what is below it, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return clean_line(f"`{error.filename}` was not found")
    if isinstance(error, OSError) and error.strerror:
        return clean_line(f"{error.strerror.lower()}: `{error.filename}`" if error.filename else error.strerror.lower())
    text = clean_line(" ".join(str(error).split())) or type(error).__name__
    if type(error).__name__ == "ValidationError":
        text = f"its answer does not follow the protocol: {text}"
    elif type(error).__module__.partition(".")[0] in ("httpx2", "httpcore2"):
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= _MAX_PROBLEM else f"{text[:_MAX_PROBLEM]}…"


def _is_closed(error: BaseException) -> bool:
    """Return whether an error of the SDK says that the connection is closed."""
    from mcp_types import CONNECTION_CLOSED

    return getattr(getattr(error, "error", None), "code", None) == CONNECTION_CLOSED


def _take_exception(job: asyncio.Future[Any]) -> None:
    """Take the exception of a job that nobody waits for any more: it would be printed."""
    if not job.cancelled():
        job.exception()


def _with_errors(text: str, end: ConnectionEnd) -> str:
    if end.http_status in _NO_LOGIN:
        return f"it needs a login (HTTP status {end.http_status}): give it a token in `headers` of its configuration"
    if end.http_status is not None:
        text = f"{text} (HTTP status {end.http_status})"
    errors = " / ".join(clean_line(line.strip()) for line in end.errors if line.strip())
    return f"{text} (it wrote: {errors[-_MAX_PROBLEM:]})" if errors else text


async def _list_all(ask: Callable[[str | None], Awaitable[Any]], field: str) -> list[Json]:
    """Return all pages of a list, up to a bound: a server may return a next page for ever."""
    found: list[Json] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = _to_json(await ask(cursor))
        found += [item for item in page.get(field) or [] if isinstance(item, dict)]
        following = page.get("nextCursor")
        if not isinstance(following, str) or following == cursor or len(found) >= MAX_LISTED:
            break
        cursor = following
    return found[:MAX_LISTED]


def _to_json(result: Any) -> Json:
    value: Json = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return value


def _client_info() -> Any:
    import mcp_types as types

    from unspool import __version__

    return types.Implementation(name="unspool", version=__version__)


def _start_seconds(environment: Mapping[str, str]) -> float:
    return _milliseconds(environment, "MCP_TIMEOUT", _START_MS) / 1000


def _milliseconds(environment: Mapping[str, str], name: str, usual: int) -> int:
    value = environment.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0 else usual
