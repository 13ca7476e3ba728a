"""The exceptions that unspool raises on purpose, each with a message, a hint and an exit code.

    UnspoolError                  a wrong request: message, hint, exit code
    ├── NothingFound      exit 1  the request was fine, nothing matches it
    ├── UsageError        exit 2  the arguments do not fit together
    ├── NotFound          exit 3  no such session, file or folder
    ├── Unreadable        exit 4  it exists, but cannot be read as what it should be
    │   └── Unwritable    exit 4  it cannot be written
    ├── Refused           exit 5  it is possible, and unspool will not do it
    ├── ApiFailed         exit 6  the Messages API refused, or did not answer
    └── ObjectStoreFailed exit 6  an object store refused, or did not answer

Bad data is never an exception: it comes back as a value (`BadLine`, `Unknown`, `Other`).
"""

from __future__ import annotations


class UnspoolError(Exception):
    """A wrong request, with what to do about it. Its text is lower case and has no full stop."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NothingFound(UnspoolError):
    """The request was fine, but nothing matches it."""

    exit_code = 1


class UsageError(UnspoolError):
    """The arguments do not fit together."""

    exit_code = 2


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
