"""Who may ask, and what every answer carries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.routing import Route

from tests.serving import Served, serving
from unspool.testing.build import session, user
from unspool.web.app import all_routes
from unspool.web.auth import AllowedHosts, RequestGuard, is_loopback

PORT = 8737


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("served")
    session(user("hello"), id="10000000-0000-4000-8000-000000000001").save(place / "claude")
    with serving(place / "claude", home=place / "unspool") as one:
        one.enter()
        yield one


def paths() -> list[str]:
    """Every route, with something in place of what varies."""
    found = [route.path for route in all_routes() if isinstance(route, Route)]
    return [path.replace("{", "").replace(":path", "").replace("}", "") for path in found]


@pytest.mark.parametrize("path", [*paths(), "/nothing", "/static/../guard.py", "/enter"])
def test_no_route_answers_without_the_token(served: Served, path: str) -> None:
    answer = served.get(path, cookie="")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", paths())
def test_every_answer_has_the_headers_that_protect_it(served: Served, path: str) -> None:
    for answer in (served.get(path, cookie=""), served.get("/nothing")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_the_link_works_once_and_gives_a_cookie_that_scripts_cannot_read(tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path / "claude")
    with serving(tmp_path / "claude", home=tmp_path / "unspool") as served:
        path = served.link.removeprefix(served.address)
        assert len(path.partition("key=")[2]) == 43  # 256 bits
        given = served.enter()
        assert {part.strip() for part in given.split(";")[1:]} == {"Path=/", "HttpOnly", "SameSite=Strict"}
        assert served.get("/palette.json").status == 200
        again = served.get(path, cookie="")
        assert again.status == 401
        assert "set-cookie" not in again.headers
        assert served.ask("HEAD", path, {}).status == 401


def test_a_wrong_or_half_token_is_no_token(served: Served) -> None:
    name, _, token = served.cookie.partition("=")
    for wrong in (f"{name}=", f"{name}={token[:-1]}", f"{name}={token}x", f"other={token}", "=;;,", f"{name}=ü"):
        assert served.get("/palette.json", cookie=wrong.encode().decode("latin-1")).status == 401
    assert served.get("/palette.json", cookie="", Authorization=f"Bearer {token}").status == 200
    assert served.get("/palette.json", cookie="", Authorization=f"Bearer {token[:-1]}").status == 401


HOSTS = [
    "evil.example.com",
    "evil.example.com:{port}",
    "localhost.evil.example.com:{port}",
    "127.0.0.1.evil.example.com:{port}",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    "localhost:{port}.evil.example.com",
    "0.0.0.0:{port}",
    "127.0.0.2:{port}",
    "[::1]",
    "",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}, evil.example.com",
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_is_not_ours_is_refused_even_with_the_cookie(served: Served, host: str) -> None:
    assert served.get("/palette.json", Host=host.format(port=served.port)).status == 403
    assert served.get("/enter?key=x", Host=host.format(port=served.port)).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_our_own_names_are_known_with_their_port(served: Served, host: str) -> None:
    assert served.get("/palette.json", Host=host.format(port=served.port)).status == 200


ORIGINS = [
    "http://evil.example.com",
    "null",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:{port}.evil.example.com",
    "file://",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_origin_that_is_not_ours_is_refused_even_with_the_cookie(served: Served, origin: str) -> None:
    for path in ("/palette.json", "/static/frame.js", "/events", "/"):
        assert served.get(path, Origin=origin.format(port=served.port)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_page_can_make_a_browser_ask(served: Served, site: str) -> None:
    assert served.get("/palette.json", Sec_Fetch_Site=site).status == 403
    assert served.get("/palette.json", Sec_Fetch_Site="same-origin").status == 200


CHANGES = {
    "from another origin": {"Origin": "http://evil.example.com", "Content-Type": "application/json", "X-Unspool": "1"},
    "without an origin": {"Content-Type": "application/json", "X-Unspool": "1"},
    "a form": {"Origin": "{own}", "Content-Type": "application/x-www-form-urlencoded", "X-Unspool": "1"},
    "plain text": {"Origin": "{own}", "Content-Type": "text/plain", "X-Unspool": "1"},
    "a null origin": {"Origin": "null", "Content-Type": "application/json", "X-Unspool": "1"},
    "without the header": {"Origin": "{own}", "Content-Type": "application/json"},
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_what_changes_something_must_come_from_the_page_itself(served: Served, how: str, method: str) -> None:
    headers = {name: value.format(own=served.address) for name, value in CHANGES[how].items()}
    answer = served.ask(method, "/palette.json", {"Cookie": served.cookie, **headers}, b"{}")
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


def test_what_the_page_itself_sends_passes_the_guard(served: Served) -> None:
    headers = {"Origin": served.address, "Content-Type": "application/json", "X-Unspool": "1", "Cookie": served.cookie}
    assert served.ask("POST", "/palette.json", headers, b"{}").status == 405  # known, but nothing can be changed there


def test_a_web_socket_is_refused(served: Served) -> None:
    headers = {
        "Cookie": served.cookie,
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert served.get("/events", Origin="http://evil.example.com", **headers).status == 403
    assert served.get("/nothing", **headers).status != 101


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_an_address_that_others_can_reach_is_refused(host: str, tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path)
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(tmp_path), "--host", host, "--no-browser"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stdout == ""
    assert "can be reached from other machines" in done.stderr
    assert "--token" in done.stderr


def test_with_a_token_other_machines_may_ask_by_address_but_not_by_any_name(tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path / "claude")
    own = "a-token-of-at-least-thirty-two-characters"
    options = ("--host", "0.0.0.0", "--token", own, "--allow-host", "box.example.com")
    with serving(tmp_path / "claude", *options, home=tmp_path / "unspool") as served:
        asked = {"cookie": "", "Authorization": f"Bearer {own}"}
        assert served.get("/palette.json", cookie="").status == 401
        for host in ("192.0.2.7", "[2001:db8::1]", "box.example.com", "localhost"):
            assert served.get("/palette.json", Host=f"{host}:{served.port}", **asked).status == 200
        for host in ("evil.example.com", "192.0.2.7.evil.example.com"):
            assert served.get("/palette.json", Host=f"{host}:{served.port}", **asked).status == 403


def test_a_short_token_of_ones_own_is_refused(tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path)
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(tmp_path), "--token", "secret"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "32 characters" in done.stderr


def test_a_port_that_is_taken_is_named(served: Served, tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path)
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(tmp_path), "--port", str(served.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"127.0.0.1:{served.port}" in done.stderr


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("::1", True), ("127.9.9.9", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_told_from_all_else(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_two_hosts_in_one_request_are_refused() -> None:
    guard = RequestGuard(AllowedHosts("127.0.0.1", PORT))
    token = (b"authorization", f"Bearer {guard.token}".encode())
    twice = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"host", b"evil.example.com"), token]
    refusal = guard.refuse("GET", Headers(raw=twice))
    assert refusal is not None
    assert refusal.status_code == 403
    assert guard.refuse("GET", Headers(raw=[twice[0], token])) is None


def test_a_link_or_a_token_is_never_the_same_twice() -> None:
    guards = [RequestGuard(AllowedHosts("127.0.0.1", PORT)) for _ in range(50)]
    assert len({guard.token for guard in guards} | {guard.create_link() for guard in guards}) == 100
