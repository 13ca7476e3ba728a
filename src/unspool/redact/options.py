"""What is redacted beside secrets, and by which rules of one's own: a JSON file in, `Options` out.

    {"emails": true, "homes": true,
     "rules": [{"kind": "acme-token", "pattern": "acme_[a-z0-9]{32}", "literal": "acme_"}]}

Rules
  1. A rule that could match nothing at all, or a marker, is refused: redacting twice must change nothing.
  2. `literal` is a plain text that every match holds. Lines without it are not looked at; a rule that has none makes
     every line be decoded, which is slow and right.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from unspool.errors import Unreadable, Usage
from unspool.redact.rules import compiled

_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LITERAL = re.compile(r"[A-Za-z0-9_.:-]{2,100}")
_MARKS = ("[redacted:some-kind:0123456789]", "[redacted:a:abcdef0123]")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One more thing that is a secret."""

    kind: str
    pattern: str
    literal: str = ""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is redacted."""

    emails: bool = False
    homes: bool = False
    """Whether the user's name goes from paths of home folders."""
    rules: tuple[Rule, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All that makes these rules other rules."""
        flags = [name for name, is_set in (("emails", self.emails), ("homes", self.homes)) if is_set]
        return (*flags, *(f"{rule.kind}={rule.pattern}" for rule in self.rules))

    @property
    def hints(self) -> tuple[str, ...]:
        """What raw text has where one of these may be."""
        literals = [re.escape(rule.literal) for rule in self.rules if rule.literal]
        emails = ["[A-Za-z0-9._%+-]@[A-Za-z0-9-]"] if self.emails else []
        homes = [r"(?i:home|users)(?:\\*/|\\+|-)"] if self.homes else []
        return (*literals, *emails, *homes)

    @property
    def looks_everywhere(self) -> bool:
        """Whether every line must be decoded."""
        return any(not rule.literal for rule in self.rules)


PLAIN = Options()


def parse(data: bytes, name: str) -> Options:
    """Return what a file asks for. Anything wrong in it is an error: nobody would notice a rule that is not there."""
    try:
        options = msgspec.json.decode(data, type=Options)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"not rules for redaction: `{name}`: {error}", hint="docs/collect.md shows the file") from None
    for rule in options.rules:
        _check(rule, name)
    return options


def _check(rule: Rule, name: str) -> None:
    if not _KIND.fullmatch(rule.kind):
        raise Usage(f"not a kind of secret in `{name}`: `{rule.kind}`", hint="small letters, digits and `-`")
    if rule.literal and not _LITERAL.fullmatch(rule.literal):
        raise Usage(f"not a plain literal in `{name}`: `{rule.literal}`", hint="letters, digits, `_`, `-`, `.`, `:`")
    pattern = _compiled(rule, name)
    if pattern.search(b"") or any(pattern.search(mark.encode()) for mark in _MARKS):
        message = f"the rule `{rule.kind}` in `{name}` finds nothing at all, or a marker"
        raise Usage(message, hint="anchor it by letters that only such a secret has")


def _compiled(rule: Rule, name: str) -> Any:
    import re2

    try:
        return compiled(rule.pattern)
    except re2.error as error:
        words = f"the rule `{rule.kind}` in `{name}` is no pattern that re2 knows: {error}"
        raise Usage(words, hint="no look-around and no references back") from None
