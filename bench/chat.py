"""Chat: CPU for a long answer, a start without a terminal, a long session; tokens that tools of MCP servers cost.

| what                                  | against                                                                  |
|---------------------------------------|--------------------------------------------------------------------------|
| 20,000 deltas through a turn          | the same answer read from the same server, cut into events and decoded   |
| `unspool chat -p` on a script         | `python -c pass`                                                         |
| a session of 10,000 turns, opened     | its file read and decoded into records, and nothing done with them       |
| tokens of the first request, 50 tools | those that the 50 definitions take if all of them are sent               |

The server is a process of its own. Both sides of a comparison ask it, or read the file, in processes of their own; they
have asked once before the clock starts, since a first request loads the rest of the HTTP library.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import child, corpus, startup
from bench.child import Measured, Task
from bench.table import Row

ROUNDS = 7
DELTAS = 20_000
TURNS = 10_000
_MANY_TOOLS = Path(__file__).parents[1] / "tests" / "client" / "mcp" / "many_tools_server.py"
_CHUNK = 12
_MODEL = "claude-opus-4-5"
_ASKED: dict[str, Any] = {"model": _MODEL, "max_tokens": 32_000, "messages": [{"role": "user", "content": "Go."}]}


def rows() -> list[Row]:
    """Measure."""
    corpus.ready()
    return [*_streaming(), *_starting(), *_resuming(), *_offering()]


def _streaming() -> Iterator[Row]:
    words = ("word " * (DELTAS * _CHUNK // 5 + 1))[: DELTAS * _CHUNK]
    with _serving({"default": {"content": words, "chunk": _CHUNK}}) as url:
        sides = _measured("chat, a long answer", {bare_stream: [], turn: []}, url)
    bare, ours = (min(one.cpu for one in side) for side in sides.values())
    counts = [side[0].counts["deltas"] for side in sides.values()]
    if counts != [DELTAS, DELTAS]:
        raise SystemExit(f"the sides saw different answers: {counts}")
    against = "read, cut into events, msgspec.json.decode"
    yield Row(name="chat: 20,000 deltas", unit="s", ours=ours, reference=bare, target=1.5, against=against)


def _starting() -> Iterator[Row]:
    with _folder() as folder:
        script = folder / "hello.json"
        script.write_text('["Hello."]')
        config = ["--config-dir", str(folder / "config")]
        command = [sys.executable, "-m", "unspool", "chat", "-p", "Hi.", "--model", f"script:{script}", *config]
        row = startup.compared("unspool chat -p, scripted", command, 25.0)
    if row is not None:
        yield row


def _resuming() -> Iterator[Row]:
    with _folder() as folder:
        path = _long_session(folder)
        sides = _measured("chat, a long session", {decoded: [], resumed: []}, str(path))
        size = path.stat().st_size / 1e6
    bare, ours = (min(one.cpu for one in side) for side in sides.values())
    name = f"chat: resume {TURNS:,} turns, {size:.0f} MB"
    yield Row(name=name, unit="s", ours=ours, reference=bare, target=4, against="the file decoded")


def _offering() -> Iterator[Row]:
    """Compare the first request of a chat with fifty tools of an MCP server with one that has none."""
    with _folder() as folder:
        script = folder / "hello.json"
        script.write_text('["Hello."]')
        servers = {"mcpServers": {"many": {"command": sys.executable, "args": [str(_MANY_TOOLS)]}}}
        given = ["--mcp-config", msgspec.json.encode(servers).decode()]
        alone = _first_request(folder, script, [], "")
        ours, whole = (_first_request(folder, script, given, mode) - alone for mode in ("", "false"))
    against = "all definitions sent"
    yield Row(
        name="chat: 50 MCP tools, first request", unit="tokens", ours=ours, reference=whole, target=2_000,
        of_ratio=False, against=against,
    )  # fmt: skip


def _first_request(folder: Path, script: Path, more: list[str], search: str) -> int:
    """Return how many input tokens the first request of a chat has; `search`: whether tools are deferred."""
    flags = ["--model", f"script:{script}", "--config-dir", str(folder / "config"), "--output-format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "unspool", "chat", "-p", "Hi.", *flags, *more],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "ENABLE_TOOL_SEARCH": search},
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return int(msgspec.json.decode(done.stdout)["usage"]["input_tokens"])


def _measured(name: str, sides: dict[Task, list[Measured]], argument: str) -> dict[Task, list[Measured]]:
    for number in range(ROUNDS):
        for task, measured in sides.items():
            corpus.say(f"{name}: round {number + 1} of {ROUNDS}, {task.__name__}")
            measured.append(child.run(task, argument))
    corpus.say("")
    return sides


def bare_stream(url: str) -> Callable[[], dict[str, int]]:
    """Read an answer, cut it into events and decode each."""
    import httpx2

    headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
    data = msgspec.json.encode({**_ASKED, "stream": True})

    async def read() -> dict[str, int]:
        deltas, rest = 0, b""
        async with (
            httpx2.AsyncClient(trust_env=False) as client,
            client.stream("POST", f"{url}/v1/messages", content=data, headers=headers) as response,
        ):
            async for piece in response.aiter_bytes():
                *frames, rest = (rest + piece).split(b"\n\n")
                for frame in frames:
                    event = msgspec.json.decode(frame.partition(b"\ndata: ")[2])
                    deltas += event["type"] == "content_block_delta"
        return {"deltas": deltas}

    asyncio.run(read())
    return lambda: asyncio.run(read())


def turn(url: str) -> Callable[[], dict[str, int]]:
    """Take a turn of a new conversation, and see every event of it."""
    from unspool.api.connection import Connection
    from unspool.api.endpoint import Endpoint
    from unspool.client.config import SessionStart
    from unspool.client.events import ChatEvent, TextGrown, TurnEnded

    open_chat = _opening()

    async def talk() -> dict[str, int]:
        with _folder() as folder:
            async with Connection(Endpoint(base_url=url, key="any")) as connection:
                chat = await open_chat(folder, connection, SessionStart())
                found: list[ChatEvent] = []
                await chat.turn("Go.", found.append)
                await chat.close()
        assert type(found[-1]) is TurnEnded
        assert found[-1].ending == "end_turn"
        return {"deltas": sum(type(event) is TextGrown for event in found)}

    asyncio.run(talk())
    return lambda: asyncio.run(talk())


def decoded(path: str) -> Callable[[], dict[str, int]]:
    """Read a session's file and decode its lines."""
    from unspool.edit.session_text import parse_session_text

    return lambda: {"entries": len(parse_session_text("", Path(path).read_bytes()).entries)}


