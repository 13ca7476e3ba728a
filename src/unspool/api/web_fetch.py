"""Fetches pages from the public web: an address in, the page out. It is here because this folder does all HTTP.

Rules
  1. Nothing is fetched from this machine, its network or what only looks public: every address that a name has must be
     public, at every step, and the connection goes to the address that was checked. A person may name exceptions
     (`UNSPOOL_FETCH_HOSTS`). What a person has written into settings may also be sent to this machine itself (`post`).
  2. Another host is another question: a redirect there is reported, and not followed.
  3. A page has a largest size and a longest time. No cookies, no keys, no password in an address.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from unspool.api.endpoint import certificates_path, find_proxy, ssl_context
from unspool.api.errors import describe_error
from unspool.errors import Refused, Unreadable, UsageError

if TYPE_CHECKING:
    import httpx2

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
# From IANA's registries of special-purpose addresses, whatever they say of being reachable: no web page is there. Not
# `is_global`, which says so of some of them, and depends on the version of Python.
_SPECIAL_IPV4 = tuple(
    map(
        ipaddress.IPv4Network,
        ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
         "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
         "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
         # In no registry: each virtual machine of Azure reaches its host there.
         "168.63.129.16/32"),
    )
)  # fmt: skip
_SPECIAL_IPV6 = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3ffe::/16", "3fff::/20"),
    )
)
"""Those inside `_GLOBAL_UNICAST`; nothing outside of it is public."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5",
    "user-agent": "unspool",
}


class FetchLimits(NamedTuple):
    """How much is fetched at most."""

    seconds: float = 60.0
    size: int = 10 << 20
    steps: int = 10


DEFAULT_LIMITS = FetchLimits()


class FetchedPage(NamedTuple):
    """A response from the web."""

    url: str
    """Where it was in the end."""
    status: int
    reason: str
    content_type: str
    body: bytes = b""
    is_whole: bool = True
    moved: str | None = None
    """Where it is now, if that is another host."""


