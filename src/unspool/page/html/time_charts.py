"""Draws time as SVG: the strip of a session, and the bar of one span in the row of a table.

What a shape stands for is in its `title`, and in the name of its link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from markupsafe import Markup

from unspool.display import duration
from unspool.page.analysis import StripPart

_HEIGHT = 36
_MIN_WIDTH = 1.2
"""Of a turn, in parts of a thousand: less could not be seen."""


def render_strip(parts: Sequence[StripPart], href: Callable[[int], str], chosen: int | None) -> Markup:
    """Return the turns of a session along a line; `href` makes the address of a turn."""
    shapes = [
        Markup(
            '<svg class="strip" viewBox="0 0 1000 {}" preserveAspectRatio="none" role="group" aria-label="{}">'
        ).format(_HEIGHT, "turns of the session, from left to right")
    ]
    # One tab stop, the chosen turn or the first: a script moves the focus with the arrow keys.
    turns = [part for part in parts if part.kind == "turn"]
    stop = next(
        (part for part in turns if chosen is not None and part.first <= chosen <= part.last), next(iter(turns), None)
    )
    for part in parts:
        words = describe_part(part)
        if part.kind == "wait":
            name = "wait cut" if part.is_cut else "wait"
            shapes.append(
                Markup('<rect class="{}" x="{}" y="14" width="{}" height="8"><title>{}</title></rect>').format(
                    name, part.left, part.width, words
                )
            )
            continue
        is_chosen = chosen is not None and part.first <= chosen <= part.last
        shapes.append(
            Markup(
                '<a class="turn{}" href="{}" aria-label="{}" tabindex="{}"><rect x="{}" y="4" width="{}" height="28"/>'
                "<title>{}</title></a>"
            ).format(
                " chosen" if is_chosen else "",
                href(part.first),
                words,
                0 if part is stop else -1,
                part.left,
                max(part.width, _MIN_WIDTH),
                words,
            )
        )
    return Markup("").join([*shapes, Markup("</svg>")])


def describe_part(part: StripPart) -> str:
    """Return a part of the strip in words."""
    took = format_milliseconds(part.milliseconds)
    if part.kind == "wait":
        return f"{took} until the prompt of turn {part.first}"
    turns = f"turn {part.first}" if part.first == part.last else f"turns {part.first} to {part.last}"
    return f"{turns}: {took}"


def render_span_bar(kind: str, start: int, length: int, whole: int) -> Markup:
    """Return the bar of a span: where it begins and how long it is, of a whole, all in milliseconds."""
    left = start * 1000 / max(whole, 1)
    # A bar of less than three units could not be seen.
    width = max(length * 1000 / max(whole, 1), 3.0)
    left = min(left, 1000 - width)
    return Markup(
        '<svg class="span" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" x="{:.1f}" y="1" width="{:.1f}" height="8"/></svg>'
    ).format(kind, left, width)


def render_shares(sums: Sequence[tuple[str, int]], whole: int) -> Markup:
    """Return one bar that is divided by what the time of a turn went into."""
    shapes, left = [], 0.0
    for kind, amount in sums:
        width = amount * 1000 / max(whole, 1)
        if width:
            shapes.append(
                Markup('<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="10"><title>{}</title></rect>').format(
                    kind, left, width, f"{kind}: {format_milliseconds(amount)}"
                )
            )
        left += width
    return Markup(
        '<svg class="shares" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    ).format(Markup("").join(shapes))


def format_milliseconds(count: int) -> str:
    """Return a length of time in words."""
    # Times come from the file: one too far away would overflow.
    return duration(timedelta(milliseconds=max(0, min(count, 10**12))))
