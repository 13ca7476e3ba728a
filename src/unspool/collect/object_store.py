"""Reads and writes objects in S3, GCS, Azure or a folder, with put-if-absent.

    file:///folder    s3://bucket/prefix    gs://bucket/prefix    az://account/container/prefix

Rules
  1. Credentials come from the environment, as the store's own tools read them. None is ever part of a message.
  2. `put_new` never overwrites. A store that would is refused by `probe`, before anything is sent to it.
  3. Every failure is an `ObjectStoreFailed` in one line. Nothing is retried here but what the library retries within
     seconds: the sender has the bytes on disk.
  4. A request that was answered with "there is one already" may be our own, whose first answer was lost. Whoever puts
     compares (`upload.py`).
  5. What was put into a folder is on its disk before that is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from unspool.errors import ObjectStoreFailed, Refused, UsageError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PROBES = "probes"
TIMEOUT = 60.0
"""Seconds for one request, unless `$UNSPOOL_PLACE_TIMEOUT` says otherwise. A segment has a few megabytes at most."""

_CONNECT = timedelta(seconds=10)
_SCHEMES = frozenset({"file", "s3", "gs", "az", "azure", "abfs", "abfss"})
_URLS = "`file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://account/container/prefix`"
_CREDENTIALS = "credentials come from the environment, as the store's own tools read them (docs/collect.md)"
_LATER = "nothing is lost: what waits is sent when the store answers"
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)|(HTTP error: [^\n]+)|(?:^|: )([^:\n]+ \(os error \d+\))")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class ListedObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified: datetime


class StoredObject(NamedTuple):
    """An object that may be replaced, and what tells whether somebody else did so meanwhile."""

    data: bytes
    tag: str | None
    version: str | None
    modified: datetime


class SegmentStore:
    """An object store under a URL."""

    def __init__(self, url: str, store: ObjectStore, folder: Path | None = None) -> None:
        self.url = url
        self._store, self._folder = store, folder

    def put_new(self, name: str, data: bytes) -> bool:
        """Put an object unless there is one of that name; tell whether it was put."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._telling():
            try:
                obstore.put(self._store, name, data, mode="create", use_multipart=False)
                done = True
            except (AlreadyExistsError, PreconditionError):
                done = False
        self._flush(name)
        return done

    def get(self, name: str) -> bytes | None:
        """Return an object's bytes; None if there is none."""
        found = self.stored(name)
        return found.data if found else None

    def stored(self, name: str) -> StoredObject | None:
        """Return an object with what is needed to replace it; None if there is none."""
        import obstore

        with self._telling():
            try:
                found = obstore.get(self._store, name)
                meta = found.meta
                data = bytes(found.bytes())
            except FileNotFoundError:
                return None
        return StoredObject(data, meta["e_tag"], meta["version"], meta["last_modified"])

    def replace(self, name: str, data: bytes, before: StoredObject | None) -> bool:
        """Put an object in the place of the one that was read before; False if that has changed meanwhile.

        A folder cannot tell: there the last one wins.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        if before is None:
            return self.put_new(name, data)
        mode: Any = {key: value for key, value in (("e_tag", before.tag), ("version", before.version)) if value}
        with self._telling():
            try:
                obstore.put(self._store, name, data, mode="overwrite" if self._folder else mode)
            except (PreconditionError, FileNotFoundError):
                return False
        return True

    def names(self, prefix: str, after: str | None = None) -> Iterator[ListedObject]:
        """Yield the objects in a folder of names (`segments/acme`) and below, those later than a name."""
        import obstore

        with self._telling():
            for page in obstore.list(self._store, prefix, offset=after):
                yield from (ListedObject(one["path"], one["size"], one["last_modified"]) for one in page)

    def delete(self, name: str) -> None:
        """Take an object away; none is fine too."""
        import obstore

        with self._telling():
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    def probe(self, name: str, words: bytes) -> StoredObject:
        """Make sure that the store keeps rule 2: of two puts of one name, the second must be refused."""
        name = f"{PROBES}/{name}"
        if self.put_new(name, words) and self.put_new(name, b"second\n"):
            raise Refused(
                f"the store at `{self.url}` ignores conditional puts: it would overwrite segments",
                hint="use a store that knows `If-None-Match: *` (S3, GCS, Azure, MinIO, SeaweedFS, a folder)",
            )
        found = self.stored(name)
        if found is None:
            raise ObjectStoreFailed(f"the store at `{self.url}` does not have what was just put there", hint=_LATER)
        return found

    def clock(self, name: str) -> datetime:
        """Return what time the store thinks it is."""
        import obstore

        name = f"{PROBES}/{name}.clock"
        with self._telling():
            obstore.put(self._store, name, b"now\n")
            return obstore.head(self._store, name)["last_modified"]

    def _flush(self, name: str) -> None:
        """Make sure that an object in a folder outlives a power failure (rule 5)."""
        if self._folder is None:
            return
        path = self._folder / name
        try:
            for one in (path, path.parent):
                descriptor = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
        except OSError as error:
            reason = (error.strerror or "no reason given").lower()
            raise ObjectStoreFailed(f"cannot flush `{path}`: {reason}", hint=_LATER) from None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say in our words what the store did not do."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            raise _complaint(self.url, error) from None


def open_object_store(url: str, environment: Mapping[str, str]) -> SegmentStore:
    """Open the store that a URL names; a folder is made if there is none."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise UsageError(f"not the URL of an object store: `{url}`", hint=f"write {_URLS}")
    if parts.query or ("@" in parts.netloc and parts.scheme not in {"abfs", "abfss"}):
        raise UsageError("a URL must not hold credentials", hint=_CREDENTIALS)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ModuleNotFoundError:
        raise UsageError("collecting needs a library", hint="pip install 'unspool[team]'") from None
    if parts.scheme == "file":
        path = Path("" if parts.netloc else unquote(parts.path))
        return SegmentStore(url, _folder(url, path, LocalStore), path)
    timeout, pause = timedelta(seconds=parse_seconds(environment)), timedelta(seconds=0.2)
    options: Any = {
        "timeout": timeout,
        "connect_timeout": min(timeout, _CONNECT),
        "allow_http": is_plain_name(environment),
    }
    retry: Any = {"max_retries": 2, "backoff": {"init_backoff": pause, "max_backoff": 10 * pause, "base": 2.0}}
    try:
        return SegmentStore(url, from_url(url, client_options=options, retry_config=retry))
    except (BaseError, ValueError) as error:
        raise UsageError(f"cannot use `{url}`: {_reason(str(error))}", hint=_CREDENTIALS) from None


