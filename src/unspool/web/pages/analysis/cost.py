"""The cost page: why a session, a day or a project cost what it did, down to single requests.

Rules
  1. Requests are those of `unspool usage`, from the same ledger; the parts add up to its cost to the micro-dollar.
  2. The five most expensive requests are explained (`page/analysis/cost_reasons.py`). All others are in a list that is
     paged.
  3. Each request leads to its step, unless neither the disk nor the archive has its session. The file of a request is
     read only for the five that are explained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import units
from unspool.errors import NotFound, UnspoolError, UsageError
from unspool.format import milliseconds
from unspool.page.analysis import (
    KINDS,
    NO_MODEL,
    CostSplit,
    CostSum,
    RequestContext,
    SplitRequest,
    agent_of_file,
    explain_request,
    folder_of,
    sort_sums,
    split_request,
    thread_of,
)
from unspool.page.html import charts
from unspool.page.readers import read_request_context
from unspool.prices import known_cost
from unspool.store import IN_FOLDER, PriceLookup, folder_parameters
from unspool.store.archive import find_readable_sessions
from unspool.store.catalog import read_headings
from unspool.store.usage import UsageQuery
from unspool.store.usage import report as reports
from unspool.web.serving.responses import Json, check_choice, link, page_routes, parse_number, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

EXPLAINED: Final = 5
"""How many requests are explained."""
_PAGE_ROWS: Final = 50
_MAX_OFFSET: Final = 20_000
_MAX_GROUPS: Final = 20
"""Rows of a table; the rest is added up in one row."""
_DEFAULT_SINCE: Final = "30d"
_MIN_SHOWN_MICROS: Final = 50
"""Less would be shown as nothing."""
_ORDERS: Final = ("cost", *KINDS)
_ONLY: Final = ("model", "tier", "thread", "folder")
"""What of an address restricts the list of requests; the sums stay those of all."""

_REPEATED: Final = f"""
SELECT session_id FROM sources WHERE kind = 'session' AND session_id IN (SELECT value FROM json_each(:ids))
  AND {IN_FOLDER} GROUP BY session_id HAVING count(*) > 1
