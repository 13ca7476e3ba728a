"""Reads and writes objects in S3, GCS, Azure or a folder, with put-if-absent.

    file:///folder    s3://bucket/prefix    gs://bucket/prefix    az://account/container/prefix

Rules
  1. Credentials come from the environment, as the store's own tools read them. None is ever part of a message.
  2. `put_new` never overwrites. A store that would is refused by `probe`, before anything is sent to it.
  3. Every failure is an `ObjectStoreFailed` in one line. Only the library retries, for seconds: the caller has the
     bytes on disk.
  4. A put that is refused because the name is taken may repeat our own, whose response was lost. The caller compares
     the bytes (`upload.py`).
  5. An object put into a folder is on its disk before `put_new` returns, and only its owner may read it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from unspool.errors import ObjectStoreFailed, Refused, UsageError
from unspool.files import error_reason, flush, flush_folder

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PROBES = "probes"
TIMEOUT = 60.0
"""Seconds for one request, unless `$UNSPOOL_PLACE_TIMEOUT` says otherwise. A segment has a few megabytes at most."""

_ATTEMPTS = 5
"""How often an object is changed anew if another writer was faster."""
_PIECE = 16 * 1024 * 1024
"""Bytes of a long object that are held in memory."""
_CONNECT = timedelta(seconds=10)
_SCHEMES = frozenset({"file", "s3", "gs", "az", "azure", "abfs", "abfss"})
_URLS = "`file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://account/container/prefix`"
_CREDENTIALS = "set the credentials in the environment, as for the store's own tools (see docs/collect.md)"
_LATER = "no data is lost: what waits is sent when the store responds"
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)|(HTTP error: [^\n]+)|(?:^|: )([^:\n]+ \(os error \d+\))")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class ListedObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified: datetime


class ListedFolder(NamedTuple):
    """What is directly in a folder."""

    folders: list[str]
    """Their whole names."""
    objects: list[ListedObject]


class StoredObject(NamedTuple):
    """The bytes of an object, and the tag and version that a conditional replacement needs."""

    data: bytes
    tag: str | None
    version: str | None
    modified: datetime


class SegmentStore:
    """An object store under a URL: `file:`, `s3:`, `gs:` or `az:`."""

    def __init__(self, url: str, store: ObjectStore, folder: Path | None = None) -> None:
        self.url = url
        self._store, self._folder = store, folder

    def put_new(self, name: str, data: bytes) -> bool:
        """Put an object unless the name is taken; return whether it was put."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._translate_errors():
            try:
                obstore.put(self._store, name, data, mode="create", use_multipart=False)
                is_new = True
            except (AlreadyExistsError, PreconditionError):
                is_new = False
        # Also if it existed: whoever put it may have been killed before it was on disk.
        self._flush(name)
        return is_new

    def get(self, name: str) -> bytes | None:
        """Return an object's bytes; None if there is none."""
        stored = self.stored(name)
        return stored.data if stored else None

    def stored(self, name: str) -> StoredObject | None:
        """Return an object with its tag and version; None if there is none."""
        import obstore

        with self._translate_errors():
            try:
                response = obstore.get(self._store, name)
                meta = response.meta
                data = bytes(response.bytes())
            except FileNotFoundError:
                return None
        return StoredObject(data, meta["e_tag"], meta["version"], meta["last_modified"])

    def replace(self, name: str, data: bytes, before: StoredObject | None) -> bool:
        """Replace an object that was read before; return False if it has changed meanwhile.

        A folder has no conditional replacement: there the last writer wins.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        if before is None:
            return self.put_new(name, data)
        mode: Any = {key: value for key, value in (("e_tag", before.tag), ("version", before.version)) if value}
        with self._translate_errors():
            try:
                obstore.put(self._store, name, data, mode="overwrite" if self._folder else mode)
            except (PreconditionError, FileNotFoundError):
                return False
        self._make_private(name)
        return True

    def change(self, name: str, make: Callable[[StoredObject | None], bytes]) -> bytes:
        """Replace an object by what `make` returns for it, again if another writer was faster; return the new bytes."""
        for _ in range(_ATTEMPTS):
            before = self.stored(name)
            data = make(before)
            if self.replace(name, data, before):
                return data
        raise ObjectStoreFailed(f"too many concurrent writers on `{name}` of `{self.url}`", hint="try again")

    def overwrite(self, name: str, data: bytes) -> None:
        """Put an object whether or not there is one."""
        import obstore

        with self._translate_errors():
            obstore.put(self._store, name, data, use_multipart=False)
        self._make_private(name)

    def copy_to_file(self, name: str, path: Path) -> bool:
        """Copy an object to a file, a piece at a time; return False if there is none."""
        import obstore

        part = path.with_name(f"{path.name}.part")
        with self._translate_errors():
            try:
                response = obstore.get(self._store, name)
            except FileNotFoundError:
                return False
            with part.open("wb") as file:
                for piece in response.stream(min_chunk_size=_PIECE):
                    file.write(piece)
        # Only now: what a failure has cut off must not be taken for the object.
        part.replace(path)
        return True

    def put_file(self, name: str, path: Path) -> None:
        """Put a file, a piece at a time if it is long, whether or not there is an object."""
        import obstore

        with self._translate_errors():
            obstore.put(self._store, name, path, chunk_size=_PIECE, max_concurrency=2)
        self._make_private(name)

    def names(self, prefix: str, after: str | None = None, before: str | None = None) -> Iterator[ListedObject]:
        """Yield the objects below a prefix of whole folder names (`segments/acme`); only those between two names."""
        import obstore

        with self._translate_errors():
            for page in obstore.list(self._store, prefix, offset=after):
                for item in page:
                    if before is None or item["path"] < before:
                        yield ListedObject(item["path"], item["size"], item["last_modified"])
                    elif self._folder is None:
                        # Object stores list in the order of names, so the rest need not be listed. Folders do not.
                        return

    def folder(self, prefix: str) -> ListedFolder:
        """Return the folders and objects directly below a prefix."""
        import obstore

        with self._translate_errors():
            listed = obstore.list_with_delimiter(self._store, prefix)
        objects = [ListedObject(item["path"], item["size"], item["last_modified"]) for item in listed["objects"]]
        return ListedFolder(sorted(listed["common_prefixes"]), objects)

    def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        import obstore

        with self._translate_errors():
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    def probe(self, name: str, content: bytes) -> StoredObject:
        """Check that the store keeps rule 2: of two puts of one name, the second must be refused."""
        name = f"{PROBES}/{name}"
        # Some servers accept `If-None-Match: *` and ignore it; only a second put shows that.
        if self.put_new(name, content) and self.put_new(name, b"second\n"):
            raise Refused(
                f"the store at `{self.url}` ignores conditional puts and would overwrite segments",
                hint="use a store that supports `If-None-Match: *` (S3, GCS, Azure, MinIO, SeaweedFS, a folder)",
            )
        stored = self.stored(name)
        if stored is None:
            raise ObjectStoreFailed(f"the store at `{self.url}` lost an object that was just written", hint=_LATER)
        return stored

    def clock(self, name: str) -> datetime:
        """Return the time of the store's clock."""
        import obstore

        name = f"{PROBES}/{name}.clock"
        self.overwrite(name, b"now\n")
        with self._translate_errors():
            return obstore.head(self._store, name)["last_modified"]

    def _flush(self, name: str) -> None:
        """Flush an object in a folder to disk (rule 5); a store elsewhere does that itself."""
        if self._folder is None:
            return
        path = self._folder / name
        self._make_private(name)
        try:
            flush(path)
            # The folder as well: without it the new name may be lost in a power failure.
            flush_folder(path.parent)
        except OSError as error:
            raise ObjectStoreFailed(f"cannot flush `{path}`: {error_reason(error)}", hint=_LATER) from None

    def _make_private(self, name: str) -> None:
        """Let only the owner read an object in a folder: the library creates files that everybody may read."""
        if self._folder is not None:
            # An object of another user is that user's to protect.
            with suppress(PermissionError, FileNotFoundError):
                (self._folder / name).chmod(0o600)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turn the library's errors into `ObjectStoreFailed`."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            raise _describe_failure(self.url, error) from None
        except ValueError as error:
            # The library's error for a name that no store can have, such as `..`.
            message = f"the store at `{self.url}` cannot have this: {_short_reason(str(error))}"
            raise ObjectStoreFailed(message, is_final=True) from None


