"""What a conversation came to, as one message that stands for all of it: messages in, a text of a given size out.

The same words as the editor's summaries (`edit/compress.py`), made of messages instead of lines. The parts:

    what the user asked for, word for word        carried from recap to recap, never summarized
    what has happened                             by a model, or turn by turn without one
    files changed and read, what is still to do   carried, and brought up to date
    where it stopped                              the last words, and results that nobody has answered yet

Rules
  1. Whatever the size, there is a text that fits: each part has its share, and what is left out is said.
  2. What a part says cannot be taken for another part: tags stand on lines of their own, and are broken inside of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from unspool.client.compaction import recap_prompts
from unspool.client.compaction.prune import Outline, blocks, hidden
from unspool.client.compaction.recap_prompts import Prompt
from unspool.client.compaction.truncate import shortened
from unspool.edit.compress import BEGINNING

Json: TypeAlias = dict[str, Any]

_CHANGING = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_TAG = re.compile(r"<(/?)(prompts|history|files-changed|files-read|todos|now)>")
_BYTES = 3.5
"""Of a token, as `prices/token_estimate.py` has it."""
_LAST_WORDS = 700
_TELLING = 200
"""Characters: a model that says less has not said what happened."""
_LEAST = 80
_PROMPTS, _PROMPTS_LARGE, _LISTS, _NOW = 0.6, 0.2, 0.15, 0.45
_ROOM_FOR_ALL_PROMPTS = 2000
_GO_ON = (
    "Go on with the work right where it stopped, without asking the user anything. The last prompt is what to work on."
)
_WAIT = "All of this is known; wait for what the user says next."


class Recap(NamedTuple):
    """What is to be told."""

    prompts: list[Prompt]
    history: str
    """What happened before the messages: an earlier recap's, or another program's summary."""
    changed: list[str]
    read: list[str]
    todos: list[str]
    turns: list[str]
    """What happened since, turn by turn, without a model."""
    last: str
    """The last words of the model."""
    now: list[str]
    """What has come and nobody has answered: results, words."""


def gathered(messages: Sequence[Json]) -> Recap:
    """Return what there is to tell of a conversation."""
    outline = Outline(messages)
    said = [text for message in messages if message.get("role") == "user" for text in _texts(message)]
    earlier = next((text for text in said if text.startswith(BEGINNING)), "")
    changed, read = _files(outline, _items(earlier, "files-changed"), _items(earlier, "files-read"))
    todos = _todos(outline)
    return Recap(
        prompts=recap_prompts.gathered(said),
        history=_section(earlier, "history")
        if recap_prompts.parsed(earlier)
        else earlier.removeprefix(BEGINNING).strip(),
        changed=changed,
        read=read,
        todos=_items(earlier, "todos") if todos is None else todos,
        turns=_turns(outline),
        last=_last_words(messages),
        now=[*_now(outline)],
    )


def written(recap: Recap, words: str | None, tokens: int) -> str:
    """Return the message, of about so many tokens at most; `words` are a model's."""
    room = int(tokens * _BYTES) - 600  # what stands around the parts
    now = _joined(recap.now, int(room * _NOW))
    left = max(0, room - _size(now))
    most = min(left * _PROMPTS, max(_ROOM_FOR_ALL_PROMPTS * _BYTES, left * _PROMPTS_LARGE))
    prompts = recap_prompts.written(
        recap_prompts.fitted(recap.prompts, lambda some: _size(recap_prompts.written(some)) <= most)
    )  # fmt: skip
    lists = _lists(recap, int(left * _LISTS))
    left -= _size(prompts) + _size(lists)
    last = "" if recap.now else _fitted(recap.last, min(_LAST_WORDS, left // 4))
    history = _history(recap, words, left - _size(last))
    parts = [
        BEGINNING,
        f"What the user asked for, word for word:\n{prompts}",
        f"What has happened:\n{_tagged('history', history)}" if history else "",
        lists,
        f"The last words of the assistant:\n{last}" if last else "",
        f"What has come last, and is not answered yet:\n{_tagged('now', now)}" if now else "",
        _GO_ON if recap.now else _WAIT,
    ]
    return "\n\n".join(part for part in parts if part)


def transcript(messages: Sequence[Json], longest: int) -> list[str]:
    """Return a conversation as pieces of text for a model to read, no text in it longer than some characters."""
    outline = Outline(messages)
    pieces: list[str] = []
    for message in messages:
        who = "The user" if message.get("role") == "user" else "The assistant"
        for text in _texts(message):
            if not text.startswith(BEGINNING):
                pieces.append(f"{who}:\n{shortened(text.strip(), longest)}")
        for block in blocks(message):
            if block.get("type") == "tool_use":
                pieces.append(f"Call: {outline.named(block.get('id'))}")
            elif block.get("type") == "tool_result":
                pieces.append(f"{_of(outline, block)}:\n{shortened(_told(block), longest)}")
    return pieces


def _history(recap: Recap, words: str | None, room: int) -> str:
    """Return what happened: a model's words; or, if they say next to nothing, what was known and the turns since."""
    if words is not None and len(words) >= _TELLING:
        return _fitted(words, room)
    turns: list[str] = [words] if words else []
    used = sum(map(_size, turns))
    for turn in reversed(recap.turns):
        if used + _size(turn) > room * 2 // 3:
            turns.append("Turns before that are left out." if turns else _fitted(turn, room * 2 // 3))
            break
        turns.append(turn)
        used += _size(turn) + 2
    before = _fitted(recap.history, room - sum(map(_size, turns)) - 100)
    return "\n\n".join(part for part in [before, *reversed(turns)] if part)


def _fitted(text: str, room: int) -> str:
    """Return a text shortened to some bytes, about; nothing where there is no room."""
    size = _size(text)
    if size <= room:
        return text
    return shortened(text, room * len(text) // size) if room > _LEAST else ""


def _lists(recap: Recap, room: int) -> str:
    parts = [
        _listing("Files changed", "files-changed", recap.changed, room // 2),
        _listing("Files read", "files-read", recap.read, room // 4),
        _listing("Still to be done", "todos", recap.todos, room // 2),
    ]
    return "\n\n".join(part for part in parts if part)


def _listing(title: str, tag: str, items: Sequence[str], room: int) -> str:
    """Return a list, the last items of it if there is not room for all."""
    kept: list[str] = []
    for item in reversed(items):
        line = f"- {' '.join(item.split())}"
        if kept and sum(map(_size, kept)) + _size(line) > room:
            title = f"{title} (the last {len(kept)} of {len(items)})"
            break
        kept.append(shortened(line, 400))
    lines = "\n".join(reversed(kept))
    return f"{title}:\n{_tagged(tag, lines)}" if kept else ""


def _files(outline: Outline, changed: list[str], read: list[str]) -> tuple[list[str], list[str]]:
    """Return which files were changed, and which only read; what was touched last is last."""
    touched: dict[str, bool] = {**dict.fromkeys(read, False), **dict.fromkeys(changed, True)}
    for id, use in outline.uses.items():
        given = use.get("input")
        path = given.get("file_path") or given.get("notebook_path") if isinstance(given, dict) else None
        if isinstance(path, str) and path and not outline.results.get(id, {"is_error": True}).get("is_error"):
            touched[path] = touched.pop(path, False) or use.get("name") in _CHANGING
    return [path for path, is_changed in touched.items() if is_changed], [
        path for path, is_changed in touched.items() if not is_changed
    ]


def _todos(outline: Outline) -> list[str] | None:
    """Return what is still to be done by the last todo list; None if there is none."""
    for use in reversed(outline.uses.values()):
        given = use.get("input")
        if use.get("name") == "TodoWrite" and isinstance(given, dict) and isinstance(given.get("todos"), list):
            items = [item for item in given["todos"] if isinstance(item, dict) and item.get("status") != "completed"]
            return [f"{item.get('content')} ({item.get('status')})" for item in items if item.get("content")]
    return None


def _turns(outline: Outline) -> list[str]:
    """Return each turn in a few lines: what was asked, what was called, what was said in the end."""
    told: list[str] = []
    ends = [*outline.starts[1:], len(outline.messages)]
    for start, end in zip(outline.starts, ends, strict=True):
        messages = outline.messages[start:end]
        prompts = [words for text in _texts(messages[0]) if (words := recap_prompts.typed(text))]
        calls = [_call(outline, block) for message in messages for block in blocks(message)
                 if block.get("type") == "tool_use"]  # fmt: skip
        parts = [f"Asked: {shortened(' '.join(prompts[-1].split()), 120)}"] if prompts else []
        parts += [f"Called: {shortened('; '.join(calls), 600)}"] if calls else []
        parts += [f"Said in the end: {shortened(words, _LAST_WORDS)}"] if (words := _last_words(messages)) else []
        if len(parts) > bool(prompts):
            told.append("\n".join(parts))
    return told


def _call(outline: Outline, block: Json) -> str:
    failed = outline.results.get(str(block.get("id")), {}).get("is_error")
    return f"{outline.named(block.get('id'))}{' (failed)' if failed else ''}"


def _last_words(messages: Sequence[Json]) -> str:
    for message in reversed(messages):
        if message.get("role") == "assistant" and (words := "\n".join(_texts(message)).strip()):
            return words
    return ""


def _now(outline: Outline) -> Iterable[str]:
    """Yield what the model has not answered: results by call, and what was said beside them."""
    for message in outline.messages[outline.open_from :]:
        for text in _texts(message):
            if not text.startswith(BEGINNING) and text.strip():
                yield f"The user:\n{text.strip()}" if recap_prompts.typed(text) else text.strip()
        for block in blocks(message):
            if block.get("type") == "tool_result":
                yield f"{_of(outline, block)}:\n{_told(block)}"
            elif block.get("type") in ("image", "document"):
                yield hidden(block)


def _of(outline: Outline, block: Json) -> str:
    return f"{'Error' if block.get('is_error') else 'Result'} of {outline.named(block.get('tool_use_id'))}"


def _told(block: Json) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content.strip()
    inner = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(str(part["text"]) if "text" in part else hidden(part) for part in inner).strip()


def _joined(parts: Sequence[str], room: int) -> str:
    """Return texts one after another, the longest of them cut so that all fit."""
    longest = max(map(len, parts), default=0)
    whole = "\n\n".join(parts)
    while _size(whole) > room and longest > _LEAST:
        longest = longest * 4 // 5
        whole = "\n\n".join(shortened(part, longest) for part in parts)
    return _fitted(whole, room)


def _texts(message: Json) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [str(block.get("text") or "") for block in blocks(message) if block.get("type") == "text"]


def _tagged(tag: str, text: str) -> str:
    """Return a text between tags; tags inside of it are none."""
    harmless = _TAG.sub(r"<\1 \2>", text)
    return f"<{tag}>\n{harmless}\n</{tag}>"


def _section(text: str, tag: str) -> str:
    found = re.search(rf"\n<{tag}>\n(.*?)\n</{tag}>(?:\n|\Z)", text[text.find("\n</prompts>\n") :], re.DOTALL)
    return found[1] if found else ""


def _items(text: str, tag: str) -> list[str]:
    return [line.removeprefix("- ") for line in _section(text, tag).split("\n") if line.startswith("- ")]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
