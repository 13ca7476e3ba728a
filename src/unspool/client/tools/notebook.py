"""NotebookEdit: a cell of a notebook in, the notebook with the cell replaced, added or gone out.

Rules
  1. A notebook that was not read, or has changed since, is not changed.
  2. What is not meant keeps its values and their order; the file keeps its indentation, and sources their form.
  3. A cell whose code is replaced has no outputs any more; a cell that is not code never has.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from unspool.client.desk import Desk
from unspool.client.places import resolved
from unspool.client.tools import disk
from unspool.client.tools.cells import language_of, notebook_of
from unspool.client.tools.change import change, checked, current
from unspool.client.tools.inputs import Asked, aim, parse, schema
from unspool.client.tools.text import decoded
from unspool.client.tools.tool import BadCall, Outcome

Json: TypeAlias = dict[str, Any]

_BY_PLACE = re.compile(r"(?:cell-)?(\d+)")


class NotebookEditInput(Asked, frozen=True):
    """Change a cell."""

    notebook_path: Annotated[str, Meta(description="Absolute path")]
    new_source: str
    cell_id: Annotated[str | None, Meta(description="To insert: the cell before; none: at the top")] = None
    cell_number: Annotated[int | None, Meta(description="Instead of cell_id, from 0")] = None
    cell_type: Literal["code", "markdown"] | None = None
    edit_mode: Literal["replace", "insert", "delete"] | None = None


class NotebookEdit:
    """The tool."""

    name = "NotebookEdit"
    description = "Replace, insert or delete a cell of a Jupyter notebook that was read."
    is_concurrent = False

    def __init__(self) -> None:
        self.input_schema = schema(NotebookEditInput)

    def target(self, input: Json) -> str:
        """Return the path."""
        return aim(input, "notebook_path")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Change it."""
        asked = parse(self.name, input, NotebookEditInput)
        checked(asked.new_source, "new_source")
        path = _checked(asked, desk)
        old = current(path, desk)
        notebook = notebook_of(old)
        cell, id = _changed(notebook, asked, call_id)
        new = _written(notebook, old)
        change(path, new, desk)
        mode = asked.edit_mode or "replace"
        words = {"replace": "Updated", "insert": "Inserted", "delete": "Deleted"}[mode]
        result = {
            "new_source": asked.new_source,
            "cell_type": cell.get("cell_type", "code"),
            "language": language_of(notebook),
            "edit_mode": mode,
            "cell_id": id,
            "error": "",
            "notebook_path": asked.notebook_path,
            "original_file": decoded(old).shown,
            "updated_file": decoded(new).shown,
        }
        return Outcome(
            content=f"{words} cell {id}" + ("" if mode == "delete" else f" with {asked.new_source}"), result=result
        )


def _checked(asked: NotebookEditInput, desk: Desk) -> Path:
    path = resolved(asked.notebook_path, desk)
    if path.suffix.lower() != ".ipynb":
        raise BadCall(
            "File must be a Jupyter notebook (.ipynb file). For editing other file types, use the FileEdit tool."
        )
    if asked.edit_mode == "insert" and asked.cell_type is None:
        raise BadCall("Cell type is required when using edit_mode=insert.")
    if disk.status(path) is None:
        raise BadCall("Notebook file does not exist.")
    return path


def _changed(notebook: Json, asked: NotebookEditInput, call_id: str) -> tuple[Json, str]:
    """Change a notebook, and return the cell with its id."""
    cells: list[Any] = notebook["cells"]
    at = _place(cells, asked)
    if asked.edit_mode == "insert":
        cell = _made(notebook, asked, call_id)
        at = 0 if at is None else at + 1
        cells.insert(at, cell)
    elif at is None:
        raise BadCall("Cell ID must be specified when not inserting a new cell.")
    elif not isinstance(cells[at], dict):
        raise BadCall(f"Cell with index {at} is not a cell.")
    elif asked.edit_mode == "delete":
        cell = cells.pop(at)
    else:
        cell = cells[at]
        _replace(cell, asked)
    return cell, cell["id"] if isinstance(cell.get("id"), str) else f"cell-{at}"


def _place(cells: list[Any], asked: NotebookEditInput) -> int | None:
    if asked.cell_id is None and asked.cell_number is None:
        return None
    if asked.cell_id is not None:
        for at, cell in enumerate(cells):
            if isinstance(cell, dict) and cell.get("id") == asked.cell_id:
                return at
        found = _BY_PLACE.fullmatch(asked.cell_id)
        if found is None:
            raise BadCall(f'Cell with ID "{asked.cell_id}" not found in notebook.')
        at = int(found[1])
    else:
        at = asked.cell_number or 0
    if not 0 <= at < len(cells):
        raise BadCall(f"Cell with index {at} does not exist in notebook.")
    return at


def _made(notebook: Json, asked: NotebookEditInput, call_id: str) -> Json:
    cell: Json = {"cell_type": asked.cell_type}
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    version = (notebook.get("nbformat"), notebook.get("nbformat_minor"))
    if all(isinstance(part, int) for part in version) and version >= (4, 5):
        taken = {cell.get("id") for cell in cells}
        ids = (hashlib.sha256(f"{call_id} {number}".encode()).hexdigest()[:8] for number in range(len(cells) + 1))
        cell["id"] = next(id for id in ids if id not in taken)
    cell["metadata"] = {}
    if asked.cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell | {"source": _source(asked.new_source, cells[0].get("source") if cells else [])}


def _replace(cell: Json, asked: NotebookEditInput) -> None:
    cell["source"] = _source(asked.new_source, cell.get("source"))
    if asked.cell_type is not None:
        cell["cell_type"] = asked.cell_type
    if cell.get("cell_type") == "code":
        cell |= {"execution_count": None, "outputs": []}
    else:
        cell.pop("execution_count", None)
        cell.pop("outputs", None)


def _source(text: str, like: object) -> str | list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line] if isinstance(like, list) else text


def _written(notebook: Json, old: bytes) -> bytes:
    indent = re.match(rb"\s*\{\r?\n([ ]*)", old)
    new = msgspec.json.format(msgspec.json.encode(notebook), indent=len(indent[1]) if indent else 1)
    return new + b"\n" if old.endswith(b"\n") else new
