"""Asks the Messages API about an edit: a summary in a model's words, or exact numbers of tokens.

Rules
  1. Nothing is sent unless a person names a model, or asks for exact numbers: a conversation leaves this machine then.
  2. A model is sent the turns that are to become a summary, and no thinking: that was another model's.
  3. A response that broke off or declines is no summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from unspool.api import Endpoint, count_request_tokens, endpoint_from_environment, fetch_response
from unspool.api.scripted import serve_script
from unspool.edit.planning.compress import read_summary, split_turns
from unspool.edit.planning.plan import BeforeAfter, Compress
from unspool.edit.planning.planner import PreparedEdit
from unspool.edit.planning.session_view import view_session
from unspool.edit.rules.check import CONTINUE_PROMPT, append_prompt
from unspool.edit.session_text import SessionText
from unspool.errors import ApiFailed
from unspool.graph import is_message
from unspool.graph.context import THINKING_KINDS, ContextMessage, build_context, model_rules

_SCRIPT_PREFIX = "script:"
_MAX_SUMMARY_TOKENS = 8192
_SUMMARY_PROMPT = """\
Your task is to create a detailed summary of the conversation so far. Somebody will go on with the work and have \
nothing but this summary and what the user asked for, word for word. Say, as far as it applies:

1. what the user wants, in the end and right now
2. what was decided, and why; what was tried and did not work
3. files that were read, changed or made, and what matters in each
4. errors that came up, and how they were solved
5. what is done, what is under way, what comes next

Put the summary between <summary> and </summary>. Call no tools."""


def write_model_summary(text: SessionText, options: Compress, model: str, environment: Mapping[str, str]) -> Compress:
    """Let a model write the summary of the turns that are to become one."""
    view = view_session(text)
    _, kept = split_turns(view, options.keep_last)
    lines = [entry for entry in view.lines if is_message(entry) and (not kept or entry.offset < kept[0].start)]
    older = build_context(text.entries, lines[-1].record.uuid if lines else None)
    body = {
        # A script has no model of its own, but the rules want a name.
        "model": model_rules.DEFAULT_MODEL if model.startswith(_SCRIPT_PREFIX) else model,
        "max_tokens": _MAX_SUMMARY_TOKENS,
        "messages": append_prompt(_plain_messages(older), _SUMMARY_PROMPT),
    }
    with _open_endpoint(model, environment) as endpoint:
        response = fetch_response(endpoint, body)
    words, problem = read_summary(response)
    if problem is not None:
        raise ApiFailed(
            f"the model wrote no summary: {problem}", hint="use `--no-model` to write the summary without a model"
        )
    return replace(options, words=words)


def count_exact_tokens(prepared: PreparedEdit, environment: Mapping[str, str]) -> PreparedEdit:
    """Let the API count the tokens before and after; where it does not, the estimate stays."""
    endpoint = endpoint_from_environment(environment)
    numbers = []
    for messages in (prepared.before.messages, prepared.after.messages):
        sent = append_prompt(_plain_messages(messages), CONTINUE_PROMPT)
        count = count_request_tokens(endpoint, {"model": model_rules.DEFAULT_MODEL, "messages": sent})
        if not count.exact:
            return prepared
        numbers.append(count.tokens)
    return prepared._replace(plan=replace(prepared.plan, context_tokens=BeforeAfter(*numbers), exact_tokens=True))


@contextmanager
def _open_endpoint(model: str, environment: Mapping[str, str]) -> Iterator[Endpoint]:
    if not model.startswith(_SCRIPT_PREFIX):
        yield endpoint_from_environment(environment)
        return
    with serve_script(Path(model.removeprefix(_SCRIPT_PREFIX)).expanduser()) as api:
        yield Endpoint(base_url=api.url, key="none")


def _plain_messages(messages: Sequence[ContextMessage]) -> list[dict[str, Any]]:
    """Return messages that any model takes: the reminders between them and all thinking left out."""
    plain = []
    for message in messages:
        blocks = [block.value for block in message.blocks if block.kind not in THINKING_KINDS]
        if message.role != "system" and blocks:
            plain.append({"role": message.role, "content": blocks})
    return plain
