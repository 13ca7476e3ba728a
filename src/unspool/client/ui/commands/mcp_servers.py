"""The command `/mcp`, and the questions about servers of `.mcp.json` that nobody has approved yet.

Rules
  1. A server of `.mcp.json` is shown with what it would run or reach before it is approved. The answer is kept; a
     server whose configuration changes is asked about again.
  2. Whatever a server says of itself is shown in one line, safe for a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.client.ui.choice import ChoiceOption, ChoicePrompt
from unspool.client.ui.status_text import servers_text
from unspool.display import clean_line
from unspool.errors import NothingFound, UnspoolError, UsageError

if TYPE_CHECKING:
    from unspool.client.mcp.approvals import ServerApprovals
    from unspool.client.mcp.server_config import ServerConfig
    from unspool.client.ui.terminal import Terminal

_MAX_TARGET = 2_000
_WAIT_SECONDS = 3.0
"""How long `/mcp` waits for servers that still start."""


async def run_mcp_command(terminal: Terminal, arguments: str) -> None:
    """Show the servers, or connect to one again, or disable one; without a name, let the user choose."""
    action, _, name = arguments.partition(" ")
    if action not in ("", "reconnect", "disable", "login"):
        hint = "use `/mcp`, `/mcp login NAME`, `/mcp reconnect NAME`, `/mcp disable NAME`"
        raise UsageError(f"invalid argument `{arguments}`", hint=hint)
    servers = terminal.chat.services.mcp
    if not action:
        await servers.wait_started(_WAIT_SECONDS)
        terminal.surface.show(terminal.renderer().text(servers_text(terminal.chat)) + "\n")
        if not servers:
            return
        picked = await _choose_action(terminal)
        if picked is None:
            return
        action, name = picked
    elif not servers:
        raise NothingFound("no MCP servers")
    if action == "login":
        terminal.run_beside(_sign_in(terminal, name.strip()))
        return
    if action == "disable":
        await servers.disable(name.strip())
    else:
        await servers.reconnect(name.strip())
    terminal.surface.show(terminal.renderer().text(servers_text(terminal.chat)) + "\n")


async def _choose_action(terminal: Terminal) -> tuple[str, str] | None:
    states = terminal.chat.services.mcp.states()
    choices = [("", "")]
    options = [ChoiceOption("Done", key="d")]
    for state in states:
        if state.status == "needs-auth":
            choices.append(("login", state.server.name))
            options.append(ChoiceOption(f"Sign in to {clean_line(state.server.name)}"))
        name = clean_line(state.server.name)
        choices.append(("reconnect", state.server.name))
        options.append(ChoiceOption(f"Connect to {name} again" if state.status != "disabled" else f"Enable {name}"))
        if state.status != "disabled":
            choices.append(("disable", state.server.name))
            options.append(ChoiceOption(f"Disable {name} in this session"))
    picked = await terminal.surface.choose(ChoicePrompt("MCP servers", options))
    return None if picked is None or picked.first == 0 else choices[picked.first]


async def _sign_in(terminal: Terminal, name: str) -> None:
    """Sign in to a server while the chat goes on, and show how that ended."""
    surface, renderer = terminal.surface, terminal.renderer()

    def show_address(address: str) -> None:
        surface.show(renderer.text(f"Sign in here, in a browser on this machine:\n{clean_line(address)}") + "\n")

    try:
        state = await terminal.chat.services.mcp.sign_in(name, show_address)
    except UnspoolError as error:
        surface.show(renderer.notice(error.message))
        return
    shown = clean_line(state.server.name)
    done = (
        f"Signed in to {shown}."
        if state.status == "connected"
        else f"No sign-in to {shown}: {clean_line(state.problem)}"
    )
    surface.show(renderer.notice(done))


async def ask_approvals(terminal: Terminal, pending: tuple[ServerConfig, ...], approvals: ServerApprovals) -> None:
    """Ask about each server of `.mcp.json` that nobody has approved or declined."""
    for server in pending:
        what = "runs" if server.transport == "stdio" else "reaches"
        name, target = clean_line(server.name)[:80], clean_line(server.target)
        shown = target if len(target) <= _MAX_TARGET else f"{target[:_MAX_TARGET]}… ({len(target):,} characters)"
        # Above the question, where it is wrapped: a long command must not hide its end at the edge of the screen.
        terminal.surface.show(terminal.renderer().text(f"The MCP server {name} of .mcp.json {what}:\n{shown}"))
        title = (
            f"Use the MCP server {name}?\nIts tools are asked about like all others. unspool asks once for this folder."
        )
        options = [
            ChoiceOption("Yes, from now on", key="y"),
            ChoiceOption("No, and do not ask again", key="n"),
            ChoiceOption("Not now", key="l"),
        ]
        picked = await terminal.surface.choose(ChoicePrompt(title, options, cursor=2))
        if picked is None or picked.first == 2:
            continue
        try:
            approvals.keep(terminal.options.cwd, server, "approved" if picked.first == 0 else "declined")
        except UnspoolError as error:
            terminal.surface.show(terminal.renderer().notice(f"cannot save the answer: {error.message}"))
