"""A session as one HTML file that needs nothing else: no server, no network, no other file.

Rules
  1. Outline, rows and texts are plain HTML: the file can be read without JavaScript. What is opened (details, agents)
     is compressed, a batch at a time, and decompressed when it is opened. So are the script itself, which would be a
     sixth of a short session's file, and the styles of what it opens.
  2. Nothing is fetched, and the file itself declares that (CSP): scripts and styles are named by their hashes.
  3. Compressed data is written in letters without `<`: nothing from a transcript can end the element it stands in.
  4. The file is written in pieces: of a long session no more than a batch is held, of a short one (16 MB) its lines and
     rows, which are needed twice.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode, b85encode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from markupsafe import Markup

from unspool.display import size
from unspool.errors import UnspoolError
from unspool.export import Depth, decode_line, json_data
from unspool.home import Session
from unspool.page.detail import RawRecord, StepDetail, read_detail
from unspool.page.html.line_numbers import drop_line_numbers
from unspool.page.html.render import PageLinks, Renderer, template_environment
from unspool.page.html.standalone_review import describe_review, digest_patch
from unspool.page.line_reader import MAX_HELD_BYTES
from unspool.page.rows import TranscriptRow, walk_rows
from unspool.page.sections import split_into_batches
from unspool.page.view import PageView
from unspool.prices import Price

_STYLES = ("tokens.css", "session.css")
_OPENED_STYLES = ("opened.css", "alone.css")
"""For what the script opens: without it nothing needs them."""
_SCRIPTS = (
    "address.js", "sight.js", "copy.js", "alone.js", "chart.js", "source.js", "review_alone.js", "window.js",
    "drawer.js", "steps.js", "shortcuts.js", "session.js",
)  # fmt: skip
_IMPORT = re.compile(r"^import .*$\n?", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
PAGE_STYLE = "body{margin:0;background:var(--bg)}"
_MAX_VALUE_AT_ALL, _MAX_VALUE = 65_536, 240
"""Characters of one compressed value: at the greatest depth, and else. What is rendered has it in full."""
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_OPEN_KINDS = frozenset({"prompt", "answer", "thought"})
"""Rows whose text is in the page."""
_MARGIN = re.compile(r"\n\s*")


class StandaloneLinks(PageLinks, frozen=True):
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

    def find(self, _: str) -> str:
        """Return the place of the rows: the script looks for the words."""
        return "#rows"

    def agent_page(self, id: str) -> str:
        """Return the place of the agents."""
        return "#agents"


def render_standalone(
    session: Session, *, depth: Depth = Depth.STEPS, turns: range | None = None, prices: Sequence[Price] = ()
) -> Iterator[str]:
    """Yield the file, a piece at a time; `prices` are the user's own."""
    return render_view(PageView.read(session, prices=prices), depth=depth, turns=turns)


def render_view(
    view: PageView, *, depth: Depth = Depth.STEPS, turns: range | None = None, navigation: str = ""
) -> Iterator[str]:
    """Yield the file of a session that has been read; `navigation` is HTML that comes before the session."""
    if view.index.end <= MAX_HELD_BYTES:  # rows are read for the page and again for what they open (rule 4)
        view.sections.hold()
    renderer = Renderer(StandaloneLinks("", ""), standalone=True)
    style, script, unpacker = PAGE_STYLE + load_style(*_STYLES), load_script(*_SCRIPTS), load_script("unpack.js")
    opened_style = load_style(*_OPENED_STYLES)
    template = template_environment().get_template("single.html")
    yield template.render(
        title=view.outline().head.title or view.session.id,
        policy=content_policy((style, opened_style), (unpacker, script)),
        style=Markup(style),  # our own files
        navigation=navigation,
        body=renderer.page(view, depth, turns),
    )
    yield from _DetailWriter(view, renderer, depth).write(turns)
    for name, text in (("style", opened_style), ("script", script)):
        packed = b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
        yield Markup('<script type="application/octet-stream" id="packed-{}">{}</script>\n').format(name, packed)
    yield Markup('<script type="module">{}</script>\n</body>\n</html>\n').format(Markup(unpacker))


