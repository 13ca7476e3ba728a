"""The scripted API as the tests of the real program use it: cues and what to say to each.

The real program keeps the rules of the API. So a request that breaks one fails the test: either the program is not what
we think, or `unspool.api.rules.validate` is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from unspool.testing.api import scripted

Json: TypeAlias = dict[str, Any]


class Reply(NamedTuple):
    """What the API says: blocks, or an error if the status is one."""

    blocks: tuple[Json, ...] = ()
    status: int = 200
    input_tokens: int = 100
    gate: Path | None = None
    """Nothing is said before this file is there."""


Script: TypeAlias = Mapping[str, Sequence[Reply | Json | str]]
"""By cue, what the API says: as a `Reply`, or as scripts say it."""


def says(text: str) -> Json:
    return {"type": "text", "text": text}


def thinks(text: str) -> Json:
    return {"type": "thinking", "thinking": text}


def calls(tool: str, **given: Any) -> Json:
    return {"type": "tool_use", "name": tool, "input": given}


class Server:
    """The API while the `with` lasts. Where no cue is, the answer is `OK.`."""

    def __init__(self, script: Script) -> None:
        self._script = {"cues": {cue: [_step(reply) for reply in replies] for cue, replies in script.items()}}
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        return self._api.url

    @property
    def requests(self) -> list[Json]:
        """The bodies of all requests so far."""
        return self._api.bodies

    def __enter__(self) -> Server:
        self._api = self._stack.enter_context(scripted({**self._script, "default": "OK."}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        assert kind or not self._api.failures, "\n".join(self._api.failures)


def _step(reply: Reply | Json | str) -> Json | str:
    if not isinstance(reply, Reply):
        return reply
    if reply.status != 200:
        return {"error": {"status": reply.status}}
    step: Json = {"content": list(reply.blocks), "usage": {"input_tokens": reply.input_tokens, "output_tokens": 20}}
    return step if reply.gate is None else {**step, "until": str(reply.gate)}
