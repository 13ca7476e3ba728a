"""Makes links of web addresses, and of the files that a search found, in text that is already escaped.

Rules
  1. Only `http` and `https` become links; they open a page of their own and tell it nothing of this one.
  2. Each expression looks at a character a bounded number of times: what it sees is a transcript.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from markupsafe import Markup, escape

from unspool.display import clean
from unspool.page.html.ansi import render_ansi

# No `<`, `"` or space: in escaped text an address ends before a tag, and never inside one.
_ADDRESS = re.compile(r"(?<![\w/])https?://[^\s<>\"'`]{1,2000}")
_CLOSING = ".,:!?)]}*"
_HIT = re.compile(r"([^\s:][^:\n]{0,400}):(\d{1,9})([:-])")
_MAX_HITS = 2_000
"""Lines of a result that become links."""


def link_addresses(text: str) -> Markup:
    """Return terminal output with links for web addresses.

    >>> str(link_addresses("see http://x.test/a."))
    'see <a href="http://x.test/a" target="_blank" rel="noopener noreferrer">http://x.test/a</a>.'
    """
    html = str(render_ansi(text))
    if "://" not in html:
        return Markup(html)
    return Markup(_ADDRESS.sub(_anchor, html))  # what is matched is escaped and has no quote


def _anchor(match: re.Match[str]) -> str:
    address = match[0]
    # Escaped quotes and brackets are no part of an address.
    for end in ("&#34;", "&#39;", "&lt;", "&gt;"):
        address = address.partition(end)[0]
    address = address.rstrip(_CLOSING)
    rest = match[0][len(address) :]
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer">{address}</a>{rest}'


def link_hits(text: str, find: Callable[[str], str]) -> Markup:
    """Return the result of a search with a link at each file; `find` makes the address that looks for a file."""
    lines = text.split("\n")
    shape = Markup('<a class="hit" href="{}" data-find="{}">{}</a>{}{}')
    shown = []
    for number, line in enumerate(lines):
        match = _HIT.match(line) if number < _MAX_HITS else None
        if match is None:
            shown.append(escape(clean(line)))
            continue
        path, place = clean(match[1]), match[2]
        shown.append(shape.format(find(path), path, f"{path}:{place}", match[3], clean(line[match.end() :])))
    return Markup("\n").join(shown)
