"""Sends an event to a server and reads its answer: a hook of the type `http`.

Rules
  1. The event is posted as JSON. A status of 2xx with a JSON object is the answer; with an empty body it has nothing to
     say. Every other status, another body, a redirect and a lost connection are no answer (2.1.327 was measured; there
     they block nothing).
  2. The server is on the public web or on this machine. No other address of the network is reached, unless
     `UNSPOOL_FETCH_HOSTS` names it.
  3. Headers may name variables of the environment: only those that the hook lists, and none of our keys.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

from unspool.client.hooks.answers import HookCall, HookReply, parse_output
from unspool.client.tools.shell.process import make_environment
from unspool.errors import UnspoolError

_MAX_SHOWN = 300
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "host", "connection"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_VALUES = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


class HttpHook:
    """One address that events are sent to."""

    def __init__(
        self,
        url: str,
        timeout: float,
        headers: Mapping[str, str],
        environment: Mapping[str, str],
        *,
        variables: frozenset[str] = frozenset(),
        allowed_urls: Sequence[str] | None = None,
    ) -> None:
        self.label = url
        self.timeout = timeout
        self._environment = environment
        self._headers = _expand_headers(headers, make_environment(environment), variables)
        self._is_allowed = allowed_urls is None or any(_matches(url, pattern) for pattern in allowed_urls)

    async def call(self, call: HookCall) -> HookReply:
        """Send the event, and return the answer."""
        began = time.monotonic()
        if not self._is_allowed:
            return HookReply(failure="its address matches no pattern of `allowedHttpHookUrls`")
        from unspool.api import FetchLimits, PageFetcher

        fetcher = PageFetcher(self._environment, limits=FetchLimits(self.timeout, 1 << 20))
        try:
            async with asyncio.timeout(self.timeout):
                page = await fetcher.post(self.label, call.encode_input(), self._headers)
        except TimeoutError:
            reply = HookReply(failure=f"it did not answer within {self.timeout:g} s", timed_out=True)
        except UnspoolError as error:
            reply = HookReply(failure=error.message[:_MAX_SHOWN])
        else:
            body = page.body.decode(errors="replace").strip()
            reply = HookReply(stdout=body, exit_code=page.status)
            if not 200 <= page.status < 300:
                reply = reply._replace(failure=f"it answered with HTTP status {page.status}")
            elif not page.is_whole:
                reply = reply._replace(failure="its answer is longer than a mebibyte", stdout="")
            elif body:
                reply = parse_output(call.event, reply._replace(stdout=body), body)
        return reply._replace(milliseconds=round((time.monotonic() - began) * 1000))


def _expand_headers(
    headers: Mapping[str, str], environment: Mapping[str, str], variables: frozenset[str]
) -> dict[str, str]:
    """Return headers with the variables that they may name; one that is no header is left out."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environment.get(name, "") if name in variables else ""

    expanded = {"content-type": "application/json"}
    for name, value in headers.items():
        if _NAME.fullmatch(name) and name.lower() not in _OWN_HEADERS:
            expanded[name.lower()] = _NOT_IN_VALUES.sub("", _VARIABLE.sub(value_of, value)).strip()
    return expanded


def _matches(url: str, pattern: str) -> bool:
    """Return whether an address matches a pattern, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), url) is not None
