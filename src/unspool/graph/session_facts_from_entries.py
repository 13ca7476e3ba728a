"""What entries say of what their session is about, by the rules of `gathering.py`. Here the types of all are loaded."""

from __future__ import annotations

from collections.abc import Iterable

from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Document, Image, Text, ToolResult, ToolUse, as_blocks
from unspool.format.entry import Entry
from unspool.format.meta_records import AiTitle, CustomTitle, PrLink, QueueOperation, Summary
from unspool.format.records import Assistant, Attachment, System, User
from unspool.graph.session_facts import KEPT, Facts, Gathering, is_special
from unspool.graph.turns import is_prompt, is_typed, text_of

__all__ = ["Facts", "Gathering", "facts", "is_special", "take"]


def facts(entries: Iterable[Entry]) -> Facts:
    """Return what a session is about."""
    gathering = Gathering()
    for entry in entries:
        take(gathering, entry)
    return gathering.facts()


def take(gathering: Gathering, entry: Entry) -> None:
    """Look at a line. Most lines are no news: their type is asked once, not case by case."""
    record = entry.record
    gathering.see(record)
    kind = type(record)
    if kind is User or kind is Assistant:
        _message(gathering, entry.offset, record)  # type: ignore[arg-type]
    elif kind in _NOTED:
        _note(gathering, entry)


def _message(gathering: Gathering, place: int, record: User | Assistant) -> None:
    content = record.message.content
    if not isinstance(content, str):
        for block in content:
            _block(gathering, block)
    if isinstance(record, Assistant):
        gathering.answer(place, record)
        return
    blocks = record.message.blocks
    texts = [block.text for block in blocks if isinstance(block, Text)]
    gathering.prompt(place, record, texts, has_result=any(isinstance(block, ToolResult) for block in blocks))


def _note(gathering: Gathering, entry: Entry) -> None:
    match entry.record:
        case System(subtype="compact_boundary", compact_metadata=metadata):
            gathering.compactions += 1
            gathering.context_tokens = metadata.post_tokens if metadata else None
        case Attachment(attachment=QueuedCommand() as queued):
            text = text_of(as_blocks(queued.prompt))
            gathering.said(text)
            if is_prompt(queued):
                gathering.typed_at(entry.offset, text)
        case QueueOperation(operation="enqueue", content=content) if content:
            if is_typed(text := text_of(as_blocks(content))):
                gathering.waiting.append((entry.offset, text.strip()[:KEPT]))
        case CustomTitle(custom_title=title) if title:
            gathering.custom_title = title
        case AiTitle(ai_title=title) if title:
            gathering.ai_title = title
        case Summary(leaf_uuid=leaf, summary=summary):
            gathering.summaries.append((leaf, summary or ""))
            gathering.is_stale = gathering.is_stale or gathering.uuids is None
        case PrLink(pr_url=url) if url:
            gathering.pull_requests[url] = None
        case _:
            pass


def _block(gathering: Gathering, block: AnyBlock) -> None:
    if isinstance(block, ToolUse):
        gathering.calls.add(block.id)
    elif isinstance(block, ToolResult):
        if block.is_error:
            gathering.failed.add(block.tool_use_id)
    elif isinstance(block, Image | Document):
        gathering.images += 1


_NOTED = frozenset({System, Attachment, QueueOperation, CustomTitle, AiTitle, Summary, PrLink})
