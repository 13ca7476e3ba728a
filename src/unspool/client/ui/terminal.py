"""Runs chats in a terminal: connects what is typed and shown (`Surface`) with the chat and its slash commands.

Rules
  1. What is typed while a turn runs goes to the model at its next step; a command waits until the turn has ended,
     unless it does not touch the conversation (`slash_actions.IMMEDIATE`).
  2. Whatever becomes of a turn or a command, the prompt comes back. What failed is shown in one line with a hint.
  3. Before the user is asked for permission, what the call would do is shown, made safe for the terminal: the whole
     command; the change of the file on disk, of which all can be shown if it is long.
  4. Only what was chosen is allowed. Esc refuses, and ends the turn.
  5. A rule is shown before it is written, with the file that it is written to.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from unspool.client import events
from unspool.client.background_tasks import BackgroundTask
from unspool.client.chat import Chat
from unspool.client.config import ChatOptions, ChatRuntime, SessionStart
from unspool.client.mcp.elicitation import FormAnswer, FormUser, ServerAddress, ServerForm
from unspool.client.permissions.settings import SettingsSelection
from unspool.client.permissions.trust import find_acting_files
from unspool.client.prompt.agent_definitions import parse_agents
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.session.pasted_texts import PastedTexts
from unspool.client.tool_result import InvalidToolCall, Json
from unspool.client.ui import find_session, slash_actions, slash_commands, status_text
from unspool.client.ui.choice import ChoiceOption, ChoicePrompt, ChoiceResult
from unspool.client.ui.commands.interface_settings import InterfaceSettings, load_interface_settings
from unspool.client.ui.commands.mcp_servers import ask_approvals
from unspool.client.ui.commands.tasks import describe_end
from unspool.client.ui.drawing.status_line import StatusLine
from unspool.client.ui.form_dialog import FormDialog
from unspool.client.ui.open_chat import (
    OpenedChat,
    find_mcp_servers,
    is_trusted,
    open_chat_from_settings,
    server_approvals,
    trusted_folders,
)
from unspool.client.ui.render import ChatRenderer, RenderOptions, fold_change, number_change, render_last_turns
from unspool.client.ui.render_events import EventRenderer
from unspool.display import clean_line
from unspool.errors import UnspoolError, UsageError
from unspool.files import read_start
from unspool.format.tools import EDIT_TOOLS
from unspool.permissions import RuleDecision

_MAX_PICTURE_BYTES = 32 * 1024 * 1024
MODES = ("default", "acceptEdits", "plan")
"""The permission modes that shift-tab goes through."""
_MCP_NOTICE_SECONDS = 1.0
"""How long a turn waits for MCP servers that still start before the user is told that it does."""


class Surface(Protocol):
    """Shows text and reads what is typed: `PromptScreen`, or `PlainTerminal`."""

    queued: list[str]
    pasted: PastedTexts

    @property
    def width(self) -> int:
        """The width in columns."""

    @property
    def vim_mode(self) -> str | None:
        """INSERT, NORMAL or another mode of vim keys; None: the keys are the usual ones."""

    async def run(self) -> None:
        """Read what is typed until the user leaves."""

    def leave(self) -> None:
        """End `run`."""

    def show(self, text: str) -> None:
        """Print a text above the prompt."""

    def withdraw(self, texts: Sequence[str]) -> bool:
        """Erase texts that were printed; return whether all of them could still be erased."""

    def call_user(self, words: str, *, later: bool) -> None:
        """Notify the user that chat waits for them, if no key was pressed for a while, or `later` when none was."""

    def fill(self, text: str) -> None:
        """Put a text into the prompt, where it can be changed and sent."""

    def insert(self, text: str) -> None:
        """Insert a text into the prompt, where the cursor is."""

    async def choose(self, prompt: ChoicePrompt) -> ChoiceResult | None:
        """Let the user choose; None if they cancel."""

    async def run_program(self, words: Sequence[str]) -> int:
        """Give the terminal to a program, such as an editor, until it ends; return its exit code."""

    def apply(self, interface: InterfaceSettings) -> None:
        """Use other settings of the interface from now on."""


class TerminalUser:
    """Asks the user at the terminal: implements `UserInterface`."""

    def __init__(
        self,
        surface: Surface,
        renderer: Callable[[], ChatRenderer],
        interrupt: Callable[[], object],
    ) -> None:
        self._surface, self._renderer, self._interrupt = surface, renderer, interrupt

    async def ask_permission(self, request: PermissionRequest, decision: RuleDecision) -> PermissionAnswer:
        """Show what a call would do and ask whether it may run."""
        answers, notes = _permission_answers(request, decision)
        rules = "".join(map(self._renderer().indented, notes))
        self._surface.show(self._renderer().permission_request(request, decision) + rules)
        who = f"the agent {request.agent} to do this" if request.agent else "this"
        target = self._renderer().target(request.tool, request.input)
        title = clean_line(f"Allow {who}? {request.tool}({target})")
        if request.change is not None and fold_change(number_change(request.change))[1]:
            show_all = (ChoiceOption("Show the whole change first", key="w"), None)
            answer = await self._choose(title, [*answers[:-1], show_all, answers[-1]])
            if answer is not None:
                return answer
            self._surface.show(self._renderer().permission_request(request, decision, whole=True) + rules)
        return await self._choose(title, answers) or PermissionAnswer(allowed=False)

    async def ask_questions(self, questions: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        """Ask one question after the other; None if the user cancels one."""
        answers = {}
        for question in questions:
            options = [ChoiceOption(label, description) for label, description in question.options]
            other = ChoiceOption("Something else", text_prompt="what?")
            title = f"{question.header}: {question.question}" if question.header else question.question
            prompt = ChoicePrompt(title, [*options, other], multiple=question.several)
            if (chosen := await self._surface.choose(prompt)) is None:
                return None
            labels = [options[index].label for index in chosen.indices if index < len(options)]
            answers[question.question] = ", ".join([*labels, *([chosen.text] if chosen.text else [])])
        return answers

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        """Show a plan and ask whether it is approved."""
        self._surface.show(self._renderer().plan(plan))
        edits = PermissionAnswer(allowed=True, mode="acceptEdits")
        no = ChoiceOption("No, keep planning", key="n", text_prompt="what should be different?")
        answers = [
            (ChoiceOption("Yes, and do not ask before edits", key="a"), edits),
            (ChoiceOption("Yes, and ask before each edit", key="y"), PermissionAnswer(allowed=True, mode="default")),
            (no, PermissionAnswer(allowed=False)),
        ]
        return await self._choose("Approve this plan?", answers) or PermissionAnswer(allowed=False)

    async def _choose(
        self, title: str, answers: Sequence[tuple[ChoiceOption, PermissionAnswer | None]]
    ) -> PermissionAnswer | None:
        """Return the answer of the option that was chosen; None if it has none."""
        chosen = await self._surface.choose(ChoicePrompt(title, [option for option, _ in answers]))
        if chosen is None:
            self._interrupt()
            return PermissionAnswer(allowed=False)
        answer = answers[chosen.first][1]
        return answer if answer is None or answer.allowed else PermissionAnswer(allowed=False, words=chosen.text)


def _permission_answers(
    request: PermissionRequest, decision: RuleDecision
) -> tuple[list[tuple[ChoiceOption, PermissionAnswer]], list[str]]:
    """Return the answers to a permission request, and for each rule that would be written where that is."""
    answers = [(ChoiceOption("Yes", key="y"), PermissionAnswer(allowed=True))]
    notes = []
    is_edit = request.tool in EDIT_TOOLS
    if is_edit:
        edits = ChoiceOption("Yes, and allow all edits from now on", key="a")
        answers.append((edits, PermissionAnswer(allowed=True, mode="acceptEdits")))
    for rule in decision.suggestions[:1]:
        if not is_edit:
            session = ChoiceOption(f"Yes, and allow {rule} in this session", key="s")
            answers.append((session, PermissionAnswer(allowed=True, rule=rule, keep="session")))
        if request.rule_file is not None:
            always = ChoiceOption(f"Yes, and always allow {rule} in this folder", key="r" if is_edit else "a")
            answers.append((always, PermissionAnswer(allowed=True, rule=rule, keep="local")))
            notes.append(f"always: adds {rule} to {request.rule_file}")
        if request.sandboxed_rule_file is not None:
            boxed = ChoiceOption(f"Yes, and always allow {rule} in this folder, in the sandbox", key="b")
            kept = PermissionAnswer(allowed=True, rule=rule, keep="local", sandboxed=True)
            answers.append((boxed, kept))
            notes.append(f"always, in the sandbox: adds {rule} to {request.sandboxed_rule_file} (`sandboxed`)")
    no = ChoiceOption("No, and tell the model what to do instead", key="n", text_prompt="what instead?")
    return [*answers, (no, PermissionAnswer(allowed=False))], notes


def _is_closing() -> bool:
    """Tell whether the terminal itself is being closed, and not only a job of it that the user interrupted."""
    # Not by the job: whoever is cancelled cancels the job that it waits for, so the job is cancelled either way.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Terminal:
    """Runs one chat after the other in a terminal; the host of its surface."""

    def __init__(
        self,
        options: ChatOptions,
        runtime: ChatRuntime,
        rendering: RenderOptions,
        surface: Callable[[Terminal], Surface],
    ) -> None:
        self.options, self.rendering = options, rendering
        self._runtime = runtime
        self._opened: OpenedChat | None = None
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        """What was typed; None: something happened in the background that the model may have to be told."""
        self._since: float | None = None
        self._job: asyncio.Future[None] | None = None
        self._unwanted: list[str] = []
        """The queue at the time when the turn was interrupted."""
        self._failure: UnspoolError | None = None
        self._asides: set[asyncio.Future[None]] = set()
        """Commands that run beside a turn."""
        self.interface = InterfaceSettings()
        self.surface = surface(self)
        self._forms = FormDialog(self.surface, self.renderer)
        self.status_line = StatusLine(lambda: self.surface.show(""))
        self.event_renderer = EventRenderer(
            self.surface.show, self.renderer, fold=self.surface.pasted.fold_known, withdraw=self.surface.withdraw
        )

    @property
    def opened(self) -> OpenedChat:
        """The chat with its permissions and custom commands."""
        assert self._opened is not None
        return self._opened

    @property
    def chat(self) -> Chat:
        """The chat that is open."""
        return self.opened.chat

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of the terminal."""
        return self._runtime.environment

    def renderer(self) -> ChatRenderer:
        """Return a renderer for the terminal's present width and theme."""
        rendering = self.rendering._replace(width=self.surface.width, theme=self.interface.theme)
        return ChatRenderer(rendering, str(self.options.cwd))

    async def run(self) -> None:
        """Run chats until the user leaves."""
        loop = asyncio.get_running_loop()
        # Leaving in the ordinary way stops what runs and removes the registration of the session.
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.surface.leave)
        loop.add_signal_handler(signal.SIGINT, self._handle_sigint)
        working = asyncio.ensure_future(self._work())
        working.add_done_callback(lambda _: self.surface.leave())
        try:
            await self.surface.run()
        finally:
            # Interrupted before it is cancelled, so that the turn writes results for the calls that it leaves open.
            if self._opened is not None:
                self.chat.interrupt()
            working.cancel()
            self.status_line.stop()
            for aside in self._asides:
                aside.cancel()
            with suppress(asyncio.CancelledError):
                await working
            if self._opened is not None:
                await self.chat.close()
        if self._failure is not None:
            raise self._failure
        if self._opened is not None and self.chat.path.exists():
            self.surface.show(self.renderer().text(f"unspool chat --resume {self.chat.session_id}", "dim"))

    # What the surface calls

    def submit(self, text: str) -> None:
        """Queue what was typed: for the next step of the turn that runs, or for the next turn."""
        if self._opened is not None:
            self.chat.pasted.update(self.surface.pasted.by_number)
        if self._since is not None and slash_commands.command_name(text) in slash_actions.IMMEDIATE:
            self.run_beside(self._run_aside(text))
        elif self._since is None or text.startswith(("/", "!")) or self.surface.pasted.find_pictures(text):
            if self._since is not None:
                self.surface.queued.append(text)
            self._typed.put_nowait(text)
        else:
            try:
                self.chat.steer(text)
            except UnspoolError as error:
                self.surface.show(self.renderer().error(error.message, error.hint))
            else:
                self.surface.queued.append(text)

    def run_beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something while the chat goes on, until the terminal is left."""
        job = asyncio.ensure_future(work)
        self._asides.add(job)
        job.add_done_callback(self._asides.discard)

    def interrupt(self) -> bool:
        """End what runs; return whether anything did."""
        if self._since is None or self._opened is None:
            return False
        if self._job is not None:
            self._job.cancel()
        self._unwanted = [*self.surface.queued]
        self.chat.interrupt()
        return True

    def unfold(self) -> None:
        """Show a long output in full."""
        if not self.event_renderer.unfold():
            self.surface.show(self.renderer().notice("no output is folded"))

    def move_to_background(self) -> None:
        """Move the commands and agents that run to the background."""
        if self._opened is not None and not self.chat.context.tasks.move_to_background():
            words = "no command or agent runs that could be moved to the background"
            self.surface.show(self.renderer().notice(words))

    def paste_picture(self) -> None:
        """Put the picture in the clipboard into the prompt."""
        self.run_beside(self._paste_picture())

    async def _paste_picture(self) -> None:
        from unspool.client.session.clipboard_picture import read_clipboard_picture

        try:
            picture = await read_clipboard_picture(self.environment)
        except UnspoolError as error:
            self.surface.show(self.renderer().error(error.message, error.hint))
        else:
            self.surface.insert(self.surface.pasted.add_picture(picture))

    def rewind(self) -> None:
        """Let the user choose an earlier prompt to go back to."""
        self._typed.put_nowait("/rewind")

    def next_mode(self) -> None:
        """Switch to the next permission mode."""
        if self._opened is not None:
            modes = (*MODES, "bypassPermissions") if self.chat.settings.mode == "bypassPermissions" else MODES
            place = modes.index(self.chat.mode) if self.chat.mode in modes else -1
            self.chat.set_mode(modes[(place + 1) % len(modes)])

    def commands(self) -> dict[str, str]:
        """Return the commands that can be typed, with their descriptions."""
        return {
            **slash_commands.TERMINAL_COMMANDS,
            **(slash_commands.custom_commands(self._opened) if self._opened is not None else {}),
        }

    def resources(self) -> list[str]:
        """Return the resources of MCP servers, as they are named after `@`."""
        if self._opened is None:
            return []
        return [f"{server}:{resource.uri}" for server, resource in self.chat.services.mcp.resources()]

    def footer(self) -> str:
        """Return what stands below the prompt: the status line, then mode, model, context and cost."""
        if self._opened is None:
            return "opening…"
        own = f"{self.status_line.text}\n" if self.status_line.text else ""
        return own + status_text.footer_text(self.chat)

    def status(self) -> str | None:
        """Return what is running; None if nothing is."""
        if self._since is None:
            return None
        seconds = f"{time.monotonic() - self._since:.0f} s"
        has_command = self._opened is not None and self.chat.context.tasks.has_foreground
        moves = ", Ctrl-B: background" if has_command else ""
        return f"{self.event_renderer.activity}… ({seconds}{self.event_renderer.token_text}, Esc interrupts{moves})"

    def tail(self) -> str:
        """Return the end of an answer that is still growing, or the output of a call that runs."""
        return self.event_renderer.tail

    def _handle_sigint(self) -> None:
        if not self.interrupt():
            self.surface.leave()

    # What it does

    async def _work(self) -> None:
        try:
            if not await self._ask_trust():
                self.surface.leave()
                return
            await self._ask_about_servers()
            await self.open(self.options.start)
        except UnspoolError as error:
            self._failure = error
            self.surface.leave()
            return
        if self.options.prompt:
            self._typed.put_nowait(self.options.prompt)
        while True:
            typed = await self._typed.get()
            if typed is None:
                await self._report_news()
            else:
                await self._handle(typed)

    def load_interface(self) -> None:
        """Read the settings of the interface and use them."""
        settings = self.options.settings
        selection = SettingsSelection(settings.setting_sources, settings.given_settings)
        self.interface = load_interface_settings(
            self.options.config, self.options.cwd.resolve(), trusted=self.is_trusted(), selection=selection
        )
        self.surface.apply(self.interface)
        self._refresh_status_line()

    def _refresh_status_line(self) -> None:
        if self._opened is not None:
            self.status_line.refresh(self.interface.status_line, self.chat, self.surface.vim_mode)

    def is_trusted(self) -> bool:
        """Return whether the working folder is trusted."""
        return is_trusted(self.options.settings, self._runtime)

    def trust(self) -> None:
        """Trust the working folder from now on."""
        trusted_folders(self._runtime).add(self.options.cwd)

    def decline_trust(self) -> None:
        """Do not trust the working folder from now on, and do not ask about it again."""
        trusted_folders(self._runtime).decline(self.options.cwd)

    async def _ask_trust(self) -> bool:
        """Ask whether the folder is trusted, unless the user has already answered; False: the user wants to leave."""
        files = find_acting_files(self.options.cwd)
        if self.is_trusted():
            return True
        if trusted_folders(self._runtime).is_declined(self.options.cwd):
            if files:
                words = "you do not trust this folder; change it with `/trust`"
                self.surface.show(self.renderer().notice(words))
            return True
        brings = "In a trusted folder, read-only git commands run without asking, and its settings apply."
        if files:
            brings = f"It contains {', '.join(files)}, which can allow tool calls and instruct the model."
        title = (
            f"Do you trust this folder? {self.options.cwd}\n{brings}\nunspool asks once; change it later with `/trust`."
        )
        answers = [
            ChoiceOption("Yes, from now on", key="y"),
            ChoiceOption("No, continue without trust", key="n"),
            ChoiceOption("Leave", key="l"),
        ]
        picked = await self.surface.choose(ChoicePrompt(title, answers, cursor=1))
        if picked is None or picked.first == 2:
            return False
        if picked.first == 0:
            self.trust()
        else:
            try:
                self.decline_trust()
            except UnspoolError as error:  # it holds for this chat all the same
                self.surface.show(self.renderer().notice(f"cannot save the answer: {error.message}"))
        return True

    async def _ask_about_servers(self) -> None:
        """Ask about the MCP servers of `.mcp.json` that nobody has approved or declined."""
        found = find_mcp_servers(self.options.settings, self._runtime, trusted=self.is_trusted())
        await ask_approvals(self, found.pending, server_approvals(self._runtime))

    async def open(self, start: SessionStart) -> None:
        """Open another chat and close the one before."""
        user = TerminalUser(self.surface, self.renderer, self.interrupt)
        opened = await open_chat_from_settings(
            start,
            self.options.settings,
            self._runtime,
            user,
            tuple(parse_agents(self.options.agents)),
            form_user=FormUser(self._ask_form, self._forms.tell),
        )
        # Only now: if the new chat could not be opened, the old one stays.
        if self._opened is not None:
            await self.chat.close()
        self._opened = opened
        opened.chat.context.tasks.listen(self._show_task_end)
        opened.chat.services.hooks.listen(lambda: self._typed.put_nowait(None))
        self.load_interface()
        for problem in opened.problems:
            self.surface.show(self.renderer().notice(problem))
        self.surface.show(status_text.greeting_text(opened.chat, self.renderer()))
        if start.resume is not None:
            self.surface.show(render_last_turns(find_session.read_session(opened.chat.path), self.renderer()))

    async def _ask_form(self, request: ServerForm | ServerAddress) -> FormAnswer:
        with self.chat.waiting_for_user():
            return await self._forms.ask(request)

    def _show_task_end(self, task: BackgroundTask) -> None:
        """Show at once that something has ended in the background; the model is told then or at its next request."""
        self.surface.show(self.renderer().notice(describe_end(task)) + "\n")
        self._typed.put_nowait(None)

    async def _run_aside(self, text: str) -> None:
        """Run a command beside the turn."""
        try:
            self.surface.show(self.renderer().prompt(text))
            name = slash_commands.command_name(text)
            await slash_actions.ACTIONS[name](self, slash_commands.command_arguments(text))
        except UnspoolError as error:
            self.surface.show(self.renderer().error(error.message, error.hint))

    async def _handle(self, text: str) -> None:
        """Run what was typed, and then the prompts that were queued meanwhile."""
        try:
            if text in self.surface.queued:
                self.surface.queued.remove(text)
            if text.startswith("!"):
                await self._run_interruptible(slash_actions.run_shell_command(self, text[1:].strip()))
            elif (name := slash_commands.command_name(text)) in slash_actions.ACTIONS:
                self.surface.show(self.renderer().prompt(text))
                await slash_actions.ACTIONS[name](self, slash_commands.command_arguments(text))
            elif slash_commands.is_unknown_command(text, self.commands()):
                raise UsageError(f"unknown command `/{name}`", hint="list commands with `/help`")
            elif (output := slash_commands.run_local_command(self.opened, text)) is not None:
                self.surface.show(self.renderer().prompt(text) + self.renderer().text(output) + "\n")
            else:
                await self._run_turn(text)
            while (queued := self._next_prompt()) is not None:
                await self._run_turn(queued)
        except UnspoolError as error:
            self.surface.show(self.renderer().error(error.message, error.hint))
        except OSError as error:
            self._show_os_error(error)

    def _show_os_error(self, error: OSError) -> None:
        self.surface.show(self.renderer().error(f"{(error.strerror or str(error)).lower()}: `{error.filename}`"))

    async def _report_news(self) -> None:
        """Tell the model what happened in the background, if no turn has told it yet."""
        if not self.chat.has_news:
            return
        self._since = time.monotonic()
        try:
            await self.chat.report_news(self._show_event)
        except UnspoolError as error:
            self.surface.show(self.renderer().error(error.message, error.hint))
        except OSError as error:
            self._show_os_error(error)
        finally:
            self._end_turn()
        while (queued := self._next_prompt()) is not None:
            await self._handle(queued)

    def _next_prompt(self) -> str | None:
        """Return the next prompt that was queued during the turn; None if it was interrupted."""
        if self.event_renderer.ending == "interrupted":
            self._take_back()
        return self.chat.next_prompt()

    def _take_back(self) -> None:
        """Put queued prompts back where they can be changed: who interrupts may want something else."""
        prompts = self.chat.take_back()
        self.surface.queued = [prompt for prompt in self.surface.queued if prompt not in prompts]
        # What was typed after the interrupt is meant: it comes next.
        for prompt in prompts:
            if prompt not in self._unwanted:
                self._typed.put_nowait(prompt)
        if unwanted := [prompt for prompt in prompts if prompt in self._unwanted]:
            self.surface.fill("\n".join(unwanted))

    async def _run_interruptible(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that Esc can interrupt."""
        self._since, self._job = time.monotonic(), asyncio.ensure_future(work)
        try:
            await self._job
        except asyncio.CancelledError:
            if _is_closing():
                raise
            self.surface.show(self.renderer().notice("interrupted"))
        finally:
            self._since = self._job = None

    async def _run_turn(self, prompt: str) -> None:
        self._since = time.monotonic()
        try:
            await self._wait_for_servers()
            await slash_commands.run_turn(self.opened, self._add_pictures(prompt), self._show_event)
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        self._since = None
        self.event_renderer.finish()
        self._refresh_status_line()
        # Not later: who has just seen the end of a turn may be reading it.
        self.surface.call_user("waits for you", later=False)

    async def _wait_for_servers(self) -> None:
        """Wait for MCP servers that still start: the model would take their tools for missing."""
        servers = self.chat.services.mcp
        await servers.wait_started(_MCP_NOTICE_SECONDS)
        if pending := servers.pending_names():
            words = f"still connecting to {pending} (MCP); Esc sends the prompt without their tools"
            self.surface.show(self.renderer().notice(words))
            self._job = asyncio.ensure_future(servers.wait_started())
            try:
                await self._job
            except asyncio.CancelledError:
                if _is_closing():
                    raise
            finally:
                self._job = None
        for problem in servers.take_problems():
            self.surface.show(self.renderer().notice(problem))

    def _add_pictures(self, prompt: str) -> str | list[Json]:
        """Return a prompt with the pictures whose placeholders are in it."""
        pictures = self.surface.pasted.find_pictures(prompt)
        if not pictures:
            return prompt
        from unspool.client.tools.content.media import make_image_block

        blocks: list[Json] = [{"type": "text", "text": prompt}]
        for picture in pictures:
            try:
                data = picture if isinstance(picture, bytes) else read_start(picture, _MAX_PICTURE_BYTES)
                blocks.append(make_image_block(data).block)
            except InvalidToolCall as error:
                shown = "the pasted picture" if isinstance(picture, bytes) else f"`{picture}`"
                raise UsageError(
                    f"cannot send {shown}: {error}", hint="send a smaller picture, as PNG or JPEG"
                ) from None
        return blocks

    def _show_event(self, event: events.ChatEvent) -> None:
        match event:
            case events.InputTaken(text=text) | events.TurnBegan(text=text) if text in self.surface.queued:
                self.surface.queued.remove(text)
            case _:
                pass
        self.event_renderer.handle(event)
        if type(event) is events.TurnEnded and event.steps:
            self.surface.show(self.renderer().turn_summary(event, self.chat.window_state) + "\n")
