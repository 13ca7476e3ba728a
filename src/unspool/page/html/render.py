"""The HTML of a session page: renders views as `Markup`. The web page and the exported file are made of the same.

Rules
  1. Templates escape everything. `Markup` is made by `ansi`, `highlight`, `markdown` and `charts`, and by no other
     module.
  2. No inline style, no inline script, no handler in an attribute.
  3. A row is one line; what can be opened is a link first, so that it works without JavaScript.
  4. Of addresses in a text only `http` and `https` become links; they open a page of their own and tell it nothing of
     this one. Each expression looks at a character a bounded number of times: what it sees is a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import msgspec
from markupsafe import Markup, escape

from unspool.display import clean, quote_for_paste, units
from unspool.export import Depth
from unspool.format import parse_local_time
from unspool.graph import first_line
from unspool.page.agents import AgentNode, AgentTree, walk_agents
from unspool.page.chart import ContextChart
from unspool.page.detail import StepDetail
from unspool.page.find import TextMatch
from unspool.page.html import ansi
from unspool.page.html.ansi import render_ansi
from unspool.page.html.charts import render_context_axis, render_context_chart
from unspool.page.html.highlight import code_rows, highlight_lines, limit_highlighting, patch_rows
from unspool.page.html.json_tree import describe_value, parse_json_text, tree_level
from unspool.page.html.markdown import is_safe_link, render_markdown
from unspool.page.outline import OutlineTurn, SessionOutline
from unspool.page.rows import TranscriptRow
from unspool.page.sections import RowBatch, TurnSection, split_into_batches
from unspool.page.view import Growth, PageView

if TYPE_CHECKING:
    from jinja2 import Environment


MAX_STEPS_RENDERED_WHOLE = 800
"""A session with more steps is loaded in batches."""
OUTLINE_BATCH_TURNS = 100
"""How many turns of an outline are loaded at once."""

# No `<`, `"` or space: in escaped text an address ends before a tag, and never inside one.
_ADDRESS = re.compile(r"(?<![\w/])https?://[^\s<>\"'`]{1,2000}")
_CLOSING = ".,:!?)]}*"
_HIT = re.compile(r"([^\s:][^:\n]{0,400}):(\d{1,9})([:-])")
_MAX_HITS = 2_000
"""Lines of a result that become links."""


class PageLinks(msgspec.Struct, frozen=True):
    """Addresses of a session's pages."""

    base: str
    """`/session/<id>`."""
    blobs: str
    """`/blob/<id>`."""

    def step(self, key: str) -> str:
        """Return the address of the page with a step opened."""
        return f"{self.base}?step={quote(key, safe='')}"

    def turn(self, number: int) -> str:
        """Return the address of the page from a turn on."""
        return f"{self.base}?turn={number}"

    def turns(self, first: int, last: int) -> str:
        """Return the address of a page of some turns, for reading without JavaScript."""
        return f"{self.base}?turns={first}..{last}"

    def rows(self, batch: str, agent: str | None = None) -> str:
        """Return the address of the rows of a batch."""
        return f"{self.base}/rows?block={batch}" + (f"&agent={quote(agent, safe='')}" if agent else "")

    def outline(self, first: int, last: int) -> str:
        """Return the address of some turns of the outline."""
        return f"{self.base}/outline?turns={first}..{last}"

    def agent(self, id: str) -> str:
        """Return the address of the rows of an agent."""
        return f"{self.base}/rows?agent={quote(id, safe='')}"

    def agent_page(self, id: str) -> str:
        """Return the address of the page of an agent."""
        return f"{self.base}?agent={quote(id, safe='')}"

    def detail(self, key: str, tab: str) -> str:
        """Return the address of a step's detail."""
        return f"{self.base}/detail?step={quote(key, safe='')}&tab={tab}"

    def same_calls(self, key: str) -> str:
        """Return the address of the calls in all sessions with the same tool and input."""
        return f"{self.base}/same?step={quote(key, safe='')}"

    def find(self, words: str) -> str:
        """Return the address of what is found in the session."""
        return f"{self.base}/find?words={quote(words, safe='')}"

    @property
    def id(self) -> str:
        """The id of the session."""
        return unquote(self.base.rpartition("/")[2])

    def blob(self, digest: str) -> str:
        """Return the address of an image."""
        return f"{self.blobs}/{digest}"


def session_links(session_id: str) -> PageLinks:
    """Return the addresses of a session on the server."""
    id = quote(session_id, safe="")
    return PageLinks(f"/session/{id}", f"/blob/{id}")


class PageSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a session's head shows that is not in the session's own file."""

    agents_cost: int = 0
    """What its agents cost, in micro-dollars."""
    paid: int | None = None
    """What the session and its agents are billed with: less, if other sessions pay for responses that it repeats."""
    status: str = ""
    """What it is doing now, in words; nothing if it does nothing."""
    status_kind: str = ""
    resume: str = ""
    """The command that resumes it."""
    agent: AgentNode | None = None
    """The agent, on the page of one."""
    previous: tuple[str, str] | None = None
    """The session before it in the list that one came from: its address and title."""
    next: tuple[str, str] | None = None
    listed: str = ""
    """The address of that list."""


_NOTHING_AROUND = PageSurroundings()


class Renderer:
    """Renders parts of a session page as HTML."""

    def __init__(self, links: PageLinks, *, standalone: bool = False) -> None:
        self.links = links
        self.standalone = standalone
        """Whether the page is one file, which fetches nothing."""

    def _render(self, template: str, **values: Any) -> Markup:
        page = template_environment().get_template(template)
        with limit_highlighting():
            return Markup(page.render(links=self.links, standalone=self.standalone, **values))  # rule 1

    def outline(self, outline: SessionOutline, turns: range | None = None) -> Markup:
        """Return the left column, or some of its turns."""
        if turns is not None:
            return self._render("turns.html", turns=[turn for turn in outline.turns if turn.number in turns])
        size = OUTLINE_BATCH_TURNS
        batches = [outline.turns[at : at + size] for at in range(0, len(outline.turns), size)]
        return self._render("outline.html", batches=batches, is_long=len(batches) > 3)

    def sections(self, sections: Sequence[TurnSection], turns: Sequence[OutlineTurn]) -> Markup:
        """Return sections; those on a branch that was left are folded together."""
        by_number = {turn.number: turn for turn in turns}
        groups = [(left, list(among)) for left, among in groupby(sections, key=lambda section: section.left)]
        described = [(left, among, _describe_branch(among, by_number)) for left, among in groups]
        return self._render("sections.html", groups=described, turns=by_number)

    def batches(
        self, view: PageView, shown: Iterable[RowBatch], depth: Depth = Depth.STEPS, only: range | None = None
    ) -> Markup:
        """Return an element for every batch: with its rows if it is among those shown, else to be loaded."""
        turns = view.outline().turns
        inside = {batch.id for batch in shown}

        def body(batch: RowBatch) -> Markup:
            sections = view.sections.read_batch(batch, depth)
            return self.sections([one for one in sections if only is None or one.number in only], turns)

        among = [batch for batch in split_into_batches(view.index) if batch.has(only)]
        rendered = [(batch, body(batch) if batch.id in inside else None) for batch in among]
        return self._render("batches.html", batches=rendered, agent=view.agent_id)

    def rows(self, rows: Iterable[TranscriptRow]) -> Markup:
        """Return rows."""
        return self._render("rows.html", rows=rows)

    def agent_rows(self, view: PageView, depth: Depth = Depth.STEPS) -> Markup:
        """Return all rows of an agent, to stand under the call that started it: long ones in batches."""
        batches = split_into_batches(view.index)
        if sum(batch.steps for batch in batches) <= MAX_STEPS_RENDERED_WHOLE:
            return self.rows(row for section in view.sections.read_turns(None, depth) for row in section.rows)
        return self.batches(view, batches[:1], depth)

    def growth(self, view: PageView, growth: Growth, depth: Depth = Depth.STEPS) -> dict[str, Any]:
        """Return the data of one event for a page that follows a session; the id of the event is the position."""
        turns = view.outline().turns
        shells: dict[tuple[int, int], Markup] = {}
        rows = []
        for changed in growth.rows:
            batch, section, row = changed.batch, changed.section, changed.row
            if row.depth > depth:
                continue
            place = (section.number, section.chunk)
            if place not in shells:
                shells[place] = self.sections([msgspec.structs.replace(section, left=False)], turns)
            rows.append(
                {
                    "block": batch.id,
                    "src": self.links.rows(batch.id, view.agent_id),
                    "first": batch.first,
                    "start": batch.start,
                    "turn": section.number,
                    "chunk": section.chunk,
                    "section": shells[place],
                    "key": row.key,
                    "html": self.rows([row]),
                }
            )
        last = len(turns) - 1 - (len(turns) - 1) % OUTLINE_BATCH_TURNS if turns else 0
        return {
            "position": growth.position,
            "restarted": growth.restarted,
            "rows": rows,
            "first": turns[last].number if turns else 0,
            "outline": self._render("turns.html", turns=turns[last:]) if growth.outline_changed or rows else None,
        }

    def detail(self, detail: StepDetail, tab: str = "rendered", *, bare: bool = False) -> Markup:
        """Return what the drawer shows; `bare`: only what is in the tab, without head and tabs."""
        tab = tab if tab in detail.tabs else "rendered"
        return self._render("detail.html", detail=detail, tab=tab, bare=bare)

    def chart(self, chart: ContextChart) -> Markup:
        """Return the chart and what fills the context."""
        drawing = render_context_chart(chart, self.links.step)
        return self._render("chart.html", chart=chart, drawing=drawing, axis=render_context_axis(chart))

    def head(self, view: PageView, around: PageSurroundings = _NOTHING_AROUND) -> Markup:
        """Return the facts at the top, for a page that follows the session."""
        return self._render("head.html", head=view.outline().head, around=around)

    def agents(self, tree: AgentTree) -> Markup:
        """Return the tree of agents with bars that show when each worked."""
        times = [parse_local_time(stamp) for node in tree for stamp in (node.started, node.last)]
        known = [time for time in times if time is not None]
        begin, end = min(known, default=None), max(known, default=None)
        spans = [(node, depth, *_bar(node, begin, end)) for node, depth in walk_agents(tree.members)]
        others = [(node, 0, *_bar(node, begin, end)) for node in tree.others]
        return self._render("agents.html", tree=tree, spans=spans, others=others)

    def matches(self, matches: Sequence[TextMatch], words: str) -> Markup:
        """Return the list of matches."""
        return self._render("matches.html", matches=matches, words=words)

    def page(
        self,
        view: PageView,
        depth: Depth = Depth.STEPS,
        turns: range | None = None,
        *,
        drawer: Markup | None = None,
        around: PageSurroundings = _NOTHING_AROUND,
    ) -> Markup:
        """Return everything between the frame's head and foot: facts, chart, outline, transcript, drawer.

        Of a long session the first and the last batch have their rows; the others are loaded when they come near. With
        `turns` only those are there, for reading without JavaScript.
        """
        outline, batches = view.outline(), split_into_batches(view.index)
        if turns is not None and self.standalone:
            body = self.batches(view, batches, depth, turns)
            outline = SessionOutline(outline.head, tuple(turn for turn in outline.turns if turn.number in turns))
        elif turns is not None:
            body = self.sections(view.sections.read_turns(turns, depth), outline.turns)
        elif self.standalone or sum(batch.steps for batch in batches) <= MAX_STEPS_RENDERED_WHOLE:
            body = self.batches(view, batches, depth)
        else:
            body = self.batches(view, [*batches[:1], *batches[-1:]], depth)
        return self._render(
            "session.html",
            head=outline.head,
            outline=self.outline(outline),
            chart=self.chart(view.chart()) if turns is None else "",
            body=body,
            depth=depth,
            view=view,
            drawer=drawer,
            around=around,
            following=_next_turns(turns, len(view.index.turns) - 1) if not self.standalone else None,
        )


def _describe_branch(sections: Sequence[TurnSection], turns: dict[int, OutlineTurn]) -> dict[str, Any]:
    """Return what the head of a branch that was left shows."""
    first, last = sections[0].number, max(section.number for section in sections)
    goes_on = first - 1 in turns and turns[first - 1].left and first > 1
    while last + 1 in turns and turns[last + 1].left:
        last += 1
    return {"turns": last - first + 1, "prompt": turns[first].prompt if first in turns else "", "goes_on": goes_on}


def _next_turns(turns: range | None, count: int) -> tuple[int, int] | None:
    if turns is None or not turns or turns[-1] >= count:
        return None
    return turns[-1] + 1, min(turns[-1] + len(turns), count)


def _bar(node: AgentNode, begin: datetime | None, end: datetime | None) -> tuple[float, float]:
    """Return where the bar of an agent begins and how long it is, in parts of a thousand."""
    started, last = parse_local_time(node.started), parse_local_time(node.last)
    if begin is None or end is None or started is None or last is None:
        return 0.0, 0.0
    whole = max((end - begin).total_seconds(), 0.001)
    left = (started - begin).total_seconds() * 1000 / whole
    # A bar of less than four units could not be seen.
    return round(left, 1), round(max((last - started).total_seconds() * 1000 / whole, 4), 1)


# templates


def create_environment(package: str) -> Environment:
    """Return an environment of the templates of a package, in which all text is escaped and cleaned."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_clean_text,
        auto_reload=False,
    )
    environment.filters |= {
        name: getattr(units, name) for name in ("amount", "cost", "dollars", "duration", "size", "tokens")
    }
    return environment


