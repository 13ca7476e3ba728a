"""What happens in a conversation, kept: on disk line by line, in memory as what will be sent. Both or neither.

Rules
  1. First the line, then the memory: what could not be written was not said.
  2. Each answer has an id that no other has, and each call too, whatever a server makes of them.
  3. What an answer used stands on its last line. If it was known too late, on one more line without content.

[merged: conversation.py] What will be sent, as it grows: words, blocks and results in, messages out. What `graph/context/build.py` reads from disk.

Rules
  1. What the user's side says in a row is one message; two texts that meet have a line end between them.
  2. The blocks of an answer are one message, calls last. One that says nothing but its thinking is not sent.
  3. Nothing that was added is changed later, so that what the API has cached stays.
  4. What the system said last stays last: an answer follows it, not the user's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from unspool.client.session import records as lines
from unspool.client.session.writer import Writer
from unspool.client.tools.base import Outcome

Json: TypeAlias = dict[str, Any]

THINKING = frozenset({"thinking", "redacted_thinking"})


class Conversation:
    """The messages of one conversation."""

    def __init__(self, messages: Iterable[Json] = ()) -> None:
        self.messages: list[Json] = [*messages]
        self._answering: str | None = None

    def hear(self, content: str | list[Json]) -> None:
        """Add what the user's side says."""
        self._answering = None
        blocks = [block for block in as_blocks(content) if says_something(block)]
        if not blocks:
            return
        messages = self.messages
        after = [messages.pop()] if messages and messages[-1]["role"] == "system" else []
        last = messages[-1] if messages else None
        if last is None or last["role"] != "user":
            messages += [{"role": "user", "content": blocks}, *after]
            return
        said = [*last["content"]]
        if said[-1].get("type") == "text" and blocks[0].get("type") == "text":
            said[-1] = {**said[-1], "text": said[-1]["text"] + "\n"}
        messages[-1:] = [{"role": "user", "content": [*said, *blocks]}, *after]

    def say(self, id: str, block: Json) -> None:
        """Add a block of an answer."""
        if not says_something(block):
            return
        if self._answering != id:
            self._answering = id
            self.messages.append({"role": "assistant", "content": [block]})
            return
        content: list[Json] = self.messages[-1]["content"]
        place = len(content)
        if block.get("type") != "tool_use":
            while place and content[place - 1].get("type") == "tool_use":
                place -= 1
        content.insert(place, block)

    def settle(self) -> None:
        """End an answer: one that says nothing is forgotten."""
        if self._answering is not None and all(block["type"] in THINKING for block in self.messages[-1]["content"]):
            self.messages.pop()
        self._answering = None

    def become(self, messages: Iterable[Json]) -> None:
        """Be another conversation from now on: after a compaction, a way back, another model."""
        self.messages = [*messages]
        self._answering = None

    def without_thinking(self) -> None:
        """Forget what was thought: another model goes on."""
        kept = []
        for message in self.messages:
            content = [block for block in message["content"] if block.get("type") not in THINKING]
            if content:
                kept.append({**message, "content": content})
        self.become(kept)


def as_blocks(content: str | list[Json]) -> list[Json]:
    """Return content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*content]


def text_of(content: str | list[Json]) -> str:
    """Return the words of a content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")


def says_something(block: Json) -> bool:
    """Tell a block from a blank text, which the API refuses."""
    return block.get("type") != "text" or bool(str(block.get("text", "")).strip())


