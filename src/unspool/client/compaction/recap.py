"""Builds the recap: the one message that replaces a conversation when it is summarized. Pure.

It has the same wording as the summaries of the editor (`edit/planning/compress.py`), made of messages instead of lines:

    the user's prompts, word for word             carried from recap to recap, never summarized
    what has happened                             by a model, or turn by turn without one
    files changed and read, open todos            carried, and brought up to date
    where it stopped                              the last words, and results that nobody has answered yet

The prompts are a numbered list:

    <prompts>
    1. Fix the parser.
       It fails on tabs.
    2-4, 7. Go on.
    </prompts>

Rules
  1. Whatever the size, there is a text that fits: each part has its share, and what is left out is said.
  2. A part cannot be taken for another part: tags stand on lines of their own, and are broken inside of one.
  3. Prompts are read back as they were written: lines after the first are indented, so that no prompt can end the list.
  4. Where there is no space for all prompts: first those with the same text share an item; then the longest are
     truncated in the middle; then the oldest of the middle are left out. The first ten, which say what it is about, and
     the last five stay nearly whole until the others cannot be shortened further.
  5. No prompt is dropped silently: one that is left out is named by its number.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from unspool.client.compaction.prune import MessageOutline, blocks, describe_media
from unspool.client.compaction.truncate import shorten_text
from unspool.edit.planning import SUMMARY_BEGINNING, list_open_todos, named_file
from unspool.format.tools import EDIT_TOOLS
from unspool.graph import INTERRUPT_PREFIX, is_typed_prompt

Json: TypeAlias = dict[str, Any]

_TAG = re.compile(r"<(/?)(prompts|history|files-changed|files-read|todos|now)>")
_BYTES_PER_TOKEN = 3.5
"""As in `prices/token_estimate.py`."""
_MAX_LAST_WORDS = 700
_MIN_SUMMARY = 200
"""Characters: a model that writes less has not said what happened."""
_MIN_TEXT = 80
_PROMPTS_SHARE, _PROMPTS_SHARE_OF_LARGE, _LISTS_SHARE, _UNANSWERED_SHARE = 0.6, 0.2, 0.15, 0.45
_ENOUGH_FOR_PROMPTS = 2000
"""Tokens: only in a large recap the prompts get more than this."""
_CONTINUE = (
    "Go on with the work right where it stopped, without asking the user anything. The last prompt is what to work on."
)
_WAIT = "All of this is known; wait for what the user says next."
_OPEN, _CLOSE = "<prompts>", "</prompts>"
_ITEM = re.compile(r"([\d, -]+)\. (.*)", re.DOTALL)
_INDENT = "   "
_LEFT_OUT = "[left out for want of room; the session's file has it]"
_FIRST, _LAST = 10, 5
_MIN_LENGTH, _MIN_LENGTH_OF_OUTER = 60, 300
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


class Recap(NamedTuple):
    """The content of a recap."""

    prompts: list[NumberedPrompt]
    history: str
    """What happened before the messages: from an earlier recap, or a summary of Claude Code."""
    changed: list[str]
    read: list[str]
    todos: list[str]
    turns: list[str]
    """What happened since, turn by turn, without a model."""
    last: str
    """The last words of the model."""
    now: list[str]
    """What the model has not answered yet: results, texts."""


def collect_recap(messages: Sequence[Json]) -> Recap:
    """Collect the content of a recap from a conversation."""
    outline = MessageOutline(messages)
    texts = [text for message in messages if message.get("role") == "user" for text in _texts(message)]
    earlier = next((text for text in texts if text.startswith(SUMMARY_BEGINNING)), "")
    changed, read = _touched_files(outline, _items(earlier, "files-changed"), _items(earlier, "files-read"))
    todos = list_open_todos([*outline.uses.values()])
    return Recap(
        prompts=collect_prompts(texts),
        history=_section(earlier, "history")
        if parse_prompts(earlier)
        else earlier.removeprefix(SUMMARY_BEGINNING).strip(),
        changed=changed,
        read=read,
        todos=_items(earlier, "todos") if todos is None else todos,
        turns=_describe_turns(outline),
        last=_last_words(messages),
        now=[*_unanswered(outline)],
    )


def format_recap(recap: Recap, words: str | None, tokens: int) -> str:
    """Return the recap as a text of about so many tokens at most; `words` is the summary of a model."""
    space = int(tokens * _BYTES_PER_TOKEN) - 600  # the text around the parts
    now = _join_within(recap.now, int(space * _UNANSWERED_SHARE))
    left = max(0, space - _size(now))
    most = min(left * _PROMPTS_SHARE, max(_ENOUGH_FOR_PROMPTS * _BYTES_PER_TOKEN, left * _PROMPTS_SHARE_OF_LARGE))
    prompts = format_prompts(
        fit_prompts(recap.prompts, lambda some: _size(format_prompts(some)) <= most)
    )  # fmt: skip
    lists = _lists(recap, int(left * _LISTS_SHARE))
    left -= _size(prompts) + _size(lists)
    last = "" if recap.now else _fit(recap.last, min(_MAX_LAST_WORDS, left // 4))
    history = _history(recap, words, left - _size(last))
    parts = [
        SUMMARY_BEGINNING,
        f"What the user asked for, word for word:\n{prompts}",
        f"What has happened:\n{_tagged('history', history)}" if history else "",
        lists,
        f"The last words of the assistant:\n{last}" if last else "",
        f"What has come last, and is not answered yet:\n{_tagged('now', now)}" if now else "",
        _CONTINUE if recap.now else _WAIT,
    ]
    return "\n\n".join(part for part in parts if part)


def render_messages(messages: Sequence[Json], longest: int) -> list[str]:
    """Return a conversation as pieces of text for a model to read, no text longer than `longest` characters."""
    outline = MessageOutline(messages)
    pieces: list[str] = []
    for message in messages:
        who = "The user" if message.get("role") == "user" else "The assistant"
        for text in _texts(message):
            if not text.startswith(SUMMARY_BEGINNING):
                pieces.append(f"{who}:\n{shorten_text(text.strip(), longest)}")
        for block in blocks(message):
            if block.get("type") == "tool_use":
                pieces.append(f"Call: {outline.describe_call(block.get('id'))}")
            elif block.get("type") == "tool_result":
                pieces.append(f"{_result_title(outline, block)}:\n{shorten_text(_result_text(block), longest)}")
    return pieces


def _history(recap: Recap, words: str | None, space: int) -> str:
    """Return what happened: the summary of a model; or, if that is too short, what was known and the turns since."""
    if words is not None and len(words) >= _MIN_SUMMARY:
        return _fit(words, space)
    turns: list[str] = [words] if words else []
    used = sum(map(_size, turns))
    for turn in reversed(recap.turns):
        if used + _size(turn) > space * 2 // 3:
            turns.append("Turns before that are left out." if turns else _fit(turn, space * 2 // 3))
            break
        turns.append(turn)
        used += _size(turn) + 2
    before = _fit(recap.history, space - sum(map(_size, turns)) - 100)
    return "\n\n".join(part for part in [before, *reversed(turns)] if part)


def _fit(text: str, space: int) -> str:
    """Return a text shortened to about some bytes; an empty one where there is no space."""
    size = _size(text)
    if size <= space:
        return text
    return shorten_text(text, space * len(text) // size) if space > _MIN_TEXT else ""


def _lists(recap: Recap, space: int) -> str:
    parts = [
        _listing("Files changed", "files-changed", recap.changed, space // 2),
        _listing("Files read", "files-read", recap.read, space // 4),
        _listing("Still to be done", "todos", recap.todos, space // 2),
    ]
    return "\n\n".join(part for part in parts if part)


def _listing(title: str, tag: str, items: Sequence[str], space: int) -> str:
    """Return a list; only its last items if there is no space for all."""
    kept: list[str] = []
    for item in reversed(items):
        line = f"- {' '.join(item.split())}"
        if kept and sum(map(_size, kept)) + _size(line) > space:
            title = f"{title} (the last {len(kept)} of {len(items)})"
            break
        kept.append(shorten_text(line, 400))
    lines = "\n".join(reversed(kept))
    return f"{title}:\n{_tagged(tag, lines)}" if kept else ""


def _touched_files(outline: MessageOutline, changed: list[str], read: list[str]) -> tuple[list[str], list[str]]:
    """Return the files that were changed, and those that were only read; the last one touched is last."""
    touched: dict[str, bool] = {**dict.fromkeys(read, False), **dict.fromkeys(changed, True)}
    for use in outline.succeeded:
        if path := named_file(use):
            touched[path] = touched.pop(path, False) or use.name in EDIT_TOOLS
    return [path for path, is_changed in touched.items() if is_changed], [
        path for path, is_changed in touched.items() if not is_changed
    ]


def _describe_turns(outline: MessageOutline) -> list[str]:
    """Return each turn in a few lines: what was asked, what was called, what was said in the end."""
    descriptions: list[str] = []
    ends = [*outline.starts[1:], len(outline.messages)]
    for start, end in zip(outline.starts, ends, strict=True):
        messages = outline.messages[start:end]
        prompts = [words for text in _texts(messages[0]) if (words := extract_typed_text(text))]
        calls = [_describe_call(outline, block) for message in messages for block in blocks(message)
                 if block.get("type") == "tool_use"]  # fmt: skip
        parts = [f"Asked: {shorten_text(' '.join(prompts[-1].split()), 120)}"] if prompts else []
        parts += [f"Called: {shorten_text('; '.join(calls), 600)}"] if calls else []
        parts += (
            [f"Said in the end: {shorten_text(words, _MAX_LAST_WORDS)}"] if (words := _last_words(messages)) else []
        )
        if len(parts) > bool(prompts):
            descriptions.append("\n".join(parts))
    return descriptions


def _describe_call(outline: MessageOutline, block: Json) -> str:
    failed = outline.results.get(str(block.get("id")), {}).get("is_error")
    return f"{outline.describe_call(block.get('id'))}{' (failed)' if failed else ''}"


def _last_words(messages: Sequence[Json]) -> str:
    for message in reversed(messages):
        if message.get("role") == "assistant" and (words := "\n".join(_texts(message)).strip()):
            return words
    return ""


def _unanswered(outline: MessageOutline) -> Iterable[str]:
    """Yield what the model has not answered: results by call, and texts beside them."""
    for message in outline.messages[outline.open_from :]:
        for text in _texts(message):
            if not text.startswith(SUMMARY_BEGINNING) and text.strip():
                yield f"The user:\n{text.strip()}" if extract_typed_text(text) else text.strip()
        for block in blocks(message):
            if block.get("type") == "tool_result":
                yield f"{_result_title(outline, block)}:\n{_result_text(block)}"
            elif block.get("type") in ("image", "document"):
                yield describe_media(block)


def _result_title(outline: MessageOutline, block: Json) -> str:
    return f"{'Error' if block.get('is_error') else 'Result'} of {outline.describe_call(block.get('tool_use_id'))}"


def _result_text(block: Json) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content.strip()
    inner = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(str(part["text"]) if "text" in part else describe_media(part) for part in inner).strip()


def _join_within(parts: Sequence[str], space: int) -> str:
    """Return texts one after another, the longest of them shortened so that all fit."""
    longest = max(map(len, parts), default=0)
    whole = "\n\n".join(parts)
    while _size(whole) > space and longest > _MIN_TEXT:
        longest = longest * 4 // 5
        whole = "\n\n".join(shorten_text(part, longest) for part in parts)
    return _fit(whole, space)


def _texts(message: Json) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [str(block.get("text") or "") for block in blocks(message) if block.get("type") == "text"]


def _tagged(tag: str, text: str) -> str:
    """Return a text between tags; tags inside of it are broken, so that they are none."""
    # A prompt or a result may hold these tags: the next compaction would read them as parts.
    harmless = _TAG.sub(r"<\1 \2>", text)
    return f"<{tag}>\n{harmless}\n</{tag}>"


def _section(text: str, tag: str) -> str:
    found = re.search(rf"\n<{tag}>\n(.*?)\n</{tag}>(?:\n|\Z)", text[text.find("\n</prompts>\n") :], re.DOTALL)
    return found[1] if found else ""


def _items(text: str, tag: str) -> list[str]:
    return [line.removeprefix("- ") for line in _section(text, tag).split("\n") if line.startswith("- ")]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


class NumberedPrompt(NamedTuple):
    """A prompt, and the numbers of the turns in which it was given."""

    numbers: tuple[int, ...]
    text: str


def collect_prompts(texts: Iterable[str]) -> list[NumberedPrompt]:
    """Return the prompts among texts in the user's name, in order, with those of an earlier recap."""
    prompts: list[NumberedPrompt] = []
    last = 0
    for text in texts:
        if text.startswith(SUMMARY_BEGINNING):
            prompts = parse_prompts(text)
            last = max((number for prompt in prompts for number in prompt.numbers), default=0)
        elif words := extract_typed_text(text):
            last += 1
            prompts.append(NumberedPrompt((last,), words))
    return prompts


