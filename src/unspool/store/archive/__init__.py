"""The archive: the raw bytes of files, compressed, kept after the files have gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.archive.archive import (
        Archive, ArchivedFile, compress, decompress_at_most, decompress_pieces, frame_errors, split_into_frames,
    )
    from unspool.store.archive.reader import ArchiveReader, find_readable_sessions, find_session_files

__all__ = [
    "Archive", "ArchiveReader", "ArchivedFile", "compress", "decompress_at_most", "decompress_pieces",
    "find_readable_sessions", "find_session_files", "frame_errors", "split_into_frames",
]

__getattr__ = lazy_door(__name__, {
    "archive": "Archive ArchivedFile compress decompress_at_most decompress_pieces frame_errors split_into_frames",
    "reader": "ArchiveReader find_readable_sessions find_session_files",
})
