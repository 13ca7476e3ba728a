"""Plans a compression: older turns become a summary, as Claude Code's own compaction does it.

| the session's version | where the boundary is inserted     | the turns that stay                                |
|-----------------------|------------------------------------|----------------------------------------------------|
| 2.1.170 and later     | at the end of the file             | are preserved by it, as Claude Code itself does    |
| before                | before the first turn that stays   | hang on the summary: older readers preserve nothing |

The summary is written without a model: prompts verbatim, files, last answers, calls, open todos. One that a model wrote
gets the prompts too: what a person asked for is never left to a summary.

Rules
  1. Nothing is deleted: the old turns are before the boundary, out of the context. Their usage stays recorded.
  2. No `summary` line: that is a title, and no version of Claude Code takes it for a compaction.
  3. New lines are written like the last one of the session: same version, same folder, same git branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unspool.edit.planning.draft import EditDraft, repeat_metadata
from unspool.edit.planning.plan import EditIds
from unspool.edit.planning.session_view import SessionView, TurnGroup, has_succeeded
from unspool.edit.planning.shrink import describe_call, list_open_todos, named_file
from unspool.errors import Refused
from unspool.format import (
    Assistant,
    Attachment,
    Entry,
    System,
    Text,
    User,
    count_prompt_tokens,
    decode_plain,
    encode_json,
    format_timestamp,
    parse_timestamp,
    parse_version,
)
from unspool.format.tools import EDIT_TOOLS
from unspool.graph import ToolCall, Turn, is_message

if TYPE_CHECKING:
    from unspool.api import ApiResponse

SUMMARY_BEGINNING = "This session is being continued from a previous conversation that ran out of context."
_FIRST_PRESERVING_VERSION = (2, 1, 170)
_ENVELOPE = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")
_LINKED = User | Assistant | Attachment | System
"""What Claude Code reads as lines of a conversation: one of another type among those preserved would undo them all."""
_MAX_ANSWER = 700
_MAX_FILES = 100
_SUMMARY = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)


def split_turns(view: SessionView, keep_last: int) -> tuple[list[TurnGroup], list[TurnGroup]]:
    """Return the groups of the context that become a summary, and those that stay."""
    groups = view.thread_groups
    old = groups[: max(len(groups) - max(keep_last, 0), 0)]
    if not old:
        count = len(groups)
        raise Refused(
            f"nothing to compress: the context has {count} turn{'' if count == 1 else 's'}, --keep-last is {keep_last}",
            hint="use a smaller `--keep-last`",
        )
    return old, groups[len(old) :]


def plan_compression(
    draft: EditDraft, view: SessionView, old: list[TurnGroup], kept: list[TurnGroup], *, summary: str, ids: EditIds
) -> None:
    """Record where boundary and summary are inserted, and which lines hang on them."""
    last = next(entry for entry in reversed(view.lines) if entry.record.uuid and is_message(entry))
    lines = _lines_from(view, kept[0].start) if kept else []
    preserved = [entry.record.uuid for entry in lines if entry.record.uuid and isinstance(entry.record, _LINKED)]
    # Versions before 2.1.170 do not read what a boundary preserves.
    at_end = not lines or parse_version(last.record.version) >= _FIRST_PRESERVING_VERSION
    metadata: dict[str, Any] = {"trigger": "manual", "preTokens": _last_request_tokens(view)}
    if at_end and lines:
        # Readers take `uuids` alone: a line that is only in `allUuids`, such as an attachment, leaves the context.
        metadata["preservedSegment"] = {"headUuid": preserved[0], "anchorUuid": ids.summary, "tailUuid": preserved[-1]}
        metadata["preservedMessages"] = {"anchorUuid": ids.summary, "uuids": preserved, "allUuids": preserved}
    before = last if at_end else _line_before(view, lines[0])
    time = ids.now if at_end else (before.record.timestamp or ids.now)
    value = next((value for _, value in decode_plain(last.raw) if isinstance(value, dict)), {})
    envelope = {name: value[name] for name in _ENVELOPE if name in value}
    boundary = {
        "parentUuid": None,
        "logicalParentUuid": before.record.uuid,
        **envelope,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "timestamp": time,
        "uuid": ids.boundary,
        "level": "info",
        "compactMetadata": metadata,
    }
    message = {
        "parentUuid": ids.boundary,
        **envelope,
        "type": "user",
        "message": {"role": "user", "content": summary},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": ids.summary,
        "timestamp": _next_millisecond(time),
    }
    end = len(draft.text.data)
    draft.insert_lines(end if at_end else lines[0].offset, (_encode_line(boundary), _encode_line(message)))
    if at_end:
        draft.new_leaf = ids.summary
        # Lists of sessions read only the end of a file, which is now after the boundary.
        draft.insert_lines(end, repeat_metadata(view.text, ids.summary))
    else:
        staying = {entry.record.uuid for entry in lines}
        for entry in lines:
            if entry.record.parent_uuid not in staying:
                draft.change_value(entry, ("parentUuid",), ids.summary)
    draft.kept_in_context = (*preserved,)
    _record_turns(draft, view, old)


def summarise_without_model(view: SessionView, groups: Sequence[TurnGroup], *, calls: bool) -> str:
    """Return a summary of some turns, made of their own text."""
    old = [call for call in view.calls if _is_within(call.use_entry, groups)]
    parts = [SUMMARY_BEGINNING, _earlier_summary(view), "What happened, turn by turn:"]
    for turn in _turns_within(view, groups):
        own = [call for call in old if _is_of_turn(call.use_entry, turn)]
        parts.append(_format_turn(turn, own if calls else [], view.turn_number(turn.prompt)))
    changed, read = _list_files(old)
    parts += _format_list("Files changed", changed) + _format_list("Files read", read) + _format_todos(old)
    return "\n\n".join(part for part in parts if part)


def read_summary(response: ApiResponse) -> tuple[str, str | None]:
    """Return the summary in a model's response, and why it is none: one that broke off, a refusal, or nothing."""
    found = _SUMMARY.search(response.text)
    words = (found[1] if found else response.text).strip()
    if response.broken or not words:
        return words, response.broken or "the response is empty"
    return words, "the model declined" if response.stop_reason == "refusal" else None


