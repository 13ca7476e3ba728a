"""The tool `read_session`: first the outline of a session, then the steps of a turn, then one step whole.

Rules
  1. Turns have the numbers of `unspool show`; steps are counted within their turn, from 1, whatever the budget is.
  2. What does not fit says with which call it is read on: from a turn of the outline, a step of a turn, or a character
     of a step. Characters are counted in the text as it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from unspool.display import amount, units
from unspool.errors import NotFound
from unspool.export import Depth, describe_calls
from unspool.format import local_time, milliseconds
from unspool.graph import ToolCall
from unspool.mcp_server.answer import BudgetedAnswer
from unspool.mcp_server.arguments import ReadArguments
from unspool.mcp_server.history import History
from unspool.page import OutlineTurn, PageView, TextPart, TranscriptRow, read_detail, walk_rows

_PROMPT: Final = 160
"""Characters of a prompt in the outline."""
_STEP_TOKENS: Final = 220
"""Of a long text among other steps; a prompt and the last answer may have more."""
_MAX_TEXT: Final = 2_000_000
"""Characters of a step that can be read."""


def read_session(history: History, given: ReadArguments) -> str:
    """Answer with the outline of a session, with a turn, or with a step."""
    answer = history.begin_answer(given.token_budget)
    id = history.find_session(given.session)
    with history.open_session(id, given.agent) as view:
        if given.turn is None and given.step is None:
            _add_outline(history, answer, view, given)
        else:
            number = 1 if given.turn is None else given.turn
            steps = _read_steps(view, number)
            if given.step is None:
                _add_turn(history, answer, view, given, steps)
            else:
                _add_step(history, answer, view, given, steps)
    return answer.finish()


def add_outline(history: History, answer: BudgetedAnswer, id: str) -> None:
    """Add the outline of a session to an answer."""
    with history.open_session(id) as view:
        _add_outline(history, answer, view, ReadArguments(id))


def _add_outline(history: History, answer: BudgetedAnswer, view: PageView, given: ReadArguments) -> None:
    outline = view.outline()
    head = outline.head
    facts = [
        f"session {view.id}",
        f"agent {head.agent}" if head.agent else "",
        answer.line(head.title or "(no title)", 160),
        answer.line(head.cwd or head.project or "", 160),
        answer.line(head.branch or "", 80),
        f"{_time(history, head.started)} to {_time(history, head.last)}",
        ", ".join(answer.line(model, 60) for model in head.models[:5]),
        f"{amount(head.calls, 'tool call')}, {head.errors:,} failed",
        f"{amount(head.files, 'file')} changed (+{head.added} -{head.removed})",
        amount(head.agents, "agent") if head.agents else "",
        units.cost(head.usage.cost_micros, head.usage.unpriced),
    ]
    answer.add("\n".join(part for part in (facts[0], " · ".join(filter(None, facts[1:]))) if part), most=200)
    turns = [turn for turn in outline.turns if turn.number >= max(given.start, 0)]
    shown = 0
    for turn in turns:
        if turn.number == 0 and not turn.steps:
            shown += 1
            continue
        notes = [
            amount(turn.steps, "step"),
            f"{turn.errors} failed" if turn.errors else "",
            f"+{turn.added} -{turn.removed}" if turn.added or turn.removed else "",
            "compacted" if turn.compacted else "",
            "abandoned branch" if turn.left else "",
        ]
        words = answer.line(turn.prompt, _PROMPT) or "(before the first prompt)"
        line = f"turn {turn.number} · {_time(history, turn.time)} · {', '.join(filter(None, notes))}: {words}"
        if not answer.add(line):
            break
        shown += 1
    if shown < len(turns):
        start = turns[shown].number
        answer.hint_call("More turns", "read_session", session=view.id, agent=given.agent, start=start)
    answer.hint_call("Steps of a turn", "read_session", session=view.id, agent=given.agent, turn=_example(turns))


def _example(turns: list[OutlineTurn]) -> int:
    numbers = [turn.number for turn in turns if turn.number]
    return numbers[-1] if numbers else 1


def _read_steps(view: PageView, number: int) -> list[TranscriptRow]:
    """Return the steps of a turn; what is folded on a page is not here."""
    count = len(view.index.turns) - 1
    if not 0 <= number <= count:
        raise NotFound(f"no turn {number}: the session has {amount(count, 'turn')}", hint="read the outline first")
    sections = view.sections.read_turns(range(number, number + 1), Depth.ALL)
    rows = (row for section in sections for row in walk_rows(section.rows))
    return [row for row in rows if row.kind != "fold" and row.depth <= Depth.STEPS]


def _add_turn(
    history: History, answer: BudgetedAnswer, view: PageView, given: ReadArguments, steps: list[TranscriptRow]
) -> None:
    turn, first = given.turn or 1, max(given.start, 1)
    answer.add(f"session {view.id} · turn {turn} of {len(view.index.turns) - 1} · {amount(len(steps), 'step')}")
    # The last answer says what came of the turn, so it is shown before the steps fill the budget.
    last = next((place for place in range(len(steps), 0, -1) if steps[place - 1].kind == "answer"), 0)
    is_last_shown = False
    if last > first + 1:
        text = _step_line(answer, view, steps[last - 1], last)
        is_last_shown = answer.add(text, most=min(answer.left // 3, 2 * _STEP_TOKENS))
    shown = first - 1
    for number in range(first, len(steps) + 1):
        if number == last and is_last_shown:
            shown = number
            continue
        row = steps[number - 1]
        most = 2 * _STEP_TOKENS if row.kind == "prompt" else _STEP_TOKENS
        if answer.left < 30 or not answer.add(_step_line(answer, view, row, number), most=min(most, answer.left - 2)):
            break
        shown = number
    if shown < len(steps):
        answer.hint_call("More steps", "read_session", session=view.id, agent=given.agent, turn=turn, start=shown + 1)
    answer.hint_call("A step whole", "read_session", session=view.id, agent=given.agent, turn=turn, step=max(last, 1))


def _step_line(answer: BudgetedAnswer, view: PageView, row: TranscriptRow, number: int) -> str:
    """Return a step as it stands among others: what it is, and the beginning of its text."""
    head = f"step {number} · {row.kind}"
    if row.kind == "thought":
        return f"{head} · {row.length:,} characters"
    if row.kind != "call":
        name = f" · {answer.line(row.name, 80)}" if row.name and row.name != row.kind else ""
        return (
            f"{head}{name}\n{row.text.strip()}" if row.text.strip() else f"{head}{name} {answer.line(row.target, 200)}"
        )
    parts = [
        f"{head} · {answer.line(row.name, 80)} {answer.line(row.target, 240)}".rstrip(),
        row.state,
        answer.line(row.outcome, 160),
    ]
    if row.agent:
        parts.append(f"agent {row.agent}")
    line = " · ".join(dict.fromkeys(part for part in parts if part))
    call = _read_call(view, row)
    if call is not None:
        if patch := describe_calls.diff_lines(call):
            return "\n".join([line, *describe_calls.changed_lines_with_context(patch[:400])])
        if call.failed:
            return f"{line}\n{describe_calls.error_text(call)}"
    return line


def _read_call(view: PageView, row: TranscriptRow) -> ToolCall | None:
    agent, _, place = row.key.rpartition("/")
    offset, _, block = place.partition(".")
    owner = view.open_agent(agent) if agent and agent != view.agent_id else view
    return owner.sections.read_call(int(offset), int(block or 0))


def _add_step(
    history: History, answer: BudgetedAnswer, view: PageView, given: ReadArguments, steps: list[TranscriptRow]
) -> None:
    assert given.step is not None
    turn = given.turn or 1
    if given.step > len(steps):
        raise NotFound(
            f"no step {given.step}: turn {turn} has {amount(len(steps), 'step')}", hint="read the turn first"
        )
    row = steps[given.step - 1]
    answer.add(f"session {view.id} · turn {turn} · step {given.step} · {row.kind} {answer.line(row.name, 80)}".rstrip())
    room = given.start + int(answer.left * 4) + 1
    text = answer.prepare("\n".join(_whole_step(view, row)), most=min(room, _MAX_TEXT))[given.start :]
    shown = answer.add_start(text) if text else 0
    if not text:
        answer.hint("There is no more text in this step.")
    elif shown < len(text):
        answer.hint_call(
            "To read on", "read_session", session=view.id, agent=given.agent, turn=turn, step=given.step,
            start=given.start + shown,
        )  # fmt: skip
    if row.agent:
        answer.hint_call("Its agent", "read_session", session=view.id, agent=row.agent)


def _whole_step(view: PageView, row: TranscriptRow) -> Iterator[str]:
    """Yield all text of a step: of a call its input, what it changed, and its result."""
    call = _read_call(view, row) if row.kind == "call" else None
    if call is None:
        detail = read_detail(view, row.key, whole=True, row=row)
        texts = [part.text for part in detail.rendered if isinstance(part, TextPart)]
        yield from texts or [row.text or f"{row.name} {row.target}".strip()]
        return
    yield f"{call.name} {json.dumps(call.input, ensure_ascii=False, default=str)}"
    patch = describe_calls.diff_lines(call)
    yield from patch
    if not patch:
        yield describe_calls.result_text(call)


def _time(history: History, timestamp: str | None) -> str:
    moment = local_time(milliseconds(timestamp), history.site.zone)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "?"
