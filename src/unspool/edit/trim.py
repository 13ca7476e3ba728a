"""A shorter context: a session and wishes in, steps out.

| wish               | what goes                                                                          |
|--------------------|------------------------------------------------------------------------------------|
| `tools`            | calls with their results; all calls of an answer or none                           |
| `results`          | what results say, by age and size; a stub stays (`stubs.py`)                       |
| `superseded_reads` | the same for files that were read again or changed later                           |
| `thinking`         | thinking, whole blocks; not since the last prompt, nor in an open tool loop        |
| `images`           | pictures and documents; a stub stays                                               |
| `turns`            | turns with all they hold (`cuts.py`)                                               |
| `keep_last`        | all turns of the context but so many (`cuts.py`)                                   |
| `outside`          | lines that are not part of the context (`cuts.py`)                                 |
| `to`               | as much of these as it takes, mildest first (`ladder.py`)                          |

Rules
  1. What the model has not answered yet stays as it is.
  2. Prompts and answers stay, word for word, unless turns are named.

[merged: cuts.py] Whole turns that go, and lines outside the context.

Rules
  1. A conversation is cut where a prompt begins, nowhere else: a turn goes with all its lines, calls with results.
  2. A compaction and its summary stay, and what it preserves; so does what the program itself keeps (modes, titles, …).
  3. Of notes that are written again and again, the last one counts; that one stays.

[merged: ladder.py] Rungs of a ladder: what is trimmed first, and what only if that is not enough.

Each rung holds all that the ones before it do. Nothing that a person or the model said goes before every result has;
turns go last, oldest first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from unspool.edit.draft import Draft, Swap
from unspool.edit.plan import Change
from unspool.edit.session_view import Call, Group, View, blocks_of, boundary, is_queued
from unspool.edit.stubs import Origin, is_stub, named, shortened, stub
from unspool.errors import Refused
from unspool.format.blocks import Document, Image, RedactedThinking, Text, Thinking, ToolReference
from unspool.format.entry import Entry
from unspool.format.envelope import Unknown
from unspool.format.json_edit import Path
from unspool.format.meta_records import (
    AgentColor,
    AgentName,
    AgentSetting,
    AiTitle,
    ApiRequest,
    ApiRequestBlob,
    ApiRequestShape,
    CostState,
    CustomTitle,
    FileHistoryDelta,
    FileHistorySnapshot,
    LastPrompt,
    Mode,
    PermissionMode,
    QueueOperation,
    Tag,
    TaskSummary,
    ToolsUsed,
)
from unspool.format.records import Assistant, Attachment, Progress, User
from unspool.graph.threads import is_boundary

_LAST_COUNTS = (
    CustomTitle, AiTitle, TaskSummary, Tag, AgentName, AgentColor, AgentSetting, Mode, PermissionMode, LastPrompt,
    CostState, ToolsUsed,
)  # fmt: skip
_REQUESTS = (ApiRequest, ApiRequestShape, ApiRequestBlob)


def remove_turns(draft: Draft, seen: View, wanted: range) -> None:
    """Note that turns go, by number."""
    if not wanted or wanted[0] > len(seen.turns) or wanted[-1] < 1:
        raise Refused(f"there are no such turns; the session has {len(seen.turns):,}")
    whole = [group for group in seen.groups if set(group.numbers) <= set(wanted)]
    if not whole:
        around = next(group.numbers for group in seen.groups if set(group.numbers) & set(wanted))
        raise Refused(
            "what was typed while a turn was under way cannot go without it",
            hint=f"the whole of it: `--range {around.start}..{around.stop - 1}`",
        )
    if all(group in whole for group in seen.thread_groups):
        raise Refused("nothing would be left of the conversation", hint="leave a turn of it")
    _remove_groups(draft, seen, whole)


def keep_last(draft: Draft, seen: View, count: int) -> None:
    """Note that all turns of the context go but the last; what a compaction preserved stays."""
    compaction = boundary(seen.lines)
    since = compaction.offset if compaction else 0
    groups = [group for group in seen.thread_groups if group.start >= since]
    _remove_groups(draft, seen, groups[: max(len(groups) - max(count, 1), 0)])


def remove_outside(draft: Draft, seen: View) -> None:
    """Note that lines outside the context go."""
    here = {entry.offset for entry in seen.lines}
    last = {type(entry.record): entry.offset for entry in seen.manuscript.entries}
    for entry in seen.manuscript.entries:
        record = entry.record
        if isinstance(record, Unknown):
            continue
        if record.uuid is not None:
            if entry.offset not in here or isinstance(record, Progress):
                draft.remove(entry, "line outside", _where(entry))
        elif isinstance(record, _LAST_COUNTS):
            if last[type(record)] != entry.offset:
                draft.remove(entry, "line outside", "a later one of its kind counts")
        elif isinstance(record, _REQUESTS):
            draft.remove(entry, "line outside", "a copy of what was sent")
        elif isinstance(record, FileHistorySnapshot | FileHistoryDelta):
            continue  # they go with what they belong to


def _where(entry: Entry) -> str:
    if isinstance(entry.record, Progress):
        return "what a tool was doing"
    if is_boundary(entry):
        return "an earlier compaction"
    return "a sub-agent's" if entry.record.is_sidechain else "before the last compaction, or on another branch"


def _remove_groups(draft: Draft, seen: View, groups: Sequence[Group]) -> None:
    kept = _preserved(seen)
    draft.counts["turn"] += len(groups)
    starts = [group.start for group in groups]
    for entry in seen.manuscript.entries:
        at = bisect_right(starts, entry.offset) - 1
        if at >= 0 and entry.offset < groups[at].end and _goes(entry, kept):
            draft.remove(entry, "line", f"turn {groups[at].numbers.start}", counted=False)
    for call in seen.calls:  # a result that came after the next prompt goes with its call, and the other way
        if call.result_entry is None:
            continue
        if call.entry.offset in draft.gone and call.result_entry.offset not in draft.gone:
            draft.remove_block(call.result_entry, call.result_index, "result", "its call goes")
        elif call.result_entry.offset in draft.gone and call.entry.offset not in draft.gone:
            draft.keep(call.result_entry)


def _goes(entry: Entry, kept: set[str]) -> bool:
    record = entry.record
    if isinstance(record, QueueOperation):
        return True
    if record.uuid is None or record.uuid in kept or isinstance(record, Unknown) or is_boundary(entry):
        return False
    return not (isinstance(record, User) and record.is_compact_summary)


def _preserved(seen: View) -> set[str]:
    """Return the lines that a compaction outside the turns preserves."""
    kept: set[str] = set()
    for entry in seen.manuscript.entries:
        metadata = getattr(entry.record, "compact_metadata", None)
        if metadata is not None and metadata.preserved_messages is not None:
            kept.update(metadata.preserved_messages.all_uuids or metadata.preserved_messages.uuids)
    return kept


class Trim(msgspec.Struct, frozen=True):
    """What is wished for."""

    tools: tuple[str, ...] | None = None
    """The names of tools; none: all of them. None: calls stay."""
    results: bool = False
    superseded_reads: bool = False
    thinking: bool = False
    images: bool = False
    turns: range | None = None
    keep_last: int | None = None
    outside: bool = False
    older_than: int = 0
    """Of results: only those after which came at least so many prompts."""
    calls_older_than: int = 0
    """The same for calls."""
    larger_than: int = 512
    """Of results: only those with more bytes than this."""


def trim(draft: Draft, seen: View, wish: Trim, origin: Origin) -> None:
    """Note what goes."""
    if wish.turns is not None:
        remove_turns(draft, seen, wish.turns)
    if wish.keep_last is not None:
        keep_last(draft, seen, wish.keep_last)
    if wish.tools is not None:
        _tools(draft, seen, wish)
    if wish.superseded_reads:
        _superseded(draft, seen, origin)
    if wish.results:
        _results(draft, seen, wish, origin)
    if wish.images:
        _images(draft, seen, origin)
    if wish.thinking:
        _thinking(draft, seen)
    if wish.outside:
        remove_outside(draft, seen)


def _tools(draft: Draft, seen: View, wish: Trim) -> None:
    answers: dict[str, list[Call]] = {}
    for call in seen.calls:
        answers.setdefault(call.answer, []).append(call)
    lines, beside, following = _by_answer(seen), _by_call(seen), _following(seen)
    for answer, calls in answers.items():
        if any(call.entry.offset >= seen.loop_from for call in calls) or any(call.result is None for call in calls):
            continue
        if wish.tools and not all(call.use.name in wish.tools for call in calls):
            continue
        if any(seen.age(call.entry) < wish.calls_older_than for call in calls):
            continue
        told = _told_after(calls, following)
        if any(isinstance(entry.record, Attachment) and is_queued(entry) for entry in told):
            continue  # somebody typed something meanwhile, and it hangs on the results
        for call in calls:
            _pair(draft, call, beside.get(call.use.id, ()))
        for entry in told:
            draft.remove(entry, "line", "a reminder beside results that go")
        _bare(draft, seen, lines.get(answer, []))


def _pair(draft: Draft, call: Call, beside: Iterable[Entry]) -> None:
    """A call goes with its result, and with what the program put into the conversation for it."""
    assert call.result_entry is not None
    draft.remove_block(call.entry, call.index, "tool call", named(call.use))
    draft.remove_block(call.result_entry, call.result_index, "result", f"of {named(call.use)}")
    for entry in beside:
        draft.remove(entry, "line", f"it came with {named(call.use)}")


def _following(seen: View) -> dict[int, list[Entry]]:
    """Return the attachments between each line with results and the next message: reminders beside those results."""
    found: dict[int, list[Entry]] = {}
    at: list[Entry] | None = None
    for entry in seen.lines:
        if isinstance(entry.record, Attachment):
            if at is not None:
                at.append(entry)
        elif isinstance(entry.record, User | Assistant):
            at = found.setdefault(entry.offset, []) if isinstance(entry.record, User) else None
    return found


def _told_after(calls: Iterable[Call], following: dict[int, list[Entry]]) -> list[Entry]:
    return [entry for call in calls if call.result_entry for entry in following.get(call.result_entry.offset, ())]


def _bare(draft: Draft, seen: View, lines: Iterable[Entry]) -> None:
    """Where an answer has no words left, its thinking goes as well; since the last prompt it stays."""
    left = [(entry, at, block) for entry in lines for at, block in enumerate(blocks_of(entry))]
    if any(isinstance(block, Text) for _, _, block in left):
        return
    for entry, at, block in left:
        if isinstance(block, Thinking | RedactedThinking) and entry.offset < min(seen.last_from, seen.loop_from):
            draft.remove_block(entry, at, "thinking", "the calls it led to go")


def _by_answer(seen: View) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in seen.lines:
        if isinstance(entry.record, Assistant) and entry.record.message.id:
            found.setdefault(entry.record.message.id, []).append(entry)
    return found


def _by_call(seen: View) -> dict[str, list[Entry]]:
    """Return what the program said in the user's name because of a call: the text of a skill."""
    found: dict[str, list[Entry]] = {}
    for entry in seen.lines:
        record = entry.record
        if isinstance(record, User) and record.source_tool_use_id and record.is_meta:
            found.setdefault(record.source_tool_use_id, []).append(entry)
    return found