class Transcript:
    """One conversation: a session's, or an agent's."""

    def __init__(self, writer: Writer, conversation: Conversation, new_id: Callable[[], str]) -> None:
        self.writer = writer
        self.conversation = conversation
        self.new_id = new_id
        self.prompt_uuid: str | None = None
        """The line of the last prompt."""
        self._taken: set[str] = set()
        """Ids of answers and calls so far."""
        self._sources: dict[str, str] = {}
        """Calls, and the lines they stand on."""
        self._open: list[str] = []
        """Calls that have no result yet."""
        self._used: Json | None = None
        """What the last line of the answer says was used."""
        self._progress = 0
        self._before: tuple[str | None, list[Json], int] = (None, [], -1)
        """What the last prompt hangs on, what was said before it, and how often it had begun anew."""

    def know(self, ids: Iterable[str]) -> None:
        """Take note of answers and calls that a session has already."""
        self._taken.update(ids)

    def prompt(self, content: str | list[Json], *, uuid: str | None = None, **fields: Any) -> str:
        """Write what somebody asks for; return its line's id."""
        self.close_calls(lines.INTERRUPTED_CALL)  # if the disk was full, they could not be answered
        self._before = self.writer.parent, [*self.conversation.messages], self.writer.beginnings
        self.prompt_uuid = self._hear(lines.user(content, **fields), content, uuid)
        return self.prompt_uuid

    def said(self, content: str | list[Json], **fields: Any) -> str:
        """Write something more in the user's name: words typed meanwhile, a notification."""
        return self._hear(lines.user(content, **fields), content)

    def meta(self, content: str | list[Json]) -> str:
        """Write something that the client says in the user's name."""
        return self._hear(lines.meta(content), content)

    def begin_answer(self, head: Json) -> Json:
        """Return the head of an answer with an id of its own."""
        given = head.get("id")
        id = given if isinstance(given, str) and given and given not in self._taken else f"msg_{self._short()}"
        self._taken.add(id)
        self._used = None
        return {**head, "id": id}

    def identified(self, block: Json) -> Json:
        """Return a block of an answer; a call with an id of its own."""
        if block.get("type") != "tool_use":
            return block
        given = block.get("id")
        if not isinstance(given, str) or not given or given in self._taken:
            block = {**block, "id": f"toolu_{self._short()}"}
        self._taken.add(block["id"])
        return block

    def block(self, head: Json, block: Json, request_id: str | None) -> str:
        """Write a block of an answer; return its line's id."""
        uuid = self.writer.tell(lines.answer(head, [block], request_id))
        if block.get("type") == "tool_use":
            self._sources[block["id"]] = uuid
            self._open.append(block["id"])
        self._used = _account(head)
        self.conversation.say(head["id"], block)
        return uuid

    def end_answer(self, head: Json, request_id: str | None) -> None:
        """Write what an answer used, if its last line does not say it. Of one that said nothing there is no line."""
        if self._used is not None and self._used != _account(head):
            self.writer.tell(lines.answer(head, [], request_id))
        self.conversation.settle()

    def result(self, call_id: str, outcome: Outcome) -> str:
        """Write what came of a call; return its line's id."""
        line = lines.result(
            call_id,
            outcome.content,
            is_error=outcome.is_error,
            structured=None if self.writer.envelope.agent_id else outcome.result,
            source=self._sources.get(call_id),
        )
        uuid = self._hear(line, line["message"]["content"])
        if call_id in self._open:
            self._open.remove(call_id)
        if outcome.extra:
            self.meta([*outcome.extra])
        return uuid

    def source(self, call_id: str) -> str | None:
        """Return the line that a call stands on."""
        return self._sources.get(call_id)

    def synthetic(self, text: str) -> str:
        """Write something in the model's name that is sent like an answer."""
        id = self.new_id()
        uuid = self.writer.tell(lines.synthetic(id, text))
        self.conversation.say(id, {"type": "text", "text": text})
        self.conversation.settle()
        return uuid

    def failed(self, text: str, kind: str | None) -> str:
        """Write what the API said instead of an answer: it is shown, and never sent."""
        return self.writer.tell(lines.api_failure(self.new_id(), text, kind))

    def retried(self, words: str, status: int | None, seconds: float, attempt: int) -> None:
        """Write that a request is asked again."""
        self.writer.tell(lines.api_error(words, status, seconds, attempt, 10))

    def progress(self, call_id: str, data: Json) -> None:
        """Write something to show of a call that runs."""
        kind = str(data.get("type", "tool")).replace("_", "-")
        self.writer.beside(lines.progress(call_id, f"{kind}-{self._progress}", data))
        self._progress += 1

    def close_calls(self, words: str) -> None:
        """Answer the calls that will not be run."""
        for call_id in [*self._open]:
            self.result(call_id, Outcome(content=words, result=words, is_error=True))

    def interrupted(self, *, calls: bool) -> None:
        """Write the program's own marker of an interrupt."""
        self.close_calls(lines.INTERRUPTED_CALL)
        words = lines.INTERRUPTED_FOR_TOOLS if calls else lines.INTERRUPTED
        self.said([{"type": "text", "text": words}])

    def retract(self, notice: str) -> None:
        """Go on from before the last prompt: what was said since is left beside the conversation, and not sent again.

        A conversation that has nothing before it begins anew, as after a compaction: every version understands that.
        """
        parent, messages, beginnings = self._before
        if beginnings != self.writer.beginnings:  # a compaction came in between: the prompt is part of the summary
            self.failed(notice, None)
            return
        self._open.clear()
        if parent is not None:
            self.writer.parent = parent
            self.failed(notice, None)
            self.conversation.become(messages)
            return
        metadata = {"trigger": "auto", "preTokens": 0}
        self.boundary(f"The conversation began with something that was not answered: {notice}", metadata)

    def go_back(self, parent: str | None, messages: list[Json]) -> None:
        """Go on from an earlier line: what came after it is a branch from now on."""
        self._open.clear()
        if parent is None:
            self.boundary("The conversation was taken back to its beginning.", {"trigger": "manual", "preTokens": 0})
            return
        self.writer.parent = parent
        self.failed("The conversation went back to here.", None)  # never sent, and the newest line
        self.conversation.become(messages)

    def boundary(self, summary: str, metadata: Json) -> str:
        """Write that the conversation goes on from a summary alone; return the summary's line."""
        uuid = self.writer.begin_again(
            lines.system("compact_boundary", "Conversation compacted", level="info", compactMetadata=metadata),
            lines.user(summary, isVisibleInTranscriptOnly=True, isCompactSummary=True),
        )
        self.conversation.become([])
        self.conversation.hear(summary)
        return uuid

    def queued(self, operation: str, content: str | None = None) -> None:
        """Write what becomes of words that wait."""
        said = {} if content is None else {"content": content}
        head = {"type": "queue-operation", "operation": operation, "timestamp": self.writer.now()}
        self.writer.note({**head, "sessionId": self.writer.envelope.session_id, **said}, named=False)

    def noted(self, subtype: str, content: str) -> None:
        """Write something the client notes; newer versions send what local commands said."""
        self.writer.tell(lines.system(subtype, content, level="info"))
        self.conversation.hear(content)

    def lasted(self, milliseconds: int) -> None:
        """Write how long a turn took; of agents it is not written."""
        if self.writer.envelope.agent_id is not None:
            return
        self.writer.tell(lines.system("turn_duration", durationMs=milliseconds))

    def _hear(self, line: Json, content: str | list[Json], uuid: str | None = None) -> str:
        id = self.writer.tell(line, uuid=uuid)
        self.conversation.hear(content)
        return id

    def _short(self) -> str:
        return self.new_id().replace("-", "")[:24]


def _account(head: Json) -> Json:
    return {"usage": head.get("usage"), "stop_reason": head.get("stop_reason")}
