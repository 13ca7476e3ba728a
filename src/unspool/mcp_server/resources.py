"""The resources of the server (sessions and plans) and its prompts."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from unspool.errors import NotFound, UsageError
from unspool.mcp_server.answer import defuse, one_line
from unspool.mcp_server.history import History
from unspool.mcp_server.sessions import add_outline
from unspool.store import IN_FOLDER, folder_parameters
from unspool.store.catalog import side_documents

SESSION_URI: Final = "unspool://session/"
PLAN_URI: Final = "unspool://plan/"
_LISTED: Final = 50
"""Sessions and plans in the list of resources, of each the newest."""
_BUDGET: Final = 8_000


def list_resources(history: History) -> list[dict[str, Any]]:
    """Return the newest sessions and plans as resources."""
    found: list[dict[str, Any]] = []
    history.update()
    with history.site.open() as access:
        if access.database is None:
            return found
        query = f"""SELECT n.session_id, max(coalesce(n.title, '')), max(n.project), max(n.last)
            FROM sessions n JOIN sources s ON s.id = n.source_id WHERE {IN_FOLDER} AND coalesce(n.hidden, '') = ''
            GROUP BY n.session_id ORDER BY max(n.last) DESC LIMIT {_LISTED}"""
        for id, title, project, last in access.database.execute(query, folder_parameters(access.roots)):
            about = " · ".join(part for part in (_clean(history, project or ""), (last or "")[:10]) if part)
            found.append(_resource(f"{SESSION_URI}{quote(id, safe='')}", _clean(history, title) or id, about))
        for plan in side_documents.read_plans(access.database, access.roots)[:_LISTED]:
            title = _clean(history, plan["title"] or plan["slug"])
            found.append(_resource(f"{PLAN_URI}{quote(plan['slug'], safe='')}", f"Plan: {title}", "A plan"))
    return found


def _resource(uri: str, title: str, about: str) -> dict[str, Any]:
    # Titles come from transcripts: clients show them to people, so they say where they are from.
    return {"uri": uri, "name": uri.removeprefix("unspool://"), "title": title, "description": f"{about} (from a "
            "transcript: untrusted)", "mimeType": "text/plain"}  # fmt: skip


def _clean(history: History, text: str) -> str:
    return defuse(one_line(history.redact(text[:2_000]), 120))


def describe_templates() -> list[dict[str, Any]]:
    """Return the addresses of all sessions and plans."""
    return [
        {"uriTemplate": f"{SESSION_URI}{{id}}", "name": "session", "description": "The outline of a session"},
        {"uriTemplate": f"{PLAN_URI}{{slug}}", "name": "plan", "description": "A plan of Claude Code's plan mode"},
    ]


def read_resource(history: History, uri: str) -> str:
    """Return the text of a resource, between marks."""
    answer = history.begin_answer(_BUDGET)
    if uri.startswith(SESSION_URI):
        add_outline(history, answer, history.find_session(unquote(uri.removeprefix(SESSION_URI))))
        return answer.finish()
    if uri.startswith(PLAN_URI):
        slug = unquote(uri.removeprefix(PLAN_URI))
        with history.site.open() as access:
            plan = side_documents.read_plan(access.database, access.roots, slug) if access.database else None
        if plan is not None:
            text = answer.prepare(plan["content"] or "")
            if answer.add_start(text) < len(text):
                answer.hint("The plan is longer than this.")
            return answer.finish()
    raise NotFound(f"no resource `{one_line(uri, 100)}`", hint="list resources")


class HistoryPrompt(NamedTuple):
    """A prompt that a user chooses in a client."""

    title: str
    description: str
    arguments: dict[str, str]
    """Their descriptions by name; a `*` before the description: required."""
    text: str


PROMPTS: Final = {
    "what_did_we_do": HistoryPrompt(
        "What did we do last week?",
        "A summary of earlier sessions",
        {"when": "Since when: `last week` (the default), 3d, or a date", "project": "Only this project"},
        "What did we do since {when}{in_project}? List the sessions with search_sessions (since: {when_json}"
        "{project_json}), read the outline of those that matter with read_session, and summarize by project: what was "
        "finished, what is open, what was decided. Name the session ids.",
    ),
    "why_is_this_code_so": HistoryPrompt(
        "Why is this code so?",
        "The sessions and prompts behind a file",
        {"path": "*A path of a file, or a part of it", "question": "What you want to know about it"},
        "What are the reasons behind {path}? {question} Look at find_file_history (path: {path_json}), then read the "
        "turns behind the changes with read_session. Say who asked for what, when, and why; quote the prompts. "
        "Say what you do not know.",
    ),
}


def describe_prompts() -> list[dict[str, Any]]:
    """Return the prompts as `prompts/list` has them."""
    return [
        {
            "name": name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": [
                {"name": key, "description": about.lstrip("*"), "required": about.startswith("*")}
                for key, about in prompt.arguments.items()
            ],
        }
        for name, prompt in PROMPTS.items()
    ]


def fill_prompt(name: str, given: dict[str, str] | None) -> tuple[str, str]:
    """Return the description of a prompt and its text with the arguments of a user."""
    import json

    prompt = PROMPTS.get(name)
    if prompt is None:
        raise UsageError("no such prompt", hint=f"use one of: {', '.join(PROMPTS)}")
    values = {key: one_line(value, 300) for key, value in (given or {}).items() if key in prompt.arguments}
    missing = [key for key, about in prompt.arguments.items() if about.startswith("*") and not values.get(key)]
    if missing:
        raise UsageError(f"the argument `{missing[0]}` is missing")
    when, project, path = values.get("when") or "last week", values.get("project"), values.get("path", "")
    question = values.get("question", "")
    filled = {
        "when": when,
        "when_json": json.dumps(when),
        "in_project": f" in {project}" if project else "",
        "project_json": f", project: {json.dumps(project)}" if project else "",
        "path": path,
        "path_json": json.dumps(path),
        "question": question,
    }
    return prompt.description, prompt.text.format(**filled).replace("  ", " ")
