"""Markdown from a transcript: text in, safe HTML out.

Rules
  1. HTML in it is text. A picture is never fetched: it is named, with its address as text.
  2. A link leads to `http`, `https` or `mailto`, opens a page of its own and tells it nothing of this one.
  3. What comes out passes a second wall (nh3), which knows nothing of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from unspool.display.safe import clean
from unspool.page.html.highlight import lines_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_SCHEMES = frozenset({"http", "https", "mailto"})
_TAGS = frozenset(
    {"p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol",
     "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span"}
)  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "span": {"class"}, "code": {"class"}, "pre": {"class"}, "ol": {"start"}}
_NESTING = 40
_BRACKETS = 4_000
"""With more of them a text takes seconds to read, and nobody wrote it to be read."""


def marked(text: str) -> Markup:
    """Return Markdown as HTML."""
    import nh3

    if text.count("[") + text.count("*") > _BRACKETS:
        return Markup('<pre class="plain">{}</pre>').format(clean(text))
    made: str = _reader().render(clean(text))
    safe = nh3.clean(
        made,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
        strip_comments=True,
    )
    return Markup(safe)  # nh3 has seen it


@cache
def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("js-default", {"html": False, "linkify": False, "maxNesting": _NESTING})
    reader.validateLink = is_safe  # type: ignore[method-assign]
    reader.add_render_rule("image", _image)
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("code_block", _fence)
    return reader


def is_safe(url: str) -> bool:
    """Tell whether a link may be followed."""
    scheme, colon, rest = url.strip().partition(":")
    return bool(colon and rest) and scheme.lower() in _SCHEMES


def _image(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    token = tokens[place]
    name, address = token.content, str(token.attrs.get("src", ""))
    return str(Markup('<span class="picture">[image{}{}]</span>').format(f": {name}" if name else "", f" {address}"))


def _fence(_: Any, tokens: Sequence[Token], place: int, *__: Any) -> str:
    token = tokens[place]
    language = token.info.split()[0] if token.info.split() else ""
    lines = lines_of(token.content, language=language) if language else [escape(token.content.removesuffix("\n"))]
    return str(Markup("<pre><code>{}</code></pre>").format(Markup("\n").join(lines)))
