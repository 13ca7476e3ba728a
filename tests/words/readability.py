"""Measures how plain a text is: length of sentences, passive voice, and phrases that plain English does not have."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST = 30
"""The most words of a sentence."""

_IRREGULAR = (
    "begun|broken|built|chosen|cut|done|drawn|driven|forgotten|found|given|gone|heard|held|hidden|kept|known|laid|"
    "left|lost|made|meant|met|overwritten|paid|put|read|rewritten|run|said|seen|sent|set|shown|spent|split|sung|taken|taught|"
    "told|thought|thrown|torn|understood|undone|won|written"
)
_ADVERBS = r"(?:(?:not|never|also|only|always|still|already|no longer|\w+ly)\s+)*"
_PASSIVE = re.compile(
    rf"\b(?:is|are|was|were|be|been|being|am)\s+{_ADVERBS}(?:[a-z-]+ed|{_IRREGULAR})\b(?!\s+(?:with|to)\s+X\b)",
    re.IGNORECASE,
)
_STATES = re.compile(r"\b(?:is|are|was|were|be)\s+(?:not\s+)?(?:installed|allowed|supported|needed|required|located)\b")
"""Adjectives that look like a passive."""

_ANYWHERE = (
    r"no such thing", r"thing to have", r"nobody is there", r"who is to\b", r"search for signs", r"whose days",
    r"as the program wants", r"\bcame of\b", r"\bcomes of\b", r"\bgo(es|ne)? on (with|from|in|sending)\b",
    r"\bgo(es)? on\b", r"\bthe program('s)?\b(?! (that|you|and its arguments))", r"\bwhere to\?",
    r"\bis no (JSON|object|list|text|command|name|folder|config|pattern|header)\b", r"\bmend(s|ed)?\b",
    r"\bin the way\b", r"\btells? (more|those)\b", r"\bsuch a\b", r"\bthat which\b", r"\bthere are those\b",
    r"\bwhat there is\b", r"\bthose there are\b", r"\bfor want of\b", r"\bif need be\b", r"\banew\b",
    r"\bcomes? to (be|lie)\b", r"\bleads? (nowhere|back|in circles|out of)\b", r"\blies (in|where|there)\b",
    r"\bhangs? on\b", r"\bspeaks? of\b", r"\bdo(es)? not go (with|together)\b", r"\bto be had\b",
    r"\bthink before\b", r"\bsays? (back|nothing)\b", r"\bbrings? (it|them) back\b", r"\ball the rest\b",
    r"\bshel(f|ves)\b", r"\blast words\b", r"\basks? nobody\b", r"\bmake room\b", r"\bended from outside\b",
    r"\bread whole\b", r"\bto try with\b", r"\btry things\b", r"\bfits \w+ (sessions|files|edits)\b",
    r"\bgive more of\b", r"\bname a file that does not\b", r"\bwritten down\b", r"\btakes? (it|them) (away|back)\b",
)  # fmt: skip
_SHORT = (
    r"\b(what|which \w+) is to be\b", r"\b(has|have) gone\b", r"\bis told\b", r"\btells? (how|what|which)\b",
    r"\bsays (so|why|how|which|what)\b", r"\bof (its|their|our) own\b", r"\bits own\b(?! \w)",
    r"\bwhat is (new|there|sent|left|wrong)\b", r"\bas (it is|they are|it was|they were)\b(?! written)",
    r"\bmakes? (it|one|them) again\b", r"\bhas come\b", r"\bmeanwhile\b", r"\bgo(es)? with\b", r"\bmay have it\b",
    r"\bwhat (was|is|has been) (said|asked|done|thought)\b", r"\bputs? (it )?back\b", r"\bif (it|that) is (so|meant)\b",
    r"\ball the same\b", r"\bby itself\b", r"\bdo(es)? without (it|them)\b", r"\bwhoever\b", r"\bwhatever\b",
    r"\bstands? (before|after|in it|for)\b", r"\bnothing is lost\b", r"\bis whole\b", r"\bthe answer is\b",
    r"\bnot a (day|time|pattern|price)\b", r"\btakes? (it|them) out\b", r"\btaken back\b",
)  # fmt: skip
"""Phrases that are fine in an explanation, but too vague in an error, a hint or a help text."""


def _compile(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


BANNED = _compile(_ANYWHERE)
"""Phrases of a voice that needs a second reading. Each was in a text of version 0.2."""
BANNED_IN_PROGRAM = _compile((*_ANYWHERE, *_SHORT))


class Figures(NamedTuple):
    """How plain a collection of texts is."""

    sentences: int
    mean_words: float
    longest: int
    too_long: int
    passive_share: float
    banned: int


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without markup; code is one word."""
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]+>|https?://\S+|[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}", " ", text)
    parts = re.split(r"(?<=[.!?])\s+(?=[A-Z\"“(`])|\n\s*\n", " ".join(text.split(" ")))
    return [part.strip() for part in parts if re.search(r"[A-Za-z]{2}", part)]


def count_words(sentence: str) -> int:
    """Return the number of words."""
    return len(re.findall(r"[A-Za-z0-9][\w'’./-]*", sentence))


def is_passive(sentence: str) -> bool:
    """Return whether a sentence has a verb in the passive voice."""
    return bool(_PASSIVE.search(_STATES.sub("", sentence)))


def find_banned(text: str, banned: tuple[re.Pattern[str], ...] = BANNED_IN_PROGRAM) -> Iterator[str]:
    """Yield the banned phrases in a text; what is quoted as code does not count."""
    prose = re.sub(r"`[^`]*`", "CODE", text)
    for pattern in banned:
        if found := pattern.search(prose):
            yield found[0]


def long_sentences(text: str) -> list[str]:
    """Return the sentences with more words than `LONGEST`."""
    return [sentence for sentence in split_sentences(text) if count_words(sentence) > LONGEST]


def measure(texts: Iterable[str], banned: tuple[re.Pattern[str], ...] = BANNED_IN_PROGRAM) -> Figures:
    """Return the figures of some texts."""
    texts = list(texts)
    sentences = [sentence for text in texts for sentence in split_sentences(text)]
    lengths = [count_words(sentence) for sentence in sentences] or [0]
    return Figures(
        sentences=len(sentences),
        mean_words=round(sum(lengths) / len(lengths), 1),
        longest=max(lengths),
        too_long=sum(length > LONGEST for length in lengths),
        passive_share=round(sum(map(is_passive, sentences)) / max(1, len(sentences)), 3),
        banned=sum(len(list(find_banned(text, banned))) for text in texts),
    )
