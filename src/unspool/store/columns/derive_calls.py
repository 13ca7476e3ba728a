"""Tool calls of a file as rows, a line at a time: blocks in; calls, files touched and what starts agents out.

Rules
  1. The first call and the first result of an id count, as in `graph/tool_calls.py`.
  2. A call's row is written when its result comes, at the end of the file if none does: results are bulky, and none is
     held unless it comes before its call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.format.base import UNDECODABLE
from unspool.format.blocks import Image, ToolResult, ToolUse
from unspool.format.projections import outcome, structured
from unspool.format.tools import parse
from unspool.format.tools.agents import AgentInput
from unspool.format.tools.parse import parse_input
from unspool.graph.tool_calls import between
from unspool.graph.turns import text_of
from unspool.store.columns.values import micros

Out: TypeAlias = Callable[[str, tuple[object, ...]], None]
"""Takes a table and the values of a row."""

STARTERS = frozenset({"Task", "Agent"})
_ACTIONS = {
    "Read": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
}


class Where(NamedTuple):
    """The line that a block stands on."""

    session_id: str | None
    agent_id: str | None
    family: str | None
    message_id: str
    uuid: str | None
    offset: int
    timestamp: str | None


class _Use(NamedTuple):
    where: Where
    block: ToolUse
    input: str | None


class _Given(NamedTuple):
    where: Where
    error: bool
    text: str
    images: int
    structured: str | None
    raw: msgspec.Raw


class Calls:
    """The calls of one file."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._open: dict[str, _Use] = {}
        self._early: dict[str, _Given] = {}
        self._done: set[str] = set()
        self.made: list[tuple[int, bool]] = []
        """Where each call stands, and whether it failed."""

    def use(self, block: ToolUse, where: Where, input: str | None) -> bool:
        """Take a call; tell whether it is the first with its id."""
        id = block.id
        if id in self._open or id in self._done:
            return False
        use = _Use(where, block, input)
        if id in self._early:
            self._finish(use, self._early.pop(id))
        else:
            self._open[id] = use
        return True

    def result(self, block: ToolResult, where: Where, raw: msgspec.Raw) -> tuple[str, bool]:
        """Take a result; return its text, and whether that is in a call's row."""
        blocks = block.blocks
        text = text_of(blocks)
        id = block.tool_use_id
        if id in self._done or id in self._early:
            return text, False
        images = sum(isinstance(inner, Image) for inner in blocks)
        given = _Given(where, bool(block.is_error), text, images, structured(raw), raw)
        use = self._open.pop(id, None)
        if use is None:
            self._early[id] = given._replace(raw=msgspec.Raw(bytes(raw)))
            return text, False
        self._finish(use, given)
        return text, True

    def finish(self) -> None:
        """Write the calls that no result came for."""
        for use in list(self._open.values()):
            self._finish(use, None)

    def _finish(self, use: _Use, given: _Given | None) -> None:
        where, block = use.where, use.block
        self._done.add(block.id)
        self.made.append((where.offset, bool(given and given.error)))
        ended = given.where.timestamp if given else None
        passed = between(where.timestamp, ended)
        self._out(
            "tool_calls",
            (
                where.session_id,
                where.agent_id,
                block.id,
                block.name,
                use.input,
                given.text if given else None,
                given.error if given else None,
                given.structured if given else None,
                micros(where.timestamp),
                micros(ended),
                None if passed is None else round(passed.total_seconds() * 1000),
                where.message_id,
                where.uuid,
                given.where.uuid if given else None,
                where.offset,
                given.where.offset if given else None,
                given.images if given else None,
                _overflow(given) if given else None,
            ),
        )
        if block.name in _ACTIONS:
            self._file(use, given)
        if block.name in STARTERS:
            self._starter(use, given)

    def _file(self, use: _Use, given: _Given | None) -> None:
        where, block = use.where, use.block
        fields: dict[str, Any] = block.input if isinstance(block.input, dict) else {}
        path = fields.get("file_path") or fields.get("notebook_path")
        if not isinstance(path, str):
            return
        done = given is not None and not given.error
        added, removed = _lines_changed(given) if done and given and block.name != "Read" else (None, None)
        about = (where.session_id, where.agent_id, block.id, block.name, path, _ACTIONS[block.name])
        self._out("files_touched", (*about, micros(where.timestamp), done, added, removed))

    def _starter(self, use: _Use, given: _Given | None) -> None:
        where, block = use.where, use.block
        asked = parse_input(block.name, block.input)
        told = parse.parse_result(block.name, given.raw) if given else None
        agents = (getattr(told, name, None) for name in ("agent_id", "teammate_id"))
        agent = next((id for id in agents if isinstance(id, str)), None)
        about = (asked.subagent_type, asked.description, (asked.prompt or "").strip()) if isinstance(
            asked, AgentInput
        ) else (None, None, "")  # fmt: skip
        self._out("starters", (where.family, where.offset, block.id, agent, given is not None, *about))


def _overflow(given: _Given) -> str | None:
    """Return the path that the program wrote long output to."""
    if given.structured is None or '"persistedOutputPath"' not in given.structured:
        return None
    try:
        value = msgspec.json.decode(given.structured)
    except UNDECODABLE:
        return None
    path = value.get("persistedOutputPath") if isinstance(value, dict) else None
    return path if isinstance(path, str) else None


def _lines_changed(given: _Given) -> tuple[int | None, int | None]:
    """Return how many lines a change added and removed, where its result tells."""
    if given.structured is None or not given.structured.startswith("{"):
        return None, None
    try:
        return outcome(given.structured).lines() or (None, None)
    except UNDECODABLE:
        return None, None
