"""The cells of a notebook: bytes in, cells and the blocks a model is shown of them out.

Rules
  1. A notebook may have any shape: what is no cell is passed over, what is no source is empty.
  2. A cell that has no id goes by its place: `cell-0`, `cell-1`, …
  3. Outputs that are too long, or are pictures nobody could show, are named and not shown.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from unspool.client.tools.media import shown_picture
from unspool.client.tools.tool import BadCall

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