def _results(draft: Draft, seen: View, wish: Trim, origin: Origin) -> None:
    for call in seen.calls:
        if call.result_entry is None or seen.age(call.result_entry) < wish.older_than:
            continue
        size = _size(call)
        if size > wish.larger_than:
            reason = f"more than {wish.older_than} turns old" if wish.older_than else "trimmed to save room"
            _shorten(draft, seen, call, reason, origin)


def _superseded(draft: Draft, seen: View, origin: Origin) -> None:
    later: dict[str, list[tuple[Path, str]]] = {}
    for call in reversed(seen.calls):
        given = call.use.input if isinstance(call.use.input, dict) else {}
        path = given.get("file_path") or given.get("notebook_path")
        if not isinstance(path, str) or call.result is None or call.result.is_error:
            continue
        part = (str(given.get("offset")), str(given.get("limit")), str(given.get("pages")))
        if call.use.name == "Read":
            after = later.get(path, [])
            why = next((why for other, why in after if other in (part, _WHOLE) or why == _CHANGED), None)
            if why is not None:
                _shorten(draft, seen, call, why, origin)
            later.setdefault(path, []).append((part, "the file was read again later"))
        elif call.use.name in _CHANGING:
            later.setdefault(path, []).append((_WHOLE, _CHANGED))


