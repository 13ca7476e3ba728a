"""Merges drafts of messages and pairs tool calls with their results while the context is built.

The rules are those of `build.py`, 4 and 5. Texts and order are those that Claude Code 2.1.325 sends: they are compared
with its requests, so a wording or a blank line that looks odd here is meant.
"""

from __future__ import annotations

import msgspec

from unspool.format import ToolReference, ToolResult, User
from unspool.graph.context.blocks import ContextBlock, Json, text_block, with_text

NO_CONTENT = "(no content)"
TOOL_LOADED = "Tool loaded."
ORPHANED_RESULT = "[Orphaned tool result removed due to conversation resume]"
INTERRUPTED_CALL = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
THINKING_KINDS = frozenset({"thinking", "redacted_thinking"})


class ContextMessage(msgspec.Struct, frozen=True):
    """A message as it is sent to the API."""

    role: str
    blocks: tuple[ContextBlock, ...]

    @property
    def json(self) -> Json:
        """The JSON of the message, as the API takes it."""
        return {"role": self.role, "content": [block.value for block in self.blocks]}


class MessageDraft(msgspec.Struct):
    """A message that blocks are still added to."""

    role: str
    blocks: list[ContextBlock]
    id: str | None = None
    apart: bool = False
    """Not merged with the message before it: Claude Code sends further reminders after an answer separately."""


def has_content(draft: MessageDraft) -> bool:
    """Tell whether a draft has more than thinking, or than what 2.0.76 wrote for a blank answer."""
    return any(block.kind not in THINKING_KINDS and block.text != NO_CONTENT for block in draft.blocks)


def merge_messages(drafts: list[MessageDraft]) -> list[MessageDraft]:
    """Merge the user messages between two answers; the system messages among them become one after them."""
    merged: list[MessageDraft] = []
    system: list[MessageDraft] = []
    for draft in drafts:
        if draft.role == "system":
            system.append(draft)
        elif draft.role == "assistant":
            merged += [*_merge_system(system), draft]
            system = []
        elif merged and merged[-1].role == "user" and not draft.apart:
            _end_line(merged[-1], draft.blocks)
            merged[-1].blocks += draft.blocks
        else:
            merged.append(draft)
    return merged + _merge_system(system)


def _merge_system(drafts: list[MessageDraft]) -> list[MessageDraft]:
    if not drafts:
        return []
    blocks = [block for draft in drafts for block in draft.blocks]
    texts = [block.text for block in blocks if block.text is not None]
    tools = [block for block in blocks if block.text is None]
    return [MessageDraft("system", [with_text(drafts[0].blocks[0], "\n\n".join(texts)), *tools])]


def append_blocks(drafts: list[MessageDraft], role: str, blocks: list[ContextBlock]) -> None:
    """Add blocks to the last message if it has the same role, else begin a message."""
    if not blocks:
        return
    if drafts and drafts[-1].role == role:
        _end_line(drafts[-1], blocks)
        drafts[-1].blocks += blocks
        # Results move up at once and not only at the end: a reminder that follows becomes part of a result only if no
        # text stands after the results, such as that of a hook before the call (2.1.327).
        if any(block.kind == "tool_result" for block in blocks):
            drafts[-1].blocks.sort(key=lambda block: block.kind != "tool_result")
    else:
        drafts.append(MessageDraft(role, blocks))


def _end_line(draft: MessageDraft, following: list[ContextBlock]) -> None:
    """Put a line end between two texts that follow each other."""
    last = draft.blocks[-1]
    if last.text is not None and following[0].kind == "text":
        draft.blocks[-1] = with_text(last, last.text + "\n")


def add_reminder(
    drafts: list[MessageDraft],
    blocks: list[ContextBlock],
    *,
    separate: bool,
    fold: bool,
    first: int | None = None,
    rendered: bool = False,
) -> None:
    """Add a reminder to the user message at the end; with `fold`, after a tool result it becomes part of that.

    Where it begins a message, each of the `first` blocks is one of its own, and the others together are one.
    A result that is a list of texts, as an agent's is, takes only reminders that the line has in words (`rendered`).
    """
    last = drafts[-1] if drafts else None
    first = len(blocks) if first is None else first
    texts = [block.text for block in blocks if block.text is not None]
    if last is None or last.role != "user":
        parts = [*([block] for block in blocks[:first]), *([blocks[first:]] if blocks[first:] else [])]
        drafts += [MessageDraft("user", part, apart=number > 0) for number, part in enumerate(parts)]
    elif (
        fold
        and last.blocks[-1].kind == "tool_result"
        and len(texts) == len(blocks)
        and (rendered or not _is_list_of_texts(last.blocks[-1].value.get("content")))
    ):
        result = last.blocks[-1]
        last.blocks[-1] = msgspec.structs.replace(result, override=_append_texts(result.value, texts))
    else:
        for block in blocks:
            if separate:  # several texts of one attachment, as the line itself has them
                _end_line(last, [block])
            last.blocks.append(block)


