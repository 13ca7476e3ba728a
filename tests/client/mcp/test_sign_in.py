"""Signing in to MCP servers, against an authorization server on loopback that keeps the rules or breaks them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.client.conftest import Place
from tests.client.mcp.conftest import config
from tests.client.mcp.oauth_server import OAuthSite, oauth_site
from tests.client.mcp.test_terminal import open_terminal

pytest.importorskip("mcp")

from unspool.client.mcp.connection import ServerConnection
from unspool.client.mcp.connection_end import TransportContext
from unspool.client.mcp.server_config import ServerConfig, parse_server
from unspool.client.mcp.sign_in import FILE_NAME, open_browser

FALLING_BACK = ("script as address", "nonsense for metadata", "endless redirect")
"""Metadata that is none: the addresses of the protocol's first version are used then."""


def visit(address: str) -> int:
    """Open an address as a browser does, and return the status in the end."""
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def server_at(site: OAuthSite, **more: Any) -> ServerConfig:
    return parse_server("locked", {"type": "http", "url": f"{site.url}/mcp", **more}, "user", {})


async def connect(
    server: ServerConfig, folder: Path, browser: Callable[[str], object] | None = None
) -> tuple[str, str, list[str]]:
    """Connect, with a sign-in if there is a browser; return the state, the problem and the tools."""
    connection = ServerConnection(server, TransportContext({"UNSPOOL_HOME": str(folder)}, folder))
    visits: list[asyncio.Future[object]] = []
    try:
        if browser is None:
            connection.start()
            await connection.wait_settled()
        else:
            await connection.reconnect(
                lambda address: visits.append(asyncio.ensure_future(asyncio.to_thread(browser, address)))
            )
        return connection.status, connection.problem, [tool.name for tool in connection.offers.tools]
    finally:
        await connection.stop()
        await asyncio.gather(*visits)


def test_a_server_that_wants_a_login_says_so_and_nothing_is_asked_of_it(tmp_path: Path) -> None:
    with oauth_site() as site:
        status, problem, _ = asyncio.run(connect(server_at(site), tmp_path))
        assert (status, problem) == (
            "needs-auth", "it needs a login (HTTP status 401): type `/mcp login locked` in a terminal"
        )  # fmt: skip
        assert set(site.asked) == {"/mcp"}
    assert not (tmp_path / FILE_NAME).exists()


def test_after_a_sign_in_the_tokens_are_kept_used_and_renewed(tmp_path: Path) -> None:
    with oauth_site() as site:
        server = server_at(site)
        assert asyncio.run(connect(server, tmp_path, visit)) == ("connected", "", ["mcp__locked__open"])
        kept = tmp_path / FILE_NAME
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert asyncio.run(connect(server, tmp_path))[0] == "connected"
        assert site.grants == ["authorization_code"]
        document = json.loads(kept.read_text())
        (entry,) = document["servers"].values()
        entry["expires_at"] = 1.0
        kept.write_text(json.dumps(document))
        assert asyncio.run(connect(server, tmp_path))[0] == "connected"
        assert site.grants == ["authorization_code", "refresh_token"]
        site.tokens.clear()
        assert asyncio.run(connect(server, tmp_path))[0] == "needs-auth"
        elsewhere = parse_server("other", {"type": "http", "url": f"{site.url}/mcp"}, "user", {})
        assert asyncio.run(connect(elsewhere, tmp_path))[0] == "needs-auth"


def test_a_server_with_a_token_of_its_own_is_not_signed_in_to(tmp_path: Path) -> None:
    with oauth_site() as site:
        server = server_at(site, headers={"Authorization": "Bearer wrong"})
        status, problem, _ = asyncio.run(connect(server, tmp_path, visit))
        assert status == "failed"
        assert "give it a token in `headers`" in problem


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("script as address", ""),
        ("plain address", "not https"),
        ("plain token endpoint", "it leads to `192.0.2.1` without https"),
        ("private token endpoint", "it leads to `10.0.0.1`, which is no public address"),
        ("other issuer", "sign-in failed"),
        ("refusal", "the sign-in was refused: access_denied"),
        ("nonsense for tokens", ""),
        ("long tokens", "its tokens are longer than 64 KB"),
        ("nonsense for a registration", ""),
        ("nonsense for metadata", ""),
        ("endless redirect", ""),
    ],
)
def test_a_hostile_authorization_server_harms_nothing(tmp_path: Path, fault: str, words: str) -> None:
    shown: list[str] = []

    def browse(address: str) -> None:
        shown.append(address)
        visit(address)

    with oauth_site(fault) as site:
        status, problem, tools = asyncio.run(connect(server_at(site), tmp_path, browse))
    if fault not in FALLING_BACK:
        assert (status, tools) != ("connected", ["mcp__locked__open"])
    assert words in problem
    assert "\n" not in problem
    assert all(urlsplit(address).hostname == "127.0.0.1" for address in shown)


def test_an_answer_with_another_state_is_not_taken(tmp_path: Path) -> None:
    statuses: list[int] = []

    def browse(address: str) -> None:
        redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        statuses.append(visit(f"{redirect}?code=stolen&state=guessed"))
        statuses.append(visit(redirect.replace("/callback", "/")))
        statuses.append(visit(address))

    with oauth_site() as site:
        assert asyncio.run(connect(server_at(site), tmp_path, browse))[0] == "connected"
    assert statuses == [400, 400, 200]


@pytest.mark.parametrize("content", [b"nonsense", b"[]", b'{"servers": 5}', b"\xff"])
def test_a_file_of_tokens_that_cannot_be_read_is_no_sign_in_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with oauth_site() as site:
        assert asyncio.run(connect(server_at(site), tmp_path))[0] == "needs-auth"
        status, problem, _ = asyncio.run(connect(server_at(site), tmp_path, visit))
    assert status != "connected"
    assert "cannot read" in problem
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_no_browser_is_opened_without_a_desktop() -> None:
    assert open_browser("https://example.org", {}) is (os.uname().sysname == "Darwin")


def test_a_user_signs_in_from_the_terminal(place: Place) -> None:
    with oauth_site() as site:
        given = ("--mcp-config", config(locked={"type": "http", "url": f"{site.url}/mcp"}))
        with open_terminal(place, ["Hi."], *given, sees="/help") as terminal:
            terminal.say("hi")
            terminal.see("● Hi.")
            terminal.say("/mcp login locked")
            terminal.see("Sign in here, in a browser on this machine:")
            terminal.see("code_challenge_method=S256")
            shown = terminal.shown[terminal.shown.index(site.url + "/authorize") :].split("\n\n")[0]
            assert visit("".join(shown.split())) == 200
            terminal.see("Signed in to locked.")
            terminal.leave()
