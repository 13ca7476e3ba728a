"""Builds the messages that the API would be sent if a session were resumed now, each block with the line it came from.

It mirrors Claude Code 2.1.325 (newest when this was written): sessions of many versions were given to its `--resume`
and the requests it sent were compared. What looks odd below is what Claude Code does. Its steps, in this order:

  1. The thread from the leaf back to the root or the last compaction boundary, with the parallel results and the other
     blocks of its messages (`thread_lines.py`). After a boundary: the summary and the preserved messages.
  2. Lines that Claude Code wrote for itself stay out: its own API errors, progress, system lines but local commands.
  3. Attachments are rendered as text (`attachment_text.py`) and move up to the answer or tool result before them. A
     model that takes system messages is sent most of them as one such message after the user's.
  4. Consecutive lines of one role are one message: texts joined by a line end, tool results first; reminders after a
     tool result become part of it. The blocks of an answer are joined by `message.id`.
  5. A call whose result was never written is left out, but at the end of the session it gets a result that says so; a
     session that ends with the user gets the answer `No response requested.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from unspool.format import (
    Assistant,
    Attachment,
    Entry,
    MaxTurnsReached,
    RedactedThinking,
    System,
    Thinking,
    ToolReference,
    ToolResult,
    ToolUse,
    User,
)
from unspool.format import attachments as kinds
from unspool.graph.context import attachment_text, model_rules
from unspool.graph.context.blocks import ContextBlock, entry_blocks, text_block, with_text
from unspool.graph.context.pairing import (
    THINKING_KINDS,
    ContextMessage,
    MessageDraft,
    add_reminder,
    append_blocks,
    block_ids,
    has_content,
    merge_messages,
    pair_tool_calls,
)
from unspool.graph.messages import find_repeated_blocks
from unspool.graph.thread_lines import find_thread_entries
from unspool.graph.turns import first_text

NO_RESPONSE = "No response requested."
_LOADED_FORMS = frozenset({"ExitPlanMode", "TaskStop"})
"""Tools that calls are adapted to, once they are loaded."""
_CLEARABLE_TOOLS = frozenset({"Read", "Bash", "PowerShell", "Grep", "Glob", "WebSearch", "WebFetch", "Edit", "Write"})
"""Tools whose old results may be cut, besides those of MCP servers."""
_MAX_STAND_IN = 200


def build_context(
    entries: Sequence[Entry], leaf: str | None = None, model: str | None = None, *, all_thinking: bool = False
) -> list[ContextMessage]:
    """Return the messages of a conversation from its start, or its last compaction, to a leaf.

    Without a model, for the one that Claude Code would continue with; with one, as that one is sent them. With
    `all_thinking` also the thinking of other models, as versions before 2.1.200 send it.
    """
    return build_thread_context(find_thread_entries(entries, leaf), model, all_thinking=all_thinking)


def build_thread_context(
    lines: list[Entry], model: str | None = None, *, all_thinking: bool = False, task_advice: bool = False
) -> list[ContextMessage]:
    """Return the messages of the lines of a thread (`find_thread_entries`).

    With `task_advice` every model is reminded of its tasks, as versions before 2.1.290 do it.
    """
    resumed = model_rules.model_after_resume(find_last_model(lines))
    model = resumed if model is None else model_rules.model_family(model)
    conversation, commands_after = _split_trailing_commands(_without_open_calls(lines))
    drafts: list[MessageDraft] = []
    by_id: dict[str, MessageDraft] = {}
    task_advice = task_advice or model_rules.has_task_tools(model)
    reader = _Reader(model, all_thinking, task_advice, _find_cut_results(lines))
    for line in _move_reminders_up(conversation, model_rules.takes_system_turns(model)):
        _add_line(drafts, by_id, line, reader)
    _drop_repeated_blocks(drafts, find_repeated_blocks(conversation))
    drafts = pair_tool_calls(
        merge_messages([draft for draft in drafts if draft.role != "assistant" or has_content(draft)])
    )
    texts = _find_unanswered_texts(conversation)
    waits = bool(texts) or bool(drafts and block_ids(drafts[-1], "tool_result"))
    waits = waits and not (
        _ends_with_command(texts) or _ends_with_api_error(conversation) or _ends_with_compaction(conversation)
    )
    if drafts and drafts[-1].role != "assistant" and waits and not _ran_out_of_turns(conversation):
        drafts.append(MessageDraft("assistant", [text_block(NO_RESPONSE)]))
    # Last, as Claude Code does: local commands after the last message come after the answer that was added.
    for line in commands_after:
        _add_line(drafts, by_id, line, reader)
    # Claude Code sends the calls of an answer after its texts, in whichever order the lines have them.
    messages = [
        ContextMessage(
            draft.role,
            tuple(
                sorted(draft.blocks, key=lambda block: block.kind == "tool_use") if draft.blocks[1:] else draft.blocks
            ),
        )
        for draft in drafts
    ]
    loaded = _find_loaded_tools(lines)
    return [_with_loaded_tools(message, loaded) for message in messages] if loaded else messages


def _find_loaded_tools(lines: Sequence[Entry]) -> set[str]:
    """Return which tools of `_LOADED_FORMS` were loaded by the result of a search; `TaskStop` also from the start."""
    loaded: set[str] = set()
    for line in lines:
        record = line.record
        # By the exact type: `match` would try its cases for each line of a long session.
        if type(record) is User:
            results = [block for block in line.content_blocks if type(block) is ToolResult and not block.is_text]
            inner = [block for result in results for block in result.blocks]
            loaded.update(block.tool_name for block in inner if isinstance(block, ToolReference))
        # 2.1.290 sends all tools at once, and its ExitPlanMode takes any input.
        elif type(record) is Attachment and isinstance(snapshot := record.attachment, kinds.PromptSnapshot):
            tools = [tool for tool in snapshot.tools if isinstance(tool, dict)]
            loaded.update("TaskStop" for tool in tools if tool.get("name") == "TaskStop")
    return loaded & _LOADED_FORMS


def _with_loaded_tools(message: ContextMessage, loaded: set[str]) -> ContextMessage:
    """Put calls into the form of the tools that are loaded: Claude Code leaves those of other tools as they were."""
    if message.role != "assistant":
        return message
    return ContextMessage(message.role, tuple(_with_loaded_tool(block, loaded) for block in message.blocks))


def _with_loaded_tool(block: ContextBlock, loaded: set[str]) -> ContextBlock:
    value = block.value if block.kind == "tool_use" else {}
    name, given = value.get("name"), value.get("input")
    if name == "ExitPlanMode" and name in loaded and isinstance(given, dict):
        # The plan is in a file of its own; the tool has no such input (2.1.325).
        kept = {key: item for key, item in given.items() if key not in ("plan", "planFilePath")}
        return msgspec.structs.replace(block, override={**value, "input": kept})
    if name == "KillShell" and "TaskStop" in loaded:
        return msgspec.structs.replace(block, override={**value, "name": "TaskStop"})
    return block


def _drop_repeated_blocks(drafts: list[MessageDraft], repeated: Mapping[int, frozenset[int]]) -> None:
    """Leave out calls of history that was appended again: Claude Code sends no call twice, and the API takes none.

    Texts it sends twice (2.1.326 of a session of 2.1.29).
    """
    if repeated:
        for draft in drafts:
            draft.blocks = [
                b
                for b in draft.blocks
                if b.kind != "tool_use" or b.entry is None or b.index not in repeated.get(b.entry.offset, ())
            ]


def _without_open_calls(lines: list[Entry]) -> list[Entry]:
    """Leave out lines whose calls were never answered, but those of the last answer: the session may end there."""
    answered: set[str] = set()
    calls: dict[int, tuple[Assistant, list[str]]] = {}
    last: Assistant | None = None
    for index, line in enumerate(lines):
        record = line.record
        if isinstance(record, Assistant):
            last = record
            if ids := line.call_ids:
                calls[index] = record, ids
        answered.update(line.answered_ids)
    is_open = {
        index
        for index, (record, ids) in calls.items()
        if answered.isdisjoint(ids) and record is not last and record.message.id != (last and last.message.id)
    }
    return [line for index, line in enumerate(lines) if index not in is_open] if is_open else lines


def _split_trailing_commands(lines: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the lines without the local commands after the last message, and those commands."""
    last = max((index for index, line in enumerate(lines) if isinstance(line.record, User | Assistant)), default=-1)
    after = [line for line in lines[last + 1 :] if isinstance(line.record, System)]
    others = [line for line in lines[last + 1 :] if not isinstance(line.record, System)]
    return [*lines[: last + 1], *others], after


