"""What a session is about, a line at a time while it is written: goal, output, model, branch, title, tokens. Pure.

Rules
  1. The goal is the first prompt of a person (of a sub-agent: what it was asked), 200 characters of it; the recent
     output the last text of the model, 500 characters, or an error in its place.
  2. The folder is that of the first line that names one, the branch that of the last. The program itself
     (`<synthetic>`) is no model.
  3. Cache writes are those that the parts of `cache_creation` name, once for each message: of its lines the one counts
     that counts in `prices/responses.py`. Sub-agents' lines in the session's own file (1.0.x) are billed too.
  4. The context is the prompt of the last request of the main chain; after a compaction what it left, if that is known.
  5. A title is what a person gave, else what a model gave, else a `summary` that points at one of the last lines, else
     the goal.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.base import Usage
from unspool.format.blocks import Text, as_blocks
from unspool.format.meta_records import AiTitle, CustomTitle, QueueOperation, Summary
from unspool.format.records import AnyRecord, Assistant, Attachment, System, User
from unspool.graph.turns import Speaker, is_prompt, is_typed, speaker, text_of, typed_text
from unspool.live.status import moment
from unspool.prices.responses import MOST, SYNTHETIC

GOAL = 200
OUTPUT = 500
_NEWEST = 64
"""Lines that a summary may point at."""


class About(msgspec.Struct):
    """What was seen of a session so far."""

    is_agent: bool = False
    session_id: str | None = None
    """As the first line has it; files of old sub-agents are not named after their session."""
    agent_id: str | None = None
    cwd: str | None = None
    branch: str | None = None
    model: str | None = None
    goal: str = ""
    queued: str = ""
    """The first prompt that waited in the queue: the goal, if no other comes."""
    output: str = ""
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    context_tokens: int | None = None
    tokens_5m: int = 0
    tokens_1h: int = 0
    started: datetime | None = None
    is_warmup: bool = False
    counted: dict[str, tuple[int, bool, int, int, int]] = {}
    """By message: output, main chain, prompt; cache writes of 5 minutes and 1 hour."""
    newest: list[str] = []

    @property
    def title(self) -> str:
        """What to call it."""
        return self.custom_title or self.ai_title or self.summary or " ".join((self.goal or self.queued).split())

    def take(self, record: AnyRecord) -> None:
        """Look at a line."""
        if record.uuid:
            self.newest.append(record.uuid)
            del self.newest[:-_NEWEST]
        if self.started is None:
            self.started = moment(record.timestamp)
        match record:
            case User():
                self._envelope(record)
                self._prompt(record)
            case Assistant():
                self._envelope(record)
                self._answer(record)
            case System():
                self._envelope(record)
                if record.subtype == "compact_boundary" and not record.is_sidechain:
                    self.context_tokens = record.compact_metadata.post_tokens if record.compact_metadata else None
            case _:
                self._note(record)

    def _envelope(self, record: User | Assistant | System) -> None:
        self.session_id = self.session_id or record.session_id or record.session_id_again
        self.agent_id = self.agent_id or record.agent_id
        self.cwd = self.cwd or record.cwd
        self.branch = record.git_branch or self.branch

    def _prompt(self, record: User) -> None:
        if self.goal or (record.is_sidechain and not self.is_agent):
            return
        who = speaker(record)
        self.is_warmup = self.is_warmup or who is Speaker.WARMUP
        if who in (Speaker.HUMAN, Speaker.AGENT, Speaker.WARMUP):
            self.goal = typed_text(record.message.blocks).strip()[:GOAL]

    def _answer(self, record: Assistant) -> None:
        message = record.message
        own = self.is_agent or not record.is_sidechain
        if message.usage and message.model != SYNTHETIC:
            self._count(record, message.usage)
        if own and message.model and message.model != SYNTHETIC:
            self.model = message.model
            if message.usage:
                self.context_tokens = _prompt(message.usage)
        if own and (message.model != SYNTHETIC or record.is_api_error_message):
            texts = [block.text for block in message.blocks if isinstance(block, Text) and block.text.strip()]
            self.output = texts[-1].strip()[:OUTPUT] if texts else self.output

    def _count(self, record: Assistant, usage: Usage) -> None:
        id = record.message.id or record.uuid
        parts = usage.cache_creation
        if id is None:
            return
        short = _tamed(parts.ephemeral_5m_input_tokens) if parts else 0
        long = _tamed(parts.ephemeral_1h_input_tokens) if parts else 0
        line = (usage.output_tokens, not record.is_sidechain, _prompt(usage), short, long)
        before = self.counted.get(id)
        if before is None or line[:3] > before[:3]:
            self.counted[id] = line
            self.tokens_5m += short - (before[3] if before else 0)
            self.tokens_1h += long - (before[4] if before else 0)

    def _note(self, record: AnyRecord) -> None:
        match record:
            case CustomTitle(custom_title=title) if title:
                self.custom_title = title
            case AiTitle(ai_title=title) if title:
                self.ai_title = title
            case Summary(summary=title, leaf_uuid=leaf) if leaf in self.newest:
                self.summary = title or self.summary
            case Attachment(attachment=QueuedCommand() as queued) if not self.queued and is_prompt(queued):
                self.queued = text_of(as_blocks(queued.prompt)).strip()[:GOAL]
            case QueueOperation(operation="enqueue", content=content) if content and not self.queued:
                text = text_of(as_blocks(content))
                self.queued = text.strip()[:GOAL] if is_typed(text) else ""
            case _:
                pass


def _prompt(usage: Usage) -> int:
    return _tamed(usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)


def _tamed(number: int) -> int:
    return min(max(number, 0), MOST)
