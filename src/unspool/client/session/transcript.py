"""Records a conversation: on disk line by line, and in memory as the messages of the next request.

Rules
  1. First the line on disk, then the memory: what could not be written was not said.
  2. Each response and each tool call has an id that no other has, whatever a server sends.
  3. The usage of a response stands on its last line. If it came too late for that, on one more line without content.

Rules for the messages in memory; `graph/context/build.py` makes the same of the lines on disk
  4. Consecutive messages of the user are one message; two texts that meet have a line end between them.
  5. The blocks of a response are one message, tool calls last. A response of nothing but thinking is not sent.
  6. Nothing that was added is changed later, so that what the API has cached stays valid.
  7. A system message at the end stays at the end: a response follows it, not the user's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from unspool.client.session import wordings
from unspool.client.session.writer import SessionWriter
from unspool.client.tool_result import Json, ToolOutcome
from unspool.format import FileBackup
from unspool.format import written_lines as lines

if TYPE_CHECKING:
    from unspool.client.session.resume import OpenCall

THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})


class MessageList:
    """The messages of the next request."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: list[Json] = [*messages]
        self._response_id: str | None = None
        """The response whose blocks are being added."""

    def add_user(self, content: str | list[Json]) -> None:
        """Add content in the user's name."""
        self._response_id = None
        blocks = [block for block in to_blocks(content) if is_sendable(block)]
        if not blocks:
            return
        messages = self.messages
        system = [messages.pop()] if messages and messages[-1]["role"] == "system" else []
        last = messages[-1] if messages else None
        if last is None or last["role"] != "user":
            messages += [{"role": "user", "content": blocks}, *system]
            return
        earlier = [*last["content"]]
        # As `graph/context/build.py` joins them: a resumed session must send the same bytes, or the cache misses.
        if earlier[-1].get("type") == "text" and blocks[0].get("type") == "text":
            earlier[-1] = {**earlier[-1], "text": earlier[-1]["text"] + "\n"}
        messages[-1:] = [{"role": "user", "content": [*earlier, *blocks]}, *system]

    def add_block(self, response_id: str, block: Json) -> None:
        """Add a block of a response."""
        if not is_sendable(block):
            return
        if self._response_id != response_id:
            self._response_id = response_id
            self.messages.append({"role": "assistant", "content": [block]})
            return
        content: list[Json] = self.messages[-1]["content"]
        at = len(content)
        if block.get("type") != "tool_use":
            while at and content[at - 1].get("type") == "tool_use":
                at -= 1
        content.insert(at, block)

    def end_response(self) -> None:
        """End a response; drop it if it holds nothing but thinking."""
        if self._response_id is not None and all(
            block["type"] in THINKING_TYPES for block in self.messages[-1]["content"]
        ):
            self.messages.pop()
        self._response_id = None

    def replace(self, messages: Iterable[Json]) -> None:
        """Continue with other messages: after a compaction, a rewind, a change of the model."""
        self.messages = [*messages]
        self._response_id = None


def drop_thinking(messages: Iterable[Json]) -> list[Json]:
    """Return messages without thinking blocks, and without the messages that had nothing else."""
    kept = []
    for message in messages:
        content = [block for block in message["content"] if block.get("type") not in THINKING_TYPES]
        if content:
            kept.append({**message, "content": content})
    return kept


def to_blocks(content: str | list[Json]) -> list[Json]:
    """Return content as a list of blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def text_of(content: str | list[Json]) -> str:
    """Return the texts in a content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def is_sendable(block: Json) -> bool:
    """Tell whether the API takes a block: it refuses a blank text."""
    return block.get("type") != "text" or bool(str(block.get("text", "")).strip())


