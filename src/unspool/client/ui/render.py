"""A conversation for people: what happened in, lines for a terminal out.

Rules
  1. Whatever came from a model, a tool, a file or a person is cleaned before it is drawn (`unspool.display.safe`); no
     markup, link or emoji code in it is obeyed. The only escape sequences that come out are colours.
  2. No meaning is carried by colour alone: `>` asked, `●` said or done, `✗` failed, `⎿` what came of it, `+` and `-`.
  3. What is long is cut, and says by how much; all of it is in the session.

[merged: recall.py] What was said last in a session that is gone on with: its file in, drawn text out.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from unspool.client.events import CallBegan, CallEnded, Compacted, TurnEnded, Waiting
from unspool.client.protocols import Ruling, Wish
from unspool.client.ui.status_text import tokens_in
from unspool.display import units as figures
from unspool.display.safe import clean, clean_line
from unspool.export import describe_calls as outcomes
from unspool.export import describe_calls as targets
from unspool.export.outline import sections
from unspool.export.story import Answer, Call, Mark, Prompt, Step, Story
from unspool.format.codec import decode
from unspool.format.entry import Entry
from unspool.graph.tool_calls import ToolCall, aim, tool_calls
from unspool.home import Session

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.markdown import Markdown
    from rich.text import Text

Json: TypeAlias = dict[str, Any]

FEW = 6
"""Lines of an output that are shown."""
DIFF = 40
"""Lines of a change that are shown."""
_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_BOXES = {"completed": "☒", "in_progress": "◐", "pending": "☐"}


class Look(NamedTuple):
    """How a terminal shows things."""

    width: int = 80
    colours: bool = True
    plain: bool = False
    """Nothing but text: no escape sequence at all."""


class Drawing:
    """What draws, for a terminal of some width."""

    def __init__(self, look: Look, cwd: str | None = None) -> None:
        self.look = look
        self.cwd = cwd

    def prompt(self, text: str) -> str:
        """Draw what a person said."""
        return self._block("> ", text, "bold")

    def answer(self, text: str, *, first: bool) -> str:
        """Draw a block of an answer: Markdown."""
        return self._beside("●" if first else " ", _marked(text)) if text.strip() else ""

    def thought(self, text: str) -> str:
        """Draw that the model thought, by the first words of it."""
        return self._line(("✻ ", "dim"), (targets.first_line(text), "dim italic")) + "\n" if text.strip() else ""

    def target(self, name: str, input: Json) -> str:
        """Return what a call is aimed at, seen from the folder that is worked in."""
        return aim(name, input, self.cwd)

    def call(self, name: str, target: str, *, failed: bool = False) -> str:
        """Draw a call as it is made."""
        return self._line(("✗ " if failed else "● ", "red" if failed else "green"), (name, "bold"), (f"({target})", ""))

    def ended(self, event: CallEnded) -> str:
        """Draw what came of a call."""
        call = called(event)
        if event.denied is not None:
            return self._came(f"not allowed: {event.denied}", "yellow")
        if call is None:
            return self._came("done", "dim")
        patch = targets.diff(call)
        words = outcomes.outcome(call).words
        if call.failed:
            return self._came(words, "red") + self._last(targets.error(call).splitlines()[1:])
        if patch:
            return self._came(words, "dim") + self._few(targets.nearest(patch), DIFF, coloured=True)
        if event.name == "TodoWrite":
            return self.todos((event.input or {}).get("todos") or ())
        if event.name in ("EnterPlanMode", "ExitPlanMode"):
            return self._came(targets.first_line(targets.result_text(call)), "dim")
        shown = targets.result_text(call).strip("\n").splitlines() if event.name in ("Bash", "BashOutput") else []
        return self._came(words, "dim") + self._few(shown, FEW)

    def wish(self, wish: Wish, ruling: Ruling) -> str:
        """Draw what a call would do, all of it, and why it is asked."""
        head = self.call(wish.tool, self.target(wish.tool, wish.input))
        match wish.input:
            case {"command": str(command)}:
                words = wish.input.get("description")
                body = self.indented(command) + (self._came(str(words), "dim") if words else "")
            case {"old_string": str(old), "new_string": str(new)}:
                body = self._changed(
                    [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
                )
            case {"content": str(content)}:
                body = self._changed([f"+{line}" for line in content.splitlines()])
            case _:
                body = self.indented(msgspec.json.format(msgspec.json.encode(wish.input), indent=2).decode())
        return head + body + self._came(ruling.why, "dim")

    def plan(self, plan: str) -> str:
        """Draw a plan that is to be judged."""
        return "\n" + self._line(("── plan ──", "cyan")) + self.markdown(plan) + self._line(("──────────", "cyan"))

    def indented(self, text: str, style: str = "") -> str:
        """Draw a text as it is, set in, whole."""
        from rich.padding import Padding
        from rich.text import Text

        return self._painted(Padding(Text(clean(text), style, overflow="fold"), (0, 0, 0, 5))) if text else ""

    def _changed(self, lines: list[str]) -> str:
        return "".join(self.indented(line, _STYLES.get(line[:1], "")) for line in lines)

    def todos(self, todos: Iterable[object]) -> str:
        """Draw a todo list."""
        drawn = ""
        for todo in todos:
            match todo:
                case {"content": words, "status": status}:
                    done = "dim" if status == "completed" else ""
                    drawn += self._line((f"  {_BOXES.get(str(status), '☐')} {words}", done))
                case _:
                    drawn += self._line((f"  ☐ {todo}", ""))
        return drawn or self._came("nothing to do", "dim")

    def agent(self, kind: str, event: CallBegan) -> str:
        """Draw a call that an agent makes."""
        target = self.target(event.name, event.input)
        return self._line((f"  ⎿ {kind}: ", "dim"), (f"{event.name}({target})", "dim"))

    def waiting(self, event: Waiting) -> str:
        """Draw that the API is asked again."""
        said = f"{event.status} " if event.status else ""
        return self.notice(f"{said}{event.reason}; asking again in {event.seconds:.0f} s (attempt {event.attempt})")

    def compacted(self, event: Compacted) -> str:
        """Draw that the conversation became shorter."""
        size = f"{figures.tokens(event.before)} → {figures.tokens(event.after)} tokens"
        return self.notice(f"── {'compacted' if event.how == 'summarized' else event.how}: {size} ──")

    def turn(self, event: TurnEnded, window: tuple[int, int] | None = None) -> str:
        """Draw how a turn ended: time, tokens, cost."""
        parts = [
            figures.duration(timedelta(milliseconds=event.duration_ms)),
            f"{figures.tokens(tokens_in(event.usage))} in, {figures.tokens(event.usage.get('output_tokens', 0))} out",
            figures.dollars(event.cost_micros),
        ]
        if window and window[1]:
            parts.append(f"context {100 * window[0] // window[1]} %")
        return self._line((" · ".join(parts), "dim"))

    def notice(self, text: str) -> str:
        """Draw something beside the conversation."""
        return self.text(clean_line(text), "yellow")

    def error(self, text: str, hint: str | None = None) -> str:
        """Draw that something failed."""
        drawn = self._block("✗ ", clean_line(text), "red")
        return drawn + (self._block("  ", f"hint: {hint}", "dim") if hint else "")

    def text(self, text: str, style: str = "") -> str:
        """Draw words as they are."""
        return self._block("", text, style)

    def markdown(self, text: str) -> str:
        """Draw a text as Markdown."""
        return self._painted(_marked(text))

    def _came(self, words: str, style: str) -> str:
        return self._line(("  ⎿  ", "dim"), (words, style))

    def _few(self, lines: list[str], limit: int, *, coloured: bool = False) -> str:
        shown = lines if len(lines) <= limit + 1 else lines[:limit]
        style = _STYLES if coloured else {}
        drawn = "".join(self._line((f"     {line}", style.get(line[:1], "dim"))) for line in shown)
        rest = len(lines) - len(shown)
        return drawn + (self._line((f"     … {figures.amount(rest, 'more line')}", "dim")) if rest else "")

    def _last(self, lines: list[str]) -> str:
        """Draw the end of something that failed: what it comes to is said there."""
        left = len(lines) - FEW
        above = self._line((f"     … {figures.amount(left, 'more line')} above", "dim")) if left > 0 else ""
        return above + "".join(self._line((f"     {line}", "dim")) for line in lines[-FEW:])

    def _line(self, *spans: tuple[str, str]) -> str:
        from rich.text import Text

        text = Text()
        for words, style in spans:
            text.append(clean_line(words), style)
        text.truncate(max(self.look.width, 20), overflow="ellipsis")
        return self._painted(text)

    def _block(self, mark: str, text: str, style: str) -> str:
        from rich.text import Text

        return (
            self._beside(mark.rstrip(), Text(clean(text), style), style)
            if mark
            else self._painted(Text(clean(text), style))
        )

    def _beside(self, mark: str, body: RenderableType, style: str = "") -> str:
        """Draw something with a mark before its first line."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        grid.add_row(Text(mark, style), body)
        return self._painted(grid)

    def _painted(self, what: RenderableType | Text) -> str:
        file = io.StringIO()
        self._console(file).print(what)
        # Once more, between the colours: in Markdown `&#x202e;` is a character that was none when it was cleaned.
        parts = _COLOUR.split(file.getvalue())
        text = "".join(part if place % 2 else clean(part) for place, part in enumerate(parts))
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"

    def _console(self, file: io.StringIO) -> Console:
        from rich.console import Console

        return Console(
            file=file,
            width=max(self.look.width, 20),
            force_terminal=not self.look.plain,
            color_system=None if self.look.plain else "standard",
            no_color=not self.look.colours,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ={},
        )


