"""The Edit tool, and what all tools share that change a file: the checks before, the backup, the record after.

Rules
  1. A file that was not read, or is not as it was when it was read, is not changed.
  2. It is backed up (`context.back_up`) before it is changed, and known as it is afterwards.
  3. There is no `await` between the check and the change: no other call comes between, and no interrupt.
  4. The text to replace is found exactly, and once, unless all occurrences are meant. Every byte outside of it stays.
  5. Nothing in place of nothing creates a file, or fills an empty one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from unspool.client.permissions.paths import file_not_found, resolve_path
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, InvalidToolCall, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.diff import structured_patch
from unspool.client.tools.content.file_text import FileText, decode_text
from unspool.client.tools.files.safe_io import file_status, read_file, write_file

_NOT_READ = "File has not been read yet. Read it first before writing to it."
_CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)
_MAX_ORIGINAL = 2_000_000
"""Characters of the original file that the session keeps; newer versions of Claude Code leave long ones out, too."""


def read_unchanged(path: Path, context: ToolContext) -> bytes:
    """Return the bytes of a file, if it was read before and is as it was then."""
    known = context.known_files
    is_known = known.has_read(path)
    earlier = None if is_known else known.earlier_text(path)
    if not is_known and earlier is None:
        raise InvalidToolCall(_NOT_READ)
    data = read_file(path)
    if not (known.is_current(path, data) if earlier is None else decode_text(data).shown == earlier):
        raise InvalidToolCall(_CHANGED)
    return data


def change_file(path: Path, data: bytes, context: ToolContext) -> None:
    """Back up a file, write it, and record what it holds now."""
    context.back_up(path)
    write_file(path, data)
    context.known_files.record(path, data)


def check_encodable(text: str, name: str) -> str:
    """Return a text that a model wrote, if a file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        message = f"The parameter `{name}` has half of a surrogate pair in it, which no file can hold."
        raise InvalidToolCall(message) from None
    return text


def compare_texts(path: Path, old: str, new: str) -> FileChange:
    """Return the change from one text of a file to another."""
    return FileChange(path=str(path), is_new=file_status(path) is None, hunks=structured_patch(old, new))


class EditArguments(ToolArguments, frozen=True):
    """A file, the text to replace, and the text in its place."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    old_string: Annotated[str, Meta(description="Exact text to replace, without line numbers")]
    new_string: str
    replace_all: bool | None = None


class EditTool(BuiltInTool[EditArguments]):
    """Replace text in a file."""

    name = "Edit"
    description = (
        "Replace text in a file that was read. old_string must be in the file exactly as given, and only once unless "
        "replace_all is set."
    )
    arguments = EditArguments
    target_fields = ("file_path",)

    def plan_change(self, arguments: EditArguments, context: ToolContext, call_id: str) -> FileChange:
        """Return the change."""
        path = _check_arguments(arguments, context)
        old, _, new = _apply(arguments, path, context)
        return compare_texts(path, old.shown, new.shown)

    async def execute(self, arguments: EditArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Change the file."""
        path = _check_arguments(arguments, context)
        old, replaced, new = _apply(arguments, path, context)
        change_file(path, new.encode(), context)
        content = f"The file {arguments.file_path} has been updated successfully."
        if arguments.replace_all:
            content = (
                f"The file {arguments.file_path} has been updated. All occurrences of '{arguments.old_string}' were "
                f"successfully replaced with '{arguments.new_string}'."
            )
        result = {
            "filePath": arguments.file_path,
            "oldString": replaced,
            "newString": arguments.new_string,
            "originalFile": old.shown if len(old.raw) <= _MAX_ORIGINAL else None,
            "structuredPatch": structured_patch(old.shown, new.shown),
            "userModified": False,
            "replaceAll": bool(arguments.replace_all),
        }
        return ToolOutcome(content=content, result=result)


def _check_arguments(arguments: EditArguments, context: ToolContext) -> Path:
    """Return the file, if the edit could be made in one."""
    check_encodable(arguments.old_string, "old_string")
    check_encodable(arguments.new_string, "new_string")
    if arguments.old_string == arguments.new_string:
        raise InvalidToolCall("No changes to make: old_string and new_string are exactly the same.")
    path = resolve_path(arguments.file_path, context)
    if path.suffix.lower() == ".ipynb":
        raise InvalidToolCall("File is a Jupyter Notebook. Use the NotebookEdit to edit this file.")
    return path


def _apply(arguments: EditArguments, path: Path, context: ToolContext) -> tuple[FileText, str, FileText]:
    """Return the text before the edit, the part of it that is replaced, and the text after."""
    if file_status(path) is None:
        if arguments.old_string:
            raise file_not_found(path, context)
        return FileText(""), "", FileText(arguments.new_string)
    if not arguments.old_string:
        old = decode_text(read_file(path))
        if old.raw.strip():
            raise InvalidToolCall("Cannot create new file - file already exists.")
        return old, "", decode_text(read_unchanged(path, context)).with_content(arguments.new_string)
    old = decode_text(read_unchanged(path, context))
    ranges = old.find(arguments.old_string)
    if not ranges:
        raise InvalidToolCall(f"String to replace not found in file.\nString: {arguments.old_string}")
    if len(ranges) > 1 and not arguments.replace_all:
        raise InvalidToolCall(
            f"Found {len(ranges)} matches of the string to replace, but replace_all is false. To replace all "
            "occurrences, set replace_all to true. To replace only one occurrence, please provide more context to "
            f"uniquely identify the instance.\nString: {arguments.old_string}"
        )
    start, end = ranges[0]
    # What the file has, not what the model wrote: it may have curly quotes where the model has straight ones.
    return old, FileText(old.raw[start:end]).shown, old.replace_ranges(ranges, arguments.new_string)