def complete_model_summary(view: SessionView, groups: Sequence[TurnGroup], words: str, *, calls: bool) -> str:
    """Return a model's summary of some turns, followed by the prompts, word for word."""
    parts = [SUMMARY_BEGINNING, "The conversation is summarized below:", words.strip()]
    parts.append("What the user asked for, word for word:")
    parts += [f"{view.turn_number(turn.prompt)}. {turn.text.strip()}" for turn in _turns_within(view, groups)]
    if calls:
        old = [call for call in view.calls if _is_within(call.use_entry, groups)]
        parts += _format_list("Tools that were called", [_format_call(call) for call in old])
    return "\n\n".join(part for part in parts if part)


def _lines_from(view: SessionView, start: int) -> list[Entry]:
    """Return the lines of the context from a prompt on."""
    at = next((index for index, entry in enumerate(view.lines) if entry.offset == start), len(view.lines))
    return view.lines[at:]


def _record_turns(draft: EditDraft, view: SessionView, old: list[TurnGroup]) -> None:
    for group in old:
        prompt = next(turn.prompt for turn in view.turns if turn.prompt.offset == group.start)
        draft.report(prompt, None, "turn", "it is in the summary")


def _next_millisecond(time: str) -> str:
    """Return the moment after: of two lines with one time, old versions may continue from the first."""
    parsed = parse_timestamp(time)
    return format_timestamp(parsed + timedelta(milliseconds=1)) if parsed else time


