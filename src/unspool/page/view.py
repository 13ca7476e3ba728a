"""One session on a page: a `home.Session` in; outline, rows, details, chart, agents out. It grows with its file.

Rules
  1. Of the file only the index is held (`index.py`); lines are read again when they are shown.
  2. What is read in several goes is what would have been read at once. A line without its end waits for it, unless it
     is a whole document.
  3. A file that has become another is read anew, and the growth says so.
  4. The files of agents are read when somebody asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.errors import NotFound
from unspool.export.depth import Depth
from unspool.format.blocks import ToolResult
from unspool.format.codec import decode
from unspool.format.entry import Entry, Item
from unspool.format.records import User
from unspool.format.tools import parse
from unspool.graph.tool_calls import ToolCall
from unspool.home import Session
from unspool.page import outline
from unspool.page.chart import Request, requests
from unspool.page.images import Blob, blobs
from unspool.page.index import Index
from unspool.page.index_cache import Restored, packed, unpacked
from unspool.page.line_reader import Lines
from unspool.page.outline import Head, Outline
from unspool.page.rows import Block, Row, Section, blocks, each
from unspool.page.sections import Telling
from unspool.read.lines import MAX_LINE
from unspool.read.position import START, Change
from unspool.read.scan import Kind, Source, scan
from unspool.read.tail import pieces

if TYPE_CHECKING:  # loaded when asked for
    from unspool.page.agents import AgentTree, Crew
    from unspool.page.chart import Chart
    from unspool.page.detail import Detail
    from unspool.page.find import Match


class Fresh(msgspec.Struct, frozen=True):
    """A row that is new or other than it was, and where it belongs."""

    block: Block
    section: Section
    """Without its rows."""
    row: Row


class Growth(msgspec.Struct, frozen=True):
    """What has come since the last look."""

    position: int
    rows: tuple[Fresh, ...] = ()
    """New or changed rows."""
    outline_changed: bool = False
    restarted: bool = False
    """The file has become another, or turns were joined: everything is to be asked for again."""

    def __bool__(self) -> bool:
        return bool(self.rows) or self.outline_changed or self.restarted


class View:
    """A session, or one of its agents, as a page sees it."""

    def __init__(self, session: Session, source: Source | None = None) -> None:
        self.session = session
        self.source = source or session.source
        self.agent_id = source.agent_id or source.path.stem if source else None
        only = session.id if source and source.session_id is None else None
        self.lines = Lines(session.home.reader, self.source.path, only)
        self._start()

    @classmethod
    def read(cls, session: Session, kept: bytes | None = None) -> View:
        """Read a session as far as it is written; from where `keep` was asked on, if what it gave is at hand."""
        view = cls(session)
        restored = unpacked(kept, str(view.source.path)) if kept else None
        if restored is not None:
            view._start(restored)
            view._read_on()
            view.index.was_joined = False
            view.index.changed.clear()
            view._fresh(view.index.end)
        else:
            view.grow()
        return view

    def keep(self) -> bytes:
        """Return what was read, for `read` to go on from: a long session then opens at once."""
        return packed(self.index, self._position)

    def _start(self, restored: Restored | None = None) -> None:
        self.index, self._position = restored or (Index(str(self.source.path)), START)
        self._bills: tuple[int, list[Request]] | None = None
        self._outline: tuple[int, Outline] | None = None
        self._told: dict[str, int] = {}
        self._telling = Telling(self.lines, self.index, self.prefix, self.agent_of)
        self._agents: dict[str, View] = {}
        self._crew: Crew | None = None

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def prefix(self) -> str:
        """What the keys of its rows begin with."""
        return f"{self.agent_id}/" if self.agent_id else ""

    @property
    def position(self) -> int:
        """How far the file was read, in bytes."""
        return self.index.end

    # reading

    def grow(self) -> Growth:
        """Read what was appended since."""
        before, turns, ways = self.index.end, len(self.index.parts), self.index.branches.ways()
        restarted = self._read_on()
        index = self.index
        restarted = restarted or index.was_joined
        index.was_joined = False
        if index.end == before and not restarted:
            return Growth(before)
        if restarted or not before:
            index.changed.clear()
            self._fresh(index.end)
            return Growth(index.end, (), True, restarted)
        changed = len(index.parts) != turns or index.branches.ways() != ways
        return Growth(index.end, self._fresh(before), changed)

    def _read_on(self) -> bool:
        """Take the new lines; tell whether the file has become another."""
        path, restarted = self.source.path, False
        if not path.exists():
            if not self.index.end:
                self._take(self.lines.own(list(self.session.home.reader.items(path))))
            return False
        for number, piece in enumerate(pieces(path, self._position)):
            if number == 0 and piece.change not in (Change.NEW, Change.SAME, Change.GROWN):
                restarted = True
                self._start()
            self._take(self.lines.own(piece.items))
            self._position = piece.position
        self._take_whole()
        return restarted

    def _take_whole(self) -> None:
        """Take a last line without its end, if it is a whole document (rule 2)."""
        rest = self.lines.reader.part(self.source.path, self._position.offset, MAX_LINE)
        if rest.rstrip().endswith(b"}") and b"\n" not in rest:
            match decode(rest, self._position.offset):
                case [Entry(flaws=()) as entry] if entry.offset >= self.index.end:
                    self._take(self.lines.own([entry]))
                case _:
                    pass

    def _take(self, items: Iterable[Item]) -> None:
        end = self.index.end
        for item in items:
            if item.offset >= end:
                self.index.take(item)
            else:  # a last line that was taken without its end comes again with it
                self.index.end = max(self.index.end, item.offset + item.length)
        self.index.finish()

    def _fresh(self, before: int) -> tuple[Fresh, ...]:
        """Return the rows that are new or have changed since a place."""
        index = self.index
        touched = {offset for offset in index.changed if offset < before}
        index.changed.clear()
        found: list[Fresh] = []
        told: dict[str, int] = {}
        among = list(self._telling.spans())
        for block, start, end in among:
            is_last = end > before or block is among[-1][0]
            here = [offset for offset in touched if start <= offset < end]
            if not is_last and not here:
                continue
            for section in self.block(block, Depth.ALL):
                for row in section.rows:
                    mark = hash(msgspec.json.encode(row))
                    told[row.key] = mark
                    if self._told.get(row.key) != mark and (is_last or _is_about(row, here)):
                        found.append(Fresh(block, msgspec.structs.replace(section, rows=()), row))
        self._told = told
        return tuple(found)

    # what there is

    @property
    def bills(self) -> list[Request]:
        """Every request of the file, each once."""
        if self._bills is None or self._bills[0] != self.index.end:
            self._bills = (self.index.end, requests(self.index))
        return self._bills[1]

    def outline(self) -> Outline:
        """Return head and turns."""
        if self._outline is None or self._outline[0] != self.index.end:
            self._outline = (self.index.end, outline.outline(self.index, self.bills, self._head()))
        return self._outline[1]

    def _head(self) -> Head:
        session = self.session
        agents = 0 if self.agent_id else len(session.agent_sources)
        project = session.source.project
        return Head(
            id=session.id, title="", agent=self.agent_id, project=project, agents=agents, path=str(self.source.path)
        )

    def blocks(self) -> list[Block]:
        """Return what a page loads at once: some short turns, or a part of a long one."""
        return blocks(self.index)

    def rows(self, turns: range | None = None, depth: Depth = Depth.STEPS) -> list[Section]:
        """Return turns with their rows; all of them if none are named."""
        return self._telling.turns(turns, depth)

    def block(self, block: Block, depth: Depth = Depth.STEPS) -> list[Section]:
        """Return what a page loads at once."""
        return self._telling.block(block, depth)

    def spans_of(self, block: Block) -> Iterator[tuple[int, int]]:
        """Yield where the chunks of a block begin and end."""
        return self._telling.spans_of(block)

    # details

    def split(self, key: str) -> tuple[View, int, int]:
        """Return whose line a key names, where it begins, and the number of the block.

        A key without a block names the step in which the line at that place is told: of a result, its call.
        """
        agent, slash, place = key.rpartition("/")
        offset, dot, block = place.partition(".")
        if not offset.isdecimal() or (dot and not block.isdecimal()) or len(offset) > 18 or len(block) > 9:
            raise NotFound(f"no such step: `{key}`", hint="a step is named as in `1024.0`")
        view = self.agent(agent) if slash and agent != self.agent_id else self
        return (view, int(offset), int(block)) if dot else (view, *view._told_at(int(offset)))

    def _told_at(self, offset: int) -> tuple[int, int]:
        entry = self.lines.entry(offset)
        if entry is not None and isinstance(entry.record, User):
            for one in entry.record.message.blocks:
                if isinstance(one, ToolResult) and (called := self.index.calls.get(one.tool_use_id)):
                    place, _, block = called.key.partition(".")
                    return int(place), int(block)
        if entry is None and offset and self.lines.reader.part(self.lines.path, offset - 1, 1) != b"\n":
            raise NotFound(f"no line begins at `{offset}`", hint="a step is named as in `1024.0`")
        return offset, 0

    def detail(self, key: str, *, whole: bool = False) -> Detail:
        """Return everything about a step; `whole`: also what is too long to be shown unasked."""
        from unspool.page.detail import detail

        view, offset, block = self.split(key)
        return detail(view, offset, block, whole=whole)

    def call_at(self, offset: int, block: int) -> ToolCall | None:
        """Return the tool call that stands at a place."""
        return self._telling.call_at(offset, block)

    def rows_at(self, item: Item) -> tuple[Row, ...]:
        """Return the rows of one line."""
        return self._telling.rows_at(item)

    def blob(self, digest: str) -> Blob | None:
        """Return the bytes of a picture by their SHA-256: of this file or of one of its agents."""
        if len(digest) != 64 or not digest.isalnum():
            return None
        for view in (self, *self._agents.values()):
            if digest in view._telling.blobs:
                return view._blob_at(view._telling.blobs[digest], digest)
        return self._searched(digest)

    def _searched(self, digest: str) -> Blob | None:
        """Look through all lines: a page of before may ask for what nobody has looked at since."""
        for block in self.blocks():
            self.block(block, Depth.PROMPTS)
            if digest in self._telling.blobs:
                return self._blob_at(self._telling.blobs[digest], digest)
        sources = () if self.agent_id else self.session.agent_sources
        agents = (self.agent(source.agent_id or source.path.stem) for source in sources)
        return next((blob for blob in (agent._searched(digest) for agent in agents) if blob), None)

    def _blob_at(self, offset: int, digest: str) -> Blob | None:
        entry = self.lines.entry(offset)
        if entry is None:
            return None
        raw = entry.record.tool_use_result if isinstance(entry.record, User) else None
        structured = parse.parse_result(None, raw) if raw else None
        return next((blob for found, blob in blobs(entry, structured) if found == digest), None)

    def remember_blob(self, digest: str, offset: int) -> None:
        """Note where a picture is."""
        self._telling.blobs[digest] = offset

    # the rest is read when asked for

    @property
    def crew(self) -> Crew:
        """Who works for this session."""
        from unspool.page.agents import Crew

        if self._crew is None:
            self._crew = Crew(self)
        return self._crew

    def agents(self) -> AgentTree:
        """Return the agents of the session as a tree."""
        return self.crew.tree()

    def agent_of(self, call: str) -> str | None:
        """Return the agent that a call started."""
        found = self.index.agents.get(call)
        return found if found is not None else self.crew.by_call.get(call)

    def agent(self, id: str) -> View:
        """Return an agent's own page."""
        source = next((one for one in self.session.agent_sources if id in (one.agent_id, one.path.stem)), None)
        source = source or self._late(id)
        if source is not None:
            view = self._agents.get(id)
            if view is None:
                view = View(self.session, source)
                view.grow()
                while len(self._agents) >= _OPEN:
                    self._agents.pop(next(iter(self._agents)))
                self._agents[id] = view
            return view
        raise NotFound(f"no such agent: `{id}`", hint="the page of the session lists its agents")

    def _late(self, id: str) -> Source | None:
        """Return the file of an agent that was started since the folder was looked through."""
        path = self.session.path.with_suffix("") / "subagents" / f"agent-{id}.jsonl"
        if not _AGENT.fullmatch(id) or path.is_symlink() or not path.is_file():
            return None
        return next(scan(path).of(Kind.AGENT), None)

    def chart(self) -> Chart:
        """Return context and cost, request by request."""
        from unspool.page.chart import chart

        return chart(self.index, self.bills)

    def find(self, words: str, most: int = 500) -> list[Match]:
        """Return where words stand in all that the file says."""
        from unspool.page.find import find

        return find(self, words, most)

    def data(self, turns: range | None = None, depth: Depth = Depth.STEPS) -> dict[str, Any]:
        """Return the page as plain data: the JSON twin."""
        plain: dict[str, Any] = msgspec.to_builtins(self.outline(), str_keys=True)
        sections = self.rows(turns, depth)
        return {**plain, "position": self.position, "sections": msgspec.to_builtins(sections)}


_AGENT = re.compile(r"[A-Za-z0-9_-]{1,80}")
_OPEN = 16
"""How many agents of a session are held at once."""


def _is_about(row: Row, offsets: Iterable[int]) -> bool:
    keys = {f"{offset}." for offset in offsets}
    return any(one.key.rpartition("/")[2].partition(".")[0] + "." in keys for one in each((row,)))
