"""Edit: a piece of a file in, something else in its place out.

Rules
  1. The piece is found exactly, and once, unless all are meant. Every byte outside of it stays.
  2. Nothing in place of nothing makes a file, or fills an empty one.

[merged: change.py] Changing a file that was read: what all tools that do it share.

Rules
  1. A file that was not read, or is not as it was when it was read, is not changed.
  2. It is kept (`desk.keep`) before it is changed, and seen as it is afterwards.
  3. Nothing is waited for between the look and the change: no other call comes between, and no interrupt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from unspool.client.permissions.paths import missing, resolved
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Outcome, aim, parse, schema
from unspool.client.tools.files import text_file as disk
from unspool.client.tools.files.diff import structured_patch
from unspool.client.tools.files.text_file import Text, decoded, occurrences, replaced, rewritten

UNREAD = "File has not been read yet. Read it first before writing to it."
CHANGED = (
    "File has been modified since read, either by the user or by a linter. Read it again before attempting to write it."
)


def current(path: Path, desk: Desk) -> bytes:
    """Return what is in a file, if it was read and is as it was then."""
    earlier = desk.seen.text(path) if desk.seen.look(path) is None else None
    if earlier is None and desk.seen.look(path) is None:
        raise BadCall(UNREAD)
    data = disk.load(path).data
    if not (desk.seen.is_current(path, data) if earlier is None else decoded(data).shown == earlier):
        raise BadCall(CHANGED)
    return data


def change(path: Path, data: bytes, desk: Desk) -> None:
    """Write a file."""
    desk.keep(path)
    modified = disk.store(path, data)
    desk.seen.note(path, data, modified)


def checked(text: str, name: str) -> str:
    """Return a text that a model wrote, if a file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadCall(f"The parameter `{name}` has half of a surrogate pair in it, which no file can hold.") from None
    return text


Json: TypeAlias = dict[str, Any]

LONGEST = 2_000_000
"""Characters of a file that the session has as it was before; newer versions leave long ones out, too."""


class EditInput(Asked, frozen=True):
    """Replace a piece of a file."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    old_string: Annotated[str, Meta(description="Exact text to replace, without line numbers")]
    new_string: str
    replace_all: bool | None = None


class Edit:
    """The tool."""

    name = "Edit"
    description = (
        "Replace text in a file that was read. old_string must be in the file exactly as given, and only once unless "
        "replace_all is set."
    )
    is_concurrent = False

    def __init__(self) -> None:
        self.input_schema = schema(EditInput)

    def target(self, input: Json) -> str:
        """Return the path."""
        return aim(input, "file_path")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Change it."""
        asked = parse(self.name, input, EditInput)
        checked(asked.old_string, "old_string")
        checked(asked.new_string, "new_string")
        if asked.old_string == asked.new_string:
            raise BadCall("No changes to make: old_string and new_string are exactly the same.")
        path = resolved(asked.file_path, desk)
        if path.suffix.lower() == ".ipynb":
            raise BadCall("File is a Jupyter Notebook. Use the NotebookEdit to edit this file.")
        old, found, new = _changed(asked, path, desk)
        change(path, new.encoded(), desk)
        return _told(asked, old, found, new)


def _changed(asked: EditInput, path: Path, desk: Desk) -> tuple[Text, str, Text]:
    """Return a text before and after, and the piece of it that was replaced."""
    if disk.status(path) is None:
        if asked.old_string:
            raise missing(path, desk)
        return Text(""), "", Text(asked.new_string)
    if not asked.old_string:
        old = decoded(disk.load(path).data)
        if old.raw.strip():
            raise BadCall("Cannot create new file - file already exists.")
        return old, "", rewritten(decoded(current(path, desk)), asked.new_string)
    old = decoded(current(path, desk))
    places = occurrences(old, asked.old_string)
    if not places:
        raise BadCall(f"String to replace not found in file.\nString: {asked.old_string}")
    if len(places) > 1 and not asked.replace_all:
        raise BadCall(
            f"Found {len(places)} matches of the string to replace, but replace_all is false. To replace all "
            "occurrences, set replace_all to true. To replace only one occurrence, please provide more context to "
            f"uniquely identify the instance.\nString: {asked.old_string}"
        )
    start, end = places[0]
    return old, Text(old.raw[start:end]).shown, replaced(old, places, asked.new_string)


def _told(asked: EditInput, old: Text, found: str, new: Text) -> Outcome:
    everywhere = bool(asked.replace_all)
    content = f"The file {asked.file_path} has been updated successfully."
    if everywhere:
        content = (
            f"The file {asked.file_path} has been updated. All occurrences of '{asked.old_string}' were successfully "
            f"replaced with '{asked.new_string}'."
        )
    result = {
        "filePath": asked.file_path,
        "oldString": found,
        "newString": asked.new_string,
        "originalFile": old.shown if len(old.raw) <= LONGEST else None,
        "structuredPatch": structured_patch(old.shown, new.shown),
        "userModified": False,
        "replaceAll": everywhere,
    }
    return Outcome(content=content, result=result)
