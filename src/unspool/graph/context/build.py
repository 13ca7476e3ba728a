"""The messages the API would be sent if a session were resumed now, each block with the line it came from.

The judge is the program itself (2.1.325, newest when this was written): sessions of many versions were handed to its
`--resume` and what it sent was compared. What it does, in this order:

  1. The thread from the leaf back to the root or the last compaction boundary, with the parallel results and the blocks
     of a message that lie beside the way, in file order. After a boundary: the summary, then the messages preserved.
  2. Lines of the program's own stay out: API errors it wrote itself, progress, system lines but local commands.
  3. Attachments are worded for the model (`wording.py`) and move up to the answer or tool result before them. A model
     that takes system messages in between gets most of them as one such message after the user's.
  4. What one side says in a row is one message: texts joined by a line end, tool results first; reminders beside a tool
     result become part of it. The blocks of an answer are joined by `message.id`.
  5. A call whose result was never written goes, but at the end of the session it gets a result that says so; a session
     that ends with the user gets the answer `No response requested.`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unspool.format.attachments import MaxTurnsReached, QueuedCommand
from unspool.format.blocks import (
    AnyBlock,
    Message,
    Other,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    as_blocks,
)
from unspool.format.entry import Entry
from unspool.format.records import Assistant, Attachment, System, User
from unspool.graph.context import attachment_text, model_rules
from unspool.graph.context.blocks import ContextBlock, as_json, of_line, with_text, words
from unspool.graph.context.pairing import (
    THINKING,
    ContextMessage,
    Draft,
    attach,
    ids,
    instruct,
    joined,
    paired,
    say,
    says_something,
)
from unspool.graph.threads import thread_lines
from unspool.graph.turns import first_text

NO_ANSWER = "No response requested."


def context(entries: Sequence[Entry], leaf: str | None = None, model: str | None = None) -> list[ContextMessage]:
    """Return the messages of a conversation from its start, or its last compaction, to a leaf.

    Without a model, as the program goes on by itself; with one, as it is sent to that.
    """
    return context_of(thread_lines(entries, leaf), model)


def context_of(lines: list[Entry], asked: str | None = None) -> list[ContextMessage]:
    """Return the same from the lines of a thread."""
    model = model_rules.resumed(last_model(lines)) if asked is None else model_rules.family(asked)
    said, commands_after = _split(_without_open_calls(lines))
    drafts: list[Draft] = []
    known: dict[str, Draft] = {}
    for line in _ordered(said, model_rules.takes_system_turns(model)):
        _add(drafts, known, line, model)
    drafts = paired(joined([draft for draft in drafts if draft.role != "assistant" or says_something(draft)]))
    waits = _waits_for_answer(said) or bool(drafts and ids(drafts[-1], "tool_result"))
    if drafts and drafts[-1].role != "assistant" and waits and not _ran_out_of_turns(said):
        drafts.append(Draft("assistant", [words(NO_ANSWER)]))
    for line in commands_after:
        _add(drafts, known, line, model)
    return [ContextMessage(draft.role, tuple(_calls_last(draft.blocks))) for draft in drafts]


def _calls_last(blocks: list[ContextBlock]) -> list[ContextBlock]:
    """Put the calls of an answer after its words."""
    if len(blocks) == 1:
        return blocks
    return sorted(blocks, key=lambda block: block.kind == "tool_use")


def _without_open_calls(lines: list[Entry]) -> list[Entry]:
    """Leave out lines whose calls were never answered, but those of the last answer: it may have ended there."""
    given: set[str] = set()
    calls: dict[int, list[str]] = {}
    last: Assistant | None = None
    for place, line in enumerate(lines):
        record = line.record
        if isinstance(record, Assistant):
            last = record
            if made := [block.id for block in _blocks(line) if isinstance(block, ToolUse)]:
                calls[place] = made
        elif isinstance(record, User):
            given.update(block.tool_use_id for block in _blocks(line) if isinstance(block, ToolResult))
    is_open = {
        place
        for place, made in calls.items()
        if given.isdisjoint(made)
        and lines[place].record is not last
        and _id(lines[place]) != (last and last.message.id)
    }
    return [line for place, line in enumerate(lines) if place not in is_open] if is_open else lines


def _blocks(line: Entry) -> tuple[AnyBlock, ...]:
    """Return the blocks of a message; a plain string has none that matter here."""
    record = line.record
    if isinstance(record, User | Assistant) and not isinstance(record.message.content, str):
        return record.message.content
    return ()


def _id(line: Entry) -> str | None:
    return line.record.message.id if isinstance(line.record, Assistant) else None


def _split(lines: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Return the lines without the local commands after the last message, and those."""
    last = max((at for at, line in enumerate(lines) if isinstance(line.record, User | Assistant)), default=-1)
    after = [line for line in lines[last + 1 :] if isinstance(line.record, System)]
    before = [line for line in lines[last + 1 :] if not isinstance(line.record, System)]
    return [*lines[: last + 1], *before], after