class Transcript:
    """The conversation of one agent: of a session, or of a subagent."""

    def __init__(
        self, writer: SessionWriter, conversation: MessageList, new_id: Callable[[], str], taken_ids: Iterable[str] = ()
    ) -> None:
        self.writer = writer
        self.conversation = conversation
        self.new_id = new_id
        self.prompt_uuid: str | None = None
        """The line of the last prompt."""
        self._taken_ids: set[str] = {*taken_ids}
        """The ids of responses and tool calls so far."""
        self._call_lines: dict[str, str] = {}
        """The lines of tool calls, by call id."""
        self._open_calls: list[str] = []
        """Tool calls without a result."""
        self._extras: list[tuple[list[Json], str | UnsetType]] = []
        """What tools returned besides their results, until the other calls of the response are answered."""
        self._written_usage: Json | None = None
        """Usage and stop reason as the last line of the response has them."""
        self._progress_lines = 0
        self._before_prompt: tuple[str | None, list[Json], int] = (None, [], -1)
        """The parent of the last prompt, the messages before it, and how many boundaries there were."""

    def repair(self, calls: Iterable[OpenCall], unanswered: str | None) -> None:
        """Write what a resumed session sends but has on none of its lines: results of open calls, an empty answer."""
        for call in calls:
            outcome = ToolOutcome(content=call.text, result=f"Error: {call.text}", is_error=True)
            self.writer.append_message(_tool_result_line(call.id, outcome, call.line))
        if unanswered is not None:
            self.writer.append_message(lines.SyntheticLine(_synthetic_message(self.new_id(), unanswered)))

    def write_prompt(self, content: str | list[Json], permission_mode: str | UnsetType = UNSET) -> str:
        """Write a prompt; return its uuid."""
        # Only after the disk was full there are open calls here: their results could not be written then.
        self.close_open_calls(wordings.INTERRUPTED_CALL)
        self._before_prompt = self.writer.parent, [*self.conversation.messages], self.writer.boundaries
        self.prompt_uuid = self.write_user(content, permission_mode=permission_mode)
        return self.prompt_uuid

    def write_user(
        self, content: str | list[Json], *, permission_mode: str | UnsetType = UNSET, is_meta: bool | UnsetType = UNSET
    ) -> str:
        """Write content in the user's name: text typed during the turn, a notification; return its uuid."""
        uuid = self.writer.append_message(lines.UserLine(lines.UserMessage(content), permission_mode, is_meta))
        self.conversation.add_user(content)
        return uuid

    def write_meta(self, content: str | list[Json]) -> str:
        """Write content that the client adds in the user's name; return its uuid."""
        return self.write_user(content, is_meta=True)

    def begin_response(self, head: Json) -> str:
        """Return a unique id for a response: the server's, if no other response has it."""
        id = head.get("id")
        if not isinstance(id, str) or not id or id in self._taken_ids:
            id = f"msg_{self._short_id()}"
        self._taken_ids.add(id)
        self._written_usage = None
        return id

    def with_unique_id(self, block: Json) -> Json:
        """Return a block of a response; a tool call gets another id if its own is taken."""
        if block.get("type") != "tool_use":
            return block
        id = block.get("id")
        if not isinstance(id, str) or not id or id in self._taken_ids:
            block = {**block, "id": f"toolu_{self._short_id()}"}
        self._taken_ids.add(block["id"])
        return block

    def write_block(self, head: Json, block: Json, request_id: str | None) -> str:
        """Write a block of a response; return its uuid."""
        uuid = self.writer.append_message(_assistant_line(head, [block], request_id))
        if block.get("type") == "tool_use":
            self._call_lines[block["id"]] = uuid
            self._open_calls.append(block["id"])
        self._written_usage = _usage_of(head)
        self.conversation.add_block(head["id"], block)
        return uuid

    def end_response(self, head: Json, request_id: str | None) -> None:
        """Write the usage of a response, unless its last line has it. A response without blocks gets no line."""
        if self._written_usage is not None and self._written_usage != _usage_of(head):
            self.writer.append_message(_assistant_line(head, [], request_id))
        self.conversation.end_response()

    def write_result(self, call_id: str, outcome: ToolOutcome) -> str:
        """Write the result of a tool call; return its uuid."""
        # The files of subagents have no `toolUseResult`: so it was in Claude Code from 2.0.76 to 2.1.63.
        written = msgspec.structs.replace(outcome, result=None) if self.writer.envelope.is_sidechain else outcome
        line = _tool_result_line(call_id, written, self._call_lines.get(call_id))
        uuid = self.writer.append_message(line)
        self.conversation.add_user(line.message.content)
        if call_id in self._open_calls:
            self._open_calls.remove(call_id)
        if outcome.extra:
            self._extras.append(([*outcome.extra], call_id if outcome.names_source else UNSET))
        # Not between the results of one response: the next result would hang on something else than a call or result.
        while self._extras and not self._open_calls:
            content, source = self._extras.pop(0)
            added = lines.UserLine(lines.UserMessage(content), is_meta=True, source_tool_use_id=source)
            self.writer.append_message(added)
            self.conversation.add_user(content)
        return uuid

    def call_line(self, call_id: str) -> str | None:
        """Return the uuid of the line that holds a tool call."""
        return self._call_lines.get(call_id)

    def write_api_failure(self, text: str, kind: str | None) -> str:
        """Write the error that came instead of a response: it is shown, and never sent."""
        message = _synthetic_message(self.new_id(), text)
        return self.writer.append_message(lines.SyntheticLine(message, kind or UNSET, is_api_error_message=True))

    def write_retry(self, reason: str, status: int | None, seconds: float, attempt: int) -> None:
        """Write that a request is sent again."""
        error = lines.ApiError(status=UNSET if status is None else status, message=reason)
        line = lines.ApiErrorLine(error=error, retry_in_ms=round(seconds * 1000, 1), retry_attempt=attempt)
        self.writer.append_message(line)

    def write_progress(self, call_id: str, data: Json) -> None:
        """Write the progress of a tool call."""
        kind = str(data.get("type", "tool")).replace("_", "-")
        name = f"{kind}-{self._progress_lines}"
        self.writer.append_beside(lines.ProgressLine(data=data, tool_use_id=name, parent_tool_use_id=call_id))
        self._progress_lines += 1

    def write_attachment(self, attachment: Json) -> None:
        """Write how a hook ended; what it tells the model stands on a line of its own."""
        # Beside the chain, as progress lines are: 2.0.x knows no attachments.
        self.writer.append_beside(lines.AttachmentLine(attachment))

    def write_refused_prompt(self, text: str) -> str:
        """Write that a hook refused a prompt, in Claude Code's words; it is shown, and never sent."""
        if self.writer.parent is None:
            return self.new_id()  # a session that holds nothing else could not be resumed: it gets no file
        return self.writer.append_message(lines.SystemLine("informational", text, "warning"))

    def close_open_calls(self, text: str) -> None:
        """Write an error as the result of each tool call that will not run."""
        for call_id in [*self._open_calls]:
            self.write_result(call_id, ToolOutcome(content=text, result=text, is_error=True))

    def write_interrupt(self, *, in_tools: bool) -> None:
        """Write Claude Code's own marker of an interrupt."""
        # The API refuses a tool call without a result: each gets one before the marker.
        self.close_open_calls(wordings.INTERRUPTED_CALL)
        text = wordings.INTERRUPTED_FOR_TOOLS if in_tools else wordings.INTERRUPTED
        self.write_user([{"type": "text", "text": text}])

    def retract_prompt(self, notice: str) -> None:
        """Continue from before the last prompt: what came since stays in the file as a branch, and is not sent again.

        A conversation that has nothing before it begins anew, as after a compaction: every version understands that.
        """
        parent, messages, boundaries = self._before_prompt
        if boundaries != self.writer.boundaries:  # a compaction came in between: the prompt is part of the summary
            self.write_api_failure(notice, None)
        elif parent is None:
            self._open_calls.clear()
            self._extras.clear()
            self.write_boundary(f"The conversation started with an unanswered message: {notice}", "auto")
        else:
            self._branch_off(parent, notice, messages)

    def rewind(self, parent: str | None, messages: list[Json]) -> None:
        """Continue from an earlier line: what came after it becomes a branch."""
        if parent is None:
            self._open_calls.clear()
            self._extras.clear()
            self.write_boundary("The conversation was rewound to its start.", "manual")
        else:
            self._branch_off(parent, "The conversation was rewound to here.", messages)

    def _branch_off(self, parent: str, notice: str, messages: list[Json]) -> None:
        self._open_calls.clear()
        self._extras.clear()
        self.writer.parent = parent
        # A line that is never sent: as the newest one of the file it makes this branch the one that is resumed.
        self.write_api_failure(notice, None)
        self.conversation.replace(messages)

    def write_boundary(self, summary: str, trigger: str, tokens: int = 0) -> str:
        """Write that the conversation continues from a summary alone; return the uuid of the summary."""
        compaction = lines.WrittenCompaction(trigger, tokens)
        uuid = self.writer.append_boundary(
            lines.SystemLine("compact_boundary", "Conversation compacted", "info", compact_metadata=compaction),
            lines.UserLine(lines.UserMessage(summary), is_visible_in_transcript_only=True, is_compact_summary=True),
        )
        self.conversation.replace([])
        self.conversation.add_user(summary)
        return uuid

    def write_queue_operation(self, operation: str, content: str | None = None) -> None:
        """Write what happens to text that the user typed during a turn."""
        line = lines.QueueOperationLine(
            operation=operation,
            timestamp=self.writer.next_timestamp(),
            session_id=self.writer.envelope.session_id,
            content=UNSET if content is None else content,
        )
        self.writer.append_note(line)

    def write_snapshot(self, message: str, prompt: str, files: dict[str, FileBackup], *, update: bool) -> None:
        """Write the backups of all tracked files as they were before a prompt, after the line `message`."""
        snapshot = lines.WrittenSnapshot(prompt, files, self.writer.next_timestamp())
        self.writer.append_note(
            lines.FileSnapshotLine(message_id=message, snapshot=snapshot, is_snapshot_update=update)
        )

    def write_system_note(self, subtype: str, content: str) -> None:
        """Write a note of the client; it is sent too, because newer versions send the output of local commands."""
        self.writer.append_message(lines.SystemLine(subtype, content, "info"))
        self.conversation.add_user(content)

    def write_turn_duration(self, milliseconds: int) -> None:
        """Write how long a turn took; not for subagents."""
        if not self.writer.envelope.is_sidechain and self.writer.parent is not None:
            self.writer.append_message(lines.SystemLine("turn_duration", duration_ms=milliseconds))

    def _short_id(self) -> str:
        return self.new_id().replace("-", "")[:24]


