"""The files that a text names with `@`: a text in, the names out. Pure.

Rules
  1. Only what begins a word counts, so an address of mail is none, and what stands in code is none either.
  2. Marks that end a sentence do not belong to a name. A space inside one is written `\\\\ `.
"""

from __future__ import annotations

import re

_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_MENTION = re.compile(r"(?:^|(?<=[\s(\"']))@((?:\\ |[^\s\\`\"'()<>|])+)")


def mentioned(text: str) -> list[str]:
    """Return the names in the order they come, each once.

    >>> mentioned("See @docs/a.md, not me@home.org or `@code`.")
    ['docs/a.md']
    """
    plain = _SPAN.sub(" ", _FENCED.sub("", text))
    names = (match[1].replace("\\ ", " ").rstrip(".,;:!?") for match in _MENTION.finditer(plain))
    return list(dict.fromkeys(name for name in names if name))
