"""What a page remembers of a file: lines in, one at a time; out which turns there are, where, and what is in them.

A line is looked at and let go. What it says is read again from its place when somebody wants to see it, so that a
session of 200 MB takes little memory, and a page of it little time.

Rules
  1. Where a reading stops does not matter: after all lines of a file the index is the same, in however many goes.
  2. A turn is a stretch of the file, from its prompt to the next. It is told in chunks of about `CHUNK` steps, which
     begin with a new message: what belongs together is not torn apart.
  3. A call belongs to the turn in which it was asked for, with its errors and changes, wherever its result stands.
  4. A queued prompt that a later line repeats is none (`graph/turns.py`, rule 1): its turn joins the one before.

[merged: content.py] What fills the context, by category and by file: blocks in, numbers of bytes out.

Bytes, for nobody but the API counts tokens. `filling.py` makes an estimate of them and says so.

[merged: parts.py] The parts of a file as an index remembers them: turns, their chunks, the calls in them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from unspool.export import describe_lines as marks
from unspool.export.depth import Depth
from unspool.export.describe_calls import diff
from unspool.format import attachments
from unspool.format import meta_records as notes
from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import AnyBlock, Document, Image, Text, ToolResult, ToolUse, as_blocks
from unspool.format.entry import BadLine, Blank, Entry, Item
from unspool.format.meta_records import QueueOperation
from unspool.format.progress import AgentProgress
from unspool.format.records import Assistant, Attachment, Progress, System, User
from unspool.format.tools.agents import AgentInput
from unspool.format.tools.parse import parse_input
from unspool.graph import session_facts_from_entries as facts
from unspool.graph.branch_index import Branches
from unspool.graph.session_facts import Gathering
from unspool.graph.speakers import Speaker, is_typed
from unspool.graph.threads import is_boundary
from unspool.graph.tool_calls import ToolCall
from unspool.graph.turns import is_prompt, speaker, text_of, typed_text
from unspool.prices.from_entries import take_entry
from unspool.prices.line_counter import Tally
from unspool.prices.responses import Counting

PICTURE = 5_000
"""About as many bytes of text as a picture takes in tokens."""
_ENCODED = b'"base64"'
_FILES = frozenset({"Read", "Edit", "Write", "MultiEdit", "NotebookEdit"})


class Content(msgspec.Struct):
    """Bytes by category, and by file."""

    kinds: dict[str, int] = {}
    files: dict[str, int] = {}

    def answer(self, blocks: Iterable[AnyBlock]) -> None:
        """Take an answer. Thinking is not sent again."""
        for block in blocks:
            if isinstance(block, Text):
                self._add("answers", len(block.text))
            elif isinstance(block, ToolUse):
                size = _size(block.input)
                self._add("tool inputs", size)
                path = block.input.get("file_path") if isinstance(block.input, dict) else None
                if isinstance(path, str) and block.name in _FILES:
                    self.files[path] = self.files.get(path, 0) + size

    def prompt(self, record: User, who: Speaker) -> None:
        """Take what is said in the user's name."""
        kind = {Speaker.HUMAN: "prompts", Speaker.AGENT: "prompts", Speaker.SUMMARY: "summaries"}.get(who, "reminders")
        for block in record.message.blocks:
            if isinstance(block, Text):
                self._add(kind, len(block.text))
            elif isinstance(block, Image | Document):
                self._add("images", PICTURE)

    def result(self, tool: str, path: str | None, block: ToolResult) -> None:
        """Take what a tool gave back."""
        encoded = memoryview(block.encoded_content)
        size = encoded.nbytes
        if not block.is_text and _ENCODED in bytes(encoded):
            pictures = sum(isinstance(one, Image | Document) for one in block.blocks)
            size = sum(len(one.text) for one in block.blocks if isinstance(one, Text))
            self._add("images", PICTURE * pictures)
        self._add(f"results of {tool}" if tool else "results", size)
        if path:
            self.files[path] = self.files.get(path, 0) + size

    def note(self, entry: Entry) -> None:
        """Take what the program puts beside the conversation."""
        if type(entry.record) is Attachment:
            self._add("attachments", entry.length)

    def forget(self) -> None:
        """Begin anew: the conversation was compacted."""
        self.kinds, self.files = {}, {}

    def join(self, other: Content) -> None:
        """Add what another has."""
        for kind, size in other.kinds.items():
            self._add(kind, size)
        for path, size in other.files.items():
            self.files[path] = self.files.get(path, 0) + size

    def _add(self, kind: str, size: int) -> None:
        self.kinds[kind] = self.kinds.get(kind, 0) + size


def _size(value: object) -> int:
    if isinstance(value, dict):
        return sum(len(str(key)) + len(one) if isinstance(one, str) else 16 for key, one in value.items())
    return len(value) if isinstance(value, str) else 16


