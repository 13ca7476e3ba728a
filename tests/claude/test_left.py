"""Sessions that chat leaves in ways no headless run does: rewound, refused, broken off, interrupted anywhere, steered.

Each is resumed by three versions of the program, which must send the messages predicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from tests.claude.program import Program, all_of
from tests.client.loop.test_loop import LONG, call
from tests.client.talk import Session, manuscript, opened, place
from unspool.client.chat import Chat
from unspool.client.events import CallBegan, CallProgressed
from unspool.edit.verify.claude_code import RESUME_PROMPT, resume_with_claude_code
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text
from unspool.testing.comparison import difference

pytestmark = pytest.mark.claude

VERSIONS = ("2.0.76", "2.1.29", "newest")
CORES = 2
Doing: TypeAlias = Callable[[Session], Awaitable[None]]


class Story(NamedTuple):
    """What the API says, and what is said and done."""

    script: Any
    doings: tuple[str | Doing, ...]


def back_to(number: int) -> Doing:
    async def go(session: Session) -> None:
        session.chat.rewind(session.chat.points()[number].uuid, conversation=True, files=False)

    return go


def stopped_at(number: int) -> Doing:
    """Take a turn that is interrupted at an event; a call that never ends, always."""

    async def go(session: Session) -> None:
        seen = 0

        def stop(event: Any, chat: Chat) -> None:
            nonlocal seen
            seen += 1
            if seen == number or isinstance(event, CallProgressed):
                chat.interrupt()

        await session.say("Go.", stop)

    return go


async def steered(session: Session) -> None:
    def steer(event: Any, chat: Chat) -> None:
        if isinstance(event, CallBegan):
            chat.steer("Use b.")

    await session.say("Go.", steer)


async def looked(session: Session) -> None:
    session.chat.local_command("cost", "", "$0.00")


REFUSED = {"content": "I can", "stop_reason": "refusal"}
THOUGHT = {"type": "thinking", "thinking": "A long thought."}
ENDLESS = {"cues": {"Go.": LONG, "And now?": ["On."]}}
STORIES = {
    "rewound": Story(["One.", "Two."], ("First.", "Second.", back_to(1))),
    "rewound and gone on": Story(["One.", "Two.", "Three."], ("First.", "Second.", back_to(1), "Third.")),
    "rewound to the beginning": Story(["One.", "Two."], ("First.", back_to(0), "Second.")),
    "refused": Story(["One.", REFUSED], ("First.", "Bad.")),
    "refused and gone on": Story(["One.", REFUSED, "Good."], ("First.", "Bad.", "Fine.")),
    "refused at once": Story([REFUSED, "Good."], ("Bad.", "Fine.")),
    "what was used known late": Story([{"content": ["I ask.", call("a"), call("b")], "pause": 0.07}, "Ok."], ("Go.",)),
    "cut in thought": Story([{"content": [THOUGHT], "stop_reason": "max_tokens"}, "Ok."], ("Go.",)),
    "broken off in thought": Story(
        [{"content": [THOUGHT, "I say."], "break": {"how": "cut", "after": 6}}, "Done."], ("Go.",)
    ),
    "broken off after a text": Story(
        [{"content": ["One.", "Another text."], "chunk": 5, "break": {"how": "cut", "after": 6}}, "Done."], ("Go.",)
    ),
    "interrupted before a word": Story(ENDLESS, (stopped_at(3),)),
    "interrupted after a call": Story(ENDLESS, (stopped_at(10),)),
    "interrupted in a call": Story(ENDLESS, (stopped_at(99),)),
    "interrupted and gone on": Story(ENDLESS, (stopped_at(99), "And now?")),
    "asked again": Story([{"content": "Hi.", "error": {"status": 429, "retry_after": 0, "times": 2}}], ("Go.",)),
    "an empty answer": Story([{"content": "", "stop_reason": "end_turn"}, "Ok."], ("Go.", "Again.")),
    "a local command": Story(["One.", "Two."], ("First.", looked, "Second.")),
    "steered": Story([{"content": [call("a")]}, "Ok."], (steered,)),
    "a malformed call": Story(
        [{"content": [{"type": "tool_use", "name": "Echo", "input": [1]}, call("a")]}, "Ok."], ("Go.",)
    ),
}  # fmt: skip


async def lead(story: Story, folder: Path) -> Path:
    folder.mkdir()
    session = await opened(place(folder), story.script)
    for doing in story.doings:
        await (session.say(doing) if isinstance(doing, str) else doing(session))
    await session.chat.close()
    assert session.model.failures == []
    return session.chat.path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("left")
    return {name: asyncio.run(lead(story, root / name)) for name, story in STORIES.items()}


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return all_of(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_left_is_resumed_with_the_messages_predicted(
    version: str, programs: dict[str, Program], written: dict[str, Path]
) -> None:
    command = programs[version].command[-1]

    def ask(name: str) -> str | None:
        path = written[name]
        number, sent = resume_with_claude_code(command, path.stem, path.read_bytes())
        told = predict_messages(manuscript(path).entries, number)
        words = difference(strip_unrecorded_text(sent, number), told, RESUME_PROMPT)
        return f"{name}: {words}" if words else None

    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(ask, STORIES)]
    assert len(found) == len(STORIES)
    words = [one for one in found if one]
    assert not words, "\n".join(words)
