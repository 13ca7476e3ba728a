"""`unspool show`: prints a session.

Rules
  1. A line is a list of `StyledText`, and `render_line` cleans each: there is no other way to the terminal.
  2. No meaning is carried by colour alone: `✓` done, `✗` failed, `…` no result, `>` prompt, `+` and `-` changed.
  3. A turn is rendered when it is needed, so that the first lines of a long session are shown at once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import click

from unspool.cli import options, output
from unspool.cli.query.show_file import print_file_versions
from unspool.cli.session_argument import SessionCost, open_session_in_folders, parse_turns, read_session_cost
from unspool.display import clean_line, resume_command, truncate, units
from unspool.errors import NothingFound, UsageError, conflicting_options
from unspool.export import (
    DEPTH_NAMES,
    AnswerStep,
    Branch,
    Depth,
    EventKind,
    EventStep,
    PromptStep,
    Section,
    SidechainStep,
    Step,
    Story,
    ThinkingStep,
    ToolCallStep,
    build_branch_tree,
    build_story,
    describe_calls,
    number_sections,
    outline,
)
from unspool.format import Entry, parse_local_time
from unspool.graph import Turn, describe_target, first_line
from unspool.home import Session
from unspool.other_agents import find_program
from unspool.paths import config_folder

_MAX_LINES = 8
"""How many lines of a diff, an error or an output are shown without `--depth all`."""
_UNKNOWN_COST = SessionCost(None, 0)
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@options.session_argument()
@click.option(
    "-t", "--turn", "--turns", "turn", metavar="N", help="Only these turns: `3`, `-1` (the last), `2..5`, `4..`, `..3`"
)
@click.option(
    "--depth",
    type=click.Choice(DEPTH_NAMES),
    default="steps",
    show_default=True,
    help="How much to show: prompts only, also answers, also tool calls, or all with thinking, results and agents",
)
@click.option("--tree", "as_tree", is_flag=True, help="Show the turns as a tree of branches")
@click.option(
    "--file", metavar="PATH[@vN[..vM]]", help="List the versions of a changed file, print one, or compare two"
)
@click.option("--diff", is_flag=True, help="With --file: show the change from the previous version")
@click.option("-o", "--output", "target", metavar="FILE", help="With --file: write the version or diff to a new file")
@options.store_options
@options.output_options
def show(
    session: str,
    *,
    turn: str | None,
    depth: str,
    as_tree: bool,
    file: str | None,
    diff: bool,
    target: str | None,
    as_json: bool,
    access: options.AccessOptions,
) -> None:
    """Show a session: prompts, tool calls, results.

    SESSION is a file, a title, an agent id, or the start of a session id. On a terminal, the output goes through $PAGER
    or `less`.

    `--file` shows the earlier versions of files that the session changed. PATH, or its last part, lists the versions.
    PATH@v2 prints one version, byte for byte. PATH@v1..v3 compares two versions.
    """
    if file is not None:
        if turn or as_tree:
            raise UsageError("--file cannot be combined with --turn or --tree", hint="remove `--turn` and `--tree`")
    elif diff or target:
        raise UsageError("--diff and -o need --file", hint="write a whole session with `unspool export`")
    if as_tree and (as_json or turn):
        raise conflicting_options("--tree", "--json" if as_json else "--turn")
    with open_session_in_folders(session, access) as (opened, folders):
        if file is not None:
            print_file_versions(opened, file, diff=diff, target=target, as_json=as_json)
        elif as_json:
            from unspool.cli.query.show_json import session_document

            cost = read_session_cost(opened, folders, access)
            sections = _select_sections(opened, turn)
            resume = find_resume_command(opened)
            output.write_document("show", session_document(opened, sections, Depth[depth.upper()], cost, resume))
        else:
            cost = _UNKNOWN_COST if turn else read_session_cost(opened, folders, access)
            _print_session(opened, Depth[depth.upper()], turn, cost, as_tree=as_tree)


def _print_session(session: Session, depth: Depth, turn: str | None, cost: SessionCost, *, as_tree: bool) -> None:
    transcript = TranscriptRenderer(session, depth, output.terminal_width(), cost)
    pieces: Iterable[str]
    if as_tree:
        pieces = chain([transcript.head(), "\n"], transcript.tree(build_branch_tree(session)))
    else:
        pieces = _render_sections(transcript, _select_sections(session, turn), is_whole=turn is None)
    # The pager takes the pieces as they are made: the first turns of a long session are there at once.
    output.show_pages(pieces)


def _render_sections(transcript: TranscriptRenderer, selected: list[Section], *, is_whole: bool) -> Iterator[str]:
    if is_whole:
        yield transcript.head()
    for number, section in enumerate(selected):
        text = transcript.section(section)
        yield text if is_whole or number else text.lstrip("\n")
    if is_whole:
        yield transcript.foot()


def _select_sections(session: Session, turn: str | None) -> list[Section]:
    """Return the turns that `--turn` names; without it all, and what came before the first."""
    sections = number_sections(session)
    if not sections:
        raise NothingFound(f"the session `{session.id}` is empty")
    if turn is None:
        return sections
    numbers = parse_turns(session, turn, "turn")
    return [section for section in sections if section.number in numbers]


def find_resume_command(session: Session) -> str | None:
    """Return the command that resumes a session in Claude Code; None if Claude Code does not have it."""
    path = session.own_path
    # Claude Code finds sessions only in its config folder, and no file that only the archive has.
    if find_program(path) or session.is_missing or path.parent.parent.name != "projects" or not path.is_file():
        return None
    own, usual = path.parents[2], config_folder(None, os.environ)
    is_usual = own in (usual, usual.resolve())
    return resume_command(session.id, session.cwd, None if is_usual else str(own))


class StyledText(NamedTuple):
    """Text in one style."""

    text: str
    bold: bool = False
    dim: bool = False
    fg: str | None = None


class TranscriptRenderer:
    """Renders a session at one depth and width."""

    def __init__(self, session: Session, depth: Depth, width: int, cost: SessionCost = _UNKNOWN_COST) -> None:
        self.session, self.depth, self.width, self._cost = session, depth, width, cost

    @cached_property
    def _story(self) -> Story:
        return build_story(self.session.entries)

    @cached_property
    def _agents(self) -> dict[str, list[outline.NestedAgent]]:
        return outline.group_agents_by_call(self.session)

    def head(self) -> str:
        """Return the lines above the first turn: title, id, folder, models, counts."""
        session, facts = self.session, self.session.facts
        when = units.span(parse_local_time(facts.started), parse_local_time(facts.last))
        numbers = [
            units.amount(facts.turns, "turn"),
            *([units.amount(facts.command_turns, "command")] if facts.command_turns else []),
            units.amount(facts.tool_calls, "tool call"),
            units.amount(facts.errors, "error"),
        ]
        if session.agent_sources:
            numbers.append(units.amount(len(session.agent_sources), "agent"))
        if self._cost.micros is not None or self._cost.unpriced_tokens:
            numbers.append(units.cost(*self._cost))
        facts_by_line = [
            [session.id],
            [session.cwd or session.project or "", facts.branch or "", when],
            [", ".join(facts.models), ", ".join(facts.versions)],
            [", ".join(numbers)],
            [f"resume: {command}" if (command := find_resume_command(session)) else ""],
        ]
        lines = [[StyledText(session.title or "(no title)", bold=True)]]
        lines += [
            [StyledText(" · ".join(part for part in parts if part), dim=True)] for parts in facts_by_line if any(parts)
        ]
        return "".join(map(render_line, lines))

    def section(self, section: Section) -> str:
        """Return the lines of a turn."""
        steps = [*self._spaced(self._story, section.entries, "  ")]
        if section.turn is None and not steps:
            return ""
        return "".join(render_line(line) for line in [*self._title(section), *steps])

    def foot(self) -> str:
        """Return the line below the last turn: the agents that no call started."""
        kinds = Counter(agent.kind.value for agent in self.session.agents if agent.call is None)
        if self.depth < Depth.STEPS or not kinds:
            return ""
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        return render_line([]) + render_line(
            [StyledText(f"{units.amount(kinds.total(), 'agent')} without a call: {counts}", dim=True)]
        )

    def tree(self, branches: Iterable[Branch], indent: str = "") -> Iterator[str]:
        """Yield the turns one to a line, drawn as the tree of their branches."""
        siblings = list(branches)
        for place, branch in enumerate(siblings):
            is_last = place == len(siblings) - 1
            first, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            if not indent and len(siblings) == 1:
                first = rest = ""
            for number, section in enumerate(branch.sections):
                yield render_line(self._tree_line(section, indent + (rest if number else first), branch))
            yield from self.tree(branch.branches, indent + rest)

    def _tree_line(self, section: Section, indent: str, branch: Branch) -> list[StyledText]:
        assert section.turn is not None
        time = parse_local_time(section.turn.prompt.record.timestamp)
        head = f"{indent}{section.number}  {f'{time:%m-%d %H:%M}  ' if time else ''}"
        marks = "  (left)" if section.left else ""
        marks += "  (compacted)" if section.number in branch.compacted else ""
        # Cleaned before it is cut: cleaning changes the width.
        text = truncate(clean_line(first_line(section.turn.text)), max(20, self.width - len(head) - len(marks)))
        return [StyledText(head, dim=section.left), StyledText(text, dim=section.left), StyledText(marks, fg="yellow")]

    def _title(self, section: Section) -> Iterator[list[StyledText]]:
        yield []
        if section.turn is None:
            return
        marks = "  on an abandoned branch" if section.left else "  a branch begins" if section.starts_branch else ""
        time = self._time(section.turn)
        head = [StyledText(f"{section.number}", bold=True), StyledText(f" · {time}" if time else "", dim=True)]
        yield [*head, StyledText(marks, fg="yellow")]

    def _time(self, turn: Turn) -> str:
        """Return the time of a turn, with its day if the session began on another."""
        first = parse_local_time(self.session.facts.started)
        time = parse_local_time(turn.prompt.record.timestamp)
        if time is None:
            return ""
        return f"{time:%H:%M}" if first and first.date() == time.date() else f"{time:%Y-%m-%d %H:%M}"

    def _step(self, step: Step, indent: str) -> Iterator[list[StyledText]]:
        match step:
            case PromptStep():
                yield from self._prompt(step, indent)
            case EventStep():
                yield from self._mark(step, indent)
            case AnswerStep(text=text) if self.depth >= Depth.ANSWERS:
                yield from _block(text.strip("\n"), indent)
            case ThinkingStep(text=text) if self.depth >= Depth.STEPS:
                count = f"{len(text):,} characters" if text.strip() else "withheld"
                yield [StyledText(f"{indent}· thinking, {count}", dim=True)]
                if self.depth is Depth.ALL and text.strip():
                    yield from _block(text, f"{indent}    ", dim=True)
            case ToolCallStep() if self.depth >= Depth.STEPS:
                yield from self._call(step, indent)
            case SidechainStep(entries=entries) if self.depth >= Depth.STEPS:
                yield [StyledText(f"{indent}  └ an agent: {outline.summarize_calls(entries)}", dim=True)]
                if self.depth is Depth.ALL:
                    yield from self._spaced(build_story(entries), entries, f"{indent}    ")
            case _:
                pass

    def _prompt(self, prompt: PromptStep, indent: str) -> Iterator[list[StyledText]]:
        if prompt.queued:
            yield [StyledText(f"{indent}queued during the turn:", dim=True)]
        elif prompt.is_plan:
            yield [StyledText(f"{indent}accepted plan:", dim=True)]
        yield from _block(prompt.text.strip("\n"), f"{indent}> ", fg="cyan")

    def _mark(self, mark: EventStep, indent: str) -> Iterator[list[StyledText]]:
        if mark.kind is EventKind.COMPACTION:
            yield [StyledText(f"{indent}── compacted{f': {mark.text}' if mark.text else ''} ──", fg="yellow")]
        elif mark.kind is EventKind.INTERRUPT:
            yield [StyledText(f"{indent}■ interrupted", fg="yellow"), StyledText(f"  {mark.text}", dim=True)]
        elif mark.kind is EventKind.API_ERROR:
            message = first_line(mark.text).removeprefix("API Error: ")
            yield [StyledText(f"{indent}✗ API error: {message}", fg="red")]
        elif self.depth >= Depth.STEPS:
            yield [StyledText(f"{indent}· {mark.kind.value}: "), StyledText(first_line(mark.text), dim=True)]
            if self.depth is Depth.ALL and len(mark.text.splitlines()) > 1:
                yield from _block(mark.text, f"{indent}    ", dim=True)

    def _call(self, step: ToolCallStep, indent: str) -> Iterator[list[StyledText]]:
        call, whole = step.call, self.depth is Depth.ALL
        patch, error = describe_calls.diff_lines(call), describe_calls.error_text(call)
        yield self._call_line(step, patch, error, indent)
        more = f"{indent}    "
        if len(error.splitlines()) > 1:
            yield from _first_lines(error.splitlines()[1:], more, whole)
        yield from _first_lines(patch if whole else describe_calls.changed_lines_with_context(patch), more, whole)
        if whole and not call.failed and not patch:
            yield from _block(describe_calls.result_text(call).strip("\n"), more, dim=True)
        for agent in self._agents.pop(call.id, []):  # taken out, so that no agent is rendered inside itself
            entries = agent.entries
            yield [StyledText(f"{indent}  └ {agent.label}: {outline.summarize_calls(entries)}", dim=True)]
            if whole:
                yield from self._spaced(build_story(entries), entries, f"{indent}    ")

    def _call_line(self, step: ToolCallStep, patch: list[str], error: str, indent: str) -> list[StyledText]:
        call = step.call
        sign, colour = ("…", "yellow") if call.result is None else ("✗", "red") if call.failed else ("✓", "green")
        took = units.duration(call.duration) if call.duration is not None else ""
        notes = [describe_calls.count_changes(patch), took, "no result" if call.result is None else ""]
        suffix = "".join(f"  {note}" for note in notes if note)
        width = max(24, self.width - len(f"{indent}{sign} {call.name} {suffix}"))
        target = truncate(clean_line(describe_target(call.name, call.input, self.session.cwd)), width)
        line = [
            StyledText(f"{indent}{sign} ", fg=colour),
            StyledText(call.name, bold=True),
            StyledText(f" {target}" if target else ""),
            StyledText(suffix, dim=True),
        ]
        first = error.splitlines()[0] if error else ""
        return [*line, StyledText(f"  {first}", fg="red")] if first else line

    def _spaced(self, story: Story, entries: Sequence[Entry], indent: str) -> Iterator[list[StyledText]]:
        """Yield the lines of the steps of some entries, with blank lines between prompts, answers and tool calls."""
        before: type[Step] | None = None
        for step in story.steps(entries):
            lines = [*self._step(step, indent)]
            kind = type(step) if isinstance(step, PromptStep | AnswerStep) else ToolCallStep
            if lines and before is not None and (before is not kind or kind is AnswerStep):
                yield []
            before = kind if lines else before
            yield from lines


def render_line(line: Iterable[StyledText]) -> str:
    """Return a line with its styles, safe for a terminal, with a line end."""
    styled = "".join(
        click.style(clean_line(span.text), bold=span.bold or None, dim=span.dim or None, fg=span.fg)
        for span in line
        if span.text
    )
    return f"{styled}\n"


def _block(text: str, indent: str, *, dim: bool = False, fg: str | None = None) -> Iterator[list[StyledText]]:
    for line in text.splitlines():
        yield [StyledText(f"{indent}{line}".rstrip(), dim=dim, fg=fg)]


def _first_lines(lines: list[str], indent: str, whole: bool) -> Iterator[list[StyledText]]:
    """Yield the lines of a diff or an error: all of them, or a few and how many more there are."""
    # One less than fits, since the line that says how many more takes the place of one.
    shown = lines if whole or len(lines) <= _MAX_LINES else lines[: _MAX_LINES - 1]
    for line in shown:
        yield [StyledText(f"{indent}{line}".rstrip(), fg=_COLOURS.get(line[:1]), dim=line[:1] not in _COLOURS)]
    if len(lines) > len(shown):
        yield [StyledText(f"{indent}… {units.amount(len(lines) - len(shown), 'more line')}", dim=True)]