CHUNK = 150
"""Steps."""
PROMPT = 400
"""How many characters of a prompt the outline keeps."""


class Chunk(msgspec.Struct):
    """A stretch of a turn."""

    start: int
    steps: int = 0
    """How many rows it has at the usual depth, about."""
    characters: int = 0
    """Of what is shown open."""


class Compacted(msgspec.Struct, frozen=True):
    """Where the conversation was compacted."""

    offset: int
    before: int | None = None
    after: int | None = None
    trigger: str | None = None


class Part(msgspec.Struct):
    """A turn: where it begins and what is in it."""

    start: int
    chunks: list[Chunk]
    prompt: str = ""
    queued: bool = False
    time: str | None = None
    last: str | None = None
    """The time of its last message."""
    tools: dict[str, int] = {}
    errors: int = 0
    added: int = 0
    removed: int = 0
    compacted: list[Compacted] = []
    content: Content = msgspec.field(default_factory=Content)
    """What it put into the context."""


class Called(msgspec.Struct):
    """A tool call: where it and its result stand."""

    name: str = ""
    use: int = -1
    block: int = 0
    result: int = -1
    result_block: int = 0
    failed: bool = False
    path: str | None = None
    """The file it changed."""
    alike: bytes = b""
    """A hash of tool and input: calls that ask for the same have the same."""

    @property
    def key(self) -> str:
        """What its row is known by."""
        return f"{self.use}.{self.block}" if self.use >= 0 else f"{self.result}.{self.result_block}"


def join(part: Part, other: Part) -> None:
    """Let a turn go on with what was taken for another."""
    first, *rest = other.chunks
    part.chunks[-1].steps += first.steps
    part.chunks[-1].characters += first.characters
    part.chunks += rest
    part.last = other.last or part.last
    for name, count in other.tools.items():
        part.tools[name] = part.tools.get(name, 0) + count
    part.errors += other.errors
    part.added += other.added
    part.removed += other.removed
    part.compacted = [*part.compacted, *other.compacted]
    part.content.join(other.content)


_AGENTS = frozenset({"Task", "Agent"})
_CHANGES = frozenset({"Edit", "Write", "MultiEdit"})
_QUIET = frozenset(
    {notes.CustomTitle, notes.AiTitle, notes.TaskSummary, notes.Tag, notes.Mode, notes.PermissionMode, notes.LastPrompt,
     notes.FileHistorySnapshot, notes.FileHistoryDelta, notes.AttributionSnapshot, notes.CostState, notes.ApiRequest,
     notes.ApiRequestShape, notes.ApiRequestBlob, notes.ToolsUsed}
)  # fmt: skip
"""Lines that begin no turn and are told at the greatest depth only: most of them need not be looked at."""
_QUIET_ATTACHMENTS = frozenset(
    {attachments.Environment, attachments.Model, attachments.Date, attachments.DateChange, attachments.SessionContext,
     attachments.PromptSnapshot, attachments.SkillListing, attachments.DynamicSkill, attachments.AgentListingDelta,
     attachments.DeferredToolsDelta, attachments.McpInstructionsDelta, attachments.TaskReminder,
     attachments.TodoReminder, attachments.TotalTokensReminder, attachments.SilentTurnReminder}
)  # fmt: skip


