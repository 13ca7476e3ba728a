"""Conversations as the API is sent them, of any shape that it takes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from unspool.testing.pictures import as_text, curve
from unspool.testing.strict import problems

Json = dict[str, Any]

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).map(
    lambda text: f"{text}."
)
long_words = st.builds(lambda text, times: text * times, words, st.sampled_from([1, 1, 3, 90, 700]))
PICTURE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": as_text(curve(320, 240))},
}
INPUTS: list[Json] = [
    {"file_path": "/a.py"},
    {"file_path": "/a.py", "offset": 3, "limit": 9},
    {"file_path": "/b.py", "content": "line\n" * 900},
    {"command": "make"},
]


def user(*content: Any) -> Json:
    """Return what the user's side says."""
    return {"role": "user", "content": [text(item) if isinstance(item, str) else item for item in content]}


def assistant(*content: Any) -> Json:
    """Return an answer."""
    return {"role": "assistant", "content": [text(item) if isinstance(item, str) else item for item in content]}


def text(said: str) -> Json:
    """Return a text."""
    return {"type": "text", "text": said}


def call(id: str, name: str = "Read", **given: Any) -> Json:
    """Return a call."""
    return {"type": "tool_use", "id": id, "name": name, "input": given or {"file_path": "/a.py"}}


def result(id: str, content: Any, *, is_error: bool = False) -> Json:
    """Return what came of a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": content, **({"is_error": True} if is_error else {})}


def body(messages: list[Json], **more: Any) -> Json:
    """Return a request."""
    return {"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": messages, **more}


@st.composite
def talks(draw: st.DrawFn, most: int = 5) -> list[Json]:
    """Return a conversation that the API takes: it ends with the user's side."""
    messages: list[Json] = []
    number = 0
    for _ in range(draw(st.integers(1, most))):
        pictured = [PICTURE] if draw(st.integers(0, 4)) == 0 else []
        messages.append(user(*pictured, draw(long_words)))
        for _ in range(draw(st.integers(0, 4))):
            calls, results = [], []
            for _ in range(draw(st.integers(1, 2))):
                number += 1
                calls.append(
                    call(
                        f"toolu_{number}",
                        draw(st.sampled_from(["Read", "Edit", "Bash"])),
                        **draw(st.sampled_from(INPUTS)),
                    )
                )
                content = draw(st.one_of(long_words, long_words.map(lambda said: [text(said), PICTURE])))
                results.append(result(f"toolu_{number}", content, is_error=draw(st.booleans())))
            messages += [assistant(*draw(_opening(number)), *calls), user(*results)]
        messages.append(assistant(*draw(_opening(number)), draw(words)))
    messages.pop()
    if draw(st.booleans()) and messages[-1]["content"][-1]["type"] == "tool_result":
        messages[-1] = user(*messages[-1]["content"], draw(words))
    assert problems(body(messages)) == []
    return messages


def _opening(number: int) -> st.SearchStrategy[list[Any]]:
    thinking = {"type": "thinking", "thinking": "Hm. " * 40, "signature": f"c2ln{number}"}
    return st.sampled_from([[], ["I look."], [thinking], [thinking, "I look."]])
