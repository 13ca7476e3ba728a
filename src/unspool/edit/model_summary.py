"""What only the API can say of an edit: a summary in a model's words, and how many tokens there are exactly.

Rules
  1. Nothing is sent unless a person names a model, or asks for exact numbers: a conversation leaves this machine then.
  2. A model is sent the turns that are to become a summary, and no thinking: that was another model's.
  3. An answer that broke off is no summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from unspool.api.connection import answer, count
from unspool.api.endpoint import Endpoint, endpoint
from unspool.api.scripted.server import scripted
from unspool.edit.compress import parts
from unspool.edit.plan import Pair
from unspool.edit.planner import Compress, Prepared
from unspool.edit.session_view import Manuscript, View, view
from unspool.edit.verify.verify import GO_ON
from unspool.errors import ApiFailed
from unspool.graph.context import model_rules
from unspool.graph.context.build import context
from unspool.graph.context.pairing import THINKING, ContextMessage
from unspool.graph.threads import is_message

SCRIPT = "script:"
_MOST = 8192
_ASK = """\
Your task is to create a detailed summary of the conversation so far. Somebody will go on with the work and have \
nothing but this summary and what the user asked for, word for word. Say, as far as it applies:

1. what the user wants, in the end and right now
2. what was decided, and why; what was tried and did not work
3. files that were read, changed or made, and what matters in each
4. errors that came up, and how they were solved
5. what is done, what is under way, what comes next

Put the summary between <summary> and </summary>. Call no tools."""
_SUMMARY = re.compile(r"<summary>(.*?)(?:</summary>|\Z)", re.DOTALL)


def summarised(manuscript: Manuscript, wish: Compress, model: str, environment: Mapping[str, str]) -> Compress:
    """Let a model write the summary of the turns that are to become one."""
    seen = view(manuscript)
    chosen = parts(seen, wish.keep_last)
    body = {
        "model": model.removeprefix(SCRIPT) if not model.startswith(SCRIPT) else model_rules.DEFAULT,
        "max_tokens": _MOST,
        "messages": _with(_plain(_older(seen, chosen.kept[0].start if chosen.kept else None)), _ASK),
    }
    with _place(model, environment) as place:
        said = answer(place, body)
    if said.broken or not said.text.strip():
        raise ApiFailed(f"no summary came: {said.broken or 'the answer is empty'}", hint="`--no-model` asks nobody")
    found = _SUMMARY.search(said.text)
    return replace(wish, words=(found[1] if found else said.text).strip())


def exact(prepared: Prepared, environment: Mapping[str, str]) -> Prepared:
    """Let the API count the tokens before and after; where it does not, the estimate stays."""
    place = endpoint(environment)
    numbers = []
    for messages in (prepared.before, prepared.checked.messages):
        found = count(place, {"model": model_rules.DEFAULT, "messages": _with(_plain(messages), GO_ON)})
        if not found.exact:
            return prepared
        numbers.append(found.tokens)
    return prepared._replace(plan=replace(prepared.plan, context_tokens=Pair(*numbers), exact_tokens=True))


@contextmanager
def _place(model: str, environment: Mapping[str, str]) -> Iterator[Endpoint]:
    if not model.startswith(SCRIPT):
        yield endpoint(environment)
        return
    with scripted(Path(model.removeprefix(SCRIPT)).expanduser()) as api:
        yield Endpoint(base_url=api.url, key="none")


def _older(seen: View, until: int | None) -> list[ContextMessage]:
    lines = [entry for entry in seen.lines if is_message(entry) and (until is None or entry.offset < until)]
    return context(seen.manuscript.entries, lines[-1].record.uuid if lines else None)


def _with(said: list[dict[str, Any]], words: str) -> list[dict[str, Any]]:
    """Return messages with something that the user says in the end."""
    prompt = {"type": "text", "text": words}
    if said and said[-1]["role"] == "user":
        said[-1]["content"].append(prompt)
    else:
        said.append({"role": "user", "content": [prompt]})
    return said


def _plain(messages: Sequence[ContextMessage]) -> list[dict[str, Any]]:
    """Return messages that any model takes: the reminders between them and all thinking left out."""
    plain = []
    for message in messages:
        blocks = [block.value for block in message.blocks if block.kind not in THINKING]
        if message.role != "system" and blocks:
            plain.append({"role": message.role, "content": blocks})
    return plain
