"""Rows of a transcript: turns the items of a part of a session file into rows that JSON, HTML and tests can look at.

Rules
  1. Every line has a row, if only at the greatest depth (`export/describe_lines.py`); but a result is shown with its
     call, and a line that was written again is not shown again.
  2. Three or more of the same quiet kind in a row (reads and searches that succeeded, hooks, queue operations,
     progress) are one row that opens.
  3. Calls of one message are bracketed.
  4. A hook that ran for a call and did not fail is folded into the call's row.
  5. A prompt that waited in the queue is shown once, where it was sent; what happened to the queue is for the greatest
     depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec.structs import replace

from unspool.display import amount, size
from unspool.export import (
    AnswerStep,
    CallState,
    Depth,
    EventKind,
    EventStep,
    PromptStep,
    SidechainStep,
    Step,
    Story,
    ThinkingStep,
    ToolCallStep,
    blocks_to_text,
    build_story,
    describe_calls,
    describe_lines,
    min_depth,
)
from unspool.format import (
    AnyRecord,
    Assistant,
    Attachment,
    BadLine,
    Entry,
    HookProgress,
    Item,
    Progress,
    Text,
    ToolResult,
    User,
)
from unspool.graph import describe_target, first_line, typed_text
from unspool.page.images import ImageInfo, images_in_blocks, written_blocks

MAX_INLINE_CHARACTERS = 65_536
"""How many characters of one value a page shows before all of it is requested."""
_READS = {"Read": "read", "NotebookRead": "read", "Grep": "search", "Glob": "search", "LS": "search"}
_PLURALS = {"search": "searches"}
_STATE_SIGNS = {
    CallState.DONE: "✓",
    CallState.FAILED: "✗",
    CallState.INTERRUPTED: "■",
    CallState.REJECTED: "⊘",
    CallState.OPEN: "…",
}
_EVENT_SIGNS = {
    EventKind.COMPACTION: "⇣",
    EventKind.INTERRUPT: "■",
    EventKind.API_ERROR: "✗",
    EventKind.COMMAND: "/",
    EventKind.OUTPUT: "│",
    EventKind.NOTIFICATION: "◦",
    EventKind.SUMMARY: "≡",
    EventKind.RESULT: "?",
    EventKind.OTHER: "?",
}
_NOTE_SIGNS = {"hook": "↪", "queue": "⋮", "pull request": "⇡", "unknown": "?", "attached": "+", "artifact": "⇡"}
_FOLDED_KINDS = frozenset({"hook", "queue", "progress", "note", "snapshot"})


class TranscriptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a transcript; text that is shown open stands under it."""

    key: str
    """Where it stands: `<offset>.<block>`, in an agent's file `<agent>/<offset>.<block>`."""
    kind: str
    """`prompt`, `answer`, `thought`, `call`, `fold`, `inside`, `bad`, or the kind of a mark."""
    depth: int = Depth.STEPS
    """The least depth at which it is shown."""
    sign: str = ""
    name: str = ""
    target: str = ""
    outcome: str = ""
    state: str = "done"
    time: str | None = None
    took: float | None = None
    """Seconds from the call to its result."""
    tokens: int | None = None
    """Output tokens of the answer; on the first row of each."""
    is_partial: bool = False
    """Whether the tokens are only those of the beginning of the answer."""
    size: int | None = None
    """Bytes of the result."""
    text: str = ""
    length: int = 0
    """Characters of all the text, shown or not."""
    pictures: tuple[ImageInfo, ...] = ()
    agent: str | None = None
    """The agent that a call started."""
    url: str | None = None
    bracket: str = ""
    """Among calls made together: `first`, `middle` or `last`."""
    rows: tuple[TranscriptRow, ...] = ()
    """What is folded inside."""

    @property
    def is_cut(self) -> bool:
        """Whether there is more text than is here."""
        return self.length > len(self.text)


def walk_rows(rows: tuple[TranscriptRow, ...]) -> Iterator[TranscriptRow]:
    """Yield rows and what is folded inside them."""
    for row in rows:
        yield row
        yield from walk_rows(row.rows)


