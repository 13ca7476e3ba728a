"""The NotebookEdit tool: replaces, inserts or deletes a cell of a Jupyter notebook.

Rules
  1. A notebook that was not read, or has changed since, is not changed.
  2. All other cells keep their values and their order; the file keeps its indentation, and sources their form.
  3. A cell whose code is replaced has no outputs any more; a cell that is not code never has.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from unspool.client.permissions.paths import resolve_path
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import FileChange, InvalidToolCall, Json, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.file_text import decode_text
from unspool.client.tools.content.notebook_cells import decode_notebook, notebook_language
from unspool.client.tools.files.edit import change_file, check_encodable, compare_texts, read_unchanged
from unspool.client.tools.files.safe_io import file_status

_CELL_INDEX = re.compile(r"(?:cell-)?(\d+)")


class NotebookEditArguments(ToolArguments, frozen=True):
    """A cell of a notebook, and what becomes of it."""

    notebook_path: Annotated[str, Meta(description="Absolute path")]
    new_source: str
    cell_id: Annotated[str | None, Meta(description="To insert: the cell before; none: at the top")] = None
    cell_number: Annotated[int | None, Meta(description="Instead of cell_id, from 0")] = None
    cell_type: Literal["code", "markdown"] | None = None
    edit_mode: Literal["replace", "insert", "delete"] | None = None


class NotebookEditTool(BuiltInTool[NotebookEditArguments]):
    """Change a cell of a notebook."""

    name = "NotebookEdit"
    description = "Replace, insert or delete a cell of a Jupyter notebook that was read."
    arguments = NotebookEditArguments
    target_fields = ("notebook_path",)

    def plan_change(self, arguments: NotebookEditArguments, context: ToolContext, call_id: str) -> FileChange:
        """Return the change."""
        path, old, notebook = _read_notebook(arguments, context)
        _apply(notebook, arguments, call_id)
        return compare_texts(path, decode_text(old).shown, decode_text(_encode(notebook, old)).shown)

    async def execute(self, arguments: NotebookEditArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Change the notebook."""
        path, old, notebook = _read_notebook(arguments, context)
        cell, id = _apply(notebook, arguments, call_id)
        new = _encode(notebook, old)
        change_file(path, new, context)
        mode = arguments.edit_mode or "replace"
        verb = {"replace": "Updated", "insert": "Inserted", "delete": "Deleted"}[mode]
        result = {
            "new_source": arguments.new_source,
            "cell_type": cell.get("cell_type", "code"),
            "language": notebook_language(notebook),
            "edit_mode": mode,
            "cell_id": id,
            "error": "",
            "notebook_path": arguments.notebook_path,
            "original_file": decode_text(old).shown,
            "updated_file": decode_text(new).shown,
        }
        source = "" if mode == "delete" else f" with {arguments.new_source}"
        return ToolOutcome(content=f"{verb} cell {id}{source}", result=result)


def _read_notebook(arguments: NotebookEditArguments, context: ToolContext) -> tuple[Path, bytes, Json]:
    """Return the path, the bytes and the content of the notebook."""
    check_encodable(arguments.new_source, "new_source")
    path = _check_path(arguments, context)
    old = read_unchanged(path, context)
    return path, old, decode_notebook(old)


def _check_path(arguments: NotebookEditArguments, context: ToolContext) -> Path:
    path = resolve_path(arguments.notebook_path, context)
    if path.suffix.lower() != ".ipynb":
        raise InvalidToolCall(
            "File must be a Jupyter notebook (.ipynb file). For editing other file types, use the FileEdit tool."
        )
    if arguments.edit_mode == "insert" and arguments.cell_type is None:
        raise InvalidToolCall("Cell type is required when using edit_mode=insert.")
    if file_status(path) is None:
        raise InvalidToolCall("Notebook file does not exist.")
    return path


def _apply(notebook: Json, arguments: NotebookEditArguments, call_id: str) -> tuple[Json, str]:
    """Change a notebook in place, and return the cell with its id."""
    cells: list[Any] = notebook["cells"]
    at = _find_cell(cells, arguments)
    if arguments.edit_mode == "insert":
        cell = _make_cell(notebook, arguments, call_id)
        at = 0 if at is None else at + 1
        cells.insert(at, cell)
    elif at is None:
        raise InvalidToolCall("Cell ID must be specified when not inserting a new cell.")
    elif not isinstance(cells[at], dict):
        raise InvalidToolCall(f"Cell with index {at} is not a cell.")
    elif arguments.edit_mode == "delete":
        cell = cells.pop(at)
    else:
        cell = cells[at]
        _replace_source(cell, arguments)
    return cell, cell["id"] if isinstance(cell.get("id"), str) else f"cell-{at}"


def _find_cell(cells: list[Any], arguments: NotebookEditArguments) -> int | None:
    if arguments.cell_id is None and arguments.cell_number is None:
        return None
    if arguments.cell_id is not None:
        for at, cell in enumerate(cells):
            if isinstance(cell, dict) and cell.get("id") == arguments.cell_id:
                return at
        match = _CELL_INDEX.fullmatch(arguments.cell_id)
        if match is None:
            raise InvalidToolCall(f'Cell with ID "{arguments.cell_id}" not found in notebook.')
        at = int(match[1])
    else:
        at = arguments.cell_number or 0
    if not 0 <= at < len(cells):
        raise InvalidToolCall(f"Cell with index {at} does not exist in notebook.")
    return at


def _make_cell(notebook: Json, arguments: NotebookEditArguments, call_id: str) -> Json:
    cell: Json = {"cell_type": arguments.cell_type}
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    version = (notebook.get("nbformat"), notebook.get("nbformat_minor"))
    if all(isinstance(part, int) for part in version) and version >= (4, 5):  # older formats have no cell ids
        taken = {cell.get("id") for cell in cells}
        # Derived from the call, not random: the same call makes the same file.
        ids = (hashlib.sha256(f"{call_id} {number}".encode()).hexdigest()[:8] for number in range(len(cells) + 1))
        cell["id"] = next(id for id in ids if id not in taken)
    cell["metadata"] = {}
    if arguments.cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": _encode_source(arguments.new_source, cells[0].get("source") if cells else [])}


def _replace_source(cell: Json, arguments: NotebookEditArguments) -> None:
    cell["source"] = _encode_source(arguments.new_source, cell.get("source"))
    if arguments.cell_type is not None:
        cell["cell_type"] = arguments.cell_type
    if cell.get("cell_type") == "code":
        cell |= {"execution_count": None, "outputs": []}
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


def _encode_source(text: str, like: object) -> str | list[str]:
    """Return a source as one text or as a list of lines, as another source is."""
    return [line for line in re.split(r"(?<=\n)", text) if line] if isinstance(like, list) else text


def _encode(notebook: Json, old: bytes) -> bytes:
    indent = re.match(rb"\s*\{\r?\n([ ]*)", old)
    new = msgspec.json.format(msgspec.json.encode(notebook), indent=len(indent[1]) if indent else 1)
    return new + b"\n" if old.endswith(b"\n") else new
