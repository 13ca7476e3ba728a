"""Decides when a conversation is compacted: before a request that is too long, and when the user asks for it.

How it is compacted is in the package `compaction`. This class runs it beside the turn and writes the result.

Rules
  1. First the lines (boundary and summary, both or neither), then the messages in memory.
  2. An interrupt ends a summary that is being written, and leaves everything as it was.
  3. A request that was refused for its length is sent again a few times at most, each time shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from unspool.api import ApiResponse, ResponseAccumulator, RetryWait
from unspool.client import events
from unspool.client.compaction.token_window import TokenWindow
from unspool.client.loop.agent_hooks import AgentHooks
from unspool.client.loop.inbox import Emit, EventQueue, JobEnded
from unspool.client.loop.request import MIN_THINKING_BUDGET
from unspool.client.protocols import Model
from unspool.client.session.transcript import Transcript, to_blocks
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed

if TYPE_CHECKING:
    from unspool.client.compaction.compact import CompactedMessages

Trigger: TypeAlias = Literal["auto", "manual"]

_MAX_REFUSALS = 5
"""How often in a row a request that was refused for its length is shortened further."""


@dataclass(eq=False, kw_only=True)
class CompactionPolicy:
    """Keeps the requests of one agent within the context window."""

    window: TokenWindow
    transcript: Transcript
    queue: EventQueue
    model: Model
    build_request: Callable[[], tuple[Json, tuple[str, ...]]]
    add_usage: Callable[[str | None, Json], object]
    after_boundary: Callable[[], None]
    hooks: AgentHooks
    tokens: int = field(default=0, init=False)
    """About how many tokens the next request has."""
    _refusals: int = field(default=0, init=False)

    async def before_prompt(self, content: list[Json], emit: Emit) -> None:
        """Compact, if a prompt would not fit, before it is written: so it stands whole after the boundary."""
        body = self._request_body()
        coming = [{"role": "user", "content": to_blocks(content)}]
        tokens = self.window.tokens({**body, "messages": [*body["messages"], *coming]})
        # A prompt that alone is too long is not helped by a compaction: it is cut when it is sent.
        if self.window.must_shorten(tokens) and body["messages"]:
            await self._compact("auto", body, emit, coming=coming)

    def estimate_tokens(self) -> int:
        """Return about how many tokens the conversation has now; 0 if there is none."""
        body = self._request_body()
        return self.window.tokens(body) if body["messages"] else 0

    async def before_request(self) -> None:
        """Compact if the next request is too long."""
        body = self._request_body()
        self.tokens = self.window.tokens(body)
        if self.window.must_shorten(self.tokens):
            await self._compact("auto", body, self.queue.emit)

    async def summarize(self, hint: str = "") -> None:
        """Replace the conversation by a summary, because the user asks for it; `ApiFailed` if there is none."""
        body = self._request_body()
        if body["messages"]:
            await self._compact("manual", body, self.queue.emit, hint=hint)

    def learn_refusal(self, failed: ApiFailed) -> bool:
        """Learn the size of the window from a refusal; tell whether a shorter request may be accepted."""
        self._refusals += 1
        return self._refusals <= _MAX_REFUSALS and self.window.learn_refusal(failed.message, failed.status)

    def learn_usage(self, usage: Json, stop_reason: str | None) -> None:
        """Learn from the usage of a response, and from why it ended."""
        self._refusals = 0
        self.window.learn_usage(usage)
        if stop_reason == "model_context_window_exceeded":
            self.window.learn_full()

    def fit_answer(self, body: Json) -> Json:
        """Return a request whose answer fits the window too; without thinking where that would not fit."""
        self.tokens = self.window.tokens(body)
        max_tokens = self.window.answer_tokens(self.tokens, body["max_tokens"])
        fitted = {**body, "max_tokens": max_tokens}
        thinking = body.get("thinking")
        if isinstance(thinking, dict) and thinking.get("type") == "enabled":
            budget = min(int(thinking["budget_tokens"]), max_tokens - 1)
            if budget < MIN_THINKING_BUDGET:
                del fitted["thinking"]
            else:
                fitted["thinking"] = {**thinking, "budget_tokens": budget}
        return fitted

    def _request_body(self) -> Json:
        """Return the next request with the messages as they are stored: without cache marks."""
        body, _ = self.build_request()
        return {**body, "messages": self.transcript.conversation.messages}

    async def _compact(
        self, trigger: Trigger, body: Json, emit: Emit, *, coming: list[Json] | None = None, hint: str = ""
    ) -> None:
        """Compact in a job, so that it can be interrupted, and emit what happens meanwhile."""
        # Most conversations are never compacted: the modules that do it are loaded when the first one is.
        from unspool.client.compaction import compact

        work: Coroutine[Any, Any, CompactedMessages | None]
        ask = _SummaryRequests(self, trigger, hint).ask
        if trigger == "manual":
            work = compact.summarize(body, self.window, ask, hint)
        else:
            work = compact.compact_if_needed(body, self.window, ask, coming=coming or ())
        job = self.queue.start("room", work)
        try:
            while True:
                item = await self.queue.take()
                if isinstance(item, JobEnded) and item.job is job:
                    break
                if isinstance(item, events.HookReported):
                    for record in item.records:
                        self.transcript.write_attachment(record)
                if isinstance(item, events.ChatEvent):
                    emit(cast("events.AnyEvent", item))
        finally:
            job.cancel()
            await asyncio.wait({job})
        result: CompactedMessages | None = job.result()
        if result is not None:
            emit(self._apply(result, trigger))
            if result.summary is not None:
                await self.hooks.on_compaction_end()
                await self.hooks.after_compaction(trigger, result.summary)

    def _apply(self, result: CompactedMessages, trigger: Trigger) -> events.ContextCompacted:
        if not result.fits:
            words = f"prompt is too long: {result.after} tokens > {self.window.size} maximum"
            raise ApiFailed(
                words,
                hint="shorten CLAUDE.md or use fewer tools; they fill the context window without any conversation",
                status=400,
            )
        # Pruned or truncated messages are not written: the file has all of it, and a resumed session is pruned again.
        if result.summary is None:
            self.transcript.conversation.replace(result.messages)
        else:
            self.transcript.write_boundary(result.summary, trigger, result.before)
            self.after_boundary()
        self.tokens = self.window.used = result.after
        return events.ContextCompacted(trigger=trigger, how=result.how, before=result.before, after=result.after)

    async def ask(self, body: Json) -> ApiResponse:
        """Request a summary; it is no part of the conversation, but its usage counts."""
        accumulator = ResponseAccumulator()
        async with aclosing(self.model.events(body)) as stream:
            async for event in stream:
                accumulator.add(event)
                if isinstance(event, RetryWait):
                    self.queue.put(events.RetryScheduled(**msgspec.structs.asdict(event)))
        response = accumulator.response()
        self.add_usage(response.model, response.usage)
        return response


class _SummaryRequests:
    """The requests for the summary of one compaction: before the first one the `PreCompact` hooks are run."""

    def __init__(self, policy: CompactionPolicy, trigger: Trigger, hint: str) -> None:
        self._policy, self._trigger, self._hint = policy, trigger, hint
        self._instructions: str | None = None

    async def ask(self, body: Json) -> ApiResponse:
        """Request a summary, with what hooks want it to keep; `ApiFailed` if a hook refuses it."""
        if self._instructions is None:
            verdict = await self._policy.hooks.before_compaction(self._trigger, self._hint)
            if verdict.blocks or verdict.stops is not None:
                why = "; ".join(verdict.blocks) or verdict.stops
                raise ApiFailed(f"a PreCompact hook refused the summary: {why}", hint="see `hooks` in the settings")
            self._instructions = "\n".join(verdict.contexts)
        if self._instructions:
            *earlier, last = body["messages"]
            content = [*to_blocks(last["content"]), {"type": "text", "text": self._instructions}]
            body = {**body, "messages": [*earlier, {**last, "content": content}]}
        return await self._policy.ask(body)
