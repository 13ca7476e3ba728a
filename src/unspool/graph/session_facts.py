"""Collects the facts of a session (title, times, counts) in one pass over its lines that can be stored and continued.

Rules
  1. The title is the one a person gave, else the one a model gave, else a `summary` line that points into this file,
     else the first prompt. Titles are written again and again: the last one counts.
  2. The project is the first `cwd` of the conversation; the branch is the last one.
  3. Times are the smallest and largest timestamps: lines go back in time on every thirtieth line. Active time leaves
     out pauses of more than five minutes.
  4. `turns` are prompts of a person. Turns that begin with a command or an accepted plan (`prompts.py`) are counted
     apart. A plan may give the title as a prompt does; a command only if there is nothing else.
  5. Lines may be added in several steps, with the collector stored and loaded in between: the facts are the same.
     Only the uuids are not stored; a summary that comes after that requires the file to be read again (`is_stale`).
     No version since 2.1.29 writes one.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import msgspec

from unspool.format import Glance, GlanceBlock, count_prompt_tokens, parse_timestamp
from unspool.graph.prompts import (
    NO_CHANGE,
    Speaker,
    TurnChange,
    TurnStart,
    TurnStarts,
    classify_user_line,
    join_typed_texts,
)

if TYPE_CHECKING:  # start-up: `unspool ls` reads projections of lines and never loads the types of all records
    from unspool.format import AnyRecord, Assistant, User

MAX_PAUSE_SECONDS = 300.0
"""A longer pause is not counted as active time."""

_TO_MINUTE = len("2026-01-05T09:00:")
MAX_PROMPT_CHARS = 2000
"""How many characters of the first prompt are kept."""


class SessionFacts(msgspec.Struct, frozen=True):
    """What a list shows of a session."""

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
    """Prompts of a person."""
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
    """Why a list leaves it out: it is `empty`, a `warm-up`, or a `special fork` that Claude Code made for itself."""
    command_turns: int = 0
    """Turns that began with a slash command, or with a plan that a person accepted."""


def choose_title(custom: str | None, ai: str | None, summary: str | None, first_prompt: str) -> tuple[str, str]:
    """Return the title of a session and who gave it (rule 1)."""
    prompt = " ".join(first_prompt.split())[:200]
    choices = ((custom, "person"), (ai, "model"), (summary, "summary"), (prompt, "prompt"))
    return next(((title, author) for title, author in choices if title), ("", "nobody"))


def is_special_fork(id: str) -> bool:
    """Tell by its id whether an agent is a fork that Claude Code makes for itself."""
    return id.startswith(_SPECIAL_FORK_PREFIXES)


class FactsCollector(msgspec.Struct, omit_defaults=True):
    """The facts of the lines so far.

    The store keeps it as msgpack by the names of its fields: renaming one makes stored collectors lose it.
    """

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
    starts: TurnStarts = msgspec.field(default_factory=TurnStarts)
    typed: int = 0
    """Prompts of a person, without those in `queued`."""
    commands: int = 0
    """Turns that began with a command or a plan."""
    first: tuple[int, str] | None = None
    """The offset and the text of the first prompt or plan that has any."""
    first_command: str = ""
    queued: dict[int, str] = {}
    """The texts of prompts that are only in the queue, by offset: a later line may repeat or take back each of them."""
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
    """The uuids that summaries point to and that were found in this file."""
    uuids: set[str] | None = set()
    """None once it was stored."""
    is_stale: bool = False

    def add_glance(self, offset: int, line: Glance) -> bool:
        """Add a projected line; return False, with nothing added, if the whole record is needed."""
        kind = line.type
        if kind in _MAYBE_INCOMPLETE and _needs_whole_record(line):
            return False
        self.add_common_fields(line)
        if kind == "assistant":
            self.add_answer(offset, line)
            if type(content := line.message.content) is tuple:
                self._add_blocks(content)
        elif kind == "user":
            self._add_user_glance(offset, line)
        elif kind == "queue-operation":
            self.starts.add_operation(offset, line.operation, "", line.timestamp)
        return True

    def _add_user_glance(self, offset: int, line: Glance) -> None:
        content = line.message.content
        if isinstance(content, str):
            texts, has_result = [content] if content else [], False
        else:
            texts = [block.text for block in content if block.type == "text"]
            has_result = self._add_blocks(content)
        self.add_user_message(offset, line, texts, has_result=has_result)

    def _add_blocks(self, content: tuple[GlanceBlock, ...]) -> bool:
        """Add blocks; return whether one is the result of a tool."""
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

    def add_common_fields(self, record: Glance | AnyRecord) -> None:
        """Add the timestamp and the uuid, which lines of all types have."""
        if stamp := record.timestamp:
            last = self.last
            if last and stamp[:_TO_MINUTE] == last[:_TO_MINUTE] and stamp >= last and stamp[-1] == last[-1] == "Z":
                self.last, self.is_behind = stamp, True  # the same minute: no pause, parsed only when needed
            else:
                self._add_time(stamp)
        if uuid := record.uuid:
            if self.uuids is not None:
                self.uuids.add(uuid)
            elif self.summaries:
                self.own.update(leaf for leaf, _ in self.summaries if leaf == uuid)

    def without_uuids(self) -> FactsCollector:
        """Return a copy to store, without the uuids, which would be a tenth of a store."""
        own = {leaf for leaf, _ in self.summaries if leaf and leaf in (self.uuids or ())}
        return msgspec.structs.replace(self, uuids=None, own=self.own | own)

    def facts(self) -> SessionFacts:
        """Return the facts of the lines so far."""
        prompts = (self.first, min(self.queued.items(), default=None))
        first = min((prompt for prompt in prompts if prompt), default=(0, self.first_command))[1]
        # The last summary that points into this file.
        own = [summary for leaf, summary in self.summaries if leaf in self.own or leaf in (self.uuids or ())]
        title, titled_by = choose_title(self.custom_title, self.ai_title, own[-1] if own else None, first)
        self._extend_last_span()
        spans = self.spans
        return SessionFacts(
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
            turns=self.typed + len(self.queued),
            messages=self.prompts + len(self.answers),
            tool_calls=len(self.calls),
            errors=len(self.failed) + self.api_errors,
            images=self.images,
            compactions=self.compactions,
            pull_requests=tuple(self.pull_requests),
            context_tokens=self.context_tokens,
            hidden=self._hidden_reason(),
            command_turns=self.commands,
        )

    def _add_message(self, record: Glance | User | Assistant) -> None:
        """Add what user lines and lines of the model have in common."""
        if self.cwd is None:
            self.cwd = record.cwd
        if record.git_branch and record.git_branch != self.branch:  # compared, not set: this runs for every message
            self.branch = record.git_branch
        if record.slug:
            self.slug = record.slug
        if record.version:
            self.versions[record.version] = None
        if not self.in_main:
            self.in_main = not record.is_sidechain
            self.agent_id = self.agent_id or record.agent_id

    def add_user_message(self, offset: int, record: Glance | User, texts: list[str], *, has_result: bool) -> TurnChange:
        """Add a user line without its blocks; return which turn begins with it."""
        self._add_message(record)
        self.prompts += 1
        speaker = classify_user_line(record, texts, has_result=has_result)
        if self.starts_warm is None:
            self.starts_warm = speaker is Speaker.WARMUP
        if speaker is not Speaker.RESULT or self.starts.waiting:  # most lines hold a result and change nothing
            joined = ("\n".join(texts), join_typed_texts(texts))
            return self.add_turn_change(self.starts.add_user(offset, record, speaker, joined))
        return NO_CHANGE

    def add_answer(self, offset: int, record: Glance | Assistant) -> None:
        """Add a line of the model without its blocks."""
        self._add_message(record)
        message = record.message
        # Counted by id: one response is several lines, and history may be appended once more.
        self.answers.add(message.id or f"line {offset}")
        if record.is_api_error_message:
            self.api_errors += 1
        model = message.model
        if model and model != "<synthetic>":
            self.models[model] = self.models.get(model, 0) + 1
            # Sub-agents inside the main file (1.0.x) have contexts of their own.
            if message.usage and not record.is_sidechain:
                self.context_tokens = count_prompt_tokens(message.usage)

    def add_turn_change(self, change: TurnChange) -> TurnChange:
        """Count a turn that begins; leave out queued prompts that turned out to be none. Return the change."""
        for offset in change.dropped:
            self.queued.pop(offset, None)
        if change.began is not None:
            self._count_turn(change.began)
        return change

    def _count_turn(self, start: TurnStart) -> None:
        offset, kind, text, _, is_open = start
        text = text.strip()[:MAX_PROMPT_CHARS]
        if kind is Speaker.COMMAND:
            self.commands += 1
            self.first_command = self.first_command or text
            return
        if is_open:
            self.queued[offset] = text
            return
        if kind is Speaker.PLAN:
            self.commands += 1
        else:
            self.typed += 1
        if self.first is None and text:
            self.first = (offset, text)

    def _hidden_reason(self) -> str | None:
        if self.in_main:
            return None
        if not self.prompts and not self.answers:
            return "empty"
        if is_special_fork(self.agent_id or ""):
            return "special fork"
        return "warm-up" if self.starts_warm else None

    def _add_time(self, stamp: str) -> None:
        self._extend_last_span()
        time = parse_timestamp(stamp)
        if time is None:
            return
        moment = time.timestamp()
        spans = self.spans
        if spans and spans[-1][0] <= moment <= spans[-1][1] + MAX_PAUSE_SECONDS:  # nearly always
            start, end = spans[-1]
            if moment > end:
                spans[-1] = (start, moment)
                self.last = stamp
            return
        self._insert_moment(moment)
        if moment == spans[0][0]:
            self.started = stamp
        if moment == spans[-1][1]:
            self.last = stamp

    def _extend_last_span(self) -> None:
        """Let the last span end with the last timestamp."""
        if self.is_behind:
            if end := parse_timestamp(self.last):
                self.spans[-1] = (self.spans[-1][0], end.timestamp())
            self.is_behind = False

    def _insert_moment(self, moment: float) -> None:
        """Put a time among the spans; it may lengthen one or join two."""
        spans = self.spans
        index = bisect_left(spans, (moment, moment))
        start = end = moment
        if index and moment - spans[index - 1][1] <= MAX_PAUSE_SECONDS:
            index -= 1
            start, end = spans[index][0], max(spans[index][1], moment)
            del spans[index]
        if index < len(spans) and spans[index][0] - end <= MAX_PAUSE_SECONDS:
            start, end = min(start, spans[index][0]), max(end, spans[index][1])
            del spans[index]
        spans.insert(index, (start, end))


_SPECIAL_FORK_PREFIXES = (
    "acompact",
    "aprompt_suggestion",
    "aside_question",
    "asession_memory",
    "aextract_memories",
    "aauto_dream",
)
_MAYBE_INCOMPLETE = frozenset(
    {"system", "attachment", "queue-operation", "custom-title", "ai-title", "summary", "pr-link"}
)
"""Types of lines that may hold facts which the projection does not decode."""
_IMAGES = frozenset({"image", "document"})


def _needs_whole_record(line: Glance) -> bool:
    match line.type:
        case "system":
            return line.subtype == "compact_boundary"
        case "attachment":
            return line.attachment is not None and line.attachment.type == "queued_command"
        case "queue-operation":
            return line.operation != "dequeue"
        case _:
            return True