def _find_unanswered_texts(lines: Sequence[Entry]) -> list[str]:
    """Return the first text of each user line after the last answer, newest first."""
    texts: list[str] = []
    for line in reversed(lines):
        match line.record:
            case User(message=message):
                texts.append(first_text(message.blocks))
            # An answer of nothing but thinking was cut off: the user still waits.
            case Assistant(message=message) if any(
                not isinstance(block, Thinking | RedactedThinking) for block in message.blocks
            ):
                break
            case _:
                pass
    return texts


def _ends_with_command(texts: list[str]) -> bool:
    """Tell whether the last of these user lines is a local command under its caveat: nobody waits for an answer."""
    ran_command = any(text.startswith("<local-command-caveat>") for text in texts)
    return ran_command and texts[0].startswith(("<local-command-", "<command-name>"))


def _ends_with_api_error(lines: Sequence[Entry]) -> bool:
    """Tell whether the last message is an API error that Claude Code wrote down."""
    last = next((line.record for line in reversed(lines) if isinstance(line.record, User | Assistant)), None)
    return isinstance(last, Assistant) and bool(last.is_api_error_message) and last.message.model == "<synthetic>"


def _ends_with_compaction(lines: Sequence[Entry]) -> bool:
    """Tell whether nothing came after a compaction but what Claude Code attached to its summary."""
    last = next((line.record for line in reversed(lines) if isinstance(line.record, User | Assistant)), None)
    has_attachment = bool(lines) and isinstance(lines[-1].record, Attachment)
    return has_attachment and isinstance(last, User) and bool(last.is_compact_summary)


