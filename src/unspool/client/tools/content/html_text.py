"""Turn the HTML of a web page into text that looks like Markdown. Pure.

Rules
  1. Any text is a page; an element that is not closed ends with the page. The time grows linearly with the length.
  2. Words are kept in order, with headings, lists, links, code and tables marked. What a reader does not see is left
     out: scripts, styles, comments, buttons of forms.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin

# Not `html.parser`: in Python 3.11 it takes 5 seconds for 20 kB of `<a `, and four times as long for twice as much. The
# possessive quantifiers (`*+`) keep this pattern from going back, so that each character is looked at once or twice.
_TOKEN = re.compile(
    r"""
    <!--.*?(?:-->|\Z)  |  <[!?][^>]*+>?                          # a comment, a declaration
    | <(?P<slash>/?)(?P<name>[a-zA-Z][^\s/>]*+)                  # a tag: a `>` in quotes does not end it
      (?P<attributes>(?:=\s*+(?:"[^"]*+"|'[^']*+')|[^>])*+)(?P<end>>?)
    | (?P<words>[^<]++|<)
    """,
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_SKIPPED_ELEMENTS = frozenset(
    {"script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "button", "select", "textarea"}
)
_BLOCK_ELEMENTS = re.compile(
    "address|article|aside|blockquote|body|br|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    "|header|hr|li|main|nav|ol|p|section|summary|table|tbody|tfoot|thead|title|tr|ul"
)
_WITH_EMPTY_LINE = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "table", "blockquote", "hr", "title"}
)
_WITH_LINE_PREFIX = frozenset({"li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6"})
_INLINE_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "kbd": "`"}


class HtmlTag(NamedTuple):
    """An opening or a closing tag."""

    name: str
    is_closing: bool
    attributes: str


def html_to_text(page: str, address: str = "") -> str:
    """Return the text of a page; links are completed with its address."""
    writer = _TextWriter(address)
    for token in tokenize(page):
        if isinstance(token, HtmlTag):
            writer.add_tag(token)
        else:
            writer.add_words(html.unescape(token))
    return writer.finish()


def tokenize(page: str) -> Iterator[str | HtmlTag]:
    """Yield the words and the tags of a page, without those inside skipped elements."""
    at = 0
    while token := _TOKEN.match(page, at):
        at = token.end()
        if words := token["words"]:
            yield words
        elif token["name"]:
            tag = HtmlTag(token["name"].lower(), bool(token["slash"]), token["attributes"] if token["end"] else "")
            if tag.name in _SKIPPED_ELEMENTS and not tag.is_closing:
                # As in a browser, `</script` ends a script wherever it stands, also in a string of it.
                closing = re.compile(rf"</{tag.name}\b[^>]*>?", re.IGNORECASE).search(page, at)
                at = closing.end() if closing else len(page)
            else:
                yield tag


class _TextWriter:
    """Collects the lines of the text."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: list[str] = []
        self._line: list[str] = []
        self._prefix = ""
        """What stands before the words of a line: what makes it a heading, or an item."""
        self._lists: list[int | None] = []
        """For each open list, the number of its last item; None if its items are not numbered."""
        self._verbatim = False
        self._link: tuple[str, int] | None = None

    def add_words(self, text: str) -> None:
        if self._verbatim:
            first, *more = text.split("\n")
            self._line.append(first)
            for line in more:
                self._lines.append("".join(self._line))
                self._line = [line]
            return
        text = _SPACE.sub(" ", text)
        if not self._line or self._line[-1].endswith(" "):
            text = text.removeprefix(" ")
        if text:
            self._line.append(text)

    def add_tag(self, tag: HtmlTag) -> None:
        if tag.name == "pre":
            self._toggle_verbatim(tag.is_closing)
        elif self._verbatim:
            return
        elif _BLOCK_ELEMENTS.fullmatch(tag.name):
            self._end_line(empty_line=tag.name in _WITH_EMPTY_LINE)
            self._start_block(tag)
        elif tag.name in {"td", "th"} and not tag.is_closing and self._line:
            self._line.append(" | ")
        elif tag.name == "a":
            self._add_link(tag)
        elif tag.name == "img" and (words := _parse_attributes(tag).get("alt", "").strip()):
            self.add_words(f"[image: {words}]")
        elif tag.name in _INLINE_MARKS:
            self._add_mark(_INLINE_MARKS[tag.name], tag.is_closing)

    def finish(self) -> str:
        self._end_line(empty_line=False)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip()

    def _start_block(self, tag: HtmlTag) -> None:
        if tag.name in {"ul", "ol"}:
            if not tag.is_closing:
                self._lists.append(0 if tag.name == "ol" else None)
            elif self._lists:
                self._lists.pop()
        elif tag.is_closing:
            self._prefix = "" if tag.name in _WITH_LINE_PREFIX else self._prefix
        elif tag.name == "li":
            self._prefix = self._item_prefix()
        elif tag.name == "hr":
            self._lines.append("---")
        elif tag.name[0] == "h" and tag.name[1:].isdecimal():
            self._prefix = "#" * int(tag.name[1:]) + " "
        elif tag.name == "blockquote":
            self._prefix = "> "

    def _item_prefix(self) -> str:
        number = self._lists[-1] if self._lists else None
        # A page can nest lists without end; the text of each item would grow with the depth.
        indent = "  " * (min(len(self._lists), 20) - 1)
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _toggle_verbatim(self, is_closing: bool) -> None:
        if is_closing != self._verbatim:
            return
        self._end_line(empty_line=not is_closing)
        self._lines.append("```")
        self._verbatim = not is_closing

    def _add_link(self, tag: HtmlTag) -> None:
        if not tag.is_closing:
            self._link = (_parse_attributes(tag).get("href", "").strip(), len(self._line))
            return
        link, self._link = self._link, None
        if link is None or not link[0] or link[0].lower().startswith(("#", "javascript:", "data:")):
            return
        words = "".join(self._line[link[1] :]).strip()
        if words:
            self._line[link[1] :] = [f"[{words}]({_join_address(self._address, link[0])})"]

    def _add_mark(self, mark: str, is_closing: bool) -> None:
        if is_closing and self._line and self._line[-1] == mark:  # nothing was in it
            self._line.pop()
        elif is_closing or not self._line or not self._line[-1].endswith(mark):
            self._line.append(mark)

    def _end_line(self, *, empty_line: bool) -> None:
        line = "".join(self._line).rstrip()
        if self._verbatim or line.strip("*` |"):
            self._lines.append(self._prefix + line)
            self._prefix = ""
        if empty_line and self._lines and self._lines[-1]:
            self._lines.append("")
        self._line = []
        self._link = None


def _parse_attributes(tag: HtmlTag) -> dict[str, str]:
    matches = _ATTRIBUTE.findall(tag.attributes)
    return {name.lower(): html.unescape(double or single or bare) for name, double, single, bare in matches}


def _join_address(address: str, link: str) -> str:
    try:
        return urljoin(address, link)
    except ValueError:
        return link
