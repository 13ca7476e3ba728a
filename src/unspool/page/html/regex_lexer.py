"""Runs lexers of Pygments several times as fast, with the same tokens: one expression for many rules of a state.

A state of a lexer is a list of rules, of which the first that matches is taken. Pygments tries them one after the other
from Python, some 35 expressions for each token. Here the rules that can match at a character are alternatives of one
expression, and the number of the group that matched says which rule it was.

Rules
  1. A rule that cannot be an alternative is tried alone, in its place: one with back-references, whose groups would
     have other numbers, or with named groups, which must be unique.
  2. A rule that does more than name a token gets the match of its own expression: its groups have their own numbers.
  3. A rule is left out at a character only if it is certain that it cannot match there.
  4. A lexer with a loop of its own is left as it is.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from re import _parser  # type: ignore[attr-defined]
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pygments.lexer import RegexLexer, RegexLexerMeta
from pygments.token import Error, Whitespace, _TokenType
from pygments.util import Future

_Match: TypeAlias = "Callable[[str, int], re.Match[str] | None]"
_Effect: TypeAlias = "tuple[Any, Any, _LazyExpression | None]"
"""What a rule does: its type of token or its action, the state that follows, and for an action its own expression."""
_Step: TypeAlias = "tuple[_Match, dict[int | None, _Effect] | None, _Effect]"
"""An expression to try, and what its rules do by the number of the group that matched; or what its one rule does."""

_LETTERS, _DIGITS = frozenset(string.ascii_letters + "_"), frozenset(string.digits)
_ASCII = frozenset(map(chr, range(128)))
_ASCII_OR_END = _ASCII | {""}
_made: dict[type[Any], type[Any]] = {}
"""The faster classes by those they were made from: their expressions are compiled once."""
_MAX_PART = 150
"""Characters of an expression that is compiled with others: a class of all letters of Unicode takes 7 ms each time."""
_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGITS,
    "CATEGORY_WORD": _LETTERS | _DIGITS,
    "CATEGORY_SPACE": frozenset(" \t\n\r\f\v\x1c\x1d\x1e\x1f"),
}
_SCOPED = re.compile(r"\(\?([ims]+)\)")
_NUMBERED = re.compile(r"\\[1-9]|\(\?\(|\(\?P|\(\?[aLux]")
"""Back-references, conditions, names, and flags that cannot be given to a part of an expression."""


def faster_lexer(lexer: type[Any]) -> type[Any]:
    """Return a class of lexers that find the same tokens as another one; that one itself if it has its own loop."""
    own_loop = getattr(lexer, "get_tokens_unprocessed", None) is not RegexLexer.get_tokens_unprocessed
    # Variants: each lexer has its own rules, as C# by its level of Unicode.
    if own_loop or getattr(lexer, "token_variants", False):
        return lexer
    if lexer not in _made:
        _made[lexer] = _LazyMeta(lexer.__name__, (_CombinedLexer, lexer), {"steps": {}})
    return _made[lexer]


class _LazyExpression:
    """The `match` of an expression that is compiled when it is first used: most rules only ever match with others."""

    def __init__(self, text: str, flags: int) -> None:
        self.text, self.flags = text, flags
        self._match: _Match | None = None

    def compiled(self) -> _Match:
        """Return the `match` itself."""
        if self._match is None:
            self._match = re.compile(self.text, self.flags).match
        return self._match

    def __call__(self, text: str, position: int) -> re.Match[str] | None:
        return self.compiled()(text, position)


class _Rule(NamedTuple):
    """A rule of a state: its expression, what it does with a match, and the state that follows."""

    match_alone: _LazyExpression
    action: Any
    following: Any
    part: str | None
    """The expression as part of a larger one; nothing if it must be tried alone (rule 1)."""
    flags: int
    groups: int
    begins_with: frozenset[str] | None
    """The ASCII characters that a match can begin with; nothing if they are not known, or if it can be empty."""

    @property
    def effect(self) -> _Effect:
        is_plain = self.action is None or type(self.action) is _TokenType
        return self.action, self.following, None if is_plain else self.match_alone


class _LazyMeta(RegexLexerMeta):  # type: ignore[misc]
    def _process_regex(cls, regex: Any, rflags: int, state: str) -> _LazyExpression:  # noqa: N805
        """Return what matches a rule; Pygments would compile all rules of all states here."""
        return _LazyExpression(regex.get() if isinstance(regex, Future) else regex, rflags)


class _CombinedLexer(RegexLexer, metaclass=_LazyMeta):  # type: ignore[misc]
    """Finds the tokens of the lexer that it is mixed into."""

    steps: ClassVar[dict[str, dict[str, list[_Step]]]]
    """What is tried in each state at each character; made when it is first needed."""

    def get_tokens_unprocessed(self, text: str, stack: Sequence[str] = ("root",)) -> Iterator[tuple[int, Any, str]]:
        """Yield position, type and text of the tokens, as `RegexLexer` does."""
        position, end, states = 0, len(text), list(stack)
        by_character = self.steps.setdefault(states[-1], {})
        while True:
            character = text[position] if position < end else ""
            steps = by_character.get(character)
            if steps is None:
                steps = by_character[character] = self._combine(states[-1], character)
            for match_at, effects, effect in steps:
                found = match_at(text, position)
                if found is None:
                    continue
                action, following, match_alone = effect if effects is None else effects[found.lastindex]
                if match_alone is not None:
                    yield from action(self, match_alone(text, position))
                elif action is not None:
                    yield position, action, found[0]
                position = found.end()
                if following is not None:
                    _change_state(states, following)
                    by_character = self.steps.setdefault(states[-1], {})
                break
            else:
                if position >= end:
                    return
                if character == "\n":  # what no rule knows does not spoil the next line
                    states = ["root"]
                    by_character = self.steps.setdefault("root", {})
                    yield position, Whitespace, "\n"
                else:
                    yield position, Error, character
                position += 1

    @classmethod
    def _combine(cls, state: str, character: str) -> list[_Step]:
        """Return what is tried in a state at a character; nothing is left out at one that is not ASCII."""
        rules = _read_rules(cls, state)
        if character in _ASCII_OR_END:
            rules = [rule for rule in rules if rule.begins_with is None or character in rule.begins_with]
        steps: list[_Step] = _join_rules(tuple(rules))
        return steps


@cache
def _read_rules(lexer: type[RegexLexer], state: str) -> list[_Rule]:
    rules = []
    for match_alone, action, following in lexer._tokens[state]:
        if not isinstance(match_alone, _LazyExpression):  # `default`: matches nothing, which is an empty match
            match_alone = _LazyExpression("", lexer.flags)
        text, flags = match_alone.text, match_alone.flags
        parsed = _parser.parse(text, flags)
        groups = parsed.state.groups - 1
        characters, is_empty = _first_characters(parsed, parsed.state.flags)
        begins_with = None if is_empty else characters
        rules.append(_Rule(match_alone, action, following, _as_part(text, flags), flags, groups, begins_with))
    return rules


def _change_state(states: list[str], following: Any) -> None:
    """Go to the state that a rule names: some to enter, a number to leave, or the same once more."""
    if isinstance(following, tuple):
        for state in following:
            if state == "#pop":
                if len(states) > 1:
                    states.pop()
            else:
                states.append(states[-1] if state == "#push" else state)
    elif isinstance(following, int):
        del states[1 if abs(following) >= len(states) else following :]
    else:
        states.append(states[-1])


@cache
def _join_rules(rules: tuple[_Rule, ...]) -> list[_Step]:
    """Return rules as few expressions, in the same order. Many characters have the same rules."""
    steps: list[_Step] = []
    run: list[_Rule] = []
    for rule in rules:
        if run and (rule.part is None or rule.flags != run[0].flags):
            steps.append(_join(run))
            run = []
        if rule.part is None:
            steps.append((rule.match_alone.compiled(), None, rule.effect))
        else:
            run.append(rule)
    return [*steps, _join(run)] if run else steps


def _join(run: Sequence[_Rule]) -> _Step:
    effects: dict[int | None, _Effect] = {}
    number = 0
    for rule in run:
        number += rule.groups + 1
        effects[number] = rule.effect
    # The group that tells the rule is empty and at the end: `re` skips an alternative by its first character only if
    # nothing stands before that.
    return re.compile("|".join(f"(?:{rule.part})()" for rule in run), run[0].flags).match, effects, run[0].effect


def _as_part(text: str, flags: int) -> str | None:
    """Return an expression as part of another one; nothing if it cannot be one (rule 1)."""
    part = _SCOPED.sub(r"(?\1:", text, count=1) + ")" if _SCOPED.match(text) else text
    is_apart = flags & re.VERBOSE or _NUMBERED.search(part) or _SCOPED.search(part)
    return None if is_apart or len(part) > _MAX_PART else part


# The characters that an expression can begin with


def _first_characters(parsed: Any, flags: int) -> tuple[frozenset[str] | None, bool]:
    """Return the ASCII characters that a match can begin with, none if they are not known; and whether it can be empty.

    The parts of an expression are those of `re`, of which Python says nothing: what is not known here matches anything.
    """
    characters: frozenset[str] = frozenset()
    for operation, argument in parsed:
        name = str(operation)
        if name in ("AT", "ASSERT", "ASSERT_NOT"):
            continue  # they take no characters; without them more begins match
        found, is_empty = _first_of(name, argument, flags)
        if found is None:
            return None, is_empty
        characters |= found
        if not is_empty:
            return characters, False
    return characters, True


def _first_of(name: str, argument: Any, flags: int) -> tuple[frozenset[str] | None, bool]:
    match name:
        case "LITERAL":
            return _either_case([(argument, argument)], flags), False
        case "IN":
            return _first_in_class(argument, flags), False
        case "SUBPATTERN":
            _, added, removed, inner = argument
            return _first_characters(inner, (flags | added) & ~removed)
        case "ATOMIC_GROUP":
            return _first_characters(argument, flags)
        case "BRANCH":
            found = [_first_characters(inner, flags) for inner in argument[1]]
            known = [characters for characters, _ in found if characters is not None]
            is_empty = any(empty for _, empty in found)
            return (frozenset().union(*known) if len(known) == len(found) else None), is_empty
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, inner = argument
            characters, is_empty = _first_characters(inner, flags)
            return characters, is_empty or least == 0
        case _:
            return None, True


def _first_in_class(items: Any, flags: int) -> frozenset[str] | None:
    characters: frozenset[str] | None = frozenset()
    for operation, argument in items:
        match str(operation):
            case "LITERAL":
                found = _either_case([(argument, argument)], flags)
            case "RANGE":
                found = _either_case([argument], flags)
            case "CATEGORY":
                found = _CATEGORIES.get(str(argument))
            case _:
                found = None
        if found is None or characters is None:
            return None
        characters |= found
    return characters


def _either_case(ranges: Iterable[tuple[int, int]], flags: int) -> frozenset[str] | None:
    characters: set[str] = set()
    for low, high in ranges:
        if high > 127 and flags & re.IGNORECASE:
            return None  # the Kelvin sign is a `k`
        characters |= {chr(code) for code in range(low, min(high, 127) + 1)}
    if flags & re.IGNORECASE:
        characters |= {other for character in characters for other in (character.lower(), character.upper())}
    return frozenset(characters) & _ASCII
