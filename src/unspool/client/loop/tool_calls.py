"""Runs the tool calls of a response: asks for permission, runs them, writes their results and what follows from them.

Rules
  1. Every call gets exactly one result, whatever happens: also one that is refused, unknown, malformed or interrupted.
  2. Calls that only read run together; any other call runs alone, in its turn.
  3. Results are written in the order of the calls, each as soon as those before it are.
  4. The user is asked about one call at a time.
  5. Before permission the hooks of a call are run. What they deny does not run. An input that they changed is judged as
     if the model had sent it. A hook that allows stands for the user's yes: rules that deny or ask go before it.
  6. A file that was changed is in a snapshot before the next request is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from unspool.client import events
from unspool.client.command_sandbox import SandboxLevel
from unspool.client.hooks.registry import HookVerdict
from unspool.client.loop.agent_hooks import AgentHooks, with_contexts
from unspool.client.loop.inbox import Emit, EventQueue, Interrupted, JobEnded, ListenerFailed
from unspool.client.protocols import PermissionAnswer, PermissionRequest
from unspool.client.session import wordings
from unspool.client.session.file_backups import FileBackups
from unspool.client.session.registration import git_branch
from unspool.client.session.transcript import Transcript
from unspool.client.session.writer import write_private_file
from unspool.client.tool import Tool
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, Json, ToolOutcome
from unspool.client.tools.registry import check_input, preview_call
from unspool.client.tools.shell.bash import find_pull_request
from unspool.errors import UnspoolError
from unspool.format import written_lines as lines
from unspool.permissions import RuleDecision

RunTool: TypeAlias = Callable[[Tool, Json, ToolContext, str], Awaitable[ToolOutcome]]
_MAX_CONCURRENT = 10


class PermissionCheck(Protocol):
    """Decides about tool calls by permission mode and rules."""

    def judge(self, tool: str, input: Json, context: ToolContext) -> RuleDecision:
        """Return whether a call is allowed, denied, or the user has to be asked."""

    def keep(self, rule: str, where: Literal["once", "session", "local"], *, sandboxed: bool = False) -> None:
        """Keep a rule that the user gave."""

    def rule_file(self, *, sandboxed: bool = False) -> Path | None:
        """Return the file that a rule is written to, if it is kept for good; None if there is none."""

    def can_sandbox(self, tool: str, input: Json) -> bool:
        """Return whether a call is a command that can run in the sandbox."""


class RequestedCall(NamedTuple):
    """A tool call of a response."""

    id: str
    name: str
    input: Json
    tool: Tool | None
    """None: there is no tool of this name."""

    @property
    def target(self) -> str:
        """What it acts on, in a few words."""
        return self.tool.target(self.input) if self.tool else ""


@dataclass(eq=False, kw_only=True)
class ToolRunner:
    """Runs the tool calls of one agent."""

    find_tool: Callable[[str], Tool | None]
    context: ToolContext
    transcript: Transcript
    queue: EventQueue
    permissions: PermissionCheck
    run_tool: RunTool
    side_effects: ToolSideEffects
    hooks: AgentHooks
    agent: str | None
    is_running: bool = field(default=False, init=False)
    """Whether calls of the last response have no result yet."""
    denials: list[Json] = field(default_factory=list, init=False)
    """The calls of this turn that were not allowed."""
    final_text: str | None = field(default=None, init=False)
    """The text that the turn ends with, if a call of the last response ended it."""
    stopped: str | None = field(default=None, init=False)
    """Why a hook ended the turn; None: none did."""
    _reasons: dict[str, str] = field(default_factory=dict, init=False)
    """Why calls of the last response were not allowed, by call id."""
    _jobs: dict[str, asyncio.Task[ToolOutcome]] = field(default_factory=dict, init=False)
    _is_stopped: bool = field(default=False, init=False)
    """Whether the user has rejected a call without telling the model what to do instead."""

    async def run(self, blocks: Sequence[Json], malformed: Mapping[str, str]) -> None:
        """Run calls, and emit what happens until all have their results; `Interrupted` if the user stops it."""
        made = [self._parse_call(block) for block in blocks]
        pending = [*made]
        results: dict[str, ToolOutcome] = {id: _malformed_outcome(text) for id, text in malformed.items()}
        self._reasons.clear()
        self.stopped = self.final_text = None
        self._jobs, self._is_stopped, self.is_running = {}, False, True
        try:
            for batch in _batches([call for call in pending if call.id not in results]):
                await self._run_batch(batch, results, pending)
                if self._is_stopped:
                    raise Interrupted
            self._write_ready(results, pending)
            self.is_running = False
            if made and self.stopped is None:
                await self._run_batch_hooks(made, results)
        except (Interrupted, asyncio.CancelledError, ListenerFailed) as error:
            if not isinstance(error, Interrupted):
                self.queue.mute()
            await self.queue.stop()
            self._write_rest(results, pending)
            raise

    async def _run_batch(
        self, batch: list[RequestedCall], results: dict[str, ToolOutcome], pending: list[RequestedCall]
    ) -> None:
        """Run calls side by side, and write their results; none is run after a hook has ended the turn."""
        if (stopped := self.stopped) is not None:
            text = f"This call was not made: a hook ended the turn ({stopped})."
            results |= {call.id: self._deny(call, text, stopped) for call in batch}
            return
        self._jobs = {call.id: self.queue.start(call.id, self._run_call(call)) for call in batch}
        running = {*self._jobs}
        while running:
            item = await self.queue.take()
            if isinstance(item, JobEnded) and item.name in running:
                running.remove(item.name)
                results[item.name] = item.job.result()
                self._write_ready(results, pending)
            elif isinstance(item, events.ChatEvent):
                if isinstance(item, events.CallProgressed):
                    self.transcript.write_progress(item.id, item.data)
                elif isinstance(item, events.HookReported):
                    for record in item.records:
                        self.transcript.write_attachment(record)
                self.queue.emit(cast("events.AnyEvent", item))

    async def _run_batch_hooks(self, made: Sequence[RequestedCall], results: Mapping[str, ToolOutcome]) -> None:
        """Run the hooks of a response whose calls all have results; one that blocks ends the turn."""
        calls: list[Json] = [
            {
                "tool_name": call.name,
                "tool_input": call.input,
                "tool_use_id": call.id,
                "tool_response": results[call.id].content,
            }
            for call in made
        ]
        verdict = await self.hooks.after_batch(calls)
        self.hooks.write(verdict)
        if verdict.blocks or verdict.stops is not None:
            self.stopped = verdict.stops if verdict.stops is not None else "\n".join(verdict.blocks)

    async def _run_call(self, call: RequestedCall) -> ToolOutcome:
        if call.tool is None:
            text = f"Error: No such tool available: {call.name}"
            return ToolOutcome(content=f"<tool_use_error>{text}</tool_use_error>", result=text, is_error=True)
        # Before permission: nobody is asked about a call that cannot be made.
        if (invalid := check_input(call.tool, call.input)) is not None:
            return invalid
        return await self._run_known_call(call, call.tool)

    async def _run_known_call(self, call: RequestedCall, tool: Tool) -> ToolOutcome:
        """Run a call whose input fits its tool, with the hooks before and after it."""
        hooked = await self.hooks.before_call(tool.name, call.input, call.id)
        if hooked.stops is not None:
            self.stopped = hooked.stops
            why = hooked.reason if hooked.permission == "deny" else hooked.stops
            return with_contexts(self._deny_by_hook(call, "PreToolUse", why), hooked)
        if hooked.permission == "deny":
            return with_contexts(self._deny_by_hook(call, "PreToolUse", hooked.reason), hooked)
        if hooked.updated_input is not None:
            call = call._replace(input=hooked.updated_input)
            if (invalid := check_input(tool, call.input)) is not None:
                return with_contexts(invalid, hooked)
        allowed = await self._ask_permission(call, tool, hooked)
        if isinstance(allowed, ToolOutcome):
            return with_contexts(allowed, hooked)
        self.queue.put(events.CallBegan(id=call.id, name=call.name, input=allowed.input, target=allowed.target))
        clock = asyncio.get_running_loop().time
        began = clock()
        folder = self.context.cwd
        outcome = await self.run_tool(tool, allowed.input, self.context, call.id)
        milliseconds = round((clock() - began) * 1000)
        after = await self.hooks.after_call(tool.name, allowed.input, call.id, outcome, milliseconds)
        if after.stops is not None:
            self.stopped = after.stops
        if self.context.cwd != folder:
            await self.hooks.on_folder_change(folder)
        return with_contexts(outcome, hooked, after)

    async def _ask_permission(
        self, call: RequestedCall, tool: Tool, hooked: HookVerdict
    ) -> RequestedCall | ToolOutcome:
        """Return a call that is allowed, as it is to be made; else the result that refuses it."""
        decision = self._judge(tool, call.input, hooked)
        if decision.behaviour == "ask":
            async with self.context.question_lock:
                # While this call waited for its turn, the user may have given a rule that decides it.
                decision = self._judge(tool, call.input, hooked)
                if decision.behaviour == "ask":
                    answered = await self.hooks.on_question(tool.name, call.input, call.id, [])
                    if (decided := self._decide_by_hook(call, tool, answered)) is not None:
                        return decided
                    request = make_permission_request(call, tool, self.context, self.permissions)
                    if isinstance(request, ToolOutcome):
                        return request
                    request = msgspec.structs.replace(request, agent=self.agent)
                    self.hooks.notify(f"Claude needs your permission to use {tool.name}", "permission_prompt")
                    answer = await self.context.user.ask_permission(request, decision)
                    if answer.allowed and answer.input is not None and answer.input != call.input:
                        changed = self._change_input(call, tool, answer.input)
                        if isinstance(changed, ToolOutcome):
                            return changed
                        call = changed
                    return self._apply_answer(call, decision, answer) or call
        if decision.behaviour == "deny":
            return self._deny(call, f"Permission to use {tool.name} has been denied: {decision.why}", decision.why)
        set_sandbox_level(self.context, call.id, decision.sandbox)
        return call

    def _judge(self, tool: Tool, input: Json, hooked: HookVerdict) -> RuleDecision:
        """Return what the rules say of a call, and where they leave it open, what a hook says."""
        decision = self.permissions.judge(tool.name, input, self.context)
        if hooked.permission == "ask" and decision.behaviour == "allow":
            # Nobody is asked in this mode. The agent of a hook has it, and may be called while the user is being asked.
            behaviour: Literal["deny", "ask"] = "deny" if self.context.mode == "dontAsk" else "ask"
            return RuleDecision(behaviour=behaviour, why=f"a hook asks: {hooked.reason}", source="hook")
        # A rule that asks was written to be asked by: the hook does not answer for the user then.
        if hooked.permission == "allow" and decision.behaviour == "ask" and decision.rule is None:
            return RuleDecision(behaviour="allow", why="a hook allows it", source="hook")
        return decision

    def _decide_by_hook(
        self, call: RequestedCall, tool: Tool, answered: HookVerdict
    ) -> RequestedCall | ToolOutcome | None:
        """Return what `PermissionRequest` hooks decided about a call; None if they did not."""
        if answered.permission == "deny":
            if answered.interrupts or answered.stops is not None:
                self.stopped = answered.reason
            return self._deny_by_hook(call, "PermissionRequest", answered.reason)
        if answered.permission != "allow":
            return None
        if answered.updated_input is not None:
            changed = self._change_input(call, tool, answered.updated_input)
            if isinstance(changed, ToolOutcome):
                return changed
            call = changed
        set_sandbox_level(self.context, call.id, None)
        return call

    def _change_input(self, call: RequestedCall, tool: Tool, input: Json) -> RequestedCall | ToolOutcome:
        """Return a call with another input that was allowed instead; a rule that denies goes before."""
        call = call._replace(input=input)
        if (invalid := check_input(tool, input)) is not None:
            return invalid
        decision = self.permissions.judge(tool.name, input, self.context)
        if decision.behaviour == "deny":
            return self._deny(call, f"Permission to use {tool.name} has been denied: {decision.why}", decision.why)
        return call

    def _deny_by_hook(self, call: RequestedCall, event: str, reason: str) -> ToolOutcome:
        name = call.tool.name if call.tool else call.name
        return self._deny(call, f"{event}:{name} hook error: {reason}", reason)

    def _apply_answer(
        self, call: RequestedCall, decision: RuleDecision, answer: PermissionAnswer
    ) -> ToolOutcome | None:
        if answer.mode is not None:
            self.context.mode = answer.mode
            self.queue.put(events.ModeChanged(mode=answer.mode))
        if answer.allowed:
            set_sandbox_level(self.context, call.id, "edit" if answer.sandboxed else None)
            if (problem := keep_answered_rule(answer, self.permissions)) is not None:
                self.queue.put(events.FeatureDisabled(what="the rule applies to this session only", why=problem))
            return None
        self._is_stopped = self._is_stopped or answer.stops
        if answer.words:
            return self._deny(call, wordings.REJECTED_WITH + answer.words, answer.words, wordings.REJECTED_RESULT)
        if not answer.stops:
            name = call.tool.name if call.tool else call.name
            text = (
                f"Permission to use {name} was not granted ({decision.why}). Continue without it, or ask the "
                "user for it."
            )
            return self._deny(call, text, decision.why)
        return self._deny(call, wordings.REJECTED, "the user rejected it", wordings.REJECTED_RESULT)

    def _deny(self, call: RequestedCall, text: str, reason: str, result: str | None = None) -> ToolOutcome:
        self._reasons[call.id] = reason
        self.denials.append({"tool_name": call.name, "tool_use_id": call.id, "tool_input": call.input})
        return ToolOutcome(content=text, result=result or f"Error: {text}", is_error=True)

    def _write_ready(self, results: Mapping[str, ToolOutcome], pending: list[RequestedCall]) -> None:
        """Write the results that are next in order."""
        while pending and pending[0].id in results:
            call = pending.pop(0)
            self._write(call, results[call.id])

    def _write_rest(self, results: Mapping[str, ToolOutcome], pending: list[RequestedCall]) -> None:
        """Write a result for every call that has none: its own if it has ended, else that it was rejected."""
        # The API refuses a request in which a call has no result.
        rejected = ToolOutcome(content=wordings.REJECTED, result=wordings.REJECTED_RESULT, is_error=True)
        ended = {
            id: job.result()
            for id, job in self._jobs.items()
            if job.done() and not job.cancelled() and job.exception() is None
        }
        while pending:
            call = pending.pop(0)
            self._write(call, results.get(call.id) or ended.get(call.id) or rejected)

    def _write(self, call: RequestedCall, outcome: ToolOutcome) -> None:
        self.final_text = outcome.ends_turn or self.final_text
        uuid = self.transcript.write_result(call.id, outcome)
        ended = events.CallEnded(
            id=call.id,
            name=call.name,
            input=call.input,
            content=outcome.content,
            result=outcome.result,
            is_error=outcome.is_error,
            uuid=uuid,
            denied=self._reasons.get(call.id),
        )
        self.queue.emit(ended)
        self.side_effects.record(call, outcome, uuid)

    def _parse_call(self, block: Json) -> RequestedCall:
        name, input = str(block.get("name", "")), block.get("input")
        return RequestedCall(block["id"], name, input if isinstance(input, dict) else {}, self.find_tool(name))


def make_permission_request(
    call: RequestedCall, tool: Tool, context: ToolContext, permissions: PermissionCheck
) -> PermissionRequest | ToolOutcome:
    """Return what a user is asked about a call, with the change it would make; its outcome if it cannot be made."""
    preview = preview_call(tool, call.input, context, call.id)
    failed = preview if isinstance(preview, ToolOutcome) else None
    # Why a file cannot be changed tells whether it is there: the model learns that without a question only of files
    # that it may read.
    if failed is not None and permissions.judge("Read", {"file_path": call.target}, context).behaviour == "allow":
        return failed
    file = permissions.rule_file()
    sandboxed = permissions.rule_file(sandboxed=True) if permissions.can_sandbox(tool.name, call.input) else None
    return PermissionRequest(
        call.id,
        tool.name,
        call.input,
        call.target,
        change=preview if isinstance(preview, FileChange) else None,
        problem=str(failed.content) if failed is not None else None,
        rule_file=str(file) if file is not None else None,
        sandboxed_rule_file=str(sandboxed) if sandboxed is not None else None,
    )


def set_sandbox_level(context: ToolContext, call_id: str, allowed: SandboxLevel | None) -> None:
    """Set the sandbox that a command runs in; `allowed` is None if a person or a rule approved it without one."""
    sandbox = context.sandbox
    if sandbox is not None and (level := sandbox.level_of(allowed)) is not None:
        context.sandbox_levels[call_id] = level


def keep_answered_rule(answer: PermissionAnswer, permissions: PermissionCheck) -> str | None:
    """Keep the rule of an answer; return why it could not be written, if so: it holds in this session all the same."""
    if answer.rule is None or answer.keep == "once":
        return None
    try:
        permissions.keep(answer.rule, answer.keep, sandboxed=answer.sandboxed)
    except UnspoolError as error:
        return error.message
    return None


def _batches(calls: Sequence[RequestedCall]) -> Iterator[list[RequestedCall]]:
    """Yield the calls that run together, in order."""
    # Groups keep the order: a call that writes waits for the reads before it, and those after it wait for the write.
    for concurrent, group in groupby(calls, key=lambda call: call.tool is None or call.tool.is_concurrent):
        members = [*group]
        size = _MAX_CONCURRENT if concurrent else 1
        for start in range(0, len(members), size):
            yield members[start : start + size]


def _malformed_outcome(text: str) -> ToolOutcome:
    # The text may be as long as a response: the model needs only to see what is wrong with it.
    shown = text if len(text) <= 500 else f"{text[:500]}… ({len(text):,} characters)"
    words = f"InputValidationError: the input of this call is not a JSON object: {shown}"
    return ToolOutcome(content=f"<tool_use_error>{words}</tool_use_error>", result=words, is_error=True)


class ToolSideEffects:
    """Records what a tool call changed besides its result: files, todos, permission mode, folder, pull requests.

    A subagent's lines are in its own file (`transcript`); snapshots and links belong to the session (`session`).
    """

    def __init__(
        self, context: ToolContext, transcript: Transcript, session: Transcript, backups: FileBackups, emit: Emit
    ) -> None:
        self._context = context
        self._transcript = transcript
        self._session = session
        self._backups = backups
        self._emit = emit
        self._todos = [*context.todos]
        self._mode = context.mode

    def record(self, call: RequestedCall, outcome: ToolOutcome, uuid: str) -> None:
        """Write what a call has changed, and emit the events of it."""
        if self._backups.changed:
            self._write_snapshot(self._transcript.call_line(call.id) or uuid)
        if self._context.todos != self._todos:
            self._todos = [*self._context.todos]
            self._write_todos()
            self._emit(events.TodosChanged(todos=tuple(self._todos)))
        if self._context.mode != self._mode:
            self._mode = self._context.mode
            self._emit(events.ModeChanged(mode=self._mode))
        self.update_envelope()
        self._write_link(call, outcome)

    def update_envelope(self) -> None:
        """Let the next lines name the folder where the shell is now, and its git branch."""
        writer, cwd = self._transcript.writer, self._context.cwd
        branch = git_branch(cwd)
        if (str(cwd), branch) != (writer.envelope.cwd, writer.envelope.git_branch):
            writer.envelope = msgspec.structs.replace(writer.envelope, cwd=str(cwd), git_branch=branch)

    def _write_snapshot(self, message: str) -> None:
        """Write the tracked files again: there are new ones since the last snapshot."""
        prompt = self._session.prompt_uuid
        if self._transcript is not self._session:
            message = prompt or message  # a subagent's lines are in another file
        if prompt is not None:
            self._session.write_snapshot(message, prompt, self._backups.files, update=True)
        self._backups.changed = False

    def _write_todos(self) -> None:
        workspace, agent = self._context.workspace, self._transcript.writer.envelope.agent_id
        name = f"{workspace.session_id}-agent-{agent or workspace.session_id}.json"
        write_private_file(workspace.config / "todos" / name, msgspec.json.encode(self._todos))

    def _write_link(self, call: RequestedCall, outcome: ToolOutcome) -> None:
        """Write a link to the pull request that a call has created."""
        command = call.input.get("command")
        if outcome.is_error or not isinstance(command, str) or not isinstance(outcome.content, str):
            return
        if found := find_pull_request(command, outcome.content):
            number, url, repository = found
            writer = self._session.writer
            line = lines.PullRequestLine(
                session_id=writer.envelope.session_id,
                pr_number=number,
                pr_url=url,
                pr_repository=repository,
                timestamp=writer.next_timestamp(),
            )
            writer.append_note(line)