def _encode_line(value: dict[str, Any]) -> bytes:
    return encode_json(value) + b"\n"


def _line_before(view: SessionView, first: Entry) -> Entry:
    earlier = [entry for entry in view.lines if entry.offset < first.offset and entry.record.uuid]
    return earlier[-1] if earlier else first


def _last_request_tokens(view: SessionView) -> int:
    """Return how many tokens the last request had, by its recorded usage."""
    for entry in reversed(view.lines):
        record = entry.record
        if isinstance(record, Assistant) and record.message.usage is not None:
            return count_prompt_tokens(record.message.usage)
    return 0


def _turns_within(view: SessionView, groups: Sequence[TurnGroup]) -> list[Turn]:
    return [turn for turn in view.turns if _is_within(turn.prompt, groups)]


def _is_within(entry: Entry, groups: Iterable[TurnGroup]) -> bool:
    return any(group.start <= entry.offset < group.end for group in groups)


def _is_of_turn(entry: Entry, turn: Turn) -> bool:
    last = turn.entries[-1] if turn.entries else turn.prompt
    return turn.prompt.offset <= entry.offset <= last.offset


def _earlier_summary(view: SessionView) -> str:
    """Return the summary that the context begins with, if it was compacted before."""
    for entry in view.lines:
        record = entry.record
        if isinstance(record, User) and record.is_compact_summary:
            texts = [block.text for block in record.message.blocks if isinstance(block, Text)]
            return "\n".join(["Before that:\n", *texts])
    return ""


def _format_turn(turn: Turn, calls: Sequence[ToolCall], number: int) -> str:
    parts = [f"## Turn {number}", f"The user:\n{turn.text.strip()}"]
    if calls:
        parts.append("Calls:\n" + "\n".join(f"- {_format_call(call)}" for call in calls))
    if answer := _last_answer(turn):
        parts.append(f"The assistant, in the end:\n{answer}")
    return "\n\n".join(parts)


def _last_answer(turn: Turn) -> str:
    """Return the last text of a turn, cut where it becomes long."""
    for entry in reversed(turn.entries):
        record = entry.record
        if isinstance(record, Assistant) and not record.is_sidechain:
            words = "\n".join(block.text for block in record.message.blocks if isinstance(block, Text)).strip()
            if words:
                return words if len(words) <= _MAX_ANSWER else f"{words[:_MAX_ANSWER].rstrip()} …"
    return ""


def _format_call(call: ToolCall) -> str:
    return f"{describe_call(call.use)}{' (failed)' if call.failed else ''}"


def _list_files(calls: Iterable[ToolCall]) -> tuple[list[str], list[str]]:
    """Return the files that were changed, and those that were only read."""
    changed: dict[str, None] = {}
    read: dict[str, None] = {}
    for call in calls:
        if has_succeeded(call) and (path := named_file(call.use)) is not None:
            (changed if call.use.name in EDIT_TOOLS else read)[path] = None
    return list(changed), [path for path in read if path not in changed]


def _format_list(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = [f"- … and {len(items) - _MAX_FILES} more"] if len(items) > _MAX_FILES else []
    return [f"{title}:\n" + "\n".join([*(f"- {item}" for item in items[:_MAX_FILES]), *more])]


def _format_todos(calls: Sequence[ToolCall]) -> list[str]:
    """Return what was still to be done by the last todo list, or by the tasks."""
    todos = list_open_todos([call.use for call in calls])
    if todos is not None:
        return _format_list("Still to be done", todos)
    created = [call.arguments for call in calls if call.use.name == "TaskCreate" and isinstance(call.use.input, dict)]
    if not created:
        return []
    done = sum(call.use.name == "TaskUpdate" and call.arguments.get("status") == "completed" for call in calls)
    subjects = [str(given.get("subject") or given.get("description") or "") for given in created]
    return _format_list("Tasks", [*filter(None, subjects), f"{done} of {len(created)} completed"])
