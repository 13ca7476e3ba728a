"""What happens in a conversation, told to a person as it comes: events in, drawn text out.

Rules
  1. Words are shown for good when they will not change any more (`flow`); what is under way is in `tail`.
  2. A delta costs an append: nothing is drawn because of one.
"""

from __future__ import annotations

from collections.abc import Callable

from unspool.client import events
from unspool.client.session.prompt_history import typed_as
from unspool.client.ui.markdown_stream import Flow
from unspool.client.ui.render import Drawing
from unspool.display import units
from unspool.display.safe import clean_line

_ENDINGS = {
    "interrupted": "interrupted; what should be done instead?",
    "refusal": "the model declined to answer",
    "max_tokens": "the answer was cut: it reached the limit of its length",
    "max_steps": "stopped: the limit of steps is reached",
    "max_total_tokens": "stopped: the limit of tokens is reached",
    "max_cost": "stopped: the limit of cost is reached",
    "max_seconds": "stopped: the limit of time is reached",
    "context_full": "the conversation does not fit the context window any more; `/compact` or `/clear`",
}


class Telling:
    """One conversation, told."""

    def __init__(self, show: Callable[[str], None], drawing: Callable[[], Drawing]) -> None:
        self._show = show
        self._drawing = drawing
        self._flow = Flow()
        self._thoughts: list[str] = []
        self._is_first = True
        self._calls: dict[str, events.CallBegan] = {}
        self._progress: dict[str, str] = {}
        self._tokens = 0
        self.doing = "thinking"
        self.ending: str | None = None
        """How the last turn ended."""

    @property
    def tail(self) -> str:
        """What has been said and is not settled; or what a call that runs says."""
        running = [words for id, words in self._progress.items() if id in self._calls]
        return self._flow.tail or (running[-1] if running else "")

    @property
    def tokens_words(self) -> str:
        """How many tokens have come, if any have."""
        return f", ↓ {units.tokens(self._tokens)} tokens" if self._tokens else ""

    def rest(self) -> None:
        """Show what is left."""
        self._settle()
        self._calls.clear()
        self._progress.clear()

    def tell(self, event: events.Event) -> None:
        """Tell an event."""
        match event:
            case events.TextGrown(text=text):
                self._grown(text)
            case events.ThinkingGrown(text=text):
                self._thoughts.append(text)
                self.doing = "thinking"
            case events.StepBegan():
                self._is_first, self.doing, self._thoughts = True, "waiting for the model", []
            case events.BlockDone(block=block):
                self._block(block)
            case events.AnswerDone(usage=usage):
                self._tokens += int(usage.get("output_tokens") or 0)
            case events.CallBegan() | events.CallProgressed() | events.CallEnded() | events.AgentTold():
                self._called(event)
            case events.TurnBegan(text=text):
                self._tokens, self.ending = 0, None
                self._show(self._drawing().prompt(typed_as(text)) + "\n")
            case events.TurnEnded():
                self._ended(event)
            case _:
                self._noted(event)

    def _grown(self, text: str) -> None:
        self.doing = "answering"
        for block in self._flow.feed(text):
            self._say(block)

    def _say(self, block: str) -> None:
        drawn = self._drawing().answer(block, first=self._is_first)
        if drawn:
            self._is_first = False
            self._show(drawn + "\n")

    def _settle(self) -> None:
        rest = self._flow.end()
        if rest:
            self._say(rest)

    def _block(self, block: dict[str, object]) -> None:
        kind = block.get("type")
        if kind == "text":
            if not self._flow.tail and self._is_first:  # it came at once
                self._flow.feed(str(block.get("text", "")))
            self._settle()
            self._is_first = True
        elif kind == "thinking":
            self._show(self._drawing().thought(str(block.get("thinking", ""))))
        elif kind == "tool_use":
            self.doing = f"calling {clean_line(str(block.get('name')))}"

    def _called(self, event: events.Event) -> None:
        drawing = self._drawing()
        match event:
            case events.CallBegan(id=id, name=name):
                self._calls[id] = event
                self.doing = clean_line(f"{name} {drawing.target(name, event.input)}")[:60]
            case events.CallProgressed(id=id, data={"output": str(output)}):
                self._progress[id] = output
            case events.CallEnded(id=id, name=name):
                self._calls.pop(id, None)
                target = drawing.target(name, event.input)
                self._show(drawing.call(name, target, failed=event.is_error) + drawing.ended(event) + "\n")
            case events.AgentTold(event=events.CallBegan() as inner, kind=kind):
                self._show(drawing.agent(kind, inner))
            case _:
                pass

    def _ended(self, event: events.TurnEnded) -> None:
        self.ending = event.ending
        self._settle()
        if words := _ENDINGS.get(event.ending):
            self._show(self._drawing().notice(words))

    def _noted(self, event: events.Event) -> None:
        drawing = self._drawing()
        match event:
            case events.Waiting():
                self._show(drawing.waiting(event))
            case events.Compacted():
                self._show(drawing.compacted(event))
            case events.Absorbed(text=text):
                self._show(drawing.prompt(text) + "\n")
            case events.Degraded(what=what, why=why):
                self._show(drawing.notice(f"{what} ({why})"))
            case events.TaskEnded(id=id, status=status, description=words):
                self._show(drawing.notice(f"{status} in the background: {words} ({id})"))
            case events.ModeChanged(mode=mode):
                self._show(drawing.notice(f"permission mode: {mode}") + "\n")
            case events.Failed(message=message, hint=hint):
                self._settle()
                self._show(drawing.error(message, hint))
            case _:
                pass
