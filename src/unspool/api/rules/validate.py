"""Finds everything that the Messages API would refuse in a request, in the words of the API.

    find_problems(body)   # [] for a request that the API takes
    count_tokens(body)    # about how many tokens it is

The rules are in `parameters.py` (all fields besides the messages), `blocks.py` (messages and blocks, one at a time) and
`turns.py` (the order of messages, which result belongs to which call, thinking). `docs/testing.md` lists them.

Rules
  1. Pure: nothing is kept between two calls but what a `ThinkingMemory` is given.
  2. All problems, not only the first; the first is the one that the API would name.
  3. What the real Claude Code sends is never refused; where it is, the rule is wrong.
  4. What only the API can know (signatures, models, budgets of an account) is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unspool.api.rules.blocks import check_messages
from unspool.api.rules.parameters import check_parameters
from unspool.api.rules.problem import Problem
from unspool.api.rules.turns import ThinkingMemory, check_order, check_thinking, check_tool_pairs, group_turns


def find_problems(
    body: dict[str, Any], memory: ThinkingMemory | None = None, *, betas: Iterable[str] = (), counting: bool = False
) -> list[Problem]:
    """Return what is wrong with a request to `/v1/messages`, or to `count_tokens` when counting.

    With a memory of earlier responses, thinking is also checked to be what it was. Betas are those of the header
    `anthropic-beta`; with any, fields that are not known here are let through.
    """
    named = frozenset(betas)
    turns = group_turns(body)
    return [
        *check_parameters(body, named, counting=counting),
        *check_messages(body, beta=bool(named)),
        *check_order(body, turns),
        *check_tool_pairs(turns),
        *check_thinking(body, turns, memory or ThinkingMemory()),
    ]


def count_tokens(body: dict[str, Any]) -> int:
    """Return about how many input tokens a request is; the same number for the same request."""
    from unspool.prices import estimate_request_tokens  # start-up: checking an edit counts nothing

    return max(1, estimate_request_tokens(body))
