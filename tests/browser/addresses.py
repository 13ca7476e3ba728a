"""Every page there is: an address in the made-up folder for each, and words that are on it.

A new page takes one line in `PAGES`. Tests walk all of them in Chromium and Firefox, at every width and in both themes;
`test_access.py` fails if a route of the server has no line here.
"""

from __future__ import annotations

from tests.browser import showcase, showcase_beside

SESSION = f"/session/{showcase.ID}"
PAGES = {
    "/": "Nothing needs you.",
    "/sessions": showcase.TITLE,
    "/sessions?has=error": showcase.TITLE,
    "/sessions?group=project": showcase.TITLE,
    SESSION: showcase.TITLE,
    f"{SESSION}?agent={showcase_beside.ORDERS[1].agent}": "Which tests know of the rounding?",
    f"{SESSION}/share": "You download a file",
    f"{SESSION}/cost": showcase.TITLE,
    f"{SESSION}/cost?order=output": showcase.TITLE,
    f"{SESSION}/review": showcase.TITLE,
    f"{SESSION}/review?view=split&wrap=1": showcase.TITLE,
    f"{SESSION}/same?step={showcase.first_call()}": "The same call",
    f"{SESSION}/time": "waiting for a prompt",
    f"/files?path={showcase.FILES[0]}": "cart.py",
    "/sessions/values?facet=project": "shop",
    "/cost": "cost",
    "/insights": "What filled the context",
    "/insights?since=7d&project=nothing": "No requests",
    "/compare": "Name two sessions",
    f"/compare?a={showcase.ID}&b={showcase_beside.OTHER}": showcase.TITLE,
    "/notes": "Notes",
    f"/notes/{showcase.ID}": "separated by commas",
    "/search?q=rounding": "rounding",
    "/search?errors=1": "hit",
    "/search/errors?since=all": "Failures",
    "/usage": "30 days",
    "/usage?range=all": "Hours of the week",
    "/usage?period=model&range=all": "claude-opus-4-5",
    "/usage?period=blocks&range=all": "5-hour window",
    "/sql": "tool_calls",
    "/sql?q=SELECT+42+AS+answer": "42",
    "/library": "Plans",
    "/library/plans": "Cents everywhere",
    "/library/todos": "Keep the cents",
    "/library/tasks": "Check refunds",
    "/library/history": "What about half a cent?",
    "/library/memory": "Money is",
    "/library/settings": "ANTHROPIC_API_KEY",
    "/library/versions": "versions",
}
"""Every page, and words that are on it."""

PARTS = {
    "/session/{id}/head",
    "/session/{id}/beside",
    "/session/{id}/rows",
    "/session/{id}/outline",
    "/session/{id}/detail",
    "/session/{id}/chart",
    "/session/{id}/agents",
    "/session/{id}/find",
}
"""Routes whose answer is a part of a page: scripts put it into one."""

FILES = {
    "/static/{name}",
    "/blob/{id}/{digest}",
    "/events",
    "/session/{id}/events",
    "/inbox/seen",
    "/session/{id}/share/file",
    "/session/{id}/review.patch",
    "/notes/star",
    "/notes/list",
    "/icon/{count:int}.svg",
    "/sql/rows.{form:str}",
}
"""Routes that answer with something else than HTML, beside those that end in `.json`."""
