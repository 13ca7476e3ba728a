"""Writes sessions to a folder of HTML files: a page for each session, and an index that can be searched.

Rules
  1. A page is written again only if a file of its session has changed, or the links, the depth or the version of
     unspool. `PAGES_FILE` remembers what each page was made from.
  2. The page of a session that is gone stays, and stays in the index: an export is often what is left of it.
  3. Only a new or empty folder, or one that an earlier export wrote, is written to. Only the user can read it.
  4. The index can be read without JavaScript; with it, typing filters the list. No page fetches anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from unspool import __version__
from unspool.errors import Refused, UnspoolError
from unspool.export import Depth
from unspool.files import create_atomically, make_folder, read_whole, write_atomically
from unspool.format import DECODE_ERRORS
from unspool.home import Session
from unspool.page.html.render import template_environment
from unspool.page.html.standalone import PAGE_STYLE, content_policy, load_script, load_style, render_view
from unspool.page.view import PageView
from unspool.prices import Price
from unspool.store.catalog import parse_beginning

INDEX_FILE = "index.html"
PAGES_FILE = "unspool-export.json"
PAGES_FOLDER = "sessions"
_MAX_PAGES_FILE = 256 * 1024 * 1024
_FORMAT = 1
_HEAD_BYTES = 256 * 1024
"""How much of a file is searched for its first message."""
_SEARCHED_CHARACTERS = 4000
"""Of the prompts of a session: what the search of the index finds."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class CollectedSession(NamedTuple):
    """A session that is to be written, and what the index says of it."""

    session: Session
    title: str
    project: str | None
    started: str | None
    last: str | None
    turns: int
    cost_micros: int | None
    unpriced_tokens: int = 0


class ExportedPage(msgspec.Struct):
    """A page in the folder, as `PAGES_FILE` and the index have it."""

    id: str
    path: str
    """The session's own file."""
    file: str
    """The name of the page in `PAGES_FOLDER`."""
    stamp: str
    """A digest of what the page was made from."""
    title: str = ""
    project: str | None = None
    started: str | None = None
    last: str | None = None
    turns: int = 0
    agents: int = 0
    cost_micros: int | None = None
    unpriced_tokens: int = 0
    forked_from: str | None = None
    """The id of the session that its lines were copied from, where they say so."""
    beginning: str | None = None
    """The uuid and time of its first message: forks that say nothing of their origin share it."""
    prompts: str = ""


class _PagesFile(msgspec.Struct):
    format: int = _FORMAT
    pages: list[ExportedPage] = []


class WrittenPages(NamedTuple):
    """What was done."""

    index_page: Path
    written: int
    unchanged: int
    failed: list[tuple[Path, str]]
    """Sessions that could not be read, and why."""


def write_collection(
    sessions: Sequence[CollectedSession],
    folder: Path,
    *,
    depth: Depth = Depth.STEPS,
    prices: Sequence[Price] = (),
    on_page: Callable[[], None] = lambda: None,
) -> WrittenPages:
    """Write a page for each session that has changed, and the index of all pages."""
    known = _prepare_folder(folder)
    plans = _plan_pages(sessions, known, depth)
    links = _PageLinks({**known, **{page.path: page for page in plans}})
    pages, failed, written = dict(known), list[tuple[Path, str]](), 0
    for collected, page in zip(sessions, plans, strict=True):
        target = folder / PAGES_FOLDER / page.file
        page.stamp = _digest(page.stamp, links.of(page), prices)
        before = known.get(page.path)
        if before is not None and before.stamp == page.stamp and target.exists():
            page.prompts = before.prompts
            pages[page.path] = page
        else:
            try:
                page.prompts = _write_page(collected.session, target, depth, links.of(page), prices)
            except UnspoolError as error:
                failed.append((collected.session.path, error.reason))
            else:
                pages[page.path] = page
                written += 1
        on_page()
    ordered = sorted(pages.values(), key=lambda page: (page.last or "", page.id), reverse=True)
    write_atomically(folder / INDEX_FILE, _render_index(ordered, folder, links).encode())
    # Last: after an interruption the next run writes the pages again that are not in it.
    write_atomically(folder / PAGES_FILE, msgspec.json.format(msgspec.json.encode(_PagesFile(pages=ordered))))
    return WrittenPages(folder / INDEX_FILE, written, len(plans) - written - len(failed), failed)


def _prepare_folder(folder: Path) -> dict[str, ExportedPage]:
    """Make the folder if it is not there; return the pages in it, by the path of the session's file."""
    if folder.exists() and not (folder / PAGES_FILE).exists() and (not folder.is_dir() or any(folder.iterdir())):
        hint = "name a new folder, or one that an earlier export wrote"
        raise Refused(f"`{folder}` exists and is not an export of unspool", hint=hint)
    make_folder(folder / PAGES_FOLDER)
    try:
        found = msgspec.json.decode(read_whole(folder / PAGES_FILE, _MAX_PAGES_FILE), type=_PagesFile)
    except (*DECODE_ERRORS, UnspoolError, OSError):  # no export yet, or a damaged one: all pages are written again
        return {}
    # A page's name comes from a file that others may have changed: no page is looked for outside of the folder.
    return {page.path: page for page in found.pages if page.file == Path(page.file).name and found.format == _FORMAT}


