"""What a step shows when it is opened, in pieces: a tool call in; patches, terminals, code, pictures, questions out.

Rules
  1. Nothing raises: inputs and results are whatever a model or a server wrote. What fits no form is shown as data.
  2. Line numbers are those the tool reported. Where it reported none there are none.
  3. A text longer than `INLINE` is cut unless all of it was asked for; its length says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from unspool.export.block_text import words_of
from unspool.export.describe_calls import exit_code
from unspool.format.blocks import AnyBlock, Image, Source, Text
from unspool.format.tools import files, plans, shell
from unspool.format.tools import parse as results
from unspool.format.tools.files import Hunk
from unspool.format.tools.parse import parse_input
from unspool.graph.tool_calls import ToolCall
from unspool.page.images import Picture, blob_of, picture, pictures_in, structured_pictures
from unspool.page.rows import INLINE

_NUMBERED = re.compile(r" *(\d{1,9})(?:→|\t)(.*)")
_EXIT_LINE = re.compile(r"\A(?:Error: )?Exit code \d{1,6}\n?")


class Words(msgspec.Struct, frozen=True, tag="words"):
    """A text: `markdown`, `plain`, `terminal` or `error`."""

    text: str
    form: str = "plain"
    title: str = ""
    length: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether there is more."""
        return self.length > len(self.text)


class Code(msgspec.Struct, frozen=True, tag="code"):
    """Lines of a file, from a line on."""

    text: str
    path: str = ""
    first: int | None = 1
    """The number of the first line, if it is known."""
    total: int | None = None
    length: int = 0

    @property
    def is_cut(self) -> bool:
        """Whether there is more."""
        return self.length > len(self.text)


class PatchLine(msgspec.Struct, frozen=True, array_like=True):
    """A line of a patch with its numbers, before and after."""

    sign: str
    """A space, `+`, `-`, `@` between hunks, or a backslash."""
    old: int | None
    new: int | None
    text: str


class Patch(msgspec.Struct, frozen=True, tag="patch"):
    """What was changed in a file."""

    path: str
    lines: tuple[PatchLine, ...]
    added: int = 0
    removed: int = 0
    is_new: bool = False
    is_modified: bool = False
    """The user changed the edit before accepting it."""
    is_asked: bool = False
    """Only what was asked for is known, not where."""
    more: int = 0
    """How many lines are left out."""


class Pictures(msgspec.Struct, frozen=True, tag="pictures"):
    """Pictures."""

    pictures: tuple[Picture, ...]


class Choice(msgspec.Struct, frozen=True):
    """An answer on offer."""

    label: str
    description: str = ""
    chosen: bool = False


class Question(msgspec.Struct, frozen=True, tag="question"):
    """A question, what could be answered and what was."""

    question: str
    header: str = ""
    choices: tuple[Choice, ...] = ()
    answer: str = ""
    notes: str = ""


class Task(msgspec.Struct, frozen=True):
    """An item of a list."""

    text: str
    status: str = ""


class Checklist(msgspec.Struct, frozen=True, tag="checklist"):
    """A list of tasks."""

    tasks: tuple[Task, ...]


class Data(msgspec.Struct, frozen=True, tag="data"):
    """Anything, as a tree."""

    value: Any
    title: str = ""


Piece: TypeAlias = Words | Code | Patch | Pictures | Question | Checklist | Data

_MOST_LINES = 2_000
"""Of a patch, unless all of it was asked for."""


def words(text: str, form: str = "plain", title: str = "", *, whole: bool = False) -> Words:
    """Return a text, cut if it is too long to be shown unasked."""
    return Words(text if whole else text[:INLINE], form, title, len(text))


def said(blocks: Sequence[AnyBlock], form: str, place: int, *, whole: bool = False) -> Iterator[Piece]:
    """Yield what blocks of text and pictures show."""
    texts = [block.text for block in blocks if isinstance(block, Text)]
    if text := "\n".join(texts):
        yield words(text, form, whole=whole)
    if found := pictures_in(tuple(blocks), place):
        yield Pictures(found)
    shown = {id(block) for block in blocks if isinstance(block, Image) and picture(block.source, place)}
    others = [block for block in blocks if not isinstance(block, Text) and id(block) not in shown]
    if others:
        yield words(words_of(others))


