"""The exceptions that unspool raises on purpose, each with a message, a hint and an exit code.

    UnspoolError                  a wrong request: message, hint, exit code
    ├── NothingFound      exit 1  the request was fine, nothing matches it
    ├── UsageError        exit 2  the arguments do not fit together
    ├── NotFound          exit 3  no such session, file or folder
    ├── Unreadable        exit 4  it exists, but cannot be read as what it should be
    │   └── Unwritable    exit 4  it cannot be written
    ├── Refused           exit 5  it is possible, and unspool will not do it
    │   └── MissingExtra  exit 5  the libraries that it needs are not installed
    ├── ApiFailed         exit 6  the Messages API refused, or did not answer
    ├── ObjectStoreFailed exit 6  an object store refused, or did not answer
    └── TelemetryFailed   exit 6  a receiver of OpenTelemetry refused, or did not answer

Bad data is never an exception: it comes back as a value (`BadLine`, `Unknown`, `Other`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class UnspoolError(Exception):
    """A wrong request, with what to do about it. Its text is lower case and has no full stop."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = reason or message
        """Why, in few words, for lists that name the file themselves."""


class NothingFound(UnspoolError):
    """The request was fine, but nothing matches it."""

    exit_code = 1


class UsageError(UnspoolError):
    """The arguments do not fit together."""

    exit_code = 2


class AmbiguousSession(UsageError):
    """A name matches several sessions."""

    def __init__(self, name: str, sessions: Sequence[Any]) -> None:
        self.sessions = sessions
        """They, as `unspool.home.Session`."""
        some = ", ".join(f"`{session.id}`" for session in sessions[:3])
        super().__init__(f"`{name}` matches {len(sessions)} sessions", hint=f"use more characters of the id: {some}")


class NotFound(UnspoolError):
    """There is no such session, file or folder."""

    exit_code = 3


class Unreadable(UnspoolError):
    """A file exists, but cannot be read as what it should be."""

    exit_code = 4


class Unwritable(Unreadable):
    """A file cannot be written: no space, no permission."""


class Refused(UnspoolError):
    """A request that would break a promise: an unsafe path, a file in use."""

    exit_code = 5


class TooLarge(Refused):
    """A file is too large for the place that asks for it; the hint names one that takes it."""


class MissingExtra(Refused):
    """A feature needs optional libraries that are not installed. `unspool.extras` makes these errors."""

    def __init__(self, extras: tuple[str, ...], hint: str, feature: str | None = None) -> None:
        self.extras = extras
        self.feature = feature
        """What needs them; None if only the caller knows, as the command line does."""
        super().__init__(self.describe(feature or "this"), hint=hint)

    def describe(self, feature: str) -> str:
        """Return the message for the feature, as the caller calls it."""
        names = " and ".join(f"`{extra}`" for extra in self.extras)
        many = len(self.extras) > 1
        return f"{feature} needs the {names} {'extras, which are' if many else 'extra, which is'} not installed"


class ApiFailed(UnspoolError):
    """The Messages API refused the request or did not answer."""

    exit_code = 6

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        status: int | None = None,
        kind: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind
        """The API's own type of error."""
        self.request_id = request_id


class ObjectStoreFailed(UnspoolError):
    """An object store refused a request or did not answer. Trying again later may help, unless `is_final`."""

    exit_code = 6

    def __init__(self, message: str, *, hint: str | None = None, is_final: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_final = is_final


class TelemetryFailed(UnspoolError):
    """A receiver of OpenTelemetry refused a request or did not answer."""

    exit_code = 6

    def __init__(self, message: str, *, hint: str | None = None, is_too_large: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_too_large = is_too_large
        """Whether a smaller request may be taken."""


class SinkFailed(UnspoolError):
    """A database that a lake is copied to refused a request or did not answer."""

    exit_code = 6

    def __init__(self, message: str, *, hint: str | None = None, is_final: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_final = is_final
        """Whether it is of no use to try the same again."""


def session_not_found(name: str) -> NotFound:
    """Return the error for a name that no session has."""
    return NotFound(f"no session matches `{name}`", hint="list sessions with `unspool ls`")


def empty_session_name() -> UsageError:
    """Return the error for an empty argument where a session is named."""
    return UsageError("the name of the session is empty", hint="list sessions with `unspool ls`")


def turn_not_found(name: str, turns: str) -> NotFound:
    """Return the error for a turn that a session does not have; `turns` says which it has, as in `7 turns`."""
    return NotFound(f"no turn matches `{name}`", hint=f"the session has {turns}")


def cannot_read(path: object, reason: str) -> Unreadable:
    """Return the error for a file that exists and cannot be read."""
    return Unreadable(f"cannot read `{path}`: {reason}", reason=reason)


def cannot_write(path: object, reason: str) -> Unwritable:
    """Return the error for a file or folder that cannot be written."""
    return Unwritable(f"cannot write `{path}`: {reason}", reason=reason)


def already_exists(path: object) -> Refused:
    """Return the error for an output file or folder that would be overwritten."""
    return Refused(f"`{path}` already exists", hint="choose another name, or delete it first")


def confirmation_required() -> Refused:
    """Return the error for a question that cannot be asked, because stdin is not a terminal."""
    return Refused("not a terminal; pass --yes to confirm")


def unknown_value(kind: str, value: str, allowed: Iterable[str]) -> UsageError:
    """Return the error for an argument that is none of the allowed values."""
    return UsageError(f"unknown {kind} `{value}`", hint=f"use one of: {', '.join(allowed)}")


def conflicting_options(*options: str) -> UsageError:
    """Return the error for options that exclude each other."""
    *first, last = options
    return UsageError(f"{', '.join(first)} and {last} cannot be used together", hint="remove one of them")
