"""Signs in to MCP servers by OAuth: authorization code with PKCE, in a browser, with an answer on loopback.

The SDK's provider speaks the protocol. Tokens are in `mcp-tokens.json` of the data folder, which its owner alone reads:

    {"servers": {"issues https://example.org/mcp": {"tokens": {…}, "client": {…}, "metadata": {…}, "expires_at": 1e9}}}

Rules
  1. Nothing is signed in to unless the user asks for it. Without that, kept tokens are used and renewed, no more.
  2. A token belongs to a name and an address: another server of the same name does not get it.
  3. An authorization server is hostile input. Its addresses have to be https, unless they are on the host of the MCP
     server itself; numbers of other machines in the local network are refused. What it sends is bounded as all else.
  4. The answer of the browser is taken once, on a free port of this machine, and only with the state that was sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from unspool.client.mcp.server_config import ServerConfig
from unspool.client.tool_result import Json
from unspool.errors import UnspoolError
from unspool.files import atomic
from unspool.paths import data_folder

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

FILE_NAME = "mcp-tokens.json"
SIGN_IN_SECONDS = 300.0
"""How long the user has to sign in."""
_MAX_REQUEST = 16 * 1024
_MAX_ADDRESS = 8_000
_MAX_TOKENS = 64 * 1024
_READ_SECONDS = 10.0
_PAGE = "<!doctype html><title>unspool</title><p>{}</p>"


class SignInFailed(Exception):
    """A sign-in that cannot go on; the text says why."""


class KeptSignIn(msgspec.Struct, omit_defaults=True):
    """What is kept of one sign-in, as the SDK writes it."""

    tokens: Json | None = None
    client: Json | None = None
    metadata: Json | None = None
    expires_at: float | None = None


class _TokensFile(msgspec.Struct):
    servers: dict[str, KeptSignIn] = {}


class TokenFile:
    """The tokens of one server; it has the methods that the SDK stores tokens with."""

    def __init__(self, server: ServerConfig, environment: Mapping[str, str]) -> None:
        self._folder = data_folder(environment)
        self._key = f"{server.name} {server.url}"

    def read(self) -> KeptSignIn:
        """Return what is kept; nothing, if it cannot be read."""
        with suppress(UnspoolError, msgspec.MsgspecError, UnicodeError, RecursionError):
            data = atomic.read_current(self._folder / FILE_NAME, within=self._folder).data
            return msgspec.json.decode(data or b"{}", type=_TokensFile).servers.get(self._key, KeptSignIn())
        return KeptSignIn()

    def write(self, kept: KeptSignIn | None) -> None:
        """Keep a sign-in, or forget it."""
        before = atomic.read_current(self._folder / FILE_NAME, within=self._folder)
        try:
            document = msgspec.json.decode(before.data or b"{}", type=_TokensFile)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise SignInFailed(f"cannot read `{before.path}`: fix or delete the file") from None
        document.servers.pop(self._key, None)
        if kept is not None:
            document.servers[self._key] = kept
        data = msgspec.json.encode(document)
        if kept is not None and len(msgspec.json.encode(kept)) > _MAX_TOKENS:
            raise SignInFailed("its tokens are longer than 64 KB")
        atomic.replace_file(before, data)  # a new file is for its owner only

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; None if there are none that the SDK can read."""
        from mcp.shared.auth import OAuthToken

        kept = self.read().tokens
        with suppress(ValueError):
            return None if kept is None else OAuthToken.model_validate(kept)
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, and when they end."""
        seconds = tokens.expires_in
        kept = msgspec.structs.replace(
            self.read(), tokens=_as_json(tokens), expires_at=None if seconds is None else time.time() + seconds
        )
        self.write(kept)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what the authorization server registered this program as."""
        from mcp.shared.auth import OAuthClientInformationFull

        kept = self.read().client
        with suppress(ValueError):
            return None if kept is None else OAuthClientInformationFull.model_validate(kept)
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep what the authorization server registered this program as."""
        self.write(msgspec.structs.replace(self.read(), client=_as_json(client_info)))


def can_sign_in(server: ServerConfig) -> bool:
    """Return whether a server may be signed in to: it is reached over HTTP, and has no token of its own."""
    return server.transport in ("http", "sse") and not any(name.lower() == "authorization" for name in server.headers)


def kept_provider(server: ServerConfig, environment: Mapping[str, str]) -> OAuthClientProvider | None:
    """Return what sends and renews the tokens of an earlier sign-in; None if there was none."""
    file = TokenFile(server, environment)
    if not can_sign_in(server) or file.read().tokens is None:
        return None
    return _make_provider(server, file, "http://127.0.0.1/callback", None, None)


@asynccontextmanager
async def open_sign_in(
    server: ServerConfig, environment: Mapping[str, str], show: Callable[[str], None]
) -> AsyncIterator[OAuthClientProvider]:
    """Yield what signs in when the server asks for it; `show` gets the address for the browser."""
    file = TokenFile(server, environment)
    file.write(None)  # the port of the answer is another one each time: the program is registered anew
    waiting = _BrowserAnswer()
    listener = await asyncio.start_server(waiting.serve, "127.0.0.1", 0, limit=_MAX_REQUEST)
    port = listener.sockets[0].getsockname()[1]

    async def redirect(address: str) -> None:
        _check_shown(address, server)
        waiting.expect((parse_qs(urlsplit(address).query).get("state") or [""])[0])
        show(address)
        await asyncio.to_thread(open_browser, address, environment)

    try:
        provider = _make_provider(server, file, f"http://127.0.0.1:{port}/callback", redirect, waiting.wait)
        yield provider
        if (metadata := provider.context.oauth_metadata) is not None:
            file.write(msgspec.structs.replace(file.read(), metadata=_as_json(metadata)))
    finally:
        listener.close()


def _make_provider(
    server: ServerConfig,
    file: TokenFile,
    redirect_uri: str,
    redirect: Callable[[str], Awaitable[None]] | None,
    wait: Callable[[], Awaitable[AuthorizationCodeResult]] | None,
) -> OAuthClientProvider:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata
    from pydantic import AnyUrl

    async def refuse(address: str) -> None:
        raise SignInFailed("its tokens are not accepted any more")

    async def never() -> AuthorizationCodeResult:
        raise SignInFailed("nobody was asked")

    about = OAuthClientMetadata(
        redirect_uris=[AnyUrl(redirect_uri)], client_name="unspool", token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(server.url, about, file, redirect or refuse, wait or never)
    kept = file.read()
    # The SDK forgets these with the process, and would not renew a token without them.
    provider.context.token_expiry_time = kept.expires_at
    with suppress(ValueError):
        if kept.metadata is not None:
            provider.context.oauth_metadata = OAuthMetadata.model_validate(kept.metadata)
    return provider


async def check_request(request: httpx2.Request, server: ServerConfig) -> None:
    """Refuse a request to an address that an authorization server may not send us to."""
    own = urlsplit(server.url)
    if request.url.host == own.hostname:
        return
    if request.url.scheme != "https":
        raise SignInFailed(f"it leads to `{request.url.host[:100]}` without https")
    with suppress(ValueError):
        if not ipaddress.ip_address(request.url.host.strip("[]")).is_global:
            raise SignInFailed(f"it leads to `{request.url.host[:100]}`, which is no public address")


def _check_shown(address: str, server: ServerConfig) -> None:
    """Raise a `SignInFailed` if an address is none for a browser."""
    parts = urlsplit(address)
    is_own = parts.hostname == urlsplit(server.url).hostname
    if parts.scheme != "https" and not (parts.scheme == "http" and is_own):
        raise SignInFailed("the address to sign in at is not https")
    if len(address) > _MAX_ADDRESS or not address.isascii() or not address.isprintable():
        raise SignInFailed("the address to sign in at is none for a browser")


def open_browser(address: str, environment: Mapping[str, str]) -> bool:
    """Open an address in the browser of the desktop, if there is one; tell whether a program was started."""
    if sys.platform == "darwin":
        command = "open"
    elif environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"):
        command = "xdg-open"
    else:
        return False  # a browser in this terminal would take it away from the chat
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [command, address],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_READ_SECONDS,
            check=False,
        )
        return True
    return False


class _BrowserAnswer:
    """Waits for the address that the browser is sent to after the sign-in."""

    def __init__(self) -> None:
        self._state: str | None = None
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    def expect(self, state: str) -> None:
        """Take an answer with this state only."""
        self._state = state

    async def wait(self) -> AuthorizationCodeResult:
        """Return the answer; a `SignInFailed` if it says no, or does not come."""
        from mcp.client.auth import AuthorizationCodeResult

        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                answer = await asyncio.shield(self._answer)
        except TimeoutError:
            raise SignInFailed(f"nobody signed in within {SIGN_IN_SECONDS:g} s") from None
        if "code" not in answer:
            raise SignInFailed(f"the sign-in was refused: {answer.get('error', 'no code came')[:100]}")
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a browser, or of whoever else knocks."""
        status, text = "400 Bad Request", "This is not the answer that unspool waits for."
        with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            method, target, *_ = head.decode("ascii").split(" ")
            parts = urlsplit(target)
            answer = {name: values[0] for name, values in parse_qs(parts.query).items()}
            is_ours = method == "GET" and parts.path == "/callback" and self._state is not None
            if is_ours and answer.get("state") == self._state and not self._answer.done():
                self._answer.set_result(answer)
                status, text = "200 OK", "You can close this page and go back to unspool."
            body = _PAGE.format(text)
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
                f"referrer-policy: no-referrer\r\nconnection: close\r\n\r\n{body}".encode()
            )
            await writer.drain()
        writer.close()


def _as_json(value: Any) -> Json:
    dumped: Json = value.model_dump(mode="json", exclude_none=True)
    return dumped