def resumed(path: str) -> Callable[[], dict[str, int]]:
    """Open a session to go on with it."""
    from unspool.api.scripted.model import ScriptedModel
    from unspool.api.scripted.script import Script
    from unspool.client.config import SessionStart

    folder, open_chat = Path(path).parents[3], _opening()

    def work() -> dict[str, int]:
        chat = asyncio.run(open_chat(folder, ScriptedModel(Script()), SessionStart(resume=Path(path))))
        return {"messages": len(chat.transcript.conversation.messages)}

    return work


def _opening() -> Callable[[Path, Any, Any], Coroutine[Any, Any, Any]]:
    """Return what opens a conversation as the command does, but for tools and rules."""
    from unspool.client.chat import Chat
    from unspool.client.config import ChatRuntime, ChatSettings
    from unspool.client.loop.agent import Services

    nothing: Any = None

    async def opened(folder: Path, model: Any, start: Any) -> Any:
        fittings = Services(
            tools=(), permissions=nothing, run_tool=nothing, system_prompt=lambda context, model, agent_prompt: []
        )
        world = ChatRuntime(model, folder / "config", folder, {})
        return await Chat.open(start, ChatSettings(model=_MODEL, thinking=0), world, None, fittings)

    return opened


def _long_session(folder: Path) -> Path:
    """Write a session of many turns, with a call in each."""
    from unspool.testing.build import assistant, session, text, tool_result, tool_use, user

    steps = []
    for number in range(TURNS):
        steps += [
            user(f"Look at number {number}."),
            assistant(text("I look."), tool_use("Read", id=f"toolu_{number:024}", file_path=f"/src/{number}.py")),
            tool_result(f"{number}\tdef number():\n" * 20),
            assistant(text(f"It is {number}. " * 8)),
        ]
    return session(*steps).save(folder / "config")


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="unspool-bench-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _serving(script: dict[str, Any]) -> Iterator[str]:
    """Serve a script in a process of its own."""
    with _folder() as folder:
        file = folder / "script.json"
        file.write_bytes(msgspec.json.encode(script))
        command = [sys.executable, "-m", "unspool", "testing", "serve", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            try:
                yield server.stdout.readline().strip()
            finally:
                server.terminate()