_WHOLE: Path = ("None", "None", "None")
_CHANGED = "the file was changed later"
_CHANGING = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})


def _shorten(draft: Draft, seen: View, call: Call, reason: str, origin: Origin) -> None:
    entry, result = call.result_entry, call.result
    assert entry is not None
    assert result is not None
    size = _size(call)
    way: Path = ("message", "content", call.result_index, "content")
    if entry.offset >= seen.open_from or is_stub(result) or not draft.is_untouched(entry) or not size:
        return
    words = stub(f"result of {named(call.use)}", size, reason, origin.way_back(seen.turn_of(entry)))
    if len(words.encode()) >= size or (not result.is_text and _loads_tools(call)):
        return
    change = Change(entry.offset, entry.record.uuid, call.result_index, "result", reason)
    draft.swap(entry, Swap(way, words, b'"content":', memoryview(result.encoded_content)), change)
    _shorten_structured(draft, entry)


def _shorten_structured(draft: Draft, entry: Entry) -> None:
    assert isinstance(entry.record, User)
    raw = entry.record.tool_use_result
    short = shortened(raw) if memoryview(raw).nbytes else None
    if short is not None:
        draft.swap(entry, Swap(("toolUseResult",), short, b'"toolUseResult":', memoryview(raw)))


def _size(call: Call) -> int:
    return memoryview(call.result.encoded_content).nbytes if call.result is not None else 0


