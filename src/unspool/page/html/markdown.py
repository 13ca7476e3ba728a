"""Renders Markdown from a transcript as safe HTML.

Rules
  1. HTML in it is text. An image is never fetched: it is named, with its address as text.
  2. A link leads to `http`, `https` or `mailto`, opens a page of its own and tells it nothing of this one.
  3. The result passes a second sanitizer (nh3) that does not depend on the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from unspool.display import clean
from unspool.page.html.highlight import highlight_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SCHEMES = frozenset({"http", "https", "mailto"})
_TAGS = frozenset(
    {"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol",
     "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span"}
)  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "span": {"class"}, "code": {"class"}, "pre": {"class"}, "ol": {"start"}}
# Headings of an answer are all of the level below that of its turn: whoever wrote it may begin with any. What may be
# wider than the page can be reached by keys, which then scroll it.
_SET_ATTRIBUTES = {
    "a": {"target": "_blank"},
    "pre": {"tabindex": "0"},
    "table": {"tabindex": "0"},
    **{f"h{level}": {"aria-level": "3"} for level in range(1, 7)},
}
_MAX_NESTING = 40
_MAX_BRACKETS = 4_000
"""With more of them a text takes seconds to parse, and nobody wrote it to be read."""
_MAX_CHARACTERS = 131_072
"""A longer text is shown as it is: to parse a megabyte takes up to five seconds."""


def render_markdown(text: str) -> Markup:
    """Return Markdown as HTML."""
    import nh3

    if len(text) > _MAX_CHARACTERS or text.count("[") + text.count("*") > _MAX_BRACKETS:
        return Markup('<pre class="plain" tabindex="0">{}</pre>').format(clean(text))
    safe = nh3.clean(
        _parser().render(clean(text)),
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer",
        set_tag_attribute_values=_SET_ATTRIBUTES,
        strip_comments=True,
    )
    return Markup(safe)  # nh3 has sanitized it


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("js-default", {"html": False, "linkify": False, "maxNesting": _MAX_NESTING})
    # The default lets any scheme pass that it does not know to be harmful.
    parser.validateLink = is_safe_link  # type: ignore[method-assign]
    parser.add_render_rule("image", _image)
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    return parser


def is_safe_link(url: str) -> bool:
    """Tell whether a link has a scheme that may be followed."""
    scheme, colon, rest = url.strip().partition(":")
    return bool(colon and rest) and scheme.lower() in _SCHEMES


def _image(_: Any, tokens: Sequence[Token], number: int, *__: Any) -> str:
    token = tokens[number]
    name, address = token.content, str(token.attrs.get("src", ""))
    return str(Markup('<span class="picture">[image{}{}]</span>').format(f": {name}" if name else "", f" {address}"))


def _fence(_: Any, tokens: Sequence[Token], number: int, *__: Any) -> str:
    token = tokens[number]
    language = token.info.split()[0] if token.info.split() else ""
    lines = (
        highlight_lines(token.content, language=language) if language else [escape(token.content.removesuffix("\n"))]
    )
    return str(Markup("<pre><code>{}</code></pre>").format(Markup("\n").join(lines)))
