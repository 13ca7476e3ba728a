"""Colours that words can be read in, on every ground, in both themes; docs/design.md names every token."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

TOKENS = files("unspool.page").joinpath("static", "tokens.css").read_text()
DESIGN = (Path(__file__).parents[2] / "docs" / "design.md").read_text()
WORDS = (
    "text",
    "dim",
    "faint",
    "accent",
    "good",
    "warn",
    "bad",
    "info",
    "keyword",
    "string",
    "digit",
    "function",
    "special",
)
GROUNDS = ("bg", "panel", "plus", "minus")
SCREEN = "@media screen and (prefers-color-scheme: dark)"
CHOSEN = "@media screen {"


def colours(css: str) -> dict[str, str]:
    """Return the colours that a piece of CSS gives to tokens."""
    return dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6});", css))


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of each theme."""
    light, _, rest = TOKENS.partition(SCREEN)
    system, _, chosen = rest.partition(CHOSEN)
    return {"light": colours(light), "dark": colours(system), "chosen dark": colours(chosen)}


def brightness(colour: str) -> float:
    """Return the relative luminance, as the Web Content Accessibility Guidelines define it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", themes())
def test_words_can_be_read_on_every_ground(theme: str) -> None:
    has = themes()[theme]
    pairs = {(word, ground): contrast(has[word], has[ground]) for word in WORDS for ground in GROUNDS}
    assert {pair: ratio for pair, ratio in pairs.items() if ratio < 4.5} == {}
    assert min(contrast(has["edge"], has[ground]) for ground in ("bg", "panel")) >= 3


def test_a_theme_that_was_chosen_is_that_of_the_system() -> None:
    assert themes()["dark"] == themes()["chosen dark"]
    assert themes()["dark"].keys() == themes()["light"].keys()


def test_the_design_page_names_every_token() -> None:
    names = {*re.findall(r"--([a-z0-9]+):", TOKENS)} - {f"c{number}" for number in range(2, 8)}
    assert [name for name in sorted(names) if f"`--{name}`" not in DESIGN] == []
