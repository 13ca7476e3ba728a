"""What a session is about, from one pass over its lines, which may be interrupted and taken up again.

Rules
  1. A title is what a person gave, else what a model gave, else a `summary` line that points into this file, else the
     first prompt. Notes are written again and again: the last one counts.
  2. The project is the first `cwd` of the conversation; the branch is the last one.
  3. Times are the smallest and largest timestamps: lines go back in time on every thirtieth line. Active time leaves
     out pauses of more than five minutes.
  4. Lines may be taken in several goes, with the gathering written down and read back in between: the facts are the
     same. Only the uuids are not written down; a summary that comes after that asks for the file to be read again
     (`is_stale`). No version since 2.1.29 writes one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Document, Image, ToolResult, ToolUse, as_blocks
from unspool.format.entry import Entry
from unspool.format.notes import AiTitle, CustomTitle, PrLink, QueueOperation, Summary
from unspool.format.records import Assistant, Attachment, System, User
from unspool.format.usage import Usage
from unspool.graph.turns import Speaker, is_prompt, is_typed, speaker, text_of, typed_text

PAUSE = 300.0
"""Seconds."""

_MINUTE = len("2026-01-05T09:00:")
_KEPT = 2000
"""How many characters of the first prompt are kept."""


class Facts(msgspec.Struct, frozen=True):
    """What a list of sessions shows of one."""

    title: str = ""
    titled_by: str = "nobody"
    """`person`, `model`, `summary`, `prompt` or `nobody`."""
    first_prompt: str = ""
    """Cut off after 2,000 characters."""
    cwd: str | None = None
    branch: str | None = None
    slug: str | None = None
    versions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    started: str | None = None
    last: str | None = None
    wall: float = 0.0
    """Seconds from the first to the last line."""
    active: float = 0.0
    """The same without pauses."""
    turns: int = 0
    messages: int = 0
    tool_calls: int = 0
    errors: int = 0
    """Failed tool calls and API errors."""
    images: int = 0
    compactions: int = 0
    pull_requests: tuple[str, ...] = ()
    context_tokens: int | None = None
    """The prompt of the last request of the main chain; after a compaction what it left, if that was written."""
    hidden: str | None = None
    """Why a list leaves it out: it is `empty`, a `warm-up`, or a `special fork` the program made for itself."""


def facts(entries: Iterable[Entry]) -> Facts:
    """Return what a session is about."""
    gathering = Gathering()
    for entry in entries:
        gathering.take(entry)
    return gathering.facts()


def is_special(id: str) -> bool:
    """Tell the forks that the program makes for itself by their ids."""
    return id.startswith(_SPECIAL)


class Gathering(msgspec.Struct, omit_defaults=True):
    """What was seen of a session so far."""

    cwd: str | None = None
    branch: str | None = None
    slug: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summaries: list[tuple[str | None, str]] = []
    versions: dict[str, None] = {}
    models: dict[str, int] = {}
    spans: list[tuple[float, float]] = []
    """When there was activity, without pauses; in order and apart."""
    started: str | None = None
    last: str | None = None
    is_behind: bool = False
    """Whether the last span ends before `last`."""
    answers: set[str] = set()
    calls: set[str] = set()
    failed: set[str] = set()
    prompts: int = 0
    typed: int = 0
    """Prompts of a person."""
    first: tuple[int, str] | None = None
    """The place and the words of the first of them that has any."""
    waiting: list[tuple[int, str]] = []
    """The places and words of queued prompts that no line has repeated yet."""
    api_errors: int = 0
    images: int = 0
    compactions: int = 0
    pull_requests: dict[str, None] = {}
    context_tokens: int | None = None
    in_main: bool = False
    """Whether any message is of the main chain."""
    agent_id: str | None = None
    starts_warm: bool | None = None
    """Whether the first user line is a warm-up."""
    own: set[str] = set()
    """The lines of this file that summaries point to, as far as they are known to be of it."""
    uuids: set[str] | None = set()
    """Nothing once written down."""
    is_stale: bool = False

    def take(self, entry: Entry) -> None:
        """Look at a line. Most lines are no news: their type is asked once, not case by case."""
        record = entry.record
        if record.timestamp:
            self._time(record.timestamp)
        if record.uuid:
            if self.uuids is not None:
                self.uuids.add(record.uuid)
            elif self.summaries:
                self.own.update(leaf for leaf, _ in self.summaries if leaf == record.uuid)
        kind = type(record)
        if kind is User or kind is Assistant:
            self._message(entry.offset, record)  # type: ignore[arg-type]
        elif kind in _NOTED:
            self._note(entry)

    def written_down(self) -> Gathering:
        """Return it without the uuids, which would be a tenth of a store."""
        found = {leaf for leaf, _ in self.summaries if leaf and leaf in (self.uuids or ())}
        return msgspec.structs.replace(self, uuids=None, own=self.own | found)

    def facts(self) -> Facts:
        """Return what the lines so far say."""
        first = min((found for found in (self.first, *self.waiting) if found), default=(0, ""))[1]
        title, titled_by = self._title(first)
        self._catch_up()
        spans = self.spans
        return Facts(
            title=title,
            titled_by=titled_by,
            first_prompt=first,
            cwd=self.cwd,
            branch=self.branch,
            slug=self.slug,
            versions=tuple(self.versions),
            models=tuple(sorted(self.models, key=lambda model: -self.models[model])),
            started=self.started,
            last=self.last,
            wall=round(spans[-1][1] - spans[0][0], 3) if spans else 0.0,
            active=round(sum(end - start for start, end in spans), 3),
            turns=self.typed + len(self.waiting),
            messages=self.prompts + len(self.answers),
            tool_calls=len(self.calls),
            errors=len(self.failed) + self.api_errors,
            images=self.images,
            compactions=self.compactions,
            pull_requests=tuple(self.pull_requests),
            context_tokens=self.context_tokens,
            hidden=self._hidden(),
        )

    def _message(self, place: int, record: User | Assistant) -> None:
        """Look at a message. Most of what it says has been said before: it is compared, not set again."""
        if self.cwd is None:
            self.cwd = record.cwd
        if record.git_branch and record.git_branch != self.branch:
            self.branch = record.git_branch
        if record.slug:
            self.slug = record.slug
        if record.version:
            self.versions[record.version] = None
        if not self.in_main:
            self.in_main = not record.is_sidechain
            self.agent_id = self.agent_id or record.agent_id
        if isinstance(record, Assistant):
            self._answer(place, record)
        else:
            self._prompt(place, record)

    def _prompt(self, place: int, record: User) -> None:
        self.prompts += 1
        content = record.message.content
        if not isinstance(content, str):
            for block in content:
                self._block(block)
        who = speaker(record)
        if who is Speaker.HUMAN:
            self._typed(place, typed_text(record.message.blocks))
        if self.starts_warm is None:
            self.starts_warm = who is Speaker.WARMUP
        if self.waiting:
            self._said(text_of(record.message.blocks))

    def _answer(self, place: int, record: Assistant) -> None:
        message = record.message
        self.answers.add(message.id or f"line {place}")
        if record.is_api_error_message:
            self.api_errors += 1
        model = message.model
        if model and model != "<synthetic>":
            self.models[model] = self.models.get(model, 0) + 1
            if message.usage and not record.is_sidechain:
                self.context_tokens = _prompt_tokens(message.usage)
        if not isinstance(message.content, str):
            for block in message.content:
                self._block(block)

    def _note(self, entry: Entry) -> None:
        match entry.record:
            case System(subtype="compact_boundary", compact_metadata=metadata):
                self.compactions += 1
                self.context_tokens = metadata.post_tokens if metadata else None
            case Attachment(attachment=QueuedCommand() as queued):
                text = text_of(as_blocks(queued.prompt))
                self._said(text)
                if is_prompt(queued):
                    self._typed(entry.offset, text)
            case QueueOperation(operation="enqueue", content=content) if content:
                if is_typed(text := text_of(as_blocks(content))):
                    self.waiting.append((entry.offset, text.strip()[:_KEPT]))
            case CustomTitle(custom_title=title) if title:
                self.custom_title = title
            case AiTitle(ai_title=title) if title:
                self.ai_title = title
            case Summary(leaf_uuid=leaf, summary=summary):
                self.summaries.append((leaf, summary or ""))
                self.is_stale = self.is_stale or self.uuids is None
            case PrLink(pr_url=url) if url:
                self.pull_requests[url] = None
            case _:
                pass

    def _typed(self, place: int, text: str) -> None:
        self.typed += 1
        if self.first is None and text.strip():
            self.first = (place, text.strip()[:_KEPT])

    def _said(self, text: str) -> None:
        """Forget the queued prompts that a line repeats: they are not prompts of their own."""
        if self.waiting:
            words = text.strip()[:_KEPT]
            self.waiting = [queued for queued in self.waiting if queued[1] != words]

    def _title(self, first_prompt: str) -> tuple[str, str]:
        """Return the title and who gave it."""
        own = [summary for leaf, summary in self.summaries if leaf in self.own or leaf in (self.uuids or ())]
        choices = [
            (self.custom_title, "person"),
            (self.ai_title, "model"),
            (own[-1] if own else None, "summary"),
            (" ".join(first_prompt.split())[:200], "prompt"),
        ]
        return next(((title, who) for title, who in choices if title), ("", "nobody"))

    def _hidden(self) -> str | None:
        if self.in_main:
            return None
        if not self.prompts and not self.answers:
            return "empty"
        if is_special(self.agent_id or ""):
            return "special fork"
        return "warm-up" if self.starts_warm else None

    def _block(self, block: AnyBlock) -> None:
        if isinstance(block, ToolUse):
            self.calls.add(block.id)
        elif isinstance(block, ToolResult):
            if block.is_error:
                self.failed.add(block.tool_use_id)
        elif isinstance(block, Image | Document):
            self.images += 1

    def _time(self, stamp: str) -> None:
        last = self.last
        if last and stamp[:_MINUTE] == last[:_MINUTE] and stamp >= last and stamp[-1] == last[-1] == "Z":
            self.last, self.is_behind = stamp, True  # in the same minute: no pause, and to be read when it is asked for
            return
        self._catch_up()
        moment = _moment(stamp)
        if moment is None:
            return
        spans = self.spans
        if spans and spans[-1][0] <= moment <= spans[-1][1] + PAUSE:  # nearly always
            start, end = spans[-1]
            if moment > end:
                spans[-1] = (start, moment)
                self.last = stamp
            return
        self._insert(moment)
        if moment == spans[0][0]:
            self.started = stamp
        if moment == spans[-1][1]:
            self.last = stamp

    def _catch_up(self) -> None:
        """Let the last span end with the last time."""
        if self.is_behind:
            end = _moment(self.last or "")
            if end is not None:
                self.spans[-1] = (self.spans[-1][0], end)
            self.is_behind = False

    def _insert(self, moment: float) -> None:
        """Put a moment among the spans; it may lengthen one or join two."""
        spans = self.spans
        at = bisect_left(spans, (moment, moment))
        start = end = moment
        if at and moment - spans[at - 1][1] <= PAUSE:
            at -= 1
            start, end = spans[at][0], max(spans[at][1], moment)
            del spans[at]
        if at < len(spans) and spans[at][0] - end <= PAUSE:
            start, end = min(start, spans[at][0]), max(end, spans[at][1])
            del spans[at]
        spans.insert(at, (start, end))


_SPECIAL = ("acompact", "aprompt_suggestion", "aside_question", "asession_memory", "aextract_memories", "aauto_dream")
_NOTED = frozenset({System, Attachment, QueueOperation, CustomTitle, AiTitle, Summary, PrLink})


def _prompt_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def _moment(stamp: str) -> float | None:
    """Return a time in seconds; None for what is none, or names no zone."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
