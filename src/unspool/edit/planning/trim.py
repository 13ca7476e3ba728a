"""Plans a trim: records in a draft what is taken out of a session's context.

| option             | what is removed                                                                    |
|--------------------|------------------------------------------------------------------------------------|
| `tools`            | calls with their results; all calls of a message or none                           |
| `results`          | the content of results, by age and size; a stub stays (`shrink.py`)                |
| `superseded_reads` | the same for files that were read again or changed later                           |
| `thinking`         | thinking, whole blocks; not since the last prompt, nor in an open tool loop        |
| `images`           | images and documents; a stub stays                                                 |
| `turns`            | turns with all their lines                                                         |
| `keep_last`        | all turns of the context but the last so many                                      |
| `outside`          | lines that are not part of the context                                             |

`trim_steps` lists trims from the mildest to the strongest, for `--to`: each includes all that the ones before it do.
No text of a person or of the model is removed before every result is; turns are removed last, oldest first.

Rules
  1. What the model has not answered yet stays as it is.
  2. Prompts and answers stay, word for word, unless turns are named.
  3. A conversation is cut where a prompt begins, nowhere else: a turn is removed with all its lines, calls with
     results.
  4. A compaction and its summary stay, and what it preserves; so does what Claude Code keeps for itself (modes,
     titles, …).
  5. Of notes that are written again and again, the last one counts; that one stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from unspool.display import amount
from unspool.edit.planning.draft import EditDraft, preserved_lines
from unspool.edit.planning.plan import Trim
from unspool.edit.planning.session_view import SessionView, TurnGroup, has_succeeded, is_queued_prompt
from unspool.edit.planning.shrink import (
    describe_call,
    find_superseded_reads,
    format_media_stub,
    format_stub,
    is_stub,
    restore_hint,
    shorten_structured_result,
)
from unspool.errors import Refused, turn_not_found
from unspool.format import (
    Assistant,
    Attachment,
    Document,
    Entry,
    Image,
    JsonPath,
    Progress,
    RedactedThinking,
    Text,
    Thinking,
    ToolReference,
    Unknown,
    User,
    encode_json,
)
from unspool.format import meta_records as meta
from unspool.graph import ToolCall, is_boundary

_LAST_COUNTS = (
    meta.CustomTitle, meta.AiTitle, meta.TaskSummary, meta.Tag, meta.AgentName, meta.AgentColor, meta.AgentSetting,
    meta.Mode, meta.PermissionMode, meta.LastPrompt, meta.CostState, meta.ToolsUsed,
)  # fmt: skip
_REQUESTS = (meta.ApiRequest, meta.ApiRequestShape, meta.ApiRequestBlob)
_AGES = (10, 3, 1, 0)


def plan_trim(draft: EditDraft, view: SessionView, options: Trim) -> None:
    """Record what a trim removes."""
    # Whole turns and calls first: what is already removed is not shortened, and its stub not counted.
    if options.turns is not None:
        _remove_turns(draft, view, options.turns)
    if options.keep_last is not None:
        _keep_last(draft, view, options.keep_last)
    if options.tools is not None:
        _remove_calls(draft, view, options)
    if options.superseded_reads:
        _shorten_superseded_reads(draft, view)
    if options.results:
        _shorten_results(draft, view, options)
    if options.images:
        _replace_images(draft, view)
    if options.thinking:
        _remove_thinking(draft, view)
    if options.outside:
        _remove_outside(draft, view)


def trim_steps(view: SessionView) -> Iterator[Trim]:
    """Yield trims, mildest first."""
    step = Trim(superseded_reads=True)
    yield step
    for age in _AGES:
        step = replace(step, results=True, older_than=age, larger_than=2048)
        yield step
    step = replace(step, images=True, larger_than=512)
    yield step
    step = replace(step, thinking=True)
    yield step
    for age in _AGES:
        step = replace(step, tools=(), calls_older_than=age)
        yield step
    left = len(view.thread_groups)
    while left > 1:
        left = max(1, left * 2 // 3)
        yield replace(step, keep_last=left)


def _remove_turns(draft: EditDraft, view: SessionView, numbers: range) -> None:
    if not numbers or numbers[0] > len(view.turns) or numbers[-1] < 1:
        raise turn_not_found(str(numbers.start), amount(len(view.turns), "turn"))
    groups = [group for group in view.groups if set(group.numbers) <= set(numbers)]
    if not groups:
        partly = next(group.numbers for group in view.groups if set(group.numbers) & set(numbers))
        raise Refused(
            "a prompt typed during a turn cannot be removed without that turn",
            hint=f"remove both with `--range {partly.start}..{partly.stop - 1}`",
        )
    if all(group in groups for group in view.thread_groups):
        raise Refused("the edit would remove the whole conversation", hint="keep at least one turn")
    _remove_groups(draft, view, groups)


def _keep_last(draft: EditDraft, view: SessionView, count: int) -> None:
    """Remove all turns of the context but the last; what a compaction preserved stays."""
    since = next((entry.offset for entry in view.lines if is_boundary(entry)), 0)
    groups = [group for group in view.thread_groups if group.start >= since]
    _remove_groups(draft, view, groups[: max(len(groups) - max(count, 1), 0)])


def _remove_groups(draft: EditDraft, view: SessionView, groups: Sequence[TurnGroup]) -> None:
    preserved = preserved_lines(view.text)
    draft.counts["turn"] += len(groups)
    starts = [group.start for group in groups]
    for entry in view.text.entries:
        at = bisect_right(starts, entry.offset) - 1
        if at >= 0 and entry.offset < groups[at].end and _belongs_to_turn(entry, preserved):
            draft.remove_line(entry, "line", f"turn {groups[at].numbers.start}", counted=False)
    for call in view.calls:  # a result that came after the next prompt goes with its call, and the other way round
        if call.result_entry is None:
            continue
        if not draft.keeps(call.use_entry) and draft.keeps(call.result_entry):
            draft.remove_block(call.result_entry, call.result_index, "result", "its call is removed")
        elif not draft.keeps(call.result_entry) and draft.keeps(call.use_entry):
            draft.keep_line(call.result_entry)


def _belongs_to_turn(entry: Entry, preserved: set[str]) -> bool:
    record = entry.record
    if isinstance(record, meta.QueueOperation):
        return True
    if record.uuid is None or record.uuid in preserved or isinstance(record, Unknown) or is_boundary(entry):
        return False
    return not (isinstance(record, User) and record.is_compact_summary)


def _remove_outside(draft: EditDraft, view: SessionView) -> None:
    """Remove lines outside the context. File history is removed with the prompts that it belongs to."""
    in_context = {entry.offset for entry in view.lines}
    last = {type(entry.record): entry.offset for entry in view.text.entries}
    for entry in view.text.entries:
        record = entry.record
        if isinstance(record, Unknown):
            continue  # nobody knows what a newer Claude Code reads from it
        if record.uuid is not None:
            if entry.offset not in in_context or isinstance(record, Progress):
                draft.remove_line(entry, "line outside", _describe_outside(entry))
        elif isinstance(record, _LAST_COUNTS):
            if last[type(record)] != entry.offset:
                draft.remove_line(entry, "line outside", "replaced by a later line of the same kind")
        elif isinstance(record, _REQUESTS):
            draft.remove_line(entry, "line outside", "copy of a sent line")


def _describe_outside(entry: Entry) -> str:
    if isinstance(entry.record, Progress):
        return "tool progress"
    if is_boundary(entry):
        return "an earlier compaction"
    return "a sub-agent's" if entry.record.is_sidechain else "before the last compaction or on another branch"


def _remove_calls(draft: EditDraft, view: SessionView, options: Trim) -> None:
    by_message: dict[str, list[ToolCall]] = {}
    for call in view.calls:
        entry = call.use_entry
        id = entry.record.message.id if isinstance(entry.record, Assistant) else None
        by_message.setdefault(id or entry.record.uuid or f"line {entry.offset}", []).append(call)
    lines: dict[str, list[Entry]] = {}
    skills: dict[str, list[Entry]] = {}
    for entry in view.lines:
        record = entry.record
        if isinstance(record, Assistant) and record.message.id:
            lines.setdefault(record.message.id, []).append(entry)
        elif isinstance(record, User) and record.source_tool_use_id and record.is_meta:
            # Claude Code writes the text of a skill in the user's name, because of a call.
            skills.setdefault(record.source_tool_use_id, []).append(entry)
    reminders = _find_reminders(view)
    for message_id, calls in by_message.items():
        # All calls of a message or none: the API wants the results of all of them in one message.
        if any(call.use_entry.offset >= view.open_loop_from or call.result_entry is None for call in calls):
            continue
        if options.tools and not all(call.use.name in options.tools for call in calls):
            continue
        if any(view.count_prompts_after(call.use_entry) < options.calls_older_than for call in calls):
            continue
        beside = [line for call in calls if call.result_entry for line in reminders.get(call.result_entry.offset, ())]
        if any(is_queued_prompt(entry) for entry in beside):
            continue  # a person typed something meanwhile, and it hangs on the results
        for call in calls:
            _remove_call(draft, call, skills.get(call.use.id, ()))
        for entry in beside:
            draft.remove_line(entry, "line", "reminder next to removed results")
        _remove_bare_thinking(draft, view, lines.get(message_id, []))


def _remove_call(draft: EditDraft, call: ToolCall, beside: Iterable[Entry]) -> None:
    """Remove a call with its result, and with what Claude Code put into the conversation for it."""
    assert call.result_entry is not None
    name = describe_call(call.use)
    draft.remove_block(call.use_entry, call.use_index, "tool call", name)
    draft.remove_block(call.result_entry, call.result_index, "result", f"of {name}")
    for entry in beside:
        draft.remove_line(entry, "line", f"it belongs to {name}")


def _find_reminders(view: SessionView) -> dict[int, list[Entry]]:
    """Return the attachments between each line with results and the next message, by the offset of that line."""
    reminders: dict[int, list[Entry]] = {}
    current: list[Entry] | None = None
    for entry in view.lines:
        if isinstance(entry.record, Attachment):
            if current is not None:
                current.append(entry)
        elif isinstance(entry.record, User | Assistant):
            current = reminders.setdefault(entry.offset, []) if isinstance(entry.record, User) else None
    return reminders


def _remove_bare_thinking(draft: EditDraft, view: SessionView, lines: Iterable[Entry]) -> None:
    """Remove the thinking of a message without text; since the last prompt it stays."""
    blocks = [(entry, at, block) for entry in lines for at, block in enumerate(entry.content_blocks)]
    if any(isinstance(block, Text) for _, _, block in blocks):
        return
    for entry, at, block in blocks:
        if isinstance(block, Thinking | RedactedThinking) and _may_lose_thinking(view, entry):
            draft.remove_block(entry, at, "thinking", "its calls are removed")


def _may_lose_thinking(view: SessionView, entry: Entry) -> bool:
    return entry.offset < min(view.last_group_from, view.open_loop_from)


def _remove_thinking(draft: EditDraft, view: SessionView) -> None:
    for entry in view.lines:
        if isinstance(entry.record, Assistant) and _may_lose_thinking(view, entry):
            for at, block in enumerate(entry.content_blocks):
                if isinstance(block, Thinking | RedactedThinking):
                    draft.remove_block(entry, at, "thinking", "before the last prompt")


def _shorten_results(draft: EditDraft, view: SessionView, options: Trim) -> None:
    reason = f"more than {options.older_than} turns old" if options.older_than else "trimmed to save room"
    for call in view.calls:
        if call.result_entry is None or view.count_prompts_after(call.result_entry) < options.older_than:
            continue
        if _result_size(call) > options.larger_than:
            _shorten_result(draft, view, call, reason)


def _shorten_superseded_reads(draft: EditDraft, view: SessionView) -> None:
    succeeded = {call.id: call for call in view.calls if has_succeeded(call)}
    for id, reason in find_superseded_reads([call.use for call in succeeded.values()]).items():
        _shorten_result(draft, view, succeeded[id], reason)


def _shorten_result(draft: EditDraft, view: SessionView, call: ToolCall, reason: str) -> None:
    entry, result = call.result_entry, call.result
    assert entry is not None
    assert result is not None
    size = _result_size(call)
    if entry.offset >= view.unanswered_from or is_stub(result) or not draft.is_untouched(entry) or not size:
        return
    hint = restore_hint(view.text.id, view.turn_number(entry), in_place=draft.in_place)
    words = format_stub(f"result of {describe_call(call.use)}", size, reason, hint)
    if len(words.encode()) >= size:
        return
    if not result.is_text and any(isinstance(block, ToolReference) for block in result.blocks):
        return  # it loads tools: without it the model could not call them any more
    path: JsonPath = ("message", "content", call.result_index, "content")
    draft.report(entry, call.result_index, "result", reason)
    draft.replace_value(entry, path, words, memoryview(result.encoded_content))
    draft.shortened += size - len(encode_json(words))
    _shorten_structured(draft, entry)


def _shorten_structured(draft: EditDraft, entry: Entry) -> None:
    if not isinstance(entry.record, User):  # other vendors' servers put results into answers
        return
    raw = entry.record.tool_use_result
    short = shorten_structured_result(raw) if memoryview(raw).nbytes else None
    if short is not None:
        draft.replace_value(entry, ("toolUseResult",), short, memoryview(raw))


def _result_size(call: ToolCall) -> int:
    return memoryview(call.result.encoded_content).nbytes if call.result is not None else 0


def _replace_images(draft: EditDraft, view: SessionView) -> None:
    results = {(call.result_entry.offset, call.result_index): call.result for call in view.calls if call.result_entry}
    for entry in view.lines:
        if not isinstance(entry.record, User) or entry.offset >= view.unanswered_from:
            continue
        hint = restore_hint(view.text.id, view.turn_number(entry), in_place=draft.in_place)
        for at, block in enumerate(entry.content_blocks):
            path: JsonPath = ("message", "content", at)
            result = results.get((entry.offset, at))
            if isinstance(block, Image | Document):
                _replace_image(draft, entry, path, block, hint)
            elif result is not None and not result.is_text:
                if (*path, "content") in draft.changed_values(entry):
                    continue  # a stub stands in its place already
                for inner, shown in enumerate(result.blocks):
                    if isinstance(shown, Image | Document):
                        _replace_image(draft, entry, (*path, "content", inner), shown, hint)


def _replace_image(draft: EditDraft, entry: Entry, path: JsonPath, block: Image | Document, hint: str) -> None:
    kind = "image" if isinstance(block, Image) else "document"
    words = format_media_stub(kind, block.source.media_type, block.source.data, hint)
    at = path[2]
    assert isinstance(at, int)
    draft.report(entry, at, "image", kind)
    draft.change_value(entry, path, {"type": "text", "text": words})
    _shorten_structured(draft, entry)
