"""Options of redaction: what is redacted beside secrets, and the user's own rules, from a JSON file.

    {"emails": true, "homes": true,
     "rules": [{"kind": "acme-token", "pattern": "acme_[a-z0-9]{32}", "literal": "acme_"}]}

Rules
  1. A rule that could match the empty text, or a marker, is refused: redacting twice must change nothing.
  2. `literal` is a plain text that every match holds. Lines without it are not searched; a rule that has none
     makes every line be decoded, which is slow and right.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from unspool.errors import Unreadable, UsageError
from unspool.redact.rules import compile_pattern

_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_LITERAL = re.compile(r"[A-Za-z0-9_.:-]{2,100}")
_EXAMPLE_MARKERS = ("[redacted:some-kind:0123456789]", "[redacted:a:abcdef0123]")


class RedactionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the user: one more kind of secret."""

    kind: str
    pattern: str
    literal: str = ""


class RedactionOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is redacted beside secrets."""

    emails: bool = False
    homes: bool = False
    """Whether the user's name is redacted in paths of home folders."""
    rules: tuple[RedactionRule, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Everything that distinguishes these rules from the default ones: part of their version."""
        flags = [name for name, is_set in (("emails", self.emails), ("homes", self.homes)) if is_set]
        return (*flags, *(f"{rule.kind}={rule.pattern}" for rule in self.rules))

    @property
    def hints(self) -> tuple[str, ...]:
        """Patterns of raw text where a secret of the user's own rules may be."""
        return tuple(re.escape(rule.literal) for rule in self.rules if rule.literal)

    @property
    def looks_everywhere(self) -> bool:
        """Whether every line must be decoded."""
        return any(not rule.literal for rule in self.rules)


DEFAULT_OPTIONS = RedactionOptions()


def parse_options(data: bytes, name: str) -> RedactionOptions:
    """Parse a file of options. Anything wrong in it is an error: nobody would notice a missing rule."""
    try:
        options = msgspec.json.decode(data, type=RedactionOptions)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(
            f"invalid redaction rules: `{name}`: {error}", hint="see the example in docs/collect.md"
        ) from None
    for rule in options.rules:
        _check(rule, name)
    return options


def _check(rule: RedactionRule, name: str) -> None:
    if not _KIND.fullmatch(rule.kind):
        raise UsageError(
            f"invalid kind of secret in `{name}`: `{rule.kind}`", hint="use lower-case letters, digits and `-`"
        )
    if rule.literal and not _LITERAL.fullmatch(rule.literal):
        raise UsageError(
            f"invalid literal in `{name}`: `{rule.literal}`", hint="use letters, digits, `_`, `-`, `.`, `:`"
        )
    pattern = _compiled(rule, name)
    if pattern.search(b"") or any(pattern.search(mark.encode()) for mark in _EXAMPLE_MARKERS):
        message = f"the rule `{rule.kind}` in `{name}` matches empty text or a redaction marker"
        raise UsageError(message, hint="start the pattern with characters that only this kind of secret has")


def _compiled(rule: RedactionRule, name: str) -> Any:
    import re2

    try:
        return compile_pattern(rule.pattern)
    except re2.error as error:
        words = f"the rule `{rule.kind}` in `{name}` is not a valid re2 pattern: {error}"
        raise UsageError(words, hint="re2 has no look-around and no back-references") from None
