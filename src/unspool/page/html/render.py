"""A session's page as pieces of HTML: data in, `Markup` out. The web page and the exported file are made of the same.

Rules
  1. Templates escape everything. What is `Markup` was made by `ansi`, `coloured`, `marked` or `drawing`, and by nobody
     else.
  2. No inline style, no inline script, no handler in an attribute.
  3. A row is one line; what can be opened is a link first, so that it works without JavaScript.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from unspool.display import units
from unspool.display.safe import clean
from unspool.export.depth import Depth
from unspool.page.agents import AgentTree, Member
from unspool.page.chart import Chart
from unspool.page.detail import Detail
from unspool.page.find import Match
from unspool.page.html import ansi
from unspool.page.html.charts import drawn, top_of
from unspool.page.html.highlight import lines_of
from unspool.page.html.json_tree import branches_of, leaf
from unspool.page.html.markdown import is_safe, marked
from unspool.page.outline import Outline, Turn
from unspool.page.rows import Block, Row, Section

if TYPE_CHECKING:
    from jinja2 import Environment

    from unspool.page.view import Growth, View

SMALL = 800
"""A session with fewer rows is rendered whole."""
OUTLINED = 100
"""How many turns of an outline are loaded at once."""


class Links(msgspec.Struct, frozen=True):
    """Addresses of a session's pages."""

    base: str
    """`/session/<id>`."""
    blobs: str
    """`/blob/<id>`."""

    def step(self, key: str) -> str:
        """Return the page with a step opened."""
        return f"{self.base}?step={quote(key, safe='')}"

    def turn(self, number: int) -> str:
        """Return the page from a turn on."""
        return f"{self.base}?turn={number}"

    def turns(self, first: int, last: int) -> str:
        """Return the page of some turns, for those who read without JavaScript."""
        return f"{self.base}?turns={first}..{last}"

    def rows(self, block: str, agent: str | None = None) -> str:
        """Return the rows of a block."""
        return f"{self.base}/rows?block={block}" + (f"&agent={quote(agent, safe='')}" if agent else "")

    def outline(self, first: int, last: int) -> str:
        """Return a stretch of the outline."""
        return f"{self.base}/outline?turns={first}..{last}"

    def agent(self, id: str) -> str:
        """Return the rows of an agent."""
        return f"{self.base}/rows?agent={quote(id, safe='')}"

    def agent_page(self, id: str) -> str:
        """Return the page of an agent."""
        return f"{self.base}?agent={quote(id, safe='')}"

    def detail(self, key: str, tab: str) -> str:
        """Return a step's detail."""
        return f"{self.base}/detail?step={quote(key, safe='')}&tab={tab}"

    def blob(self, digest: str) -> str:
        """Return a picture."""
        return f"{self.blobs}/{digest}"


def links(session_id: str) -> Links:
    """Return the addresses of a session on the web page."""
    id = quote(session_id, safe="")
    return Links(f"/session/{id}", f"/blob/{id}")


