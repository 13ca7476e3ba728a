"""Runs the turns of one agent: requests, responses and tool calls, until the model has nothing more to do.

    prompt ─▶ take queued input ─▶ compact if needed ─▶ request and response ─▶ run the tool calls ─▶ end
                     ▲                                                                │
                     └────────────────────────────────────────────────────────────────┘
Rules
  1. Whatever ends a turn, the session can be resumed, and `TurnEnded` says why it ended.
  2. The loop knows neither a terminal nor files: it writes through the transcript and asks through the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from unspool.api import ApiResponse
from unspool.client import events
from unspool.client.compaction.token_window import parse_too_long
from unspool.client.events import Ending
from unspool.client.hooks.registry import HookVerdict
from unspool.client.loop.agent_hooks import MAX_STOP_BLOCKS, AgentHooks, TypedCommand
from unspool.client.loop.compaction_policy import CompactionPolicy
from unspool.client.loop.inbox import Emit, EventQueue, Interrupted, ListenerFailed, TurnStopped
from unspool.client.loop.model_calls import ModelCalls
from unspool.client.loop.tool_calls import ToolRunner
from unspool.client.loop.usage_totals import TurnUsage
from unspool.client.session import wordings
from unspool.client.session.transcript import THINKING_TYPES, Transcript, text_of
from unspool.client.tool_result import Json
from unspool.errors import ApiFailed, UnspoolError, Unwritable

MAX_CONTINUATIONS = 3
"""How often in a row a response that hit a length limit is continued."""
DECLINED = "The model declined to answer this."


class TurnPrompt(NamedTuple):
    """What a turn begins with."""

    content: list[Json]
    write: Callable[[], tuple[str, str]]
    """Writes the prompt, and returns its text and its uuid."""
    prepare: Callable[[], None] = lambda: None
    """Called before anything else is written."""
    session_source: str | None = None
    """How the session starts with this prompt: `startup` or `resume`; None: it has started already."""
    typed: str | None = None
    """What the user typed, without the files and expansions that are sent with it; None: all of the content."""
    command: TypedCommand | None = None
    """The command that the content is the expansion of."""
    is_typed: bool = True
    """Whether a user wrote it: hooks of prompts are called only then."""


@dataclass(eq=False, kw_only=True)
class AgentLoop:
    """Runs the turns of one agent, one at a time."""

    transcript: Transcript
    queue: EventQueue
    take_input: Callable[[], None]
    compaction: CompactionPolicy
    model_calls: ModelCalls
    tools: ToolRunner
    usage: TurnUsage
    hooks: AgentHooks
    _stop_blocks: int = field(default=0, init=False)
    """How often hooks have sent the model back to work in this turn."""
    _continuations: int = field(default=0, init=False)
    _ending: Ending = field(default="failed", init=False)
    _text: str = field(default="", init=False)

    async def run_turn(self, prompt: TurnPrompt, emit: Emit) -> events.TurnEnded:
        """Take a prompt and work until the turn ends; return how it ended, which is not emitted here."""
        timer = self._start_turn(emit)
        try:
            await self._begin(prompt)
            while not await self._step():
                pass
        except Interrupted:
            self._ending = "max_seconds" if self.usage.is_out_of_time() else "interrupted"
            self._write_interrupt()
        except TurnStopped as stopped:
            self._ending, self._text = stopped.ending, self._text if stopped.text is None else stopped.text
        except (asyncio.CancelledError, ListenerFailed):
            self._write_interrupt()
            raise
        except UnspoolError as error:
            self.queue.emit(self._fail(error))
            if isinstance(error, ApiFailed) and self.hooks.agent_type is None:
                with suppress(Interrupted):
                    await self.hooks.on_failure(error.kind or "unknown", f"API Error: {error.message}")
        finally:
            if timer is not None:
                timer.cancel()
            await self.queue.stop()
        return self._end_turn()

    async def _step(self) -> bool:
        """Request a response and run its tool calls; tell whether the turn is over."""
        if (limit := self.usage.reached_limit()) is not None:
            raise TurnStopped(limit)
        self.take_input()
        await self.compaction.before_request()
        await self.model_calls.next_response()
        await self._run_tools()
        return await self._is_over()

    def _start_turn(self, emit: Emit) -> asyncio.TimerHandle | None:
        """Reset what is counted; return the timer that interrupts the turn when its time is up."""
        self.queue.begin_turn(emit)
        self.tools.denials.clear()
        self.usage.reset()
        self._continuations, self._ending, self._text = 0, "failed", ""
        self._stop_blocks = 0
        seconds = self.usage.limits.seconds
        return None if seconds is None else asyncio.get_running_loop().call_later(seconds, self.queue.interrupt)

    async def _begin(self, prompt: TurnPrompt) -> None:
        """Compact if the prompt would not fit, then write it: whatever happens before, the prompt is not lost."""
        compacted: list[events.AnyEvent] = []
        interrupt: Interrupted | None = None
        prompt.prepare()
        prompt_text, spoke_last = text_of(prompt.content) if prompt.typed is None else prompt.typed, ""
        if not prompt.is_typed:
            hooked = HookVerdict()
        elif self.hooks.agent_type is None:
            try:
                hooked, spoke_last = await self.hooks.on_prompt(prompt_text, prompt.session_source, prompt.command)
            except Interrupted as error:
                hooked, interrupt = HookVerdict(), error
        else:
            # They add context; no version of Claude Code lets them refuse an agent.
            hooked = (await self.hooks.on_subagent_start())._replace(blocks=())
        if hooked.blocks or hooked.stops is not None:
            self._refuse(prompt_text, hooked, spoke_last)
        try:
            if interrupt is None:
                await self.compaction.before_prompt(prompt.content, compacted.append)
        except Interrupted as error:
            interrupt = error
        except ApiFailed:
            pass  # the request will fail in the same way, and then the prompt is in the file
        text, uuid = prompt.write()
        for event in (events.TurnBegan(text=text, uuid=uuid), *compacted):
            self.queue.emit(event)
        self.hooks.write(hooked)
        if interrupt is not None:
            raise interrupt

    def _refuse(self, prompt: str, hooked: HookVerdict, event: str) -> None:
        """Write that hooks refused the prompt, and end the turn without it."""
        if hooked.blocks:
            text = f"{event} operation blocked by hook:\n" + "\n".join(hooked.blocks)
        else:
            text = f"Operation stopped by hook: {hooked.stops}"
        text = f"{text}\n\nOriginal prompt: {prompt}"
        uuid = self.transcript.write_refused_prompt(text)
        self.queue.emit(events.TurnBegan(text=prompt, uuid=uuid))
        raise TurnStopped("hook_stopped", text)

    async def _is_over(self) -> bool:
        """Tell whether the turn ends here: the model has finished, or a hook or a call ends it."""
        if self.tools.stopped is not None:
            self._ending, self._text = "hook_stopped", self.tools.stopped
            return True
        if (text := self.tools.final_text) is not None:
            self._ending, self._text = "end_turn", text
            return not await self._is_sent_back()
        return self._is_finished() and not await self._is_sent_back()

    async def _is_sent_back(self) -> bool:
        """Run the stop hooks of a turn that ended by itself; tell whether one sends the model back to work."""
        if self._ending not in ("end_turn", "stop_sequence"):
            return False
        hooked = await self.hooks.on_stop(self._text, active=self._stop_blocks > 0)
        if not hooked.blocks or hooked.stops is not None:
            return False
        self._stop_blocks += 1
        if self._stop_blocks > MAX_STOP_BLOCKS:
            notice = f"stop hooks blocked the end of the turn {MAX_STOP_BLOCKS} times: it ends all the same"
            self.queue.emit(events.HookReported(records=(), notices=(notice,)))
            return False
        self.transcript.write_meta("Stop hook feedback:\n" + "\n".join(hooked.blocks))
        return True

    async def _run_tools(self) -> None:
        calls = self.model_calls
        # The tool calls of a response that the model broke off by a refusal are not run.
        blocks = calls.tool_calls if calls.response.stop_reason != "refusal" else []
        await self.tools.run(blocks, calls.malformed)

    def _is_finished(self) -> bool:
        """Tell whether the turn ends with this response; if not, write what the next request needs."""
        response = self.model_calls.response
        self._text = "".join(str(block.get("text", "")) for block in response.content if block.get("type") == "text")
        next_step = decide_next_step(
            response, has_calls=bool(self.model_calls.tool_calls), continuations=self._continuations
        )
        self._continuations = self._continuations + 1 if next_step.continues else 0
        if next_step.instruction is not None:
            self.transcript.write_meta(next_step.instruction)
        if next_step.ending is None:
            return False
        if next_step.ending == "refusal":
            self.transcript.retract_prompt(DECLINED)
        self._ending = next_step.ending
        return True

    def _write_interrupt(self) -> None:
        """Write Claude Code's own marker of an interrupt; a full disk does not prevent the turn from ending."""
        with suppress(Unwritable):
            self.transcript.write_interrupt(in_tools=self.tools.is_running)
        self.tools.is_running = False

    def _fail(self, error: UnspoolError) -> events.TurnFailed:
        status = None
        if isinstance(error, ApiFailed):
            status = error.status
            self._ending = "context_full" if parse_too_long(error.message, error.status) is not None else "failed"
            with suppress(Unwritable):
                self.transcript.close_open_calls(error.message)
                self.transcript.write_api_failure(f"API Error: {error.message}", error.kind)
        return events.TurnFailed(message=error.message, hint=error.hint, exit_code=error.exit_code, status=status)

    def _end_turn(self) -> events.TurnEnded:
        usage, duration = self.usage, round(self.usage.seconds * 1000)
        with suppress(Unwritable):
            self.transcript.write_turn_duration(duration)
        return events.TurnEnded(
            ending=self._ending,
            text=self._text,
            steps=usage.steps,
            usage=usage.totals.usage,
            models=usage.totals.models,
            cost_micros=usage.totals.cost_micros,
            duration_ms=duration,
            api_ms=round(usage.api_seconds * 1000),
            denials=tuple(self.tools.denials),
        )


