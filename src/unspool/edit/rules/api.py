"""Checks the request that would continue a session by the Messages API's rules (`api/rules`): A1 to A4 and A7.

What the API would refuse is found and worded in one place. Here it is decided which rule of a session a refusal breaks,
and on which line. Refusals that break none (an image of a wrong type, a field that is not known) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from unspool.api.rules import find_problems
from unspool.edit.rules.violation import Violation
from unspool.format import Entry
from unspool.graph.context import ContextMessage, model_rules

CONTINUE_PROMPT = "Go on."
# The first that fits counts: the words about server tools and thinking name tool calls, too.
_RULES = (
    ("A3", re.compile(r"\.tool_use\.input: ")),
    ("A4", re.compile(r"thinking")),
    ("A7", re.compile(r"was found without a corresponding")),
    ("A2", re.compile(r"tool_use|tool_result")),
    ("A1", re.compile(r"first message|non-empty|non-whitespace")),
)
_PLACE = re.compile(r"messages\.(\d+)(?:\.content\.(\d+))?")


def resume_request(messages: Sequence[ContextMessage]) -> dict[str, Any]:
    """Return the request that continues a conversation."""
    sent = append_prompt([message.json for message in messages], CONTINUE_PROMPT)
    return {"model": model_rules.DEFAULT_MODEL, "max_tokens": 1024, "messages": sent}


def append_prompt(messages: Sequence[dict[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Return messages with a prompt at the end: in the user's last message, or in a new one."""
    block = {"type": "text", "text": prompt}
    if messages and messages[-1]["role"] == "user":
        return [*messages[:-1], {**messages[-1], "content": [*messages[-1]["content"], block]}]
    return [*messages, {"role": "user", "content": [block]}]


def check_api_rules(messages: Sequence[ContextMessage]) -> Iterator[Violation]:
    """Yield what the API would refuse when a conversation is continued, if it breaks a rule."""
    for problem in find_problems(resume_request(messages)):
        rule = next((rule for rule, words in _RULES if words.search(problem.message)), None)
        if rule is not None:
            entry = _find_entry(messages, problem.path)
            words = problem.message.removeprefix(f"{problem.path}: ")
            yield Violation(rule, entry.offset if entry else 0, words, (entry and entry.record.uuid) or words)


def _find_entry(messages: Sequence[ContextMessage], path: str) -> Entry | None:
    """Return the line that a place in the request comes from; of a whole message, its first."""
    place = _PLACE.match(path)
    number = int(place[1]) if place else 0
    blocks = messages[number].blocks[int((place and place[2]) or 0) :] if number < len(messages) else ()
    return next((block.entry for block in blocks if block.entry), None)
