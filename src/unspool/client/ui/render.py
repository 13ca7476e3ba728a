"""Renders a conversation for a terminal: events and texts in, coloured lines out (with rich).

Rules
  1. Whatever came from a model, a tool, a file or a user is made safe before it is rendered (`unspool.display.safe`);
     no markup, link or emoji code in it is obeyed. The only escape sequences in the output are colours.
  2. No meaning is carried by colour alone: `>` prompt, `●` answer or call, `✗` failure, `⎿` outcome, `+` and `-`.
  3. What is long is cut, and says by how much; all of it is in the session. Of a change that a user is asked about,
     all can be shown before the answer.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unspool.client.events import CallBegan, CallEnded, ContextCompacted, RetryScheduled, TurnEnded
from unspool.client.protocols import PermissionRequest
from unspool.client.tool_result import FileChange, Json
from unspool.client.ui.status_text import count_input_tokens
from unspool.display import clean, clean_line, units
from unspool.export import (
    AnswerStep,
    EventStep,
    PromptStep,
    Step,
    ToolCallStep,
    build_story,
    describe_calls,
    number_sections,
)
from unspool.format import Entry, decode
from unspool.graph import ToolCall, describe_target, find_tool_calls, first_line
from unspool.home import Session
from unspool.permissions import RuleDecision

if TYPE_CHECKING:
    from rich.markdown import Markdown


MAX_OUTPUT_LINES = 6
"""Lines of a tool's output that are shown."""
MAX_DIFF_LINES = 40
"""Lines of a diff that are shown."""
MAX_CHANGE_LINES = (30, 10)
"""Lines of a change that are shown before it is approved: so many of its beginning and of its end."""
MAX_CHANGE_CHARACTERS = 1000
"""Characters of one of these lines."""
SHOWN_TURNS = 2
"""Turns of a resumed session that are shown."""
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_BOXES = {"completed": "☒", "in_progress": "◐", "pending": "☐"}


class RenderOptions(NamedTuple):
    """What the terminal can show."""

    width: int = 80
    colours: bool = True
    plain: bool = False
    """Text only: no escape sequences at all."""
    theme: str = "dark"
    """`dark` or `light`, perhaps with `-daltonized` or `-ansi` (the colours are the terminal's own in any case)."""


class Palette(NamedTuple):
    """The colours of a theme, by what they mean."""

    good: str = "green"
    bad: str = "red"
    notice: str = "yellow"
    section: str = "cyan"
    code: str = "ansi_dark"
    """How code is coloured: a style of Pygments."""

    @classmethod
    def of(cls, theme: str) -> Palette:
        """Return the colours of a theme."""
        palette = cls(notice="magenta", section="blue", code="ansi_light") if theme.startswith("light") else cls()
        # Red and green look alike to some: blue and the colour of notices do not.
        return palette._replace(good="blue", bad=palette.notice) if theme.endswith("-daltonized") else palette


class NumberedLine(NamedTuple):
    """A line of a change: its number in the file, its sign (`+`, `-` or a space), its text."""

    number: str
    sign: str
    text: str


