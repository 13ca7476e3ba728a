"""`unspool mcp`: serves the history to agents over MCP, and installs the server in their settings."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output, store_access
from unspool.cli.claude_code.settings_change import confirm_change
from unspool.errors import NotFound, NothingFound, Refused, UsageError
from unspool.files import FileSnapshot, atomic
from unspool.mcp_server import client_settings
from unspool.paths import config_folder, data_folder, project_key

if TYPE_CHECKING:
    from unspool.mcp_server import History

BACKUP = ".unspool-mcp-backup"
_ACTIONS = ("serve", "install", "uninstall", "status", "session-start")
_CLIENTS = ("claude", "claude-project", "claude-desktop", "cursor", "gemini", "vscode")
_MAX_HOOK_INPUT = 1024 * 1024


@click.command()
@click.argument("action", type=click.Choice(_ACTIONS), default="serve", metavar="[ACTION]")
@click.option("--http", is_flag=True, help="With serve: serve streamable HTTP instead of stdin and stdout")
@click.option("--port", type=click.IntRange(0, 65535), help="With --http: port to listen on. Default: a free one")
@click.option("--token-file", metavar="FILE", help="With --http: file with the bearer token; created if missing")
@click.option("--project", metavar="PATH", help="With serve and install: answer only about this project")
@click.option("--no-redaction", is_flag=True, help="With serve: do not replace secrets by markers")
@click.option(
    "--client",
    type=click.Choice(_CLIENTS),
    default="claude",
    show_default=True,
    help="With install, uninstall and status: whose settings",
)
@click.option("--yes", "-y", is_flag=True, help="Change the settings without asking")
@options.json_option
@options.folders_option
def mcp(
    *,
    action: str,
    http: bool,
    port: int | None,
    token_file: str | None,
    project: str | None,
    no_redaction: bool,
    client: str,
    yes: bool,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Serve the history of sessions to agents over MCP.

    ACTION is serve (the default), install, uninstall, status or session-start.

    `serve` answers an MCP client on stdin and stdout with tools that search and read sessions, files, plans, costs and
    SQL. It only reads. Secrets are replaced by markers, and text of transcripts is marked as untrusted. `--http` serves
    a loopback address to programs with the token.

    `install` adds the server to the settings of a client; it shows the change and asks first. `uninstall` removes
    it again. `session-start` is the hook of the plugin: it prints what earlier sessions of a folder were about.
    """
    if action == "serve":
        _serve(config_dirs, project, http=http, port=port, token_file=token_file, redacted=not no_redaction)
    elif action == "session-start":
        _print_offer(config_dirs)
    else:
        file = _find_client(client, config_dirs)
        before = atomic.read_current(file.path, within=file.path.parent)
        if action == "status":
            _print_status(before, file, client, as_json=as_json)
        elif action == "install":
            _install(before, file, _server_command(config_dirs, project), yes=yes, as_json=as_json)
        else:
            _uninstall(before, file, yes=yes, as_json=as_json)


# serve


def _serve(
    config_dirs: tuple[str | None, ...],
    project: str | None,
    *,
    http: bool,
    port: int | None,
    token_file: str | None,
    redacted: bool,
) -> None:
    from unspool.extras import require_extras

    if not http and (port is not None or token_file is not None):
        raise UsageError("--port and --token-file need --http", hint="add `--http`")
    require_extras("mcp", *(["web"] if http else []))
    history = _open_history(config_dirs, project, redacted=redacted)
    if not http:
        from unspool.mcp_server import serve_stdio

        serve_stdio(history)
        return
    from unspool import web
    from unspool.mcp_server import create_http_app

    token = web.take_token(token_file, os.environ)
    if token is None:
        token = secrets.token_urlsafe(32)
        output.warn("set UNSPOOL_TOKEN or pass `--token-file FILE` for a token that stays the same")
    own = web.find_address(history.site.folder)
    listener = web.open_listener(own.bind, port or 0)
    bound_port = listener.getsockname()[1]
    guard = web.RequestGuard(web.AllowedHosts(own.host, bound_port), token)
    # The client needs both. Whoever reads stdout of this process may know them.
    click.echo(f"http://{own.host}:{bound_port}/mcp")
    if token_file is None:
        click.echo(f"Authorization: Bearer {token}")
    if own.note:
        output.warn(own.note)
    output.warn("serving MCP; stop with Ctrl-C")
    web.run_server(create_http_app(history, guard), listener)


def _open_history(config_dirs: tuple[str | None, ...], project: str | None, *, redacted: bool) -> History:
    from unspool.format import parse_zone
    from unspool.mcp_server import History
    from unspool.web.serving import Site

    # Without a sync: a client waits for the first answer, and the store is updated beside the calls.
    with store_access.open_folders(options.AccessOptions(config_dirs, no_sync=True), is_quiet=True) as opened:
        roots, folder, settings = opened.roots, opened.folder, opened.preferences
    if project is not None:
        roots = tuple(find_project_folders(roots, project))
    zone = parse_zone(settings.timezone or "local")
    refresh = store_access.make_refresh(config_dirs)
    site = Site(roots, folder, settings, lambda: datetime.now().astimezone(), refresh, zone)
    if not redacted:
        return History(site, None)
    from unspool.export import read_redaction_options
    from unspool.redact import Redactor

    return History(
        site, Redactor(secrets.token_bytes(32), read_redaction_options(folder, None, emails=False, homes=False))
    )


