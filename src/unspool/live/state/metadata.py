"""Collects what a session is about, one record at a time: goal, output, model, branch, title and tokens.

Rules
  1. The goal is the first prompt of a person (of a sub-agent: its task), cut to 200 characters; the recent output is
     the last text of the model, cut to 500 characters, or an error in its place.
  2. The folder is that of the first line that names one, the branch that of the last. `<synthetic>`, which Claude Code
     writes itself, is not a model.
  3. Cache writes are those named by the parts of `cache_creation`, once for each message: of its lines the one counts
     that counts in `prices/responses.py`. Sub-agents' lines in the session's own file (1.0.x) are billed too.
  4. The context is the prompt of the last request of the main chain; after a compaction what it left, if that is known.
  5. The title of a sub-agent is the one that a person gave, else the one that a model gave, else a `summary` that
     points at one of the last lines, else the goal. That of a session is in its facts (`graph/session_facts.py`).
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from unspool.format import (
    AiTitle,
    AnyRecord,
    Assistant,
    Attachment,
    CustomTitle,
    QueuedCommand,
    QueueOperation,
    Summary,
    System,
    Text,
    Usage,
    User,
    as_blocks,
    bound_tokens,
    count_prompt_tokens,
    parse_local_time,
)
from unspool.graph import (
    Speaker,
    choose_title,
    classify_user_record,
    is_queued_prompt,
    is_typed_prompt,
    join_text,
    typed_text,
)
from unspool.prices import SYNTHETIC

MAX_GOAL = 200
MAX_OUTPUT = 500
_RECENT_LINES = 64
"""Lines that a summary may point at: one that points elsewhere belongs to another session."""


class SessionMetadata(msgspec.Struct):
    """What the records of a session, or of one sub-agent, have said so far."""

    is_agent: bool = False
    session_id: str | None = None
    """As the first line has it: files of old sub-agents are not named after their session."""
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    goal: str = ""
    queued: str = ""
    """The first prompt that was queued: it is the goal if there is no other."""
    output: str = ""
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    context_tokens: int | None = None
    tokens_5m: int = 0
    tokens_1h: int = 0
    started: datetime | None = None
    is_warmup: bool = False
    counted_lines: dict[str, tuple[int, bool, int, int, int]] = {}
    """By message id, its line that counts: output tokens, main chain, prompt tokens; cache writes of 5 min and 1 h."""
    recent_uuids: list[str] = []

    @property
    def title(self) -> str:
        """The title to show for the session."""
        return choose_title(self.custom_title, self.ai_title, self.summary, self.goal or self.queued)[0]

    def add_record(self, record: AnyRecord) -> None:
        """Take over what a record says about the session."""
        if record.uuid:
            self.recent_uuids.append(record.uuid)
            del self.recent_uuids[:-_RECENT_LINES]
        if self.started is None:
            self.started = parse_local_time(record.timestamp, UTC)
        if isinstance(record, User | Assistant | System):
            self._add_envelope(record)
        match record:
            case User():
                self._add_prompt(record)
            case Assistant():
                self._add_answer(record)
            case System():
                if record.subtype == "compact_boundary" and not record.is_sidechain:
                    self.context_tokens = record.compact_metadata.post_tokens if record.compact_metadata else None
            case _:
                self._add_note(record)

    def _add_envelope(self, record: User | Assistant | System) -> None:
        self.session_id = self.session_id or record.session_id or record.session_id_again
        self.cwd = self.cwd or record.cwd
        self.branch = record.git_branch or self.branch

    def _add_prompt(self, record: User) -> None:
        if self.goal or (record.is_sidechain and not self.is_agent):
            return
        who = classify_user_record(record)
        self.is_warmup = self.is_warmup or who is Speaker.WARMUP
        if who in (Speaker.HUMAN, Speaker.AGENT, Speaker.WARMUP):
            self.goal = typed_text(record.message.blocks).strip()[:MAX_GOAL]

    def _add_answer(self, record: Assistant) -> None:
        message = record.message
        is_own = self.is_agent or not record.is_sidechain
        if message.usage and message.model != SYNTHETIC:
            self._count_cache_writes(record, message.usage)
        if is_own and message.model and message.model != SYNTHETIC:
            self.model = message.model
            if message.usage:
                self.context_tokens = count_prompt_tokens(message.usage)
        if is_own and (message.model != SYNTHETIC or record.is_api_error_message):
            texts = [block.text for block in message.blocks if isinstance(block, Text) and block.text.strip()]
            self.output = texts[-1].strip()[:MAX_OUTPUT] if texts else self.output

    def _count_cache_writes(self, record: Assistant, usage: Usage) -> None:
        id = record.message.id or record.uuid
        parts = usage.cache_creation
        if id is None:
            return
        short = bound_tokens(parts.ephemeral_5m_input_tokens) if parts else 0
        long = bound_tokens(parts.ephemeral_1h_input_tokens) if parts else 0
        # Every line of a message repeats its usage; the one with the most output counts, as in `prices`.
        line = (usage.output_tokens, not record.is_sidechain, count_prompt_tokens(usage), short, long)
        before = self.counted_lines.get(id)
        if before is None or line[:3] > before[:3]:
            self.counted_lines[id] = line
            self.tokens_5m += short - (before[3] if before else 0)
            self.tokens_1h += long - (before[4] if before else 0)

    def _add_note(self, record: AnyRecord) -> None:
        match record:
            case CustomTitle(custom_title=title) if title:
                self.custom_title = title
            case AiTitle(ai_title=title) if title:
                self.ai_title = title
            case Summary(summary=title, leaf_uuid=leaf) if leaf in self.recent_uuids:
                self.summary = title or self.summary
            case Attachment(attachment=QueuedCommand() as queued) if not self.queued and is_queued_prompt(queued):
                self.queued = join_text(as_blocks(queued.prompt)).strip()[:MAX_GOAL]
            case QueueOperation(operation="enqueue", content=content) if content and not self.queued:
                text = join_text(as_blocks(content))
                self.queued = text.strip()[:MAX_GOAL] if is_typed_prompt(text) else ""
            case _:
                pass
