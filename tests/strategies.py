"""What hypothesis makes up: any JSON, any line, any cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

texts = st.text(max_size=20)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(texts, json_values, max_size=5)

TYPES = ["user", "assistant", "system", "attachment", "progress", "summary", "mode", "queue-operation", "new-type"]
FIELDS = [
    "uuid",
    "parentUuid",
    "sessionId",
    "timestamp",
    "message",
    "content",
    "attachment",
    "data",
    "subtype",
    "cwd",
]

records: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)},
    optional=dict.fromkeys(FIELDS, json_values),
)
"""Objects that look like lines, with anything in their fields."""

objects = json_objects | records


def written(value: object) -> bytes:
    """Return a value as a line without its end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
