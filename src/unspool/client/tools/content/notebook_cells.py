"""Decode the cells of a Jupyter notebook, and turn them into the content blocks that a model sees. Pure.

Rules
  1. A notebook may have any shape: what is no cell is skipped, what is no source is empty.
  2. A cell that has no id goes by its index: `cell-0`, `cell-1`, …
  3. Outputs that are too long, and images that the API would refuse, are named and not shown.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator

import msgspec

from unspool.client.tool_result import InvalidToolCall, Json
from unspool.client.tools.content.media import make_image_block

_MAX_OUTPUTS = 10_000
"""Characters of one cell's outputs, images not counted."""


def decode_notebook(data: bytes) -> Json:
    """Return a notebook as its file has it."""
    try:
        notebook = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidToolCall("Notebook is not valid JSON.") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise InvalidToolCall("Notebook has no cells: only notebooks of format 4 and newer can be read.")
    return notebook


def decode_cells(data: bytes) -> list[Json]:
    """Return the cells of a notebook in the shape of Claude Code's `toolUseResult`."""
    notebook = decode_notebook(data)
    language = notebook_language(notebook)
    return [_decode_cell(cell, at, language) for at, cell in enumerate(notebook["cells"]) if isinstance(cell, dict)]


def make_cell_blocks(cells: Iterable[Json]) -> list[Json]:
    """Return what a model sees of cells: texts, and the images among their outputs."""
    blocks: list[Json] = []
    for block in (block for cell in cells for block in _cell_blocks(cell)):
        if blocks and block["type"] == blocks[-1]["type"] == "text":
            blocks[-1] = {"type": "text", "text": f"{blocks[-1]['text']}\n{block['text']}"}
        else:
            blocks.append(block)
    return blocks or [{"type": "text", "text": "The notebook has no cells."}]


def notebook_language(notebook: Json) -> str:
    """Return the language of a notebook's code."""
    metadata = notebook.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else "python"


def _decode_cell(cell: Json, at: int, language: str) -> Json:
    kind, count = cell.get("cell_type"), cell.get("execution_count")
    decoded: Json = {"cellType": kind if isinstance(kind, str) else "raw", "source": _join(cell.get("source"))}
    if isinstance(count, int):
        decoded["execution_count"] = count
    decoded["cell_id"] = cell["id"] if isinstance(cell.get("id"), str) else f"cell-{at}"
    if kind != "code":
        return decoded
    decoded["language"] = language
    items = cell.get("outputs")
    outputs = [_decode_output(item) for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    if sum(len(output.get("text", "")) for output in outputs) > _MAX_OUTPUTS:
        text = f"Outputs are too large to include. Use Bash with: cat <notebook_path> | jq '.cells[{at}].outputs'"
        outputs = [{"output_type": "stream", "text": text}]
    return decoded | ({"outputs": outputs} if outputs else {})


def _decode_output(output: Json) -> Json:
    match output.get("output_type"):
        case "stream":
            return {"output_type": "stream", "text": _join(output.get("text"))}
        case "execute_result" | "display_data" as kind:
            data = output.get("data")
            data = data if isinstance(data, dict) else {}
            return {"output_type": kind, "text": _join(data.get("text/plain")), **_decode_image(data)}
        case "error":
            trace = output.get("traceback")
            lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
            text = "\n".join([f"{output.get('ename', '')}: {output.get('evalue', '')}", *lines])
            return {"output_type": "error", "text": text}
        case kind:
            return {"output_type": kind if isinstance(kind, str) else "unknown", "text": ""}


def _decode_image(data: Json) -> Json:
    for media_type in ("image/png", "image/jpeg"):
        if text := _join(data.get(media_type)):
            try:
                image = make_image_block(b64decode("".join(text.split()), validate=True))
            except (ValueError, InvalidToolCall):
                return {"text": f"[{media_type}: a picture that cannot be shown]"}
            return {"image": {"image_data": image.base64, "media_type": image.media_type}}
    return {}


def _cell_blocks(cell: Json) -> Iterator[Json]:
    kind = "" if cell["cellType"] == "code" else f"<cell_type>{cell['cellType']}</cell_type>"
    if cell.get("language", "python") != "python":
        kind += f"<language>{cell['language']}</language>"
    id = cell["cell_id"]
    yield {"type": "text", "text": f'<cell id="{id}">{kind}{cell["source"]}</cell id="{id}">'}
    for output in cell.get("outputs", []):
        if output.get("text"):
            yield {"type": "text", "text": f"\n{output['text']}"}
        if image := output.get("image"):
            source = {"type": "base64", "data": image["image_data"], "media_type": image["media_type"]}
            yield {"type": "image", "source": source}


def _join(value: object) -> str:
    """Return a text that a notebook holds as one text or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
