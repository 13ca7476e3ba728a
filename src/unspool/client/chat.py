"""Runs a chat for front ends: prompts in, events out. Everything else of a conversation is behind this class.

    chat = await Chat.open(SessionStart(), ChatSettings(model="claude-opus-5-5"), runtime, user, services)
    await chat.turn("Read the README.", print)      # TurnBegan … TurnEnded
    await chat.close()

Rules
  1. One turn at a time. Text that comes meanwhile is queued (`steer`); `interrupt` may come at any time.
  2. A new session has no file until its first prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from unspool.client import events
from unspool.client.background_tasks import BackgroundTask, format_task_notification
from unspool.client.config import ChatRuntime, ChatSettings, SessionStart
from unspool.client.hooks.answers import AgentVerdict
from unspool.client.loop.agent import ChatAgent, ChatDependencies, Services
from unspool.client.loop.agent_hooks import MAX_STOP_BLOCKS, TypedCommand
from unspool.client.loop.inbox import Emit, Interrupted, ListenerFailed
from unspool.client.loop.loop import TurnPrompt
from unspool.client.loop.request import EndpointKnowledge
from unspool.client.loop.subagents import run_subagent
from unspool.client.loop.usage_totals import UsageSums
from unspool.client.permissions.paths import resolve_path
from unspool.client.protocols import NoUser, UserInterface
from unspool.client.session.file_backups import FileBackups
from unspool.client.session.prompt_history import HistoryPlace, append_prompt, is_command, text_as_typed
from unspool.client.session.registration import AnnouncedUser, SessionRegistration, git_branch, session_slug
from unspool.client.session.transcript import (
    MessageList,
    Transcript,
    drop_thinking,
    is_sendable,
    text_of,
    to_blocks,
)
from unspool.client.session.writer import SessionWriter
from unspool.client.tool_context import KnownFiles, ToolBackends, ToolContext, Workspace
from unspool.client.tool_result import InvalidToolCall, Json
from unspool.errors import NotFound, Refused, Unwritable, UsageError
from unspool.format import LineEnvelope, replace_surrogates
from unspool.format import written_lines as lines
from unspool.graph.context import model_rules
from unspool.paths import project_key, session_file

if TYPE_CHECKING:
    from unspool.client.session.resume import ResumedSession
    from unspool.client.session.rewind import ConversationBranch, RewindPoint
    from unspool.format import Entry


_RESTATE_BYTES = 32 * 1024
"""After so many bytes the titles are written again: lists of sessions read only the end of a file."""


class Chat:
    """One open session."""

    def __init__(
        self,
        path: Path,
        settings: ChatSettings,
        runtime: ChatRuntime,
        user: UserInterface | None,
        services: Services,
        *,
        resumed: ResumedSession | None = None,
    ) -> None:
        root = runtime.cwd.resolve()
        self.runtime, self.settings, self.services = runtime, settings, services
        self.workspace = Workspace(runtime.config, path.parent, path.stem, root, settings.added)
        self.totals = UsageSums()
        """What the session has used since it was opened here."""
        self.title = resumed.title if resumed else None
        self.transcript = _make_transcript(path, root, runtime, resumed)
        next_timestamp = self.transcript.writer.next_timestamp
        folder = runtime.config / "file-history" / path.stem
        self._backups = FileBackups(folder, root, next_timestamp, resumed.files if resumed else None)
        self._registration = SessionRegistration(runtime.config, path.stem, root, runtime.now)
        self._resumed = resumed
        """Until the first prompt: it is repaired before that."""
        self._from_other_line = resumed is not None and resumed.from_other_line
        self._session_source: str | None = "resume" if resumed else "startup"
        """What the `SessionStart` hooks are told with the first prompt; None: they were."""
        self._wakes = 0
        """How often in a row hooks have begun a turn that nobody typed."""
        self._is_busy = False
        self.pasted: dict[int, str] = {}
        """Texts that the user pasted, by number: the history shows a placeholder for each. The front end adds them."""
        self._last_prompt = ""
        self._restated_at = 0
        self._background_usage: list[UsageSums] = []
        model = resumed.model if resumed else settings.model
        shared = ChatDependencies(
            runtime=runtime,
            settings=settings,
            services=services,
            endpoint=EndpointKnowledge(),
            model=model,
            transcript=self.transcript,
            backups=self._backups,
            background_usage=self._background_usage,
            run_subagent=run_subagent,
            run_hook_agent=_run_hook_agent,
            take_background_events=self._take_background_events,
            after_boundary=self.restate,
        )
        self.agent = ChatAgent(shared, self.transcript, partial(self._make_context, user), model=model)
        self.context = self.agent.context

    @classmethod
    async def open(
        cls,
        start: SessionStart,
        settings: ChatSettings,
        runtime: ChatRuntime,
        user: UserInterface | None,
        services: Services,
    ) -> Chat:
        """Open a new session, or resume one."""
        if start.resume is not None:
            # A new session loads nothing that reads session files: that is a third of all modules.
            from unspool.client.session.resume import resume_session

            path, resumed = resume_session(start, settings, runtime)
            return cls(path, settings, runtime, user, services, resumed=resumed)
        id = start.session_id or runtime.new_id()
        path = session_file(runtime.config, project_key(str(runtime.cwd.resolve())), id)
        if path.exists():
            raise Refused(f"a session with the id `{id}` already exists", hint="resume it with `--resume`")
        return cls(path, settings, runtime, user, services)

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.workspace.session_id

    @property
    def path(self) -> Path:
        """The session file."""
        return self.transcript.writer.path

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.agent.model

    @property
    def mode(self) -> str:
        """The permission mode."""
        return self.context.mode

    @property
    def todos(self) -> list[Json]:
        """The todo list."""
        return self.context.todos

    @property
    def window_state(self) -> tuple[int, int]:
        """How many tokens the context window holds now, and how many it can."""
        window = self.agent.compaction.window
        # Before the first response of a resumed session nothing was counted yet.
        return window.used or self.agent.compaction.estimate_tokens(), window.size

    @property
    def is_resumed(self) -> bool:
        """Whether the session was resumed, and nothing was said since."""
        return self._resumed is not None

    async def turn(
        self,
        prompt: str | list[Json],
        emit: Emit,
        expansion: list[Json] | None = None,
        command: TypedCommand | None = None,
    ) -> None:
        """Run a turn; the expansion of a slash command, or a file that the prompt names, follows on its own line."""
        prompt, expansion = replace_surrogates(prompt), replace_surrogates(expansion)
        content = [*to_blocks(prompt), *(expansion or [])]
        if not any(map(is_sendable, content)):
            raise UsageError("the prompt is empty")
        with self._running():
            source, self._session_source = self._session_source, None
            self._wakes = 0
            begin = TurnPrompt(
                content,
                lambda: self._write_prompt(prompt, expansion),
                self._repair,
                session_source=source,
                typed=text_of(prompt) if command is None else command.text,
                command=command,
            )
            ended = await self.agent.loop.run_turn(begin, emit)
            self.totals.include(self.agent.usage.totals)
            with suppress(Unwritable):  # the turn has reported it already
                self.restate()
            emit(ended)

    @property
    def has_news(self) -> bool:
        """Whether something happened in the background that the model is to be told without a prompt."""
        # Before the first prompt there is no conversation that it could belong to.
        has_begun = self._session_source is None
        # Else a hook that objects to the end of each turn would wake the model for ever, with nobody at the terminal.
        wakes = self.services.hooks.wakes and self._wakes < MAX_STOP_BLOCKS
        return has_begun and (self.context.tasks.has_unreported or wakes)

    async def report_news(self, emit: Emit) -> None:
        """Run a turn in which the model is told what happened in the background, as Claude Code does it."""
        tasks = self.context.tasks.take_ended()
        told: list[Json] = [{"type": "text", "text": format_task_notification(task)} for task in tasks]
        self._wakes += self.services.hooks.wakes
        with self._running():
            # What hooks said is written with the first step, like all that happens beside a turn.
            begin = TurnPrompt(told, lambda: self._write_news(tasks), self._repair, is_typed=False)
            ended = await self.agent.loop.run_turn(begin, emit)
            self.totals.include(self.agent.usage.totals)
            with suppress(Unwritable):  # the turn has reported it already
                self.restate()
            emit(ended)

    async def compact(self, emit: Emit, hint: str = "") -> None:
        """Replace the conversation by a summary, because the user asks for it. Interrupted, nothing has changed."""
        with self._running():
            self.agent.queue.begin_turn(emit)
            self.agent.usage.reset()
            try:
                self._repair()
                await self.agent.compaction.summarize(hint)
            except Interrupted:
                pass
            finally:
                self.totals.include(self.agent.usage.totals)
                await self.agent.queue.stop()

    def steer(self, text: str) -> None:
        """Queue text for the next step of the turn."""
        self.agent.input.steer(replace_surrogates(text))

    def next_prompt(self) -> str | None:
        """Take the text that is queued to be the next prompt, if there is any."""
        return self.agent.input.take_prompt()

    def take_back(self) -> list[str]:
        """Take all queued text back, so that the user can edit it."""
        return self.agent.input.take_back()

    def interrupt(self) -> None:
        """End the turn that runs, now."""
        self.agent.queue.interrupt()

    def set_mode(self, mode: str) -> None:
        """Continue with another permission mode."""
        self.context.mode = mode

    def set_model(self, model: str) -> None:
        """Continue with another model."""
        if model_rules.model_family(model) != model_rules.model_family(self.model):
            # Thinking of one model is not sent to another (docs/compatible.md).
            conversation = self.transcript.conversation
            conversation.replace(drop_thinking(conversation.messages))
        self.agent.set_model(model)

    def waiting_for_user(self) -> AbstractContextManager[None]:
        """Register the session as waiting for its user, until the `with` ends."""
        return self._registration.waiting("input needed")

    def rename(self, title: str) -> None:
        """Give the session a title."""
        self.title = title
        self.restate()

    def points(self) -> list[RewindPoint]:
        """Return the prompts that the session can be rewound to, the oldest first."""
        from unspool.client.session import rewind

        return rewind.find_rewind_points(self._read_entries(), self._backups) if self.path.exists() else []

    def tree(self) -> list[ConversationBranch]:
        """Return the branches of the session, the oldest first."""
        from unspool.client.session import rewind

        return rewind.list_branches(self._read_entries()) if self.path.exists() else []

    def rewind(self, uuid: str, *, conversation: bool, files: bool) -> list[str]:
        """Go back to before a prompt; return the files that changed."""
        from unspool.client.session import rewind

        entries = self._read_entries()
        point = next((point for point in rewind.find_rewind_points(entries, self._backups) if point.uuid == uuid), None)
        if point is None:
            raise NotFound(f"no prompt matches `{uuid}`")
        changed: list[str] = []
        if files:
            self._backups.back_up_changes()  # so that the rewind can be undone too
            changed = rewind.restore_files(self._backups, self.workspace.root, rewind.files_before(entries, uuid))
        if conversation:
            messages = [] if point.parent is None else rewind.messages_until(entries, point.parent, self.model)
            self.transcript.rewind(point.parent, messages)
            self._last_prompt = self._last_prompt or point.text
            self._from_other_line = True
            self.restate()
        return changed

    def local_command(self, name: str, arguments: str, output: str) -> None:
        """Write a command that the front end has run by itself; a session without a file stays without one."""
        if not self.path.exists():
            return
        # The indentation is Claude Code's.
        command = (
            f"<command-name>/{name}</command-name>\n"
            f"            <command-message>{name}</command-message>\n"
            f"            <command-args>{arguments}</command-args>"
        )
        for text in (command, f"<local-command-stdout>{output}</local-command-stdout>"):
            self.transcript.write_system_note("local_command", text)

    async def close(self, reason: str = "other") -> None:
        """End everything that runs, and the registration of the session."""
        await self.agent.queue.stop()
        if self._session_source is None:
            await self.agent.hooks.on_session_end(reason)
        # Agents first: one that still runs would start hooks.
        await self.context.tasks.stop()
        await self.services.hooks.stop()
        await self.services.mcp.close()
        while self._background_usage:
            self.totals.include(self._background_usage.pop())
        self._registration.remove()

    def restate(self) -> None:
        """Write last prompt and title again, where lists of sessions look for them: at the end of the file."""
        writer = self.transcript.writer
        if writer.parent is None:
            return
        if self._last_prompt:
            writer.append_note(
                lines.LastPromptLine(last_prompt=self._last_prompt, leaf_uuid=writer.parent, session_id=self.session_id)
            )
        if self.title:
            writer.append_note(lines.CustomTitleLine(custom_title=self.title, session_id=self.session_id))
        self._restated_at = writer.bytes_written

    def _make_context(self, user: UserInterface | None, *, backends: ToolBackends) -> ToolContext:
        user = None if isinstance(user, NoUser) else user
        resumed, environment = self._resumed, self.runtime.environment
        mode, known_files = "default", KnownFiles()
        todos: list[Json] = []
        if resumed is not None:
            from unspool.client.session.resume import find_known_files, find_todos

            resolver = ToolContext(self.workspace, environment)
            entries = resumed.lines
            mode = "plan" if resumed.in_plan_mode else mode
            todos = find_todos(entries)
            known_files = KnownFiles(lambda: find_known_files(entries, lambda name: _resolve(name, resolver)))
        return ToolContext(
            self.workspace,
            environment,
            None if user is None else AnnouncedUser(user, self._registration),
            mode=self.settings.mode or mode,
            todos=todos,
            known_files=known_files,
            backends=backends,
        )

    def _write_prompt(self, prompt: str | list[Json], expansion: list[Json] | None) -> tuple[str, str]:
        """Write a prompt, and a snapshot of the files before it; return its text and its uuid."""
        self.agent.side_effects.update_envelope()
        text = text_of(prompt)
        uuid = self.transcript.write_prompt(prompt, UNSET if is_command(text) else self.context.mode)
        self.transcript.write_snapshot(uuid, uuid, self._backups.back_up_changes(), update=False)
        if expansion is not None:
            self.transcript.write_meta(expansion)
        self._last_prompt = text_as_typed(text)[:2000]
        if self._from_other_line:
            self.restate()  # the last `last-prompt` line names the leaf that is resumed: it was on the other branch
            self._from_other_line = False
        if self.settings.interactive:
            place = HistoryPlace(self.workspace.config, self.workspace.root, self.session_id, self.runtime.now())
            append_prompt(place, text, self.pasted)
        return text, uuid

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Refuse a second turn while one runs, and register the session as busy."""
        if self._is_busy:
            raise UsageError("a turn is running", hint="wait for its next step or its end")
        self._is_busy = True
        self._registration.write_status("busy")
        try:
            yield
        except ListenerFailed as failed:
            raise failed.__cause__ or failed from None
        finally:
            self._is_busy = False
            self._registration.write_status("idle")

    def _repair(self) -> None:
        """Write what a resumed session has on none of its lines; once, before its first prompt."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self.transcript.repair(resumed.open_calls, resumed.unanswered)

    def _take_background_events(self) -> None:
        """Write what has ended in the background, and restate the titles if enough was written since."""
        if self.transcript.writer.bytes_written - self._restated_at > _RESTATE_BYTES:
            self.restate()
        while self._background_usage:
            self.agent.usage.totals.include(self._background_usage.pop())
        self._write_news(self.context.tasks.take_ended())
        self.agent.hooks.write_late()

    def _write_news(self, tasks: Sequence[BackgroundTask]) -> tuple[str, str]:
        """Write the ends of tasks; return no text, as nobody typed any, and the uuid of the last line."""
        for task in tasks:
            self.transcript.write_user(format_task_notification(task))
            self.agent.queue.emit(events.TaskEnded(id=task.id, status=task.status, description=task.description))
        return "", self.transcript.writer.parent or ""

    def _read_entries(self) -> tuple[Entry, ...]:
        from unspool.client.session.resume import read_entries

        return read_entries(self.path)


async def _run_hook_agent(agent: ChatAgent, instructions: str, prompt: str, model: str) -> AgentVerdict:
    # Imported here: most chats have no such hook.
    from unspool.client.loop.hook_agent import run_hook_agent

    return await run_hook_agent(agent, instructions, prompt, model)


def _make_transcript(path: Path, root: Path, runtime: ChatRuntime, resumed: ResumedSession | None) -> Transcript:
    slug = (resumed.slug if resumed else None) or session_slug(path.stem)
    envelope = LineEnvelope(session_id=path.stem, cwd=str(root), git_branch=git_branch(root), slug=slug)
    writer = SessionWriter(
        path,
        envelope,
        runtime.now,
        runtime.new_id,
        parent=resumed.parent if resumed else None,
        last_time=resumed.last_time if resumed else None,
    )
    conversation = MessageList(resumed.messages if resumed else ())
    return Transcript(writer, conversation, runtime.new_id, taken_ids=resumed.ids if resumed else ())


def _resolve(name: str, context: ToolContext) -> Path | None:
    try:
        return resolve_path(name, context)
    except InvalidToolCall:
        return None
