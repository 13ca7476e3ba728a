"""Authentication: every request passes here first, whatever it is for.

Rules
  1. The `Host` must be one of ours, port included: a foreign name that leads here (DNS rebinding) is refused.
  2. An `Origin`, where there is one, must be ours; and no other page may make a browser send a request, not even one on
     another port of this machine (`Sec-Fetch-Site`), because cookies do not tell ports apart.
  3. Every route needs the token, in a cookie that scripts cannot read (`HttpOnly`, `SameSite=Strict`) or as a bearer.
     The only other way in is a link that works once and is then exchanged for the cookie.
  4. What changes something also needs an `Origin`, a body of JSON and a header that no form can send.
  5. No response allows another origin anything, runs a script that is not a file of ours, or tells other sites where
     they were linked from.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGIN_PATH = "/enter"
"""The path of a link that works once."""
CHANGE_HEADER = "x-unspool"
"""A header of requests that change something: only a script of the page itself can add it."""

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
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
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
)
_LOGIN_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>unspool</title>
<link rel="icon" href="/static/icon.svg">
<meta http-equiv="refresh" content="0; url=/"></head><body><p><a href="/">Go on</a></p></body></html>"""


def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AllowedHosts:
    """The values of `Host` that mean this server."""

    def __init__(self, host: str, port: int, others: Iterable[str] = ()) -> None:
        named = {*_LOOPBACK_NAMES, *map(_bracketed, others)}
        self._any_address = _is_unspecified(host)
        if not self._any_address:
            named.add(_bracketed(host))
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


class RequestGuard:
    """Decides which requests pass: by host, origin, token, and links that work once."""

    def __init__(
        self, names: AllowedHosts, token: str | None = None, on_login: Callable[[str], None] = lambda _: None
    ) -> None:
        self.names = names
        self.token = token or secrets.token_urlsafe(32)
        self.cookie = f"unspool_{names.port}"
        self._links: set[str] = set()
        self._on_login = on_login

    def create_link(self) -> str:
        """Return the path of a new link that works once."""
        key = secrets.token_urlsafe(32)
        self._links.add(key)
        return f"{LOGIN_PATH}?key={key}"

    def log_in(self, query: bytes) -> Response:
        """Exchange a link for the cookie; a link that was used, or never given out, is refused."""
        key = parse_qs(query.decode("latin-1")).get("key", [""])[0]
        known = next((link for link in self._links if _is_equal(link, key)), None)
        if known is None:
            return _refuse(
                401, "this link was used already, or never given out: the terminal that serves has the newest"
            )
        self._links.discard(known)
        # A page that leads on, not a redirect: after a redirect from elsewhere, a strict cookie would not be sent.
        response = HTMLResponse(_LOGIN_PAGE)
        response.headers["set-cookie"] = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        self._on_login(self.create_link())
        return response

    def refuse(self, method: str, headers: Headers) -> Response | None:
        """Return the response that refuses a request, if it is refused."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self.names:
            return _refuse(403, "this address is not known here")
        if self._is_foreign(headers):
            return _refuse(403, "asked by another page")
        if method not in _SAFE_METHODS and not self._is_ours(headers):
            return _refuse(403, "only the page itself may change something")
        if not self._has_token(headers):
            return _refuse(401, "open the link that `unspool serve` printed")
        return None

    def _is_foreign(self, headers: Headers) -> bool:
        origins = headers.getlist("origin")
        if any(not origin.startswith("http://") or origin[7:] not in self.names for origin in origins):
            return True
        return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")

    def _is_ours(self, headers: Headers) -> bool:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        return bool(headers.get("origin")) and kind == "application/json" and bool(headers.get(CHANGE_HEADER))

    def _has_token(self, headers: Headers) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_equal(bearer.strip(), self.token):
            return True
        for line in headers.getlist("cookie"):
            try:
                cookie = SimpleCookie(line).get(self.cookie)
            except CookieError:
                continue
            if cookie and _is_equal(cookie.value, self.token):
                return True
        return False


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
        answer: ASGIApp = self._own_response(scope) or self.app
        await answer(scope, receive, _with_headers(send))

    def _own_response(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["path"] == LOGIN_PATH and scope["method"] == "GET":
            hosts = headers.getlist("host")
            if len(hosts) != 1 or hosts[0] not in self.guard.names:
                return _refuse(403, "this address is not known here")
            return self.guard.log_in(scope["query_string"])
        return self.guard.refuse(scope["method"], headers)


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS:
                headers[name] = value
            headers.setdefault("content-security-policy", _POLICY)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def _refuse(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{status}: {reason}\n", status_code=status)


def _is_equal(one: str, other: str) -> bool:
    # The time that a comparison takes must not tell how much of a token was right.
    return hmac.compare_digest(one.encode(), other.encode())


def _is_unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