def rendered(call: ToolCall, *, whole: bool = False) -> Iterator[Piece]:
    """Yield what a call shows: the best form its tool has."""
    structured = call.structured
    match parse_input(call.name, call.input):
        case shell.BashInput() as given:
            yield from _shell(call, given, structured, whole)
        case files.ReadInput(file_path=path):
            yield from _read(call, path, structured, whole)
        case files.EditInput() | files.MultiEditInput() | files.WriteInput() as given:
            yield from _change(call, given, structured, whole)
        case plans.AskUserQuestionInput(questions=questions):
            yield from _questions(questions, structured)
            yield from _failure(call, whole)
        case plans.TodoWriteInput(todos=tuple() as todos):
            yield Checklist(tuple(_todo(todo) for todo in todos))
            yield from _failure(call, whole)
        case plans.ExitPlanModeInput(plan=str(plan)) if plan:
            yield words(plan, "markdown", whole=whole)
            yield from _result(call, "plain", whole)
        case plans.ExitPlanModeInput() if isinstance(structured, plans.ExitPlanModeResult):
            yield words(structured.plan or "", "markdown", whole=whole)
        case _:
            yield from _other(call, whole)


def result(call: ToolCall, *, whole: bool = False) -> Iterator[Piece]:
    """Yield what the model saw of a result."""
    return _result(call, "plain", whole)


def patch_of(hunks: Sequence[Hunk]) -> Iterator[PatchLine]:
    """Yield the lines of a patch with their true numbers."""
    for number, hunk in enumerate(hunks):
        if number:
            yield PatchLine("@", None, None, "")
        old, new = hunk.old_start, hunk.new_start
        for line in hunk.lines:
            sign, text = line[:1] or " ", line[1:]
            match sign:
                case "+":
                    yield PatchLine("+", None, new, text)
                    new += 1
                case "-":
                    yield PatchLine("-", old, None, text)
                    old += 1
                case "\\":
                    yield PatchLine("\\", None, None, text)
                case _:
                    yield PatchLine(" ", old, new, text)
                    old, new = old + 1, new + 1


def _result(call: ToolCall, form: str, whole: bool) -> Iterator[Piece]:
    if call.result is not None and call.result_entry is not None:
        form = "error" if call.failed else form
        yield from said(call.result.blocks, form, call.result_entry.offset, whole=whole)


def _failure(call: ToolCall, whole: bool) -> Iterator[Piece]:
    if call.failed:
        yield from _result(call, "error", whole)


def _shell(
    call: ToolCall, given: shell.BashInput, structured: results.AnyResult | None, whole: bool
) -> Iterator[Piece]:
    if given.description:
        yield words(given.description)
    yield words(given.command, "command", "command", whole=whole)
    if not isinstance(structured, shell.BashResult):
        text = "\n".join(block.text for block in call.result.blocks if isinstance(block, Text)) if call.result else ""
        code = exit_code(text)
        title = f"exit {code}" if code is not None else "failed" if call.failed else "output"
        if text:
            yield words(_EXIT_LINE.sub("", text), "terminal", title, whole=whole)
        return
    if structured.is_image:
        yield from _pictures(call, structured)
    elif structured.stdout:
        yield words(structured.stdout, "terminal", "stdout", whole=whole)
    if structured.stderr:
        yield words(structured.stderr, "terminal", "stderr", whole=whole)
    notes = {
        "in the background as": structured.background_task_id,
        "all of it in": structured.persisted_output_path,
        "": structured.return_code_interpretation,
    }
    for title, note in notes.items():
        if note:
            yield words(f"{title} {note}".strip())
    if structured.interrupted:
        yield words("interrupted", "error")


def _pictures(call: ToolCall, structured: results.AnyResult | None) -> Iterator[Piece]:
    place = call.result_entry.offset if call.result_entry else -1
    encoded = [one for one in structured_pictures(structured) if blob_of(one)]
    found = [picture(Source(type="base64", data=one), place) for one in encoded]
    if found:
        yield Pictures(tuple(one for one in found if one is not None))


