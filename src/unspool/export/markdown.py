"""Renders a session as a Markdown transcript.

Rules
  1. Texts of the model are Markdown already and stay as they are. All else is quoted, or fenced with a fence longer
     than any inside it, so that nothing in a file or result ends its own fence.
  2. Thinking and agents are folded; a file's change is a `diff` block.
  3. At the depth of all lines, everything that a line has is there, or a mark says what is left out
     (`remaining_values.py`): inputs, results, notes to the model, agents that no call started, lines that cannot be
     read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any

import msgspec

from unspool.display import clean_line, units
from unspool.export import describe_calls
from unspool.export.depth import Depth
from unspool.export.describe_lines import describe_line
from unspool.export.json_data import decode_line
from unspool.export.outline import NestedAgent, Section, group_agents_by_call, number_sections
from unspool.export.remaining_values import LEFT_OUT, RemainingValue, ShownText, remaining_values
from unspool.export.story import (
    AnswerStep,
    EventKind,
    EventStep,
    PromptStep,
    SidechainStep,
    Step,
    Story,
    ThinkingStep,
    ToolCallStep,
    build_story,
    min_depth,
)
from unspool.format import Assistant, Entry, ToolResult, User, parse_local_time
from unspool.graph import ToolCall, describe_target
from unspool.home import Session

_MAX_LINES = 200
"""Of an error or a diff: nobody reads more."""
_MAX_INLINE = 200
"""Characters of a value that stands on the line of its name."""
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")
_UNESCAPED = r"\1"
_ESCAPE = re.compile(r"\\([\\`*_\[\]<>#|])")


def render_markdown(
    session: Session, zone: tzinfo | None = None, *, depth: Depth = Depth.STEPS, turns: range | None = None
) -> str:
    """Return a session as Markdown, all turns or some; times are in the machine's own zone unless one is given."""
    transcript = _Transcript(session, zone, depth)
    return "\n".join([*_render_head(session, zone, depth), *transcript.render(turns)]).rstrip() + "\n"


def _render_head(session: Session, zone: tzinfo | None, depth: Depth) -> Iterator[str]:
    facts = session.facts
    when = units.span(parse_local_time(facts.started, zone), parse_local_time(facts.last, zone))
    lines = {
        "session": session.id,
        "project": session.cwd or session.project,
        "branch": facts.branch,
        "when": when,
        "model": ", ".join(facts.models),
        "version": ", ".join(facts.versions),
    }
    yield f"# {_escaped(session.title or session.id)}"
    yield ""
    yield from (f"- {name}: {_code(value)}" for name, value in lines.items() if value)
    yield ""
    yield from [f"*{LEFT_OUT}*", ""] if depth is Depth.ALL else []