class ChatRenderer:
    """Renders the parts of a conversation for a terminal of a given width."""

    def __init__(self, options: RenderOptions, cwd: str | None = None) -> None:
        self.options = options
        self.cwd = cwd
        self.has_folded = False
        """Whether something that was rendered is cut, and can be rendered whole."""
        self._palette = Palette.of(options.theme)
        self._signs = {"+": self._palette.good, "-": self._palette.bad, "@": self._palette.section}

    def prompt(self, text: str) -> str:
        """Render a prompt."""
        return self._marked_text("> ", text, "bold")

    def answer(self, text: str, *, first: bool) -> str:
        """Render a block of an answer, as Markdown."""
        return self._with_mark("●" if first else " ", self._markdown(text)) if text.strip() else ""

    def thinking(self, text: str) -> str:
        """Render the first line of the model's thinking."""
        return self._line(("✻ ", "dim"), (first_line(text), "dim italic")) + "\n" if text.strip() else ""

    def target(self, name: str, input: Json) -> str:
        """Return what a call works on, relative to the working folder."""
        return describe_target(name, input, self.cwd)

    def call(self, name: str, target: str, *, failed: bool = False) -> str:
        """Render a tool call."""
        return self._line(
            ("✗ " if failed else "● ", self._palette.bad if failed else self._palette.good),
            (name, "bold"),
            (f"({target})", ""),
        )

    def call_outcome(self, event: CallEnded, *, whole: bool = False) -> str:
        """Render the outcome of a tool call; a long output or diff in full only if `whole`."""
        call = _tool_call(event)
        if event.denied is not None:
            return self._outcome(f"not allowed: {event.denied}", self._palette.notice)
        if call is None:
            return self._outcome("done", "dim")
        patch = describe_calls.diff_lines(call)
        words = describe_calls.describe_outcome(call).words
        if call.failed:
            return self._outcome(words, self._palette.bad) + self._last_lines(
                describe_calls.error_text(call).splitlines()[1:]
            )
        if patch:
            return self._outcome(words, "dim") + self._first_lines(
                describe_calls.changed_lines_with_context(patch), MAX_DIFF_LINES, coloured=True, whole=whole
            )
        if event.name == "TodoWrite":
            return self.todos((event.input or {}).get("todos") or ())
        if event.name in ("EnterPlanMode", "ExitPlanMode"):
            return self._outcome(first_line(describe_calls.result_text(call)), "dim")
        shown = (
            describe_calls.result_text(call).strip("\n").splitlines() if event.name in ("Bash", "BashOutput") else []
        )
        return self._outcome(words, "dim") + self._first_lines(shown, MAX_OUTPUT_LINES, whole=whole)

    def permission_request(self, request: PermissionRequest, decision: RuleDecision, *, whole: bool = False) -> str:
        """Render what a call would do, and why it needs permission; a long change in full only if `whole`."""
        head = self.call(request.tool, self.target(request.tool, request.input))
        change = request.change
        body = self._change(change, whole=whole) if change is not None else self._input(request.input)
        if request.problem is not None:
            body += self._outcome(f"it would fail: {first_line(request.problem)}", self._palette.notice)
        return head + body + self._outcome(decision.why, "dim")

    def _input(self, input: Json) -> str:
        """Render all of the input of a call."""
        match input:
            case {"command": str(command)}:
                words = input.get("description")
                return self.indented(command) + (self._outcome(str(words), "dim") if words else "")
            case _:
                return self.indented(msgspec.json.format(msgspec.json.encode(input), indent=2).decode())

    def _change(self, change: FileChange, *, whole: bool) -> str:
        """Render a change of a file with line numbers, and what it is in one line."""
        numbered = number_change(change)
        signs = [sign for _, sign, _ in numbered]
        counts = f"+{signs.count('+'):,} −{signs.count('-'):,}"
        kind = "a new file" if change.is_new else "file change"
        shown, folded = (numbered, 0) if whole else fold_change(numbered)
        width = max((len(number) for number, _, _ in numbered), default=0)
        body = "".join(
            self.indented(f"{number:>{width}} {sign} {text}".rstrip(), self._signs.get(sign, "dim"))
            for number, sign, text in shown
        )
        note = f"; {units.amount(folded, 'line')} folded" if folded else ""
        return self._outcome(f"{kind}, {counts}{note}: {change.path}", "dim") + (
            body or self.indented("(empty)", "dim")
        )

    def plan(self, plan: str) -> str:
        """Render a plan that the user is to approve."""
        return (
            "\n"
            + self._line(("── plan ──", self._palette.section))
            + self.markdown(plan)
            + self._line(("──────────", self._palette.section))
        )

    def indented(self, text: str, style: str = "") -> str:
        """Render a whole text as it is, indented."""
        return self._print(Padding(Text(clean(text), style, overflow="fold"), (0, 0, 0, 5))) if text else ""

    def todos(self, todos: Iterable[object]) -> str:
        """Render a todo list."""
        rendered = ""
        for todo in todos:
            match todo:
                case {"content": words, "status": status}:
                    done = "dim" if status == "completed" else ""
                    rendered += self._line((f"  {_BOXES.get(str(status), '☐')} {words}", done))
                case _:
                    rendered += self._line((f"  ☐ {todo}", ""))
        return rendered or self._outcome("nothing to do", "dim")

    def agent_call(self, kind: str, event: CallBegan) -> str:
        """Render a tool call of a subagent."""
        target = self.target(event.name, event.input)
        return self._line((f"  ⎿ {kind}: ", "dim"), (f"{event.name}({target})", "dim"))

    def waiting(self, event: RetryScheduled) -> str:
        """Render that a request to the API is repeated."""
        status = f"{event.status} " if event.status else ""
        return self.notice(f"{status}{event.reason}; retrying in {event.seconds:.0f} s (attempt {event.attempt})")

    def compaction(self, event: ContextCompacted) -> str:
        """Render that the conversation was compacted."""
        size = f"{units.tokens(event.before)} → {units.tokens(event.after)} tokens"
        return self.notice(f"── {'compacted' if event.how == 'summarized' else event.how}: {size} ──")

    def turn_summary(self, event: TurnEnded, window: tuple[int, int] | None = None) -> str:
        """Render the time, tokens and cost of a turn."""
        tokens_in, tokens_out = count_input_tokens(event.usage), event.usage.get("output_tokens", 0)
        parts = [
            units.duration(timedelta(milliseconds=event.duration_ms)),
            f"{units.tokens(tokens_in)} in, {units.tokens(tokens_out)} out",
            units.dollars(event.cost_micros),
        ]
        if window and window[1]:
            parts.append(f"context {100 * window[0] // window[1]} %")
        return self._line((" · ".join(parts), "dim"))

    def notice(self, text: str) -> str:
        """Render a remark beside the conversation."""
        return self.text(clean_line(text), self._palette.notice)

    def error(self, text: str, hint: str | None = None) -> str:
        """Render an error and its hint."""
        rendered = self._marked_text("✗ ", clean_line(text), self._palette.bad)
        return rendered + (self._marked_text("  ", f"hint: {hint}", "dim") if hint else "")

    def text(self, text: str, style: str = "") -> str:
        """Render a text as it is."""
        return self._marked_text("", text, style)

    def markdown(self, text: str) -> str:
        """Render a text as Markdown."""
        return self._print(self._markdown(text))

    def _outcome(self, words: str, style: str) -> str:
        return self._line(("  ⎿  ", "dim"), (words, style))

    def _first_lines(self, lines: list[str], limit: int, *, coloured: bool = False, whole: bool = False) -> str:
        shown = lines if whole or len(lines) <= limit + 1 else lines[:limit]
        style = self._signs if coloured else {}
        rendered = "".join(self._line((f"     {line}", style.get(line[:1], "dim"))) for line in shown)
        rest = len(lines) - len(shown)
        return rendered + (self._folded(f"{units.amount(rest, 'more line')}") if rest else "")

    def _last_lines(self, lines: list[str], *, whole: bool = False) -> str:
        """Render the end of an error: that is where its cause is."""
        left = 0 if whole else len(lines) - MAX_OUTPUT_LINES
        above = self._folded(f"{units.amount(left, 'more line')} above") if left > 0 else ""
        return above + "".join(self._line((f"     {line}", "dim")) for line in lines[max(left, 0) :])

    def _folded(self, words: str) -> str:
        self.has_folded = True
        return self._line((f"     … {words}{'' if self.options.plain else ' (Ctrl-O shows them)'}", "dim"))

    def _line(self, *spans: tuple[str, str]) -> str:
        text = Text()
        for words, style in spans:
            text.append(clean_line(words), style)
        text.truncate(max(self.options.width, 20), overflow="ellipsis")
        return self._print(text)

    def _marked_text(self, mark: str, text: str, style: str) -> str:
        body = Text(clean(text), style)
        return self._with_mark(mark.rstrip(), body, style) if mark else self._print(body)

    def _with_mark(self, mark: str, body: RenderableType, style: str = "") -> str:
        """Render something with a mark before its first line."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        grid.add_row(Text(mark, style), body)
        return self._print(grid)

    def _print(self, renderable: RenderableType | Text) -> str:
        file = io.StringIO()
        self._console(file).print(renderable)
        # Made safe once more, between the colours: an entity such as `&#x202e;` becomes a character only in Markdown.
        parts = _COLOUR.split(file.getvalue())
        text = "".join(part if place % 2 else clean(part) for place, part in enumerate(parts))
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"

    def _console(self, file: io.StringIO) -> Console:
        return Console(
            file=file,
            width=max(self.options.width, 20),
            force_terminal=not self.options.plain,
            color_system=None if self.options.plain else "standard",
            no_color=not self.options.colours,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            # rich would otherwise let COLUMNS, FORCE_COLOR and the like override what is set here.
            _environ={},
        )

    def _markdown(self, text: str) -> Markdown:
        return _markdown(text, self._palette.code)


def number_change(change: FileChange) -> list[NumberedLine]:
    """Return the lines of a change, each with its number: of the old file if it is removed, else of the new one."""
    lines: list[NumberedLine] = []
    for place, hunk in enumerate(change.hunks):
        if place:
            lines.append(NumberedLine("⋮", "", ""))
        old, new = hunk["oldStart"], hunk["newStart"]
        for line in hunk["lines"]:
            match line[:1]:
                case "-":
                    lines.append(NumberedLine(str(old), "-", line[1:]))
                    old += 1
                case "\\":  # no line end at the end of the file
                    lines.append(NumberedLine("", "", line))
                case sign:
                    lines.append(NumberedLine(str(new), sign, line[1:]))
                    old, new = old + (sign == " "), new + 1
    return lines


def fold_change(lines: list[NumberedLine]) -> tuple[list[NumberedLine], int]:
    """Return the beginning and the end of a long change, and how many of its lines are not shown, or not in full."""
    first, last = MAX_CHANGE_LINES
    left = len(lines) - first - last
    is_long = left > 1  # one line would be folded into one line
    kept = [*lines[:first], *lines[-last:]] if is_long else lines
    long = sum(len(line.text) > MAX_CHANGE_CHARACTERS for line in kept)
    shown = [_fold_line(line) for line in kept]
    if is_long:
        shown.insert(first, NumberedLine("…", "", f"{left:,} more lines"))
    return shown, (left if is_long else 0) + long


def _fold_line(line: NumberedLine) -> NumberedLine:
    rest = len(line.text) - MAX_CHANGE_CHARACTERS
    return line._replace(text=f"{line.text[:MAX_CHANGE_CHARACTERS]}… ({rest:,} more characters)") if rest > 0 else line


def _markdown(text: str, code_theme: str) -> Markdown:
    # Here, because it takes 80 ms to load: a chat can be typed to before that.
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        """A heading at the left instead of the centre."""

        LEVEL_ALIGN: ClassVar = {}

    class ChatMarkdown(Markdown):
        """Markdown with headings at the left."""

        elements: ClassVar = {**Markdown.elements, "heading_open": LeftHeading}

    return ChatMarkdown(clean(text).strip("\n"), hyperlinks=False, code_theme=code_theme)


def _tool_call(event: CallEnded) -> ToolCall | None:
    """Return a call with its result as the library reads it from a session file."""
    use = {"type": "tool_use", "id": event.id, "name": event.name, "input": event.input}
    given = {"type": "tool_result", "tool_use_id": event.id, "content": event.content, "is_error": event.is_error}
    lines = (
        {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": [use]}},
        {"type": "user", "uuid": "b", "message": {"role": "user", "content": [given]}, "toolUseResult": event.result},
    )
    try:
        items = [item for line in lines for item in decode(msgspec.json.encode(line))]
    except UnicodeEncodeError:  # a lone surrogate, from a file name that is not UTF-8
        return None
    calls = find_tool_calls(item for item in items if isinstance(item, Entry))
    return calls[0] if calls else None


def render_last_turns(session: Session, renderer: ChatRenderer) -> str:
    """Render the last turns of a session that is resumed."""
    thread = [section for section in number_sections(session) if not section.left and section.turn is not None]
    story = build_story(session.entries)
    earlier = len(thread) - SHOWN_TURNS
    head = renderer.text(f"… {earlier} earlier", "dim") + "\n" if earlier > 0 else ""
    steps = (step for section in thread[-SHOWN_TURNS:] for step in story.steps(section.entries))
    return head + "".join(_render_steps(steps, renderer))


def _render_steps(steps: Iterator[Step], renderer: ChatRenderer) -> Iterator[str]:
    for step in steps:
        match step:
            case PromptStep(text=text) if text.strip():
                yield renderer.prompt(text) + "\n"
            case AnswerStep(text=text) if text.strip():
                yield renderer.answer(text, first=True) + "\n"
            case ToolCallStep(call=call):
                yield (
                    renderer.call(call.name, describe_target(call.name, call.input, renderer.cwd), failed=call.failed)
                    + "\n"
                )
            case EventStep(text=text):
                yield renderer.text(f"· {step.kind.value}", "dim") + "\n"
            case _:
                pass
