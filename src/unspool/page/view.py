"""One session as its page sees it: outline, sections, details, chart, agents. It grows with its file.

Rules
  1. Only the index of the file is held (`index.py`); lines are read again when they are shown.
  2. What is read in several steps is what would have been read at once. A line without its end waits for it, unless it
     is a whole document.
  3. A file that was replaced by another is read anew, and the growth tells that.
  4. The files of agents are read when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

from unspool.errors import NotFound
from unspool.export import Depth
from unspool.format import Entry, Item, ToolResult, User, decode
from unspool.home import Session
from unspool.page.agents import AgentReader
from unspool.page.chart import ChartRequest, ContextChart, bill_requests, build_chart
from unspool.page.images import ImageBytes, find_image
from unspool.page.index import RelatedCalls, SessionIndex
from unspool.page.index_cache import pack_index, unpack_index
from unspool.page.line_reader import LineReader
from unspool.page.outline import SessionOutline, build_outline
from unspool.page.rows import TranscriptRow, walk_rows
from unspool.page.sections import RowBatch, SectionReader, TurnSection, split_into_batches
from unspool.prices import Price, known_cost
from unspool.read import MAX_LINE, START, Change, Kind, Position, Source, pieces, scan

_AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MAX_OPEN_AGENTS = 16


class ChangedRow(msgspec.Struct, frozen=True):
    """A row that is new or has changed, and where it belongs."""

    batch: RowBatch
    section: TurnSection
    """Without its rows."""
    row: TranscriptRow


class Growth(msgspec.Struct, frozen=True):
    """What has come since the file was last read."""

    position: int
    rows: tuple[ChangedRow, ...] = ()
    outline_changed: bool = False
    restarted: bool = False
    """The file was replaced by another, or turns were merged: everything is to be loaded again."""

    def __bool__(self) -> bool:
        return bool(self.rows) or self.outline_changed or self.restarted


class PageView:
    """A session, or one of its agents, as a page sees it."""

    def __init__(self, session: Session, source: Source | None = None, *, prices: Sequence[Price] = ()) -> None:
        self.session = session
        self._prices = prices
        """The user's own prices."""
        self.source = source or session.source
        self.agent_id = source.agent_id or source.path.stem if source else None
        self.id = session.id
        self.prefix = f"{self.agent_id}/" if self.agent_id else ""
        """What the keys of its rows begin with."""
        # One file may hold the lines of agents of several sessions.
        only = session.id if source and source.session_id is None else None
        self.lines = LineReader(session.home.reader, self.source.path, only)
        self._start(SessionIndex(str(self.source.path)), START)

    @classmethod
    def read(cls, session: Session, packed: bytes | None = None, *, prices: Sequence[Price] = ()) -> PageView:
        """Read a session as far as it is written; from where `pack` was called on, if its bytes are at hand."""
        view = cls(session, prices=prices)
        if packed and (unpacked := unpack_index(packed, str(view.source.path))):
            view._start(*unpacked)
        view.grow()
        # If nothing was appended to what was unpacked, the rows that may still change are not known yet.
        if not view._shown:
            view._find_changed_rows(view.index.end)
        return view

    def pack(self) -> bytes:
        """Return the index and the position as bytes, for `read` to go on from: a long session then opens at once."""
        return pack_index(self.index, self._position)

    def _start(self, index: SessionIndex, position: Position) -> None:
        self.index, self._position = index, position
        self.sections = SectionReader(self.lines, index, self.prefix, self.agent_of)
        self.agents = AgentReader(self)
        self._bills: tuple[int, list[ChartRequest]] | None = None
        self._outline: tuple[int, SessionOutline] | None = None
        self._related: tuple[int, RelatedCalls] | None = None
        # Hashes of the rows that may still change, by their keys.
        self._shown: dict[str, int] = {}
        self._open_agents: dict[str, PageView] = {}

    @property
    def position(self) -> int:
        """How far the file was read, in bytes."""
        return self.index.end

    # reading

    def grow(self) -> Growth:
        """Read what was appended since the last time."""
        before, turns, branches = self.index.end, len(self.index.turns), self.index.branches.layout()
        restarted = self._read_new_lines()
        index = self.index
        restarted = restarted or index.was_merged
        index.was_merged = False
        if index.end == before and not restarted:
            return Growth(before)
        if restarted or not before:
            index.changed.clear()
            self._find_changed_rows(index.end)
            return Growth(index.end, (), True, restarted)
        changed = len(index.turns) != turns or index.branches.layout() != branches
        return Growth(index.end, self._find_changed_rows(before), changed)

    def _read_new_lines(self) -> bool:
        """Add the new lines to the index; tell whether the file was replaced by another."""
        path, restarted = self.source.path, False
        if not path.exists():  # only the archive still has it
            if not self.index.end:
                self._add_items(self.lines.keep_own(list(self.session.home.reader.items(path))))
            return False
        for number, piece in enumerate(pieces(path, self._position)):
            if number == 0 and piece.change not in (Change.NEW, Change.SAME, Change.GROWN):
                restarted = True
                self._start(SessionIndex(str(path)), START)
            self._add_items(self.lines.keep_own(piece.items))
            self._position = piece.position
        self._add_unfinished_line()
        return restarted

    def _add_unfinished_line(self) -> None:
        """Add a last line without its end, if it is a whole document (rule 2)."""
        path, offset = self.source.path, self._position.offset
        try:
            size = path.stat().st_size
        except OSError:  # gone meanwhile
            return
        if size - offset > MAX_LINE:  # too long to be held, or a sparse file: reading it at each request takes long
            return
        rest = self.lines.reader.part(path, offset, MAX_LINE)
        if rest.rstrip().endswith(b"}") and b"\n" not in rest:
            match decode(rest, self._position.offset):
                case [Entry(flaws=()) as entry] if entry.offset >= self.index.end:
                    self._add_items(self.lines.keep_own([entry]))

    def _add_items(self, items: Iterable[Item]) -> None:
        end = self.index.end
        for item in items:
            if item.offset >= end:
                self.index.add(item)
            else:  # a last line that was added without its end comes again with it
                self.index.end = max(self.index.end, item.offset + item.length)
        self.index.finish()

    def _find_changed_rows(self, before: int) -> tuple[ChangedRow, ...]:
        """Return the rows that are new or have changed since the file ended at an offset."""
        touched = {offset for offset in self.index.changed if offset < before}
        self.index.changed.clear()
        changed: list[ChangedRow] = []
        shown: dict[str, int] = {}
        batches = split_into_batches(self.index)
        for batch in batches:
            start, end = self.sections.batch_range(batch)
            is_last = end > before or batch is batches[-1]
            here = {offset for offset in touched if start <= offset < end}
            if not is_last and not here:
                continue
            for section in self.sections.read_batch(batch, Depth.ALL):
                for row in section.rows:
                    digest = hash(msgspec.json.encode(row))
                    shown[row.key] = digest
                    if self._shown.get(row.key) != digest and (is_last or _has_line(row, here)):
                        changed.append(ChangedRow(batch, msgspec.structs.replace(section, rows=()), row))
        self._shown = shown
        return tuple(changed)

    # what there is

    @property
    def bills(self) -> list[ChartRequest]:
        """Every request of the file, each once."""
        if self._bills is None or self._bills[0] != self.index.end:
            self._bills = (self.index.end, bill_requests(self.index, self._prices))
        return self._bills[1]

    @property
    def related_calls(self) -> RelatedCalls:
        """The tool calls by what they have in common, gathered once: a search for each call would be quadratic."""
        if self._related is None or self._related[0] != self.index.end:
            self._related = (self.index.end, RelatedCalls(self.index.calls.values()))
        return self._related[1]

    def outline(self) -> SessionOutline:
        """Return the facts about the session and its turns."""
        if self._outline is None or self._outline[0] != self.index.end:
            self._outline = (self.index.end, build_outline(self))
        return self._outline[1]

    def chart(self) -> ContextChart:
        """Return context and cost, request by request."""
        return build_chart(self.index, self.bills)

    def to_dict(self, turns: range | None = None, depth: Depth = Depth.STEPS) -> dict[str, Any]:
        """Return the page as plain data, for its JSON variant."""
        outline: dict[str, Any] = msgspec.to_builtins(self.outline(), str_keys=True)
        sections = self.sections.read_turns(turns, depth)
        usage = outline["head"]["usage"]
        usage["cost_micros"] = known_cost(usage["cost_micros"], usage["unpriced"])
        usage["cost"] = usage["cost_micros"]  # its name before 0.3
        return {**outline, "position": self.position, "sections": msgspec.to_builtins(sections)}

    def locate(self, key: str) -> tuple[PageView, int, int]:
        """Return whose line a key names, its offset, and the number of the block.

        A key without a block names the step that shows the line at that offset: for a result, its call.
        """
        agent, slash, place = key.rpartition("/")
        offset, dot, block = place.partition(".")
        if not offset.isdecimal() or (dot and not block.isdecimal()) or len(offset) > 18 or len(block) > 9:
            raise NotFound(f"no step matches `{key}`", hint="name a step like `1024.0`")
        view = self.open_agent(agent) if slash and agent != self.agent_id else self
        return (view, int(offset), int(block)) if dot else (view, *view._step_at(int(offset)))

    def _step_at(self, offset: int) -> tuple[int, int]:
        entry = self.lines.read_entry(offset)
        if entry is not None and isinstance(entry.record, User):
            for block in entry.record.message.blocks:
                if isinstance(block, ToolResult) and (call := self.index.calls.get(block.tool_use_id)):
                    place, _, number = call.key.partition(".")
                    return int(place), int(number)
        if entry is None and offset and self.lines.reader.part(self.lines.path, offset - 1, 1) != b"\n":
            raise NotFound(f"no line starts at `{offset}`", hint="name a step like `1024.0`")
        return offset, 0

    # images

    def image(self, digest: str) -> ImageBytes | None:
        """Return an image of this file or of one of its agents by its SHA-256."""
        if len(digest) != 64 or not digest.isalnum():
            return None
        for view in (self, *self._open_agents.values()):
            if digest in view.sections.image_offsets:
                return view._read_image(digest)
        return self._search_image(digest)

    def _search_image(self, digest: str) -> ImageBytes | None:
        """Look through all lines: a page from before a restart may request what was not read since."""
        for batch in split_into_batches(self.index):
            self.sections.read_batch(batch, Depth.PROMPTS)
            if digest in self.sections.image_offsets:
                return self._read_image(digest)
        sources = () if self.agent_id else self.session.agent_sources
        agents = (self.open_agent(source.agent_id or source.path.stem) for source in sources)
        return next((image for image in (agent._search_image(digest) for agent in agents) if image), None)

    def _read_image(self, digest: str) -> ImageBytes | None:
        entry = self.lines.read_entry(self.sections.image_offsets[digest])
        return find_image(entry, digest) if entry is not None else None

    # agents

    def agent_of(self, call: str) -> str | None:
        """Return the agent that a call started."""
        agent = self.index.agents.get(call)
        return agent if agent is not None else self.agents.by_call.get(call)

    def open_agent(self, id: str) -> PageView:
        """Return the view of an agent's file."""
        among = (source for source in self.session.agent_sources if id in (source.agent_id, source.path.stem))
        source = next(among, None) or self._find_new_agent(id)
        if source is None:
            raise NotFound(f"no agent matches `{id}`", hint="choose an agent on the page of the session")
        view = self._open_agents.get(id)
        if view is None:
            view = PageView(self.session, source, prices=self._prices)
            view.grow()
            while len(self._open_agents) >= _MAX_OPEN_AGENTS:
                self._open_agents.pop(next(iter(self._open_agents)))
            self._open_agents[id] = view
        return view

    def _find_new_agent(self, id: str) -> Source | None:
        """Return the file of an agent that was started since the folder was scanned."""
        path = self.session.path.with_suffix("") / "subagents" / f"agent-{id}.jsonl"
        # The id comes from an address: it must not lead out of the folder.
        if not _AGENT_ID.fullmatch(id) or path.is_symlink() or not path.is_file():
            return None
        return next(scan(path).of(Kind.AGENT), None)


def _has_line(row: TranscriptRow, offsets: Container[int]) -> bool:
    """Tell whether a row, or one folded inside it, shows a line at one of these offsets."""
    places = (inner.key.rpartition("/")[2].partition(".")[0] for inner in walk_rows((row,)))
    return any(int(place) in offsets for place in places)