def extract_typed_text(text: str) -> str:
    """Return what the user typed of a text in their name; an empty text if Claude Code wrote it."""
    words = text.strip()
    if words.startswith("<command-") and (command := _COMMAND.search(words)):
        arguments = _ARGUMENTS.search(words)
        return " ".join(filter(None, [command[1].strip(), arguments[1].strip() if arguments else ""]))
    if words.startswith((INTERRUPT_PREFIX, SUMMARY_BEGINNING)) or (
        not words.startswith("/") and not is_typed_prompt(words)
    ):
        return ""
    return words


def format_prompts(prompts: Sequence[NumberedPrompt]) -> str:
    """Return the prompts as a section of the recap."""
    lines = [f"{_format_numbers(prompt.numbers)}. {prompt.text}".replace("\n", f"\n{_INDENT}") for prompt in prompts]
    return "\n".join([_OPEN, *lines, _CLOSE])


def parse_prompts(text: str) -> list[NumberedPrompt]:
    """Return the prompts of the first such section in a text."""
    _, began, rest = text.partition(f"\n{_OPEN}\n")
    section, ended, _ = f"{rest}\n".partition(f"\n{_CLOSE}\n")
    if not began or not ended:
        return []
    found = [_ITEM.fullmatch(item) for item in re.split(r"\n(?! {3})", section)]
    return [NumberedPrompt(_parse_numbers(item[1]), item[2].replace(f"\n{_INDENT}", "\n")) for item in found if item]


