"""`unspool serve`: serves the web page and opens it in a browser."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output, store_access
from unspool.errors import UsageError
from unspool.files import error_reason
from unspool.format import parse_zone
from unspool.paths import data_folder
from unspool.store import list_roots

if TYPE_CHECKING:
    from unspool.web.serving import Site, TelemetryTask


def _refuse_token(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            "--token was removed: other users could read the token in the process list",
            hint="use `--token-file FILE`, or set UNSPOOL_TOKEN",
        )


@click.command()
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Address to listen on. Default: a loopback address that only unspool uses",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one. Default: 8737, or a free one"
)
@click.option("--no-browser", is_flag=True, help="Print the link without opening a browser")
@click.option(
    "--token-file",
    metavar="FILE",
    help="File with a bearer token for scripts; created if missing. Required for a `--host` that "
    "other machines can reach. Alternative: the variable UNSPOOL_TOKEN",
)
@click.option("--token", is_flag=False, flag_value="", hidden=True, expose_value=False, callback=_refuse_token)
@click.option(
    "--allow-host", "host_names", multiple=True, metavar="NAME", help="Additional host name of this machine; repeatable"
)
@click.option(
    "--otlp",
    "otlp_address",
    metavar="[URL]",
    is_flag=False,
    flag_value="",
    help="While serving, send new data to an OpenTelemetry receiver. Default: $OTEL_EXPORTER_OTLP_ENDPOINT",
)
@click.option("--no-store", is_flag=True, help="Read the files into a temporary store, removed when the server stops")
@options.folders_option
def serve(
    *,
    host: str | None,
    port: int | None,
    no_browser: bool,
    token_file: str | None,
    host_names: tuple[str, ...],
    otlp_address: str | None,
    no_store: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Serve the web page: live sessions, search, usage, SQL.

    The first line on stdout is a link that works once and gives one browser access until the server stops. Stop it with
    Ctrl-C. The page loads nothing from other servers, and no data leaves this machine. With `--otlp`, traces and
    metrics are sent to the receiver, without texts.
    """
    from unspool.extras import require_extras

    require_extras("web")
    from unspool import web

    telemetry = None if otlp_address is None else _make_telemetry_task(otlp_address, config_dirs)
    token = web.take_token(token_file, os.environ)
    if host is not None:
        web.check_host(host, token=token is not None)
    with ExitStack() as ending:
        _clean_up_on_signals(ending)
        is_ending = threading.Event()
        site = _make_site(config_dirs, ending, is_ending.is_set, no_store=no_store)
        own = web.find_address(site.folder)
        listener = web.open_listener(own.bind if host is None else host, port)
        # Port 0 lets the system choose: the guard must compare `Host` with the port that was chosen.
        bound_port = listener.getsockname()[1]
        # The address of all interfaces is none that a browser can open: the link has our own.
        linked = {None: own.host, "0.0.0.0": own.bind, "::": "::1"}.get(host, host or "")
        address = f"http://[{linked}]:{bound_port}" if ":" in linked else f"http://{linked}:{bound_port}"
        link_files = ending.enter_context(ExitStack())
        guard = web.RequestGuard(
            web.AllowedHosts(host or own.host, bound_port, host_names), token, _make_login_handler(address, link_files)
        )
        link = f"{address}{guard.create_link()}"
        click.echo(link)
        if host is None and own.note:
            output.warn(own.note)
        output.warn(f"serving {', '.join(f'`{root}`' for root in list_roots(site.roots))}; stop with Ctrl-C")
        if not no_browser:
            _open_browser(site.folder, link, link_files)

        def end() -> None:
            # From there, because a server that is terminated by a signal does not return.
            is_ending.set()
            link_files.close()

        web.run_server(web.create_app(site, guard, telemetry), listener, on_end=end)


def _clean_up_on_signals(ending: ExitStack) -> None:
    """Let signals that end the process close what `ending` holds first: a temporary store is a copy of all sessions."""

    def end(number: int, frame: object) -> None:
        ending.close()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    # The terminal is closed with SIGHUP. Until it runs, and for that one also then, the server has no handlers.
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
            ending.callback(signal.signal, number, signal.signal(number, end))


def _make_site(
    config_dirs: tuple[str | None, ...], ending: ExitStack, is_ending: Callable[[], bool], *, no_store: bool
) -> Site:
    """Return the folders to serve with their store; one that is temporary is removed with `ending`."""
    from unspool.web.serving import Site

    temporary = store_access.make_temporary_store(no_store=no_store)
    if temporary is not None:
        ending.callback(shutil.rmtree, temporary, ignore_errors=True)
    # Without a sync: the page is there at once, and the server refreshes the store in the background.
    access = options.AccessOptions(config_dirs, no_sync=True, temporary_store=temporary)
    with store_access.open_folders(access) as opened:
        roots, settings = opened.roots, opened.preferences
    # A server that ends waits for a refresh that runs: the first one of a large folder takes long.
    refresh = store_access.make_refresh(config_dirs, temporary, is_ending)
    zone = parse_zone(settings.timezone or "local")
    folder = data_folder(os.environ)
    return Site(roots, folder, settings, lambda: datetime.now().astimezone(), refresh, zone, temporary)


def _make_telemetry_task(address: str, config_dirs: tuple[str | None, ...]) -> TelemetryTask:
    """Return the task that sends; an address that cannot be right is refused before anything is served."""
    from unspool.telemetry import check_messages, read_endpoint
    from unspool.web.serving import TelemetryTask, telemetry_command

    read_endpoint(address, os.environ)
    check_messages()
    return TelemetryTask(telemetry_command(address, config_dirs), output.warn)


def _make_login_handler(address: str, link_files: ExitStack) -> Callable[[str], None]:
    def handle_login(path: str) -> None:
        link_files.close()  # the link in them was used
        # A link works once, so the next one is printed as soon as it was used.
        output.warn(f"opened; link for another browser: {address}{path}")

    return handle_login


def _open_browser(folder: Path, link: str, link_files: ExitStack) -> None:
    """Open a link in the browser if there is a screen, through a file that is removed with `link_files`."""
    from unspool import web

    if not web.has_screen():
        return
    try:
        path = link_files.enter_context(web.link_file(folder, link))
    except OSError as error:
        output.warn(
            f"cannot open the browser: cannot write to `{folder}`: {error_reason(error)}; open the link yourself"
        )
        return
    web.open_file(path)