def find_project_folders(roots: Sequence[Path], project: str) -> list[Path]:
    """Return the folders of a project's sessions in config folders: by its path, else by its name."""
    is_path = os.sep in project or project in (".", "..") or Path(project).is_dir()
    wanted = project_key(str(Path(project).expanduser().absolute().resolve()) if is_path else project).casefold()
    folders = [
        folder for root in roots for folder in sorted((root / "projects").glob("*")) if folder.is_dir()
    ]  # fmt: skip
    ways: tuple[Callable[[str], bool], ...] = (
        lambda name: name == wanted,
        lambda name: not is_path and name.endswith(f"-{wanted}"),
        lambda name: not is_path and wanted in name,
    )
    for way in ways:
        if found := [folder for folder in folders if way(folder.name.casefold())]:
            return found
    raise NotFound(f"no project matches `{project}`", hint="list sessions with `unspool ls`")


def _print_offer(config_dirs: tuple[str | None, ...]) -> None:
    """Print what a new session is offered; nothing in case of doubt, because Claude Code shows errors of hooks."""
    from unspool.mcp_server import offer_earlier_work
    from unspool.statusline import start_sync

    given = b"" if sys.stdin.isatty() else sys.stdin.buffer.read(_MAX_HOOK_INPUT)
    folder = data_folder(os.environ)
    roots = [config_folder(named, os.environ).absolute() for named in config_dirs]
    if offer := offer_earlier_work(given, folder, roots):
        click.echo(offer)
    for root in roots:
        if root.is_dir():
            start_sync(str(folder), str(root))


# install


def _find_client(client: str, config_dirs: tuple[str | None, ...]) -> client_settings.ClientFile:
    config = config_folder(config_dirs[0], os.environ).expanduser().absolute()
    return client_settings.list_clients(Path.home(), config, Path.cwd())[client]


def _server_command(config_dirs: tuple[str | None, ...], project: str | None) -> list[str]:
    """Return the command that serves what was named here, from any folder."""
    named = [str(Path(one).expanduser().absolute()) for one in config_dirs if one is not None]
    given = [word for one in named for word in ("--config-dir", one)]
    if project is not None:
        is_path = os.sep in project or Path(project).is_dir()
        given += ["--project", str(Path(project).absolute()) if is_path else project]
    return [*own_command(), "mcp", *given]


def own_command() -> list[str]:
    """Return the words that run this unspool from any folder."""
    for place in (Path(sys.argv[0]), Path(sys.executable).with_name("unspool")):
        if place.is_absolute() and place.name == "unspool" and os.access(place, os.X_OK) and place.is_file():
            return [str(place)]
    # -P: the folder that a client works in is untrusted, and modules in it must not be imported.
    return [sys.executable, "-P", "-m", "unspool"]


def _install(
    before: FileSnapshot, file: client_settings.ClientFile, command: list[str], *, yes: bool, as_json: bool
) -> None:
    document = before.data or b""
    there = client_settings.find_server(document, file)
    is_ours = client_settings.is_our_server(there)
    if there is not None and not is_ours:
        hint = f"rename or remove `{client_settings.SERVER_NAME}` in `{before.path}` first"
        raise Refused("the settings have another server named `unspool`", hint=hint)
    after = client_settings.add_server(document, file, client_settings.server_entry(command))
    is_changed = after != document
    if is_changed:
        confirm_change(before, after, yes=yes, as_json=as_json)
        backup = atomic.read_current(_backup(before), within=before.path.parent)
        if not is_ours and backup.data is not None:
            atomic.remove_file(backup)  # of an installation that somebody took out by hand
        atomic.replace_file(before, after, backup=None if is_ours else _backup(before))
    message = f"installed in {file.title}; new sessions use it" if is_changed else "already installed"
    output.print_result("mcp-change", {"changed": is_changed, "path": str(before.path)}, message, as_json=as_json)


def _uninstall(before: FileSnapshot, file: client_settings.ClientFile, *, yes: bool, as_json: bool) -> None:
    if before.data is None or not client_settings.is_our_server(client_settings.find_server(before.data, file)):
        raise NothingFound("the settings have no MCP server of unspool")
    backup = atomic.read_current(_backup(before), within=before.path.parent)
    after = client_settings.remove_server(before.data, file, backup.data)
    confirm_change(before, after, yes=yes, as_json=as_json)
    if after is None:
        atomic.remove_file(before)
    else:
        atomic.replace_file(before, after)
    if backup.data is not None:
        atomic.remove_file(backup)
    output.print_result("mcp-change", {"changed": True, "path": str(before.path)}, "uninstalled", as_json=as_json)


def _backup(before: FileSnapshot) -> Path:
    return before.path.with_name(before.path.name + BACKUP)


def _print_status(before: FileSnapshot, file: client_settings.ClientFile, client: str, *, as_json: bool) -> None:
    value = client_settings.find_server(before.data or b"", file)
    is_ours = client_settings.is_our_server(value)
    if as_json:
        data = {"client": client, "path": str(before.path), "installed": is_ours, "server": value}
        output.write_document("mcp", data)
        return
    state = "installed" if is_ours else "not installed" if value is None else "another server has the name `unspool`"
    output.print_line(f"{file.title}: {state}")
    output.print_line(f"settings: {before.path}")
