"""A page of the web as text: HTML in, something like Markdown out. Pure.

Rules
  1. Any text is a page; what does not end, ends with it. The time it takes grows with its length alone.
  2. Words are kept in order, with headings, lists, links, code and tables marked. What nobody reads is left out:
     scripts, styles, comments, forms' buttons.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin

_NAME = re.compile(r"[a-zA-Z][^\s/>]*")
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_EDGE = re.compile(r"""=\s*["']|>""")
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_UNREAD = frozenset(
    {"script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "button", "select", "textarea"}
)
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    "|header|hr|li|main|nav|ol|p|section|summary|table|tbody|tfoot|thead|title|tr|ul"
)
_APART = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "table", "blockquote", "hr", "title"})
_STARTS = frozenset({"li", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6"})
_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`", "kbd": "`"}


class Tag(NamedTuple):
    """A tag: its name, whether it closes, what is in it."""

    name: str
    closes: bool
    inside: str


def text_of(page: str, address: str = "") -> str:
    """Return the text of a page; links are completed with its address."""
    writing = _Writing(address)
    for piece in pieces(page):
        if isinstance(piece, Tag):
            writing.tag(piece)
        else:
            writing.words(html.unescape(piece))
    return writing.text()


def pieces(page: str) -> Iterator[str | Tag]:
    """Yield the words and the tags of a page; what is inside unread elements is left out."""
    at = 0
    while at < len(page):
        start = page.find("<", at)
        if start < 0:
            yield page[at:]
            return
        if start > at:
            yield page[at:start]
        if page.startswith("<!--", start):
            at = _after(page, "-->", start + 4)
        elif page.startswith(("<!", "<?"), start):
            at = _after(page, ">", start)
        elif name := _NAME.match(page, start + (2 if page.startswith("</", start) else 1)):
            tag, at = _tag(page, start, name)
            if tag.name in _UNREAD and not tag.closes:
                at = _closing(page, tag.name, at)
            else:
                yield tag
        else:
            yield "<"
            at = start + 1


def _tag(page: str, start: int, name: re.Match[str]) -> tuple[Tag, int]:
    """Return a tag and where it ends. A `>` in quotes is none."""
    closes = page[start + 1] == "/"
    at = name.end()
    while edge := _EDGE.search(page, at):
        if edge[0] == ">":
            return Tag(name[0].lower(), closes, page[name.end() : edge.start()]), edge.end()
        other = page.find(edge[0][-1], edge.end())
        at = edge.end() if other < 0 else other + 1
    return Tag(name[0].lower(), closes, ""), len(page)


def _after(page: str, mark: str, at: int) -> int:
    end = page.find(mark, at)
    return len(page) if end < 0 else end + len(mark)


def _closing(page: str, name: str, at: int) -> int:
    """Return where an unread element ends."""
    closing = re.compile(rf"</{name}\b", re.IGNORECASE).search(page, at)
    return _after(page, ">", closing.end()) if closing else len(page)


class _Writing:
    """A text while it is written."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lines: list[str] = []
        self._line: list[str] = []
        self._start = ""
        """What stands before the words of a line: what makes it a heading, or an item."""
        self._lists: list[int | None] = []
        """For each list we are in, the number of its last item; None if its items have none."""
        self._verbatim = False
        self._link: tuple[str, int] | None = None

    def words(self, text: str) -> None:
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

    def tag(self, tag: Tag) -> None:
        if tag.name == "pre":
            self._fence(tag.closes)
        elif self._verbatim:
            return
        elif _BLOCKS.fullmatch(tag.name):
            self._end_line(apart=tag.name in _APART)
            self._block(tag)
        elif tag.name in {"td", "th"} and not tag.closes and self._line:
            self._line.append(" | ")
        elif tag.name == "a":
            self._anchor(tag)
        elif tag.name == "img" and (words := _attributes(tag).get("alt", "").strip()):
            self.words(f"[image: {words}]")
        elif tag.name in _MARKS:
            self._mark(_MARKS[tag.name], tag.closes)

    def text(self) -> str:
        self._end_line(apart=False)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._lines)).strip()

    def _block(self, tag: Tag) -> None:
        if tag.name in {"ul", "ol"}:
            if not tag.closes:
                self._lists.append(0 if tag.name == "ol" else None)
            elif self._lists:
                self._lists.pop()
        elif tag.closes:
            self._start = "" if tag.name in _STARTS else self._start
        elif tag.name == "li":
            self._start = self._item()
        elif tag.name == "hr":
            self._lines.append("---")
        elif tag.name[0] == "h" and tag.name[1:].isdecimal():
            self._start = "#" * int(tag.name[1:]) + " "
        elif tag.name == "blockquote":
            self._start = "> "

    def _item(self) -> str:
        number = self._lists[-1] if self._lists else None
        indent = "  " * (min(len(self._lists), 20) - 1)
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _fence(self, closes: bool) -> None:
        if closes != self._verbatim:
            return
        self._end_line(apart=not closes)
        self._lines.append("```")
        self._verbatim = not closes

    def _anchor(self, tag: Tag) -> None:
        if not tag.closes:
            self._link = (_attributes(tag).get("href", "").strip(), len(self._line))
            return
        link, self._link = self._link, None
        if link is None or not link[0] or link[0].lower().startswith(("#", "javascript:", "data:")):
            return
        words = "".join(self._line[link[1] :]).strip()
        if words:
            self._line[link[1] :] = [f"[{words}]({_joined(self._address, link[0])})"]

    def _mark(self, mark: str, closes: bool) -> None:
        if closes and self._line and self._line[-1] == mark:
            self._line.pop()
        elif closes or not self._line or not self._line[-1].endswith(mark):
            self._line.append(mark)

    def _end_line(self, *, apart: bool) -> None:
        line = "".join(self._line).rstrip()
        if self._verbatim or line.strip("*` |"):
            self._lines.append(self._start + line)
            self._start = ""
        if apart and self._lines and self._lines[-1]:
            self._lines.append("")
        self._line = []
        self._link = None


def _attributes(tag: Tag) -> dict[str, str]:
    found = _ATTRIBUTE.findall(tag.inside)
    return {name.lower(): html.unescape(double or single or bare) for name, double, single, bare in found}


def _joined(address: str, link: str) -> str:
    try:
        return urljoin(address, link)
    except ValueError:
        return link
