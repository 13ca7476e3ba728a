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
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from unspool.format.projections import Glance, GlanceBlock
from unspool.graph.speakers import Speaker, Spoken, speaker_of, typed_of

if TYPE_CHECKING:  # to look at lines at a glance, the types of all of them need not be loaded
    from unspool.format.base import BilledUsage, Usage
    from unspool.format.records import AnyRecord, Assistant, User

PAUSE = 300.0
"""Seconds."""

_MINUTE = len("2026-01-05T09:00:")
KEPT = 2000
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

    def take_glance(self, place: int, line: Glance) -> bool:
        """Look at a line; tell whether a glance was enough. If not, nothing of it was taken."""
        kind = line.type
        if kind in _TOLD and _wants_more(line):
            return False
        self.see(line)
        if kind == "assistant":
            self.answer(place, line)
            if type(content := line.message.content) is tuple:
                self._blocks(content)
        elif kind == "user":
            self._glance_at_prompt(place, line)
        return True

    def _glance_at_prompt(self, place: int, line: Glance) -> None:
        content = line.message.content
        if isinstance(content, str):
            texts, has_result = [content] if content else [], False
        else:
            texts = [block.text for block in content if block.type == "text"]
            has_result = self._blocks(content)
        self.prompt(place, line, texts, has_result=has_result)

    def _blocks(self, content: tuple[GlanceBlock, ...]) -> bool:
        """Look at blocks; tell whether one is the result of a tool."""
        has_result = False
        for block in content:
            kind = block.type
            if kind == "tool_use":
                self.calls.add(block.id)
            elif kind == "tool_result":
                has_result = True
                if block.is_error:
                    self.failed.add(block.tool_use_id)
            elif kind in _IMAGES:
                self.images += 1
        return has_result

    def see(self, record: Glance | AnyRecord) -> None:
        """Look at what lines of all types have."""
        if stamp := record.timestamp:
            last = self.last
            if last and stamp[:_MINUTE] == last[:_MINUTE] and stamp >= last and stamp[-1] == last[-1] == "Z":
                self.last, self.is_behind = stamp, True  # in the same minute: no pause, and read when it is asked for
            else:
                self._time(stamp)
        if uuid := record.uuid:
            if self.uuids is not None:
                self.uuids.add(uuid)
            elif self.summaries:
                self.own.update(leaf for leaf, _ in self.summaries if leaf == uuid)

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

    def _message(self, record: Glance | User | Assistant) -> None:
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

    def prompt(self, place: int, record: Glance | User, texts: list[str], *, has_result: bool) -> None:
        """Look at a user's message without its blocks."""
        self._message(record)
        self.prompts += 1
        spoken: Spoken = record
        who = speaker_of(spoken, texts, has_result=has_result)
        if who is Speaker.HUMAN:
            self.typed_at(place, typed_of(texts))
        if self.starts_warm is None:
            self.starts_warm = who is Speaker.WARMUP
        if self.waiting:
            self.said("\n".join(texts))

    def answer(self, place: int, record: Glance | Assistant) -> None:
        """Look at a model's message without its blocks."""
        self._message(record)
        message = record.message
        self.answers.add(message.id or f"line {place}")
        if record.is_api_error_message:
            self.api_errors += 1
        model = message.model
        if model and model != "<synthetic>":
            self.models[model] = self.models.get(model, 0) + 1
            if message.usage and not record.is_sidechain:
                self.context_tokens = _prompt_tokens(message.usage)

    def typed_at(self, place: int, text: str) -> None:
        """Count a prompt of a person."""
        self.typed += 1
        if self.first is None and text.strip():
            self.first = (place, text.strip()[:KEPT])

    def said(self, text: str) -> None:
        """Forget the queued prompts that a line repeats: they are not prompts of their own."""
        if self.waiting:
            words = text.strip()[:KEPT]
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

    def _time(self, stamp: str) -> None:
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
_TOLD = frozenset({"system", "attachment", "queue-operation", "custom-title", "ai-title", "summary", "pr-link"})
"""Types of lines that may say what a glance does not read."""
_IMAGES = frozenset({"image", "document"})


def _wants_more(line: Glance) -> bool:
    match line.type:
        case "system":
            return line.subtype == "compact_boundary"
        case "attachment":
            return line.attachment is not None and line.attachment.type == "queued_command"
        case "queue-operation":
            return line.operation == "enqueue"
        case _:
            return True


def _prompt_tokens(usage: Usage | BilledUsage) -> int:
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def _moment(stamp: str) -> float | None:
    """Return a time in seconds; None for what is none, or names no zone."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