class Renderer:
    """Makes HTML of what a view gives."""

    def __init__(self, links: Links, *, alone: bool = False) -> None:
        self.links = links
        self.alone = alone
        """Whether the file stands alone: then nothing is fetched."""

    def _render(self, template: str, **values: Any) -> Markup:
        page = environment().get_template(template)
        return Markup(page.render(links=self.links, alone=self.alone, **values))  # rule 1

    def head(self, view: View, agents: AgentTree | None = None) -> Markup:
        """Return the strip that says what the session is."""
        return self._render("head.html", head=view.outline().head, agents=agents)

    def outline(self, view: View, turns: range | None = None) -> Markup:
        """Return the left column, or a stretch of its turns."""
        return self._outline(view.outline(), turns)

    def _outline(self, whole: Outline, turns: range | None = None) -> Markup:
        if turns is not None:
            return self._render("turns.html", turns=[turn for turn in whole.turns if turn.number in turns])
        stretches = [whole.turns[at : at + OUTLINED] for at in range(0, len(whole.turns), OUTLINED)]
        return self._render("outline.html", outline=whole, stretches=stretches, is_long=len(stretches) > 3)

    def sections(self, view: View, turns: range | None, depth: Depth = Depth.STEPS) -> Markup:
        """Return turns with their rows."""
        return self.told(view.rows(turns, depth), view.outline().turns)

    def block(self, view: View, block: Block, depth: Depth = Depth.STEPS) -> Markup:
        """Return the rows of a block."""
        return self.told(view.block(block, depth), view.outline().turns)

    def told(self, sections: Sequence[Section], turns: Sequence[Turn]) -> Markup:
        """Return sections; those on a branch that was left are folded together."""
        by_number = {turn.number: turn for turn in turns}
        groups = [(left, list(among)) for left, among in groupby(sections, key=lambda section: section.left)]
        return self._render(
            "sections.html",
            groups=[(left, among, _branch(among, by_number)) for left, among in groups],
            turns=by_number,
        )

    def blocks(
        self, view: View, shown: Iterable[Block], depth: Depth = Depth.STEPS, only: range | None = None
    ) -> Markup:
        """Return the place of every block: with its rows if it is among those shown, else to be loaded."""
        turns = view.outline().turns
        inside = {block.id for block in shown}

        def body(block: Block) -> Markup:
            wanted = [one for one in view.block(block, depth) if only is None or one.number in only]
            return self.told(wanted, turns)

        made = [(block, body(block) if block.id in inside else None) for block in view.blocks() if block.has(only)]
        return self._render("blocks.html", blocks=made, agent=view.agent_id, depth=depth)

    def rows(self, rows: Iterable[Row]) -> Markup:
        """Return rows."""
        return self._render("rows.html", rows=rows)

    def row(self, row: Row) -> Markup:
        """Return one row."""
        return self.rows([row])

    def agent_rows(self, view: View, depth: Depth = Depth.STEPS) -> Markup:
        """Return all rows of an agent, to stand under the call that started it: long ones in blocks."""
        among = view.blocks()
        if sum(block.steps for block in among) <= SMALL:
            return self.rows(row for section in view.rows(None, depth) for row in section.rows)
        return self.blocks(view, among[:1], depth)

    def growth(self, view: View, growth: Growth, depth: Depth = Depth.STEPS) -> dict[str, Any]:
        """Return what a page that follows a session is told: the data of one event, whose id is the position."""
        turns = view.outline().turns
        shells: dict[tuple[int, int], Markup] = {}
        rows = []
        for block, section, row in ((one.block, one.section, one.row) for one in growth.rows):
            if row.depth > depth:
                continue
            place = (section.number, section.chunk)
            if place not in shells:
                shells[place] = self.told([msgspec.structs.replace(section, left=False)], turns)
            rows.append(
                {
                    "block": block.id,
                    "src": self.links.rows(block.id, view.agent_id),
                    "first": block.first,
                    "start": block.start,
                    "turn": section.number,
                    "chunk": section.chunk,
                    "section": shells[place],
                    "key": row.key,
                    "html": self.row(row),
                }
            )
        last = len(turns) - 1 - (len(turns) - 1) % OUTLINED if turns else 0
        return {
            "position": growth.position,
            "restarted": growth.restarted,
            "rows": rows,
            "first": turns[last].number if turns else 0,
            "outline": self._render("turns.html", turns=turns[last:]) if growth.outline_changed or rows else None,
        }

    def detail(self, detail: Detail, tab: str = "rendered") -> Markup:
        """Return what the drawer shows."""
        tab = tab if tab in detail.tabs else "rendered"
        return self._render("detail.html", detail=detail, tab=tab)

    def chart(self, chart: Chart) -> Markup:
        """Return the chart and what fills the context."""
        return self._render("chart.html", chart=chart, drawing=drawn(chart, self.links.step), top=top_of(chart))

    def agents(self, tree: AgentTree) -> Markup:
        """Return the tree of agents with when each worked."""
        spans = [(member, depth, *_span(member, tree)) for member, depth in _listed(tree.members, 0)]
        others = [(member, 0, *_span(member, tree)) for member in tree.others]
        return self._render("agents.html", tree=tree, spans=spans, others=others)

    def matches(self, matches: Sequence[Match], words: str) -> Markup:
        """Return what was found."""
        return self._render("matches.html", matches=matches, words=words)

    def page(
        self,
        view: View,
        depth: Depth = Depth.STEPS,
        turns: range | None = None,
        *,
        drawer: Markup | None = None,
        agents_cost: int = 0,
    ) -> Markup:
        """Return everything between the frame's head and foot: strip, chart, outline, transcript, drawer.

        Of a long session the first and the last block have their rows; the others are loaded when they come near. With
        `turns` only those are there, for those who read without JavaScript. What agents cost is told beside what the
        session's own file says: their files are not read for it.
        """
        whole, among = view.outline(), view.blocks()
        if turns is not None and self.alone:
            body = self.blocks(view, among, depth, turns)
            whole = Outline(whole.head, tuple(turn for turn in whole.turns if turn.number in turns))
        elif turns is not None:
            body = self.told(view.rows(turns, depth), whole.turns)
        elif self.alone or sum(block.steps for block in among) <= SMALL:
            body = self.blocks(view, among, depth)
        else:
            body = self.blocks(view, [*among[:1], *among[-1:]], depth)
        return self._render(
            "session.html",
            head=whole.head,
            outline=self._outline(whole),
            chart=self.chart(view.chart()) if turns is None else "",
            body=body,
            depth=depth,
            view=view,
            drawer=drawer,
            agents_cost=agents_cost,
            following=_following(turns, len(view.index.parts) - 1) if not self.alone else None,
        )