class _Transcript:
    """Renders the turns of a session at one depth."""

    def __init__(self, session: Session, zone: tzinfo | None, depth: Depth) -> None:
        self._session, self._zone, self._depth = session, zone, depth
        self._is_whole = depth is Depth.ALL
        self._cwd = session.cwd
        # The files of agents are read only if their steps are shown.
        self._agents = group_agents_by_call(session) if session.agent_sources and depth >= Depth.STEPS else {}
        self._rendered_agents: set[str] = set()
        self._open_calls: set[str] = set()
        """Calls whose agents are being rendered: an agent's file may repeat the call that started it."""
        self._call_texts: dict[str, str] = {}
        """What was rendered of each call, with its result: at the depth of all lines."""

    def render(self, turns: range | None) -> Iterator[str]:
        """Yield the lines of some turns, or of all."""
        story = build_story(self._session.entries)
        for section in number_sections(self._session):
            if turns is not None and section.number not in turns:
                continue
            yield from _render_heading(section, self._zone)
            yield from self._render_entries(section.entries, story)
        if self._is_whole and turns is None:
            yield from self._render_other_agents()
            yield from self._render_bad_lines()

    def _render_entries(self, entries: Sequence[Entry], story: Story) -> Iterator[str]:
        """Yield the steps of lines; at the depth of all lines also what no step shows of each."""
        steps = list(story.steps(entries))
        if not self._is_whole:
            for step in steps:
                if min_depth(step) <= self._depth:
                    yield from self._render_step(step)
            return
        by_offset: dict[int, list[Step]] = {}
        inside: set[int] = set()
        for step in steps:
            by_offset.setdefault(step.entry.offset, []).append(step)
            if isinstance(step, SidechainStep):
                inside |= {entry.offset for entry in step.entries}
        for entry in entries:
            own = by_offset.get(entry.offset, [])
            lines = [line for step in own for line in self._render_step(step)]
            yield from lines
            if entry.offset not in inside:  # else it is complete in the agent that it belongs to
                yield from self._render_rest(entry, lines, story)

    def _render_rest(self, entry: Entry, lines: list[str], story: Story) -> Iterator[str]:
        """Yield what a line has that its steps do not show."""
        blocks = entry.record.message.blocks if isinstance(entry.record, User | Assistant) else ()
        results = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
        if entry.offset in story.repeated:
            yield from [f"*repeated line, omitted ({_place(entry)})*", ""]
            return
        if not lines and not any(id in self._call_texts for id in results):
            described = describe_line(entry)
            lines = [f"*{_escaped(described.kind)}*", "", *_quoted(described.text)]
            yield from lines
        shown = _plain([*lines, *(self._call_texts.get(id, "") for id in results)])
        decoded = decode_line(entry)
        if not decoded:
            title = f"raw line, nested too deeply to parse ({_place(entry)})"
            yield from _folded(title, _fenced(entry.line.decode("utf-8", "replace"), limit=None))
        elif values := remaining_values(decoded, ShownText(shown)):
            yield from _folded(f"rest of this line ({_place(entry)})", _render_values(values))

    def _render_other_agents(self) -> Iterator[str]:
        """Yield the agents that no call of these turns has started."""
        for agent, file in zip(self._session.agents, self._session.agent_files, strict=True):
            if agent.id not in self._rendered_agents:
                yield from self._render_agent(NestedAgent(agent, file.entries), " without a call")

    def _render_bad_lines(self) -> Iterator[str]:
        for line in self._session.bad_lines:
            yield from [f"*{units.size(line.length)} at byte {line.offset:,}, unreadable and omitted:*", ""]
            yield from _quoted(line.reason)

    def _render_step(self, step: Step) -> Iterator[str]:
        match step:
            case PromptStep(text=text):
                yield from ["*queued during the turn:*", ""] if step.queued else []
                yield from ["*accepted plan:*", ""] if step.is_plan else []
                yield from _quoted(text)
            case AnswerStep(text=text):
                yield from [text.strip("\n"), ""]
            case ThinkingStep(text=text) if text.strip():
                yield from _folded(f"thinking, {len(text):,} characters", self._fenced(text))
            case ThinkingStep():
                yield from ["*thinking, withheld*", ""]
            case ToolCallStep():
                yield from self._render_call(step)
            case EventStep(kind=EventKind.COMPACTION, text=text):
                yield from ["---", "", f"*compacted{f': {text}' if text else ''}*", ""]
            case EventStep(kind=EventKind.SUMMARY, text=text):
                yield from _folded("summary of what came before", _quoted(text))
            case EventStep(kind=kind, text=text):
                yield from [f"*{kind.value}*", "", *_quoted(text)]
            case SidechainStep(entries=entries):
                yield from _folded("an agent", self._render_entries(entries, build_story(entries)))

    def _render_call(self, step: ToolCallStep) -> Iterator[str]:
        call = step.call
        lines = [*self._render_call_head(call)]
        if self._is_whole:
            if values := remaining_values(_jsonable(call.input), ShownText(_plain(lines))):
                lines += _folded("input", _render_values(values))
            if call.result is not None:
                lines += _folded("result", _fenced(describe_calls.result_text(call), limit=None))
            self._call_texts[call.id] = "\n".join(lines)
        yield from lines
        if call.id in self._open_calls:
            return
        self._open_calls.add(call.id)
        for nested in self._agents.get(call.id, []):
            yield from self._render_agent(nested)
        self._open_calls.discard(call.id)

    def _render_call_head(self, call: ToolCall) -> Iterator[str]:
        patch = describe_calls.diff_lines(call)
        sign = "…" if call.result is None else "✗" if call.failed else "✓"
        took = units.duration(call.duration) if call.duration is not None else ""
        notes = [describe_calls.count_changes(patch), took]
        notes += ["no result"] if call.result is None else []
        target = describe_target(call.name, call.input, self._cwd)
        summary = ", ".join(note for note in notes if note)
        words = f" {_code(target)}" if target else ""
        yield f"{sign} **{_escaped(call.name)}**{words}{f' ({summary})' if summary else ''}"
        yield ""
        if call.failed and not self._is_whole:
            yield from self._fenced(describe_calls.error_text(call))
        if patch:
            yield from self._fenced("\n".join(patch), "diff")

    def _render_agent(self, nested: NestedAgent, note: str = "") -> Iterator[str]:
        self._rendered_agents.add(nested.agent.id)
        story = build_story(nested.entries)
        # All of an agent's steps, whatever the depth: who reads calls wants to know what they did.
        yield from _folded(f"{nested.label}{note}", self._render_entries(nested.entries, story))

    def _fenced(self, text: str, language: str = "") -> Iterator[str]:
        return _fenced(text, language, limit=None if self._is_whole else _MAX_LINES)


