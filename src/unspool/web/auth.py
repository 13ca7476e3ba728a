"""Authentication: every request passes here first, whatever it is for.

Rules
  1. The `Host` must be one of ours, port included: a foreign name that leads here (DNS rebinding) is refused.
  2. An `Origin`, where there is one, must be ours; and no other page may make a browser send a request, not even one on
     another port of this machine (`Sec-Fetch-Site`), because cookies do not tell ports apart.
  3. Every route needs a cookie that scripts cannot read (`HttpOnly`, `SameSite=Strict`), or the token as a bearer. The
     only other way in is a link that works once and is then exchanged for the cookie.
  4. The cookie alone opens pages to read, their files and their pictures. JSON, event streams, exports and everything
     that changes something also need the page key. A browser sends the cookie to every port of the host, where a server
     of another user may listen; the page key is in the browser's storage, which belongs to one port, and no page
     contains it. Scripts send it as a header, forms as a field.
  5. A browser without scripts cannot store the key. It says so when it logs in, and only its pages contain the key, in
     their forms.
  6. What changes something also needs an `Origin`, and a body of JSON or of a form.
  7. Logins end with the server, unless it has a token: then a browser stays signed in for as long as the token is the
     same, because cookie and page key are derived from it.
  8. No response allows another origin anything, runs a script that is not a file of ours, or tells other sites where
     they were linked from.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unspool.web.refusal_page import show_refusal

LOGIN_PATH: Final = "/enter"
"""The path of a link that works once."""
NO_SCRIPT_PATH: Final = "/enter/plain"
"""Where the login page leads a browser that runs no scripts."""
KEY_HEADER: Final = "x-unspool"
"""The header in which scripts of the page send the page key. No form and no other origin can add it."""
KEY_FIELD: Final = "token"
"""The field in which forms send the page key."""
MAX_FORM_BYTES: Final = 1_000_000

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_FORM_TYPE = "application/x-www-form-urlencoded"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
)
# Both keys are URL-safe base64: nothing in them needs to be escaped.
# It has no style: `color-scheme` alone makes it dark where the other pages are.
_LOGIN_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>unspool</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta name="unspool-key" content="{page_key}">
<link rel="icon" href="/static/icon.svg">
<script src="/static/login.js"></script>
<noscript><meta http-equiv="refresh" content="0; url={no_script}"></noscript></head>
<body><main><h1>unspool</h1><noscript><p><a href="{no_script}">Continue</a></p></noscript></main></body></html>"""


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def needs_page_key(path: str) -> bool:
    """Tell whether the answer at a path is for scripts of the page, not for a plain look at it.

    >>> [needs_page_key(path) for path in ("/palette.json", "/events", "/session/3f2a/events")]
    [True, True, True]
    >>> [needs_page_key(path) for path in ("/", "/session/3f2a", "/session/events")]
    [False, False, False]
    """
    if path.endswith("/events"):
        # Two slashes: the page of a session whose file is named `events.jsonl`.
        return path.count("/") != 2
    return path.endswith((".json", ".csv"))


class AllowedHosts:
    """The values of `Host` that mean this server."""

    def __init__(self, host: str, port: int, others: Iterable[str] = ()) -> None:
        self._any_address = _is_unspecified(host)
        named = {_bracketed(host), *map(_bracketed, others)}
        # Each of these three names is another site to a browser. They are ours only if the user asked for one of them:
        # the cookie must not be given out for a name that other servers of this machine are known by.
        if self._any_address or _bracketed(host) in _LOOPBACK_NAMES:
            named |= {*_LOOPBACK_NAMES}
        if self._any_address:
            named.discard(_bracketed(host))
        self.port = port
        self._exact = {f"{name}:{port}".lower() for name in named} | ({*named} if port == 80 else set())

    def __contains__(self, host: str) -> bool:
        if host.lower() in self._exact:
            return True
        if not self._any_address or not host.endswith(f":{self.port}"):
            return False
        try:  # DNS rebinding needs a name: an address is safe
            ipaddress.ip_address(host.removesuffix(f":{self.port}").strip("[]"))
        except ValueError:
            return False
        return True


class BrowserLogin(NamedTuple):
    """A browser that has used a link: its cookie and its page key."""

    cookie: str
    page_key: str
    is_plain: bool = False
    """Whether it runs no scripts: only then do its pages contain the page key."""


class RequestAccess(NamedTuple):
    """Whose request it is that may pass."""

    login: BrowserLogin | None
    """None for a script with the token."""
    has_key: bool
    """Whether the page key or the token came with the headers. A form may still bring the key in its body."""