def _is_list_of_texts(content: object) -> bool:
    return isinstance(content, list) and all(isinstance(block, dict) and "text" in block for block in content)


def pair_tool_calls(drafts: list[MessageDraft]) -> list[MessageDraft]:
    """Give every call its result in the next message, and remove results without a call: the API rejects both."""
    paired: list[MessageDraft] = []
    for number, draft in enumerate(drafts):
        calls = block_ids(paired[-1], "tool_use") if paired and paired[-1].role == "assistant" else []
        if draft.role == "user":
            draft.blocks = _results_first(draft.blocks, calls) or [
                text_block(NO_CONTENT if paired else ORPHANED_RESULT)
            ]
            if _loads_tools(draft):
                draft.blocks.append(text_block(TOOL_LOADED))
        paired.append(draft)
        calls = block_ids(draft, "tool_use")
        answered = _answered_calls(drafts, number) if calls else ()
        unanswered = [call for call in calls if call not in answered]
        if not unanswered:
            continue
        # Claude Code drops an unanswered call in the middle of a session, and answers one at its end.
        if any(later.role == "assistant" for later in drafts[number + 1 :]):
            draft.blocks = [block for block in draft.blocks if block.kind != "tool_use" or block.id not in unanswered]
            if not has_content(draft):
                paired.pop()
        else:
            _add_interrupted_results(drafts, number, unanswered)
    return paired


def _loads_tools(draft: MessageDraft) -> bool:
    """Tell whether a message holds nothing but results, one of which loads deferred tools."""
    return all(block.kind == "tool_result" for block in draft.blocks) and any(map(_has_tool_reference, draft.blocks))


def _has_tool_reference(block: ContextBlock) -> bool:
    record = block.entry.record if block.entry else None
    if not isinstance(record, User):
        return False
    results = [item for item in record.message.blocks if isinstance(item, ToolResult) and item.tool_use_id == block.id]
    return any(isinstance(inner, ToolReference) for item in results if not item.is_text for inner in item.blocks)


def _answered_calls(drafts: list[MessageDraft], number: int) -> list[str]:
    """Return the ids of the calls that the message after this one answers."""
    following = drafts[number + 1] if number + 1 < len(drafts) else None
    return block_ids(following, "tool_result") if following and following.role == "user" else []


def _add_interrupted_results(drafts: list[MessageDraft], number: int, calls: list[str]) -> None:
    """Add results for the calls that the end of the session left unanswered."""
    results = [
        ContextBlock(
            "tool_result",
            id=call,
            override={"type": "tool_result", "content": INTERRUPTED_CALL, "is_error": True, "tool_use_id": call},
        )
        for call in calls
    ]
    if number + 1 < len(drafts) and drafts[number + 1].role == "user":
        blocks = drafts[number + 1].blocks
        count = sum(block.kind == "tool_result" for block in blocks)
        blocks[count:count] = results
    else:
        drafts.insert(number + 1, MessageDraft("user", results))


def _results_first(blocks: list[ContextBlock], calls: list[str]) -> list[ContextBlock]:
    results: dict[str, ContextBlock] = {}
    rest = []
    for block in blocks:
        if block.kind != "tool_result":
            rest.append(block)
        elif block.id in calls:
            results.setdefault(block.id or "", block)
    return [*results.values(), *rest]


def _append_texts(result: Json, texts: list[str]) -> Json:
    content = result.get("content")
    if content is None or isinstance(content, str):
        parts = [(content or "").strip(), *(text.strip() for text in texts)]
        return {**result, "content": "\n\n".join(part for part in parts if part)}
    blocks = [*content]
    for text in texts:
        if blocks and isinstance(before := blocks[-1], dict) and isinstance(before.get("text"), str):
            blocks[-1] = {**before, "text": before["text"] + "\n"}
        blocks.append({"type": "text", "text": text.strip()})
    return {**result, "content": blocks}


def block_ids(draft: MessageDraft, kind: str) -> list[str]:
    """Return the call ids of the blocks of one kind: of tool calls or of tool results."""
    return [block.id for block in draft.blocks if block.kind == kind and block.id is not None]