@cache
def template_environment() -> Environment:
    """Return the environment of the session page's templates, with their filters."""
    environment = create_environment("unspool.page")
    environment.filters |= {
        "clock": _clock,
        "took": _took,
        "bytes": _size,
        "facts": _row_facts,
        "spent_on": _spent_on,
        "size_and_time": _size_and_time,
        "spent": _turn_cost,
        "did": _turn_summary,
        "markdown": render_markdown,
        "ansi": ansi.render_ansi,
        "addresses": link_addresses,
        "hits": link_hits,
        "json_value": parse_json_text,
        "shell_word": quote_for_paste,
        "first_line": first_line,
        "highlight": highlight_lines,
        "code_rows": code_rows,
        "patch_rows": patch_rows,
        "is_safe_link": is_safe_link,
        "tree_level": tree_level,
        "describe": describe_value,
    }
    return environment


def preload_templates() -> None:
    """Load what the first page would otherwise wait for: templates, Markdown, highlighting."""
    environment = template_environment()
    for name in environment.list_templates():
        environment.get_template(name)
    render_markdown("`x`\n```python\nx = 1\n```")
    ansi.render_ansi("x")


def _clean_text(value: Any) -> Any:
    """Return a value as templates write it: no control character of a transcript gets into a page."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _clock(stamp: str | None, form: str = "%H:%M") -> str:
    when = parse_local_time(stamp)
    return f"{when:{form}}" if when else ""


def _took(seconds: float | None) -> str:
    # Times come from the file: one too far away would overflow.
    return units.duration(timedelta(seconds=max(0, min(seconds, 1e9)))) if seconds is not None else ""


def _size(count: int | None) -> str:
    return units.size(count).replace(" bytes", " B") if count is not None else ""


def _join(parts: Iterable[str]) -> str:
    return " · ".join(part for part in parts if part)


def _row_facts(row: TranscriptRow) -> str:
    """Return the numbers of a row: duration, tokens, size, time."""
    return _join((_spent_on(row), _size_and_time(row)))


def _spent_on(row: TranscriptRow) -> str:
    tokens = f"{'≥ ' if row.is_partial else ''}{units.tokens(row.tokens)} tok" if row.tokens else ""
    return _join((_took(row.took), tokens))


def _size_and_time(row: TranscriptRow) -> str:
    return _join((_size(row.size) if row.size else "", _clock(row.time, "%H:%M:%S")))


def _turn_cost(turn: OutlineTurn) -> str:
    """Return duration, cost and changed lines of a turn."""
    cost = units.dollars(turn.cost) if turn.cost else ""
    changed = f"+{turn.added:,} −{turn.removed:,}" if turn.added or turn.removed else ""
    return _join((_took(turn.took) if turn.took else "", cost, changed))


def _turn_summary(turn: OutlineTurn) -> str:
    """Return the three most used tools of a turn, its cost and its errors."""
    tools = [f"{count:,} {name.rpartition('__')[2]}" for name, count in turn.tools[:3]]
    rest = sum(count for _, count in turn.tools[3:])
    errors = f"✗ {turn.errors:,}" if turn.errors else ""
    return _join((*tools, f"{rest:,} more" if rest else "", _turn_cost(turn), errors))


def link_addresses(text: str) -> Markup:
    """Return terminal output with links for web addresses.

    >>> str(link_addresses("see http://x.test/a."))
    'see <a href="http://x.test/a" target="_blank" rel="noopener noreferrer">http://x.test/a</a>.'
    """
    html = str(render_ansi(text))
    if "://" not in html:
        return Markup(html)
    return Markup(_ADDRESS.sub(_anchor, html))  # what is matched is escaped and has no quote


def _anchor(match: re.Match[str]) -> str:
    address = match[0]
    # Escaped quotes and brackets are no part of an address.
    for end in ("&#34;", "&#39;", "&lt;", "&gt;"):
        address = address.partition(end)[0]
    address = address.rstrip(_CLOSING)
    rest = match[0][len(address) :]
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a>{rest}'


def link_hits(text: str, find: Callable[[str], str]) -> Markup:
    """Return the result of a search with a link at each file; `find` makes the address that looks for a file."""
    lines = text.split("\n")
    shape = Markup('<a class="hit" href="{}" data-find="{}">{}</a>{}{}')
    shown = []
    for number, line in enumerate(lines):
        match = _HIT.match(line) if number < _MAX_HITS else None
        if match is None:
            shown.append(escape(clean(line)))
            continue
        path, place = clean(match[1]), match[2]
        shown.append(shape.format(find(path), path, f"{path}:{place}", match[3], clean(line[match.end() :])))
    return Markup("\n").join(shown)
