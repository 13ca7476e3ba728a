"""Charts: what they say adds up, and nothing in them is markup that was not meant."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from unspool.page.html.charts import MAX_SERIES, OTHERS, render_bar, render_columns, render_sparkline, stack_series

names = st.text(max_size=6) | st.sampled_from(["<script>", '"onload="', "a&b", "'"])
values = st.lists(st.tuples(names, st.dictionaries(names, st.integers(0, 10**12), max_size=12)), max_size=20)
SVG = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@given(values)
def test_a_chart_leaves_nothing_out_of_a_sum(given_values: list[tuple[str, dict[str, int]]]) -> None:
    chart = stack_series(given_values)
    assert [column.label for column in chart.columns] == [label for label, _ in given_values]
    assert [sum(column.values) for column in chart.columns] == [sum(parts.values()) for _, parts in given_values]
    assert len(chart.series) <= MAX_SERIES
    several = {name for _, parts in given_values for name in parts}
    assert (chart.series[-1:] == (OTHERS,)) >= (len(several) > MAX_SERIES)


@given(values)
def test_a_chart_is_well_formed_and_says_no_style_and_no_script(given_values: list[tuple[str, dict[str, int]]]) -> None:
    chart = stack_series(given_values)
    text = str(render_columns(chart, str))
    if not text:
        assert sum(sum(column.values) for column in chart.columns) == 0
        return
    root = ElementTree.fromstring(SVG.sub("", text))
    tags = {element.tag for element in root.iter()}
    assert tags <= {"svg", "rect", "title", "line", "text"}
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in attributes if name == "style" or name.startswith("on")]
    shown = sum(value > 0 for column in chart.columns for value in column.values)
    assert len(root.findall("rect")) == shown


@given(st.lists(st.integers(0, 10**7), max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_a_sparkline_stays_in_its_box(points: list[int], places: list[int]) -> None:
    inside = [place for place in places if place <= len(points)]
    text = str(render_sparkline(points, inside, len(points), limit=200_000, width=84, height=18))
    if not points:
        assert text == ""
        return
    root = ElementTree.fromstring(text)
    line = root.find("polyline")
    assert line is not None
    numbers = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert all(0 <= x <= 84 and 0 <= y <= 18 for x, y in numbers)
    ticks = [one for one in root.findall("line") if one.attrib["class"] == "tick"]
    assert len(ticks) == len(inside)
    assert all(0 <= float(tick.attrib["x1"]) <= 84 for tick in ticks)


def test_sparklines_share_the_scale_of_the_context_limit_and_say_it() -> None:
    half, full = (str(render_sparkline([0, peak], [], 2, limit=200_000)) for peak in (100_000, 200_000))
    assert 'points="0.5,17.0 83.5,9.0"' in half
    assert 'points="0.5,17.0 83.5,1.0"' in full
    assert "up to 100,000 of 200,000 tokens (50%)" in half


def test_a_bar_is_as_long_as_its_share() -> None:
    assert 'width="60.0"' in str(render_bar(1, 2, 120))
    assert 'rect width="0"' in str(render_bar(0, 0, 120))