def _render_heading(section: Section, zone: tzinfo | None) -> Iterator[str]:
    if section.turn is None:
        return
    time = parse_local_time(section.turn.prompt.record.timestamp, zone)
    branch = " (on an abandoned branch)" if section.left else ""
    yield f"## {section.number}{f' · {time:%Y-%m-%d %H:%M}' if time else ''}{branch}"
    yield ""


def _render_values(values: Sequence[RemainingValue]) -> Iterator[str]:
    """Yield values by their paths: short ones on a line, long ones fenced."""
    for value in values:
        path = value.path.replace("\0", ".")
        if len(value.text) <= _MAX_INLINE and clean_line(value.text) == value.text and "`" not in value.text:
            yield from [f"- {_code(path)}: {_code(value.text)}", ""]
        else:
            yield from [f"- {_code(path)}:", "", *_fenced(value.text, limit=None)]


def _place(entry: Entry) -> str:
    return f"byte {entry.offset:,}"


def _plain(lines: Sequence[str]) -> str:
    """Return what Markdown says, without the marks of quotes and escapes."""
    text = "\n".join(line.removeprefix("> ") for part in lines for line in part.split("\n"))
    return f"{text}\n{_ESCAPE.sub(_UNESCAPED, text)}" if "\\" in text else text


def _jsonable(input: Any) -> Any:
    """Return the input of a call as its line has it."""
    return msgspec.to_builtins(input, enc_hook=str)


def _folded(title: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield from [f"<details><summary>{_escaped(title)}</summary>", "", *lines, "</details>", ""]


def _quoted(text: str) -> Iterator[str]:
    for line in text.strip("\n").splitlines():
        yield f"> {line}".rstrip()
    yield ""


def _fenced(text: str, language: str = "", limit: int | None = _MAX_LINES) -> Iterator[str]:
    lines = text.rstrip("\n").splitlines()
    rest = 0 if limit is None else len(lines) - limit
    # Longer than any run of backticks inside: nothing in a result may end its own fence.
    fence = "`" * max(3, _longest_run(text) + 1)
    yield from [f"{fence}{language or 'text'}", *lines[:limit], fence]
    yield from [f"*… {units.amount(rest, 'more line')}*"] if rest > 0 else []
    yield ""


def _code(text: str) -> str:
    """Return text as inline code, whatever backticks are in it."""
    text = clean_line(text)
    fence = "`" * (_longest_run(text) + 1)
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", clean_line(text))
