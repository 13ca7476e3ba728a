"""Templates of the status line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import UsageError
from unspool.statusline.template import DEFAULT_TEMPLATE, FIELDS, FieldValue, check_template, render_template

VALUES = {"model": FieldValue("Opus"), "branch": FieldValue("main"), "today_cost": FieldValue("$2.00", is_stale=True)}
pieces = st.sampled_from(["{model}", "{branch}", "{effort}", "{today_cost}", "x", " ", "|", "[", "]", "{", "}", "||"])


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{model} | {branch}", "Opus | main"),
        ("{model} | {effort} | {branch}", "Opus | main"),
        ("{effort}", ""),
        ("{model}[ at {effort}] on {branch}", "Opus on main"),
        ("{model}[ ({branch})]", "Opus (main)"),
        ("today {today_cost}", "today ~$2.00"),
        ("words | {effort}", "words"),
        ("{{{model}}} [[a]] || b", "{Opus} [a] | b"),
        ("{model}|{branch}", "Opus | main"),
    ],
)
def test_a_template_is_filled(template: str, line: str) -> None:
    check_template(template)
    assert render_template(template, VALUES) == line


@pytest.mark.parametrize(
    "template", ["", " ", "{nothing}", "{model", "model}", "[{model}", "{model}]", "[a[b]]", "[a|b]", "a\x1b[31m"]
)
def test_what_is_no_template_is_refused_when_it_is_set(template: str) -> None:
    with pytest.raises(UsageError):
        check_template(template)


@given(st.lists(pieces).map("".join))
def test_anything_is_rendered_and_what_passes_the_check_loses_no_word(template: str) -> None:
    line = render_template(template, VALUES)
    try:
        check_template(template)
    except UsageError:
        return
    assert line.count("x") <= template.count("x")


def test_every_field_is_described_and_the_default_is_a_template() -> None:
    check_template(DEFAULT_TEMPLATE)
    assert all(FIELDS.values())
    assert render_template(DEFAULT_TEMPLATE, {name: FieldValue("1") for name in FIELDS}) == (
        "1 | 1 | context 1, 1 left | session 1 | today 1 | 5h 1, 1 left, 1 left | 1"
    )
