"""A stretch of a file as rows: items in, rows out, with what the index knows of the rest of the file.

Rules
  1. Every line has a row, if only at the greatest depth (`marks.py`, rule 1); but a result is told with its call, and a
     line that was written again is not told again.
  2. Three or more of the same quiet kind in a row (reads and searches that went well, hooks, what the queue did,
     progress) are one row that opens.
  3. Calls of one message are bracketed.

[merged: blocks.py] What a page loads at once: an index in, blocks of about equal height out.

Rules
  1. A block is made of chunks (`index.py`, rule 2) that follow each other: of one turn or of several.
  2. What is appended to a file changes the last block and adds others: no other is cut anew.

[merged: row.py] A row of a page: one thing that happened, in a form that JSON, HTML and tests can look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.display.units import amount, size
from unspool.export import describe_calls as targets
from unspool.export import describe_lines as marks
from unspool.export.block_text import words_of
from unspool.export.depth import Depth
from unspool.export.describe_calls import State, outcome
from unspool.export.story import Answer, Call, Inside, Known, Mark, MarkKind, Prompt, Step, Story, Thought, known_of
from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Text, Thinking, ToolResult, ToolUse, as_blocks
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.meta_records import QueueOperation
from unspool.format.records import Assistant, Attachment, User
from unspool.graph.tool_calls import ToolCall
from unspool.graph.turns import typed_text
from unspool.page.images import Picture, pictures_in
from unspool.page.index import CHUNK, Index

_ROW, _LINE, _PER_LINE, _TITLE = 28, 22, 90, 44
"""Pixels of a row, of a line of text, characters on one, pixels of a turn's own air."""
_TURNS = 60
"""A block has no more."""


class Block(msgspec.Struct, frozen=True):
    """Turns, or parts of long ones, that are loaded together."""

    first: int
    first_chunk: int
    last: int
    last_chunk: int
    start: int = 0
    """Where it begins in the file."""
    steps: int = 0
    characters: int = 0

    @property
    def id(self) -> str:
        """What it is known by on its page: it stays the same while the file grows."""
        return f"{self.first}-{self.first_chunk}"

    def has(self, turns: range | None) -> bool:
        """Tell whether any of some turns is in it; of no turns in particular, always."""
        return turns is None or (bool(turns) and self.first <= turns[-1] and turns[0] <= self.last)

    @property
    def height(self) -> int:
        """About how many pixels it takes."""
        turns = self.last - self.first + 1
        return self.steps * _ROW + self.characters // _PER_LINE * _LINE + turns * _TITLE


def blocks(index: Index) -> list[Block]:
    """Return the blocks of a file, in order."""
    found: list[Block] = []
    units = (
        (number, place, chunk)
        for number, part in enumerate(index.parts)
        if number or index.has_opening
        for place, chunk in enumerate(part.chunks)
    )
    for number, place, chunk in units:
        before = found[-1] if found else None
        if before is None or before.steps >= CHUNK or number - before.first >= _TURNS:
            found.append(Block(number, place, number, place, chunk.start, chunk.steps, chunk.characters))
        else:
            steps, characters = before.steps + chunk.steps, before.characters + chunk.characters
            found[-1] = Block(before.first, before.first_chunk, number, place, before.start, steps, characters)
    return found


INLINE = 65_536
"""How many characters of one value a page shows before somebody asks for all of it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a transcript; what is said openly is under it."""

    key: str
    """Where it stands: `<offset>.<block>`, in an agent's file `<agent>/<offset>.<block>`."""
    kind: str
    """`prompt`, `answer`, `thought`, `call`, `fold`, `inside`, `bad`, or the kind of a mark."""
    depth: int = Depth.STEPS
    """The least depth at which it is seen."""
    sign: str = ""
    name: str = ""
    target: str = ""
    outcome: str = ""
    state: str = "done"
    time: str | None = None
    took: float | None = None
    """Seconds from the call to its result."""
    tokens: int | None = None
    """What the answer cost to write; on the first row of each."""
    size: int | None = None
    """Bytes of the result."""
    text: str = ""
    length: int = 0
    """Characters of all the text, shown or not."""
    pictures: tuple[Picture, ...] = ()
    agent: str | None = None
    """The agent that a call started."""
    url: str | None = None
    bracket: str = ""
    """Among calls made together: `first`, `middle` or `last`."""
    rows: tuple[Row, ...] = ()
    """What is folded inside."""

    @property
    def is_cut(self) -> bool:
        """Whether there is more text than is here."""
        return self.length > len(self.text)

    @property
    def is_error(self) -> bool:
        """Whether something went wrong."""
        return self.state in ("failed", "interrupted", "rejected")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A turn on a page, or a part of one."""

    number: int
    chunk: int = 0
    """Which part of a long turn."""
    chunks: int = 1
    left: bool = False
    starts_branch: bool = False
    rows: tuple[Row, ...] = ()


def shown(rows: tuple[Row, ...], depth: Depth) -> tuple[Row, ...]:
    """Return the rows that are seen at a depth."""
    return tuple(row for row in rows if row.depth <= depth)


def each(rows: tuple[Row, ...]) -> Iterator[Row]:
    """Yield rows and what is folded inside them."""
    for row in rows:
        yield row
        yield from each(row.rows)


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
