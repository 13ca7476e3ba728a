"""A stretch of a file as rows: items in, rows out, with what the index knows of the rest of the file.

Rules
  1. Every line has a row, if only at the greatest depth (`marks.py`, rule 1); but a result is told with its call, and a
     line that was written again is not told again.
  2. Three or more of the same quiet kind in a row (reads and searches that went well, hooks, what the queue did,
     progress) are one row that opens.
  3. Calls of one message are bracketed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from unspool.export import marks, targets
from unspool.export.depth import Depth
from unspool.export.figures import amount, size
from unspool.export.outcomes import State, outcome
from unspool.export.page.pictures import Picture, pictures_in
from unspool.export.page.row import INLINE, Row
from unspool.export.steps import Answer, Call, Inside, Known, Mark, MarkKind, Prompt, Step, Story, Thought, known_of
from unspool.export.words import words_of
from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Text, Thinking, ToolResult, ToolUse, as_blocks
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.notes import QueueOperation
from unspool.format.records import Assistant, Attachment, User
from unspool.graph.calls import ToolCall
from unspool.graph.turns import typed_text

_READS = {"Read": "read", "NotebookRead": "read", "Grep": "search", "Glob": "search", "LS": "search"}
_PLURALS = {"search": "searches"}
_SIGNS = {
    State.DONE: "✓",
    State.FAILED: "✗",
    State.INTERRUPTED: "■",
    State.REJECTED: "⊘",
    State.OPEN: "…",
}
_MARKS = {
    MarkKind.COMPACTION: ("⇣", Depth.PROMPTS),
    MarkKind.INTERRUPT: ("■", Depth.PROMPTS),
    MarkKind.API_ERROR: ("✗", Depth.PROMPTS),
    MarkKind.COMMAND: ("/", Depth.STEPS),
    MarkKind.OUTPUT: ("│", Depth.STEPS),
    MarkKind.NOTIFICATION: ("◦", Depth.STEPS),
    MarkKind.SUMMARY: ("≡", Depth.STEPS),
    MarkKind.RESULT: ("?", Depth.STEPS),
    MarkKind.OTHER: ("?", Depth.STEPS),
}
_NOTED = {"hook": "↪", "queue": "⋮", "pull request": "⇡", "unknown": "?", "attached": "+", "artifact": "⇡"}
_FOLDED = frozenset({"hook", "queue", "progress", "note", "snapshot"})


class Around(NamedTuple):
    """What rows need to know of the file they are in."""

    known: Known
    cwd: str | None = None
    prefix: str = ""
    """What keys begin with: the agent's id and `/`."""
    agent_of: Callable[[str], str | None] = lambda _: None
    """Which agent a call started."""


def rows(items: Sequence[Item], around: Around) -> tuple[Row, ...]:
    """Return what a stretch of a file tells."""
    entries = [item for item in items if isinstance(item, Entry)]
    told: dict[int, list[Step]] = {}
    inner: set[int] = set()
    for step in Story(entries, around.known).steps(entries):
        told.setdefault(step.entry.offset, []).append(step)
        if isinstance(step, Inside):
            inner.update(entry.offset for entry in step.entries)
    teller = _Teller(around, _tokens(entries))
    found: list[Row] = []
    messages: dict[str, str] = {}
    for item in items:
        if isinstance(item, BadLine):
            found.append(_bad(item, around.prefix))
        elif isinstance(item, Entry):
            made = teller.rows_of(item, told.get(item.offset, ()), is_inside=item.offset in inner)
            if isinstance(item.record, Assistant) and item.record.message.id:
                messages |= {row.key: item.record.message.id for row in made if row.kind == "call"}
            found += made
    return tuple(_bracketed(_folded(found), messages))