def _tool_result_line(call_id: str, outcome: ToolOutcome, source: str | None) -> lines.UserLine:
    """Return the result of a tool call that stands on the line `source`."""
    block: Json = {"tool_use_id": call_id, "type": "tool_result", "content": outcome.content}
    if outcome.is_error:
        block["is_error"] = True
    return lines.UserLine(
        lines.UserMessage([block]),
        mcp_meta=UNSET if outcome.mcp_meta is None else outcome.mcp_meta,
        tool_use_result=UNSET if outcome.result is None else outcome.result,
        source_tool_assistant_uuid=UNSET if source is None else source,
    )


def _synthetic_message(id: str, text: str) -> lines.SyntheticMessage:
    """Return a message that the client adds in the model's name."""
    return lines.SyntheticMessage(id=id, content=[{"type": "text", "text": text}])


# A line for each block, as Claude Code writes them: readers join the lines with the same `message.id`.
def _assistant_line(head: Json, content: list[Json], request_id: str | None) -> lines.AssistantLine:
    """Return blocks of a response; without blocks: only its usage and stop reason."""
    message = lines.ResponseMessage(
        model=head.get("model"),
        id=head.get("id"),
        content=content,
        stop_reason=head.get("stop_reason"),
        stop_sequence=head.get("stop_sequence"),
        usage=head.get("usage") or {"input_tokens": 0, "output_tokens": 0},
    )
    return lines.AssistantLine(message, request_id or UNSET)


def _usage_of(head: Json) -> Json:
    return {"usage": head.get("usage"), "stop_reason": head.get("stop_reason")}
