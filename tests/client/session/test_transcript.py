from __future__ import annotations

from typing import Any

from unspool.client.session.transcript import MessageList
from unspool.testing.strict import problems


def message(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def test_what_the_system_said_last_stays_last() -> None:
    for before in ([message("user", "Hello.")], [message("user", "Hello."), message("assistant", "Hello to you.")], []):
        said = MessageList([*before, message("system", "Be brief.")])
        said.add_user("And now?")
        said.add_user("Go on.")
        assert said.messages[-1] == message("system", "Be brief.")
        assert said.messages[-2]["content"][-1] == {"type": "text", "text": "Go on."}
        body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": said.messages}
        assert [problem.message for problem in problems(body)] == []
        said.add_block("msg_1", {"type": "text", "text": "Well."})
        assert [one["role"] for one in said.messages[-3:]] == ["user", "system", "assistant"]