class RowBuilder:
    """Builds the rows of a session's or an agent's file."""

    def __init__(self, cwd: str | None, prefix: str, agent_of: Callable[[str], str | None]) -> None:
        self._cwd = cwd
        self._prefix = prefix
        """What keys begin with: the agent's id and `/`."""
        self._agent_of = agent_of
        """Returns which agent a call started."""

    def build(self, items: Sequence[Item], story: Story) -> tuple[TranscriptRow, ...]:
        """Return the rows of a part of a file."""
        entries = [item for item in items if isinstance(item, Entry)]
        steps: dict[int, list[Step]] = {}
        nested: set[int] = set()
        for step in story.steps(entries):
            steps.setdefault(step.entry.offset, []).append(step)
            if isinstance(step, SidechainStep):
                nested.update(entry.offset for entry in step.entries)
        tokens, partial = _output_tokens(entries)
        rows: list[TranscriptRow] = []
        messages: dict[str, str] = {}
        calls: dict[str, int] = {}
        for item in items:
            if isinstance(item, BadLine):
                rows.append(self._bad_line(item))
            elif isinstance(item, Entry):
                own = [self._row(step) for step in steps.get(item.offset, ())]
                record = item.record
                if own and isinstance(record, Assistant) and not record.is_api_error_message:
                    is_partial = item.offset in partial
                    own[0] = replace(own[0], tokens=tokens.get(item.offset) or None, is_partial=is_partial)
                elif not own and item.offset not in nested and _has_own_row(item, story):
                    own = [self._note(item)]
                if isinstance(record, Assistant) and record.message.id:
                    messages |= {row.key: record.message.id for row in own if row.kind == "call"}
                call = calls.get(_hook_call(record) or "")
                if call is not None and all(row.kind == "hook" and row.state == "done" for row in own):
                    rows[call] = replace(rows[call], rows=(*rows[call].rows, *own))  # rule 4
                    continue
                for step, row in zip(steps.get(item.offset, ()), own, strict=False):
                    if isinstance(step, ToolCallStep) and row.kind == "call":
                        calls[step.call.id] = len(rows) + own.index(row)
                rows += own
        return tuple(_bracket(_fold_runs(rows), messages))

    def _key(self, entry: Entry, block: int = 0) -> str:
        return f"{self._prefix}{entry.offset}.{block}"

    def _row(self, step: Step) -> TranscriptRow:
        match step:
            case PromptStep():
                return self._prompt(step)
            case AnswerStep():
                return self._open_row("answer", step, step.text, step.block)
            case ThinkingStep(text=text):
                row = self._open_row("thought", step, text, step.block)
                # Since Claude Code 2.1.64 the text of some thinking is empty: only its signature is kept.
                words = amount(len(text), "character") if text.strip() else "withheld"
                return replace(row, sign="·", name="thinking", outcome=words)
            case ToolCallStep():
                return self._call(step)
            case EventStep():
                return self._mark(step)
            case SidechainStep(entries=entries, entry=entry):
                rows = self.build(entries, build_story(entries))
                words = amount(sum(row.kind == "call" for row in rows), "call")
                key = f"{self._key(entry)}-inside"
                return TranscriptRow(key=key, kind="inside", sign="⤷", name="agent", outcome=words, rows=rows)

    def _open_row(self, kind: str, step: Step, text: str, block: int = 0) -> TranscriptRow:
        """Return a row whose text is shown open."""
        key, time = self._key(step.entry, block), step.entry.record.timestamp
        shown = text[:MAX_INLINE_CHARACTERS]
        return TranscriptRow(key=key, kind=kind, depth=min_depth(step), time=time, text=shown, length=len(text))

    def _prompt(self, step: PromptStep) -> TranscriptRow:
        blocks = written_blocks(step.entry)
        row = self._open_row("prompt", step, step.text if step.is_command else typed_text(blocks))
        others = [blocks_to_text([block]) for block in blocks if not isinstance(block, Text)]
        images = images_in_blocks(blocks, step.entry.offset)
        words = " ".join(others) if len(others) > len(images) else ""
        return replace(row, sign="›", name=step.name, pictures=images, outcome=words)

    def _call(self, step: ToolCallStep) -> TranscriptRow:
        call, result = step.call, step.call.result
        ended = describe_calls.describe_outcome(call)
        images: tuple[ImageInfo, ...] = ()
        if result is not None and call.result_entry is not None and not result.is_text:
            images = images_in_blocks(result.blocks, call.result_entry.offset)
        return TranscriptRow(
            key=self._key(step.entry, step.block),
            kind="call",
            sign=_STATE_SIGNS[ended.state],
            name=call.name or "(no name)",
            target=describe_target(call.name, call.input, self._cwd)[:500],
            outcome=ended.words[:300],
            state=ended.state.value,
            time=call.start_timestamp,
            took=call.duration.total_seconds() if call.duration is not None else None,
            size=ended.size,
            pictures=images,
            agent=self._agent_of(call.id),
        )

    def _mark(self, step: EventStep) -> TranscriptRow:
        failed = step.kind is EventKind.API_ERROR
        state = "failed" if failed else "interrupted" if step.kind is EventKind.INTERRUPT else "done"
        text = step.text.removeprefix("API Error: ") if failed else step.text
        return TranscriptRow(
            key=self._key(step.entry, step.block), kind=step.kind.name.lower().replace("_", "-"),
            depth=min_depth(step), sign=_EVENT_SIGNS[step.kind], name=step.kind.value,
            target=first_line(text)[:500], state=state, time=step.entry.record.timestamp, length=len(text),
        )  # fmt: skip

    def _note(self, entry: Entry) -> TranscriptRow:
        noted = describe_lines.describe_line(entry)
        depth = Depth.ALL if noted.kind == "queue" else noted.depth  # rule 5
        return TranscriptRow(
            key=self._key(entry), kind=noted.kind.replace(" ", "-"), depth=depth,
            sign="✗" if noted.failed else _NOTE_SIGNS.get(noted.kind, "·"), name=noted.kind,
            target=first_line(noted.text)[:500], state="failed" if noted.failed else "done",
            time=entry.record.timestamp, url=noted.url, length=len(noted.text),
        )  # fmt: skip

    def _bad_line(self, item: BadLine) -> TranscriptRow:
        words = f"{size(item.length)} unreadable"
        return TranscriptRow(
            key=f"{self._prefix}{item.offset}.0", kind="bad", sign="✗", name="bad line", target=item.reason[:300],
            outcome=words, state="failed", size=item.length,
        )  # fmt: skip


