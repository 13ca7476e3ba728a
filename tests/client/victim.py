"""A process that talks to a scripted API and is killed: `python -m tests.client.victim URL < list of deaths`.

For each death it makes one child: a conversation in a folder of its own that kills itself after so many lines were
written, or so long after so many events of the stream have come that every finished block must be on disk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.client.talk import MODEL, fitted, place
from unspool.api.accumulator import ResponseAccumulator
from unspool.api.connection import Connection, TokenCount
from unspool.api.endpoint import Endpoint
from unspool.api.events import BlockFinished
from unspool.client.chat import Chat
from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.loop.model_calls import MAX_HOLD_SECONDS
from unspool.client.tools.task import TaskTool

PROMPT = "Go."
AT_ONCE = 8


class Death(msgspec.Struct, frozen=True):
    """Where a conversation dies."""

    folder: str
    kind: Literal["line", "event", "never"]
    after: int = 0


class Counted:
    """A model whose events are counted."""

    def __init__(self, inner: Connection, death: Death) -> None:
        self._inner, self._death, self._seen = inner, death, 0

    async def events(self, body: Any, betas: Iterable[str] = ()) -> AsyncGenerator[Any, None]:
        assembly = ResponseAccumulator()
        async for event in self._inner.events(body, betas):
            if self._death.kind == "event" and self._seen == self._death.after:
                await asyncio.Event().wait()  # nothing more comes
            self._seen += 1
            self._hear(assembly, event)
            if self._death.kind == "event" and self._seen == self._death.after:
                asyncio.get_running_loop().call_later(MAX_HOLD_SECONDS * 2, die_soon, 20)
            yield event

    def _hear(self, assembly: ResponseAccumulator, event: Any) -> None:
        """Note every block that is finished: it must be in the session then."""
        assembly.add(event)
        if isinstance(event, BlockFinished):
            with (Path(self._death.folder) / "heard").open("ab") as file:
                file.write(msgspec.json.encode(assembly.block(event.index)) + b"\n")

    async def count(self, body: Any, betas: Iterable[str] = ()) -> TokenCount:
        return await self._inner.count(body, betas)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_soon(turns: int) -> None:
    """Die when all that is due has been done, however late this machine is."""
    if not turns:
        die()
    asyncio.get_running_loop().call_soon(die_soon, turns - 1)


def count_lines(death: Death) -> None:
    """Die when the next line after so many is about to be written."""
    seen = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event != "open" or not str(arguments[0]).endswith(".jsonl"):
            return
        if int(arguments[2]) & os.O_APPEND and Path(str(arguments[0])).parent.exists():
            if seen == death.after:
                die()
            seen += 1

    sys.addaudithook(watch)


async def talk(url: str, death: Death) -> None:
    there = place(Path(death.folder))
    async with Connection(Endpoint(base_url=url, key="none")) as api:
        world = ChatRuntime(Counted(api, death), there.config, there.work, {})
        chat = await Chat.open(SessionStart(), ChatSettings(model=MODEL), world, None, fitted([TaskTool()]))
        await chat.turn(PROMPT, lambda event: None)
        await chat.close()


def main(url: str) -> None:
    deaths = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Death])
    children: list[int] = []
    for death in deaths:
        if len(children) == AT_ONCE:
            os.waitpid(children.pop(0), 0)
        pid = os.fork()
        if pid == 0:
            if death.kind == "line":
                count_lines(death)
            asyncio.run(talk(url, death))
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
