"""Whatever is said, done and broken off, in any order: the session is sound after every turn."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.talk import Session, fitted, opened, place, sound
from tests.profiles import examples
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.config import SessionStart
from unspool.client.tools.task import TaskTool

texts = st.sampled_from(["One text.", "Another text, longer than the first.", "  ", "x" * 3000])
echoes = st.sampled_from(["a", "never", "b" * 500])


def call(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": input}


blocks = st.one_of(
    texts,
    st.builds(lambda text: call("Echo", text=text, turns=len(text) % 7), echoes),
    st.builds(lambda name: call("Put", path=name, text=name), st.sampled_from(["one.txt", "two.txt"])),
    st.just(call("Echo")),
    st.just(call("Nothing")),
    st.just(call("Task", description="Go", prompt="Look around.", subagent_type="general-purpose")),
    st.just({"type": "tool_use", "name": "Echo", "input": [1, 2]}),
)
thoughts = st.lists(st.just({"type": "thinking", "thinking": "Hm, hm, hm."}), max_size=1)
reasons = st.sampled_from(
    [None, None, None, "end_turn", "max_tokens", "pause_turn", "refusal", "stop_sequence",
     "model_context_window_exceeded"]
)  # fmt: skip
breaks: st.SearchStrategy[dict[str, Any] | None] = st.one_of(
    st.none(),
    st.none(),
    st.builds(dict, how=st.sampled_from(["cut", "error", "malformed"]), after=st.integers(0, 12)),
)
steps = st.builds(
    lambda thought, said, reason, broken, chunk: {
        "content": [*thought, *said],
        "chunk": chunk,
        **({"stop_reason": reason} if reason else {}),
        **({"break": broken} if broken else {}),
    },
    thoughts,
    st.lists(blocks, max_size=4),
    reasons,
    breaks,
    st.sampled_from([3, 40]),
)


class Turn(NamedTuple):
    """What happens in a turn."""

    steps: list[dict[str, Any]]
    at: int
    """Which event something is done at."""
    what: str


turns = st.lists(
    st.builds(
        Turn,
        st.lists(steps, min_size=1, max_size=3),
        st.integers(0, 40),
        st.sampled_from(["nothing", "interrupt", "steer", "rewind", "leave", "reopen"]),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(25), deadline=None)
@given(turns)
def test_any_conversation_leaves_a_sound_session(story: list[Turn]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(asyncio.wait_for(lead(Path(folder), story), 20))


async def lead(folder: Path, story: list[Turn]) -> None:
    session = await begin(folder, story)
    for number, turn in enumerate(story):
        await take(session, turn, f"Prompt {number}.")
        sound(session.chat)
        if turn.what == "rewind" and (points := session.chat.points()):
            session.chat.rewind(points[-1].uuid, conversation=True, files=True)
            sound(session.chat)
        if turn.what == "reopen":
            await session.chat.close()
            again = await begin(folder, story, SessionStart(resume=session.chat.path))
            session = again
    await session.chat.close()
    assert session.model.failures == []


async def begin(folder: Path, story: list[Turn], start: SessionStart | None = None) -> Session:
    cues: dict[str, Any] = {f"Prompt {number}.": [*turn.steps, "The end."] for number, turn in enumerate(story)}
    cues |= {"Look around.": [{"content": [call("Echo", text="around")]}, "Seen."], "Wait a moment.": ["I wait."]}
    return await opened(place(folder), {"cues": cues}, start, fitted([TaskTool()]))


async def take(session: Session, turn: Turn, prompt: str) -> None:
    seen = 0

    def hear(event: Any) -> bool:
        nonlocal seen
        seen += 1
        act(session.chat, event, turn, is_time=seen == turn.at)
        return turn.what == "leave" and seen == turn.at

    await session.stop_listening(prompt, hear)
    while session.chat.next_prompt() is not None:
        pass


def act(chat: Chat, event: Any, turn: Turn, *, is_time: bool) -> None:
    if isinstance(event, events.CallProgressed) and event.data["type"] == "bash_progress":
        chat.interrupt()  # it would never end
    elif is_time and turn.what == "interrupt":
        chat.interrupt()
    elif is_time and turn.what == "steer":
        chat.steer("Wait a moment.")
