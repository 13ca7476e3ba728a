"""Where the API is and who asks: the environment in, an address and headers out.

Rules
  1. The environment is given; nothing is read from this process.
  2. Keys and tokens are in headers, and nowhere else: no text, no repr, no message has them.
  3. A header of one's own goes before ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from unspool.errors import ApiFailed, Usage

BASE = "https://api.anthropic.com"
VERSION = "2023-06-01"
HIDDEN = "(hidden)"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET = ("key", "token", "secret", "auth", "cookie", "password")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """An API and what it is told about who asks."""

    base_url: str = BASE
    key: str | None = None
    token: str | None = None
    custom: tuple[tuple[str, str], ...] = ()
    """Headers of one's own."""
    proxy: str | None = None
    certificates: str | None = None
    """A file of certificate authorities to trust as well."""

    def headers(self, betas: Iterable[str] = ()) -> dict[str, str]:
        """Return the headers of a request."""
        named = ",".join(betas)
        ours = {
            "accept": "text/event-stream, application/json",
            "anthropic-version": VERSION,
            "content-type": "application/json",
            "user-agent": "unspool",
            **({"anthropic-beta": named} if named else {}),
            **({"x-api-key": self.key} if self.key else {}),
            **({"authorization": f"Bearer {self.token}"} if self.token else {}),
        }
        return {**ours, **{name.lower(): value for name, value in self.custom}}

    def hide(self, text: str) -> str:
        """Return a text without the secrets of this endpoint: a gateway may say them back."""
        for secret in self._secrets():
            text = text.replace(secret, HIDDEN)
        return text

    def _secrets(self) -> list[str]:
        own = [value for name, value in self.custom if any(word in name.lower() for word in _SECRET)]
        password = urlsplit(self.proxy).password if self.proxy else None
        found = [secret for secret in (self.key, self.token, password, *own) if secret]
        bare = [secret.removeprefix("Bearer ") for secret in found]
        return sorted({secret for secret in (*found, *bare) if len(secret) > 3}, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    __str__ = __repr__

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Say no more to a pretty printer."""
        return [("base_url", self.base_url)]


def endpoint(environment: Mapping[str, str]) -> Endpoint:
    """Return the API that an environment names: `ANTHROPIC_BASE_URL`, `_API_KEY`, `_AUTH_TOKEN`, `_CUSTOM_HEADERS`."""
    base = environment.get("ANTHROPIC_BASE_URL") or BASE
    custom = _custom(environment.get("ANTHROPIC_CUSTOM_HEADERS", ""))
    key = _secret(environment, "ANTHROPIC_API_KEY")
    token = _secret(environment, "ANTHROPIC_AUTH_TOKEN")
    own = {name.lower() for name, _ in custom}
    if not key and not token and not own & {"x-api-key", "authorization"}:
        hint = "set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"
        raise ApiFailed("there is no key for the Messages API", hint=hint)
    return Endpoint(
        base_url=_base(base),
        key=key,
        token=token,
        custom=custom,
        proxy=proxy_for(environment, _base(base)),
        certificates=environment.get("SSL_CERT_FILE") or environment.get("NODE_EXTRA_CA_CERTS") or None,
    )


def _base(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in ("http", "https") and parts.hostname and not parts.username and not parts.query
        sound = sound and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound:  # what it is instead may hold a password
        raise Usage("ANTHROPIC_BASE_URL is not an address", hint=f"it should be like `{BASE}`")
    return url.strip().rstrip("/")


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    value = environment.get(name, "").strip()
    if value and not (value.isascii() and value.isprintable()):
        raise Usage(f"{name} has characters that no header can have")
    return value or None


def _custom(text: str) -> tuple[tuple[str, str], ...]:
    """Return headers that are written a line each: `Name: value`."""
    found = []
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not colon or not _NAME.fullmatch(name) or not (value.isascii() and (value.isprintable())):
            raise Usage("ANTHROPIC_CUSTOM_HEADERS has a line that is no header", hint="a line each: `Name: value`")
        found.append((name, value))
    return tuple(found)


def proxy_for(environment: Mapping[str, str], base: str) -> str | None:
    """Return the proxy that the environment has for an address; this machine needs none."""
    parts = urlsplit(base)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127."):
        return None
    exempt = _either(environment, "no_proxy").replace(" ", ",").split(",")
    if "*" in exempt or any(name and (host == name or host.endswith("." + name.lstrip("."))) for name in exempt):
        return None
    proxy = _either(environment, f"{parts.scheme}_proxy") or _either(environment, "all_proxy")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise Usage(f"{parts.scheme.upper()}_PROXY is not an address", hint="it should begin with `http://`")
    return proxy or None


def _either(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.upper()) or ""