class NextStep(NamedTuple):
    """How a turn continues after a response."""

    ending: Ending | None = None
    """Why it ends; None: another request follows."""
    instruction: str | None = None
    """What the model is told before the next request."""
    continues: bool = False
    """Whether the next request continues a response that was cut."""


def decide_next_step(response: ApiResponse, *, has_calls: bool, continuations: int) -> NextStep:
    """Return how a turn continues; `continuations`: how many responses in a row were cut before this one."""
    match response.stop_reason:
        case "refusal":
            return NextStep("refusal")
        case "max_tokens" | "model_context_window_exceeded" as reason:
            if continuations >= MAX_CONTINUATIONS:
                return NextStep("max_tokens" if reason == "max_tokens" else "context_full")
            lost_call = any(part.type == "tool_use" for part in response.unfinished)
            return NextStep(instruction=wordings.CALL_CUT_SHORT if lost_call else wordings.CUT_SHORT, continues=True)
        case "pause_turn":
            # Of thinking alone nothing is kept: the same request would be sent again and again.
            if all(block.get("type") in THINKING_TYPES for block in response.content):
                return NextStep("end_turn") if continuations >= MAX_CONTINUATIONS else NextStep(continues=True)
            return NextStep()
        case reason:
            ending: Ending = "stop_sequence" if reason == "stop_sequence" else "end_turn"
            return NextStep(None if has_calls else ending)
