"""A session as Markdown: a transcript to read, to keep in a repository, to send.

Rules
  1. Words of the model are Markdown already and stay as they are. All else is quoted, or fenced with a fence longer
     than any inside it, so that nothing in a file or result ends its own fence.
  2. Thinking and agents are folded; a file's change is a `diff` block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import tzinfo
from functools import partial

from unspool.display import units
from unspool.display.safe import clean_line
from unspool.export import describe_calls
from unspool.export.depth import Depth
from unspool.export.outline import NestedAgent, Section, by_call, sections
from unspool.export.story import Answer, Call, Inside, Mark, MarkKind, Prompt, Step, Story, Thought
from unspool.home import Session

_MOST_LINES = 200
"""Of an error or a diff; a page with more is not read."""
_MARKUP = re.compile(r"([\\`*_\[\]<>#|])")


def markdown(
    session: Session, zone: tzinfo | None = None, *, depth: Depth = Depth.STEPS, turns: range | None = None
) -> str:
    """Return a session as Markdown, times in a zone: the machine's own if none is given; some turns, or all."""
    return "\n".join([*_head(session, zone), *_body(session, zone, depth, turns)]).rstrip() + "\n"


def _head(session: Session, zone: tzinfo | None) -> Iterator[str]:
    facts = session.facts
    when = units.span(units.moment(facts.started, zone), units.moment(facts.last, zone))
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


def _body(session: Session, zone: tzinfo | None, depth: Depth, turns: range | None) -> Iterator[str]:
    story = Story(session.entries)
    agents = by_call(session) if session.agent_sources and depth >= Depth.STEPS else {}
    for section in sections(session):
        if turns is not None and section.number not in turns:
            continue
        yield from _title(section, zone)
        for step in story.steps(section.entries):
            if _least(step) <= depth:
                yield from _step(step, session.cwd, agents)
                if depth is Depth.ALL and isinstance(step, Call) and not step.call.failed:
                    yield from _folded("result", _fenced(describe_calls.result_text(step.call)))


def _least(step: Step) -> Depth:
    """Return the least depth at which a step is told, as on a terminal."""
    match step:
        case Prompt() | Mark(kind=MarkKind.COMPACTION | MarkKind.INTERRUPT | MarkKind.API_ERROR):
            return Depth.PROMPTS
        case Answer():
            return Depth.ANSWERS
        case _:
            return Depth.STEPS


def _title(section: Section, zone: tzinfo | None) -> Iterator[str]:
    if section.turn is None:
        return
    time = units.moment(section.turn.prompt.record.timestamp, zone)
    branch = " (on a branch that was left)" if section.left else ""
    yield f"## {section.number}{f' · {time:%Y-%m-%d %H:%M}' if time else ''}{branch}"
    yield ""


def _step(step: Step, cwd: str | None, agents: dict[str, list[NestedAgent]]) -> Iterator[str]:
    match step:
        case Prompt(text=text, queued=queued):
            yield from ["*queued while the model worked:*", ""] if queued else []
            yield from _quoted(text)
        case Answer(text=text):
            yield from [text.strip("\n"), ""]
        case Thought(text=text) if text.strip():
            yield from _folded(f"thinking, {len(text):,} characters", _fenced(text))
        case Thought():
            yield from ["*thinking, withheld*", ""]
        case Call():
            yield from _call(step, cwd, agents)
        case Mark(kind=MarkKind.COMPACTION, text=text):
            yield from ["---", "", f"*compacted{f': {text}' if text else ''}*", ""]
        case Mark(kind=MarkKind.SUMMARY, text=text):
            yield from _folded("summary of what came before", _quoted(text))
        case Mark(kind=kind, text=text):
            yield from [f"*{kind.value}*", "", *_quoted(text)]
        case Inside(entries=entries):
            story = Story(entries)
            inner = [line for one in story.steps(entries) for line in _step(one, cwd, agents)]
            yield from _folded("an agent", inner)


def _call(step: Call, cwd: str | None, agents: dict[str, list[NestedAgent]]) -> Iterator[str]:
    call = step.call
    patch = describe_calls.diff(call)
    sign = "…" if call.result is None else "✗" if call.failed else "✓"
    notes = [describe_calls.changes(patch), units.duration(call.duration) if call.duration is not None else ""]
    notes += ["no result"] if call.result is None else []
    aim = describe_calls.target(call, cwd)
    told = ", ".join(note for note in notes if note)
    yield f"{sign} **{_escaped(call.name)}**{f' {_code(aim)}' if aim else ''}{f' ({told})' if told else ''}"
    yield ""
    if call.failed:
        yield from _fenced(describe_calls.error(call))
    if patch:
        yield from _fenced("\n".join(patch), "diff")
    for nested in agents.get(call.id, []):
        entries = nested.entries
        steps = partial(_step, cwd=cwd, agents={**agents, call.id: []})
        yield from _folded(nested.words, [line for one in Story(entries).steps(entries) for line in steps(one)])


def _folded(title: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield from [f"<details><summary>{_escaped(title)}</summary>", "", *lines, "</details>", ""]


def _quoted(text: str) -> Iterator[str]:
    for line in text.strip("\n").splitlines():
        yield f"> {line}".rstrip()
    yield ""


def _fenced(text: str, language: str = "") -> Iterator[str]:
    lines = text.rstrip("\n").splitlines()
    rest = len(lines) - _MOST_LINES
    fence = "`" * max(3, _longest_run(text) + 1)
    yield from [f"{fence}{language or 'text'}", *lines[:_MOST_LINES], fence]
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
