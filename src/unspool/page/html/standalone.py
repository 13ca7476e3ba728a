"""A session as one HTML file that needs nothing else: no server, no network, no other file.

Rules
  1. Outline, rows and texts are plain HTML: the file can be read without JavaScript. What is opened (details, agents)
     is packed, a block at a time, and unpacked when it is asked for.
  2. Nothing is fetched, and the file says so itself (CSP): scripts and styles are named by their hashes.
  3. Packed blocks are letters without `<`: nothing from a transcript can end the element they stand in.
  4. It is written a piece at a time: of a long session no more than a block is held.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode, b85encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from unspool.display.units import size
from unspool.errors import UnspoolError
from unspool.export.depth import Depth
from unspool.export.json_data import original
from unspool.home import Session
from unspool.page.detail import Detail
from unspool.page.html.render import Links, Renderer, environment
from unspool.page.rows import Row, each
from unspool.page.view import View

_STYLES = ("tokens.css", "session.css")
_SCRIPTS = ("source.js", "window.js", "drawer.js", "steps.js", "session.js")
_IMPORT = re.compile(r"^import .*$\n?", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_PAGE = "body{margin:0;background:var(--bg)}"
_LONGEST, _LONG = 65_536, 240
"""Characters of one value in what is packed: at the greatest depth, and else. What is rendered has it in full."""
_COMMENT = re.compile(r"^\s*//.*$|^/\*.*?\*/$", re.MULTILINE)
_OPEN = frozenset({"prompt", "answer", "thought"})
"""Rows whose text is in the page."""
_MARGIN = re.compile(r"\n\s*")


class Alone(Links, frozen=True):
    """Addresses inside a file that stands alone."""

    def step(self, key: str) -> str:
        """Return the place of a row."""
        return f"#s-{key}"

    def turn(self, number: int) -> str:
        """Return the place of a turn."""
        return f"#t-{number}"

    def turns(self, first: int, _: int) -> str:
        """Return the place of the first of some turns."""
        return f"#t-{first}"

    def detail(self, key: str, _: str) -> str:
        """Return the place of a row."""
        return f"#s-{key}"

    def agent_page(self, id: str) -> str:
        """Return the place of the agents."""
        return "#agents"


def standalone(session: Session, *, depth: Depth = Depth.STEPS, turns: range | None = None) -> Iterator[str]:
    """Yield the file, a piece at a time."""
    view = View.read(session)
    renderer = Renderer(Alone("", ""), alone=True)
    style, script = _style(), _script()
    yield (
        environment()
        .get_template("single.html")
        .render(
            title=view.outline().head.title or session.id,
            policy=_policy(style, script),
            style=Markup(style),  # our own files
            body=renderer.page(view, depth, turns),
        )
    )
    packing = _Packing(view, renderer, depth)
    yield from packing.agents()
    for block in view.blocks():
        if block.has(turns):
            wanted = [one for one in view.block(block, depth) if turns is None or one.number in turns]
            yield packing.block(f"block-{block.id}", [row for section in wanted for row in section.rows])
            yield from packing.pictures()
    yield from packing.opened()
    yield Markup('<script type="module">{}</script>\n</body>\n</html>\n').format(Markup(script))


class _Packing:
    """Puts what can be opened into blocks, and each picture in once."""

    def __init__(self, view: View, renderer: Renderer, depth: Depth) -> None:
        self._view = view
        self._renderer = renderer
        self._depth = depth
        self._pictures: dict[str, None] = {}
        self._written: set[str] = set()
        self._agents: list[str] = []
        self._packed: set[str] = set()

    def block(self, name: str, rows: Iterable[Row], inner: Markup | None = None) -> str:
        """Return a packed block with the details of some rows."""
        among = list(rows)
        steps: dict[str, Any] = {}
        for row in each(tuple(among)):
            if row.agent and row.agent not in self._packed:
                self._agents.append(row.agent)
            self._pictures |= dict.fromkeys(picture.digest for picture in row.pictures)
            if row.kind not in ("fold", "inside"):
                steps[row.key] = self._step(row)
        content: dict[str, Any] = {"steps": steps}
        if inner is not None:
            content["rows"] = inner
        return pack(name, content)

    def agents(self) -> Iterator[str]:
        """Yield the table of agents."""
        if self._view.session.agent_sources:
            yield pack("agents", {"rows": self._renderer.agents(self._view.agents())})

    def opened(self) -> Iterator[str]:
        """Yield the agents whose calls were seen, and those that they started."""
        while self._agents:
            id = self._agents.pop(0)
            if id in self._packed:
                continue
            self._packed.add(id)
            try:
                agent = self._view.agent(id)
            except UnspoolError:
                continue
            rows = [row for section in agent.rows(None, self._depth) for row in section.rows]
            yield self.block(f"agent-{id}", rows, self._renderer.rows(rows))
            yield from self.pictures(agent)

    def pictures(self, view: View | None = None) -> Iterator[str]:
        """Yield the pictures that were seen since, each once."""
        for digest in self._pictures:
            blob = (view or self._view).blob(digest) if digest not in self._written else None
            if blob is not None:
                self._written.add(digest)
                block = '<script type="application/octet-stream" id="blob-{}" data-mime="{}">{}</script>\n'
                yield Markup(block).format(digest, blob.mime, b64encode(blob.data).decode())
        self._pictures.clear()

    def _step(self, row: Row) -> dict[str, Any]:
        try:
            detail = self._view.detail(row.key)
        except UnspoolError:
            return {"html": "", "raw": []}
        has_all = row.kind in _OPEN and not row.is_cut and not row.pictures
        body = "" if has_all else self._face(detail)
        step: dict[str, Any] = {"html": body, "raw": list(self._raw(row.key, detail))}
        view, offset, block = self._view.split(row.key)
        call = view.call_at(offset, block)
        if call is not None:
            given = original(call.result_entry) if call.result_entry else {}
            faces = {
                "input": call.input,
                "result": _content(given, call.id),
                "structured": given.get("toolUseResult"),
            }
            longest = _LONGEST if self._depth is Depth.ALL else _LONG
            step |= {name: _shortened(value, longest) for name, value in faces.items() if value is not None}
        return step

    def _raw(self, key: str, detail: Detail) -> Iterator[dict[str, Any]]:
        """Yield where the records of a step stand, and at the greatest depth the records themselves."""
        view, _, _ = self._view.split(key)
        for raw in detail.raw:
            place: dict[str, Any] = {"at": raw.offset}
            if view.agent_id:
                place["in"] = raw.path
            if self._depth is Depth.ALL:
                entry = view.lines.entry(raw.offset)
                place["record"] = _shortened(original(entry), _LONGEST) if entry else raw.text
            yield place

    def _face(self, detail: Detail) -> str:
        """Return the rendered face of a detail without head and tabs: the script makes those."""
        _, _, body = self._renderer.detail(detail).partition("</nav>")
        return body.rpartition("</div>")[0].strip()


def pack(name: str, content: Mapping[str, Any]) -> str:
    """Return an element that holds something packed."""
    data = gzip.compress(msgspec.json.encode(content, enc_hook=str), 9, mtime=0)
    return Markup('<script type="application/octet-stream" id="pack-{}">{}</script>\n').format(name, _letters(data))


def _letters(data: bytes) -> Markup:
    """Return bytes as letters, five for four bytes, that mean nothing in a script element."""
    return Markup(b85encode(data).decode().replace("<", ","))


def _content(line: Mapping[str, Any], id: str) -> Any:
    """Return the content of a result in a line."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    among = content if isinstance(content, list) else []
    found = (block for block in among if isinstance(block, dict) and block.get("tool_use_id") == id)
    return next((block.get("content") for block in found), None)


def _shortened(value: Any, longest: int, depth: int = 0) -> Any:
    """Return a value without what is too long for a page."""
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        return f"{value[:longest]} … ({size(len(value))} in all)" if " " in value[:512] else f"[{size(len(value))}]"
    if depth > 60:
        return "…"
    if isinstance(value, dict):
        return {name: _shortened(one, longest, depth + 1) for name, one in value.items()}
    return [_shortened(one, longest, depth + 1) for one in value] if isinstance(value, list) else value


def _style() -> str:
    static = files("unspool.page").joinpath("static")
    text = _tight("\n".join([_PAGE, *(static.joinpath(name).read_text("utf-8") for name in _STYLES)]))
    return re.sub(r" ?([{};,]) ?", r"\1", text).replace(": ", ":")


def _script() -> str:
    """Return the modules as one: what they import from each other stands above."""
    static = files("unspool.page").joinpath("static")
    texts = [static.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    return _tight("\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts))


def _tight(text: str) -> str:
    """Return a text of ours without comments and margins."""
    return _MARGIN.sub("\n", _COMMENT.sub("", text)).strip()


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
