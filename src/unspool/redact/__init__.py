"""Finds secrets in text and puts markers in their place. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.redact.lines import Redacted, decode_line, is_json, redact_line, redact_suspect_lines
    from unspool.redact.options import DEFAULT_OPTIONS, RedactionOptions, parse_options
    from unspool.redact.redactor import Counts, Redactor
    from unspool.redact.removal import MARKER, SecretRecorder, TextRemoval, blank_line, secret_texts

__all__ = [
    "DEFAULT_OPTIONS", "MARKER", "Counts", "Redacted", "RedactionOptions", "Redactor", "SecretRecorder", "TextRemoval",
    "blank_line", "decode_line", "is_json", "parse_options", "redact_line", "redact_suspect_lines", "secret_texts",
]

__getattr__ = lazy_door(__name__, {
    "lines": "Redacted decode_line is_json redact_line redact_suspect_lines",
    "options": "DEFAULT_OPTIONS RedactionOptions parse_options",
    "redactor": "Counts Redactor",
    "removal": "MARKER SecretRecorder TextRemoval blank_line secret_texts",
})