@cache
def environment() -> Environment:
    """Return where templates are looked up, with what they may ask for."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("unspool.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    return made


def _shown(value: Any) -> Any:
    """Return a value as templates write it: no control character of a transcript gets into a page."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(stamp: str | None, form: str = "%H:%M") -> str:
    when = units.moment(stamp)
    return f"{when:{form}}" if when else ""


def _took(seconds: float | None) -> str:
    return units.duration(timedelta(seconds=min(seconds, 1e9))) if seconds is not None else ""


def _size(count: int | None) -> str:
    return units.size(count).replace(" bytes", " B") if count is not None else ""


def _histogram(tools: Sequence[tuple[str, int]], most: int = 3) -> str:
    named = [f"{count:,} {name.rpartition('__')[2]}" for name, count in tools[:most]]
    rest = sum(count for _, count in tools[most:])
    return " · ".join([*named, *([f"{rest:,} more"] if rest else [])])


def _facts(row: Row) -> str:
    """Return the numbers of a row: how long, how much, when."""
    parts = (
        _took(row.took),
        f"{units.tokens(row.tokens)} tok" if row.tokens else "",
        _size(row.size) if row.size else "",
        _clock(row.time, "%H:%M:%S"),
    )
    return " · ".join(part for part in parts if part)


def _spent(turn: Turn) -> str:
    """Return what a turn took."""
    parts = (
        _took(turn.took) if turn.took else "",
        units.dollars(turn.cost) if turn.cost else "",
        f"+{turn.added:,} −{turn.removed:,}" if turn.added or turn.removed else "",
    )
    return " · ".join(part for part in parts if part)


def _did(turn: Turn) -> str:
    """Return what a turn did and took."""
    parts = (_histogram(turn.tools), _spent(turn), f"✗ {turn.errors:,}" if turn.errors else "")
    return " · ".join(part for part in parts if part)


FILTERS = {
    "clock": _clock,
    "took": _took,
    "bytes": _size,
    "tokens": units.tokens,
    "dollars": units.dollars,
    "facts": _facts,
    "spent": _spent,
    "did": _did,
    "marked": marked,
    "colours": ansi.colours,
    "coloured": lines_of,
    "is_safe": is_safe,
    "branches": branches_of,
    "leaf": leaf,
}
"""What templates, ours and the frame's, may ask for."""


def _branch(among: Sequence[Section], turns: dict[int, Turn]) -> dict[str, Any]:
    """Return what the head of a branch that was left says."""
    numbers = {section.number for section in among}
    first = among[0].number
    goes_on = first - 1 in turns and turns[first - 1].left and first > 1
    last = max(numbers)
    while last + 1 in turns and turns[last + 1].left:
        last += 1
    return {"turns": last - first + 1, "prompt": turns[first].prompt if first in turns else "", "goes_on": goes_on}


def _following(turns: range | None, count: int) -> tuple[int, int] | None:
    if turns is None or not turns or turns[-1] >= count:
        return None
    return turns[-1] + 1, min(turns[-1] + len(turns), count)


def _listed(members: Iterable[Member], depth: int) -> Iterable[tuple[Member, int]]:
    for member in members:
        yield member, depth
        yield from _listed(member.members, depth + 1)


def _span(member: Member, tree: AgentTree) -> tuple[float, float]:
    """Return where the bar of an agent begins and how long it is, in parts of a thousand."""
    times = [units.moment(stamp) for one in tree for stamp in (one.started, one.last)]
    known = [time for time in times if time is not None]
    start, end = units.moment(member.started), units.moment(member.last)
    if not known or start is None or end is None:
        return 0.0, 0.0
    whole = max((max(known) - min(known)).total_seconds(), 0.001)
    left = (start - min(known)).total_seconds() * 1000 / whole
    return round(left, 1), round(max((end - start).total_seconds() * 1000 / whole, 4), 1)


def warm() -> None:
    """Load what the first page would otherwise wait for: templates, Markdown, highlighting."""
    for name in environment().list_templates():
        environment().get_template(name)
    marked("`x`\n```python\nx = 1\n```")
    ansi.colours("x")
