"""A session as one HTML file that needs nothing else: no server, no network, no other file.

Rules
  1. Outline, rows and texts are plain HTML: the file can be read without JavaScript. What is opened (details, agents)
     is packed, a block at a time, and unpacked when it is asked for.
  2. Nothing is fetched, and the file says so itself (CSP): scripts and styles are named by their hashes.
  3. Packed blocks are base64: nothing from a transcript can end the element they stand in.
  4. It is written a piece at a time: of a long session no more than a block is held.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from unspool.errors import UnspoolError
from unspool.export.data import original
from unspool.export.depth import Depth
from unspool.export.figures import size
from unspool.export.page.detail import Detail
from unspool.export.page.html import Links, Renderer, environment
from unspool.export.page.row import Row, each
from unspool.export.page.view import View
from unspool.format.entry import Entry
from unspool.home import Session

_STYLES = ("tokens.css", "session.css")
_SCRIPTS = ("source.js", "window.js", "drawer.js", "steps.js", "follow.js", "session.js")
_IMPORT = re.compile(r"^import .*$\n?", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_PAGE = "body{margin:0;background:var(--bg)}"
_LONGEST = 16_384
"""Characters of one value in a packed record: the whole of it is in the session's own file."""


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
            return {"head": "", "html": "", "raw": []}
        view, offset, block = self._view.split(row.key)
        call = view.call_at(offset, block)
        raws = []
        for raw in detail.raw:
            entry = view.lines.entry(raw.offset)
            record = _shortened(original(entry)) if isinstance(entry, Entry) else raw.text
            raws.append({"place": f"{raw.path}:{raw.offset}", "record": record})
        head, body = self._faces(detail)
        return {"head": head, "html": body, "call": call.id if call else None, "raw": raws}

    def _faces(self, detail: Detail) -> tuple[str, str]:
        """Return the head of a detail, and its rendered face without the tabs: the script makes the others."""
        head, _, rest = self._renderer.detail(detail).partition('<nav class="tabs">')
        _, _, body = rest.partition("</nav>")
        return head.partition(">")[2], body.rpartition("</div>")[0]


def pack(name: str, content: Mapping[str, Any]) -> str:
    """Return an element that holds something packed."""
    packed = b64encode(gzip.compress(msgspec.json.encode(content, enc_hook=str), 9, mtime=0)).decode()
    return Markup('<script type="application/octet-stream" id="pack-{}">{}</script>\n').format(name, packed)


def _shortened(value: Any, depth: int = 0) -> Any:
    """Return a record without what is too long for a page."""
    if isinstance(value, str):
        if len(value) <= _LONGEST:
            return value
        return f"{value[:_LONGEST]} … ({size(len(value))} in all)" if " " in value[:512] else f"[{size(len(value))}]"
    if depth > 60:
        return "…"
    if isinstance(value, dict):
        return {name: _shortened(one, depth + 1) for name, one in value.items()}
    return [_shortened(one, depth + 1) for one in value] if isinstance(value, list) else value


def _style() -> str:
    static = files("unspool.export.page").joinpath("static")
    return "\n".join([_PAGE, *(static.joinpath(name).read_text("utf-8") for name in _STYLES)])


def _script() -> str:
    """Return the modules as one: what they import from each other stands above."""
    static = files("unspool.export.page").joinpath("static")
    texts = [static.joinpath(name).read_text("utf-8") for name in _SCRIPTS]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