def _marked(text: str) -> Markdown:
    from rich.markdown import Heading, Markdown

    class Left(Heading):
        """A heading where the eye is."""

        LEVEL_ALIGN: ClassVar = {}

    class Marked(Markdown):
        """Markdown as it suits a conversation."""

        elements: ClassVar = {**Markdown.elements, "heading_open": Left}

    return Marked(clean(text).strip("\n"), hyperlinks=False, code_theme="ansi_dark")


def called(event: CallEnded) -> ToolCall | None:
    """Return a call with its result as the library reads it from a file."""
    use = {"type": "tool_use", "id": event.id, "name": event.name, "input": event.input}
    given = {"type": "tool_result", "tool_use_id": event.id, "content": event.content, "is_error": event.is_error}
    lines = (
        {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": [use]}},
        {"type": "user", "uuid": "b", "message": {"role": "user", "content": [given]}, "toolUseResult": event.result},
    )
    try:
        items = [item for line in lines for item in decode(msgspec.json.encode(line))]
    except UnicodeEncodeError:  # half of a pair, from a file's name
        return None
    calls = tool_calls(item for item in items if isinstance(item, Entry))
    return calls[0] if calls else None


TURNS = 2


def recalled(session: Session, drawing: Drawing) -> str:
    """Draw the last turns of the thread that is gone on with."""
    thread = [section for section in sections(session) if not section.left and section.turn is not None]
    story = Story(session.entries)
    earlier = len(thread) - TURNS
    head = drawing.text(f"… {earlier} earlier", "dim") + "\n" if earlier > 0 else ""
    steps = (step for section in thread[-TURNS:] for step in story.steps(section.entries))
    return head + "".join(_drawn(steps, drawing))


def _drawn(steps: Iterator[Step], drawing: Drawing) -> Iterator[str]:
    for step in steps:
        match step:
            case Prompt(text=text) if text.strip():
                yield drawing.prompt(text) + "\n"
            case Answer(text=text) if text.strip():
                yield drawing.answer(text, first=True) + "\n"
            case Call(call=call):
                yield drawing.call(call.name, aim(call.name, call.input, drawing.cwd), failed=call.failed) + "\n"
            case Mark(text=text):
                yield drawing.text(f"· {step.kind.value}", "dim") + "\n"
            case _:
                pass
