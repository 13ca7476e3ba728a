"""What a session is about, from one pass over its lines.

Rules
  1. A title is what a person gave, else what a model gave, else a `summary` line that points into this file, else the
     first prompt. Notes are written again and again: the last one counts.
  2. The project is the first `cwd` of the conversation; the branch is the last one.
  3. Times are the smallest and largest timestamps: lines go back in time on every thirtieth line. Active time leaves
     out pauses of more than five minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import msgspec

from unspool.format.blocks import AnyBlock, Document, Image, ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.notes import AiTitle, CustomTitle, PrLink, Summary
from unspool.format.records import Assistant, System, User
from unspool.graph.turns import prompts

PAUSE = 300.0
"""Seconds."""


class Facts(msgspec.Struct, frozen=True):
    """What a list of sessions shows of one."""

    title: str = ""
    titled_by: str = "nobody"
    """`person`, `model`, `summary`, `prompt` or `nobody`."""
    first_prompt: str = ""
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


def facts(entries: Sequence[Entry]) -> Facts:
    """Return what a session is about."""
    seen = _Seen()
    for entry in entries:
        seen.take(entry)
    typed = prompts(entries)
    first = next((text.strip() for _, _, text in typed if text.strip()), "")
    title, titled_by = seen.title(first, entries)
    started, last, wall, active = _times(seen.times)
    return Facts(
        title=title,
        titled_by=titled_by,
        first_prompt=first,
        cwd=seen.cwd,
        branch=seen.branch,
        slug=seen.slug,
        versions=tuple(seen.versions),
        models=tuple(model for model, _ in seen.models.most_common()),
        started=started,
        last=last,
        wall=wall,
        active=active,
        turns=len(typed),
        messages=seen.prompts + len(seen.answers),
        tool_calls=len(seen.calls),
        errors=len(seen.failed) + seen.api_errors,
        images=seen.images,
        compactions=seen.compactions,
        pull_requests=tuple(seen.pull_requests),
    )


class _Seen:
    """What was seen so far."""

    def __init__(self) -> None:
        self.cwd: str | None = None
        self.branch: str | None = None
        self.slug: str | None = None
        self.custom_title: str | None = None
        self.ai_title: str | None = None
        self.summaries: list[Summary] = []
        self.versions: dict[str, None] = {}
        self.models: Counter[str] = Counter()
        self.times: list[str] = []
        self.answers: set[str] = set()
        self.calls: set[str] = set()
        self.failed: set[str] = set()
        self.prompts = self.api_errors = self.images = self.compactions = 0
        self.pull_requests: dict[str, None] = {}

    def take(self, entry: Entry) -> None:
        """Look at a line. Most lines are no news: their type is asked once, not case by case."""
        record = entry.record
        if record.timestamp:
            self.times.append(record.timestamp)
        kind = type(record)
        if kind is User or kind is Assistant:
            self._message(entry)
        elif kind in _NOTED:
            self._note(entry)

    def _message(self, entry: Entry) -> None:
        record = entry.record
        assert isinstance(record, User | Assistant)
        self.cwd = self.cwd or record.cwd
        self.branch = record.git_branch or self.branch
        self.slug = record.slug or self.slug
        if record.version:
            self.versions[record.version] = None
        message = record.message
        if isinstance(record, User):
            self.prompts += 1
        else:
            self.answers.add(message.id or f"line {entry.offset}")
            if message.model and message.model != "<synthetic>":
                self.models[message.model] += 1
            self.api_errors += record.is_api_error_message
        if not isinstance(message.content, str):
            self._blocks(message.content)

    def _note(self, entry: Entry) -> None:
        match entry.record:
            case System(subtype="compact_boundary"):
                self.compactions += 1
            case CustomTitle(custom_title=title) if title:
                self.custom_title = title
            case AiTitle(ai_title=title) if title:
                self.ai_title = title
            case Summary() as summary:
                self.summaries.append(summary)
            case PrLink(pr_url=url) if url:
                self.pull_requests[url] = None
            case _:
                pass

    def title(self, first_prompt: str, entries: Sequence[Entry]) -> tuple[str, str]:
        """Return the title and who gave it."""
        uuids = {entry.record.uuid for entry in entries} - {None} if self.summaries else set()
        own = [summary.summary for summary in self.summaries if summary.leaf_uuid in uuids]
        choices = [
            (self.custom_title, "person"),
            (self.ai_title, "model"),
            (own[-1] if own else None, "summary"),
            (" ".join(first_prompt.split())[:200], "prompt"),
        ]
        return next(((title, who) for title, who in choices if title), ("", "nobody"))

    def _blocks(self, blocks: tuple[AnyBlock, ...]) -> None:
        for block in blocks:
            match block:
                case ToolUse(id=id):
                    self.calls.add(id)
                case ToolResult(tool_use_id=id, is_error=True):
                    self.failed.add(id)
                case Image() | Document():
                    self.images += 1
                case _:
                    pass


_NOTED = frozenset({System, CustomTitle, AiTitle, Summary, PrLink})


def _times(stamps: list[str]) -> tuple[str | None, str | None, float, float]:
    ordered = sorted((moment, stamp) for stamp in stamps if (moment := _moment(stamp)) is not None)
    if not ordered:
        return None, None, 0.0, 0.0
    (first, started), (final, last) = ordered[0], ordered[-1]
    steps = (later - earlier for (earlier, _), (later, _) in pairwise(ordered))
    active = sum(step for step in steps if step <= PAUSE)
    return started, last, round(final - first, 3), round(active, 3)


def _moment(stamp: str) -> float | None:
    """Return a time in seconds; None for what is none, or names no zone."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None
