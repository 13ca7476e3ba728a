"""What a frame's data says: the short way of deltas and the long way of all else say the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from unspool.api.events import BlockDelta, StreamBroken, TextDelta, UnknownDelta, decode_event

values = st.one_of(st.text(max_size=5), st.integers(), st.none(), st.dictionaries(st.text(max_size=3), st.integers()))
kinds = st.sampled_from(
    ["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "other", "", "new_delta"]
)
fields = st.sampled_from(["text", "thinking", "signature", "partial_json", "citation", "json"])
deltas = st.builds(lambda kind, held: {"type": kind, **held}, kinds, st.dictionaries(fields, values, max_size=3))


@example({"type": "", "json": {}}, 0)
@given(st.one_of(deltas, values), st.one_of(st.integers(0, 9), values))
def test_a_delta_is_the_same_however_it_is_spaced(delta: Any, index: Any) -> None:
    event = {"type": "content_block_delta", "index": index, "delta": delta}
    close = json.dumps(event, separators=(",", ":"))
    wide = "{" + " " * 60 + close[1:]
    assert decode_event(close) == decode_event(wide)


def test_a_delta_that_is_not_known_is_kept_and_a_broken_one_is_said() -> None:
    start = '{"type":"content_block_delta","index":0,"delta":'
    assert decode_event(start + '{"type":"text_delta","text":"a"}}') == BlockDelta(index=0, delta=TextDelta(text="a"))
    assert decode_event(start + '{"type":"new_delta","x":1}}') == BlockDelta(
        index=0, delta=UnknownDelta(json={"type": "new_delta", "x": 1})
    )
    assert isinstance(decode_event(start + '{"type":"text_delta","text":1}}'), StreamBroken)
