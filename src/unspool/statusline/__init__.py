"""The status line: one line about a session for Claude Code's `statusLine` setting, in a process that starts fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.statusline import claude_settings
    from unspool.statusline.background_sync import start_sync
    from unspool.statusline.line import print_status_line
    from unspool.statusline.store_figures import KnownHome, StoreFigures
    from unspool.statusline.template import DEFAULT_TEMPLATE, FIELDS, check_template

__all__ = [
    "DEFAULT_TEMPLATE", "FIELDS", "KnownHome", "StoreFigures", "check_template", "claude_settings", "print_status_line",
    "start_sync",
]

__getattr__ = lazy_door(__name__, {
    "background_sync": "start_sync",
    "line": "print_status_line",
    "store_figures": "KnownHome StoreFigures",
    "template": "DEFAULT_TEMPLATE FIELDS check_template",
})
