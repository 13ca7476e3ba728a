"""The parts of an opened step: turns a tool call into patches, terminal output, code, images and questions.

Rules
  1. Nothing raises: inputs and results are whatever a model or a server wrote. What fits no form is shown as data.
  2. Line numbers are those the tool reported. Where it reported none there are none.
  3. Parts have all of their text. `cut_part` shortens them for a first look; a length tells that there is more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from unspool.export import blocks_to_text, split_exit_code
from unspool.format import AnyBlock, Image, MediaSource, Text
from unspool.format.tools import AGENT_TOOLS, Hunk, files, parse_input, plans, shell
from unspool.format.tools import parse as results
from unspool.graph import ToolCall, join_text
from unspool.page.images import ImageInfo, image_info, images_in_blocks, images_in_result
from unspool.page.rows import MAX_INLINE_CHARACTERS

_NUMBERED_LINE = re.compile(r" *(\d{1,9})(?:→|\t)(.*)")


class TextPart(msgspec.Struct, frozen=True, tag="words"):
    """A text: `markdown`, `plain`, `terminal` or `error`."""

    text: str
    form: str = "plain"
    title: str = ""
    length: int = 0


class CodePart(msgspec.Struct, frozen=True, tag="code"):
    """Lines of a file, from a line on."""

    text: str
    path: str = ""
    first: int | None = 1
    """The number of the first line, if it is known."""
    total: int | None = None
    length: int = 0


class PatchLine(msgspec.Struct, frozen=True, array_like=True):
    """A line of a patch with its numbers, before and after."""

    sign: str
    """A space, `+`, `-`, `@` between hunks, or a backslash."""
    old: int | None
    new: int | None
    text: str


class PatchPart(msgspec.Struct, frozen=True, tag="patch"):
    """The changes of a file."""

    path: str
    lines: tuple[PatchLine, ...]
    added: int = 0
    removed: int = 0
    is_new: bool = False
    is_modified: bool = False
    """The user changed the edit before accepting it."""
    is_asked: bool = False
    """Only the requested change is known, not where it was made."""
    more: int = 0
    """How many lines are left out."""


class ImagesPart(msgspec.Struct, frozen=True, tag="pictures"):
    """Images."""

    pictures: tuple[ImageInfo, ...]


class QuestionChoice(msgspec.Struct, frozen=True):
    """An option of a question."""

    label: str
    description: str = ""
    chosen: bool = False


class QuestionPart(msgspec.Struct, frozen=True, tag="question"):
    """A question to the user, its options and the answer."""

    question: str
    header: str = ""
    choices: tuple[QuestionChoice, ...] = ()
    answer: str = ""
    notes: str = ""


class ChecklistItem(msgspec.Struct, frozen=True):
    """An item of a task list."""

    text: str
    status: str = ""


class ChecklistPart(msgspec.Struct, frozen=True, tag="checklist"):
    """A list of tasks."""

    tasks: tuple[ChecklistItem, ...]


class DataPart(msgspec.Struct, frozen=True, tag="data"):
    """Any other value, shown as a tree."""

    value: Any
    title: str = ""


DetailPart: TypeAlias = TextPart | CodePart | PatchPart | ImagesPart | QuestionPart | ChecklistPart | DataPart

_MAX_PATCH_LINES = 2_000
"""Unless all of a patch is requested."""


def cut_part(part: DetailPart) -> DetailPart:
    """Return a part without what is too long for a first look."""
    match part:
        case TextPart(text=text) | CodePart(text=text) if len(text) > MAX_INLINE_CHARACTERS:
            return replace(part, text=text[:MAX_INLINE_CHARACTERS])
        case PatchPart(lines=lines) if len(lines) > _MAX_PATCH_LINES:
            return replace(part, lines=lines[:_MAX_PATCH_LINES], more=len(lines) - _MAX_PATCH_LINES)
        case _:
            return part


def text_part(text: str, form: str = "plain", title: str = "") -> TextPart:
    """Return a text and how long it is."""
    return TextPart(text, form, title, len(text))


def block_parts(blocks: Sequence[AnyBlock], form: str, offset: int) -> Iterator[DetailPart]:
    """Yield the texts and images of blocks in the line at an offset."""
    if text := join_text(blocks):
        yield text_part(text, form)
    if images := images_in_blocks(blocks, offset):
        yield ImagesPart(images)
    others = [
        block
        for block in blocks
        if not isinstance(block, Text) and not (isinstance(block, Image) and image_info(block.source, offset))
    ]
    if others:
        yield text_part(blocks_to_text(others))


def call_parts(call: ToolCall) -> Iterator[DetailPart]:
    """Yield what a call shows, in the best form that its tool has."""
    structured = call.structured
    match parse_input(call.name, call.input):
        case shell.BashInput() as bash:
            yield from _shell_parts(call, bash, structured)
        case files.ReadInput(file_path=path):
            yield from _read_parts(call, path, structured)
        case files.EditInput() | files.MultiEditInput() | files.WriteInput() as change:
            yield _patch(change, structured)
            yield from _failure(call)
        case plans.AskUserQuestionInput(questions=questions):
            yield from _question_parts(questions, structured)
            yield from _failure(call)
        case plans.TodoWriteInput(todos=tuple() as todos):
            yield ChecklistPart(tuple(_checklist_item(todo) for todo in todos))
            yield from _failure(call)
        case plans.ExitPlanModeInput(plan=str(plan)) if plan:
            yield text_part(plan, "markdown")
            yield from result_parts(call)
        case plans.ExitPlanModeInput() if isinstance(structured, plans.ExitPlanModeResult):
            yield text_part(structured.plan or "", "markdown")
        case _:
            yield from _other_parts(call)


def result_parts(call: ToolCall, form: str = "plain") -> Iterator[DetailPart]:
    """Yield what the model saw of a result."""
    if call.result is not None and call.result_entry is not None:
        form = "error" if call.failed else form
        yield from block_parts(call.result.blocks, form, call.result_entry.offset)


def _failure(call: ToolCall) -> Iterator[DetailPart]:
    if call.failed:
        yield from result_parts(call)


def _shell_parts(call: ToolCall, bash: shell.BashInput, structured: results.AnyResult | None) -> Iterator[DetailPart]:
    if bash.description:
        yield text_part(bash.description, "plain", "description")
    yield text_part(bash.command, "command", "command")
    if not isinstance(structured, shell.BashResult):
        text = join_text(call.result.blocks) if call.result else ""
        code, output = split_exit_code(text)
        title = f"exit {code}" if code is not None else "failed" if call.failed else "output"
        if text:
            yield text_part(output, "terminal", title)
        return
    if structured.is_image:
        yield from _image_parts(call, structured)
    elif structured.stdout:
        yield text_part(structured.stdout, "terminal", "stdout")
    if structured.stderr:
        yield text_part(structured.stderr, "terminal", "stderr")
    notes = {
        "in the background as": structured.background_task_id,
        "full output in": structured.persisted_output_path,
        "": structured.return_code_interpretation,
    }
    for title, note in notes.items():
        if note:
            yield text_part(f"{title} {note}".strip())
    if structured.interrupted:
        yield text_part("interrupted", "error")


def _image_parts(call: ToolCall, structured: results.AnyResult | None) -> Iterator[DetailPart]:
    offset = call.result_entry.offset if call.result_entry else -1
    decoded = (image_info(MediaSource(type="base64", data=encoded), offset) for encoded in images_in_result(structured))
    if images := tuple(image for image in decoded if image is not None):
        yield ImagesPart(images)


def _read_parts(call: ToolCall, path: str, structured: results.AnyResult | None) -> Iterator[DetailPart]:
    match structured:
        case files.ReadText(file=file):
            yield CodePart(
                file.content, file.file_path or path, file.start_line or 1, file.total_lines, len(file.content)
            )
        case files.ReadImage() | files.ReadParts():
            yield from _image_parts(call, structured)
        case _ if call.failed:
            yield from _failure(call)
        case _:
            yield from _numbered_parts(call, path)


def _numbered_parts(call: ToolCall, path: str) -> Iterator[DetailPart]:
    """Yield what the model saw as code, if every line begins with its number."""
    # Claude Code appends reminders to what Read returns: they are no lines of the file.
    text = join_text(call.result.blocks if call.result else ()).partition("\n\n<system-reminder>")[0]
    matches = [_NUMBERED_LINE.fullmatch(line) for line in text.splitlines()]
    lines = [match for match in matches if match is not None]
    if lines and len(lines) == len(matches):
        content = "\n".join(match[2] for match in lines)
        yield CodePart(content, path, int(lines[0][1]), None, len(content))
    else:
        yield from result_parts(call)


def _patch(change: Any, structured: results.AnyResult | None) -> PatchPart:
    is_new = is_modified = is_asked = False
    match structured:
        case files.WriteResult(type="create", content=content, structured_patch=()):
            lines = [PatchLine("+", None, number, line) for number, line in enumerate(content.splitlines(), 1)]
            is_new, is_modified = True, bool(structured.user_modified)
        case (
            files.WriteResult(structured_patch=hunks)
            | files.EditResult(structured_patch=hunks)
            | files.MultiEditResult(structured_patch=hunks)
        ) if hunks:
            lines, is_modified = list(_numbered_lines(hunks)), bool(structured.user_modified)
        case _:
            lines, is_asked = list(_requested_lines(change)), True
    added, removed = (sum(line.sign == sign for line in lines) for sign in "+-")
    return PatchPart(change.file_path, tuple(lines), added, removed, is_new, is_modified, is_asked)


def _numbered_lines(hunks: Sequence[Hunk]) -> Iterator[PatchLine]:
    """Yield the lines of a patch with the numbers they have in the file."""
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


def _requested_lines(change: Any) -> Iterator[PatchLine]:
    """Yield the lines of a change as the model requested it, without numbers."""
    match change:
        case files.WriteInput(content=content):
            changes = [("", content)]
        case files.EditInput(old_string=old, new_string=new):
            changes = [(old, new)]
        case _:
            changes = [(edit.old_string, edit.new_string) for edit in change.edits]
    for number, (old, new) in enumerate(changes):
        if number:
            yield PatchLine("@", None, None, "")
        yield from (PatchLine("-", None, None, line) for line in old.splitlines())
        yield from (PatchLine("+", None, None, line) for line in new.splitlines())


def _question_parts(
    questions: Sequence[plans.QuestionItem], structured: results.AnyResult | None
) -> Iterator[DetailPart]:
    reply = structured if isinstance(structured, plans.AskUserQuestionResult) else None
    for question in questions:
        given = reply.answers.get(question.question, "") if reply else ""
        answer = plans.join_answer(given)
        chosen = {*given} if isinstance(given, tuple) else {part.strip() for part in given.split(",")} | {given}
        note = (reply.annotations or {}).get(question.question) if reply else None
        choices = tuple(
            QuestionChoice(option.label, option.description or "", option.label in chosen)
            for option in question.options
        )
        notes = (note.notes or "") if note else ""
        yield QuestionPart(question.question, question.header or "", choices, answer, notes)


def _checklist_item(todo: Any) -> ChecklistItem:
    if isinstance(todo, plans.Todo):
        return ChecklistItem(todo.content, todo.status or "")
    return ChecklistItem(str(todo))


def _other_parts(call: ToolCall) -> Iterator[DetailPart]:
    if isinstance(call.input, dict) and isinstance(prompt := call.input.get("prompt"), str):
        yield text_part(prompt, "markdown", "prompt")
    elif call.input not in (None, {}):
        yield DataPart(call.input, "input")
    markdown = call.name in AGENT_TOOLS | {"WebFetch", "WebSearch", "Skill", "ExitPlanMode"}
    yield from result_parts(call, "markdown" if markdown else "plain")
