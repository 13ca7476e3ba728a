"""NotebookEdit: a cell of a notebook in, the notebook with the cell replaced, added or gone out.

Rules
  1. A notebook that was not read, or has changed since, is not changed.
  2. What is not meant keeps its values and their order; the file keeps its indentation, and sources their form.
  3. A cell whose code is replaced has no outputs any more; a cell that is not code never has.

[merged: cells.py] The cells of a notebook: bytes in, cells and the blocks a model is shown of them out.

Rules
  1. A notebook may have any shape: what is no cell is passed over, what is no source is empty.
  2. A cell that has no id goes by its place: `cell-0`, `cell-1`, …
  3. Outputs that are too long, or are pictures nobody could show, are named and not shown.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from unspool.client.permissions.paths import resolved
from unspool.client.tool_context import Desk
from unspool.client.tools.base import Asked, BadCall, Outcome, aim, parse, schema
from unspool.client.tools.files import text_file as disk
from unspool.client.tools.files.edit import change, checked, current
from unspool.client.tools.files.media import shown_picture
from unspool.client.tools.files.text_file import decoded

Json: TypeAlias = dict[str, Any]

_LONGEST = 10_000
"""Characters of one cell's outputs, pictures not counted."""


def notebook_of(data: bytes) -> Json:
    """Return a notebook as it is written."""
    try:
        notebook = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadCall("Notebook is not valid JSON.") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise BadCall("Notebook has no cells: only notebooks of format 4 and newer can be read.")
    return notebook


def cells_of(data: bytes) -> list[Json]:
    """Return the cells as the program tells of them."""
    notebook = notebook_of(data)
    language = language_of(notebook)
    return [_cell(cell, at, language) for at, cell in enumerate(notebook["cells"]) if isinstance(cell, dict)]


def blocks_of(cells: Iterable[Json]) -> list[Json]:
    """Return what a model is shown of cells: texts, and the pictures among their outputs."""
    blocks: list[Json] = []
    for block in (block for cell in cells for block in _blocks(cell)):
        if blocks and block["type"] == blocks[-1]["type"] == "text":
            blocks[-1] = {"type": "text", "text": f"{blocks[-1]['text']}\n{block['text']}"}
        else:
            blocks.append(block)
    return blocks or [{"type": "text", "text": "The notebook has no cells."}]


def language_of(notebook: Json) -> str:
    """Return the language of a notebook's code."""
    metadata = notebook.get("metadata")
    about = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    return name if isinstance(name, str) else "python"


def source_of(cell: Json) -> str:
    """Return what is in a cell: one text, or a list of lines."""
    return _joined(cell.get("source"))


def _cell(cell: Json, at: int, language: str) -> Json:
    kind, count = cell.get("cell_type"), cell.get("execution_count")
    told: Json = {"cellType": kind if isinstance(kind, str) else "raw", "source": source_of(cell)}
    if isinstance(count, int):
        told["execution_count"] = count
    told["cell_id"] = cell["id"] if isinstance(cell.get("id"), str) else f"cell-{at}"
    if kind != "code":
        return told
    told["language"] = language
    given = cell.get("outputs")
    outputs = [_output(output) for output in given if isinstance(output, dict)] if isinstance(given, list) else []
    if sum(len(output.get("text", "")) for output in outputs) > _LONGEST:
        text = f"Outputs are too large to include. Use Bash with: cat <notebook_path> | jq '.cells[{at}].outputs'"
        outputs = [{"output_type": "stream", "text": text}]
    return told | ({"outputs": outputs} if outputs else {})


def _output(output: Json) -> Json:
    match output.get("output_type"):
        case "stream":
            return {"output_type": "stream", "text": _joined(output.get("text"))}
        case "execute_result" | "display_data" as kind:
            data = output.get("data")
            data = data if isinstance(data, dict) else {}
            told: Json = {"output_type": kind, "text": _joined(data.get("text/plain"))}
            return told | _image(data)
        case "error":
            trace = output.get("traceback")
            lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
            return {
                "output_type": "error",
                "text": "\n".join([f"{output.get('ename', '')}: {output.get('evalue', '')}", *lines]),
            }
        case kind:
            return {"output_type": kind if isinstance(kind, str) else "unknown", "text": ""}


def _image(data: Json) -> Json:
    for media_type in ("image/png", "image/jpeg"):
        if text := _joined(data.get(media_type)):
            try:
                shown = shown_picture(b64decode("".join(text.split()), validate=True))
            except (ValueError, BadCall):
                return {"text": f"[{media_type}: a picture that cannot be shown]"}
            return {"image": {"image_data": shown.base64, "media_type": shown.media_type}}
    return {}


def _blocks(cell: Json) -> Iterator[Json]:
    kind = "" if cell["cellType"] == "code" else f"<cell_type>{cell['cellType']}</cell_type>"
    other = cell.get("language", "python") != "python"
    kind += f"<language>{cell['language']}</language>" if other else ""
    id = cell["cell_id"]
    yield {"type": "text", "text": f'<cell id="{id}">{kind}{cell["source"]}</cell id="{id}">'}
    for output in cell.get("outputs", []):
        if output.get("text"):
            yield {"type": "text", "text": f"\n{output['text']}"}
        if image := output.get("image"):
            source = {"type": "base64", "data": image["image_data"], "media_type": image["media_type"]}
            yield {"type": "image", "source": source}


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


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
