"""The tool runner: a tool and what it is called with in, what came of it out.

Rules
  1. Every exception becomes an outcome with words for the model. Only a cancellation passes: the loop asked for it.
  2. What comes out can be written down: no lone surrogates, as names of files may have; an error says something.
"""

from __future__ import annotations

import errno
from typing import Any

import msgspec

from unspool.client.desk import Desk
from unspool.client.tools.tool import BadCall, Outcome, Tool, ToolFailed
from unspool.errors import UnspoolError


async def run(tool: Tool, input: Any, desk: Desk, call_id: str) -> Outcome:
    """Make a call."""
    try:
        outcome = await tool.run(input, desk, call_id)
    except BadCall as problem:
        outcome = _refused(str(problem), problem.result_prefix)
    except ToolFailed as problem:
        outcome = _failed(str(problem))
    except UnspoolError as problem:
        outcome = _failed(f"{problem.message} ({problem.hint})" if problem.hint else problem.message)
    except OSError as problem:
        outcome = _failed(system_words(problem))
    except Exception as problem:  # a tool that breaks is no reason to lose a conversation
        outcome = _failed(f"{tool.name} broke: {type(problem).__name__}: {problem}")
    return _sound(outcome)


def system_words(problem: OSError) -> str:
    """Return what the system said, as the program words it: `EACCES: permission denied, '/etc/shadow'`."""
    name = errno.errorcode.get(problem.errno or 0, "EIO")
    where = f", '{problem.filename}'" if problem.filename is not None else ""
    return f"{name}: {(problem.strerror or str(problem)).lower()}{where}"


def _failed(text: str) -> Outcome:
    text = text.strip() or "The tool failed without saying why."
    return Outcome(content=text, result=f"Error: {text}", is_error=True)


def _refused(text: str, prefix: str) -> Outcome:
    return Outcome(content=f"<tool_use_error>{text}</tool_use_error>", result=f"{prefix}{text}", is_error=True)


def _sound(outcome: Outcome) -> Outcome:
    try:
        msgspec.json.encode([outcome.content, outcome.result, outcome.extra])
    except UnicodeEncodeError:
        return Outcome(
            content=_mended(outcome.content),
            result=_mended(outcome.result),
            is_error=outcome.is_error,
            extra=_mended(outcome.extra),
        )
    return outcome


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {_mended(key): _mended(part) for key, part in value.items()}
        case list():
            return [_mended(part) for part in value]
        case tuple():
            return tuple(_mended(part) for part in value)
        case _:
            return value
