"""The file of stars, tags and notes: any content is read, and only the line of a session is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import UsageError
from unspool.store.user_annotations import (
    FILE_NAME,
    SessionAnnotation,
    change_annotation,
    parse_tags,
    read_annotations,
    save_filter,
)

NOW = "2026-11-17T22:00:00Z"


def test_a_change_leaves_other_lines_as_they_are_also_those_that_nobody_understands(tmp_path: Path) -> None:
    odd = b'{"session_id": "a",  "starred": true, "colour": "red"}\nnot json\n[1]\n{"session_id": 7}\n'
    (tmp_path / FILE_NAME).write_bytes(odd)
    change_annotation(tmp_path, "b", lambda given: given._replace(note="n", tags=("t",)), NOW)
    assert (tmp_path / FILE_NAME).read_bytes().startswith(odd)
    change_annotation(tmp_path, "a", lambda given: given._replace(note="x"), NOW)
    lines = (tmp_path / FILE_NAME).read_bytes().splitlines()
    assert lines[:3] == [b"not json", b"[1]", b'{"session_id": 7}']
    assert json.loads(lines[-1])["colour"] == "red"
    assert read_annotations(tmp_path).sessions == {
        "a": SessionAnnotation(True, (), "x"),
        "b": SessionAnnotation(False, ("t",), "n"),
    }
    change_annotation(tmp_path, "b", lambda _: SessionAnnotation(), NOW)
    assert "b" not in read_annotations(tmp_path).sessions
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_what_is_too_long_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    for new in (
        SessionAnnotation(tags=("x" * 61,)),
        SessionAnnotation(note="x" * 20_001),
        SessionAnnotation(tags=tuple(map(str, range(51)))),
    ):
        with pytest.raises(UsageError):
            change_annotation(tmp_path, "a", lambda _, new=new: new, NOW)  # type: ignore[misc]
    with pytest.raises(UsageError):
        save_filter(tmp_path, " ", "q=a", NOW)
    assert not (tmp_path / FILE_NAME).exists()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["session_id", "starred", "tags", "note", "filter", "query"]), json_values)
    )
)
def test_whatever_the_fields_are_reading_never_fails(
    tmp_path_factory: pytest.TempPathFactory, rows: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    (folder / FILE_NAME).write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_annotations(folder)
    assert all(isinstance(tag, str) for one in found.sessions.values() for tag in one.tags)


@given(st.text(max_size=40))
def test_tags_are_apart_and_without_blanks_around_them(text: str) -> None:
    tags = parse_tags(text)
    assert len(set(tags)) == len(tags)
    assert all(tag == tag.strip() and tag and "," not in tag for tag in tags)