"""
"""The sessions that have several files: the one that pays for a request need not be the one that a page opens."""
_Steps: TypeAlias = dict[tuple[str, int], int | None]
"""The place of a request in the file that a page opens, by where it was billed; None if it is not in that file."""


def show_session_cost(request: Request) -> Response:
    """Show what a session cost, with its agents."""
    id = str(request.path_params["id"])
    query = UsageQuery()
    title = _read_title(request, id)
    return _show(request, query, {"session": id, "title": title}, base=_cost_path(id))


def show_cost(request: Request) -> Response:
    """Show what a range of days or a project cost."""
    values = {name: value for name, value in request.query_params.items() if value}
    since, until = values.get("since"), values.get("until")
    if since is None and until is None:
        since = _DEFAULT_SINCE
    site = services_of(request).site
    usage = reports.parse_request("daily", site.now(), site.zone, since=since, until=until)
    query = UsageQuery(since=usage.since, until=usage.until, project=values.get("project"))
    about = {"session": None, "title": None, "since": since, "until": until, "project": values.get("project")}
    return _show(request, query, about, base="/cost")


def _show(request: Request, query: UsageQuery, about: Json, *, base: str) -> Response:
    address = request.query_params
    order = check_choice(address.get("order") or "cost", _ORDERS, "order")
    offset = parse_number(address, "offset", 0, example=_PAGE_ROWS)
    if offset > _MAX_OFFSET:
        raise UsageError(f"offset `{offset}` is too large", hint="choose a shorter range of days")
    only = {name: address.get(name) or None for name in _ONLY}
    check_choice(only["thread"] or "main", ("main", "agents"), "thread")
    split = CostSplit(max(offset + _PAGE_ROWS, EXPLAINED), order, lambda one: _is_wanted(one, only))
    prices = _read_split(request, query, about["session"], split)
    if about["session"] and not split.total.requests and about["title"] is None:
        raise NotFound(f"no session matches `{about['session']}`", hint="list sessions at `/sessions`")
    expensive = split.expensive
    is_whole = not offset and order == "cost" and not any(only.values())
    listed = expensive[offset : offset + _PAGE_ROWS]
    steps = _find_steps(request, (*expensive[:EXPLAINED], *listed))
    explained = [] if not is_whole else [_explain(request, one, prices, steps) for one in expensive[:EXPLAINED]]
    data: Json = {
        **about,
        "order": order,
        "offset": offset,
        "only": only,
        "listed_requests": split.listed_requests,
        **_sum_data(split.total),
        "estimated_cost_micros": known_cost(split.estimated_micros, split.total.unpriced_tokens),
        "estimated_responses": split.estimated_responses,
        "kinds": [{"kind": kind, **_sum_data(own)} for kind, own in split.kinds.items() if own.requests],
        "threads": [{"thread": name, **_sum_data(own)} for name, own in split.threads.items() if own.requests],
        "tiers": _group_data("tier", split.tiers.items()),
        "models": _group_data("model", split.models.items()),
        "sessions": [] if about["session"] else _group_data("session", split.sessions.items()),
        "folders": _group_data("folder", split.folders.items()) if about["session"] and len(split.folders) > 1 else [],
        "agents": [
            {"session": session, "agent": agent, **_sum_data(own)}
            for (session, agent), own in sorted(split.agents.items(), key=lambda pair: -pair[1].cost_micros)
        ],
        "expensive": explained,
        "listed": [_request_data(one, steps) for one in listed],
    }
    readable = _find_readable(request, (one.session for one in (*expensive[:EXPLAINED], *listed)))
    for one in (*data["expensive"], *data["listed"]):
        one["is_readable"] = one["session"] in readable and one["step"] is not None
    data["titles"] = _read_titles(request, {group["session"] for group in (*data["sessions"], *data["listed"])})
    return respond(request, "cost.html", data, view=_page_view(data, address, base, services_of(request).site))


def _is_wanted(request: SplitRequest, only: Mapping[str, str | None]) -> bool:
    """Tell whether a request is of the model, the price tier and the conversation that the address names."""
    own = {"model": request.response.model or NO_MODEL, "tier": request.tier, "thread": thread_of(request)}
    own["folder"] = folder_of(request)
    return all(value is None or value == own[name] for name, value in only.items())


def _read_split(request: Request, query: UsageQuery, session: str | None, split: CostSplit) -> PriceLookup:
    """Add up the requests of a query."""
    with services_of(request).site.open() as access:
        prices = PriceLookup(access.preferences.prices)
        for counted in access.ledger.requests(query, session):
            price = prices.price(counted.response)
            split.add(split_request(*counted, price), price)
    return prices


def _read_titles(request: Request, ids: Iterable[str]) -> dict[str, str]:
    """Return the titles of sessions that have one."""
    with services_of(request).site.open() as access:
        headings = read_headings(access.database, access.roots, ids)
    return {id: heading.title for id, heading in headings.items() if heading.title}


def _find_readable(request: Request, ids: Iterable[str]) -> set[str]:
    """Return the sessions that can be opened."""
    with services_of(request).site.open() as access:
        if access.database is None:
            return set(ids)  # what was billed was read from the files a moment ago
        return find_readable_sessions(access.database, access.roots, ids, lambda: access.archive)


def _find_steps(request: Request, requests: Iterable[SplitRequest]) -> _Steps:
    """Return the offsets of requests in the files that pages open, where these are not the files that pay."""
    by_session: dict[str, list[SplitRequest]] = {}
    for one in requests:
        by_session.setdefault(one.session, []).append(one)
    with services_of(request).site.open() as access:
        if access.database is None:
            return {}
        values = {**folder_parameters(access.roots), "ids": json.dumps(sorted(by_session))}
        repeated = [id for (id,) in access.database.execute(_REPEATED, values)]
    steps: _Steps = {}
    for id in repeated:
        with suppress(UnspoolError), services_of(request).open_sessions.open(id) as view:
            opened = {str(source.path) for source in (view.source, *view.session.agent_sources)}
            offsets = {bill.response.id: bill.offset for bill in view.bills}
            for one in by_session[id]:
                if one.file not in opened:
                    is_own = agent_of_file(one) is None
                    steps[one.file, one.response.offset] = offsets.get(one.response.id) if is_own else None
    return steps


def _read_title(request: Request, id: str) -> str | None:
    """Return the title of a session; None if there is no such session."""
    try:
        with services_of(request).open_sessions.open(id) as view:
            return view.outline().head.title or id
    except NotFound:  # agents may be left of it
        return None


def _explain(request: Request, split_request: SplitRequest, prices: PriceLookup, steps: _Steps) -> Json:
    """Return a request with the reasons for its cost."""
    context, turn, prompt = RequestContext(is_known=False), None, ""
    try:
        with services_of(request).open_sessions.open(split_request.session, agent_of_file(split_request)) as view:
            context = read_request_context(view, split_request.response.id)
            offset = steps.get((split_request.file, split_request.response.offset), split_request.response.offset)
            if agent_of_file(split_request) is None and offset is not None:
                turn = view.index.turn_at(offset)
                prompt = view.index.turns[turn].prompt[:200]
    except UnspoolError:  # gone meanwhile, or only its agents are left: the bill alone explains it
        pass
    reasons = [
        {
            "kind": reason.kind,
            "words": reason.words,
            "otherwise": reason.otherwise or None,
            "otherwise_cost_micros": reason.otherwise_micros,
            "is_estimate": reason.is_estimate,
            "step": reason.key,
        }
        for reason in explain_request(split_request, prices.price(split_request.response), context)
    ]
    return {**_request_data(split_request, steps), "turn": turn, "prompt": prompt, "reasons": reasons}


def _request_data(request: SplitRequest, steps: _Steps) -> Json:
    response, agent = request.response, agent_of_file(request)
    offset = steps.get((request.file, response.offset), response.offset)
    return {
        "id": response.id,
        "session": request.session,
        "agent": agent,
        "project": request.project,
        "step": None if offset is None else f"{f'{agent}/' if agent else ''}{offset}",
        "time": response.timestamp,
        "model": response.model,
        "tier": request.tier,
        "cost_micros": request.cost if request.priced else None,
        "parts": {kind: request.parts[kind] for kind in KINDS if kind in request.parts},
        "counts": {kind: getattr(response, kind) for kind in KINDS if getattr(response, kind)},
        "prompt_tokens": response.prompt,
        "is_final": response.final,
    }


def _sum_data(own: CostSum) -> Json:
    return {
        "cost_micros": known_cost(own.cost_micros, own.unpriced_tokens),
        "unpriced_tokens": own.unpriced_tokens,
        "requests": own.requests,
        "count": own.count,
    }


def _group_data(name: str, sums: Iterable[tuple[str, CostSum]]) -> list[Json]:
    return [{name: value, **_sum_data(own)} for value, own in sort_sums(sums)]


# how it looks


def _page_view(data: Json, query: QueryParams, base: str, site: Site) -> Json:
    kept = {name: value for name, value in query.items() if value and name not in ("order", "offset")}
    total = data["cost_micros"] or 0
    following = data["offset"] + _PAGE_ROWS
    return {
        "tables": list(_tables(data, base, kept, total)),
        "expensive": [_request_view(one, site) for one in data["expensive"]],
        "requests": [_request_view(one, site) for one in data["listed"]],
        "orders": [
            (name, KINDS.get(name, "cost"), link(base, kept, order=name) + "#requests", name == data["order"])
            for name in _ORDERS
            if name == "cost" or any(kind["kind"] == name for kind in data["kinds"])
        ],
        "next": link(base, kept, order=data["order"], offset=following) + "#requests"
        if following < data["listed_requests"] and following <= _MAX_OFFSET
        else None,
        "previous": link(base, kept, order=data["order"], offset=max(0, data["offset"] - _PAGE_ROWS)) + "#requests"
        if data["offset"]
        else None,
        "estimate": _estimate(data),
        "session_href": session_link(data["session"]) if data["session"] and data["title"] is not None else None,
        "kinds": KINDS,
        "only": ", ".join(value for value in data["only"].values() if value),
        "all": link(base, {name: value for name, value in kept.items() if name not in _ONLY}) + "#requests",
    }


def _estimate(data: Json) -> str | None:
    """Return the estimated cost, if it differs from the counted one as far as both are shown."""
    counted, estimated = data["cost_micros"], data["estimated_cost_micros"]
    if counted is None or estimated is None or units.dollars(counted) == units.dollars(estimated):
        return None
    return units.dollars(estimated)


def _tables(data: Json, base: str, kept: Json, total: int) -> Iterable[Json]:
    """Yield the tables of sums; every row leads to requests or to a page with less in it."""

    def rows(name: str, groups: Sequence[Json], address: dict[str, str]) -> list[Json]:
        shown, rest = groups[:_MAX_GROUPS], groups[_MAX_GROUPS:]
        found = [
            {**group, "name": KINDS.get(group[name], group[name]), "href": address.get(group[name]),
             "bar": charts.render_bar(group["cost_micros"] or 0, total)}
            for group in shown
        ]  # fmt: skip
        if rest:
            sums = {
                key: sum(group[key] or 0 for group in rest)
                for key in ("cost_micros", "unpriced_tokens", "requests", "count")
            }
            found.append({**sums, "name": f"{len(rest):,} others", "href": None, "bar": ""})
        return found

    kept = {name: value for name, value in kept.items() if name not in _ONLY}

    def narrow(name: str, groups: Sequence[Json]) -> dict[str, str]:
        """Return the addresses that list the requests of each group."""
        return {group[name]: link(base, kept, **{name: group[name]}) + "#requests" for group in groups}

    by_kind = {kind["kind"]: link(base, kept, order=kind["kind"]) + "#requests" for kind in data["kinds"]}
    yield {"title": "By kind of token", "rows": rows("kind", data["kinds"], by_kind)}
    yield {"title": "By conversation", "rows": rows("thread", data["threads"], narrow("thread", data["threads"]))}
    yield {"title": "By price tier", "rows": rows("tier", data["tiers"], narrow("tier", data["tiers"]))}
    if data["folders"]:
        yield {"title": "By folder", "rows": rows("folder", data["folders"], narrow("folder", data["folders"]))}
    yield {"title": "By model", "rows": rows("model", data["models"], narrow("model", data["models"]))}
    if data["sessions"]:
        pages = {group["session"]: _cost_path(group["session"]) for group in data["sessions"]}
        found = rows("session", data["sessions"], pages)
        titled = [{**row, "name": data["titles"].get(row.get("session", ""), row["name"])} for row in found]
        yield {"title": "By session", "rows": titled}
    if data["agents"]:
        named = [{**group, "name_of": f"{group['agent'] or 'in the file of the session'}"} for group in data["agents"]]
        pages = {group["name_of"]: session_link(group["session"], agent=group["agent"] or None) for group in named}
        yield {"title": "By agent", "anchor": "agents", "rows": rows("name_of", named, pages)}


def _request_view(data: Json, site: Site) -> Json:
    agent = {"agent": data["agent"]} if data["agent"] else {}
    return {
        **data,
        "href": session_link(data["session"], step=data["step"]) if data["is_readable"] else None,
        "turn_href": session_link(data["session"], turn=data["turn"]) if data.get("turn") else None,
        "agent_href": session_link(data["session"], **agent) if agent and data["is_readable"] else None,
        "when": site.format_time(milliseconds(data["time"])),
        "reasons": [
            {**reason, "href": session_link(data["session"], step=reason["step"]) if reason["step"] else None}
            for reason in data.get("reasons", ())
        ],
        "parts_words": " · ".join(
            f"{KINDS[kind]} {units.dollars(amount)} ({units.tokens(data['counts'].get(kind, 0))})"
            for kind, amount in data["parts"].items()
            if amount >= _MIN_SHOWN_MICROS
        ),
    }


def _cost_path(id: str) -> str:
    return f"/session/{quote(id, safe='')}/cost"


routes = [*page_routes("/session/{id}/cost", show_session_cost), *page_routes("/cost", show_cost)]
