r"""Shows a chat in a terminal with prompt_toolkit: text scrolls away above, the prompt stays at the bottom.

Rules
  1. Finished text goes into the terminal's own scrollback, once. Only what is in progress is drawn again: the end of an
     answer that grows, the status line, queued prompts, a question.
  2. `show` expects text that `render` has made safe and coloured; everything else is made safe here.
  3. The window's title is not changed.

Enter                 send; after a `\` at the end, a new line
Alt-Enter, Ctrl-J     a new line
paste                 a long text is shown as a placeholder and sent whole; pasted again, it is shown
Esc, Ctrl-C           interrupt what runs; Ctrl-C clears what was typed, and twice leaves
Esc Esc               go back to an earlier prompt
Ctrl-V                insert the picture in the clipboard
Ctrl-O                show a long output in full, the newest first
Ctrl-B                move the running command to the background
shift-tab             the next permission mode
Ctrl-D                leave
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

# At the top: only a terminal that can draw loads this module (`start.py`).
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from wcwidth import clip

from unspool.client.session.pasted_texts import PastedTexts, find_picture
from unspool.client.session.prompt_history import TypedPrompt
from unspool.client.ui.choice import KEY_DELAY_SECONDS, ChoicePrompt, ChoiceResult
from unspool.client.ui.completion import ChatCompleter, can_complete
from unspool.client.ui.drawing.notification import make_notification
from unspool.client.ui.drawing.reflow import ReflowRenderer
from unspool.display import clean, clean_line

if TYPE_CHECKING:
    from unspool.client.ui.commands.interface_settings import InterfaceSettings
    from unspool.client.ui.terminal import Terminal

TICK_SECONDS = 0.1
_MAX_RECENT = 200
"""Texts that could be erased again."""
SEARCH_DELAY_SECONDS = 0.15
LEAVE_SECONDS = 2.0
"""Seconds within which a second Ctrl-C leaves."""
_STYLES = {
    "prompt": "bold",
    "tail": "fg:ansibrightblack",
    "status": "fg:ansiyellow",
    "queued": "italic",
    "question": "bold",
    "cursor": "fg:ansicyan bold",
    "bottom-toolbar": "noreverse fg:ansibrightblack",
}
_THEME_STYLES = {"light": {"status": "fg:ansimagenta", "cursor": "fg:ansiblue bold"}}
"""What differs on a light background, where yellow and cyan are hard to read."""
_SPINNER = "✶✸✹✺✹✷"


class PromptScreen:
    """The terminal while a chat runs: a surface with a prompt at the bottom."""

    def __init__(self, host: Terminal, history: Iterable[TypedPrompt]) -> None:
        self._host = host
        self.queued: list[str] = []
        self.pasted = PastedTexts()
        self._question: ChoicePrompt | None = None
        self._answer: asyncio.Future[ChoiceResult | None] | None = None
        self._question_at = 0.0
        self._searching: asyncio.Future[None] | None = None
        self._question_lock = asyncio.Lock()
        self._unshown: list[str] = []
        self._recent: list[str] = []
        """What was printed last."""
        self._recent_width = 0
        self._ctrl_c_at = -LEAVE_SECONDS
        self._theme = "dark"
        self._key_at = time.monotonic()
        self._calling: asyncio.TimerHandle | None = None
        self._session = _make_session(self, host, [self.pasted.adopt(*prompt) for prompt in history])
        self._app = self._session.app
        self._app.key_processor.before_key_press += lambda _: self.note_key()

    @property
    def width(self) -> int:
        """The width in columns."""
        return self._app.output.get_size().columns

    @property
    def vim_mode(self) -> str | None:
        """INSERT, NORMAL or another mode of vim keys; None: the keys are the usual ones."""
        if self._app.editing_mode is not EditingMode.VI:
            return None
        names = {InputMode.INSERT: "INSERT", InputMode.NAVIGATION: "NORMAL", InputMode.REPLACE: "REPLACE"}
        return names.get(self._app.vi_state.input_mode, "INSERT")

    async def run(self) -> None:
        """Read keys until the user leaves."""
        ticking = asyncio.ensure_future(self._tick())
        try:
            # `Terminal` handles SIGINT itself, so that Ctrl-C from outside interrupts a turn as the key does.
            await self._session.prompt_async(set_exception_handler=False, handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            ticking.cancel()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(None)
            self._flush()

    def leave(self) -> None:
        """End `run`."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def show(self, text: str) -> None:
        """Print a text above the prompt."""
        self._unshown.append(text)
        if text:
            self._recent = [*self._recent[1 - _MAX_RECENT :], text]
        # All texts of one step of the event loop are printed at once: each print draws the prompt again.
        if len(self._unshown) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def withdraw(self, texts: Sequence[str]) -> bool:
        """Erase texts that were printed, if they can still be seen; what was printed between them is printed again."""
        self._flush()
        places = [place for place, text in enumerate(self._recent) if text in texts]
        if len(places) < len(texts):
            return False
        start = places[-len(texts)]
        rows, size = sum(text.count("\n") for text in self._recent[start:]), self._app.output.get_size()
        drawn = len(self.prompt_message()) + self.footer().count("\n") + 2
        # After a resize nobody knows how many rows the texts take.
        if self._recent_width != size.columns or rows > size.rows - drawn:
            return False
        self._app.renderer.erase()
        self._app.output.write_raw(f"\r\x1b[{rows}A\x1b[J")
        kept = [text for text in self._recent[start:] if text not in texts]
        self._recent = self._recent[:start]
        for text in kept:
            self.show(text)
        return True

    def fill(self, text: str) -> None:
        """Put a text into the prompt, where it can be changed and sent."""
        self._session.default_buffer.document = Document(self.pasted.fold_known(text))

    async def run_program(self, words: Sequence[str]) -> int:
        """Give the terminal to a program, such as an editor, until it ends; return its exit code."""
        import subprocess

        try:
            return await run_in_terminal(lambda: subprocess.call(list(words)), in_executor=True)
        except OSError:  # there is no such program
            return 127

    def apply(self, interface: InterfaceSettings) -> None:
        """Use other keys and colours from now on."""
        is_vim = interface.editor_mode == "vim"
        if (self._app.editing_mode is EditingMode.VI) != is_vim:
            self._app.editing_mode = EditingMode.VI if is_vim else EditingMode.EMACS
        theme = interface.theme.partition("-")[0]
        if theme != self._theme:
            self._theme = theme
            self._app.style = Style.from_dict(_STYLES | _THEME_STYLES.get(theme, {}))
        self._app.invalidate()

    async def choose(self, prompt: ChoicePrompt) -> ChoiceResult | None:
        """Let the user choose; None if they cancel. Questions are asked one after the other."""
        async with self._question_lock:
            self._flush()  # what is asked about must stand above the question before it can be answered
            draft = self._session.default_buffer.document
            self._session.default_buffer.reset()
            self._question, self._question_at = prompt, time.monotonic()
            self._answer = asyncio.get_running_loop().create_future()
            self._app.invalidate()
            asyncio.get_running_loop().call_later(KEY_DELAY_SECONDS, self._app.invalidate)
            self.call_user(clean_line(prompt.title.split("\n")[0]), later=True)
            try:
                return await self._answer
            finally:
                self._stop_calling()
                if self._searching is not None:
                    self._searching.cancel()
                self._question = self._answer = None
                self._session.default_buffer.document = draft
                self.show("")  # to draw again without the rows of the question

    def call_user(self, words: str, *, later: bool) -> None:
        """Notify the user that chat waits for them, if no key was pressed for a while, or `later` when none was."""
        self._stop_calling()
        interface = self._host.interface
        quiet = time.monotonic() - self._key_at
        delay = max(0.0, interface.notification_seconds - quiet)
        sequence = make_notification(words, interface.notifications, self._host.environment)
        if sequence and (later or not delay):
            self._calling = asyncio.get_running_loop().call_later(delay, self._notify, sequence)

    def _notify(self, sequence: str) -> None:
        self._app.output.write_raw(sequence)
        self._app.output.flush()

    def _stop_calling(self) -> None:
        if self._calling is not None:
            self._calling.cancel()
            self._calling = None

    def note_key(self) -> None:
        """Note that the user is there."""
        self._key_at = time.monotonic()
        self._stop_calling()

    # What the keys do

    @property
    def is_asking(self) -> bool:
        """Whether a question waits for a key, and not for a text."""
        return self._question is not None and self._question.text_option is None

    def can_complete(self) -> bool:
        """Return whether what is typed can be completed: only then are rows kept free for it."""
        return self._question is None and can_complete(self._session.default_buffer.document.text_before_cursor)

    @property
    def is_working(self) -> bool:
        """Whether something is running."""
        return self._host.status() is not None

    def press(self, key: str) -> None:
        """Handle a key that answers a question."""
        if self._question is None or not self._can_be_answered:
            return
        if key in ("escape", "c-c"):
            self._finish_question(None)
            if key == "c-c":
                self._host.interrupt()
        else:
            query = self._question.query
            if result := self._question.press(key):
                self._finish_question(result)
            elif self._question.search is not None and self._question.query != query:
                self._start_search(self._question)

    def _start_search(self, question: ChoicePrompt) -> None:
        """Search for what was typed, once nothing more is typed for a moment."""
        if self._searching is not None:
            self._searching.cancel()
        self._searching = asyncio.ensure_future(self._search(question, question.query))

    async def _search(self, question: ChoicePrompt, query: str) -> None:
        assert question.search is not None
        await asyncio.sleep(SEARCH_DELAY_SECONDS)
        if query.strip():
            question.add_found(query, await asyncio.to_thread(question.search, query))
            self._app.invalidate()

    @property
    def _can_be_answered(self) -> bool:
        return time.monotonic() - self._question_at >= KEY_DELAY_SECONDS

    def enter(self) -> None:
        """Handle Enter."""
        buffer = self._session.default_buffer
        text = buffer.text
        if self._question is not None and self._question.text_option is not None:
            self._finish_question(self._question.enter_text(self.pasted.expand(text)))
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif text.strip():
            buffer.append_to_history()
            buffer.reset()
            self._host.submit(self.pasted.expand(text))

    def paste(self, text: str) -> None:
        """Insert a pasted text: a long one as a placeholder, or in its place if it is pasted a second time."""
        buffer = self._session.default_buffer
        # Terminals send line ends as carriage returns.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if (picture := find_picture(text, self._host.options.cwd)) is not None:
            buffer.insert_text(self.pasted.add_picture(picture))
            return
        folded = self.pasted.fold(text)
        if folded != text and folded in buffer.text:
            buffer.text = buffer.text.replace(folded, text, 1)
            buffer.cursor_position = buffer.text.find(text) + len(text)
        else:
            buffer.insert_text(folded)

    def insert(self, text: str) -> None:
        """Insert a text into the prompt, where the cursor is."""
        self._session.default_buffer.insert_text(text)
        self._session.app.invalidate()

    def ctrl_c(self) -> None:
        """Interrupt what runs, or clear what was typed, or leave if it is pressed again."""
        if self._question is not None:
            self._finish_question(None)
        elif not self._host.interrupt():
            if self._session.default_buffer.text:
                self._session.default_buffer.reset()
            elif time.monotonic() - self._ctrl_c_at < LEAVE_SECONDS:
                self.leave()
            else:
                self._ctrl_c_at = time.monotonic()

    def escape(self) -> None:
        """Handle Esc: cancel the question, or interrupt what runs."""
        if self._question is not None:
            self._finish_question(None)
        else:
            self._host.interrupt()

    def _finish_question(self, result: ChoiceResult | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(result)

    # What is drawn

    def _flush(self) -> None:
        text, self._unshown = "".join(self._unshown), []
        output = self._app.output
        if (width := self.width) != self._recent_width:
            self._recent, self._recent_width = self._recent[-1:] if text else [], width
        # The prompt is erased first; otherwise a copy of it would stay in the scrollback.
        if self._app.is_running:
            self._app.renderer.erase()
        # In raw mode the terminal does not add the carriage return.
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        self._app.invalidate()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if self.is_working:
                self._app.invalidate()

    def prompt_message(self) -> StyleAndTextTuples:
        """Return what stands before the cursor: all that is in progress, and the prompt."""
        width, rows = self.width, self._app.output.get_size().rows
        lines = [("class:tail", line) for line in _last_lines(self._host.tail(), width, max(rows // 2, 1))]
        if (status := self._host.status()) and self._question is None:
            frame = _SPINNER[int(time.monotonic() / TICK_SECONDS) % len(_SPINNER)]
            lines += [("", ""), ("class:status", f"{frame} {status}")]
        lines += [
            ("class:queued", f"  ⤷ waits: {clean_line(self.pasted.fold_known(prompt))}") for prompt in self.queued[-3:]
        ]
        lines += self._question_lines()
        above = [(style, _cut(line, width) + "\n") for style, line in lines]
        option = self._question.text_option if self._question else None
        return [*above, ("class:prompt", f"{option.text_prompt} " if option else "> ")]

    def _question_lines(self) -> list[tuple[str, str]]:
        question = self._question
        if question is None:
            return []
        lines = [("", ""), *(("class:question", line) for line in clean(question.title).split("\n"))]
        if question.filters:
            lines.append(("class:status", f"/ {clean_line(question.query)}") if question.query else ("", ""))
        for index in question.window():
            option = question.options[index]
            mark = "❯" if index == question.cursor else " "
            box = ("☒ " if index in question.marked else "☐ ") if question.multiple else ""
            number = "" if question.filters else f"{index + 1}. "
            key = f" ({option.key})" if option.key else ""
            detail = f"  {clean_line(words)}" if (words := question.detail(index)) else ""
            style = "class:cursor" if index == question.cursor else ""
            head = f"{mark} {box}{number}"
            # A long label is cut before its letter, which would be lost at the edge of the screen.
            label = _cut(clean_line(option.label), self.width - len(head) - len(key))
            lines.append((style, f"{head}{label}{key}{detail}"))
        shown, count = len(question.window()), len(question.visible)
        if not shown:
            lines.append(("class:tail", "  nothing matches"))
        elif count > shown or question.query:
            lines.append(("class:tail", f"  {count} of {len(question.options)}; ↑ ↓"))
        return lines

    def footer(self) -> str:
        """Return the line below the prompt."""
        if time.monotonic() - self._ctrl_c_at < LEAVE_SECONDS:
            return "Ctrl-C again leaves"
        if self._question is not None and self._question.filters and self._can_be_answered:
            return "↑ ↓ Enter; type to search; Esc: no"
        if self.is_asking:
            return "↑ ↓ Enter, a letter or a number; Esc: no" if self._can_be_answered else "…"
        mode = f"{self.vim_mode} · " if self.vim_mode else ""
        *above, last = self._host.footer().split("\n")
        return "\n".join(_cut(clean_line(line), self.width) for line in [*above, mode + last])


def _make_session(screen: PromptScreen, host: Terminal, history: list[str]) -> PromptSession[str]:
    output = Vt100_Output.from_pty(sys.stdout)
    output.enable_cpr = False  # some terminals do not answer when they are asked for their cursor, and we need not know
    session: PromptSession[str] = PromptSession(
        message=screen.prompt_message,
        multiline=True,
        history=InMemoryHistory(history),
        completer=ChatCompleter(host.commands, host.options.cwd, host.resources),
        complete_while_typing=Condition(screen.can_complete),
        key_bindings=make_key_bindings(screen, host),
        bottom_toolbar=screen.footer,
        prompt_continuation="  ",
        erase_when_done=True,
        enable_suspend=True,
        include_default_pygments_style=False,
        style=Style.from_dict(_STYLES),
        color_depth=ColorDepth.DEPTH_4_BIT if host.rendering.colours else ColorDepth.DEPTH_1_BIT,
        output=output,
    )
    # Esc alone must act soon, and still be the first key of Esc Esc and Alt-Enter.
    session.app.timeoutlen, session.app.ttimeoutlen = 0.3, 0.05
    session.app.renderer = renderer = ReflowRenderer(session.app.renderer.style, output, host.environment)
    # prompt_toolkit draws the toolbar only when it knows the rows below the cursor, which we do not ask for.
    session.app.before_render += lambda _: renderer.report_absolute_cursor_row(output.get_size().rows)
    return session


def _last_lines(text: str, width: int, limit: int) -> list[str]:
    """Return the last lines of a text, wrapped at the width of the terminal."""
    lines: list[str] = []
    # Only the end is made safe: this runs ten times a second, and an answer may be long.
    for line in clean(text[-width * limit * 2 :]).split("\n")[-limit:]:
        rest = line.expandtabs(4)
        while len(part := _cut(rest, width)) < len(rest):
            lines.append(part)
            rest = rest[len(part) :]
        lines.append(rest)
    return [line for line in lines[-limit:] if line or len(lines) > 1]


def _cut(line: str, width: int) -> str:
    """Return the beginning of a line that fits the width."""
    # Never empty, so that `_last_lines` ends also where not even one wide character fits.
    return clip(line, 0, max(width - 1, 1), fillchar="") or line[:1]


def make_key_bindings(screen: PromptScreen, host: Terminal) -> KeyBindings:
    """Return the key bindings of a screen (see the table in the module's docstring)."""
    keys = KeyBindings()
    asking = Condition(lambda: screen.is_asking)
    # With vim keys, Esc leaves the insert mode first. While something runs it interrupts, in every mode.
    acts = Condition(lambda: not screen.is_asking and (screen.vim_mode in (None, "NORMAL") or screen.is_working))
    idle = Condition(lambda: not screen.is_working)

    @keys.add("enter", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.enter()

    @keys.add("escape", "enter", filter=~asking)
    @keys.add("c-j", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=acts)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.cancel_completion()
        else:
            screen.escape()

    @keys.add("escape", "escape", filter=acts & idle)
    def _(event: KeyPressEvent) -> None:
        host.rewind()

    @keys.add(Keys.BracketedPaste, filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.paste(event.data)

    @keys.add("c-v", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        host.paste_picture()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        host.unfold()

    @keys.add("c-b", filter=Condition(lambda: not screen.is_asking and screen.is_working))
    def _(event: KeyPressEvent) -> None:
        host.move_to_background()

    @keys.add("s-tab", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        host.next_mode()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        screen.ctrl_c()

    _add_question_keys(keys, screen)
    return keys


def _add_question_keys(keys: KeyBindings, screen: PromptScreen) -> None:
    """Let keys answer a question, and do nothing else while one is open."""
    asking = Condition(lambda: screen.is_asking)
    names = {"up": "up", "down": "down", "c-p": "up", "c-n": "down", "enter": "enter", "escape": "escape", " ": "space"}
    names |= {"backspace": "backspace", "c-c": "c-c"}

    # Eager, so that no other binding sees a key that is meant for the question.
    @keys.add(Keys.Any, filter=asking, eager=True)
    def _(event: KeyPressEvent) -> None:
        screen.press(event.data)

    for key, name in names.items():

        @keys.add(key, filter=asking, eager=True)
        def _(event: KeyPressEvent, name: str = name) -> None:
            screen.press(name)
