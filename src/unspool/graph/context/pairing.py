"""Messages in the making: what is said in a row joined, calls paired with their results.

The rules are those of `context.py`, 4 and 5.
"""

from __future__ import annotations

import msgspec

from unspool.format.blocks import ToolReference, ToolResult
from unspool.format.entry import Entry
from unspool.format.records import User
from unspool.graph.context.blocks import ContextBlock, Json, with_text, words

NO_CONTENT = "(no content)"
LOADED = "Tool loaded."
ORPHANED = "[Orphaned tool result removed due to conversation resume]"
INTERRUPTED = (
    "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. "
    "Check whether it took effect before relying on it or running it again.]"
)
THINKING = frozenset({"thinking", "redacted_thinking"})


class ContextMessage(msgspec.Struct, frozen=True):
    """A message as it is sent."""

    role: str
    blocks: tuple[ContextBlock, ...]

    @property
    def json(self) -> Json:
        """The message as the API takes it."""
        return {"role": self.role, "content": [block.value for block in self.blocks]}


class Draft(msgspec.Struct):
    """A message in the making."""

    role: str
    blocks: list[ContextBlock]
    id: str | None = None
    apart: bool = False
    """The first of several reminders after an answer: the program sends it as a message of its own."""


def says_something(draft: Draft) -> bool:
    """Thinking alone is no answer, nor what 2.0.76 wrote for a blank one."""
    return any(block.kind not in THINKING and block.text != NO_CONTENT for block in draft.blocks)


def joined(drafts: list[Draft]) -> list[Draft]:
    """Join what the user said between two answers; the system messages among it become one after it."""
    done: list[Draft] = []
    held: list[Draft] = []
    for draft in drafts:
        if draft.role == "system":
            held.append(draft)
        elif draft.role == "assistant":
            done += [*_one_system(held), draft]
            held = []
        elif done and done[-1].role == "user" and not draft.apart:
            _seam(done[-1], draft.blocks)
            done[-1].blocks += draft.blocks
        else:
            done.append(draft)
    return done + _one_system(held)


def _one_system(drafts: list[Draft]) -> list[Draft]:
    texts = [block.text or "" for draft in drafts for block in draft.blocks]
    return [Draft("system", [with_text(drafts[0].blocks[0], "\n\n".join(texts))])] if drafts else []


def say(drafts: list[Draft], role: str, blocks: list[ContextBlock]) -> None:
    """Add to what the same side just said, or begin a message."""
    if not blocks:
        return
    if drafts and drafts[-1].role == role:
        _seam(drafts[-1], blocks)
        drafts[-1].blocks += blocks
    else:
        drafts.append(Draft(role, blocks))


def _seam(draft: Draft, following: list[ContextBlock]) -> None:
    """Put a line end between two texts that meet."""
    last = draft.blocks[-1]
    if last.text is not None and following[0].kind == "text":
        draft.blocks[-1] = with_text(last, last.text + "\n")


def instruct(drafts: list[Draft], text: str, line: Entry) -> None:
    """Add a system message."""
    drafts.append(Draft("system", [words(text, line)]))


def attach(drafts: list[Draft], blocks: list[ContextBlock], *, seam: bool, fold: bool) -> None:
    """Add a reminder to what the user just said; with `fold`, beside a tool result it becomes part of that."""
    last = drafts[-1] if drafts else None
    texts = [block.text for block in blocks if block.text is not None]
    if last is None or last.role != "user":
        drafts += [Draft("user", [block], apart=number > 0) for number, block in enumerate(blocks)]
    elif fold and last.blocks[-1].kind == "tool_result" and len(texts) == len(blocks):
        result = last.blocks[-1]
        last.blocks[-1] = msgspec.structs.replace(result, made=_with_texts(result.value, texts))
    else:
        for block in blocks:
            if seam:  # several texts of one attachment, as the line itself words them
                _seam(last, [block])
            last.blocks.append(block)


def paired(drafts: list[Draft]) -> list[Draft]:
    """Give every call its result in the next message, and no result without a call."""
    done: list[Draft] = []
    for number, draft in enumerate(drafts):
        calls = ids(done[-1], "tool_use") if done and done[-1].role == "assistant" else []
        if draft.role == "user":
            draft.blocks = _results_first(draft.blocks, calls) or [_stand_in(first=not done)]
            if _loads_tools(draft):
                draft.blocks.append(words(LOADED))
        done.append(draft)
        lacking = [call for call in ids(draft, "tool_use") if call not in _given(drafts, number)]
        if not lacking:
            continue
        if any(later.role == "assistant" for later in drafts[number + 1 :]):
            draft.blocks = [block for block in draft.blocks if block.kind != "tool_use" or block.id not in lacking]
            if not says_something(draft):
                done.pop()
        else:
            _interrupt(drafts, number, lacking)
    return done


def _loads_tools(draft: Draft) -> bool:
    """Tell whether a message holds nothing but results, one of which makes deferred tools known."""
    return all(block.kind == "tool_result" for block in draft.blocks) and any(map(_names_tools, draft.blocks))


def _names_tools(block: ContextBlock) -> bool:
    record = block.entry.record if block.entry else None
    if not isinstance(record, User):
        return False
    results = [one for one in record.message.blocks if isinstance(one, ToolResult) and one.tool_use_id == block.id]
    return any(isinstance(inner, ToolReference) for one in results if not one.is_text for inner in one.blocks)


def _stand_in(*, first: bool) -> ContextBlock:
    """What is said where only results without a call were."""
    return words(ORPHANED if first else NO_CONTENT)


def _given(drafts: list[Draft], number: int) -> list[str]:
    """Return the calls that the message after this one answers."""
    following = drafts[number + 1] if number + 1 < len(drafts) else None
    return ids(following, "tool_result") if following and following.role == "user" else []


def _interrupt(drafts: list[Draft], number: int, calls: list[str]) -> None:
    """Answer calls that the session's end left open."""
    results = [ContextBlock("tool_result", id=call, made=_interrupted(call)) for call in calls]
    if number + 1 < len(drafts) and drafts[number + 1].role == "user":
        blocks = drafts[number + 1].blocks
        count = sum(block.kind == "tool_result" for block in blocks)
        blocks[count:count] = results
    else:
        drafts.insert(number + 1, Draft("user", results))


def _results_first(blocks: list[ContextBlock], calls: list[str]) -> list[ContextBlock]:
    results: dict[str, ContextBlock] = {}
    rest = []
    for block in blocks:
        if block.kind != "tool_result":
            rest.append(block)
        elif block.id in calls:
            results.setdefault(block.id or "", block)
    return [*results.values(), *rest]


def _with_texts(result: Json, texts: list[str]) -> Json:
    content = result.get("content")
    if content is None or isinstance(content, str):
        pieces = [(content or "").strip(), *(text.strip() for text in texts)]
        return {**result, "content": "\n\n".join(piece for piece in pieces if piece)}
    return {**result, "content": [*content, *({"type": "text", "text": text.strip()} for text in texts)]}


def _interrupted(call: str) -> Json:
    return {"type": "tool_result", "content": INTERRUPTED, "is_error": True, "tool_use_id": call}


def ids(draft: Draft, kind: str) -> list[str]:
    """Return the ids of the calls made or answered in a message."""
    return [block.id for block in draft.blocks if block.kind == kind and block.id is not None]
