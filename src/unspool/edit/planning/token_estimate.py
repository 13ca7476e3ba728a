"""Estimates how many tokens a context has, calibrated by the usage that the session itself recorded.

Every response says how many tokens its request had. Between two responses of one conversation the request grew by the
messages in between; a line fitted through those points gives tokens per byte, and what each request has besides (system
prompt and tools, which are not in the file). Where a session has too few responses, or was edited so that its numbers
no longer fit its content, seven bytes are taken for two tokens.

Claude Code takes the usage of the last response for the size of the context. A trimmed copy would be taken for as large
as its source, and compacted as soon as it is resumed. So the last response of a copy is given the estimated size; its
recorded usage is kept beside it (`unspool.usage`). Nothing is lost: usage counts once, in the session where it was
billed (the copy with the smaller numbers never counts).

Rules
  1. What is counted is the conversation: the messages, not what is sent besides them.
  2. Images and documents count a fixed number of tokens each; thinking that was withheld counts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from unspool.edit.planning.draft import EditDraft
from unspool.edit.planning.plan import Payback
from unspool.format import (
    Assistant,
    Document,
    Entry,
    Image,
    RedactedThinking,
    Thinking,
    ToolResult,
    ToolUse,
    Usage,
    count_prompt_tokens,
    decode_raw_line,
    encode_json,
)
from unspool.graph.context import ContextBlock, ContextMessage

if TYPE_CHECKING:
    from unspool.prices import Price

IMAGE_TOKENS = 1600
DOCUMENT_TOKENS = 4000
_DEFAULT_PER_BYTE = 2 / 7
_LEAST_PER_BYTE, _MOST_PER_BYTE = 0.12, 0.6
"""Tokens per byte that are plausible: from long words of code to scripts of three bytes a letter."""
_ENOUGH_POINTS = 4
_RATE_UNIT = 10_000


class ContentSize(NamedTuple):
    """The size of a block or message."""

    bytes: int
    fixed_tokens: int = 0
    """Tokens of images and documents."""


class TokenScale(NamedTuple):
    """Converts sizes to tokens."""

    per_byte: float = _DEFAULT_PER_BYTE
    overhead: int = 0
    """Tokens of each request besides its messages."""

    def tokens(self, sizes: Sequence[ContentSize]) -> int:
        """Return about how many tokens some sizes are."""
        return round(sum(size.bytes for size in sizes) * self.per_byte) + sum(size.fixed_tokens for size in sizes)


def measure_messages(messages: Sequence[ContextMessage]) -> list[ContentSize]:
    """Return the size of each message."""
    return [_measure_blocks(message.blocks) for message in messages]


def fit_token_scale(messages: Sequence[ContextMessage], sizes: Sequence[ContentSize], since: int = 0) -> TokenScale:
    """Fit tokens per byte to the usage of a session's responses; only those on lines from offset `since` on count."""
    points: list[tuple[int, int]] = []
    reached = ContentSize(0)
    for message, size in zip(messages, sizes, strict=True):
        usage = _find_usage(message, since) if message.role == "assistant" else None
        if usage is not None and (prompt := count_prompt_tokens(usage)):
            points.append((reached.bytes, prompt - reached.fixed_tokens))
        reached = ContentSize(reached.bytes + size.bytes, reached.fixed_tokens + size.fixed_tokens)
    count = len(points)
    if count < _ENOUGH_POINTS:
        return TokenScale()
    mean_bytes, mean_tokens = sum(size for size, _ in points) / count, sum(tokens for _, tokens in points) / count
    spread = sum((size - mean_bytes) ** 2 for size, _ in points)
    if not spread:
        return TokenScale()
    slope = sum((size - mean_bytes) * (tokens - mean_tokens) for size, tokens in points) / spread
    if not _LEAST_PER_BYTE <= slope <= _MOST_PER_BYTE:  # the session was edited: its usage is of another content
        return TokenScale()
    return TokenScale(slope, max(0, round(mean_tokens - slope * mean_bytes)))