def parse_seconds(environment: Mapping[str, str]) -> float:
    """Return how long one request may take."""
    named = environment.get("UNSPOOL_PLACE_TIMEOUT", "")
    try:
        return max(float(named), 0.1) if named else TIMEOUT
    except ValueError:
        raise UsageError(f"`$UNSPOOL_PLACE_TIMEOUT` is not a number of seconds: `{named}`") from None


def _folder(url: str, path: Path, store: Any) -> ObjectStore:
    if not path.is_absolute():
        raise UsageError(f"not the URL of a folder: `{url}`", hint="write `file:///folder`, with three slashes")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ObjectStoreFailed(f"cannot make `{path}`: {(error.strerror or 'no reason given').lower()}") from None
    made: ObjectStore = store(str(path))
    return made


def is_plain_name(environment: Mapping[str, str]) -> bool:
    """Tell whether the store may be asked without TLS: one on this machine, or if the environment says so."""
    if any(environment.get(name, "").lower() in {"1", "true"} for name in ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP")):
        return True
    ends = [environment.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")]
    return any(urlsplit(end).hostname in {"127.0.0.1", "localhost", "::1"} for end in ends if end)


def _complaint(url: str, error: Exception) -> ObjectStoreFailed:
    from obstore.exceptions import NotSupportedError, PermissionDeniedError, UnauthenticatedError

    words = str(error)
    found = _CODE.search(words)
    code = found[1] if found else ""
    if code == "RequestTimeTooSkewed":
        message = f"the store at `{url}` refuses this machine's clock"
        return ObjectStoreFailed(message, hint=f"set the clock right; {_LATER}", is_final=True)
    if "169.254.169.254" in words or "metadata.google.internal" in words:
        return ObjectStoreFailed(f"no credentials for `{url}`", hint=_CREDENTIALS, is_final=True)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) and not url.startswith("file:"):
        told = f" ({code})" if code else ""
        return ObjectStoreFailed(
            f"the store at `{url}` refuses the credentials{told}", hint=_CREDENTIALS, is_final=True
        )
    if code == "NoSuchBucket":
        return ObjectStoreFailed(f"no such bucket: `{url}`", hint="make it first, or mend the URL", is_final=True)
    if isinstance(error, NotSupportedError):
        return ObjectStoreFailed(f"the store at `{url}` cannot do that: {_reason(words)}", is_final=True)
    return ObjectStoreFailed(f"the store at `{url}` does not answer as it should: {_reason(words)}", hint=_LATER)


def _reason(words: str) -> str:
    """Return what is worth saying of a library's error: the status, or what the system said."""
    found = _STATUS.search(words)
    text = next(filter(None, found.groups())) if found else words.partition("\n")[0]
    return text.strip()[:200].lower()
