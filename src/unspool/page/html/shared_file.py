"""Renders the copy of a session that is shared, in the format that was chosen: for `unspool share` and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unspool.display import clean
from unspool.export import SharedCopy, read_jsonl, render_markdown
from unspool.prices import Price


def render_shared(copy: SharedCopy, form: str, prices: Sequence[Price] = ()) -> Iterator[bytes]:
    """Yield the bytes of a file: `jsonl`, `md` or `html`."""
    match form:
        case "jsonl":
            yield from read_jsonl(copy)
        case "md":
            yield clean(render_markdown(copy.session)).encode()
        case _:
            from unspool.page.html.standalone import render_standalone  # the others need no templates

            for piece in render_standalone(copy.session, prices=prices):
                yield piece.encode()