def open_object_store(url: str, environment: Mapping[str, str]) -> SegmentStore:
    """Open the store that a URL names; a missing folder is created."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise UsageError(f"not an object store URL: `{url}`", hint=f"use {_URLS}")
    # Credentials in a URL would end up in `collect.db`, in messages and in the service unit.
    if parts.query or ("@" in parts.netloc and parts.scheme not in {"abfs", "abfss"}):
        raise UsageError("a URL must not contain credentials", hint=_CREDENTIALS)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import LocalStore, from_url
    except ModuleNotFoundError:
        from unspool.extras import missing_extra  # start-up: only this needs it

        raise missing_extra("team") from None
    if parts.scheme == "file":
        path = Path("" if parts.netloc else unquote(parts.path))
        return SegmentStore(url, _open_folder(url, path, LocalStore), path)
    timeout, pause = timedelta(seconds=request_timeout(environment)), timedelta(seconds=0.2)
    options: Any = {
        "timeout": timeout,
        "connect_timeout": min(timeout, _CONNECT),
        "allow_http": allows_http(environment),
    }
    # Few and short: segments wait on disk, and `--follow` tries again, ever more slowly.
    retry: Any = {"max_retries": 2, "backoff": {"init_backoff": pause, "max_backoff": 10 * pause, "base": 2.0}}
    try:
        return SegmentStore(url, from_url(url, client_options=options, retry_config=retry))
    except (BaseError, ValueError) as error:
        raise UsageError(f"cannot use `{url}`: {_short_reason(str(error))}", hint=_CREDENTIALS) from None


def request_timeout(environment: Mapping[str, str]) -> float:
    """Return how many seconds one request may take."""
    value = environment.get("UNSPOOL_PLACE_TIMEOUT", "")
    try:
        return max(float(value), 0.1) if value else TIMEOUT
    except ValueError:
        raise UsageError(f"`$UNSPOOL_PLACE_TIMEOUT` is not a number of seconds: `{value}`") from None


def _open_folder(url: str, path: Path, store_class: Any) -> ObjectStore:
    if not path.is_absolute():
        raise UsageError(f"not a folder URL: `{url}`", hint="use `file:///folder`, with three slashes")
    try:
        # A folder that is there already keeps its mode: whoever made it may share it on purpose.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ObjectStoreFailed(f"cannot create `{path}`: {error_reason(error)}") from None
    store: ObjectStore = store_class(str(path))
    return store


def allows_http(environment: Mapping[str, str]) -> bool:
    """Return whether requests without TLS are allowed: to a store on this machine, or if the environment says so."""
    if any(environment.get(name, "").lower() in {"1", "true"} for name in ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP")):
        return True
    endpoints = [environment.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")]
    return any(urlsplit(end).hostname in {"127.0.0.1", "localhost", "::1"} for end in endpoints if end)


def _describe_failure(url: str, error: Exception) -> ObjectStoreFailed:
    from obstore.exceptions import NotSupportedError, PermissionDeniedError, UnauthenticatedError

    words = str(error)
    match = _CODE.search(words)
    code = match[1] if match else ""
    if code == "RequestTimeTooSkewed":
        message = f"the store at `{url}` rejects this machine's clock"
        return ObjectStoreFailed(message, hint=f"correct the clock; {_LATER}", is_final=True)
    # Without credentials the libraries ask the metadata service of a cloud machine, which elsewhere does not exist.
    if "169.254.169.254" in words or "metadata.google.internal" in words:
        return ObjectStoreFailed(f"no credentials for `{url}`", hint=_CREDENTIALS, is_final=True)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) and not url.startswith("file:"):
        suffix = f" ({code})" if code else ""
        return ObjectStoreFailed(
            f"the store at `{url}` rejects the credentials{suffix}", hint=_CREDENTIALS, is_final=True
        )
    if code == "NoSuchBucket":
        return ObjectStoreFailed(
            f"bucket not found: `{url}`", hint="create the bucket, or correct the URL", is_final=True
        )
    if isinstance(error, NotSupportedError):
        return ObjectStoreFailed(f"the store at `{url}` does not support this: {_short_reason(words)}", is_final=True)
    return ObjectStoreFailed(f"unexpected response from the store at `{url}`: {_short_reason(words)}", hint=_LATER)


def _short_reason(words: str) -> str:
    """Return the HTTP status or the system's message out of a library's long error text."""
    match = _STATUS.search(words)
    text = next(filter(None, match.groups())) if match else words.partition("\n")[0]
    return text.strip()[:200].lower()