def _hook_call(record: AnyRecord) -> str | None:
    """Return the tool call that a hook ran for, if the line is about a hook."""
    match record:
        case Attachment(attachment=data):
            id = getattr(data, "tool_use_id", None)  # only attachments about hooks and tool calls have one
            return id if isinstance(id, str) else None
        case Progress(data=HookProgress(), parent_tool_use_id=parent, tool_use_id=id):
            return parent or id
    return None


def _has_own_row(entry: Entry, story: Story) -> bool:
    """Tell whether a line without a step has a row: not if it only holds results, or was written again."""
    record = entry.record
    if isinstance(record, User):
        has_result = any(isinstance(block, ToolResult) for block in record.message.blocks)
        return entry.offset not in story.repeated and not has_result
    return not isinstance(record, Assistant)


def _output_tokens(entries: Iterable[Entry]) -> tuple[dict[int, int], set[int]]:
    """Return the output tokens of each answer by the offset of its first line, and where the count is not final."""
    most: dict[str, int] = {}
    final: set[str] = set()
    first: dict[str, int] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Assistant) and record.message.usage is not None:
            id = record.message.id or f"line {entry.offset}"
            first.setdefault(id, entry.offset)
            # The lines of a streamed answer repeat its usage as far as it had come: only the largest is complete.
            most[id] = max(most.get(id, 0), record.message.usage.output_tokens)
            if record.message.stop_reason is not None:
                final.add(id)
    return {first[id]: count for id, count in most.items()}, {first[id] for id in most if id not in final}


# folds and brackets


def _fold_runs(rows: Sequence[TranscriptRow]) -> Iterator[TranscriptRow]:
    for kind, run in groupby(rows, key=_fold_kind):
        among = tuple(run)
        if kind and len(among) >= 3:
            yield _fold(among, kind)
        else:
            yield from among


def _fold_kind(row: TranscriptRow) -> str:
    """Return what a row may be folded as; nothing for one that must be seen."""
    if row.kind == "call":
        quiet = row.name in _READS and row.state == "done" and not row.pictures
        return "reads" if quiet else ""
    return f"{row.kind} {row.depth}" if row.kind in _FOLDED_KINDS and row.state == "done" else ""


def _fold(rows: tuple[TranscriptRow, ...], kind: str) -> TranscriptRow:
    first = rows[0]
    if kind == "reads":
        counts = Counter(_READS[row.name] for row in rows)
        name = " · ".join(amount(count, noun, _PLURALS.get(noun)) for noun, count in counts.items())
    else:
        name = f"{len(rows):,} × {first.name}"
    names = list(dict.fromkeys(row.target.rpartition("/")[2] for row in rows if row.target))
    return TranscriptRow(
        key=f"{first.key}-fold", kind="fold", depth=first.depth, sign="≡", name=name, target=", ".join(names)[:300],
        time=first.time, tokens=sum(row.tokens or 0 for row in rows) or None,
        size=sum(row.size or 0 for row in rows) or None, rows=rows,
    )  # fmt: skip


def _bracket(rows: Iterable[TranscriptRow], messages: dict[str, str]) -> Iterator[TranscriptRow]:
    """Mark the calls that were made together (rule 3), also those that are folded."""
    among = [replace(row, rows=tuple(_bracket(row.rows, messages))) if row.kind == "fold" else row for row in rows]
    groups = ["", *(messages.get(row.key, "") for row in among), ""]
    for before, group, after, row in zip(groups, groups[1:], groups[2:], among, strict=False):
        is_first, is_last = before != group, after != group
        if group and not (is_first and is_last):
            row = replace(row, bracket="first" if is_first else "last" if is_last else "middle")
        yield row
