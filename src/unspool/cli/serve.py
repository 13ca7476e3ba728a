"""`unspool serve`: serves the web page and opens it in a browser."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime

import click

from unspool.cli import options, output, store_access
from unspool.errors import UsageError
from unspool.store import parse_zone

_MIN_TOKEN_LENGTH = 32
"""Characters that a token of the user's own must have."""


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
@click.option(
    "--allow-host", "host_names", multiple=True, metavar="NAME", help="Another name this machine is reached by."
)
@options.config_option
def serve(
    *,
    host: str,
    port: int | None,
    no_browser: bool,
    token: str | None,
    host_names: tuple[str, ...],
    config_dir: str | None,
) -> None:
    """Show everything in the browser: who needs you, sessions, search, usage, SQL.

    The first line on stdout is a link that works once; the browser that opens it may look until the server ends. Ctrl-C
    ends it. Nothing is loaded from anywhere else, and nothing leaves this machine.
    """
    from unspool.web import AllowedHosts, RequestGuard, check_host, create_app, open_listener, run_server
    from unspool.web.serving import Site

    check_host(host, token=token is not None)
    if token and len(token) < _MIN_TOKEN_LENGTH:
        raise UsageError(f"a token needs {_MIN_TOKEN_LENGTH} characters", hint="`--token` alone makes one")
    # Without a sync: the page is there at once, and the server refreshes the store in the background.
    with store_access.open_folder(options.AccessOptions(config_dir, no_sync=True)) as opened:
        root, folder, settings = opened.root, opened.folder, opened.preferences
    zone = parse_zone(settings.timezone or "local")
    site = Site(root, folder, settings, lambda: datetime.now().astimezone(), _make_refresh(config_dir), zone)
    listener = open_listener(host, port)
    # Port 0 lets the system choose: the guard must compare `Host` with the port that was chosen.
    bound_port = listener.getsockname()[1]
    address = f"http://{_url_host(host)}:{bound_port}"
    guard = RequestGuard(
        AllowedHosts(host, bound_port, host_names),
        token or None,
        # A link works once, so the next one is printed as soon as it was used.
        lambda path: output.warn(f"opened; for another browser: {address}{path}"),
    )
    link = f"{address}{guard.create_link()}"
    click.echo(link)
    output.warn(f"showing `{root}`; Ctrl-C ends it")
    if not no_browser:
        _open_browser(link)
    run_server(create_app(site, guard), listener)


def _make_refresh(config_dir: str | None) -> Callable[[], None]:
    def refresh() -> None:
        # Opened anew each time: it runs in a thread, and a SQLite connection belongs to the thread that opened it.
        with store_access.open_folder(options.AccessOptions(config_dir)) as opened:
            if opened.database is not None:
                store_access.update_text_index_if_quick(opened)

    return refresh


def _open_browser(link: str) -> None:
    """Open a link in the browser if there is a screen."""
    import sys
    import webbrowser

    # Without a screen `webbrowser` would start a text browser in this terminal.
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    webbrowser.open(link)


def _url_host(host: str) -> str:
    """Return the host part of the link; the address of all interfaces becomes that of this machine."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1" if host == "0.0.0.0" else "[::1]"
    return f"[{host}]" if ":" in host else host
