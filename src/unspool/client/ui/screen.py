r"""A terminal in which lines scroll away and a prompt stays at the bottom (prompt_toolkit): words in, keys out.

Rules
  1. What is shown for good goes into the terminal's own history, once; only what is under way is drawn again: the end
     of an answer that grows, what works, what waits, a question.
  2. `show` is given text that was made safe and coloured by `drawing`; everything else is cleaned here.
  3. The window's title is nobody's business.

[merged: keys.py] Which key does what in the terminal: a screen in, key bindings out.

Enter                 send; a line that ends with `\` goes on
Alt-Enter, Ctrl-J     a new line; what is pasted keeps its lines
Esc, Ctrl-C           end what runs; Ctrl-C clears what was typed, and twice leaves
Esc Esc               go back to an earlier prompt
shift-tab             the next permission mode
Ctrl-D                leave
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from unspool.client.ui.choice import PAUSE, Picked, Picking
from unspool.client.ui.completion import Candidate, is_open
from unspool.display.safe import clean, clean_line

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.document import Document
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.styles import Style

TICK = 0.1
AGAIN = 2.0
"""Seconds within which a second Ctrl-C leaves."""
_SPINNER = "✶✸✹✺✹✷"


class Host(Protocol):
    """Whoever is behind the screen."""

    def entered(self, text: str) -> None:
        """Something was typed."""

    def interrupted(self) -> bool:
        """End what runs; tell whether anything did."""

    def rewound(self) -> None:
        """Somebody wants to go back."""

    def next_mode(self) -> None:
        """Another permission mode is wanted."""

    def footer(self) -> str:
        """Return what holds: mode, model, context."""

    def status(self) -> str | None:
        """Return what is going on, while something is."""


class Screen:
    """The terminal while a conversation lasts."""

    def __init__(
        self, host: Host, history: Iterable[str], complete: Callable[[str], list[Candidate]], *, colours: bool
    ) -> None:
        self._host = host
        self.tail: Callable[[], str] = str
        """What has been said and is not settled."""
        self.queued: list[str] = []
        self._asked: Picking | None = None
        self._answer: asyncio.Future[Picked | None] | None = None
        self._asked_at = 0.0
        self._one_by_one = asyncio.Lock()
        self._waiting: list[str] = []
        self._leaving_since = -AGAIN
        self._session = _session(self, list(history), complete, colours=colours)
        self._app = self._session.app

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._app.output.get_size().columns

    async def run(self) -> None:
        """Read keys until somebody leaves."""
        ticking = asyncio.ensure_future(self._tick())
        try:
            await self._session.prompt_async(set_exception_handler=False, handle_sigint=False)
        except (EOFError, KeyboardInterrupt):
            pass
        finally:
            ticking.cancel()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(None)
            self._flush()

    def leave(self) -> None:
        """End it."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def show(self, text: str) -> None:
        """Let text scroll away above the prompt."""
        self._waiting.append(text)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def fill(self, text: str) -> None:
        """Put words where they can be changed and sent."""
        from prompt_toolkit.document import Document

        self._session.default_buffer.document = Document(text)

    async def pick(self, picking: Picking) -> Picked | None:
        """Ask; return what was picked, None if nothing was. Questions are asked one after the other."""
        async with self._one_by_one:
            self._flush()  # what is asked about stands above the question before it can be seen
            draft = self._session.default_buffer.document
            self._session.default_buffer.reset()
            self._asked, self._asked_at = picking, time.monotonic()
            self._answer = asyncio.get_running_loop().create_future()
            self._app.invalidate()
            asyncio.get_running_loop().call_later(PAUSE, self._app.invalidate)
            try:
                return await self._answer
            finally:
                self._asked = self._answer = None
                self._restore(draft)

    # What the keys do

    @property
    def is_asking(self) -> bool:
        """Whether a question waits for a key."""
        return self._asked is not None and self._asked.wanted is None

    def completes(self) -> bool:
        """Tell whether what is typed is completed as it is typed: only then is room kept for it."""
        return self._asked is None and is_open(self._session.default_buffer.document.text_before_cursor)

    @property
    def is_working(self) -> bool:
        """Whether something runs."""
        return self._host.status() is not None

    def pressed(self, key: str) -> None:
        """Take a key that answers a question."""
        if self._asked is None or not self._can_be_answered:
            return
        if key in ("escape", "c-c"):
            self._picked(None)
        elif picked := self._asked.press(key):
            self._picked(picked)

    @property
    def _can_be_answered(self) -> bool:
        return time.monotonic() - self._asked_at >= PAUSE

    def enter(self) -> None:
        """Take what was typed."""
        buffer = self._session.default_buffer
        text = buffer.text
        if self._asked is not None and self._asked.wanted is not None:
            self._picked(self._asked.said(text))
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif text.strip():
            buffer.append_to_history()
            buffer.reset()
            self._host.entered(text)

    def stop(self) -> None:
        """Take Ctrl-C: end what runs, or clear what was typed, or, the second time, leave."""
        if self._asked is not None:
            self._picked(None)
        elif not self._host.interrupted():
            if self._session.default_buffer.text:
                self._session.default_buffer.reset()
            elif time.monotonic() - self._leaving_since < AGAIN:
                self.leave()
            else:
                self._leaving_since = time.monotonic()

    def escape(self) -> None:
        """Take Esc: end what runs."""
        if self._asked is not None:
            self._picked(None)
        else:
            self._host.interrupted()

    def rewind(self) -> None:
        """Take Esc Esc."""
        self._host.rewound()

    def next_mode(self) -> None:
        """Take shift-tab."""
        self._host.next_mode()

    def _picked(self, picked: Picked | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(picked)

    def _restore(self, draft: Document) -> None:
        self._session.default_buffer.document = draft
        self.show("")  # draws anew, without the rows that the question took

    # What is drawn

    def _flush(self) -> None:
        text, self._waiting = "".join(self._waiting), []
        output = self._app.output
        if self._app.is_running:
            self._app.renderer.erase()
        output.write_raw(text.replace("\n", "\r\n"))
        output.flush()
        self._app.invalidate()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self.is_working:
                self._app.invalidate()

    def message(self) -> StyleAndTextTuples:
        """Return what stands before the cursor: all that is under way, and the prompt."""
        width, rows = self.width, self._app.output.get_size().rows
        lines = [("class:tail", line) for line in _last(self.tail(), width, max(rows // 2, 1))]
        if (status := self._host.status()) and self._asked is None:
            frame = _SPINNER[int(time.monotonic() / TICK) % len(_SPINNER)]
            lines += [("", ""), ("class:status", f"{frame} {status}")]
        lines += [("class:queued", f"  ⤷ waits: {clean_line(words)}") for words in self.queued[-3:]]
        lines += self._question()
        above = [(style, _fit(line, width) + "\n") for style, line in lines]
        wanted = self._asked.wanted if self._asked else None
        return [*above, ("class:prompt", f"{wanted.wants} " if wanted else "> ")]

    def _question(self) -> list[tuple[str, str]]:
        asked = self._asked
        if asked is None:
            return []
        lines = [("", ""), *(("class:question", line) for line in clean(asked.title).split("\n"))]
        for place in asked.window():
            option = asked.options[place]
            mark = "❯" if place == asked.cursor else " "
            box = ("☒ " if place in asked.marked else "☐ ") if asked.several else ""
            key = f" ({option.key})" if option.key else ""
            detail = f"  {clean_line(option.detail)}" if option.detail else ""
            style = "class:cursor" if place == asked.cursor else ""
            lines.append((style, f"{mark} {box}{place + 1}. {clean_line(option.label)}{key}{detail}"))
        if len(asked.options) > len(asked.window()):
            lines.append(("class:tail", f"  {len(asked.options)} in all; ↑ ↓"))
        return lines

    def footer(self) -> str:
        """Return the line at the bottom."""
        if time.monotonic() - self._leaving_since < AGAIN:
            return "Ctrl-C again leaves"
        if self.is_asking:
            return "↑ ↓ Enter, a letter or a number; Esc: no" if self._can_be_answered else "…"
        return _fit(clean_line(self._host.footer()), self.width)


def _session(
    screen: Screen, history: list[str], complete: Callable[[str], list[Candidate]], *, colours: bool
) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import ColorDepth
    from prompt_toolkit.output.vt100 import Vt100_Output

    from unspool.client.ui.completion import completer

    pass

    output = Vt100_Output.from_pty(sys.stdout)
    output.enable_cpr = False  # no terminal is asked where its cursor is: some do not answer, and we need not know
    made: PromptSession[str] = PromptSession(
        message=screen.message,
        multiline=True,
        history=InMemoryHistory(history),
        completer=completer(complete),
        complete_while_typing=Condition(screen.completes),
        key_bindings=bindings(screen),
        bottom_toolbar=screen.footer,
        prompt_continuation="  ",
        erase_when_done=True,
        enable_suspend=True,
        include_default_pygments_style=False,
        style=_style(),
        color_depth=ColorDepth.DEPTH_4_BIT if colours else ColorDepth.DEPTH_1_BIT,
        output=output,
    )
    made.app.timeoutlen, made.app.ttimeoutlen = 0.3, 0.05
    # The line at the bottom is drawn only where the room below is known: there is one row at least.
    renderer = made.app.renderer
    made.app.before_render += lambda _: renderer.report_absolute_cursor_row(output.get_size().rows)
    return made


def _style() -> Style:
    from prompt_toolkit.styles import Style

    return Style.from_dict(
        {
            "prompt": "bold",
            "tail": "fg:ansibrightblack",
            "status": "fg:ansiyellow",
            "queued": "italic",
            "question": "bold",
            "cursor": "fg:ansicyan bold",
            "bottom-toolbar": "noreverse fg:ansibrightblack",
        }
    )


def _last(text: str, width: int, limit: int) -> list[str]:
    """Return the last lines of a text, broken where the terminal ends."""
    lines: list[str] = []
    for line in clean(text[-width * limit * 2 :]).split("\n")[-limit:]:
        rest = line.expandtabs(4)
        while len(part := _fit(rest, width)) < len(rest):
            lines.append(part)
            rest = rest[len(part) :]
        lines.append(rest)
    return [line for line in lines[-limit:] if line or len(lines) > 1]


def _fit(line: str, width: int) -> str:
    """Return as much of a line as there is room for."""
    from prompt_toolkit.utils import get_cwidth

    room = max(width - 1, 1)
    if get_cwidth(line) <= room:
        return line
    used = 0
    for place, character in enumerate(line):
        used += get_cwidth(character)
        if used > room:
            return line[: max(place, 1)]
    return line


def bindings(screen: Screen) -> KeyBindings:
    """Return what the keys do."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()
    asking = Condition(lambda: screen.is_asking)
    idle = Condition(lambda: not screen.is_asking and not screen.is_working)

    @keys.add("enter", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.enter()

    @keys.add("escape", "enter", filter=~asking)
    @keys.add("c-j", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.complete_state:
            event.current_buffer.cancel_completion()
        else:
            screen.escape()

    @keys.add("escape", "escape", filter=idle)
    def _(event: KeyPressEvent) -> None:
        screen.rewind()

    @keys.add("s-tab", filter=~asking)
    def _(event: KeyPressEvent) -> None:
        screen.next_mode()

    @keys.add("c-c")
    def _(event: KeyPressEvent) -> None:
        screen.stop()

    _answering(keys, screen)
    return keys


def _answering(keys: KeyBindings, screen: Screen) -> None:
    """Let keys answer a question, and do nothing else while there is one."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.keys import Keys

    asking = Condition(lambda: screen.is_asking)
    names = {"up": "up", "down": "down", "c-p": "up", "c-n": "down", "enter": "enter", "escape": "escape", " ": "space"}

    @keys.add(Keys.Any, filter=asking, eager=True)
    def _(event: KeyPressEvent) -> None:
        screen.pressed(event.data)

    for key, name in names.items():

        @keys.add(key, filter=asking, eager=True)
        def _(event: KeyPressEvent, name: str = name) -> None:
            screen.pressed(name)
