"""Opens files safely, and writes them whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.files import atomic
    from unspool.files.atomic import FileSnapshot, flush_folder, write_new
    from unspool.files.open import MAX_SIDE_FILE, error_reason, open_regular, open_with_status, read_pieces, read_whole

__all__ = [
    "MAX_SIDE_FILE", "FileSnapshot", "atomic", "error_reason", "flush_folder", "open_regular", "open_with_status",
    "read_pieces", "read_whole", "write_new",
]

__getattr__ = lazy_door(__name__, {
    "atomic": "FileSnapshot flush_folder write_new",
    "open": "MAX_SIDE_FILE error_reason open_regular open_with_status read_pieces read_whole",
})
