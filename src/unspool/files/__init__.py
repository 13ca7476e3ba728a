"""Opens files safely, locks them, and writes them whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.files import atomic
    from unspool.files.atomic import (
        FileSnapshot, create_atomically, flush, flush_folder, temporary_file, write_atomically, write_durably,
        write_flushed, write_new,
    )
    from unspool.files.git_head import read_git_head
    from unspool.files.locks import LockTaken, acquire_lock, hold_lock, release_lock
    from unspool.files.open import (
        MAX_SIDE_FILE, create_private_file, data_end, describe_too_large, error_reason, file_identity, make_data_folder,
        make_folder, modified_time, open_regular, open_with_status, raise_unwritable, read_at, read_pieces,
        read_private, read_start, read_whole, sparse_reason, unread_reason,
    )
    from unspool.files.settings_files import SettingsFile, list_settings_files

__all__ = [
    "MAX_SIDE_FILE", "FileSnapshot", "LockTaken", "SettingsFile", "acquire_lock", "atomic", "create_atomically",
    "create_private_file", "data_end", "describe_too_large", "error_reason", "file_identity", "flush", "flush_folder",
    "hold_lock", "list_settings_files", "make_data_folder", "make_folder", "modified_time", "open_regular",
    "open_with_status", "raise_unwritable", "read_at", "read_git_head", "read_pieces", "read_private", "read_start",
    "read_whole", "release_lock", "sparse_reason", "temporary_file", "unread_reason", "write_atomically",
    "write_durably", "write_flushed", "write_new",
]

__getattr__ = lazy_door(__name__, {
    "atomic":
        "FileSnapshot create_atomically flush flush_folder temporary_file write_atomically write_durably "
        "write_flushed write_new",
    "git_head": "read_git_head",
    "locks": "LockTaken acquire_lock hold_lock release_lock",
    "open":
        "MAX_SIDE_FILE create_private_file data_end describe_too_large error_reason file_identity make_data_folder "
        "make_folder modified_time open_regular open_with_status raise_unwritable read_at read_pieces read_private "
        "read_start read_whole sparse_reason unread_reason",
    "settings_files": "SettingsFile list_settings_files",
})
