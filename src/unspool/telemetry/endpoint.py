"""Reads from the environment and an option where telemetry is sent, and with which headers.

Rules
  1. The environment is passed in. The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_HEADERS`,
     `_COMPRESSION`, `_TIMEOUT`, `_CERTIFICATE`, `_PROTOCOL`, the same for `_TRACES_` and `_METRICS_`,
     `OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` (`none` sends none), `OTEL_SERVICE_NAME` and
     `OTEL_RESOURCE_ATTRIBUTES`.
  2. Values of headers are in no text, no repr and no message. They are not taken from arguments, which other users of
     the machine can read; for the same reason an address with a password or a query is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from unspool.errors import UsageError
from unspool.format import encode_json

TRACES: Final = "traces"
METRICS: Final = "metrics"
SIGNALS: Final = (TRACES, METRICS)
HIDDEN: Final = "(hidden)"
_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFAULT_TIMEOUT: Final = 10.0
_MAX_TIMEOUT: Final = 600.0
_OWN_HEADERS: Final = frozenset({"content-type", "content-encoding", "content-length", "host", "transfer-encoding"})


class TelemetryEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where spans and points go."""

    urls: tuple[str, str]
    """The addresses of traces and metrics."""
    headers: tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = ((), ())
    signals: tuple[str, ...] = SIGNALS
    """Those that are sent."""
    compress: bool = True
    timeout: float = _DEFAULT_TIMEOUT
    certificates: str | None = None
    proxy: str | None = None
    resource: tuple[tuple[str, str], ...] = (("service.name", "unspool"),)

    def url(self, signal: str) -> str:
        """Return the address of a signal."""
        return self.urls[SIGNALS.index(signal)]

    def signal_headers(self, signal: str) -> dict[str, str]:
        """Return the headers that the user has set for a signal."""
        return dict(self.headers[SIGNALS.index(signal)])

    @property
    def identity(self) -> str:
        """What the positions are kept for: the addresses and the resource, without a secret."""
        return encode_json([*map(self.url, self.signals), *map(list, self.resource)]).decode()

    def hide_secrets(self, text: str) -> str:
        """Return a text without the values of headers: a receiver may repeat them."""
        values = {value for headers in self.headers for _, value in headers}
        values |= {value.rpartition(" ")[2] for value in values}
        password = urlsplit(self.proxy).password if self.proxy else None
        # Longest first: a secret may contain another. Very short ones would hide half of any text.
        for secret in sorted({one for one in (*values, password) if one and len(one) > 3}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"TelemetryEndpoint({self.urls!r})"

    __str__ = __repr__

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Show no more to a pretty printer."""
        return [("urls", self.urls)]


def read_endpoint(given: str, environment: Mapping[str, str]) -> TelemetryEndpoint:
    """Return the endpoint of an option; where that is empty, of the environment."""
    from unspool.api import find_proxy

    _check_protocol(environment)
    urls = (_signal_url(given, TRACES, environment), _signal_url(given, METRICS, environment))
    headers = tuple(_read_headers(environment, signal) for signal in SIGNALS)
    return TelemetryEndpoint(
        urls=urls,
        headers=(headers[0], headers[1]),
        signals=_read_signals(environment),
        compress=_read(environment, "COMPRESSION").strip().lower() != "none",
        timeout=_read_timeout(environment),
        certificates=_read(environment, "CERTIFICATE") or environment.get("SSL_CERT_FILE") or None,
        proxy=find_proxy(environment, urls[0]),
        resource=_read_resource(environment),
    )


def _signal_url(given: str, signal: str, environment: Mapping[str, str]) -> str:
    if given:
        return _join(_check(given, "--otlp"), signal)
    name = f"{_PREFIX}{signal.upper()}_ENDPOINT"
    if own := environment.get(name, "").strip():
        return _check(own, name)  # for one signal, the address is used as it is
    name = f"{_PREFIX}ENDPOINT"
    base = environment.get(name, "").strip()
    if not base:
        hint = f"use `--otlp http://localhost:4318`, or set {name}"
        raise UsageError("no address to send telemetry to", hint=hint)
    return _join(_check(base, name), signal)


def _join(base: str, signal: str) -> str:
    for other in SIGNALS:
        base = base.removesuffix(f"/v1/{other}")
    return f"{base}/v1/{signal}"


def _check(url: str, setting: str) -> str:
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        is_sound = is_sound and url.isascii() and url.isprintable() and " " not in url
        has_secret = bool(parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        is_sound = has_secret = False
    if has_secret:  # it is not repeated in the message
        hint = f"put keys into {_PREFIX}HEADERS: other users can read arguments"
        raise UsageError(f"the address of {setting} has a user name, password or query", hint=hint)
    if not is_sound:
        raise UsageError(f"{setting} is not a URL", hint=f"use for example `{setting} http://localhost:4318`")
    return url.rstrip("/")


def _check_protocol(environment: Mapping[str, str]) -> None:
    protocol = _read(environment, "PROTOCOL").strip()
    if protocol not in ("", "http/protobuf"):
        hint = "unset the variable; receivers take `http/protobuf` on port 4318"
        raise UsageError(f"unspool sends OTLP as http/protobuf, not as {_PREFIX}PROTOCOL says", hint=hint)


def _read_signals(environment: Mapping[str, str]) -> tuple[str, ...]:
    found = tuple(one for one in SIGNALS if environment.get(f"OTEL_{one.upper()}_EXPORTER", "").strip() != "none")
    if not found:
        hint = "unset OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER"
        raise UsageError("neither traces nor metrics are to be sent", hint=hint)
    return found


def _read_headers(environment: Mapping[str, str], signal: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for name in (f"{_PREFIX}HEADERS", f"{_PREFIX}{signal.upper()}_HEADERS"):
        for part in environment.get(name, "").split(","):
            key, equals, value = part.partition("=")
            key, value = key.strip().lower(), unquote(value.strip())
            if not part.strip():
                continue
            if not equals or not _HEADER_NAME.fullmatch(key) or not (value.isascii() and value.isprintable()):
                # The part itself is not shown: it may be a key.
                raise UsageError(f"{name} has a part that is not a header", hint="write `name=value,name=value`")
            if key not in _OWN_HEADERS:
                found[key] = value
    return tuple(found.items())


def _read_timeout(environment: Mapping[str, str]) -> float:
    text = _read(environment, "TIMEOUT").strip()
    if not text:
        return _DEFAULT_TIMEOUT
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) <= _MAX_TIMEOUT * 1000):
        raise UsageError(f"{_PREFIX}TIMEOUT is not a number of milliseconds", hint="set it to 10000 for ten seconds")
    return int(text[:9]) / 1000


def _read_resource(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the resource: whose telemetry this is. The name of the service goes before an attribute of that name."""
    found = {"service.name": "unspool"}
    for part in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip() and key.isascii() and key.isprintable():
            found[key.strip()] = unquote(value.strip(), errors="replace").encode("utf-8", "replace").decode()
    if name := environment.get("OTEL_SERVICE_NAME", "").strip():
        found["service.name"] = name.encode("utf-8", "replace").decode()
    return tuple(sorted(found.items()))


def _read(environment: Mapping[str, str], name: str) -> str:
    return environment.get(_PREFIX + name, "")
