"""Runs a chat on a terminal that can only print, or without one: lines in, lines out, and nothing is drawn again.

Rules
  1. A question is answered with a line: a letter or a number, with the text that the option needs after it. An empty
     line refuses. Other words narrow a list that is picked from.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from unspool.client.session.pasted_texts import PastedTexts
from unspool.client.ui.choice import ChoicePrompt, ChoiceResult
from unspool.client.ui.input_lines import read_lines
from unspool.display import clean, clean_line

if TYPE_CHECKING:
    from unspool.client.ui.commands.interface_settings import InterfaceSettings
    from unspool.client.ui.terminal import Terminal


class PlainTerminal:
    """A surface on standard input and output, line by line."""

    def __init__(self, host: Terminal) -> None:
        self._host = host
        self.queued: list[str] = []
        self.pasted = PastedTexts()
        self._has_left = asyncio.Event()
        self._answer: asyncio.Future[str] | None = None
        self._question_lock = asyncio.Lock()

    @property
    def width(self) -> int:
        """The width in columns."""
        import shutil

        return shutil.get_terminal_size((80, 24)).columns

    @property
    def vim_mode(self) -> None:
        """There are no keys: lines are read whole."""

    async def run(self) -> None:
        """Read lines until there are no more, or the user leaves."""
        reading = asyncio.ensure_future(self._read())
        try:
            await self._has_left.wait()
        finally:
            reading.cancel()

    async def _read(self) -> None:
        async for data in read_lines(sys.stdin.fileno()):
            line = data.decode(errors="replace")
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(line.strip())
            elif line.strip():
                self._host.submit(line)
        self.leave()

    def leave(self) -> None:
        """End `run`."""
        self._has_left.set()

    def show(self, text: str) -> None:
        """Print a text."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def call_user(self, words: str, *, later: bool) -> None:
        """Lines come by themselves: nobody is called."""

    def withdraw(self, texts: Sequence[str]) -> bool:
        """What was printed stays."""
        return False

    def fill(self, text: str) -> None:
        """Print the text: here it cannot be put into the prompt."""
        self.show(f"it was: {clean_line(text)}\n")

    def insert(self, text: str) -> None:
        """Print the text: here it cannot be put into the prompt."""
        self.fill(text)

    async def run_program(self, words: Sequence[str]) -> int:
        """Start a program and wait for it."""
        import subprocess

        return await asyncio.to_thread(subprocess.call, list(words))

    def apply(self, interface: InterfaceSettings) -> None:
        """Nothing to do: lines have no keys and no colours."""

    async def choose(self, prompt: ChoicePrompt) -> ChoiceResult | None:
        """Ask and return what was chosen; None if nothing was."""
        async with self._question_lock:
            self.show(f"\n{clean(prompt.title)}\n")
            while True:
                self._show_options(prompt)
                line = await self._read_answer()
                if prompt.multiple and (numbers := _parse_numbers(line, len(prompt.options))):
                    return ChoiceResult(numbers)
                if not prompt.filters:
                    key, _, text = line.partition(" ")
                    chosen = prompt.press(key)
                    return prompt.enter_text(text) if prompt.text_option else chosen
                if not line or not prompt.options:
                    return None
                if line.isdecimal() and 0 < int(line) <= len(prompt.options):
                    return ChoiceResult((int(line) - 1,))
                prompt.set_query(line)
                if prompt.search is not None:
                    prompt.add_found(line, await asyncio.to_thread(prompt.search, line))
                if len(prompt.visible) == 1:
                    return ChoiceResult((prompt.visible[0],))

    def _show_options(self, prompt: ChoicePrompt) -> None:
        for index in prompt.visible:
            option = prompt.options[index]
            key = f" ({option.key})" if option.key else ""
            self.show(
                f"  {index + 1}. {clean_line(option.label)}{key}  {clean_line(prompt.detail(index))}".rstrip() + "\n"
            )
        if not prompt.visible:
            self.show("  nothing matches; an empty line goes back\n")

    async def _read_answer(self) -> str:
        self._answer = asyncio.get_running_loop().create_future()
        try:
            return await self._answer
        finally:
            self._answer = None


def _parse_numbers(line: str, count: int) -> tuple[int, ...]:
    """Return the options that a line such as `1, 3` names, by index; none if one of them does not exist."""
    words = line.replace(",", " ").split()
    if not all(word.isascii() and word.isdecimal() and len(word) < 4 and 0 < int(word) <= count for word in words):
        return ()
    return tuple(sorted({int(word) - 1 for word in words}))