def _is_display_only(line: Entry) -> bool:
    """Tell whether a local command's output was only shown to the user (2.1.325)."""
    if b'"isDisplayOnly"' not in bytes(line.raw):
        return False
    from unspool.format import decode_plain  # start-up: few sessions have such a line

    return any(isinstance(value, dict) and value.get("isDisplayOnly") is True for _, value in decode_plain(line.raw))


def _ran_out_of_turns(lines: Sequence[Entry]) -> bool:
    """Tell whether Claude Code stopped at its limit of turns and left the end open."""
    data = lines[-1].record.attachment if lines and isinstance(lines[-1].record, Attachment) else None
    return isinstance(data, MaxTurnsReached) and data.exit_committed is False


def find_last_model(lines: Iterable[Entry]) -> str | None:
    """Return the model of the last answer; Claude Code itself writes as `<synthetic>`."""
    records = (line.record for line in lines)
    models = [record.message.model for record in records if isinstance(record, Assistant)]
    return next((model for model in reversed(models) if model and model != "<synthetic>"), None)


def _move_reminders_up(lines: Sequence[Entry], system_turns: bool) -> list[Entry]:
    """Move reminders that are sent in user messages up to the answer or tool result before them."""
    ordered: list[Entry] = []
    waiting: list[Entry] = []
    for line in reversed(lines):
        if isinstance(line.record, Attachment) and not (
            system_turns and attachment_text.is_system_reminder(line.record)
        ):
            waiting.append(line)
            continue
        if waiting and (isinstance(line.record, Assistant) or line.answered_ids):
            ordered += waiting
            waiting = []
        ordered.append(line)
    return [*reversed(ordered + waiting)]


class _Reader(NamedTuple):
    """Who the lines are read for, and what of them is not sent again."""

    model: str
    all_thinking: bool
    task_advice: bool
    cut_results: Mapping[str, str]
    """What is sent in place of the results of old calls, by the ids of the calls."""


def _find_cut_results(lines: Sequence[Entry]) -> dict[str, str]:
    """Return what stands in for the results that were cut after a long pause, by the ids of their calls (2.1.326)."""
    cuts: dict[str, str] = {}
    for line in lines:
        data = line.record.attachment if isinstance(line.record, Attachment) else None
        if isinstance(data, kinds.ToolResultsCut) and data.stand_in and len(data.stand_in) <= _MAX_STAND_IN:
            cuts = {**dict.fromkeys(data.call_ids, data.stand_in), **cuts}
    if not cuts:
        return {}
    answers = (line.record.message.blocks for line in lines if isinstance(line.record, Assistant))
    calls = [block for blocks in answers for block in blocks if isinstance(block, ToolUse)]
    return {call.id: cuts[call.id] for call in calls if call.id in cuts and _is_clearable(call.name)}


def _is_clearable(tool: str) -> bool:
    """Tell whether old results of a tool may be cut; lines name such calls only, but for those that somebody edited."""
    return tool in _CLEARABLE_TOOLS or tool.startswith("mcp__")


def _cut_result(block: ContextBlock, stand_in: str | None) -> ContextBlock:
    """Put what stands in for a result in its place: for an error, other content or less text it does not."""
    if stand_in is None or block.kind != "tool_result" or (value := block.value).get("is_error") is True:
        return block
    content = value.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return block
    types = {part.get("type") for part in parts}
    length = sum(len(str(part.get("text"))) for part in parts if part.get("type") == "text")
    if not types <= {"text", "image"} or ("image" not in types and length <= len(stand_in)):
        return block
    return msgspec.structs.replace(block, override={**value, "content": stand_in})