def _loads_tools(call: Call) -> bool:
    assert call.result is not None
    return any(isinstance(block, ToolReference) for block in call.result.blocks)


def _images(draft: Draft, seen: View, origin: Origin) -> None:
    results = {(call.result_entry.offset, call.result_index): call for call in seen.calls if call.result_entry}
    for entry in seen.lines:
        if not isinstance(entry.record, User) or entry.offset >= seen.open_from:
            continue
        way_back = origin.way_back(seen.turn_of(entry))
        for at, block in enumerate(blocks_of(entry)):
            call = results.get((entry.offset, at))
            if isinstance(block, Image | Document):
                _hide(draft, entry, ("message", "content", at), block, way_back)
            elif call is not None and call.result is not None and not call.result.is_text:
                if ("message", "content", at, "content") in draft.values(entry):
                    continue  # a stub comes there anyway
                for inner, shown in enumerate(call.result.blocks):
                    if isinstance(shown, Image | Document):
                        _hide(draft, entry, ("message", "content", at, "content", inner), shown, way_back)


def _hide(draft: Draft, entry: Entry, path: Path, block: Image | Document, way_back: str) -> None:
    kind = "image" if isinstance(block, Image) else "document"
    size = len(block.source.data or "")
    words = stub(f"{kind} {block.source.media_type or ''}".strip(), size, "trimmed to save room", way_back)
    at = path[2]
    assert isinstance(at, int)
    draft.change(
        entry, path, {"type": "text", "text": words}, Change(entry.offset, entry.record.uuid, at, "image", kind)
    )
    _shorten_structured(draft, entry)


def _thinking(draft: Draft, seen: View) -> None:
    for entry in seen.lines:
        if not isinstance(entry.record, Assistant) or entry.offset >= min(seen.last_from, seen.loop_from):
            continue
        for at, block in enumerate(blocks_of(entry)):
            if isinstance(block, Thinking | RedactedThinking):
                draft.remove_block(entry, at, "thinking", "before the last prompt")


_AGES = (10, 3, 1, 0)


def rungs(seen: View) -> Iterator[Trim]:
    """Yield wishes, mildest first."""
    wish = Trim(superseded_reads=True)
    yield wish
    for age in _AGES:
        wish = replace(wish, results=True, older_than=age, larger_than=2048)
        yield wish
    wish = replace(wish, images=True, larger_than=512)
    yield wish
    wish = replace(wish, thinking=True)
    yield wish
    for age in _AGES:
        wish = replace(wish, tools=(), calls_older_than=age)
        yield wish
    left = len(seen.thread_groups)
    while left > 1:
        left = max(1, left * 2 // 3)
        yield replace(wish, keep_last=left)
