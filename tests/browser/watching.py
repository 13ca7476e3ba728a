"""A tab of the browser in which nothing goes unseen: what a page did that no page of ours may do.

Rules
  1. A request, a frame, a download, a popup or a socket to anywhere but an allowed origin is a problem, whether or not
     it was answered.
  2. A dialog, an error in the console, an exception nobody caught and a violation of the content policy are problems.
  3. Problems are told when the test is over (`Tab.problems`), each in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Download, Page, Request, WebSocket

DEADLINE = 60_000
"""Milliseconds that anything may take to appear."""
_HARMLESS = ("data:", "blob:", "about:")
_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`content policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""

Size = tuple[int, int]
WIDE: Size = (1440, 900)
NARROW: Size = (390, 844)


class Tab:
    """One page in a window of its own, with nothing in its past."""

    def __init__(
        self, browser: Browser, size: Size = WIDE, *, dark: bool = True, script: bool = True, downloads: bool = False
    ) -> None:
        self.problems: list[str] = []
        self.asked: list[str] = []
        """Every address that was asked for."""
        self._allowed: list[str] = []
        self.context: BrowserContext = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
            accept_downloads=downloads,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        self.context.set_default_timeout(DEADLINE)
        if script:
            self.context.add_init_script(_VIOLATIONS)
        self.context.on("request", self._request)
        self.context.on("dialog", self._dialog)
        self.context.on("console", self._console)
        self.context.on("weberror", lambda error: self._problem("exception", str(error.error)))
        self.page: Page = self.context.new_page()
        self.context.on("page", lambda page: self._problem("popup", page.url))
        if not downloads:
            self.page.on("download", self._download)
        self.page.on("websocket", self._websocket)

    def allow(self, origin: str) -> None:
        """Let pages ask this origin, or for this file."""
        self._allowed.append(origin)

    def go(self, address: str) -> Page:
        """Open an address whose origin is allowed from here on, and wait until it is loaded."""
        self.allow(origin_of(address))
        self.page.goto(address)
        return self.page

    def until(self, condition: str, argument: Any = None) -> Any:
        """Wait until an expression holds in the page; return its value."""
        return self.page.wait_for_function(condition, arg=argument).json_value()

    def metrics(self) -> dict[str, float]:
        """Return what the browser itself measures of the page: nodes, script memory, layouts."""
        session = self.context.new_cdp_session(self.page)
        session.send("Performance.enable")
        found: dict[str, float] = {
            one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]
        }
        session.detach()
        return found

    def close(self) -> None:
        """Close it; what it still wanted to say is heard first."""
        self.context.close()

    def _problem(self, kind: str, words: str) -> None:
        self.problems.append(f"{kind}: {words}")

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)
        if not self._may(request.url):
            self._problem("request", f"{request.method} {request.url}")

    def _may(self, address: str) -> bool:
        return address.startswith(_HARMLESS) or origin_of(address) in self._allowed

    def _dialog(self, dialog: Dialog) -> None:
        self._problem("dialog", f"{dialog.type} {dialog.message}")
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._problem("console", f"{message.text} ({message.location.get('url', '')})")

    def _download(self, download: Download) -> None:
        self._problem("download", download.url)

    def _websocket(self, socket: WebSocket) -> None:
        self._problem("websocket", socket.url)


def origin_of(address: str) -> str:
    """Return scheme, host and port of an address; of a file the whole of it.

    >>> origin_of("http://127.0.0.1:80/a?b#c")
    'http://127.0.0.1:80'
    >>> origin_of("file:///a/b.html?c#d")
    'file:///a/b.html'
    """
    scheme, _, rest = address.partition("://")
    if scheme == "file":
        return address.partition("#")[0].partition("?")[0]
    for mark in "/?#":
        rest = rest.partition(mark)[0]
    return f"{scheme}://{rest}"


Tabs = Callable[..., Tab]
"""Opens a tab: `tabs(NARROW, dark=False, script=True)`."""
