"""Renders a session as a Markdown transcript.

Rules
  1. Texts of the model are Markdown already and stay as they are. All else is quoted, or fenced with a fence longer
     than any inside it, so that nothing in a file or result ends its own fence.
  2. Thinking and agents are folded; a file's change is a `diff` block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo

from unspool.display import clean_line, units
from unspool.export import describe_calls
from unspool.export.depth import Depth
from unspool.export.outline import NestedAgent, Section, group_agents_by_call, number_sections
from unspool.export.story import (
    AnswerStep,
    EventKind,
    EventStep,
    PromptStep,
    SidechainStep,
    Step,
    ThinkingStep,
    ToolCallStep,
    build_story,
    min_depth,
)
from unspool.format import Entry, parse_local_time
from unspool.graph import describe_target
from unspool.home import Session

_MAX_LINES = 200
"""Of an error or a diff: nobody reads more."""
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")


def render_markdown(
    session: Session, zone: tzinfo | None = None, *, depth: Depth = Depth.STEPS, turns: range | None = None
) -> str:
    """Return a session as Markdown, all turns or some; times are in the machine's own zone unless one is given."""
    return "\n".join([*_render_head(session, zone), *_render_body(session, zone, depth, turns)]).rstrip() + "\n"


def _render_head(session: Session, zone: tzinfo | None) -> Iterator[str]:
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


def _render_body(session: Session, zone: tzinfo | None, depth: Depth, turns: range | None) -> Iterator[str]:
    story = build_story(session.entries)
    # The files of agents are read only if their steps are shown.
    agents = group_agents_by_call(session) if session.agent_sources and depth >= Depth.STEPS else {}
    for section in number_sections(session):
        if turns is not None and section.number not in turns:
            continue
        yield from _render_heading(section, zone)
        for step in story.steps(section.entries):
            if min_depth(step) <= depth:
                yield from _render_step(step, session.cwd, agents)
                if depth is Depth.ALL and isinstance(step, ToolCallStep) and not step.call.failed:
                    yield from _folded("result", _fenced(describe_calls.result_text(step.call)))


def _render_heading(section: Section, zone: tzinfo | None) -> Iterator[str]:
    if section.turn is None:
        return
    time = parse_local_time(section.turn.prompt.record.timestamp, zone)
    branch = " (on a branch that was left)" if section.left else ""
    yield f"## {section.number}{f' · {time:%Y-%m-%d %H:%M}' if time else ''}{branch}"
    yield ""


def _render_step(step: Step, cwd: str | None, agents: dict[str, list[NestedAgent]]) -> Iterator[str]:
    match step:
        case PromptStep(text=text, queued=queued):
            yield from ["*queued while the model worked:*", ""] if queued else []
            yield from _quoted(text)
        case AnswerStep(text=text):
            yield from [text.strip("\n"), ""]
        case ThinkingStep(text=text) if text.strip():
            yield from _folded(f"thinking, {len(text):,} characters", _fenced(text))
        case ThinkingStep():
            yield from ["*thinking, withheld*", ""]
        case ToolCallStep():
            yield from _render_call(step, cwd, agents)
        case EventStep(kind=EventKind.COMPACTION, text=text):
            yield from ["---", "", f"*compacted{f': {text}' if text else ''}*", ""]
        case EventStep(kind=EventKind.SUMMARY, text=text):
            yield from _folded("summary of what came before", _quoted(text))
        case EventStep(kind=kind, text=text):
            yield from [f"*{kind.value}*", "", *_quoted(text)]
        case SidechainStep(entries=entries):
            yield from _folded("an agent", _render_steps(entries, cwd, agents))


def _render_call(step: ToolCallStep, cwd: str | None, agents: dict[str, list[NestedAgent]]) -> Iterator[str]:
    call = step.call
    patch = describe_calls.diff_lines(call)
    sign = "…" if call.result is None else "✗" if call.failed else "✓"
    notes = [describe_calls.count_changes(patch), units.duration(call.duration) if call.duration is not None else ""]
    notes += ["no result"] if call.result is None else []
    target = describe_target(call.name, call.input, cwd)
    summary = ", ".join(note for note in notes if note)
    yield f"{sign} **{_escaped(call.name)}**{f' {_code(target)}' if target else ''}{f' ({summary})' if summary else ''}"
    yield ""
    if call.failed:
        yield from _fenced(describe_calls.error_text(call))
    if patch:
        yield from _fenced("\n".join(patch), "diff")
    for nested in agents.get(call.id, []):
        # Without the agents of this very call: an agent's file may repeat the call that started it.
        yield from _folded(nested.label, _render_steps(nested.entries, cwd, {**agents, call.id: []}))


def _render_steps(entries: Sequence[Entry], cwd: str | None, agents: dict[str, list[NestedAgent]]) -> list[str]:
    return [line for step in build_story(entries).steps(entries) for line in _render_step(step, cwd, agents)]


def _folded(title: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield from [f"<details><summary>{_escaped(title)}</summary>", "", *lines, "</details>", ""]


def _quoted(text: str) -> Iterator[str]:
    for line in text.strip("\n").splitlines():
        yield f"> {line}".rstrip()
    yield ""


def _fenced(text: str, language: str = "") -> Iterator[str]:
    lines = text.rstrip("\n").splitlines()
    rest = len(lines) - _MAX_LINES
    # Longer than any run of backticks inside: nothing in a result may end its own fence.
    fence = "`" * max(3, _longest_run(text) + 1)
    yield from [f"{fence}{language or 'text'}", *lines[:_MAX_LINES], fence]
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
