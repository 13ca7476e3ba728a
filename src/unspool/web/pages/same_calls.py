"""The page of a tool call that says where else it was made: with the same input, in this session and in all others."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from unspool.errors import NotFound
from unspool.format import milliseconds
from unspool.page import read_detail
from unspool.store.catalog import read_headings
from unspool.store.search import SameCall, find_same_calls, find_unindexed
from unspool.web.serving.responses import Json, page_routes, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_MAX_SHOWN: Final = 200


def show_same_calls(request: Request) -> Response:
    """Show the calls with the same tool and input as a step."""
    services, step = services_of(request), request.query_params.get("step", "")
    with services.open_sessions.open(str(request.path_params["id"])) as view:
        detail = read_detail(view, step)
        if detail.input is None:
            raise NotFound(f"step `{step}` is no tool call", hint="choose a tool call on the page of the session")
        id = view.id
        here = [
            {"href": session_link(id, step=key), "turn": turn}
            for key, turn in zip(detail.same, detail.same_turns, strict=True)
        ]
    with services.site.open() as access:
        found = find_same_calls(access, detail.tool, detail.input)
        others = [call for call in found.calls if call.session and call.session != id]
        headings = read_headings(access.database, access.roots, (call.session for call in others[:_MAX_SHOWN]))
        titles = {id: heading.title for id, heading in headings.items()}
        unindexed = len(find_unindexed(access.database, access.roots)) if access.database else None
    data: Json = {
        "session": id,
        "step": detail.key,
        "tool": detail.tool,
        "target": detail.row.target,
        "here": here,
        "calls": [call._asdict() for call in others[:_MAX_SHOWN]],
        "total": len(others),
        "sessions": len({call.session for call in others}),
        "complete": found.is_complete,
        "unindexed": unindexed,
        "titles": titles,
    }
    looks = [_call_view(call, titles, services.site) for call in others[:_MAX_SHOWN]]
    return respond(request, "same_calls.html", data, calls=looks, back=session_link(id, step=detail.key))


def _call_view(call: SameCall, titles: dict[str, str], site: Site) -> Json:
    step = f"{call.agent}/{call.offset}" if call.agent else call.offset
    return {
        "href": session_link(call.session or "", step=step, agent=call.agent),
        "title": titles.get(call.session or "") or call.session,
        "project": call.project or "",
        "turn": call.turn,
        "time": site.format_time(milliseconds(call.time)),
    }


routes = page_routes("/session/{id}/same", show_same_calls)
