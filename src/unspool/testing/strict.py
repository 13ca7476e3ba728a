"""The rules of the Messages API as functions: what it would refuse in a request."""

from unspool.api.rules.validate import Memory, Problem, count_tokens, problems

__all__ = ["Memory", "Problem", "count_tokens", "problems"]