def _read(call: ToolCall, path: str, structured: results.AnyResult | None, whole: bool) -> Iterator[Piece]:
    match structured:
        case files.ReadText(file=file):
            text = file.content if whole else file.content[:INLINE]
            yield Code(text, file.file_path or path, file.start_line or 1, file.total_lines, len(file.content))
        case files.ReadImage() | files.ReadParts():
            yield from _pictures(call, structured)
        case _ if call.failed:
            yield from _failure(call, whole)
        case _:
            yield from _numbered(call, path, whole)


def _numbered(call: ToolCall, path: str, whole: bool) -> Iterator[Piece]:
    """Yield what the model saw as code, if every line begins with its number."""
    texts = [block.text for block in call.result.blocks if isinstance(block, Text)] if call.result else []
    text = "\n".join(texts).partition("\n\n<system-reminder>")[0]
    found = [_NUMBERED.fullmatch(line) for line in text.splitlines()]
    lines = [match for match in found if match is not None]
    if lines and len(lines) == len(found):
        content = "\n".join(match[2] for match in lines)
        yield Code(content if whole else content[:INLINE], path, int(lines[0][1]), None, len(content))
    else:
        yield from _result(call, "plain", whole)


def _change(call: ToolCall, given: Any, structured: results.AnyResult | None, whole: bool) -> Iterator[Piece]:
    match structured:
        case files.WriteResult(type="create", content=content, structured_patch=()):
            lines = [PatchLine("+", None, number, line) for number, line in enumerate(content.splitlines(), 1)]
            yield _patch(given.file_path, lines, whole, is_new=True, is_modified=bool(structured.user_modified))
        case (
            files.WriteResult(structured_patch=hunks)
            | files.EditResult(structured_patch=hunks)
            | files.MultiEditResult(structured_patch=hunks)
        ) if hunks:
            modified = bool(structured.user_modified)
            yield _patch(given.file_path, list(patch_of(hunks)), whole, is_modified=modified)
        case _:
            yield _patch(given.file_path, list(_asked(given)), whole, is_asked=True)
    yield from _failure(call, whole)


def _patch(path: str, lines: list[PatchLine], whole: bool, **more: bool) -> Patch:
    added, removed = (sum(line.sign == sign for line in lines) for sign in "+-")
    shown = lines if whole else lines[:_MOST_LINES]
    return Patch(path, tuple(shown), added, removed, more=len(lines) - len(shown), **more)


def _asked(given: Any) -> Iterator[PatchLine]:
    """Yield what was asked to be changed."""
    match given:
        case files.WriteInput(content=content):
            yield from (PatchLine("+", None, None, line) for line in content.splitlines())
        case files.EditInput(old_string=old, new_string=new):
            yield from (PatchLine("-", None, None, line) for line in old.splitlines())
            yield from (PatchLine("+", None, None, line) for line in new.splitlines())
        case files.MultiEditInput(edits=edits):
            for number, edit in enumerate(edits):
                if number:
                    yield PatchLine("@", None, None, "")
                yield from (PatchLine("-", None, None, line) for line in edit.old_string.splitlines())
                yield from (PatchLine("+", None, None, line) for line in edit.new_string.splitlines())
        case _:
            pass


def _questions(asked: Sequence[plans.Question], structured: results.AnyResult | None) -> Iterator[Piece]:
    given = structured if isinstance(structured, plans.AskUserQuestionResult) else None
    for one in asked:
        answer = given.answers.get(one.question, "") if given else ""
        chosen = {part.strip() for part in answer.split(",")} | {answer}
        note = (given.annotations or {}).get(one.question) if given else None
        choices = tuple(
            Choice(option.label, option.description or "", option.label in chosen) for option in one.options
        )
        yield Question(one.question, one.header or "", choices, answer, (note.notes or "") if note else "")


def _todo(todo: Any) -> Task:
    return Task(todo.content, todo.status or "") if isinstance(todo, plans.Todo) else Task(str(todo))


def _other(call: ToolCall, whole: bool) -> Iterator[Piece]:
    if isinstance(call.input, dict) and isinstance(prompt := call.input.get("prompt"), str):
        yield words(prompt, "markdown", "prompt", whole=whole)
    elif call.input not in (None, {}):
        yield Data(call.input, "input")
    markdown = call.name in ("Task", "Agent", "WebFetch", "WebSearch", "Skill", "ExitPlanMode")
    yield from _result(call, "markdown" if markdown else "plain", whole)