class Index:
    """What was seen of a file so far."""

    def __init__(self, file: str) -> None:
        # The first is what comes before the first prompt.
        self.parts: list[Part] = [Part(0, [Chunk(0)])]
        self.calls: dict[str, Called] = {}
        # Agents by the calls that started them.
        self.agents: dict[str, str] = {}
        # The calls that start agents, by a hash of what they ask for.
        self.prompts: dict[str, list[str]] = {}
        self.queued: set[int] = set()
        self.repeated: set[int] = set()
        # Where the first line of each response stands.
        self.firsts: dict[str, int] = {}
        self.counting: Counting[int] = Counting()
        # Where API errors stand.
        self.errors: list[int] = []
        # How many tokens models take, as the program says.
        self.windows: dict[str, int] = {}
        self.is_main = False
        # How many lines nobody can read, how many nobody has described, and where the last one ends.
        self.bad = self.unknown = self.end = 0
        # Where calls stand whose result came since this was last emptied.
        self.changed: set[int] = set()
        # Whether a turn has joined another since this was last set back.
        self.was_joined = False
        self.branches = Branches()
        # What the session is about, as far as it was seen.
        self.gathering = Gathering()
        self._tally = Tally(self.counting, 0, file)
        # Where queued prompts stand that no line has repeated yet, by a hash of their words.
        self.waiting: dict[bytes, list[int]] = {}
        # Hashes of the lines of answers.
        self.written: set[int] = set()
        # The answer whose lines came last.
        self.message: str | None = None
        # Where the parts begin.
        self.starts: list[int] = [0]

    @property
    def cwd(self) -> str | None:
        """The folder it worked in."""
        return self.gathering.cwd

    @property
    def facts(self) -> facts.Facts:
        """What the session is about."""
        found = self.gathering.facts()
        turns = len(self.parts) - 1
        if found.titled_by in ("prompt", "nobody") and turns:
            first = next((part.prompt.strip() for part in self.parts[1:] if part.prompt.strip()), "")
            title = " ".join(first.split())[:200]
            found = msgspec.structs.replace(found, title=title, titled_by="prompt" if title else "nobody")
        return msgspec.structs.replace(found, turns=turns)

    @property
    def has_opening(self) -> bool:
        """Whether anything comes before the first prompt."""
        return bool(self.end) and (len(self.parts) == 1 or self.parts[1].start > 0)

    def part_at(self, offset: int) -> int:
        """Return the number of the turn that a place lies in."""
        return bisect_right(self.starts, offset) - 1

    def range_of(self, number: int) -> tuple[int, int]:
        """Return where a turn begins and ends."""
        end = self.parts[number + 1].start if number + 1 < len(self.parts) else self.end
        return self.parts[number].start, end

    def finish(self) -> None:
        """Count the answer whose lines were taken last. More lines may follow all the same."""
        self._tally.finish()

    def take(self, item: Item) -> None:
        """Look at the next item of the file."""
        match item:
            case Blank():
                return
            case BadLine(offset=offset, length=length):
                self.end = offset + length
                self.bad += 1
                self._step(1, 0)
            case Entry():
                self.end = item.offset + item.length
                self._entry(item)

    def _entry(self, entry: Entry) -> None:
        record = entry.record
        kind = type(record)
        self.branches.take(entry)
        if kind in _QUIET:
            if isinstance(record, notes.CostState):
                known = record.model_usage.items()
                self.windows |= {model: cost.context_window for model, cost in known if cost.context_window}
            facts.take(self.gathering, entry)
            return
        if kind is not QueueOperation:  # whoever counts those compares each with all that are waiting
            facts.take(self.gathering, entry)
        if kind is Assistant:
            assert isinstance(record, Assistant)
            self._answer(entry, record)
        elif kind is User:
            assert isinstance(record, User)
            self._user(entry, record)
        else:
            self._other(entry)

    # answers

    def _answer(self, entry: Entry, record: Assistant) -> None:
        take_entry(self._tally, entry)
        message, part = record.message, self.parts[-1]
        if message.id is None or message.id != self.message:
            self._begin_chunk(entry.offset)
        self.message = message.id
        self.firsts.setdefault(message.id or record.uuid or "", entry.offset)
        self.is_main = self.is_main or not record.is_sidechain
        if self._was_written(message.id, record.timestamp, message.content):
            self.repeated.add(entry.offset)
            return
        part.last = record.timestamp or part.last
        if record.is_api_error_message:
            self.errors.append(entry.offset)
            part.errors += 1
        steps = characters = 0
        for number, block in enumerate(message.blocks):
            if isinstance(block, ToolUse):
                self._use(entry, number, block)
            elif isinstance(block, ToolResult):
                self._result(entry, number, block)
            elif isinstance(block, Text):
                characters += len(block.text)
            steps += not isinstance(block, ToolResult)
        part.content.answer(message.blocks)
        self._step(steps, characters)

    def _use(self, entry: Entry, number: int, block: ToolUse) -> None:
        called = self.calls.setdefault(block.id, Called())
        if called.use >= 0:
            return
        called.name, called.use, called.block = block.name, entry.offset, number
        called.alike = _digest([block.name, block.input])
        if block.name in _CHANGES and isinstance(block.input, dict):
            path = block.input.get("file_path")
            called.path = path if isinstance(path, str) else None
        if block.name in _AGENTS:
            given = parse_input(block.name, block.input)
            if isinstance(given, AgentInput) and (given.prompt or "").strip():
                self.prompts.setdefault(_words(given.prompt), []).append(block.id)
        part = self.parts[-1]
        part.tools[block.name] = part.tools.get(block.name, 0) + 1

    # what is written in the user's name

    def _user(self, entry: Entry, record: User) -> None:
        self.is_main = self.is_main or not record.is_sidechain
        self.message = None
        who = speaker(record)
        self._said(text_of(record.message.blocks))
        if who is Speaker.HUMAN:
            self._begin(entry, typed_text(record.message.blocks), queued=False)
        part = self.parts[-1]
        part.last = record.timestamp or part.last
        if who is Speaker.RESULT:
            for number, block in enumerate(record.message.blocks):
                if isinstance(block, ToolResult):
                    self._result(entry, number, block)
            return
        part.content.prompt(record, who)
        characters = sum(len(block.text) for block in record.message.blocks if isinstance(block, Text))
        told = who not in (Speaker.META, Speaker.WARMUP)
        self._step(int(told), characters if who in (Speaker.HUMAN, Speaker.AGENT) else 0)

    def _result(self, entry: Entry, number: int, block: ToolResult) -> None:
        called = self.calls.setdefault(block.tool_use_id, Called())
        if called.result >= 0:
            return
        called.result, called.result_block, called.failed = entry.offset, number, bool(block.is_error)
        self.changed.add(called.use if called.use >= 0 else entry.offset)
        part = self.parts[self.part_at(called.use)] if called.use >= 0 else self.parts[-1]
        part.errors += called.failed
        part.content.result(called.name, called.path, block)
        call = ToolCall(ToolUse(id=block.tool_use_id, name=called.name), entry, block, entry)
        if called.name in _CHANGES and not called.failed:
            lines = diff(call)
            part.added += sum(line.startswith("+") for line in lines)
            part.removed += sum(line.startswith("-") for line in lines)
        elif called.name in _AGENTS:
            agent = getattr(call.structured, "agent_id", None)
            if isinstance(agent, str):
                self.agents.setdefault(block.tool_use_id, agent)

    # all else

    def _other(self, entry: Entry) -> None:
        record = entry.record
        self.message = None
        match record:
            case Attachment(attachment=QueuedCommand() as queued):
                words = text_of(as_blocks(queued.prompt))
                self._said(words)
                if is_prompt(queued):
                    self._begin(entry, words, queued=True)
                self.parts[-1].content.note(entry)
                self._step(1, 0)
                return
            case QueueOperation(operation="enqueue", content=content) if content:
                words = text_of(as_blocks(content))
                if is_typed(words):
                    self.waiting.setdefault(_digest(words.strip()), []).append(entry.offset)
                    self._begin(entry, words, queued=True)
            case Progress(data=AgentProgress(agent_id=str(agent)), parent_tool_use_id=str(call)):
                take_entry(self._tally, entry)
                self.agents.setdefault(call, agent)
            case System() as system:
                self._system(entry, system)
            case _:
                pass
        if type(record) is Attachment:
            self.parts[-1].content.note(entry)
            if type(record.attachment) in _QUIET_ATTACHMENTS:
                return
        told = marks.noted(entry)
        self.unknown += told.kind == "unknown"
        self._step(int(told.depth <= Depth.STEPS), 0)

    def _system(self, entry: Entry, record: System) -> None:
        part = self.parts[-1]
        part.last = record.timestamp or part.last
        if is_boundary(entry):
            done = record.compact_metadata
            numbers = (done.pre_tokens, done.post_tokens, done.trigger) if done else (None, None, None)
            part.compacted = [*part.compacted, Compacted(entry.offset, *numbers)]
            for earlier in self.parts:
                earlier.content.forget()
        elif record.subtype in ("api_error", "api_refusal"):
            self.errors.append(entry.offset)  # shown, not counted: what came after the last try counts, as in `ls`

    # turns and chunks

    def _begin(self, entry: Entry, words: str, *, queued: bool) -> None:
        """Begin a turn."""
        prompt, time = words[:PROMPT], entry.record.timestamp
        part = Part(entry.offset, [Chunk(entry.offset)], prompt, queued, time, time)
        if queued:
            self.queued.add(entry.offset)
        self.parts.append(part)
        self.starts.append(entry.offset)

    def _said(self, words: str) -> None:
        """Take back the queued prompts that a line repeats (rule 4)."""
        if self.waiting:
            for offset in self.waiting.pop(_digest(words.strip()), ()):
                number = self.starts.index(offset)
                part = self.parts.pop(number)
                del self.starts[number]
                self.queued.discard(offset)
                join(self.parts[number - 1], part)
                self.was_joined = True

    def _begin_chunk(self, offset: int) -> None:
        chunks = self.parts[-1].chunks
        if chunks[-1].steps >= CHUNK:
            chunks.append(Chunk(offset))

    def _step(self, steps: int, characters: int) -> None:
        chunk = self.parts[-1].chunks[-1]
        chunk.steps += steps
        chunk.characters += characters

    def _was_written(self, id: str | None, time: str | None, content: Any) -> bool:
        """Tell whether a line of the same message, moment and content was there before."""
        if id is None or time is None:
            return False
        mark = int.from_bytes(_digest([id, time, content])[:8], "little")
        if mark in self.written:
            return True
        self.written.add(mark)
        return False


def prompt_digest(words: str) -> str:
    """Return what an agent's prompt is known by in `Index.prompts`."""
    return _words(words)


def _words(words: str) -> str:
    return _digest(words.strip()).hex()


def _digest(value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError, TypeError, msgspec.MsgspecError):  # lone surrogates, no end of depth
        data = repr(value).encode(errors="backslashreplace")
    return blake2b(data, digest_size=16).digest()
