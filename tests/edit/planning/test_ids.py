"""New ids for the lines of a copy: the quick way and the long way write the same bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import json_values
from unspool.edit.planning.draft import _replace_known
from unspool.edit.planning.ids import LineCopier, derive_uuid, map_ids, rewrite_line
from unspool.format import Entry, decode

SOURCE, COPY = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
UUIDS = [derive_uuid(b"source", name) for name in "abc"]
MAP = map_ids(SOURCE, COPY, b"seed", [*UUIDS, "short", "é"])
ids = st.sampled_from([*UUIDS, SOURCE, "short", "é", "elsewhere"])
texts = ids.map(lambda id: f'"uuid":"{id}" in a text') | st.text(max_size=5)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "attachment", "last-prompt", "summary", "new-type"])},
    optional={
        "parentUuid": ids | st.none(),
        "message": st.fixed_dictionaries(
            {"content": texts | st.just([{"type": "text", "text": "a", "uuid": UUIDS[0]}])}
        ),
        "leafUuid": ids,
        "sessionId": ids,
        "session_id": ids,
        "sourceToolAssistantUUID": ids,
        "logicalParentUuid": ids,
        "uuid": ids,
        "forkedFrom": json_values,
    },
)


@given(lines, st.booleans(), st.sampled_from([b"\n", b"\r\n", b" \n", b""]))
@example({"type": "user", "uuid": UUIDS[0], "parentUuid": UUIDS[1], "sessionId": SOURCE}, True, b"\n")
@example({"type": "user", "uuid": UUIDS[0], "nested": {"uuid": UUIDS[0]}, "sessionId": SOURCE}, True, b"\n")
def test_a_line_is_copied_alike_whether_or_not_its_ids_are_put_in_place(
    value: dict[str, Any], compact: bool, end: bytes
) -> None:
    separators = (",", ":") if compact else (", ", ": ")
    (entry,) = decode(json.dumps(value, separators=separators, ensure_ascii=False).encode() + end)
    assert isinstance(entry, Entry)
    before = bytes(entry.raw)
    assert bytes(LineCopier(MAP).rewrite(entry)) == rewrite_line(entry, MAP)
    assert bytes(entry.raw) == before


@given(st.lists(ids, min_size=1, max_size=4))
def test_the_lines_before_it_do_not_change_how_a_line_is_copied(uuids: list[str]) -> None:
    copier = LineCopier(MAP)
    for uuid in uuids:
        for value in ({"type": "user", "uuid": uuid, "sessionId": SOURCE}, {"type": "user", "sessionId": uuid}):
            (entry,) = decode(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            assert isinstance(entry, Entry)
            assert bytes(copier.rewrite(entry)) == rewrite_line(entry, MAP)


@given(st.text("ab", max_size=200), st.integers(0, 3), st.text("ab", max_size=200))
def test_a_value_is_replaced_by_its_bytes_only_where_they_are_on_the_line_once(
    text: str, others: int, other: str
) -> None:
    value = {"content": text, "others": [{"content": text}] * others, "long": {"content": text + other + "c"}}
    line, raw = json.dumps(value, separators=(",", ":")).encode(), memoryview(json.dumps(text).encode())
    replaced, left = _replace_known(line, {("content",): "new"}, {("content",): raw})
    if others:
        assert (replaced, left) == (line, {("content",): "new"})
    else:
        assert (json.loads(replaced), left) == ({**value, "content": "new"}, {})
