"""Describes a chat in words: footer, greeting, and what commands such as `/cost`, `/permissions`, `/sandbox` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unspool.display import clean_line, units

if TYPE_CHECKING:
    from unspool.client.chat import Chat
    from unspool.client.mcp.servers import ServerState
    from unspool.client.ui.open_chat import OpenedChat
    from unspool.client.ui.render import ChatRenderer

MODES = {
    "default": "asks before changes",
    "acceptEdits": "edits without asking",
    "plan": "plans only, no changes",
    "bypassPermissions": "never asks",
    "dontAsk": "does what rules allow, never asks",
}
_SERVER_MARKS = {"connected": "✔", "pending": "…", "failed": "✘", "disabled": "-", "needs-auth": "!"}


def footer_text(chat: Chat) -> str:
    """Return mode, model, context and cost on one line."""
    used, limit = chat.window_state
    full = f"{100 * used // limit} % of {units.tokens(limit)}" if limit else ""
    spent = units.dollars(chat.totals.cost_micros)
    running = sum(task.status == "running" for task in chat.context.tasks.all())
    tasks = f"{running} in the background (/tasks)" if running else ""
    parts = [f"{chat.mode}: {MODES.get(chat.mode, '')} (shift-tab)", tasks, chat.model, full, spent]
    return " · ".join(part for part in parts if part)


def greeting_text(chat: Chat, renderer: ChatRenderer) -> str:
    """Return what is shown when a chat is opened."""
    head = renderer.text(f"unspool · {chat.model} · {chat.workspace.root}", "bold")
    if not chat.is_resumed:
        return head + renderer.text("type `/help` for commands", "dim") + "\n"
    where = f"resumed from {units.amount(len(chat.transcript.conversation.messages), 'message')} · {chat.session_id}"
    return head + renderer.text(where, "dim") + "\n"


def cost_text(chat: Chat) -> str:
    """Return what the chat has cost since it was opened, by model."""
    lines = [f"Total cost: {units.dollars(chat.totals.cost_micros)}"]
    for model, used in chat.totals.models.items():
        lines.append(
            f"  {model}: {count_input_tokens(used):,} in ({used.get('cache_read_input_tokens', 0):,} from the cache), "
            f"{used.get('output_tokens', 0):,} out, {units.dollars(used.get('cost_micros', 0))}"
        )
    return "\n".join(lines)


def context_text(chat: Chat) -> str:
    """Return how full the context window is, and with what."""
    used, limit = chat.window_state
    messages = chat.transcript.conversation.messages
    lines = [f"Context: {used:,} of {limit:,} tokens ({100 * used // max(limit, 1)} %)"]
    lines.append(f"  {units.amount(len(messages), 'message')}, {units.amount(len(chat.agent.all_tools()), 'tool')}")
    return "\n".join(lines)


def todos_text(chat: Chat) -> str:
    """Return the todo list as text."""
    boxes = {"completed": "[x]", "in_progress": "[>]"}
    listed = [f"{boxes.get(str(todo.get('status')), '[ ]')} {todo.get('content', '')}" for todo in chat.todos]
    return "\n".join(listed) or "nothing to do"


def permissions_text(opened: OpenedChat, words: str = "") -> str:
    """Return the permission mode and the rules that have some words, with where they come from."""
    chat = opened.chat
    lines = [f"mode: {chat.mode} ({MODES.get(chat.mode, '')})"]
    rules = opened.permissions
    lines.append(f"folder: {'trusted' if rules.trusted else 'not trusted: its settings are ignored'}")
    listed = [f"{kind:5}  {rule.text}  ({rule.source})" for kind, rule in rules.list_rules()]
    wanted = words.casefold().split()
    shown = [line for line in listed if all(word in line.casefold() for word in wanted)]
    left = len(listed) - len(shown)
    more = [f"{units.amount(left, 'other rule')}; list all with `/permissions`"] if left else []
    return "\n".join([*lines, *shown, *more, *opened.problems])


def sandbox_text(opened: OpenedChat) -> str:
    """Return which sandbox commands run in."""
    sandbox = opened.permissions.sandbox
    return "\n".join(sandbox.describe()) if sandbox is not None else "no sandbox"


def count_input_tokens(usage: dict[str, Any]) -> int:
    """Return the input tokens of a usage, cached or not."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(value for name in names if isinstance(value := usage.get(name), int))


def servers_text(chat: Chat) -> str:
    """Return the MCP servers of a chat with their state."""
    servers = chat.services.mcp
    lines = [_describe_server(state) for state in servers.states()]
    lines += [f"? {clean_line(server.name)}  .mcp.json, not approved" for server in servers.pending]
    return "\n".join(lines) or "no MCP servers: see `unspool chat --help` (--mcp-config), .mcp.json and .claude.json"


def _describe_server(state: ServerState) -> str:
    head = (
        f"{_SERVER_MARKS[state.status]} {clean_line(state.server.name)}  {state.server.transport}, {state.server.scope}"
    )
    if state.status == "needs-auth":
        return f"{head}, needs sign-in: /mcp login {clean_line(state.server.name)}"
    if state.status == "failed":
        return f"{head}, failed: {clean_line(state.problem)}"
    if state.status != "connected":
        return f"{head}, {state.status}"
    counts = [
        units.amount(number, noun)
        for number, noun in (
            (len(state.tools), "tool"),
            (state.prompts, "prompt"),
            (state.resources, "resource"),
        )
        if number
    ]
    return f"{head}, connected: {', '.join(counts) or 'it offers nothing'}"
