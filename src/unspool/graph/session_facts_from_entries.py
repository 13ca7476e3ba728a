"""Collects the facts of a session from its entries, by the rules of `session_facts.py`.

Apart from that module because the types of all records are loaded here; a list of sessions needs only projections.
"""

from __future__ import annotations

from collections.abc import Iterable

from unspool.format import (
    AiTitle,
    AnyBlock,
    Assistant,
    Attachment,
    CustomTitle,
    Document,
    Entry,
    Image,
    PrLink,
    QueuedCommand,
    QueueOperation,
    Summary,
    System,
    Text,
    ToolResult,
    ToolUse,
    User,
    as_blocks,
)
from unspool.graph.session_facts import MAX_PROMPT_CHARS, FactsCollector, SessionFacts
from unspool.graph.speakers import is_typed_prompt
from unspool.graph.turns import is_queued_prompt, join_text


def collect_facts(entries: Iterable[Entry]) -> SessionFacts:
    """Return the facts of a session from all its entries."""
    collector = FactsCollector()
    for entry in entries:
        add_entry_facts(collector, entry)
    return collector.facts()


def add_entry_facts(collector: FactsCollector, entry: Entry) -> None:
    """Add the facts of one line."""
    record = entry.record
    collector.add_common_fields(record)
    kind = type(record)  # looked up once: most lines add nothing, and `match` would try every case on each of them
    if kind is User or kind is Assistant:
        _add_message(collector, entry.offset, record)  # type: ignore[arg-type]
    elif kind in _WITH_FACTS:
        _add_other(collector, entry)


def _add_message(collector: FactsCollector, offset: int, record: User | Assistant) -> None:
    content = record.message.content
    if not isinstance(content, str):
        for block in content:
            _add_block(collector, block)
    if isinstance(record, Assistant):
        collector.add_answer(offset, record)
        return
    blocks = record.message.blocks
    texts = [block.text for block in blocks if isinstance(block, Text)]
    collector.add_user_message(offset, record, texts, has_result=any(isinstance(block, ToolResult) for block in blocks))


def _add_other(collector: FactsCollector, entry: Entry) -> None:
    match entry.record:
        case System(subtype="compact_boundary", compact_metadata=metadata):
            collector.compactions += 1
            collector.context_tokens = metadata.post_tokens if metadata else None
        case Attachment(attachment=QueuedCommand() as queued):
            text = join_text(as_blocks(queued.prompt))
            collector.drop_repeated(text)
            if is_queued_prompt(queued):
                collector.add_typed_prompt(entry.offset, text)
        case QueueOperation(operation="enqueue", content=content) if content:
            if is_typed_prompt(text := join_text(as_blocks(content))):
                collector.waiting.append((entry.offset, text.strip()[:MAX_PROMPT_CHARS]))
        case CustomTitle(custom_title=title) if title:
            collector.custom_title = title
        case AiTitle(ai_title=title) if title:
            collector.ai_title = title
        case Summary(leaf_uuid=leaf, summary=summary):
            collector.summaries.append((leaf, summary or ""))
            collector.is_stale = collector.is_stale or collector.uuids is None
        case PrLink(pr_url=url) if url:
            collector.pull_requests[url] = None
        case _:
            pass


def _add_block(collector: FactsCollector, block: AnyBlock) -> None:
    if isinstance(block, ToolUse):
        collector.calls.add(block.id)
    elif isinstance(block, ToolResult):
        if block.is_error:
            collector.failed.add(block.tool_use_id)
    elif isinstance(block, Image | Document):
        collector.images += 1


_WITH_FACTS = frozenset({System, Attachment, QueueOperation, CustomTitle, AiTitle, Summary, PrLink})