def _waits_for_answer(lines: Sequence[Entry]) -> bool:
    """Tell whether the last thing said is the user's. A local command under its caveat is not, nor a failed answer."""
    texts: list[str] = []
    for line in reversed(lines):
        match line.record:
            case User(message=message):
                texts.append(first_text(message.blocks))
            case Assistant(message=message) if _answers(message):
                break
            case _:
                pass
    ran_command = any(text.startswith("<local-command-caveat>") for text in texts)
    return bool(texts) and not (ran_command and texts[0].startswith(("<local-command-", "<command-name>")))


def _ran_out_of_turns(lines: Sequence[Entry]) -> bool:
    """Tell whether the program stopped at a limit of turns and left the end open."""
    data = lines[-1].record.attachment if lines and isinstance(lines[-1].record, Attachment) else None
    return isinstance(data, MaxTurnsReached) and data.exit_committed is False


def _answers(message: Message) -> bool:
    return any(not isinstance(block, Thinking | RedactedThinking) for block in message.blocks)


def last_model(lines: Iterable[Entry]) -> str | None:
    """Return who answered last."""
    last = None
    for line in lines:
        match line.record:
            case Assistant(message=message) if message.model and message.model != "<synthetic>":
                last = message.model
            case _:
                pass
    return last


def _ordered(lines: Sequence[Entry], system_turns: bool) -> list[Entry]:
    """Move reminders in the user's name up to the answer or result before them."""
    ordered: list[Entry] = []
    waiting: list[Entry] = []
    for line in reversed(lines):
        if isinstance(line.record, Attachment) and not (system_turns and attachment_text.is_system(line.record)):
            waiting.append(line)
            continue
        if waiting and (isinstance(line.record, Assistant) or _has_result(line)):
            ordered += waiting
            waiting = []
        ordered.append(line)
    return [*reversed(ordered + waiting)]


def _has_result(line: Entry) -> bool:
    return isinstance(line.record, User) and any(isinstance(block, ToolResult) for block in _blocks(line))


def _add(drafts: list[Draft], known: dict[str, Draft], line: Entry, model: str) -> None:
    if type(line.record) is Assistant:  # most lines are: the patterns below are tried one after the other
        if not (line.record.is_api_error_message and line.record.message.model == "<synthetic>"):
            _answer(drafts, known, line, model)
        return
    match line.record:
        case Attachment() as record:
            told = attachment_text.words(record)
            if told and model_rules.takes_system_turns(model) and attachment_text.is_system(record):
                instruct(
                    drafts, "\n".join(told if model_rules.keeps_tags(model) else map(attachment_text.bare, told)), line
                )
            elif told:
                told_blocks = [*(words(text, line) for text in told), *_pictures(record, line)]
                attach(
                    drafts, told_blocks, seam=len(record.rendered) > 1, fold=not model_rules.takes_system_turns(model)
                )
        case System(subtype="local_command", content=content) if content:
            say(drafts, "user", [words(content, line)])
        case User() as record:
            say(drafts, "user", _noted(record, of_line(line)))
        case _:
            pass


def _pictures(record: Attachment, line: Entry) -> list[ContextBlock]:
    """Return what a prompt taken in meanwhile holds besides words."""
    data = record.attachment
    blocks = as_blocks(data.prompt) if isinstance(data, QueuedCommand) else ()
    plain = [block for block in blocks if not isinstance(block, Text | Other)]
    return [ContextBlock(str(type(b).__struct_config__.tag), line, made=as_json(b)) for b in plain]


def _noted(record: User, blocks: list[ContextBlock]) -> list[ContextBlock]:
    """Word a notification as what it is: nobody typed it."""
    if record.origin is None or record.origin.kind != "task-notification":
        return blocks
    return [with_text(b, attachment_text.notification(b.text)) if b.text is not None else b for b in blocks]


def _answer(drafts: list[Draft], known: dict[str, Draft], line: Entry, model: str) -> None:
    """Add blocks of an answer to those of the same message, past the results of its own calls."""
    record = line.record
    assert isinstance(record, Assistant)
    foreign = record.message.model is None or model_rules.family(record.message.model) != model
    blocks = [block for block in of_line(line) if not (foreign and block.kind in THINKING)]
    if not blocks:
        return
    id = record.message.id
    begun = known.get(id) if id is not None else None
    if begun is not None and _goes_on(drafts, begun):
        begun.blocks += blocks
        return
    drafts.append(Draft("assistant", blocks, id))
    if id is not None:
        known[id] = drafts[-1]


def _goes_on(drafts: list[Draft], begun: Draft) -> bool:
    """Tell whether nothing but answers and results came since an answer began."""
    for draft in reversed(drafts):
        if draft is begun:
            return True
        if draft.role != "assistant" and any(block.kind != "tool_result" for block in draft.blocks):
            return False
    return False
