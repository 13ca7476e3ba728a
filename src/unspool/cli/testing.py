"""`unspool testing`: serves a scripted Messages API for tests of other programs."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from unspool.cli import options
from unspool.cli.main import SuggestingGroup
from unspool.display import clean_line, units
from unspool.errors import ApiFailed


@click.group(cls=SuggestingGroup, no_args_is_help=True)
def testing() -> None:
    """Serve a scripted Messages API for tests."""


@testing.command()
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on. Default: a free one")
@click.option(
    "--log", type=click.Path(path_type=Path), metavar="FILE", help="Write every request to this file, one per line"
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Value of `${NAME}` in the script")
@click.option("--lenient", is_flag=True, help="Accept requests that the API would reject")
def serve(*, script: Path, port: int, log: Path | None, assignments: tuple[str, ...], lenient: bool) -> None:
    """Serve a Messages API that answers from a script.

    SCRIPT is a JSON file; docs/testing.md describes the format. The first line on stdout is the base URL for
    ANTHROPIC_BASE_URL. The server validates requests as the API does. Stop it with Ctrl-C; the exit code is 6 if a
    request was invalid, unexpected, or came after the end of the script.

    \b
    $ echo '["Hello."]' > hello.json
    $ unspool testing serve hello.json --port 8123
    $ ANTHROPIC_BASE_URL=http://127.0.0.1:8123 ANTHROPIC_API_KEY=any claude -p hi
    """
    from unspool.api.scripted import load_script, serve_script

    loaded = load_script(script, options.parse_assignments(assignments))
    stopping = threading.Event()
    # Handled, so that the failures are printed and the exit code tells of them after either signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with serve_script(loaded, port=port, log=log, strict=not lenient) as api:
        click.echo(api.url)
        stopping.wait()
    for failure in api.failures:
        click.echo(clean_line(failure), err=True)
    if api.failures:
        raise ApiFailed(f"{units.amount(len(api.failures), 'request')} of {len(api.requests)} failed")