def fit_prompts(
    prompts: Sequence[NumberedPrompt], fits: Callable[[Sequence[NumberedPrompt]], bool]
) -> list[NumberedPrompt]:
    """Return prompts that fit: whole, or shorter, or the middle ones as numbers only."""
    if fits(prompts):
        return [*prompts]
    prompts = _merge_equal(prompts)
    every, middle = range(len(prompts)), range(_FIRST, max(_FIRST, len(prompts) - _LAST))
    for indexes, shortest in ((middle, _MIN_LENGTH), (every, _MIN_LENGTH_OF_OUTER)):
        capped = _cap(prompts, indexes, shortest)
        if fits(capped):
            return _cap_longest(prompts, indexes, shortest, fits)
        prompts = capped
    if not fits(_leave_out(prompts, len(middle))):
        prompts = _leave_out(prompts, len(middle))
        return _cap_longest(prompts, range(len(prompts)), _MIN_LENGTH, fits)
    # As few of the middle ones as it takes, the oldest first.
    count = bisect_left(range(len(middle)), True, key=lambda count: fits(_leave_out(prompts, count)))
    return _leave_out(prompts, count)


def _cap_longest(
    prompts: Sequence[NumberedPrompt], indexes: range, shortest: int, fits: Callable[[Sequence[NumberedPrompt]], bool]
) -> list[NumberedPrompt]:
    """Return prompts with the longest of some shortened, as little as it takes, and not below `shortest` characters."""
    longer = range(shortest + 1, max(len(prompt.text) for prompt in prompts))
    more = bisect_left(longer, True, key=lambda length: not fits(_cap(prompts, indexes, length)))
    return _cap(prompts, indexes, shortest + more)