class _DetailWriter:
    """Writes compressed elements with what can be opened, and each image once."""

    def __init__(self, view: PageView, renderer: Renderer, depth: Depth) -> None:
        self._view = view
        self._renderer = renderer
        self._depth = depth
        self._images: dict[str, None] = {}
        """Digests of images that were seen and not yet written, in order."""
        self._written_images: set[str] = set()
        self._agents: deque[str] = deque()
        """Agents whose calls were seen."""
        self._written_agents: set[str] = set()
        self._patches: dict[str, int] = {}
        """Hashes of the diffs that steps show, by their keys."""

    def write(self, turns: range | None) -> Iterator[str]:
        """Yield the table of agents, the details of turns, and the agents that were started in them."""
        view = self._view
        if view.session.agent_sources:
            yield _compressed("agents", {"rows": self._renderer.agents(view.agents.read_tree())})
        for batch in split_into_batches(view.index):
            if batch.has(turns):
                if view.index.end > MAX_HELD_BYTES:
                    view.lines.hold()
                sections = view.sections.read_batch(batch, self._depth)
                rows = [row for section in sections if turns is None or section.number in turns for row in section.rows]
                yield _compressed(f"block-{batch.id}", {"steps": self._steps(rows)})
                yield from self._write_images(view)
        while self._agents:
            id = self._agents.popleft()
            if id in self._written_agents:
                continue
            self._written_agents.add(id)
            try:
                agent = view.open_agent(id)
            except UnspoolError:
                continue
            agent.lines.hold()
            rows = [row for section in agent.sections.read_turns(None, self._depth) for row in section.rows]
            yield _compressed(f"agent-{id}", {"steps": self._steps(rows), "rows": self._renderer.rows(rows)})
            yield from self._write_images(agent)
        if self._depth >= Depth.STEPS and view.outline().head.files:
            yield _compressed("review", describe_review(view, self._patches, turns))

    def _write_images(self, view: PageView) -> Iterator[str]:
        element = Markup('<script type="application/octet-stream" id="blob-{}" data-mime="{}">{}</script>\n')
        for digest in self._images:
            image = view.image(digest) if digest not in self._written_images else None
            if image is not None:
                self._written_images.add(digest)
                yield element.format(digest, image.mime, b64encode(image.data).decode())
        self._images.clear()

    def _steps(self, rows: Iterable[TranscriptRow]) -> dict[str, Any]:
        """Return the details of rows by their keys; note their agents and images."""
        steps: dict[str, Any] = {}
        for row in walk_rows(tuple(rows)):
            if row.agent and row.agent not in self._written_agents:
                self._agents.append(row.agent)
            self._images |= dict.fromkeys(image.digest for image in row.pictures)
            if row.kind not in ("fold", "inside"):
                steps[row.key] = self._step(row)
        return steps

    def _step(self, row: TranscriptRow) -> dict[str, Any]:
        try:
            detail = read_detail(self._view, row.key, row=row)
        except UnspoolError:
            return {"html": "", "raw": []}
        if (digest := digest_patch(detail)) is not None:
            self._patches[row.key] = digest
        view, offset, number = self._view.locate(row.key)
        has_all = row.kind in _OPEN_KINDS and not row.is_cut and not row.pictures
        body = "" if has_all else self._rendered_tab(detail)
        step: dict[str, Any] = {"html": body, "raw": [self._raw(view, raw) for raw in detail.raw]}
        call = view.sections.read_call(offset, number) if detail.input is not None else None
        if call is not None:
            line = decode_line(call.result_entry) if call.result_entry else {}
            tabs = {
                "input": call.input,
                "result": json_data.find_block(line, "tool_use_id", call.id).get("content"),
                "structured": line.get("toolUseResult"),
            }
            longest = _MAX_VALUE_AT_ALL if self._depth is Depth.ALL else _MAX_VALUE
            step |= {name: _shorten(value, longest) for name, value in tabs.items() if value is not None}
        return step

    def _raw(self, view: PageView, raw: RawRecord) -> dict[str, Any]:
        """Return where a record of a step stands, and at the greatest depth the record itself."""
        place: dict[str, Any] = {"at": raw.offset}
        if view.agent_id:
            place["in"] = raw.path
        if self._depth is Depth.ALL:
            entry = view.lines.read_entry(raw.offset)
            place["record"] = _shorten(decode_line(entry), _MAX_VALUE_AT_ALL) if entry else raw.text
        return place

    def _rendered_tab(self, detail: StepDetail) -> str:
        """Return the rendered tab of a detail without head and tabs: the script makes those."""
        return drop_line_numbers(self._renderer.detail(detail, bare=True).strip())


def _compressed(name: str, content: Mapping[str, Any]) -> str:
    """Return an element that holds compressed JSON."""
    data = gzip.compress(msgspec.json.encode(content, enc_hook=str), 9, mtime=0)
    # Base85 takes five letters for four bytes; its `<` is replaced by a letter that it does not use (rule 3).
    letters = Markup(b85encode(data).decode().replace("<", ","))
    return Markup('<script type="application/octet-stream" id="pack-{}">{}</script>\n').format(name, letters)


def _shorten(value: Any, longest: int, depth: int = 0) -> Any:
    """Return a value without texts that are too long for the file."""
    if isinstance(value, str):
        if len(value) <= longest:
            return value
        # A long text without a space is no prose but encoded data: its beginning says nothing.
        return f"{value[:longest]} … ({size(len(value))} in all)" if " " in value[:512] else f"[{size(len(value))}]"
    if depth > 60:
        return "…"
    if isinstance(value, dict):
        return {name: _shorten(inner, longest, depth + 1) for name, inner in value.items()}
    return [_shorten(inner, longest, depth + 1) for inner in value] if isinstance(value, list) else value


def _read_static(name: str) -> str:
    return files("unspool.page").joinpath("static", name).read_text("utf-8")


def load_style(*names: str) -> str:
    """Return style sheets as one."""
    text = _minify(_STYLE_COMMENT.sub("", "\n".join(map(_read_static, names))))
    return re.sub(r" ?([{};,>]) ?", r"\1", text).replace(": ", ":").replace(";}", "}").replace("\n", "")


def load_script(*names: str) -> str:
    """Return modules as one: what they import from each other stands above."""
    texts = map(_read_static, names)
    return _minify("\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in texts))


def _minify(text: str) -> str:
    """Return a text of ours without comments and margins."""
    return _MARGIN.sub("\n", _COMMENT.sub("", text)).strip()


def content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that lets a page run these scripts and use these styles, and fetch nothing."""
    return (
        f"default-src 'none'; script-src {' '.join(map(_hash_source, scripts))}; "
        f"style-src {' '.join(map(_hash_source, styles))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
