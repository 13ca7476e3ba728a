"""Renders the events of a chat as they come: keeps what is in progress, and prints what is finished.

Rules
  1. Text is printed when it will not change any more (`MarkdownStream`); what is in progress is in `tail`.
  2. A delta costs an append: nothing is rendered because of one.
  3. When a response broke off and comes again, what it repeats word for word stays. What differs is replaced where it
     can still be erased; else a line says that it is void.
  4. The blocks of a `MarkdownStream`, joined together, are the text, however that was cut into pieces. An open code
     fence, and a list that may continue, are not cut.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from unspool.client import events
from unspool.client.session.prompt_history import text_as_typed
from unspool.client.ui.render import ChatRenderer
from unspool.display import clean_line, units

_MAX_FOLDED = 50
"""Outputs that can still be shown in full."""
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_ENDINGS = {
    "hook_stopped": "a hook ended the turn",
    "interrupted": "interrupted; type what to do instead",
    "refusal": "the model declined to answer",
    "max_tokens": "the response was cut off at the output token limit",
    "max_steps": "stopped: reached the limit of requests",
    "max_total_tokens": "stopped: reached the token limit",
    "max_cost": "stopped: reached the cost limit",
    "max_seconds": "stopped: reached the time limit",
    "context_full": "the conversation no longer fits the context window; use `/compact` or `/clear`",
}


class PrintedBlock(NamedTuple):
    """A block of an answer that stands on the screen: its Markdown, and what was printed."""

    text: str
    shown: str


class EventRenderer:
    """Renders one chat.

    `show` prints a finished text, `fold` shortens what was pasted into a prompt, and `withdraw` erases texts that were
    printed; it returns whether that was possible.
    """

    def __init__(
        self,
        show: Callable[[str], None],
        renderer: Callable[[], ChatRenderer],
        *,
        fold: Callable[[str], str] = str,
        withdraw: Callable[[Sequence[str]], bool] = lambda texts: False,
    ) -> None:
        self._show = show
        self._fold, self._withdraw = fold, withdraw
        self._renderer = renderer
        self._markdown = MarkdownStream()
        self._printed: list[PrintedBlock] = []
        """What was printed of this response."""
        self._repeated: deque[PrintedBlock] = deque()
        """What was printed of a response that broke off, and may come again."""
        self._is_first = True
        self._folded: deque[events.CallEnded] = deque(maxlen=_MAX_FOLDED)
        self._calls: dict[str, events.CallBegan] = {}
        self._progress: dict[str, str] = {}
        self._tokens = 0
        self.activity = "thinking"
        self.ending: str | None = None
        """How the last turn ended; None while it runs."""

    @property
    def tail(self) -> str:
        """The text that is still growing, or the output of a call that runs."""
        running = [words for id, words in self._progress.items() if id in self._calls]
        return self._markdown.tail or (running[-1] if running else "")

    @property
    def token_text(self) -> str:
        """The output tokens of the turn so far, as text; empty if there are none."""
        return f", ↓ {units.tokens(self._tokens)} tokens" if self._tokens else ""

    def unfold(self) -> bool:
        """Print in full the newest output that was cut, next time the one before it; return whether there is one."""
        if not self._folded:
            return False
        event, renderer = self._folded.pop(), self._renderer()
        target = renderer.target(event.name, event.input)
        head = renderer.call(event.name, target, failed=event.is_error)
        self._show(head + renderer.call_outcome(event, whole=True) + "\n")
        return True

    def finish(self) -> None:
        """Print what is left of a turn that has ended, however it ended."""
        self._print_rest()
        self._calls.clear()
        self._progress.clear()

    def handle(self, event: events.ChatEvent) -> None:
        """Render an event."""
        match event:
            case events.TextGrown(text=text):
                self._add_text(text)
            case events.ThinkingGrown():
                self.activity = "thinking"
            case events.StepBegan():
                self._printed.clear()
                self._is_first, self.activity = True, "waiting for the model"
            case events.BlockDone(block=block):
                self._finish_block(block)
            case events.ResponseDone(usage=usage):
                self._withdraw_rest()
                self._tokens += int(usage.get("output_tokens") or 0)
            case events.CallBegan() | events.CallProgressed() | events.CallEnded() | events.SubagentEvent():
                self._handle_call(event)
            case events.TurnBegan(text=text):
                self._tokens, self.ending = 0, None
                if text:  # a turn that nobody typed has none
                    self._show(self._renderer().prompt(self._fold(text_as_typed(text))) + "\n")
            case events.TurnEnded():
                self._end_turn(event)
            case _:
                self._handle_other(event)

    def _add_text(self, text: str) -> None:
        self.activity = "answering"
        for block in self._markdown.feed(text):
            self._print_answer(block)

    def _print_answer(self, block: str) -> None:
        if self._repeated and self._repeated[0].text == block:
            self._printed.append(self._repeated.popleft())  # it stands on the screen already
            self._is_first = False
            return
        self._withdraw_rest()
        rendered = self._renderer().answer(block, first=self._is_first)
        # The mark stands only before the first block of a message.
        if rendered:
            self._is_first = False
            self._printed.append(PrintedBlock(block, rendered + "\n"))
            self._show(rendered + "\n")

    def _withdraw_rest(self) -> None:
        """Erase what was printed of a response that broke off, from where the new one differs."""
        stale = [*self._repeated]
        self._repeated.clear()
        if not stale:
            return
        if not self._withdraw([block.shown for block in stale]):
            first = stale[0].text.strip().split("\n")[0][:40]
            words = f"void from “{first}” on: the answer broke off there, the new one follows"
            self._show(self._renderer().notice(words))

    def _print_rest(self) -> None:
        rest = self._markdown.flush()
        if rest:
            self._print_answer(rest)

    def _finish_block(self, block: dict[str, object]) -> None:
        kind = block.get("type")
        if kind == "text":
            if not self._markdown.tail and self._is_first:  # it came whole, without deltas
                self._markdown.feed(str(block.get("text", "")))
            self._print_rest()
            self._is_first = True
        elif kind == "thinking":
            self._show(self._renderer().thinking(str(block.get("thinking", ""))))
        elif kind == "tool_use":
            self.activity = f"calling {clean_line(str(block.get('name')))}"

    def _handle_call(self, event: events.ChatEvent) -> None:
        renderer = self._renderer()
        match event:
            case events.CallBegan(id=id, name=name):
                self._calls[id] = event
                self.activity = clean_line(f"{name} {renderer.target(name, event.input)}")[:40]
            case events.CallProgressed(id=id, data={"output": str(output)}):
                self._progress[id] = output
            case events.CallEnded(id=id, name=name):
                self._calls.pop(id, None)
                target = renderer.target(name, event.input)
                self._show(renderer.call(name, target, failed=event.is_error) + renderer.call_outcome(event) + "\n")
                if renderer.has_folded:
                    self._folded.append(event)
            case events.SubagentEvent(event=events.CallBegan() as inner, kind=kind):
                self._show(renderer.agent_call(kind, inner))
            case _:
                pass

    def _end_turn(self, event: events.TurnEnded) -> None:
        self.ending = event.ending
        self._print_rest()
        if words := _ENDINGS.get(event.ending):
            self._show(self._renderer().notice(words))

    def _handle_other(self, event: events.ChatEvent) -> None:
        renderer = self._renderer()
        match event:
            case events.RetryScheduled():
                # The next response begins anew: what it repeats word for word is not shown a second time.
                self._markdown.flush()
                self._repeated.extendleft(reversed(self._printed))
                self._printed, self._is_first = [], True
                self._show(renderer.waiting(event))
            case events.ContextCompacted():
                self._show(renderer.compaction(event))
            case events.InputTaken(text=text):
                self._show(renderer.prompt(self._fold(text)) + "\n")
            case events.FeatureDisabled(what=what, why=why):
                self._show(renderer.notice(f"{what} ({why})"))
            case events.HookReported(notices=notices):
                for notice in notices:
                    self._show(renderer.notice(notice))
            case events.ModeChanged(mode=mode):
                self._show(renderer.notice(f"permission mode: {mode}") + "\n")
            case events.TurnFailed(message=message, hint=hint):
                self._print_rest()
                self._show(renderer.error(message, hint))
            case _:
                pass


class MarkdownStream:
    """Splits Markdown that arrives in pieces into blocks that will not change any more."""

    def __init__(self) -> None:
        self._partial = ""
        """The last line, which is not complete yet."""
        self._lines: list[str] = []
        self._fence = ""
        self._is_list = False
        self._is_blank = False

    @property
    def tail(self) -> str:
        """The text that may still change."""
        return "".join(self._lines) + self._partial

    def feed(self, text: str) -> list[str]:
        """Add more of the text; return the blocks that are complete now."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines for block in self._add_line(line + "\n")]

    def flush(self) -> str:
        """Return the rest of the text, and start again."""
        rest = self.tail
        self._lines, self._partial, self._fence, self._is_list, self._is_blank = [], "", "", False, False
        return rest

    def _add_line(self, line: str) -> list[str]:
        """Add a line; return the blocks it completes: the one before it, the one it ends."""
        complete = [self._take_block()] if self._starts_block(line) else []
        if not self._lines:
            self._is_list = bool(_ITEM.match(line))
        self._lines.append(line)
        is_closed = self._toggle_fence(line)
        self._is_blank = not line.strip() and not self._fence
        if is_closed and not self._is_list:
            complete.append(self._take_block())
        return complete

    def _starts_block(self, line: str) -> bool:
        if not self._lines or self._fence or not line.strip():
            return False
        if not self._is_blank:
            return line.startswith("#") and not self._is_list
        return not (self._is_list and (line[0] in " \t" or _ITEM.match(line)))

    def _toggle_fence(self, line: str) -> bool:
        """Open or close a fence; return whether one was closed."""
        found = _FENCE.fullmatch(line.rstrip("\n"))
        if found is None:
            return False
        if not self._fence:
            # A line of backticks with a backtick in its info string is inline code, and no fence (CommonMark).
            self._fence = found[1] if "`" not in found[2] or found[1][0] == "~" else ""
            return False
        if found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
            return True
        return False

    def _take_block(self) -> str:
        block = "".join(self._lines)
        self._lines, self._is_blank, self._is_list = [], False, False
        return block
