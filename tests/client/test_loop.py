"""`client/loop.py`: turns, their steps and their ends."""

from __future__ import annotations

from pathlib import Path

from tests.client.talk import ending, of, place, records, talk
from unspool.client import events


def test_a_prompt_a_call_its_result_and_the_end(tmp_path: Path) -> None:
    script = [
        {"content": ["I ask.", {"type": "tool_use", "name": "Echo", "input": {"text": "hello"}}]},
        {"content": "It said hello.", "expect": {"result": "hello"}},
    ]
    session, found = talk(place(tmp_path), script, "Say hello.")
    assert session.model.failures == []
    assert ending(found) == "end_turn"
    assert found[-1].text == "It said hello."
    assert [type(event).__name__ for event in found if not isinstance(event, events.TextGrown)] == [
        "TurnBegan", "StepBegan", "BlockDone", "BlockDone", "AnswerDone", "CallBegan", "CallEnded",
        "StepBegan", "BlockDone", "AnswerDone", "TurnEnded",
    ]  # fmt: skip
    kinds = [line["type"] for line in records_all(session.chat.path)]
    assert kinds == [
        "user", "file-history-snapshot", "assistant", "assistant", "user", "assistant", "system", "last-prompt",
    ]  # fmt: skip
    assert of(events.CallEnded, found)[0].result == {"text": "hello"}
    assert records(session.chat.path, "assistant")[-1]["message"]["stop_reason"] == "end_turn"


def records_all(path: Path) -> list[dict[str, str]]:
    import msgspec

    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
