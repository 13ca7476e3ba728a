"""What a secret looks like. Patterns for google-re2, which takes linear time whatever the text.

Rules
  1. A pattern is anchored by letters that mean something (`ghp_`, `-----BEGIN`, `password=`). Nothing is a secret only
     because it looks random: hashes, ids, pictures and signatures of thinking look so too.
  2. Patterns are for decoded strings. `SUSPECT` is for raw JSON: where it finds nothing, there is nothing to decode.
     It finds every beginning that a pattern can have, also behind an escape.
  3. A change here is another rule set: `version` says which.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final

from unspool.redact.tokens import TOKENS

_KEY = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_ROW_END = r"[^A-Za-z0-9+/=]{1,24}(?:[0-9]{1,6}[^A-Za-z0-9+/=]{1,8})?"
KEY_BEGIN: Final = "-----BEGIN " + _KEY
KEY_END: Final = "-----END " + _KEY
KEY_ROW: Final = r"""[A-Za-z0-9+/=]{24,}|^[ \t]*(?:[\n\r]|\\+[nr])[^"']"""
"""What tells a key from words about one: a long row, or that the line ends right after the mark."""
KEY_CUT: Final = (
    KEY_BEGIN
    + rf"(?:{_ROW_END})?(?:(?:Proc-Type|DEK-Info|Comment|Version)[^\n]{{0,80}}\n\s*)*"
    + rf"(?:[A-Za-z0-9+/=]{{16,}}(?:{_ROW_END})?)+[A-Za-z0-9+/=]{{0,64}}"
)
"""A private key whose end is missing: its rows, with what an editor or a diff puts before them."""
KEY_REST: Final = rf"(?:[A-Za-z0-9+/=]{{16,}}{_ROW_END})+(?:[A-Za-z0-9+/=]{{1,64}}{_ROW_END})?{KEY_END}"
"""One whose beginning is missing."""

NAME: Final = (
    r"(?i:pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass|secret|token|api[ _-]?key|(?:access|secret|auth|account|master|"
    r"encryption|signing|private|license|service)[ _-]?key|credentials?)"
    r"(?i:[_-]?(?:key|base|value|prod|dev|staging|live|old|new|[0-9]{1,2}))*"
)
"""What a secret is called, at the end of a longer name."""

STRONG: Final = r"(?i:pass(?:word|wd|phrase|code|wort)|pwd|[_-]pass\b|secret)"
"""Names of what is always a secret: any word may be a password."""

_COLOUR = r"(?:(?:\x1b|\\+u001[bB]|\\+x1b|\\+e|\\+033)\[[0-9;]*m)*"
_SEPARATOR = rf"""["'`\\\]]*{_COLOUR}[ \t]*(?:=>|:=|===?|=|:)[ \t]*{_COLOUR}"""
_BARE = r"""[^\s"'\\`,;&<>(){}\[\]|$\x1b]"""
ASSIGNMENT: Final = (
    rf"(?P<name>{NAME})(?P<separator>{_SEPARATOR})"
    rf"""(?:\\*"{_COLOUR}(?:(?P<phrase>[^"\\\n]{{4,64}})\\*"|(?P<double>[^"\\\s]{{4,}}))"""
    rf"""|\\*'{_COLOUR}(?:(?P<words>[^'\\\n]{{4,64}})\\*'|(?P<single>[^'\\\s]{{4,}}))|(?P<bare>{_BARE}{{4,}}))"""
)
"""`password = "…"`, `DB_PASSWORD=…`, `'token': '…'`, `secret: …`, also with the quotes escaped."""

OPTION: Final = rf"""-(?P<name>{NAME})(?P<separator>[ \t]+)["']?{_COLOUR}(?P<bare>{_BARE}{{4,}})"""
"""`--password …` on a command line."""

MEMBER: Final = rf"[A-Za-z0-9_.\s-]*{NAME}"
"""The key of a JSON member whose value is a secret."""

BEARER: Final = r"(?i:\bbearer)\s+(?P<bare>[A-Za-z0-9._~+/-]{8,}={0,2})"
BASIC: Final = r"(?i:\bbasic)\s+(?P<bare>[A-Za-z0-9+/]{8,}={0,2})"
AUTH: Final = r"""(?i:\b_?auth)["'\\]*\s?[:=]\s?["'\\]*(?P<bare>[A-Za-z0-9+/]{8,}={0,2})"""
"""Docker's and npm's: name and password in base64."""
LOGIN: Final = (
    r"""(?i:\blogin\s+\S+\s+password)\s+(?P<bare>[^\s"'\\]{4,})|\bsshpass\s+-p\s*["']?(?P<other>[^\s"'\\]{4,})"""
    r"""|\s(?:-u|--user)[ =]["']?[A-Za-z0-9._@-]+:(?P<key>[^\s"'\\/]{4,})"""
)
"""`.netrc`, `sshpass -p …`, `curl -u name:…`."""
USERINFO: Final = r"[a-zA-Z]:(?:\\?/){2}[^\s/:@\"'\\<>]*:(?P<bare>[^\s/@\"'\\<>]+)@"
TOKEN_URL: Final = r"[a-zA-Z]:(?:\\?/){2}(?P<bare>[A-Za-z0-9_-]{20,})@"

EMAIL: Final = r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,24}"
HOME: Final = (
    r"(?:/(?:home|Users)/|(?i:[a-z]:(?:\\{1,4}|/)users(?:\\{1,4}|/)))(?P<bare>[A-Za-z0-9._-]+)"
    r"|(?:^|[/\"])-(?:home|Users)-(?P<key>[A-Za-z0-9]+)"
)

_HINTS: Final = (
    *(token.hint for token in TOKENS),
    "PRIVATE KEY",
    NAME + _SEPARATOR + rf"""(?:\\*["'[]|{_BARE}{{4}})""",
    "-" + NAME + r"[ \t]+[^ \t=:]",
    r"(?i:bearer|basic)(?:\s|\\[nrt])+[A-Za-z0-9+/]{8}",
    r"""(?i:auth)["'\\]*\s?[:=]\s?["'\\]*[A-Za-z0-9+/]{4}""",
    r"/\\*/[^\s/@\"<>]+@",
    r"(?i:password)(?:\s|\\[nrt])+[^\s]{4}|sshpass|(?:\s|\\[nrt])(?:-u|--user)[ =][\\\"']*[A-Za-z0-9._@-]+:[^\s]",
)
_ESCAPED = r"\\u00[2-7]"
"""A letter that need not be escaped, and is: whatever it spells is decoded first."""


@cache
def suspect(more: tuple[str, ...] = ()) -> Any:
    """Return what finds a place in raw bytes where a secret may be."""
    return compiled("|".join(f"(?:{hint})" for hint in (*_HINTS, _ESCAPED, *more)), captures=False)


@cache
def compiled(pattern: str, *, captures: bool = True) -> Any:
    """Return a pattern ready to search bytes with.

    They are UTF-8, and taken a byte at a time: every secret begins and ends beside something that is ASCII.
    """
    import re2

    options = re2.Options()
    options.max_mem = 1 << 26
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = not captures
    return re2.compile(pattern.encode(), options)


@cache
def version(more: tuple[str, ...] = ()) -> str:
    """Return what names the rule set: these rules, and those somebody added."""
    from unspool.redact import checks

    parts = [repr(part) for part in (TOKENS, _HINTS, KEY_CUT, KEY_REST, ASSIGNMENT, OPTION, MEMBER, BEARER, BASIC)]
    parts += [repr(part) for part in (AUTH, LOGIN, USERINFO, TOKEN_URL, EMAIL, HOME, checks.EDITION, more)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
