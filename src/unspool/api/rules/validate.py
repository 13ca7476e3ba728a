"""What the Messages API would refuse: a request in, every problem out, in the words of the API.

    problems(body)        # [] for a request that the API takes
    count_tokens(body)    # about how many tokens it is

The rules are in `testing/rules/`: `parameters.py` (what stands beside the messages), `contents.py` and `media.py`
(messages and blocks, one at a time), `turns.py` (who speaks, which result belongs to which call), `thoughts.py`
(thinking). `docs/testing.md` lists them.

Rules
  1. Pure: nothing is kept between two calls but what a `Memory` is told.
  2. All problems, not only the first; the first is the one that the API would name.
  3. What the real Claude Code sends is never refused; where it is, the rule is wrong.
  4. What only the API can know (signatures, models, budgets of an account) is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unspool.api.rules.contents import messages
from unspool.api.rules.parameters import parameters
from unspool.api.rules.problem import Problem
from unspool.api.rules.thinking import Memory, thoughts
from unspool.api.rules.turns import order, pairs, turns
from unspool.prices.token_estimate import estimate

__all__ = ["Memory", "Problem", "count_tokens", "problems"]


def problems(
    body: dict[str, Any], memory: Memory | None = None, *, betas: Iterable[str] = (), counting: bool = False
) -> list[Problem]:
    """Return what is wrong with a request to `/v1/messages`, or to `count_tokens` when counting.

    With a memory of what was answered before, thinking is also checked to be what it was. Betas are those of the
    header `anthropic-beta`; with any, fields that are not known here are let through.
    """
    named = frozenset(betas)
    talk = turns(body)
    return [
        *parameters(body, named, counting=counting),
        *messages(body, beta=bool(named)),
        *order(body, talk),
        *pairs(talk),
        *thoughts(body, talk, memory or Memory()),
    ]


def count_tokens(body: dict[str, Any]) -> int:
    """Return about how many input tokens a request is; the same number for the same request."""
    return max(1, estimate(body))
