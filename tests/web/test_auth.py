"""Who may ask, and what every answer carries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route

from tests.serving import Served, serving
from unspool.testing.build import session, user
from unspool.web.app import all_routes
from unspool.web.auth import AllowedHosts, RequestAccess, RequestGuard, is_loopback

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
    # Once: a form and its page have the same address.
    return [*dict.fromkeys(path.replace("{", "").replace(":path", "").replace("}", "") for path in found)]


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
        assert len(served.page_key) == len(served.cookie.partition("=")[2]) == 43
        assert served.page_key != served.cookie.partition("=")[2]
        assert served.get("/palette.json").status == 200
        again = served.get(path, cookie="")
        assert again.status == 401
        assert "set-cookie" not in again.headers
        assert served.ask("HEAD", path, {}).status == 401


def test_a_wrong_or_half_cookie_is_no_cookie_and_no_cookie_is_a_token(served: Served) -> None:
    name, _, value = served.cookie.partition("=")
    for wrong in (f"{name}=", f"{name}={value[:-1]}", f"{name}={value}x", f"other={value}", "=;;,", f"{name}=ü"):
        assert served.get("/palette.json", cookie=wrong.encode().decode("latin-1")).status == 401
    for bearer in (value, served.page_key, ""):
        assert served.get("/palette.json", cookie="", Authorization=f"Bearer {bearer}").status == 401


LOOKS = ("text/html", "text/css", "text/javascript", "text/plain", "image/")
"""What the cookie alone may open."""


@pytest.mark.parametrize("path", paths())
def test_the_cookie_alone_opens_pages_and_neither_json_nor_streams_nor_exports(served: Served, path: str) -> None:
    is_stream = path.endswith("/events")
    is_page = not is_stream and not path.endswith((".json", ".csv"))
    for key in ("", "x", served.page_key[:-1], served.cookie.partition("=")[2]):
        answer = served.get(path, page_key=key)
        assert answer.headers["content-type"].startswith(LOOKS)
        assert (answer.status != 403) is is_page
    if not is_stream:
        assert served.get(path).status != 403


@pytest.mark.parametrize("path", ["/", "/sessions", "/session/10000000-0000-4000-8000-000000000001", "/sql?q=SELECT+1"])
def test_no_page_contains_the_page_key_unless_the_browser_runs_no_scripts(served: Served, path: str) -> None:
    page = served.get(path, page_key="")
    assert page.status == 200
    assert served.page_key not in page.text
    assert served.page_key not in str(page.headers)


def test_a_browser_without_scripts_says_so_once_and_gets_the_key_in_its_forms(tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path / "claude")
    with serving(tmp_path / "claude", home=tmp_path / "unspool") as served:
        login = served.get(served.link.removeprefix(served.address), cookie="")
        cookie = login.headers["set-cookie"].partition(";")[0]
        key = login.text.partition('name="unspool-key" content="')[2].partition('"')[0]
        link = login.text.partition('<noscript><meta http-equiv="refresh" content="0; url=')[2].partition('"')[0]
        page = "/sql?q=SELECT+42+AS+answer"
        assert key not in served.get(page, cookie=cookie).text
        assert served.get("/enter/plain?key=x", cookie=cookie).status == 401
        assert served.get(link, cookie=cookie, Host=f"127.0.0.1:{served.port}").status == 403
        assert served.get(link, cookie=cookie).status == 303
        assert served.get(link, cookie=cookie).status == 401
        assert f'name="token" value="{key}"' in served.get(page, cookie=cookie).text
        form = {"Cookie": cookie, "Origin": served.address, "Content-Type": "application/x-www-form-urlencoded"}
        for body in (b"q=SELECT+42", b"q=SELECT+42&token=", f"q=SELECT+42&token={key[:-1]}".encode(),
                     f"q=SELECT+42&token={key}&token=x".encode(), b"&".join([b"a=1"] * 200)):  # fmt: skip
            assert served.ask("POST", "/sql/rows.json", form, body).status == 403
        given = served.ask("POST", "/sql/rows.json", form, f"q=SELECT+42+AS+answer&token={key}".encode())
        assert (given.status, given.json) == (200, [{"answer": 42}])


HOSTS = [
    "evil.example.com",
    "evil.example.com:{port}",
    "localhost.evil.example.com:{port}",
    "127.0.0.1.evil.example.com:{port}",
    "127.0.0.1",
    "localhost",
    "127.0.0.1:1",
    "127.0.0.1:{port}",
    "localhost:{port}",
    "[::1]:{port}",
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


def test_our_own_address_is_known_with_its_port_and_no_other_name_is(served: Served) -> None:
    assert served.get("/palette.json", Host=f"{served.host}:{served.port}").status == 200
    ours = AllowedHosts(served.host, PORT)
    assert f"{served.host}:{PORT}" in ours
    assert not [name for name in ("127.0.0.1", "localhost", "[::1]") if f"{name}:{PORT}" in ours]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_who_asks_for_the_shared_address_may_use_its_names(host: str) -> None:
    for asked in ("127.0.0.1", "localhost", "::1"):
        assert f"{host}:{PORT}" in AllowedHosts(asked, PORT)
        assert host not in AllowedHosts(asked, PORT)


ORIGINS = [
    "http://evil.example.com",
    "null",
    "https://{host}:{port}",
    "http://{host}",
    "http://{host}:1",
    "http://127.0.0.1:{port}",
    "http://localhost:{port}.evil.example.com",
    "file://",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_an_origin_that_is_not_ours_is_refused_even_with_the_cookie(served: Served, origin: str) -> None:
    for path in ("/palette.json", "/static/frame.js", "/events", "/"):
        assert served.get(path, Origin=origin.format(host=served.host, port=served.port)).status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_no_other_page_can_make_a_browser_ask(served: Served, site: str) -> None:
    assert served.get("/palette.json", Sec_Fetch_Site=site).status == 403
    assert served.get("/palette.json", Sec_Fetch_Site="same-origin").status == 200


CHANGES = {
    "from another origin": {
        "Origin": "http://evil.example.com",
        "Content-Type": "application/json",
        "X-Unspool": "KEY",
    },
    "without an origin": {"Content-Type": "application/json", "X-Unspool": "KEY"},
    "a form without its field": {"Origin": "OWN", "Content-Type": "application/x-www-form-urlencoded"},
    "a form of another origin": {"Origin": "http://evil.example.com", "Content-Type": "multipart/form-data"},
    "plain text": {"Origin": "OWN", "Content-Type": "text/plain", "X-Unspool": "KEY"},
    "a null origin": {"Origin": "null", "Content-Type": "application/json", "X-Unspool": "KEY"},
    "without the key": {"Origin": "OWN", "Content-Type": "application/json"},
    "with another key": {"Origin": "OWN", "Content-Type": "application/json", "X-Unspool": "1"},
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_what_changes_something_must_come_from_the_page_itself(served: Served, how: str, method: str) -> None:
    own = {"OWN": served.address, "KEY": served.page_key}
    headers = {name: own.get(value, value) for name, value in CHANGES[how].items()}
    answer = served.ask(method, "/palette.json", {"Cookie": served.cookie, **headers}, b"{}")
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


def test_what_the_page_itself_sends_passes_the_guard(served: Served) -> None:
    headers = {"Origin": served.address, "Content-Type": "application/json", **served.own_headers}
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
    assert "other machines can reach" in done.stderr
    assert "--token-file" in done.stderr


def test_with_a_token_other_machines_may_ask_by_address_but_not_by_any_name(tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path / "claude")
    file = tmp_path / "token"
    options = ("--host", "0.0.0.0", "--token-file", str(file), "--allow-host", "box.example.com")
    with serving(tmp_path / "claude", *options, home=tmp_path / "unspool") as served:
        own = file.read_text().strip()
        assert served.host != "0.0.0.0"
        asked = {"cookie": "", "Authorization": f"Bearer {own}"}
        assert served.get("/palette.json", cookie="").status == 401
        for host in ("192.0.2.7", "[2001:db8::1]", "box.example.com", "localhost"):
            assert served.get("/palette.json", Host=f"{host}:{served.port}", **asked).status == 200
        for host in ("evil.example.com", "192.0.2.7.evil.example.com"):
            assert served.get("/palette.json", Host=f"{host}:{served.port}", **asked).status == 403


def test_a_port_that_is_taken_is_named(served: Served, tmp_path: Path) -> None:
    session(user("hello")).save(tmp_path)
    command = [sys.executable, "-m", "unspool", "serve", "--config-dir", str(tmp_path), "--host", served.host]
    command += ["--port", str(served.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"{served.host}:{served.port}" in done.stderr


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("::1", True), ("127.9.9.9", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_told_from_all_else(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_two_hosts_in_one_request_are_refused() -> None:
    guard = RequestGuard(AllowedHosts("127.0.0.1", PORT), "t" * 43)
    token = (b"authorization", b"Bearer " + b"t" * 43)
    twice = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"host", b"evil.example.com"), token]
    refusal = guard.check("GET", "/", Headers(raw=twice))
    assert isinstance(refusal, Response)
    assert refusal.status_code == 403
    assert isinstance(guard.check("GET", "/", Headers(raw=[twice[0], token])), RequestAccess)


def test_a_link_a_cookie_or_a_key_is_never_the_same_twice() -> None:
    guard = RequestGuard(AllowedHosts("127.0.0.1", PORT))
    links = [guard.create_link() for _ in range(50)]
    logins = [guard.log_in(link.partition("?")[2].encode()) for link in links]
    cookies = {login.headers["set-cookie"] for login in logins}
    assert len({*links} | cookies | {bytes(login.body).decode() for login in logins}) == 150


def test_the_key_of_one_browser_is_not_that_of_another() -> None:
    guard = RequestGuard(AllowedHosts("127.0.0.1", PORT))
    logins = [guard.log_in(guard.create_link().partition("?")[2].encode()) for _ in range(2)]
    cookies = [login.headers["set-cookie"].partition(";")[0] for login in logins]
    keys = [bytes(login.body).decode().partition('unspool-key" content="')[2].partition('"')[0] for login in logins]
    for cookie, key, has_key in ((0, 0, True), (0, 1, False), (1, 0, False), (1, 1, True)):
        headers = Headers({"host": f"127.0.0.1:{PORT}", "cookie": cookies[cookie], "x-unspool": keys[key]})
        access = guard.check("GET", "/", headers)
        assert isinstance(access, RequestAccess)
        assert access.has_key is has_key


def test_a_refusal_is_a_page_for_a_person_and_a_line_for_a_script(served: Served) -> None:
    used = served.link.removeprefix(served.address)
    for path in ("/sessions", used):
        page = served.get(path, cookie="", Accept="text/html,*/*")
        assert page.status == 401
        assert "<h1>This browser is signed out of unspool</h1>" in page.text
        assert "unspool serve" in page.text
        line = served.get(path, cookie="", Accept="*/*")
        assert line.status == 401
        assert line.text.startswith("401: ")
        assert line.text.count("\n") == 1


def test_a_login_outlives_the_server_only_with_the_same_token() -> None:
    def guard(token: str | None) -> RequestGuard:
        return RequestGuard(AllowedHosts("127.0.0.1", PORT), token)

    def may_pass(cookie: str, token: str | None) -> bool:
        headers = {"host": f"127.0.0.1:{PORT}", "cookie": cookie}
        return isinstance(guard(token).check("GET", "/", Headers(headers)), RequestAccess)

    def cookie_of(token: str | None) -> str:
        one = guard(token)
        return one.log_in(one.create_link().partition("?")[2].encode()).headers["set-cookie"].partition(";")[0]

    kept = cookie_of("t" * 43)
    assert may_pass(kept, "t" * 43)
    assert not may_pass(kept, "u" * 43)
    assert not may_pass(kept, None)
    assert not may_pass(kept[:-1], "t" * 43)
    assert not may_pass(cookie_of(None), None)
