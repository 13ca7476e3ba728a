"""Every exception raised on purpose.

    UnspoolError                 a wrong request: message, hint, exit code
    ├── NothingFound     exit 1  the request was fine, there is just nothing to show
    ├── Usage            exit 2  the words on the command line do not fit together
    ├── NotFound         exit 3  no such session, file or folder
    ├── Unreadable       exit 4  it is there, but cannot be read as what it should be
    │   └── Unwritable   exit 4  it should be written, and cannot be
    ├── Refused          exit 5  it could be done, and unspool will not
    ├── ApiFailed        exit 6  the Messages API said no, or did not answer
    └── PlaceFailed      exit 6  so did an object store

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
    """The request was fine; nothing matches it."""

    exit_code = 1


class Usage(UnspoolError):
    """The arguments do not fit together."""

    exit_code = 2


class NotFound(UnspoolError):
    """There is no such session, file or folder."""

    exit_code = 3


class Unreadable(UnspoolError):
    """It exists, but cannot be read as what it should be."""

    exit_code = 4


class Unwritable(Unreadable):
    """It should be written, but the system does not allow it: no room, no permission."""


class Refused(UnspoolError):
    """It could be done, but would break a promise: an unsafe path, a file in use."""

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


class PlaceFailed(UnspoolError):
    """An object store refused a request or did not answer. Trying again later may help, unless `is_final`."""

    exit_code = 6

    def __init__(self, message: str, *, hint: str | None = None, is_final: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_final = is_final
