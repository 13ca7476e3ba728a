"""Extracts the texts of many files for the index in several processes: files in, batches in their order out.

Rules
  1. Worker processes only read files; the process that started them writes the rows, meanwhile.
  2. Batches come in the order of the files, because the newest passages have the highest ids (`index.py`, rule 4).
  3. What only the archive has is read by the process that has it open.
  4. Memory is bounded: replies are small, and of few bundles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from unspool.errors import Unreadable
from unspool.store.search.corpus import CorpusReader
from unspool.store.search.index import IndexBatch, UnindexedFile, extract_batches
from unspool.store.worker_processes import answer_in_order

_BUNDLE_BYTES = 8 * 1024 * 1024
_BUNDLE_FILES = 16
"""Files in one message at most: with their states they must not fill a pipe."""
_LARGE_STATE = 512
"""Bytes of the states of a file from which on it does not go into a message."""
_REPLY_CHARACTERS = 1024 * 1024
"""Characters after which a worker replies."""
_WINDOW = 8
"""Bundles that are extracted ahead of the one that is written."""


_encode = msgspec.msgpack.Encoder().encode
_decode_files = msgspec.msgpack.Decoder(list[UnindexedFile]).decode
_decode_batch = msgspec.msgpack.Decoder(IndexBatch).decode


def extract_in_processes(files: Sequence[UnindexedFile], reader: CorpusReader, workers: int) -> Iterator[IndexBatch]:
    """Yield what is to be indexed of files, extracted by so many processes."""
    bundles = [
        (is_sent, bundle)
        for is_sent, group in groupby(files, _may_be_sent)
        for bundle in (_bundle_in_order(group) if is_sent else [list(group)])
    ]
    messages = [_encode(bundle) for is_sent, bundle in bundles if is_sent]
    message = "a worker process that read files for the index was killed"
    lost = Unreadable(message, hint="finished work is complete; the next update continues from there")
    replies = answer_in_order(messages, min(workers, len(messages)), _answer, lost, window=_WINDOW)
    for is_sent, bundle in bundles:
        if not is_sent:
            yield from extract_batches(bundle, reader, {}, _REPLY_CHARACTERS)
            continue
        for reply, is_last in replies:
            batch = _decode_batch(reply)
            if batch.indexed or batch.stats:
                yield batch
            if is_last:
                break
    for _ in replies:  # to its end, where the processes end
        pass


def _may_be_sent(file: UnindexedFile) -> bool:
    return file.position is not None and len(file.state or b"") + len(file.stats or b"") + len(file.path) < _LARGE_STATE


def _bundle_in_order(files: Iterator[UnindexedFile]) -> Iterator[list[UnindexedFile]]:
    bundle: list[UnindexedFile] = []
    size = 0
    for file in files:
        if bundle and (size + file.end - file.first > _BUNDLE_BYTES or len(bundle) == _BUNDLE_FILES):
            yield bundle
            bundle, size = [], 0
        bundle.append(file)
        size += file.end - file.first
    if bundle:
        yield bundle


def _answer(message: bytes) -> Iterator[tuple[bytes, bool]]:
    """Extract the texts of the files of a bundle, in a worker process."""
    for batch in extract_batches(_decode_files(message), CorpusReader(None), {}, _REPLY_CHARACTERS):
        yield _encode(batch), False
    yield _encode(IndexBatch()), True