def estimate_payback(
    before: Sequence[ContentSize],
    after: Sequence[ContentSize],
    scale: TokenScale,
    price: Price | None,
    responses_per_turn: float,
) -> Payback | None:
    """Return what the changed context costs once, and when that is recovered; None if nothing changes."""
    # The API's prompt cache holds up to the first message that differs.
    same = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(after))
    rewritten = scale.tokens(after[same:])
    less = scale.tokens(before) - scale.tokens(after)
    if price is None or (not rewritten and not less):
        return None
    cost = rewritten * price.rates.cache_write_5m // _RATE_UNIT
    saved = less * price.rates.cache_read // _RATE_UNIT
    requests = -(-cost // saved) if saved > 0 else None
    turns = None if requests is None else max(0, round(requests / max(responses_per_turn, 1) + 0.499))
    return Payback(price.model, rewritten, cost, saved, requests, turns)


def _measure_blocks(blocks: Iterable[ContextBlock]) -> ContentSize:
    total = fixed = 0
    for block in blocks:
        size, tokens = _measure_block(block)
        total += size
        fixed += tokens
    return ContentSize(total, fixed)


def _measure_block(block: ContextBlock) -> tuple[int, int]:
    """Return the size of a block. A plain tuple: a context has thousands of blocks, and is measured several times."""
    if block.override is not None or block.entry is None or block.text is not None:
        return (len(block.text) if block.text is not None else len(encode_json(block.override))), 0
    content = block.entry.content_blocks
    if not content:
        return 0, 0
    found = content[block.index]
    # The two most frequent types first: `match` tries its cases one after the other.
    if type(found) is ToolResult:
        return _measure_result(found)
    if type(found) is ToolUse:
        return len(found.name) + len(encode_json(found.input)), 0
    match found:
        case Thinking(thinking=words):
            return len(words), 0
        case RedactedThinking():
            return 0, 0
        case Image():
            return 0, IMAGE_TOKENS
        case Document():
            return 0, DOCUMENT_TOKENS
        case other:
            return len(encode_json(other)), 0


def write_context_size(
    draft: EditDraft, messages: Sequence[ContextMessage], sizes: Sequence[ContentSize], scale: TokenScale
) -> None:
    """Give the last response that stays the estimated size of the new context as its usage.

    `sizes` are those of the messages.
    """
    entries: list[Entry | None] = []
    left: list[ContentSize] = []
    for message, size in zip(messages, sizes, strict=True):
        blocks = [b for b in message.blocks if b.entry is None or draft.keeps(b.entry, b.index)]
        left.append(size if len(blocks) == len(message.blocks) else _measure_blocks(blocks))
        entries += [block.entry for block in blocks]
    # Stubs are not written yet: what they save is subtracted.
    tokens = scale.tokens([*left, ContentSize(-draft.shortened)]) + scale.overhead
    last = next((entry for entry in reversed(entries) if entry is not None and _read_usage(entry) is not None), None)
    if last is None:
        return
    record = last.record
    assert isinstance(record, Assistant)
    for entry in draft.text.entries:
        other = entry.record
        # A message has a line for each block, and each line repeats the usage.
        same = entry is last or (isinstance(other, Assistant) and other.message.id == record.message.id is not None)
        if same and draft.keeps(entry):
            _write_usage(draft, entry, tokens)


def _measure_result(result: ToolResult) -> tuple[int, int]:
    length = memoryview(result.encoded_content).nbytes
    media = [] if result.is_text or not length else [b for b in result.blocks if isinstance(b, Image | Document)]
    if not media:
        return length, 0
    return max(0, length - sum(len(b.source.data or "") for b in media)), IMAGE_TOKENS * len(media)


def _find_usage(message: ContextMessage, since: int) -> Usage | None:
    for block in message.blocks:
        if block.entry is not None and isinstance(block.entry.record, Assistant) and block.entry.offset >= since:
            return block.entry.record.message.usage
    return None


def _read_usage(entry: Entry) -> dict[str, Any] | None:
    """Return the usage on a response's line as it is in the file, with fields that are not known here."""
    record = entry.record
    if not isinstance(record, Assistant) or not record.message.usage or record.message.model == "<synthetic>":
        return None
    try:
        usage = msgspec.json.decode(decode_raw_line(entry.raw).message.usage)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return usage if isinstance(usage, dict) else None


def _write_usage(draft: EditDraft, entry: Entry, tokens: int) -> None:
    usage, record = _read_usage(entry), entry.record
    if usage is None or not isinstance(record, Assistant) or record.message.usage is None:
        return
    # The decoded numbers, because those of the file may be of any type.
    if record.message.usage.cache_read_input_tokens + record.message.usage.input_tokens <= tokens:
        return
    path = ("message", "usage")
    draft.change_value(entry, (*path, "input_tokens"), 0)
    draft.change_value(entry, (*path, "cache_creation_input_tokens"), 0)
    draft.change_value(entry, (*path, "cache_read_input_tokens"), max(tokens, 0))
    draft.change_value(entry, ("unspool",), {"usage": usage})
