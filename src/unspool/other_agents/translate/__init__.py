"""Translates what other agents write into lines of session files. Pure: bytes in, lines out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.other_agents.translate.codex import CodexTranslator
    from unspool.other_agents.translate.gemini import GeminiTranslator
    from unspool.other_agents.translate.lines import SessionTranslator, make_digest, read_originals, torn_line
    from unspool.other_agents.translate.opencode import OpenCodeTranslator, Row, is_step_end
    from unspool.other_agents.translate.pi import PiTranslator

__all__ = [
    "CodexTranslator", "GeminiTranslator", "OpenCodeTranslator", "PiTranslator", "Row", "SessionTranslator",
    "is_step_end", "make_digest", "read_originals", "torn_line",
]

__getattr__ = lazy_door(__name__, {
    "codex": "CodexTranslator",
    "gemini": "GeminiTranslator",
    "lines": "SessionTranslator make_digest read_originals torn_line",
    "opencode": "OpenCodeTranslator Row is_step_end",
    "pi": "PiTranslator",
})