class RequestGuard:
    """Decides which requests pass: by host, origin, cookie, page key, token, and links that work once."""

    def __init__(
        self, names: AllowedHosts, token: str | None = None, on_login: Callable[[str], None] = lambda _: None
    ) -> None:
        self.names = names
        self.cookie = f"unspool_{names.port}"
        self._token = token
        """Accepted as a bearer; without one, only browsers that used a link may ask."""
        self._links: set[str] = set()
        self._logins: dict[str, BrowserLogin] = {}
        """By cookie."""
        self._no_script_links: dict[str, str] = {}
        """The cookie of each link to `NO_SCRIPT_PATH`."""
        self._on_login = on_login

    def create_link(self) -> str:
        """Return the path of a new link that works once."""
        key = secrets.token_urlsafe(32)
        self._links.add(key)
        return f"{LOGIN_PATH}?key={key}"

    def log_in(self, query: bytes) -> Response:
        """Exchange a link for the cookie and the page key; a link that was used, or never given out, is refused."""
        known = _find(self._links, _query_key(query))
        if known is None:
            return _refuse(401, "this link is used or invalid: open the newest link in the terminal of `unspool serve`")
        self._links.discard(known)
        login = self._create_login()
        self._logins[login.cookie] = login
        no_script_key = secrets.token_urlsafe(32)
        self._no_script_links[no_script_key] = login.cookie
        # A page that leads on, not a redirect: after a redirect from elsewhere, a strict cookie would not be sent.
        page = _LOGIN_PAGE.format(page_key=login.page_key, no_script=f"{NO_SCRIPT_PATH}?key={no_script_key}")
        response = HTMLResponse(page)
        response.headers["set-cookie"] = f"{self.cookie}={login.cookie}; Path=/; HttpOnly; SameSite=Strict"
        self._on_login(self.create_link())
        return response

    def _create_login(self) -> BrowserLogin:
        """Return a new login; with a token, one that a later server with the same token knows again."""
        if self._token is None:
            return BrowserLogin(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        return self._login_of(secrets.token_urlsafe(32), self._token)

    def _restore_login(self, cookie: str) -> BrowserLogin | None:
        """Return the login of a cookie that an earlier server with the same token gave out."""
        name, mark, _ = cookie.partition(".")
        if self._token is None or not mark:
            return None
        login = self._login_of(name, self._token)
        if not _is_equal(cookie, login.cookie):
            return None
        return self._logins.setdefault(login.cookie, login)

    @staticmethod
    def _login_of(name: str, token: str) -> BrowserLogin:
        # Keyed by the token: who knows it may read everything anyway, and a new token ends all logins.
        proof, page_key = (_sign(token, f"{use} {name}") for use in ("cookie", "page key"))
        return BrowserLogin(f"{name}.{proof}", page_key)

    def log_in_without_scripts(self, query: bytes) -> Response:
        """Note that a browser runs no scripts, and lead it to the first page."""
        known = _find(self._no_script_links, _query_key(query))
        if known is None:
            return _refuse(401, "this link is used or invalid")
        cookie = self._no_script_links.pop(known)
        self._logins[cookie] = self._logins[cookie]._replace(is_plain=True)
        return RedirectResponse("/", 303)

    def check(self, method: str, path: str, headers: Headers) -> Response | RequestAccess:
        """Return the response that refuses a request, or whose request it is."""
        if not self.knows_host(headers):
            return _refuse(403, "unknown host name")
        if self._is_foreign(headers):
            return _refuse(403, "request from another site")
        is_change = method not in _SAFE_METHODS
        kind = _content_type(headers)
        if is_change and not (headers.get("origin") and kind in ("application/json", _FORM_TYPE)):
            return _refuse(403, "only pages of this server may change something")
        access = self._identify(headers)
        if access is None:
            return _refuse(401, "open the link that `unspool serve` printed")
        if is_change and not access.has_key and kind != _FORM_TYPE:
            return _refuse(403, "only pages of this server may change something")
        if not is_change and not access.has_key and needs_page_key(path):
            return _refuse(
                403, "only the page's own scripts, or scripts with a token (`--token-file`), may request this"
            )
        return access

    def check_bearer(self, headers: Headers) -> Response | None:
        """Refuse a request of a program that does not bring the token; None if it may pass, whatever it is for.

        For servers without pages: cookies do not count, and an `Origin` is not needed, because no browser adds a token
        to a request of another page.
        """
        if not self.knows_host(headers):
            return _refuse(403, "unknown host name")
        if self._is_foreign(headers):
            return _refuse(403, "request from another site")
        access = self._identify(headers)
        if access is None or access.login is not None:
            return _refuse(401, "send the token as `Authorization: Bearer TOKEN`")
        return None

    def knows_host(self, headers: Headers) -> bool:
        """Tell whether a request was sent to one of our names."""
        hosts = headers.getlist("host")
        return len(hosts) == 1 and hosts[0] in self.names

    def _is_foreign(self, headers: Headers) -> bool:
        origins = headers.getlist("origin")
        if any(not origin.startswith("http://") or origin[7:] not in self.names for origin in origins):
            return True
        return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")

    def _identify(self, headers: Headers) -> RequestAccess | None:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if self._token and scheme.lower() == "bearer" and _is_equal(bearer.strip(), self._token):
            return RequestAccess(None, has_key=True)
        for line in headers.getlist("cookie"):
            try:
                morsel = SimpleCookie(line).get(self.cookie)
            except CookieError:
                continue
            if morsel is None:
                continue
            found = _find(self._logins, morsel.value)
            login = self._logins[found] if found is not None else self._restore_login(morsel.value)
            if login is not None:
                return RequestAccess(login, has_key=_is_equal(headers.get(KEY_HEADER, ""), login.page_key))
        return None


class AuthMiddleware:
    """Lets requests to an application pass, or answers them, as a guard decides."""

    def __init__(self, app: ASGIApp, guard: RequestGuard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        decision = self._own_response(scope) or self.guard.check(scope["method"], scope["path"], Headers(scope=scope))
        if isinstance(decision, Response):
            if isinstance(decision, _Refusal) and _shows_pages(Headers(scope=scope)):
                decision = show_refusal(decision.status_code, decision.reason)
            await decision(scope, receive, send)
            return
        if scope["method"] not in _SAFE_METHODS and not decision.has_key:
            body = await _read_form(receive)
            if body is None or not _has_key_field(body, decision):
                await _refuse(403, "only pages of this server may change something")(scope, receive, send)
                return
            receive = _repeat_body(body, receive)
        login = decision.login
        scope.setdefault("state", {})["form_key"] = login.page_key if login and login.is_plain else ""
        await self.app(scope, receive, send)

    def _own_response(self, scope: Scope) -> Response | None:
        if scope["path"] not in (LOGIN_PATH, NO_SCRIPT_PATH) or scope["method"] != "GET":
            return None
        if not self.guard.knows_host(Headers(scope=scope)):
            return _refuse(403, "unknown host name")
        if scope["path"] == LOGIN_PATH:
            return self.guard.log_in(scope["query_string"])
        return self.guard.log_in_without_scripts(scope["query_string"])


async def _read_form(receive: Receive) -> bytes | None:
    """Return the body of a request; None if it is too long, or the browser has gone."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        piece: bytes = message.get("body", b"")
        body += piece
        if len(body) > MAX_FORM_BYTES:
            return None
        if not message.get("more_body"):
            return body


def _has_key_field(body: bytes, access: RequestAccess) -> bool:
    try:
        values = parse_qs(body.decode("latin-1"), max_num_fields=100).get(KEY_FIELD, [])
    except ValueError:  # more fields than any form of ours has
        return False
    return len(values) == 1 and access.login is not None and _is_equal(values[0], access.login.page_key)


def _repeat_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body which was read already, and then whatever comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return messages.pop() if messages else await receive()

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS:
                headers[name] = value
            headers.setdefault("referrer-policy", "no-referrer")
            headers.setdefault("content-security-policy", _POLICY)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


class _Refusal(PlainTextResponse):
    """A refusal in one line; a browser that shows it to a person gets a page."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status}: {reason}\n", status)
        self.reason = reason


def _refuse(status: int, reason: str) -> Response:
    return _Refusal(status, reason)


def _shows_pages(headers: Headers) -> bool:
    """Tell whether whoever asks would show a page to a person: a browser that goes to an address."""
    return headers.get("sec-fetch-dest", "document") == "document" and "text/html" in headers.get("accept", "")


def _query_key(query: bytes) -> str:
    return parse_qs(query.decode("latin-1")).get("key", [""])[0]


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _find(known: Iterable[str], secret: str) -> str | None:
    """Return the one among known secrets that equals another."""
    return next((one for one in known if _is_equal(one, secret)), None)


def _is_equal(one: str, other: str) -> bool:
    # The time that a comparison takes must not tell how much of a token was right.
    return hmac.compare_digest(one.encode(), other.encode())


def _sign(token: str, text: str) -> str:
    return hmac.new(token.encode(), text.encode("utf-8", "replace"), "sha256").hexdigest()


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
