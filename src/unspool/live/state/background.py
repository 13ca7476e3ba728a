"""Tells which commands a record starts in the background, and which background tasks it reports as ended.

A command that runs in the background has its result at once, and the turn ends while it runs. Its end is told by a
notification (a user line, a queued command, or until 2.1.29 only a line of the queue), or by the result of a call that
stopped it or asked for its output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.format import AnyRecord, Attachment, QueuedCommand, QueueOperation, Text, ToolResult, User, as_blocks
from unspool.live.state.model import PendingCall

MAX_COMMANDS = 64
"""Background commands that are kept: what a file says of them is not limited."""
_NOTIFICATION = re.compile(r"<(?:task|shell)-id>\s*([^<\s]{1,100})\s*</(?:task|shell)-id>")
_STILL_RUNNING = re.compile(r"<status>\s*running\s*</status>")
_RESULT_KEYS = (b'"backgroundTaskId"', b'"task_id"', b'"shell_id"', b'"shellId"')


def commands_after(
    commands: tuple[PendingCall, ...], record: AnyRecord, open_calls: tuple[PendingCall, ...]
) -> tuple[PendingCall, ...]:
    """Return the commands that run in the background after a record; `open_calls` are those before it."""
    result = _decode_result(record) if isinstance(record, User) else None
    ended = {*_notified_ids(record), *_ended_ids(result)} if commands else set()
    if ended:
        commands = tuple(command for command in commands if command.id not in ended)
    if isinstance(result, dict) and isinstance(id := result.get("backgroundTaskId"), str) and id:
        call = _find_call(record, open_calls)
        started = PendingCall(id, call.name, call.target, None, call.opened_at)
        commands = (*(command for command in commands if command.id != id), started)[-MAX_COMMANDS:]
    return commands


def _find_call(record: AnyRecord, open_calls: tuple[PendingCall, ...]) -> PendingCall:
    """Return the call that a result belongs to."""
    blocks = record.message.blocks if isinstance(record, User) else ()
    ids = {block.tool_use_id for block in blocks if isinstance(block, ToolResult)}
    return next((call for call in open_calls if call.id in ids), PendingCall("", "Bash"))


def _decode_result(record: User) -> Any:
    """Return what the line has of a result beside its text, if that may be about a background task."""
    raw = bytes(record.tool_use_result)
    if not any(key in raw for key in _RESULT_KEYS):
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _ended_ids(result: Any) -> Iterator[str]:
    """Yield the task that a result shows to have ended."""
    match result:
        # TaskStop, and KillShell before it; if nothing was stopped the result is a string.
        case {"task_id": str(id), "message": str()} | {"shell_id": str(id), "message": str()}:
            yield id
        # TaskOutput, and BashOutput before it.
        case {"task": {"task_id": str(id), "status": status}} | {"shellId": str(id), "status": status}:
            if status != "running":
                yield id
        case _:
            pass


def _notified_ids(record: AnyRecord) -> Iterator[str]:
    """Yield the tasks that a notification reports as ended."""
    for text in _texts(record):
        if "-notification>" in text and not _STILL_RUNNING.search(text):
            yield from _NOTIFICATION.findall(text)


def _texts(record: AnyRecord) -> Iterator[str]:
    match record:
        case User(message=message):
            yield from (block.text for block in message.blocks if isinstance(block, Text))
        case QueueOperation(content=content):
            yield from (block.text for block in as_blocks(content or "") if isinstance(block, Text))
        case Attachment(attachment=QueuedCommand(prompt=prompt)):
            yield from (block.text for block in as_blocks(prompt) if isinstance(block, Text))
        case _:
            pass
