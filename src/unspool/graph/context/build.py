"""Builds the messages that the API would be sent if a session were resumed now, each block with the line it came from.

It mirrors Claude Code 2.1.325 (newest when this was written): sessions of many versions were given to its `--resume`
and the requests it sent were compared. What looks odd below is what Claude Code does. Its steps, in this order:

  1. The thread from the leaf back to the root or the last compaction boundary, with the parallel results and the other
     blocks of its messages, in file order (`threads.py`). After a boundary: the summary, then the preserved messages.
  2. Lines that Claude Code wrote for itself stay out: its own API errors, progress, system lines but local commands.
  3. Attachments are rendered as text (`attachment_text.py`) and move up to the answer or tool result before them. A
     model that takes system messages is sent most of them as one such message after the user's.
  4. Consecutive lines of one role are one message: texts joined by a line end, tool results first; reminders after a
     tool result become part of it. The blocks of an answer are joined by `message.id`.
  5. A call whose result was never written is left out, but at the end of the session it gets a result that says so; a
     session that ends with the user gets the answer `No response requested.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unspool.format import (
    Assistant,
    Attachment,
    Entry,
    MaxTurnsReached,
    Other,
    QueuedCommand,
    RedactedThinking,
    System,
    Text,
    Thinking,
    User,
    as_blocks,
)
from unspool.graph.context import attachment_text, model_rules
from unspool.graph.context.blocks import ContextBlock, block_to_json, entry_blocks, text_block, with_text
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
from unspool.graph.threads import find_thread_entries
from unspool.graph.turns import first_text

NO_RESPONSE = "No response requested."


def build_context(entries: Sequence[Entry], leaf: str | None = None, model: str | None = None) -> list[ContextMessage]:
    """Return the messages of a conversation from its start, or its last compaction, to a leaf.

    Without a model, for the one that Claude Code would continue with; with one, as that one is sent them.
    """
    return build_thread_context(find_thread_entries(entries, leaf), model)


def build_thread_context(lines: list[Entry], model: str | None = None) -> list[ContextMessage]:
    """Return the messages of the lines of a thread (`find_thread_entries`)."""
    resumed = model_rules.model_after_resume(find_last_model(lines))
    model = resumed if model is None else model_rules.model_family(model)
    conversation, commands_after = _split_trailing_commands(_without_open_calls(lines))
    drafts: list[MessageDraft] = []
    by_id: dict[str, MessageDraft] = {}
    for line in _move_reminders_up(conversation, model_rules.takes_system_turns(model)):
        _add_line(drafts, by_id, line, model)
    drafts = pair_tool_calls(
        merge_messages([draft for draft in drafts if draft.role != "assistant" or has_content(draft)])
    )
    waits = _waits_for_answer(conversation) or bool(drafts and block_ids(drafts[-1], "tool_result"))
    if drafts and drafts[-1].role != "assistant" and waits and not _ran_out_of_turns(conversation):
        drafts.append(MessageDraft("assistant", [text_block(NO_RESPONSE)]))
    # Last, as Claude Code does: local commands after the last message come after the answer that was added.
    for line in commands_after:
        _add_line(drafts, by_id, line, model)
    # Claude Code sends the calls of an answer after its texts, in whichever order the lines have them.
    return [
        ContextMessage(draft.role, tuple(sorted(draft.blocks, key=lambda block: block.kind == "tool_use")))
        for draft in drafts
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


def _waits_for_answer(lines: Sequence[Entry]) -> bool:
    """Tell whether the session ends with a user line; a local command under its caveat is none."""
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
    ran_command = any(text.startswith("<local-command-caveat>") for text in texts)
    return bool(texts) and not (ran_command and texts[0].startswith(("<local-command-", "<command-name>")))


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


def _add_line(drafts: list[MessageDraft], by_id: dict[str, MessageDraft], line: Entry, model: str) -> None:
    if type(line.record) is Assistant:  # most lines are; `match` would try its cases one after the other
        if not (line.record.is_api_error_message and line.record.message.model == "<synthetic>"):
            _add_answer(drafts, by_id, line, model)
        return
    match line.record:
        case Attachment() as record:
            texts = attachment_text.attachment_texts(record)
            in_system = model_rules.takes_system_turns(model)
            if texts and in_system and attachment_text.is_system_reminder(record):
                if not model_rules.keeps_tags(model):
                    texts = [attachment_text.without_reminder_tags(text) for text in texts]
                drafts.append(MessageDraft("system", [text_block("\n".join(texts), line)]))
            elif texts:
                blocks = [*(text_block(text, line) for text in texts), *_media_blocks(record, line)]
                add_reminder(drafts, blocks, separate=len(record.rendered) > 1, fold=not in_system)
        case System(subtype="local_command", content=content) if content:
            append_blocks(drafts, "user", [text_block(content, line)])
        case User() as record:
            append_blocks(drafts, "user", _mark_notification(record, entry_blocks(line)))
        case _:
            pass


def _media_blocks(record: Attachment, line: Entry) -> list[ContextBlock]:
    """Return the images and documents of a prompt that was queued."""
    data = record.attachment
    blocks = as_blocks(data.prompt) if isinstance(data, QueuedCommand) else ()
    media = [block for block in blocks if not isinstance(block, Text | Other)]
    return [ContextBlock(str(type(b).__struct_config__.tag), line, override=block_to_json(b)) for b in media]


def _mark_notification(record: User, blocks: list[ContextBlock]) -> list[ContextBlock]:
    """Mark the notification of a background task as not typed by the user."""
    if record.origin is None or record.origin.kind != "task-notification":
        return blocks
    return [with_text(b, attachment_text.notification_text(b.text)) if b.text is not None else b for b in blocks]


def _add_answer(drafts: list[MessageDraft], by_id: dict[str, MessageDraft], line: Entry, model: str) -> None:
    """Add the blocks of an answer to its message if that was begun, even before the results of its own calls."""
    record = line.record
    assert isinstance(record, Assistant)
    # Thinking of another model than the one that continues is not sent (`model_rules.py`).
    foreign = record.message.model is None or model_rules.model_family(record.message.model) != model
    blocks = [block for block in entry_blocks(line) if not (foreign and block.kind in THINKING_KINDS)]
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


def _is_unfinished(drafts: list[MessageDraft], begun: MessageDraft) -> bool:
    """Tell whether nothing but answers and tool results came since an answer began."""
    for draft in reversed(drafts):
        if draft is begun:
            return True
        if draft.role != "assistant" and any(block.kind != "tool_result" for block in draft.blocks):
            return False
    return False
