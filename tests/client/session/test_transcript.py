from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.client.loop.test_loop import call
from tests.client.talk import manuscript, opened, place
from unspool.client.session.transcript import MessageList
from unspool.edit.rules.check import check_rules
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


def test_a_document_comes_after_the_results_of_all_calls_of_its_response(tmp_path: Path) -> None:
    async def talk() -> Path:
        calls = [call("a", document=True), call("b", turns=3), call("c", turns=3, document=True)]
        session = await opened(place(tmp_path), [{"content": calls}, "Done."])
        await session.say("Go.")
        await session.chat.close()
        assert session.model.failures == []
        return session.chat.path

    text = manuscript(asyncio.run(talk()))
    assert check_rules(text) == []
    said = [json.dumps(json.loads(bytes(entry.raw)).get("message", {}).get("content")) for entry in text.entries]
    results = [number for number, words in enumerate(said) if "tool_result" in words]
    documents = [number for number, words in enumerate(said) if "a document for" in words]
    assert (len(results), len(documents)) == (3, 2)
    assert max(results) < min(documents)
