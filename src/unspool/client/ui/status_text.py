"""What a conversation is like, in words: a chat in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unspool.display import units

if TYPE_CHECKING:
    from unspool.client.chat import Chat
    from unspool.client.ui.opened_chat import Led
    from unspool.client.ui.render import Drawing

MODES = {
    "default": "asks before it acts",
    "acceptEdits": "edits without asking",
    "plan": "plans, changes nothing",
    "bypassPermissions": "does everything without asking",
    "dontAsk": "does what rules allow, and does not ask",
}


def window(chat: Chat) -> tuple[int, int]:
    """Return how many tokens the context has, and how many it can have."""
    return chat.window_state


def footer(chat: Chat) -> str:
    """Return what holds, on one line."""
    used, limit = window(chat)
    full = f"{100 * used // limit} % of {units.tokens(limit)}" if limit else ""
    spent = units.dollars(chat.totals.cost_micros)
    parts = [f"{chat.mode}: {MODES.get(chat.mode, '')} (shift-tab)", chat.model, full, spent]
    return " · ".join(part for part in parts if part)


def greeting(chat: Chat, drawing: Drawing) -> str:
    """Return what is said of a conversation when it is opened."""
    began = chat.began()
    head = drawing.text(f"unspool · {began.model} · {began.cwd}", "bold")
    if not began.resumed:
        return head + drawing.text("`/help` tells what can be typed", "dim") + "\n"
    where = f"goes on from {units.amount(began.messages, 'message')} · {chat.session_id}"
    return head + drawing.text(where, "dim") + "\n"


def cost(chat: Chat) -> str:
    """Return what the conversation has cost since it was opened."""
    lines = [f"Total cost: {units.dollars(chat.totals.cost_micros)}"]
    for model, used in chat.totals.models.items():
        lines.append(
            f"  {model}: {tokens_in(used):,} in ({used.get('cache_read_input_tokens', 0):,} from the cache), "
            f"{used.get('output_tokens', 0):,} out, {units.dollars(used.get('cost_micros', 0))}"
        )
    return "\n".join(lines)


def context(chat: Chat) -> str:
    """Return how full the context is, and with what."""
    used, limit = window(chat)
    messages = chat.transcript.conversation.messages
    lines = [f"Context: {used:,} of {limit:,} tokens ({100 * used // max(limit, 1)} %)"]
    lines.append(f"  {units.amount(len(messages), 'message')}, {units.amount(len(chat.fittings.tools), 'tool')}")
    return "\n".join(lines)


def todos(chat: Chat) -> str:
    """Return the todo list."""
    boxes = {"completed": "[x]", "in_progress": "[>]"}
    listed = [f"{boxes.get(str(todo.get('status')), '[ ]')} {todo.get('content', '')}" for todo in chat.todos]
    return "\n".join(listed) or "nothing to do"


def permissions(led: Led) -> str:
    """Return what is allowed, asked and denied, and by what."""
    chat = led.chat
    lines = [f"mode: {chat.mode} ({MODES.get(chat.mode, '')})"]
    rules = led.permissions
    lines.append(f"folder: {'trusted' if rules.trusted else 'not trusted: its own settings do not act'}")
    lines += [f"{kind:5}  {rule.text}  ({rule.source})" for kind, rule in rules.rules()]
    return "\n".join([*lines, *led.problems])


def tokens_in(usage: dict[str, Any]) -> int:
    """Return how many tokens went in, cached or not."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(value for name in names if isinstance(value := usage.get(name), int))
