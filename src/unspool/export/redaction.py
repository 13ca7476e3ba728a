"""Reads what redaction on this machine needs: the user's own rules, and the key of the markers in shared files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.files import create_atomically, make_data_folder, read_whole
from unspool.redact import DEFAULT_OPTIONS, RedactionOptions, parse_options

RULES_FILE: Final = "redact.json"
"""The file of the user's own rules, in the data folder."""
KEY_FILE: Final = "share.key"
"""The key of the markers in shared files, in the data folder. It never leaves this machine."""
_MAX_RULES: Final = 1024 * 1024
_KEY_BYTES: Final = 32


def read_redaction_options(folder: Path, rules: Path | None, *, emails: bool, homes: bool) -> RedactionOptions:
    """Return the redaction rules of a file, by default that in the data folder, with what the flags add to them."""
    path = rules or folder / RULES_FILE
    # A file that was named must be there; the default one need not.
    options = parse_options(read_whole(path, _MAX_RULES), str(path)) if rules or path.exists() else DEFAULT_OPTIONS
    return replace(options, emails=options.emails or emails, homes=options.homes or homes)


def read_share_key(folder: Path) -> bytes:
    """Return the key of this machine's markers, made if there is none; one for this run if it cannot be kept.

    It stays the same, so that a preview names each replacement as the file does that is written after it.
    """
    path = folder / KEY_FILE
    try:
        if not os.path.lexists(path):
            make_data_folder(folder)
            create_atomically(path, [secrets.token_bytes(_KEY_BYTES)])
        key = read_whole(path, _KEY_BYTES)
    except (OSError, UnspoolError):
        return secrets.token_bytes(_KEY_BYTES)
    return key if len(key) == _KEY_BYTES else secrets.token_bytes(_KEY_BYTES)
