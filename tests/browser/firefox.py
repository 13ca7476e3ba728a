"""Firefox, the other browser that the tests drive: found where it is, else installed, and driven over WebDriver BiDi.

`python -m tests.browser.firefox` is what `make test` runs after Chromium, by the same rules: `$UNSPOOL_FIREFOX` names
another one, and only the system's own package manager is ever asked. Firefox itself speaks WebDriver BiDi, so neither
a driver nor a browser build of a test tool is needed.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.browser.chromium import Program, ensure

FIREFOX = Program(
    "Firefox",
    "UNSPOOL_FIREFOX",
    ("firefox-esr", "firefox"),
    ("/Applications/Firefox.app/Contents/MacOS/firefox",),
    {"apt-get": "firefox-esr", "dnf": "firefox", "pacman": "firefox"},
)
STARTS_WITHIN = 120.0
ANSWERS_WITHIN = 60.0
_LEFT = "NetworkError when attempting to fetch resource"
_LISTENS = b"WebDriver BiDi listening on "
# Nothing but the pages of the test is ever asked for: no updates, no news, no safe-browsing lists, no settings.
_PREFERENCES: Mapping[str, Any] = {
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.search.update": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.proxy.no_proxies_on": "localhost, 127.0.0.1",
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
    "ui.prefersReducedMotion": 1,
}
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Control": "\ue009", "ArrowDown": "\ue015"}


class FirefoxTab:
    """The only tab of a Firefox that runs: opens pages, runs scripts, presses keys, and keeps every error."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._last = socket, 0
        self.problems: list[str] = []
        """Errors of the console, exceptions that nobody caught, and answers that failed."""
        self.send("session.new", capabilities={})
        self._context: str = self.send("browsingContext.getTree")["contexts"][0]["context"]
        self.send("session.subscribe", events=["log.entryAdded", "network.fetchError", "network.responseCompleted"])

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command; return its result. Events that come before it are read on the way."""
        self._last += 1
        self._socket.send(json.dumps({"id": self._last, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=ANSWERS_WITHIN))
            if message.get("id") == self._last:
                assert message["type"] == "success", f"{method}: {message.get('error')}: {message.get('message')}"
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def let_in(self, address: str, cookie: str, page_key: str) -> None:
        """Give it the cookie and the page key of a server, as the link would."""
        name, _, value = cookie.partition("=")
        host = address.removeprefix("http://").partition(":")[0]
        self.send(
            "storage.setCookie",
            cookie={"name": name, "value": {"type": "string", "value": value}, "domain": host, "httpOnly": True,
                    "sameSite": "strict"},
        )  # fmt: skip
        origin, key = json.dumps(address), json.dumps(page_key)
        script = f"() => {{ if (location.origin === {origin}) localStorage.setItem('unspool-key', {key}); }}"
        self.send("script.addPreloadScript", functionDeclaration=script)

    def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        self.send("browsingContext.setViewport", context=self._context, viewport={"width": width, "height": height})

    def go(self, address: str) -> None:
        """Open an address, and wait until it is loaded."""
        self.send("browsingContext.navigate", context=self._context, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page, which JSON must be able to hold."""
        answer = self.send(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression}) ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", f"{expression}: {answer['exceptionDetails']['text']}"
        return json.loads(answer["result"]["value"])

    def run(self, script: str) -> None:
        """Run a script in the page."""
        answer = self.send("script.evaluate", expression=script, target={"context": self._context}, awaitPromise=False)
        assert answer["type"] == "success", answer

    def until(self, expression: str) -> Any:
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + ANSWERS_WITHIN
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}"
        return value

    def press(self, *keys: str) -> None:
        """Press keys together: `press("Control", "k")`."""
        values = [KEYS.get(key, key) for key in keys]
        down = [{"type": "keyDown", "value": value} for value in values]
        up = [{"type": "keyUp", "value": value} for value in reversed(values)]
        source = {"type": "key", "id": "keyboard", "actions": [*down, *up]}
        self.send("input.performActions", context=self._context, actions=[source])

    def type(self, words: str) -> None:
        """Press one key after another."""
        for key in words:
            self.press(key)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        place = f"document.querySelector({json.dumps(selector)})"
        x, y = self.evaluate(
            f"(() => {{ const one = {place}; one.scrollIntoView({{ block: 'nearest' }});"
            " const box = one.getBoundingClientRect();"
            " return [Math.round((box.left + box.right) / 2), Math.round((box.top + box.bottom) / 2)]; })()"
        )
        actions = [{"type": "pointerMove", "x": x, "y": y}, {"type": "pointerDown", "button": 0}]
        source = {"type": "pointer", "id": "mouse", "actions": [*actions, {"type": "pointerUp", "button": 0}]}
        self.send("input.performActions", context=self._context, actions=[source])

    def _note(self, method: str | None, event: Mapping[str, Any]) -> None:
        match method:
            # A page that is left ends its requests, and its scripts are told. `network.fetchError` has the others.
            case "log.entryAdded" if event["level"] == "error" and _LEFT not in (event.get("text") or ""):
                self.problems.append(f"{event.get('type')}: {event.get('text')}")
            case "network.responseCompleted" if event["response"]["status"] >= 400:
                self.problems.append(f"{event['response']['status']} {event['request']['url']}")
            case "network.fetchError" if event["errorText"] != "NS_BINDING_ABORTED":
                # A page that is left ends its streams: that is no error.
                self.problems.append(f"{event['errorText']} {event['request']['url']}")


@contextmanager
def running(executable: Path) -> Iterator[FirefoxTab]:
    """Run a Firefox with nothing in its past; it has ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="unspool-firefox-", ignore_cleanup_errors=True) as folder:
        profile = Path(folder)
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines) + "\n")
        command = [str(executable), "--headless", "--no-remote", "--profile", folder, "--remote-debugging-port", "0"]
        around = {**os.environ, "HOME": folder, "MOZ_CRASHREPORTER_DISABLE": "1"}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=around)
        try:
            with connect(f"{_read_address(process)}/session", max_size=None, proxy=None) as socket:
                yield FirefoxTab(socket)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _read_address(process: subprocess.Popen[bytes]) -> str:
    """Return where it listens, which it says on stderr."""
    assert process.stderr is not None
    deadline, said = time.monotonic() + STARTS_WITHIN, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                piece = os.read(process.stderr.fileno(), 65536)
                said += piece
                _, mark, after = said.partition(_LISTENS)
                if mark and b"\n" in after:
                    return after.partition(b"\n")[0].decode().strip()
                if not piece:
                    break
    raise AssertionError(f"Firefox does not listen: {said.decode(errors='replace')[-2000:]}")


if __name__ == "__main__":
    sys.exit(ensure(FIREFOX))
