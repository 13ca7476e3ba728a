"""A page from the web: an address in, the page out. Not the Messages API, but HTTP has its home here.

Rules
  1. Nothing is fetched from this machine, its network or what only looks public: every address that a name has must be
     public, at every step, and the connection goes to the address that was looked at. A person may name exceptions
     (`UNSPOOL_FETCH_HOSTS`).
  2. Another host is another question: who sends us there is told of, and not followed.
  3. A page has a largest size and a longest time. No cookies, no keys, no password in an address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from unspool.api.endpoint import proxy_for
from unspool.errors import Refused, Unreadable, Usage

if TYPE_CHECKING:
    import ssl

    import httpx2

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_MOVED = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
    "user-agent": "unspool",
}


class Limits(NamedTuple):
    """How much is fetched."""

    seconds: float = 60.0
    size: int = 10 << 20
    steps: int = 10


LIMITS = Limits()


class Page(NamedTuple):
    """What was found."""

    url: str
    """Where it was found in the end."""
    status: int
    reason: str
    content_type: str
    body: bytes
    is_whole: bool = True
    moved: str | None = None
    """Where it is now, if that is another host."""


async def resolved(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


class Fetcher:
    """Who fetches."""

    def __init__(self, environment: Mapping[str, str], *, limits: Limits = LIMITS, resolve: Resolve = resolved) -> None:
        self._environment = environment
        self._limits = limits
        self._resolve = resolve
        words = environment.get("UNSPOOL_FETCH_HOSTS", "").replace(",", " ").lower()
        self._exceptions = frozenset(words.split())

    def is_exception(self, host: str, port: int | None) -> bool:
        """Tell whether a person has named a host as one to fetch from, wherever it is."""
        return host.lower() in self._exceptions or f"{host.lower()}:{port}" in self._exceptions

    async def get(self, url: str) -> Page:
        """Return a page; `Refused` or `Unreadable` if it cannot be had."""
        _needed()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._followed(url)
        except TimeoutError:
            raise Unreadable(f"`{url}` took longer than {self._limits.seconds:g} s") from None

    async def _followed(self, address: str) -> Page:
        url = _url(address)
        for _ in range(self._limits.steps):
            async with self._opened(url) as response:
                location = response.headers.get("location")
                if response.status_code in _MOVED and location:
                    target = _joined(url, location)
                    if not _same_place(url, target):
                        return _page(url, response, b"")._replace(moved=str(target))
                    url = target
                    continue
                body, whole = await self._body(response)
                return _page(url, response, body)._replace(is_whole=whole)
        raise Unreadable(f"`{address}` leads in circles")

    @asynccontextmanager
    async def _opened(self, url: httpx2.URL) -> AsyncIterator[httpx2.Response]:
        import httpx2

        proxy = proxy_for(self._environment, str(url))
        addresses = await self._addresses(url, through=proxy)
        headers = {**_HEADERS, "host": url.netloc.decode("ascii")}
        timeout = httpx2.Timeout(self._limits.seconds)
        async with httpx2.AsyncClient(
            verify=_certificates(self._environment), proxy=proxy, trust_env=False, timeout=timeout
        ) as client:
            problem = ""
            for address in addresses:
                target = url if proxy else url.copy_with(host=address)
                asked = client.build_request(
                    "GET", target, headers=headers, extensions={"sni_hostname": url.raw_host.decode("ascii")}
                )
                try:
                    response = await client.send(asked, stream=True)
                except httpx2.ConnectError as error:
                    problem = str(error)
                    continue
                except httpx2.RequestError as error:
                    problem = str(error) or type(error).__name__
                    break
                try:
                    yield response
                except httpx2.RequestError as error:
                    raise Unreadable(f"`{url}` broke off: {str(error) or type(error).__name__}") from None
                finally:
                    await response.aclose()
                return
        raise Unreadable(f"cannot reach `{url.host}`: {problem or 'nothing answers'}")

    async def _addresses(self, url: httpx2.URL, *, through: str | None) -> list[str]:
        """Return the addresses of a host, if all of them may be fetched from."""
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        try:
            found = await self._resolve(url.raw_host.decode("ascii"), port)
        except (OSError, UnicodeError) as error:
            if through is not None:  # the proxy may know what we do not
                return [url.host]
            words = error.strerror if isinstance(error, OSError) else None
            raise Unreadable(f"no such host: `{url.host}` ({(words or 'it is not a name').lower()})") from None
        if not self.is_exception(url.host, port):
            for address in found:
                if not is_public(address):
                    raise Refused(
                        f"`{url.host}` is not on the public web",
                        hint="`UNSPOOL_FETCH_HOSTS` names hosts to fetch from all the same",
                    )
        return found[:1] if through is not None else found

    async def _body(self, response: httpx2.Response) -> tuple[bytes, bool]:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._limits.size:
                return bytes(body[: self._limits.size]), False
        return bytes(body), True


def is_public(address: str) -> bool:
    """Tell whether an address is one of the public web; what an address of IPv6 wraps is looked at, too."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        wrapped = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        if found in _TRANSLATED:
            wrapped.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
        inner = [str(one) for one in wrapped if one is not None]
        if inner:
            return all(map(is_public, inner))
        if found.is_site_local:
            return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


def _needed() -> None:
    try:
        import httpx2  # noqa: F401
    except ModuleNotFoundError:
        raise Usage("fetching pages needs a library", hint="pip install 'unspool[chat]'") from None


def _url(text: str) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise Usage(f"not an address: `{text}`") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise Usage(f"not an address of the web: `{text}`")
    if url.userinfo:
        raise Refused("the address has a name or password in it")
    return url


def _joined(url: httpx2.URL, location: str) -> httpx2.URL:
    import httpx2

    try:
        return _url(str(url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise Unreadable(f"`{url}` leads to what is not an address") from None


def _same_place(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Tell whether two addresses are on one host; `www.` makes no other."""
    hosts = {url.host.lower().removeprefix("www.") for url in (one, other)}
    return len(hosts) == 1 and (one.scheme, one.port) == (other.scheme, other.port)


def _page(url: httpx2.URL, response: httpx2.Response, body: bytes) -> Page:
    reason = response.reason_phrase or ""
    return Page(str(url), response.status_code, reason, response.headers.get("content-type", ""), body)


def _certificates(environment: Mapping[str, str]) -> ssl.SSLContext:
    import httpx2

    context = httpx2.create_ssl_context(trust_env=False)
    if named := environment.get("SSL_CERT_FILE") or environment.get("NODE_EXTRA_CA_CERTS"):
        try:
            context.load_verify_locations(named)
        except OSError as error:
            words = (error.strerror or "not certificates").lower()
            raise Usage(f"cannot read the certificates in `{named}`: {words}") from None
    return context
