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
    QueueOperation,
    Summary,
    System,
    Text,
    ToolResult,
    ToolUse,
    User,
)
from unspool.graph.prompts import NO_CHANGE, TurnChange
from unspool.graph.session_facts import FactsCollector, SessionFacts
from unspool.graph.turns import find_turn_change


def collect_facts(entries: Iterable[Entry]) -> SessionFacts:
    """Return the facts of a session from all its entries."""
    collector = FactsCollector()
    for entry in entries:
        add_entry_facts(collector, entry)
    return collector.facts()


def add_entry_facts(collector: FactsCollector, entry: Entry) -> TurnChange:
    """Add the facts of one line; return which turn begins with it."""
    record = entry.record
    collector.add_common_fields(record)
    kind = type(record)  # looked up once: most lines add nothing, and `match` would try every case on each of them
    if kind is User or kind is Assistant:
        return _add_message(collector, entry.offset, record)  # type: ignore[arg-type]
    if kind in _WITH_FACTS:
        return _add_other(collector, entry)
    return NO_CHANGE


def _add_message(collector: FactsCollector, offset: int, record: User | Assistant) -> TurnChange:
    content = record.message.content
    if not isinstance(content, str):
        for block in content:
            _add_block(collector, block)
    if isinstance(record, Assistant):
        collector.add_answer(offset, record)
        return NO_CHANGE
    blocks = record.message.blocks
    texts = [block.text for block in blocks if isinstance(block, Text)]
    has_result = any(isinstance(block, ToolResult) for block in blocks)
    return collector.add_user_message(offset, record, texts, has_result=has_result)


def _add_other(collector: FactsCollector, entry: Entry) -> TurnChange:
    match entry.record:
        case System(subtype="compact_boundary", compact_metadata=metadata):
            collector.compactions += 1
            collector.context_tokens = metadata.post_tokens if metadata else None
        case Attachment() | QueueOperation():
            return collector.add_turn_change(find_turn_change(collector.starts, entry))
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
    return NO_CHANGE


def _add_block(collector: FactsCollector, block: AnyBlock) -> None:
    if isinstance(block, ToolUse):
        collector.calls.add(block.id)
    elif isinstance(block, ToolResult):
        if block.is_error:
            collector.failed.add(block.tool_use_id)
    elif isinstance(block, Image | Document):
        collector.images += 1


_WITH_FACTS = frozenset({System, Attachment, QueueOperation, CustomTitle, AiTitle, Summary, PrLink})