class _Teller:
    def __init__(self, around: Around, tokens: dict[int, int]) -> None:
        self._around = around
        self._tokens = tokens
        """What answers cost to write, by the first of their lines."""

    def rows_of(self, entry: Entry, steps: Sequence[Step], *, is_inside: bool) -> list[Row]:
        made = [self._row(step) for step in steps]
        if made and isinstance(entry.record, Assistant) and not entry.record.is_api_error_message:
            cost = self._tokens.get(entry.offset)
            return [replace(made[0], tokens=cost), *made[1:]] if cost else made
        if made or is_inside or not _is_noted(entry, self._around.known):
            return made
        return [self._noted(entry)]

    def _row(self, step: Step) -> Row:
        match step:
            case Prompt():
                return self._prompt(step)
            case Answer(text=text, entry=entry):
                block = _place(entry, lambda one: isinstance(one, Text) and one.text == text)
                return self._open(entry, block, "answer", text, depth=Depth.ANSWERS)
            case Thought(text=text, entry=entry):
                block = _place(entry, lambda one: isinstance(one, Thinking) and one.thinking == text)
                row = self._open(entry, block, "thought", text, depth=Depth.STEPS)
                words = amount(len(text), "character") if text.strip() else "withheld"
                return replace(row, sign="·", name="thinking", outcome=words)
            case Call():
                return self._call(step)
            case Mark():
                return self._mark(step)
            case Inside(entries=entries, entry=entry):
                around = self._around._replace(known=known_of(entries))
                inside = rows(entries, around)
                calls = [row for row in inside if row.kind == "call"]
                key = f"{self._key(entry, 0)}-inside"
                words = amount(len(calls), "call")
                return Row(key=key, kind="inside", sign="⤷", name="agent", outcome=words, rows=inside)

    def _key(self, entry: Entry, block: int) -> str:
        return f"{self._around.prefix}{entry.offset}.{block}"

    def _open(self, entry: Entry, block: int, kind: str, text: str, depth: Depth) -> Row:
        time = entry.record.timestamp
        length = len(text)
        return Row(
            key=self._key(entry, block), kind=kind, depth=depth, time=time, text=text[:INLINE], length=length
        )  # fmt: skip

    def _prompt(self, step: Prompt) -> Row:
        blocks = _said(step.entry)
        text = typed_text(blocks)
        row = self._open(step.entry, 0, "prompt", text, depth=Depth.PROMPTS)
        name = "queued" if step.queued else "agent's task" if step.by_agent else "prompt"
        others = [words_of([block]) for block in blocks if not isinstance(block, Text)]
        pictures = pictures_in(blocks, step.entry.offset)
        words = " ".join(others) if len(others) > len(pictures) else ""
        return replace(row, sign="›", name=name, pictures=pictures, outcome=words)

    def _call(self, step: Call) -> Row:
        call = step.call
        ended = outcome(call)
        block = _place(step.entry, lambda one: isinstance(one, ToolUse) and one.id == call.id)
        return Row(
            key=self._key(step.entry, block),
            kind="call",
            sign=_SIGNS[ended.state],
            name=call.name or "(no name)",
            target=targets.target(call, self._around.cwd)[:500],
            outcome=ended.words[:300],
            state=ended.state.value,
            time=call.started,
            took=call.duration.total_seconds() if call.duration is not None else None,
            size=ended.size,
            pictures=_pictures(call),
            agent=self._around.agent_of(call.id),
        )

    def _mark(self, step: Mark) -> Row:
        sign, depth = _MARKS[step.kind]
        failed = step.kind is MarkKind.API_ERROR
        state = "failed" if failed else "interrupted" if step.kind is MarkKind.INTERRUPT else "done"
        text = step.text.removeprefix("API Error: ") if failed else step.text
        return Row(
            key=self._key(step.entry, 0), kind=step.kind.name.lower().replace("_", "-"), depth=depth, sign=sign,
            name=step.kind.value, target=targets.first_line(text)[:500], state=state,
            time=step.entry.record.timestamp, length=len(text),
        )  # fmt: skip

    def _noted(self, entry: Entry) -> Row:
        told = marks.noted(entry)
        return Row(
            key=self._key(entry, 0), kind=told.kind.replace(" ", "-"), depth=told.depth,
            sign="✗" if told.failed else _NOTED.get(told.kind, "·"), name=told.kind,
            target=targets.first_line(told.text)[:500], state="failed" if told.failed else "done",
            time=entry.record.timestamp, url=told.url, length=len(told.text),
        )  # fmt: skip


