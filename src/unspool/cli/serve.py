"""`unspool serve`: serves the web page and opens it in a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

import click

from unspool.cli import output, store_access
from unspool.errors import UsageError
from unspool.store import parse_zone

_SHORT = 32
"""Characters a token of one's own must have at least."""


@click.command()
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. Default: this machine only.")
@click.option("--port", type=click.IntRange(0, 65535), help="Default: 8737, or any that is free; 0: any.")
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@click.option(
    "--token",
    is_flag=False,
    flag_value="",
    metavar="[TOKEN]",
    help="Let other machines reach it, with `--host`. With a TOKEN of your own, scripts can send it as a bearer.",
)
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="Another name this machine is reached by.")
@output.config_option
def serve(
    *, host: str, port: int | None, no_browser: bool, token: str | None, names: tuple[str, ...], config_dir: str | None
) -> None:
    """Show everything in the browser: who needs you, sessions, search, usage, SQL.

    The first line on stdout is a link that works once; the browser that opens it may look until the server ends. Ctrl-C
    ends it. Nothing is loaded from anywhere else, and nothing leaves this machine.
    """
    from unspool.web import AllowedHosts, RequestGuard, check_host, create_app, open_listener, run_server
    from unspool.web.common import Site

    check_host(host, token=token is not None)
    if token and len(token) < _SHORT:
        raise UsageError(f"a token needs {_SHORT} characters", hint="`--token` alone makes one")
    with store_access.open_folder(store_access.AccessOptions(config_dir, no_sync=True)) as opened:
        root, folder, settings = opened.root, opened.folder, opened.preferences
    place = Site(root, folder, settings, _now, _refresh(config_dir), parse_zone(settings.timezone or "local"))
    listener = open_listener(host, port)
    reached = listener.getsockname()[1]
    address = f"http://{_shown(host)}:{reached}"
    guard = RequestGuard(
        AllowedHosts(host, reached, names),
        token or None,
        lambda path: _say(f"opened; for another browser: {address}{path}"),
    )
    link = f"{address}{guard.create_link()}"
    click.echo(link)
    _say(f"showing `{root}`; Ctrl-C ends it")
    if not no_browser:
        _open(link)
    run_server(create_app(place, guard), listener)


def _refresh(config_dir: str | None) -> Callable[[], None]:
    def refresh() -> None:
        with store_access.open_folder(store_access.AccessOptions(config_dir)) as opened:
            if opened.database is not None:
                store_access.update_text_index_if_quick(opened)

    return refresh


def _open(link: str) -> None:
    """Open the browser, where there is a screen to show it on."""
    import sys
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    webbrowser.open(link)


def _shown(host: str) -> str:
    """Return what to write for an address: one that means all of them is reached as this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host


def _say(words: str) -> None:
    store_access.warn(words)


def _now() -> datetime:
    return datetime.now().astimezone()
