"""WebFetch and WebSearch against a real site and a scripted API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.site import Reply, Site, serving
from tests.client.tools.calling import decoded
from tests.client.tools.commanding import context, made, said
from unspool.api.connection import Connection
from unspool.api.endpoint import Endpoint
from unspool.api.retry import QUICK_RETRY
from unspool.api.scripted.server import ScriptedApi, serve_script
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.web import WebFetchTool, WebSearchTool
from unspool.client.web_access import WebClient

FETCH, SEARCH = WebFetchTool(), WebSearchTool()
PAGE = Reply(b"<title>Tides</title><p>High water is at <b>4:10</b>.</p>")


@asynccontextmanager
async def online(
    at: ToolContext, api: ScriptedApi, *hosts: str, add_usage: Any = lambda model, usage: None
) -> AsyncIterator[WebClient]:
    async with Connection(Endpoint(base_url=api.url, key="none"), retry=QUICK_RETRY) as model:
        web = WebClient(model, lambda: "claude-opus-5-5", {"UNSPOOL_FETCH_HOSTS": " ".join(hosts)}, add_usage)
        at.web = web
        yield web


def fetched(tmp_path: Path, site: Site, api: ScriptedApi, *paths: str, **more: Any) -> list[ToolOutcome]:
    at = context(tmp_path)

    async def whole() -> list[ToolOutcome]:
        async with online(at, api, site.host):
            return [await made(FETCH, at, url=site.url + path, **{"prompt": "When is it?", **more}) for path in paths]

    return asyncio.run(whole())


def searched(tmp_path: Path, api: ScriptedApi, **input: Any) -> tuple[ToolOutcome, list[dict[str, Any]]]:
    at = context(tmp_path)
    told: list[dict[str, Any]] = []
    at.report_progress = lambda call_id, data: told.append(data)

    async def whole() -> ToolOutcome:
        async with online(at, api):
            return await made(SEARCH, at, **input)

    return asyncio.run(whole()), told


def test_a_model_is_asked_about_the_page(tmp_path: Path) -> None:
    step = {"content": "At 4:10.", "expect": {"text": ["High water is at **4:10**.", "When is it?"]}}
    with serving({"/tides": PAGE}) as site, serve_script([step]) as api:
        (outcome,) = fetched(tmp_path, site, api, "/tides")
        assert outcome.content == "At 4:10."
        found = decoded("WebFetch", outcome)
        assert outcome.result["url"] == f"{site.url}/tides"
        assert {key: outcome.result[key] for key in ("bytes", "code", "codeText", "result")} == {
            "bytes": len(PAGE.body),
            "code": 200,
            "codeText": "OK",
            "result": "At 4:10.",
        }
        assert found is not None
    assert api.failures == []
    assert api.unused == []


def test_a_page_is_fetched_once_in_a_quarter_of_an_hour(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation(site: Site, api: ScriptedApi) -> None:
        async with online(at, api, site.host) as web:
            now = 1000.0
            web.clock = lambda: now
            for _ in range(2):
                await made(FETCH, at, url=site.url, prompt="?")
            assert len(site.asked) == 1
            now += 15 * 60
            await made(FETCH, at, url=site.url, prompt="?")
            assert len(site.asked) == 2

    with serving({"/": PAGE}) as site, serve_script(["a", "b", "c"]) as api:
        asyncio.run(conversation(site, api))


def test_what_the_older_tool_took_is_understood(tmp_path: Path) -> None:
    with serving({"/": PAGE}) as site, serve_script([]) as api:
        (outcome,) = fetched(tmp_path, site, api, "/", raw=True, max_length=12)
        assert said(outcome) == "Tides\n\nHigh \n\n[Content truncated due to length...]"


def test_another_host_is_told_of_in_the_words_of_the_program(tmp_path: Path) -> None:
    moved = Reply(status=301, headers=(("location", "http://localhost:PORT/new"),))
    with serving({"/": moved}) as site, serve_script([]) as api:
        (outcome,) = fetched(tmp_path, site, api, "/")
        new = f"http://localhost:{site.port}/new"
        assert said(outcome) == (
            "REDIRECT DETECTED: The URL redirects to a different host.\n\n"
            f"Original URL: {site.url}/\nRedirect URL: {new}\nStatus: 301 Moved Permanently\n\n"
            "To complete your request, I need to fetch content from the redirected URL. Please use WebFetch again with "
            f'these parameters:\n- url: "{new}"\n- prompt: "When is it?"'
        )
        assert not outcome.is_error


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(b"no", status=403), "Request failed with status code 403"),
        (Reply(b"\x89PNG", kind="image/png"), "The page is `image/png`, not text: 4 bytes."),
        (Reply(b"%PDF", kind="application/pdf"), "The page is `application/pdf`, not text"),
    ],
)
def test_a_page_that_cannot_be_read_is_an_error(tmp_path: Path, reply: Reply, words: str) -> None:
    with serving({"/": reply}) as site, serve_script([]) as api:
        (outcome,) = fetched(tmp_path, site, api, "/")
        assert outcome.is_error
        assert words in said(outcome)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply("é".encode("latin-1"), kind="text/plain; charset=latin-1"), "é"),
        (Reply(b"<meta charset=iso-8859-1><p>\xe9", kind="text/html"), "é"),
        (Reply(b"\xe9", kind="text/plain; charset=nonsense"), "\ufffd"),
        (Reply(b'{"a": "<b>"}', kind="application/vnd.api+json"), '{"a": "<b>"}'),
        (Reply(b"<html><p>bare", kind=None), "bare"),
    ],
)
def test_a_page_is_read_as_what_it_is(tmp_path: Path, reply: Reply, text: str) -> None:
    with serving({"/": reply}) as site, serve_script([]) as api:
        assert fetched(tmp_path, site, api, "/", raw=True)[0].content == text


def test_a_long_page_is_cut_before_it_is_asked_about(tmp_path: Path) -> None:
    with serving({"/": Reply(b"word " * 100_000, kind="text/plain")}) as site, serve_script(["Long."]) as api:
        fetched(tmp_path, site, api, "/")
        asked = api.bodies[0]["messages"][0]["content"]
        assert 100_000 < len(asked) < 101_000


def test_a_page_is_told_if_no_model_answers(tmp_path: Path) -> None:
    with serving({"/": PAGE}) as site, serve_script([{"error": {"status": 404}}]) as api:
        (outcome,) = fetched(tmp_path, site, api, "/")
        assert "High water is at **4:10**." in said(outcome)
        assert not outcome.is_error


@pytest.mark.parametrize(
    "url", ["not a url", "file:///etc/passwd", "https://", "http://a:99999999/", "https://e.org/" + "x" * 2000]
)
def test_a_bad_address_is_said_to_be_one(tmp_path: Path, url: str) -> None:
    with serving({}) as site, serve_script([]) as api:
        at = context(tmp_path)

        async def whole() -> ToolOutcome:
            async with online(at, api, site.host):
                return await made(FETCH, at, url=url, prompt="?")

        outcome = asyncio.run(whole())
        assert said(outcome).startswith('<tool_use_error>Error: Invalid URL "')


def test_this_machine_is_not_fetched_from(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def whole(site: Site, api: ScriptedApi) -> ToolOutcome:
        async with online(at, api):
            return await made(FETCH, at, url=site.url, prompt="?")

    with serving({"/": PAGE}) as site, serve_script([]) as api:
        outcome = asyncio.run(whole(site, api))
        assert outcome.is_error
        assert "`127.0.0.1` is not a public address" in said(outcome)
        assert site.asked == []


def test_what_it_cost_is_told(tmp_path: Path) -> None:
    at = context(tmp_path)
    bills: list[tuple[str, dict[str, Any]]] = []

    async def whole(site: Site, api: ScriptedApi) -> None:
        async with online(at, api, site.host, add_usage=lambda model, usage: bills.append((model, usage))):
            await made(FETCH, at, url=site.url, prompt="?")

    with serving({"/": PAGE}) as site, serve_script([{"content": "x", "usage": {"input_tokens": 77}}]) as api:
        asyncio.run(whole(site, api))
    assert [(model, usage["input_tokens"]) for model, usage in bills] == [("claude-opus-5-5", 77)]


def hits(*names: str, id: str = "srvtoolu_1", query: str = "tides today") -> list[dict[str, Any]]:
    content = [
        {"type": "web_search_result", "title": name, "url": f"https://e.org/{name}", "encrypted_content": "x"}
        for name in names
    ]
    return [
        {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": id, "content": content},
    ]


def test_the_server_searches_and_what_it_found_is_told(tmp_path: Path) -> None:
    step = {"content": [*hits("a", "b"), {"type": "text", "text": "Found "}, {"type": "text", "text": "two."}]}
    with serve_script([step]) as api:
        outcome, told = searched(tmp_path, api, query="tides", allowed_domains=["e.org"])
    assert said(outcome) == (
        'Web search results for query: "tides"\n\n'
        'Links: [{"title":"a","url":"https://e.org/a"},{"title":"b","url":"https://e.org/b"}]\n\nFound two.\n\n\n'
        "REMINDER: You MUST include the sources above in your response to the user using markdown hyperlinks."
    )
    decoded("WebSearch", outcome)
    assert outcome.result["results"][1] == "Found two."
    assert told == [
        {"type": "query_update", "query": "tides today"},
        {"type": "search_results_received", "resultCount": 2, "query": "tides today"},
    ]
    (tool,) = api.bodies[0]["tools"]
    assert (tool["type"], tool["allowed_domains"]) == ("web_search_20250305", ["e.org"])
    assert api.failures == []


def test_a_search_that_pauses_goes_on(tmp_path: Path) -> None:
    first = {"content": hits("a"), "stop_reason": "pause_turn"}
    with serve_script([first, {"content": [*hits("b", id="srvtoolu_2"), "Both."]}]) as api:
        outcome, _ = searched(tmp_path, api, query="tides")
    assert [one if isinstance(one, str) else one["content"][0]["title"] for one in outcome.result["results"]] == [
        "a",
        "b",
        "Both.",
    ]
    assert api.failures == []


def test_a_search_that_fails_says_why(tmp_path: Path) -> None:
    failed = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    blocks = [hits()[0], {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": failed}]
    with serve_script([{"content": blocks}]) as api:
        outcome, _ = searched(tmp_path, api, query="tides")
    assert outcome.result["results"] == ["Web search error: max_uses_exceeded"]


@pytest.mark.parametrize("step", [{"error": {"status": 400}}, "I remember that high water is at five."])
def test_where_nobody_searches_nothing_is_made_up(tmp_path: Path, step: Any) -> None:
    with serve_script([step]) as api:
        outcome, _ = searched(tmp_path, api, query="tides")
    assert outcome.is_error
    assert "WebSearch is not available" in said(outcome)
    assert "five" not in said(outcome)


def test_sites_are_allowed_or_blocked_but_not_both(tmp_path: Path) -> None:
    with serve_script([]) as api:
        outcome, _ = searched(tmp_path, api, query="tides", allowed_domains=["a"], blocked_domains=["b"])
        assert "Cannot specify both allowed_domains and blocked_domains" in said(outcome)
        outcome, _ = searched(tmp_path, api, query="t")
        assert "`query`" in said(outcome)


@pytest.mark.parametrize(
    ("tool", "input"), [(FETCH, {"url": "https://e.org", "prompt": "?"}), (SEARCH, {"query": "tides"})]
)
def test_without_a_way_out_it_is_said_so(tmp_path: Path, tool: Any, input: dict[str, str]) -> None:
    outcome = asyncio.run(made(tool, context(tmp_path), **input))
    assert outcome.content == "There is no way to the web in this session."
