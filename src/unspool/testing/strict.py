"""The rules of the Messages API as functions: what it would refuse in a request."""

from unspool.api.rules import Problem, count_tokens
from unspool.api.rules import ThinkingMemory as Memory
from unspool.api.rules import find_problems as problems

__all__ = ["Memory", "Problem", "count_tokens", "problems"]