async def resolve_host(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class PageFetcher:
    """Fetches pages, within limits."""

    def __init__(
        self, environment: Mapping[str, str], *, limits: FetchLimits = DEFAULT_LIMITS, resolve: Resolve = resolve_host
    ) -> None:
        self._environment = environment
        self._limits = limits
        self._resolve = resolve
        words = environment.get("UNSPOOL_FETCH_HOSTS", "").replace(",", " ").lower()
        self._exceptions = frozenset(words.split())

    def is_exception(self, host: str, port: int | None) -> bool:
        """Return whether a person has named a host as one to fetch from, wherever it is."""
        return host.lower() in self._exceptions or f"{host.lower()}:{port}" in self._exceptions

    async def get(self, url: str) -> FetchedPage:
        """Return a page; `Refused` or `Unreadable` if it cannot be had."""
        _require_client()
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(url)
        except TimeoutError:
            raise Unreadable(f"`{url}` took longer than {self._limits.seconds:g} s") from None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> FetchedPage:
        """Send a body to an address that is public or on this machine; follow no redirect, return what it answers."""
        _require_client()
        target = _parse_url(url)
        async with self._open(target, _Sending(body, headers)) as response:
            content_type = response.headers.get("content-type", "")
            page = FetchedPage(str(target), response.status_code, response.reason_phrase or "", content_type)
            answer, is_whole = await self._read_body(response)
            return page._replace(body=answer, is_whole=is_whole)

    async def _follow(self, address: str) -> FetchedPage:
        """Fetch a page through redirects on one host."""
        url = _parse_url(address)
        for _ in range(self._limits.steps):
            async with self._open(url) as response:
                content_type, location = response.headers.get("content-type", ""), response.headers.get("location")
                page = FetchedPage(str(url), response.status_code, response.reason_phrase or "", content_type)
                if response.status_code in _REDIRECTS and location:
                    target = _join(url, location)
                    if not _is_same_host(url, target):
                        return page._replace(moved=str(target))
                    url = target
                    continue
                body, is_whole = await self._read_body(response)
                return page._replace(body=body, is_whole=is_whole)
        raise Unreadable(f"too many redirects from `{address}`")

    @asynccontextmanager
    async def _open(self, url: httpx2.URL, sending: _Sending | None = None) -> AsyncIterator[httpx2.Response]:
        import httpx2

        proxy = find_proxy(self._environment, str(url))
        addresses = await self._public_addresses(url, proxy, allows_this_machine=sending is not None)
        method, given, content = ("GET", _HEADERS, None) if sending is None else sending.parts
        headers = {**given, "host": url.netloc.decode("ascii")}
        context = ssl_context(certificates_path(self._environment))
        async with httpx2.AsyncClient(
            verify=context, proxy=proxy, trust_env=False, timeout=httpx2.Timeout(self._limits.seconds)
        ) as client:
            problem = ""
            for address in addresses:
                # The checked address itself: the name, looked up again, might lead elsewhere (DNS rebinding).
                target = url if proxy else url.copy_with(host=address)
                # The certificate is checked for the name, though the connection goes to the address.
                extensions = {"sni_hostname": url.raw_host.decode("ascii")}
                request = client.build_request(method, target, content=content, headers=headers, extensions=extensions)
                try:
                    response = await client.send(request, stream=True)
                # Only a connection that did not come about is tried at the next address.
                except httpx2.ConnectError as error:
                    problem = str(error)
                    continue
                except httpx2.RequestError as error:
                    problem = describe_error(error)
                    break
                try:
                    yield response
                except httpx2.RequestError as error:
                    raise Unreadable(f"connection to `{url}` lost: {describe_error(error)}") from None
                finally:
                    await response.aclose()
                return
        raise Unreadable(f"cannot reach `{url.host}`: {problem or 'no response'}")

    async def _public_addresses(
        self, url: httpx2.URL, proxy: str | None, *, allows_this_machine: bool = False
    ) -> list[str]:
        """Return the addresses of a host, if all of them may be fetched from."""
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        try:
            found = await self._resolve(url.raw_host.decode("ascii"), port)
        except (OSError, UnicodeError) as error:
            if proxy is not None and self.is_exception(url.host, port):
                return [url.host]
            if proxy is not None:  # the proxy may know the name, and nobody has checked where it leads then
                raise Refused(
                    f"cannot resolve `{url.host}` here, and the proxy might fetch it from its own network",
                    hint="list the host in `UNSPOOL_FETCH_HOSTS` to allow it",
                ) from None
            words = error.strerror if isinstance(error, OSError) else None
            raise Unreadable(f"unknown host: `{url.host}` ({(words or 'it is not a name').lower()})") from None
        is_allowed = all(is_public(address) or (allows_this_machine and _is_loopback(address)) for address in found)
        if not self.is_exception(url.host, port) and not is_allowed:
            raise Refused(
                f"`{url.host}` is not a public address",
                hint="list the host in `UNSPOOL_FETCH_HOSTS` to allow it",
            )
        return found[:1] if proxy is not None else found

    async def _read_body(self, response: httpx2.Response) -> tuple[bytes, bool]:
        body = bytearray()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > self._limits.size:
                return bytes(body[: self._limits.size]), False
        return bytes(body), True


def _require_client() -> None:
    try:
        import httpx2  # noqa: F401
    except ModuleNotFoundError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("chat") from None


class _Sending(NamedTuple):
    """A body to send."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def parts(self) -> tuple[str, Mapping[str, str], bytes]:
        """The method, the headers and the body of the request."""
        return "POST", {"user-agent": _HEADERS["user-agent"], "accept-encoding": "identity", **self.headers}, self.body


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Return whether an address is one of the public web; an IPv4 address inside an IPv6 one is checked itself."""
    try:
        # What follows `%` is the zone of a link-local address, as in `fe80::1%eth0`.
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        # Behind NAT64 the last 32 bits are the IPv4 address that the packet goes to.
        nat64 = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None
        inner = found.ipv4_mapped or nat64
        if inner is None:
            return found in _GLOBAL_UNICAST and not any(found in network for network in _SPECIAL_IPV6)
        found = inner
    return not any(found in network for network in _SPECIAL_IPV4)


def _parse_url(text: str) -> httpx2.URL:
    import httpx2

    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise UsageError(f"not a URL: `{text}`") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"not an http or https URL: `{text}`")
    if url.userinfo:
        raise Refused("the URL contains a user name or password")
    return url


def _join(url: httpx2.URL, location: str) -> httpx2.URL:
    import httpx2

    try:
        return _parse_url(str(url.join(location)))
    except (httpx2.InvalidURL, ValueError):
        raise Unreadable(f"`{url}` redirects to an invalid URL") from None


def _is_same_host(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Return whether two addresses are on one host; `www.` makes no other."""
    hosts = {url.host.lower().removeprefix("www.") for url in (one, other)}
    return len(hosts) == 1 and (one.scheme, one.port) == (other.scheme, other.port)
