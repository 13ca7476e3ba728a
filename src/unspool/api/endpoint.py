"""Reads from the environment where the Messages API is and with which key, and builds the headers of requests.

Rules
  1. The environment is passed in; nothing is read from this process.
  2. Keys and tokens are in headers, and nowhere else: no text, no repr, no message has them.
  3. A custom header goes before ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from unspool.errors import ApiFailed, UsageError

if TYPE_CHECKING:
    import ssl

Protocol: TypeAlias = Literal["messages", "completions", "any"]
"""What a server speaks: the Messages API, OpenAI's chat completions, or whichever of the two it has, in this order."""

DEFAULT_BASE_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"
HIDDEN = "(hidden)"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_WORDS = ("key", "token", "secret", "auth", "cookie", "password")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The address of an API, and the credentials and headers for it."""

    base_url: str = DEFAULT_BASE_URL
    key: str | None = None
    token: str | None = None
    custom: tuple[tuple[str, str], ...] = ()
    """Headers that the user sets."""
    proxy: str | None = None
    certificates: str | None = None
    """A file of certificate authorities to trust as well."""
    protocol: Protocol = "messages"
    completions_path: str = "/v1/chat/completions"
    key_setting: str = "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
    """The variable that the key is in, for hints."""
    address_setting: str = "ANTHROPIC_BASE_URL"
    """What sets the address, for hints."""

    def headers(self, betas: Iterable[str] = ()) -> dict[str, str]:
        """Return the headers of a request."""
        joined = ",".join(betas)
        ours = {
            "accept": "text/event-stream, application/json",
            "anthropic-version": API_VERSION,
            "content-type": "application/json",
            "user-agent": "unspool",
            **({"anthropic-beta": joined} if joined else {}),
            **({"x-api-key": self.key} if self.key else {}),
            **({"authorization": f"Bearer {self.token}"} if self.token else {}),
        }
        # Custom headers last, so that they replace ours.
        return {**ours, **{name.lower(): value for name, value in self.custom}}

    @property
    def shown_url(self) -> str:
        """The address, without a password in it."""
        parts = urlsplit(self.base_url)
        return self.hide_secrets(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())

    def hide_secrets(self, text: str) -> str:
        """Return a text without the secrets of this endpoint: a gateway may repeat them."""
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> list[str]:
        own = [value for name, value in self.custom if is_secret_header(name)]
        password = urlsplit(self.proxy).password if self.proxy else None
        found = [secret for secret in (self.key, self.token, password, *own) if secret]
        bare = [secret.removeprefix("Bearer ") for secret in found]
        # Longest first: a secret may contain another. Very short ones would hide half of any text.
        return sorted({secret for secret in (*found, *bare) if len(secret) > 3}, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    __str__ = __repr__

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Show no more to a pretty printer."""
        return [("base_url", self.base_url)]


def endpoint_from_environment(environment: Mapping[str, str]) -> Endpoint:
    """Return the API that an environment names: `ANTHROPIC_BASE_URL`, `_API_KEY`, `_AUTH_TOKEN`, `_CUSTOM_HEADERS`."""
    custom = _parse_headers(environment.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    key = read_secret(environment, "ANTHROPIC_API_KEY")
    token = read_secret(environment, "ANTHROPIC_AUTH_TOKEN")
    if not key and not token and not {name.lower() for name, _ in custom} & {"x-api-key", "authorization"}:
        hint = "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
        raise ApiFailed("no API key for the Messages API", hint=hint)
    base = check_base_url(environment.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL)
    return Endpoint(
        base_url=base,
        key=key,
        token=token,
        custom=custom,
        proxy=find_proxy(environment, base),
        certificates=certificates_path(environment),
    )


def is_secret_header(name: str) -> bool:
    """Return whether the value of a header must not be shown, by its name."""
    return any(word in name.lower() for word in _SECRET_WORDS)


def certificates_path(environment: Mapping[str, str]) -> str | None:
    """Return the file of certificate authorities that an environment names."""
    return environment.get("SSL_CERT_FILE") or environment.get("NODE_EXTRA_CA_CERTS") or None


def ssl_context(certificates: str | None) -> ssl.SSLContext:
    """Return a TLS context that also trusts the authorities in a file."""
    import httpx2

    context = httpx2.create_ssl_context(trust_env=False)
    if certificates:
        try:
            context.load_verify_locations(certificates)
        except OSError as error:
            words = (error.strerror or "not certificates").lower()
            raise UsageError(f"cannot read certificates from `{certificates}`: {words}") from None
    return context


def check_base_url(url: str, setting: str = "ANTHROPIC_BASE_URL") -> str:
    """Return the address of an API without a slash at its end; `UsageError` if it is none."""
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.query
        sound = sound and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound:  # it is not repeated in the message: it may hold a password
        raise UsageError(f"{setting} is not a URL", hint=f"set it to a URL like `{DEFAULT_BASE_URL}`")
    return url.strip().rstrip("/")


def read_secret(environment: Mapping[str, str], name: str) -> str | None:
    """Return a key from the environment; `UsageError` if no header can hold it."""
    value = environment.get(name, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise UsageError(f"{name} contains characters that are not allowed in a header")
    return value or None


def _parse_headers(text: str) -> tuple[tuple[str, str], ...]:
    """Return headers that are written a line each: `Name: value`."""
    headers = []
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not colon or not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
            raise UsageError(
                "ANTHROPIC_CUSTOM_HEADERS has a line that is not a header",
                hint="write one header per line: `Name: value`",
            )
        headers.append((name, value))
    return tuple(headers)


def find_proxy(environment: Mapping[str, str], base: str) -> str | None:
    """Return the proxy that the environment has for an address; this machine needs none."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    # For a proxy `localhost` is its own machine.
    if host in ("localhost", "::1") or host.startswith("127."):
        return None
    exempt = _read_either(environment, "no_proxy").replace(" ", ",").split(",")
    if "*" in exempt or any(name and (host == name or host.endswith("." + name.lstrip("."))) for name in exempt):
        return None
    proxy = _read_either(environment, f"{parts.scheme}_proxy") or _read_either(environment, "all_proxy")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise UsageError(
            f"{parts.scheme.upper()}_PROXY is not a URL", hint="set it to a URL that starts with `http://`"
        )
    return proxy or None


def _read_either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""