def _plan_pages(
    sessions: Iterable[CollectedSession], known: Mapping[str, ExportedPage], depth: Depth
) -> list[ExportedPage]:
    """Return the page of each session, with a stamp of its files and its depth."""
    taken = {page.file: path for path, page in known.items()}
    pages = []
    for collected in sessions:
        session = collected.session
        path = str(session.own_path)
        before = known.get(path)
        sources = [session.source, *session.agent_sources]
        files = [(source.place, source.size, source.modified) for source in sources]
        file = before.file if before else _free_name(session.id, path, taken)
        taken[file] = path
        forked_from, beginning = _read_beginning(session)
        pages.append(
            ExportedPage(
                id=session.id,
                path=path,
                file=file,
                stamp=_digest(__version__, depth.name, files),
                title=collected.title,
                project=collected.project,
                started=collected.started,
                last=collected.last,
                turns=collected.turns,
                agents=len(session.agent_sources),
                cost_micros=collected.cost_micros,
                unpriced_tokens=collected.unpriced_tokens,
                forked_from=forked_from,
                beginning=beginning,
            )
        )
    return pages


def _free_name(id: str, path: str, taken: Mapping[str, str]) -> str:
    """Return a file name for the page of a session. Two projects may have sessions with one id."""
    name = f"{_UNSAFE.sub('_', id)[:100]}.html"
    return name if taken.get(name, path) == path else f"{name.removesuffix('.html')}-{_digest(path)[:8]}.html"


def _read_beginning(session: Session) -> tuple[str | None, str | None]:
    """Return the session that this one was forked from, if its first message says so, and that message."""
    try:
        head = session.home.reader.part(session.path, 0, _HEAD_BYTES)
    except (UnspoolError, OSError):
        return None, None
    # The last line may be the beginning of one that is longer than the head.
    lines = head.splitlines() if len(head) < _HEAD_BYTES else head.splitlines()[:-1]
    found = next(filter(None, map(parse_beginning, lines)), None)
    return (found.forked_from, found.message) if found else (None, None)


class _PageLinks:
    """Finds the pages that a page links to: the session it was forked from, its forks, and others that begin alike."""

    def __init__(self, pages: Mapping[str, ExportedPage]) -> None:
        self._by_id = {page.id: page for page in pages.values()}
        self._forks: dict[str, list[ExportedPage]] = {}
        self._alike: dict[str, list[ExportedPage]] = {}
        for page in pages.values():
            if page.forked_from:
                self._forks.setdefault(page.forked_from, []).append(page)
            if page.beginning:
                self._alike.setdefault(page.beginning, []).append(page)

    def of(self, page: ExportedPage) -> list[tuple[str, str, str]]:
        """Return what each linked page is, its file and its title."""
        linked: dict[str, tuple[str, ExportedPage]] = {}
        if origin := self._by_id.get(page.forked_from or ""):
            linked[origin.file] = ("forked from", origin)
        for fork in self._forks.get(page.id, []):
            linked.setdefault(fork.file, ("fork", fork))
        for other in self._alike.get(page.beginning or "", []):
            linked.setdefault(other.file, ("same beginning as", other))
        linked.pop(page.file, None)
        return [(what, file, other.title or other.id) for file, (what, other) in sorted(linked.items())]


def _write_page(
    session: Session, target: Path, depth: Depth, links: Sequence[tuple[str, str, str]], prices: Sequence[Price]
) -> str:
    """Write the page of a session; return its prompts, for the search."""
    view = PageView.read(session, prices=prices)
    navigation = Markup('<nav class="collection"><a href="../{}">All sessions</a>').format(INDEX_FILE)
    for what, file, title in links:
        navigation += Markup(' · {} <a href="{}">{}</a>').format(what, file, title[:80])
    pieces = render_view(view, depth=depth, navigation=navigation + Markup("</nav>\n"))
    target.unlink(missing_ok=True)
    create_atomically(target, (piece.encode() for piece in pieces))
    return " ".join(turn.prompt for turn in view.outline().turns)[:_SEARCHED_CHARACTERS]


def _render_index(pages: Sequence[ExportedPage], folder: Path, links: _PageLinks) -> str:
    style, script = PAGE_STYLE + load_style("tokens.css", "collection.css"), load_script("collection.js")
    present = [page for page in pages if (folder / PAGES_FOLDER / page.file).exists()]
    template = template_environment().get_template("collection.html")
    return template.render(
        policy=content_policy((style,), (script,)),
        style=Markup(style),  # our own files
        script=Markup(script),
        folder=PAGES_FOLDER,
        pages=[(page, links.of(page)) for page in present],
    )


def _digest(*parts: object) -> str:
    return sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()
