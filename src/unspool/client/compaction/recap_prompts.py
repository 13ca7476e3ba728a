"""What a person asked for, word for word, through any number of compactions: prompts to a section of text, and back.

    <prompts>
    1. Fix the parser.
       It fails on tabs.
    2-4, 7. Go on.
    </prompts>

Rules
  1. What is written is read back as it was: lines after the first are indented, so that no prompt can end the section.
  2. Where there is not room for all: first prompts that say the same share a place; then the longest give, beginning
     and end stay; then the oldest of the middle are left out. The first ten, which say what it is about, and the last
     five stay nearly whole until the others have given all they can.
  3. None is dropped without a word: one that is left out is named by its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from unspool.client.compaction.truncate import shortened
from unspool.edit.compress import BEGINNING
from unspool.graph.speakers import INTERRUPT, is_typed

Json: TypeAlias = dict[str, Any]

_OPEN, _CLOSE = "<prompts>", "</prompts>"
_ITEM = re.compile(r"([\d, -]+)\. (.*)", re.DOTALL)
_INDENT = "   "
_LEFT_OUT = "[left out for want of room; the session's file has it]"
_FIRST, _LAST = 10, 5
_FLOOR, _PLENTY = 60, 300
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


class Prompt(NamedTuple):
    """What was asked for, and when: the numbers of the turns."""

    numbers: tuple[int, ...]
    text: str


def gathered(texts: Iterable[str]) -> list[Prompt]:
    """Return the prompts among what was said in the user's name, in order; those of an earlier section too."""
    found: list[Prompt] = []
    last = 0
    for text in texts:
        if text.startswith(BEGINNING):
            found = parsed(text)
            last = max((number for prompt in found for number in prompt.numbers), default=0)
        elif words := typed(text):
            last += 1
            found.append(Prompt((last,), words))
    return found


def typed(text: str) -> str:
    """Return what a person typed of a text in their name; nothing if it was the program's."""
    words = text.strip()
    if words.startswith("<command-") and (command := _COMMAND.search(words)):
        arguments = _ARGUMENTS.search(words)
        return " ".join(filter(None, [command[1].strip(), arguments[1].strip() if arguments else ""]))
    if words.startswith((INTERRUPT, BEGINNING)) or (not words.startswith("/") and not is_typed(words)):
        return ""
    return words


def written(prompts: Sequence[Prompt]) -> str:
    """Return the section."""
    lines = [f"{_numbers(prompt.numbers)}. {prompt.text}".replace("\n", f"\n{_INDENT}") for prompt in prompts]
    return "\n".join([_OPEN, *lines, _CLOSE])


def parsed(text: str) -> list[Prompt]:
    """Return the prompts of the first section in a text."""
    _, began, rest = text.partition(f"\n{_OPEN}\n")
    section, ended, _ = f"{rest}\n".partition(f"\n{_CLOSE}\n")
    if not began or not ended:
        return []
    found = [_ITEM.fullmatch(item) for item in re.split(r"\n(?! {3})", section)]
    return [Prompt(_read(item[1]), item[2].replace(f"\n{_INDENT}", "\n")) for item in found if item]


def fitted(prompts: Sequence[Prompt], fits: Callable[[Sequence[Prompt]], bool]) -> list[Prompt]:
    """Return prompts so that they fit: whole, or shorter, or the middle ones as numbers only."""
    if fits(prompts):
        return [*prompts]
    prompts = _together(prompts)
    every, middle = range(len(prompts)), range(_FIRST, max(_FIRST, len(prompts) - _LAST))
    for places, least in ((middle, _FLOOR), (every, _PLENTY)):
        capped = _capped(prompts, places, least)
        if fits(capped):
            return _largest(prompts, places, least, fits)
        prompts = capped
    if not fits(_without(prompts, len(middle))):
        prompts = _without(prompts, len(middle))
        return _largest(prompts, range(len(prompts)), _FLOOR, fits)
    low, high = 0, len(middle)
    while low < high:  # as few of the middle ones as it takes, the oldest first
        half = (low + high) // 2
        if fits(_without(prompts, half)):
            high = half
        else:
            low = half + 1
    return _without(prompts, low)


def _largest(
    prompts: Sequence[Prompt], places: range, least: int, fits: Callable[[Sequence[Prompt]], bool]
) -> list[Prompt]:
    """Return prompts with the longest of some cut, as little as it takes; to so many characters at the least."""
    low, high = least, max(len(prompt.text) for prompt in prompts)
    while high - low > 1:
        half = (low + high) // 2
        if fits(_capped(prompts, places, half)):
            low = half
        else:
            high = half
    return _capped(prompts, places, low)


def _capped(prompts: Sequence[Prompt], places: range, characters: int) -> list[Prompt]:
    return [
        Prompt(prompt.numbers, shortened(prompt.text, characters)) if at in places else prompt
        for at, prompt in enumerate(prompts)
    ]


def _without(prompts: Sequence[Prompt], count: int) -> list[Prompt]:
    """Return prompts with some of the middle ones left out."""
    gone = [
        Prompt(prompt.numbers, _LEFT_OUT) if _FIRST <= at < _FIRST + count else prompt
        for at, prompt in enumerate(prompts)
    ]
    return _together(gone)


def _together(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Return prompts with those that say the same in one place: the first's."""
    numbers: dict[str, list[int]] = {}
    for prompt in prompts:
        numbers.setdefault(prompt.text, []).extend(prompt.numbers)
    return [Prompt(tuple(sorted(set(found))), text) for text, found in numbers.items()]


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers as a person writes them: `2-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _read(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal():
            begin = int(first)
            end = int(last) if last.isdecimal() else begin
            found.extend(range(begin, min(end, begin + 1_000_000) + 1))
    return tuple(found)