def _cap(prompts: Sequence[NumberedPrompt], indexes: range, characters: int) -> list[NumberedPrompt]:
    return [
        NumberedPrompt(prompt.numbers, shorten_text(prompt.text, characters)) if at in indexes else prompt
        for at, prompt in enumerate(prompts)
    ]


def _leave_out(prompts: Sequence[NumberedPrompt], count: int) -> list[NumberedPrompt]:
    """Return prompts with some of the middle ones left out."""
    gone = [
        NumberedPrompt(prompt.numbers, _LEFT_OUT) if _FIRST <= at < _FIRST + count else prompt
        for at, prompt in enumerate(prompts)
    ]
    return _merge_equal(gone)


def _merge_equal(prompts: Sequence[NumberedPrompt]) -> list[NumberedPrompt]:
    """Return prompts with equal ones as one item, in the place of the first."""
    numbers: dict[str, list[int]] = {}
    for prompt in prompts:
        numbers.setdefault(prompt.text, []).extend(prompt.numbers)
    return [NumberedPrompt(tuple(sorted(set(found))), text) for text, found in numbers.items()]


def _format_numbers(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `2-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _parse_numbers(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            begin = int(first)
            end = int(last) if last.isdecimal() else begin
            # A range in the file may be anybody's: no more than a million numbers are made of it.
            found.extend(range(begin, min(end, begin + 1_000_000) + 1))
    return tuple(found)