def _pictures(call: ToolCall) -> tuple[Picture, ...]:
    if call.result is None or call.result_entry is None or call.result.is_text:
        return ()
    return pictures_in(call.result.blocks, call.result_entry.offset)


def _bad(item: BadLine, prefix: str) -> Row:
    words = f"{size(item.length)} that could not be read"
    return Row(
        key=f"{prefix}{item.offset}.0", kind="bad", sign="✗", name="bad line", target=item.reason[:300], outcome=words,
        state="failed", size=item.length,
    )  # fmt: skip


def _is_noted(entry: Entry, known: Known) -> bool:
    """Tell whether a line without a step has a row of its own: not if it only holds results, or was written again."""
    record = entry.record
    if isinstance(record, Assistant):
        return False
    if isinstance(record, User):
        has_result = any(isinstance(block, ToolResult) for block in record.message.blocks)
        return entry.offset not in known.repeated and not has_result
    return True


def _said(entry: Entry) -> tuple[AnyBlock, ...]:
    match entry.record:
        case User(message=message):
            return message.blocks
        case Attachment(attachment=QueuedCommand(prompt=prompt)):
            return as_blocks(prompt)
        case QueueOperation(content=content) if content:
            return as_blocks(content)
        case _:
            return ()


def _place(entry: Entry, fits: Callable[[AnyBlock], bool]) -> int:
    record = entry.record
    blocks = record.message.blocks if isinstance(record, User | Assistant) else ()
    return next((number for number, block in enumerate(blocks) if fits(block)), 0)


def _tokens(entries: Iterable[Entry]) -> dict[int, int]:
    """Return how much each answer took to write, by the place of its first line."""
    most: dict[str, int] = {}
    first: dict[str, int] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Assistant) and record.message.usage is not None:
            id = record.message.id or f"line {entry.offset}"
            first.setdefault(id, entry.offset)
            most[id] = max(most.get(id, 0), record.message.usage.output_tokens)
    return {first[id]: count for id, count in most.items()}


# folds and brackets


def _folded(found: Sequence[Row]) -> Iterator[Row]:
    at = 0
    while at < len(found):
        kind = _fold_kind(found[at])
        end = at + 1
        while kind and end < len(found) and _fold_kind(found[end]) == kind:
            end += 1
        if kind and end - at >= 3:
            yield _fold(found[at:end], kind)
        else:
            yield from found[at:end]
        at = end


def _fold_kind(row: Row) -> str:
    if row.kind == "call":
        quiet = row.name in _READS and row.state == "done" and not row.pictures
        return "reads" if quiet else ""
    return f"{row.kind} {row.depth}" if row.kind in _FOLDED and row.state == "done" else ""


def _fold(inside: Sequence[Row], kind: str) -> Row:
    first = inside[0]
    if kind == "reads":
        counts: dict[str, int] = {}
        for row in inside:
            counts[_READS[row.name]] = counts.get(_READS[row.name], 0) + 1
        name = " · ".join(amount(count, noun, _PLURALS.get(noun)) for noun, count in counts.items())
    else:
        name = f"{len(inside):,} × {first.name}"
    names = list(dict.fromkeys(row.target.rpartition("/")[2] for row in inside if row.target))
    return Row(
        key=f"{first.key}-fold", kind="fold", depth=first.depth, sign="≡", name=name, target=", ".join(names)[:300],
        time=first.time, tokens=sum(row.tokens or 0 for row in inside) or None,
        size=sum(row.size or 0 for row in inside) or None, rows=tuple(inside),
    )  # fmt: skip


def _bracketed(found: Iterable[Row], messages: dict[str, str]) -> Iterator[Row]:
    """Mark the calls that were made together (rule 3); what is folded too."""
    among = [replace(row, rows=tuple(_bracketed(row.rows, messages))) if row.kind == "fold" else row for row in found]
    groups = [messages.get(row.key, "") for row in among]
    for place, row in enumerate(among):
        group = groups[place]
        before = bool(group) and place > 0 and groups[place - 1] == group
        after = bool(group) and place + 1 < len(groups) and groups[place + 1] == group
        bracket = "middle" if before and after else "last" if before else "first" if after else ""
        yield replace(row, bracket=bracket) if bracket else row