def _add_line(drafts: list[MessageDraft], by_id: dict[str, MessageDraft], line: Entry, reader: _Reader) -> None:
    if type(line.record) is Assistant:  # most lines are; `match` would try its cases one after the other
        if not (line.record.is_api_error_message and line.record.message.model == "<synthetic>"):
            _add_answer(drafts, by_id, line, None if reader.all_thinking else reader.model)
        return
    match line.record:
        case Attachment(attachment=kinds.TaskReminder(), rendered=[]) if not reader.task_advice:
            pass
        case Attachment() as record:
            _add_attachment(drafts, record, line, reader.model)
        case System(subtype="local_command", content=content) if content and not _is_display_only(line):
            append_blocks(drafts, "user", [text_block(content, line)])
        case User() as record:
            blocks = _mark_notification(record, entry_blocks(line))
            if cuts := reader.cut_results:
                blocks = [_cut_result(block, cuts.get(block.id or "")) for block in blocks]
            append_blocks(drafts, "user", blocks)
        case _:
            pass


def _add_attachment(drafts: list[MessageDraft], record: Attachment, line: Entry, model: str) -> None:
    texts = attachment_text.attachment_texts(record)
    in_system = model_rules.takes_system_turns(model)
    if texts and in_system and attachment_text.is_system_reminder(record):
        if not model_rules.keeps_tags(model):
            texts = [attachment_text.without_reminder_tags(text) for text in texts]
        tools = [ContextBlock(tool["type"], line, override=tool) for tool in attachment_text.attachment_tools(record)]
        drafts.append(MessageDraft("system", [text_block("\n".join(texts), line), *tools]))
    elif texts:
        if in_system and isinstance(record.attachment, kinds.QueuedCommand) and record.attachment.human_turn:
            texts = [attachment_text.without_reminder_tags(text) for text in texts]
        blocks, media = [text_block(text, line) for text in texts], _media_blocks(record, line)
        if isinstance(record.attachment, kinds.FileMention) and media and _ends_with_result(drafts):
            # The call is one message and the picture another: the first becomes part of the result.
            add_reminder(drafts, blocks, separate=False, fold=True)
            blocks = []
        # A picture that 2.1.325 wrote down has no words on its line; it is parted from others as those are.
        is_parted = len(record.rendered) > 1 or (bool(media) and record.rendered_role is not None)
        add_reminder(
            drafts,
            [*blocks, *media],
            first=len(blocks),
            separate=is_parted,
            fold=not in_system,
            rendered=bool(record.rendered),
        )


def _ends_with_result(drafts: list[MessageDraft]) -> bool:
    return bool(drafts) and drafts[-1].role == "user" and drafts[-1].blocks[-1].kind == "tool_result"


def _media_blocks(record: Attachment, line: Entry) -> list[ContextBlock]:
    """Return the images and documents that come with an attachment."""
    return [
        ContextBlock(media["type"], line, text=media.get("text"), override=media)
        for media in attachment_text.attachment_media(record)
    ]


def _mark_notification(record: User, blocks: list[ContextBlock]) -> list[ContextBlock]:
    """Mark the notification of a background task as not typed by the user."""
    if record.origin is None or record.origin.kind != "task-notification":
        return blocks
    return [with_text(b, attachment_text.notification_text(b.text)) if b.text is not None else b for b in blocks]


def _add_answer(drafts: list[MessageDraft], by_id: dict[str, MessageDraft], line: Entry, model: str | None) -> None:
    """Add the blocks of an answer to its message if that was begun, even before the results of its own calls.

    Without a model thinking of every model is added.
    """
    record = line.record
    assert isinstance(record, Assistant)
    # Thinking of another model than the one that continues is not sent (`model_rules.py`), but if it has no signature:
    # that of other vendors' models (measured with 2.1.326, which leaves it out only after the API has refused it).
    foreign = model is not None and (
        record.message.model is None or model_rules.model_family(record.message.model) != model
    )
    blocks = [block for block in entry_blocks(line) if not (foreign and _is_signed_thinking(record, block))]
    if not blocks:
        return
    id = record.message.id
    begun = by_id.get(id) if id is not None else None
    if begun is not None and _is_unfinished(drafts, begun):
        begun.blocks += blocks
        return
    drafts.append(MessageDraft("assistant", blocks, id))
    if id is not None:
        by_id[id] = drafts[-1]


def _is_signed_thinking(record: Assistant, block: ContextBlock) -> bool:
    if block.kind not in THINKING_KINDS:
        return False
    thought = record.message.blocks[block.index]
    return not isinstance(thought, Thinking) or bool(thought.signature)


def _is_unfinished(drafts: list[MessageDraft], begun: MessageDraft) -> bool:
    """Tell whether nothing but answers and tool results came since an answer began."""
    for draft in reversed(drafts):
        if draft is begun:
            return True
        if draft.role != "assistant" and any(block.kind != "tool_result" for block in draft.blocks):
            return False
    return False
