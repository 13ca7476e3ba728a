"""The lines of one session file, as a family of versions writes them.

Rules
  1. Keys stand in the order the program writes them: an answer's `type` comes after its `message`, a prompt's
     before; up to 2.1.63 the envelope is the head of the line, later most of it is the tail.
  2. Types come in the shares of real files: per tool call one result, 0.46 texts and 0.24 thinking blocks;
     progress lines only in 2.1.0 to 2.1.63, attachments only later.
  3. Parents, message ids and tool ids hold together, so that what reads further than lines has work to do too.
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

import msgspec

from bench import beside
from bench.families import Family
from bench.tools import Call, Json, Tools
from bench.words import Words

_MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001")
_encode = msgspec.json.encode


class Place(NamedTuple):
    """Whose lines these are."""

    folder: str
    session_id: str
    agent_id: str | None = None


class Transcript:
    """Writes the lines of a session, or of one of its agents."""

    def __init__(self, family: Family, place: Place, words: Words, random: Random) -> None:
        self.lines: list[bytes] = []
        self.agents: list[tuple[str, str]] = []
        """The agents it started: id and prompt."""
        self._family = family
        self._place = place
        self._words = words
        self._random = random
        self._tools = Tools(words, random, place.folder, newest=family.newest)
        self._model = random.choice(_MODELS)
        self._clock = 1_760_000_000.0 + random.random() * 20_000_000
        self._parent: str | None = None
        self._head, self._tail = self._envelope()

    def warm_up(self) -> None:
        """Write what agents of old versions are asked first, and the answer."""
        self._user("Warmup")
        self._answer(self._texts(1.0), "end_turn")

    def summary(self) -> None:
        """Write a title, of this file or another."""
        self._add({"type": "summary", "summary": self._words.prose(50), "leafUuid": self._uuid()})

    def turn(self, messages: int, prompt: str | None = None) -> None:
        """Write a prompt, messages with tool calls and their results, and a last one without."""
        main = self._place.agent_id is None
        if main:
            self._notes()
        self._prompt(prompt)
        for _ in range(messages - 1):
            calls = [self._call()]
            while self._random.random() < 0.32:
                calls.append(self._call())
            self._round(self._thoughts(0.32) + self._texts(0.54), calls)
        self._answer(self._thoughts(0.3) + self._texts(1.0), "end_turn")
        if main:
            self._afterwards()

    def _notes(self) -> None:
        for kind, field, rate in self._family.notes:
            for _ in range(self._often(rate)):
                self._add({"type": kind, field: self._words.prose(40), "sessionId": self._place.session_id})
        for _ in range(self._often(self._family.snapshots)):
            self._add(beside.snapshot(self._words, self._uuid(), self._tick()))

    def _prompt(self, prompt: str | None) -> None:
        text = prompt or self._words.prose(self._words.size(220, 1.3, 40_000))
        if prompt is None and self._random.random() < 0.03:
            self._user([{"type": "text", "text": text}, self._tools.picture(large=0.04)])
        else:
            self._user(text)
        for _ in range(self._often(self._family.attachments)):
            data = beside.attachment(self._words, self._random)
            self._node({"attachment": data, "type": "attachment"})

    def _call(self) -> Call:
        if self._place.agent_id is not None or self._random.random() > 0.03:
            return self._tools.call()
        agent_id = f"{self._random.getrandbits(self._family.agent_bits):0{self._family.agent_bits // 4}x}"
        agent_id = self._family.agent_prefix + agent_id
        prompt = self._words.prose(self._words.size(1200, 0.8, 20_000))
        self.agents.append((agent_id, prompt))
        return self._tools.agent(agent_id, prompt)

    def _round(self, blocks: list[Json], calls: list[Call]) -> None:
        """Write a message with calls, and what came back."""
        ids = [self._id("toolu_01") for _ in calls]
        uses = [
            {"type": "tool_use", "id": id, "name": call.name, "input": call.input}
            for id, call in zip(ids, calls, strict=True)
        ]
        asked = self._answer(blocks + uses, "tool_use")[len(blocks) :]
        for id, call, source in zip(ids, calls, asked, strict=True):
            self._progress(id, call)
            self._result(id, call, source)

    def _answer(self, blocks: list[Json], stop_reason: str) -> list[str]:
        """Write a message, one line for each block; return the lines' uuids."""
        newest, uuids = self._family.newest, []
        message_id, request_id = self._id("msg_01"), self._id("req_011C")
        whole = beside.usage(self._random, newest=newest)
        early = whole if newest else {**whole, "output_tokens": 2}
        last = whole if self._random.random() < 0.33 else early
        for block in blocks:
            message = {
                "model": self._model,
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "content": [block],
                "stop_reason": stop_reason if newest else None,
                "stop_sequence": None,
                "usage": last if block is blocks[-1] else early,
            }
            uuids.append(self._node({"message": message, "requestId": request_id, "type": "assistant"}))
        return uuids

    def _progress(self, id: str, call: Call) -> None:
        if not self._family.progress:
            return
        data: list[Json] = []
        if call.name == "Task":
            data += beside.agent_progress(self._words, self._random, *self.agents[-1])
        for _ in range(self._often(self._family.progress)):
            shell = call.name == "Bash" or self._random.random() < 0.2
            data.append(beside.progress(self._words, call.name, shell=shell))
        for item in data:
            self._node({"type": "progress", "data": item, "toolUseID": f"{id}-0", "parentToolUseID": id})

    def _result(self, id: str, call: Call, source: str) -> None:
        block: Json = {"tool_use_id": id, "type": "tool_result", "content": call.content}
        if call.error or call.name == "Bash":
            block["is_error"] = call.error
        after: Json = {"toolUseResult": call.structured}
        if self._place.agent_id is not None and not self._family.newest:
            after = {}  # from 2.0.76 to 2.1.63 the files of agents keep no structured results
        if self._family.tree:
            self._parent = source
            after["sourceToolAssistantUUID"] = source
        self._user([block], after)

    def _user(self, content: str | list[Json], after: Json | None = None) -> None:
        before = {"promptId": self._uuid()} if self._family.newest else {}
        self._node({**before, "type": "user", "message": {"role": "user", "content": content}}, after)

    def _afterwards(self) -> None:
        for _ in range(self._often(self._family.systems)):
            hooks = [{"command": f"sh -c '{self._words.prose(60)}'"}]
            stop = {"subtype": "stop_hook_summary", "hookCount": 1, "hookInfos": hooks, "hookErrors": []}
            self._node({"type": "system", **stop, "preventedContinuation": False, "level": "suggestion"})
        for _ in range(self._often(self._family.queued)):
            queued = {"type": "queue-operation", "operation": "enqueue", "timestamp": self._tick()}
            self._add({**queued, "sessionId": self._place.session_id, "content": self._words.prose(80)})

    def _thoughts(self, chance: float) -> list[Json]:
        if self._random.random() > chance:
            return []
        withheld = self._family.newest and self._random.random() < 0.4
        text = "" if withheld else self._words.prose(self._words.size(450, 0.9, 20_000))
        signature = self._words.base64(self._words.size(800, 0.9, 20_000))
        return [{"type": "thinking", "thinking": text, "signature": signature}]

    def _texts(self, chance: float) -> list[Json]:
        if self._random.random() > chance:
            return []
        return [{"type": "text", "text": self._words.prose(self._words.size(300, 1.2, 30_000))}]

    def _envelope(self) -> tuple[Json, Json]:
        """Return what begins a line after its parent, and what ends it."""
        folder, session_id, agent_id = self._place
        side = {"isSidechain": agent_id is not None}
        agent = {} if agent_id is None else {"agentId": agent_id}
        where = {
            "cwd": folder,
            "sessionId": session_id,
            "version": self._random.choice(self._family.versions),
            "gitBranch": f"feat/{self._words.name()}",
        }
        if self._family.newest:
            return side | agent, {"userType": "external", "entrypoint": "cli", **where}
        slug = f"{self._words.word()}-{self._words.word()}-{self._words.word()}"
        return {**side, "userType": "external", **where, **agent, "slug": slug}, {}

    def _node(self, body: Json, after: Json | None = None) -> str:
        """Write a line of the conversation graph, a child of the one before; return its uuid."""
        uuid = self._uuid()
        place = {"uuid": uuid, "timestamp": self._tick()}
        self._add({"parentUuid": self._parent, **self._head, **body, **place, **(after or {}), **self._tail})
        self._parent = uuid
        return uuid

    def _add(self, line: Json) -> None:
        self.lines.append(_encode(line) + b"\n")

    def _often(self, rate: float) -> int:
        """Return a whole number; their mean is the rate."""
        return int(rate + self._random.random())

    def _uuid(self) -> str:
        text = f"{self._random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def _id(self, prefix: str) -> str:
        return f"{prefix}{self._random.getrandbits(88):022x}"

    def _tick(self) -> str:
        self._clock += self._random.random() * 4
        return datetime.fromtimestamp(self._clock, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
