"""An index of a session file that grows line by line: which turns it has, where they begin, and what is in them.

A line is looked at and let go. Its content is read again from its offset when it is shown, so that a session of 200 MB
takes little memory, and a page of it little time.

Rules
  1. Where a reading stops does not matter: after all lines of a file the index is the same, in however many steps.
  2. A turn is a range of the file, from its prompt to the next. It is split into chunks of about `CHUNK_STEPS` steps;
     a chunk begins with a new message, so that the lines of one response stay together.
  3. A tool call belongs to the turn that made it, with its errors and changes, wherever its result stands.
  4. Where turns begin is decided by `graph/prompts.py`. A queued prompt that a later line repeats or takes back is
     no turn: its turn joins the one before. A command may turn out to have begun one only some lines later.
  5. What fills the context is counted in bytes, because only the API counts tokens. `chart.py` estimates tokens from
     them and says that it does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import msgspec

from unspool.export import Depth, describe_calls, describe_lines, diff_lines
from unspool.format import (
    AgentProgress,
    AnyBlock,
    Assistant,
    Attachment,
    Blank,
    Document,
    Entry,
    Image,
    Item,
    Progress,
    QueuedCommand,
    System,
    Text,
    ToolResult,
    ToolUse,
    User,
    attachments,
)
from unspool.format import meta_records as notes
from unspool.format.tools import AGENT_TOOLS, EDIT_TOOLS, AgentInput, parse_input
from unspool.graph import (
    BranchIndex,
    FactsCollector,
    RepeatedBlocks,
    SessionFacts,
    Speaker,
    ToolCall,
    TurnChange,
    TurnStart,
    add_entry_facts,
    classify_user_record,
    find_target_path,
    first_text,
    is_boundary,
    parse_task_notification,
)
from unspool.prices import LineCounter, ResponseCounter, add_entry

CHUNK_STEPS = 150
"""Steps after which the next message begins a new chunk."""
IMAGE_BYTES = 5_000
"""About as many bytes of text as an image takes in tokens."""
PROMPT_CHARACTERS = 400
"""How much of a prompt the outline keeps."""
_BASE64_MARK = b'"base64"'
_FILE_TOOLS = EDIT_TOOLS | {"Read"}
_QUIET_RECORDS = frozenset(
    {notes.CustomTitle, notes.AiTitle, notes.TaskSummary, notes.Tag, notes.Mode, notes.PermissionMode, notes.LastPrompt,
     notes.FileHistorySnapshot, notes.FileHistoryDelta, notes.AttributionSnapshot, notes.CostState, notes.ApiRequest,
     notes.ApiRequestShape, notes.ApiRequestBlob, notes.ToolsUsed}
)  # fmt: skip
"""Records that begin no turn and are shown at the greatest depth only: most of them need not be looked at."""
_QUIET_ATTACHMENTS = frozenset(
    {attachments.Environment, attachments.ModelIdentity, attachments.Date, attachments.DateChange,
     attachments.SessionContext, attachments.PromptSnapshot, attachments.SkillListing, attachments.DynamicSkill,
     attachments.AgentListingDelta, attachments.DeferredToolsDelta, attachments.McpInstructionsDelta,
     attachments.TaskReminder, attachments.TodoReminder, attachments.TotalTokensReminder,
     attachments.SilentTurnReminder}
)  # fmt: skip


# Field names of these structs are keys of the index cache on disk (`index_cache.py`): a new name needs a new edition.


class ContextBytes(msgspec.Struct):
    """Bytes that a turn put into the context, by category and by file."""

    kinds: dict[str, int] = {}
    files: dict[str, int] = {}

    def add_answer(self, blocks: Iterable[AnyBlock]) -> None:
        """Count text and tool inputs of an answer, but no thinking: it is not sent again."""
        for block in blocks:
            if isinstance(block, Text):
                _add(self.kinds, "answers", len(block.text))
            elif isinstance(block, ToolUse):
                size = _input_size(block.input)
                _add(self.kinds, "tool inputs", size)
                if block.name in _FILE_TOOLS and (path := find_target_path(block.input)):
                    _add(self.files, path, size)

    def add_prompt(self, blocks: Iterable[AnyBlock], author: Speaker) -> None:
        """Count what is written in the user's name."""
        kinds = {Speaker.HUMAN: "prompts", Speaker.PLAN: "prompts", Speaker.AGENT: "prompts"}
        kinds[Speaker.SUMMARY] = "summaries"
        for block in blocks:
            if isinstance(block, Text):
                _add(self.kinds, kinds.get(author, "reminders"), len(block.text))
            elif isinstance(block, Image | Document):
                _add(self.kinds, "images", IMAGE_BYTES)

    def add_result(self, call: IndexedCall, block: ToolResult) -> None:
        """Count a tool result."""
        encoded = memoryview(block.encoded_content)
        size = encoded.nbytes
        # Most results are counted as encoded: only those with base64 are worth decoding.
        if not block.is_text and _BASE64_MARK in bytes(encoded):
            images = sum(isinstance(inner, Image | Document) for inner in block.blocks)
            size = sum(len(inner.text) for inner in block.blocks if isinstance(inner, Text))
            _add(self.kinds, "images", IMAGE_BYTES * images)
        _add(self.kinds, f"results of {call.name}" if call.name else "results", size)
        if path := call.path or call.read_path:
            _add(self.files, path, size)

    def add_attachment(self, entry: Entry) -> None:
        """Count what Claude Code puts beside the conversation."""
        # Without the end of the line, which a line that is still being written does not have yet.
        _add(self.kinds, "attachments", len(bytes(entry.raw).rstrip(b"\r\n")))

    def clear(self) -> None:
        """Begin anew: after a compaction nothing of what came before is sent."""
        self.kinds, self.files = {}, {}

    def add_all(self, other: ContextBytes) -> None:
        """Add the counts of another turn."""
        _add_all(self.kinds, other.kinds)
        _add_all(self.files, other.files)


class TurnChunk(msgspec.Struct):
    """A range of a turn."""

    start: int
    steps: int = 0
    """About how many rows it has at the default depth."""
    characters: int = 0
    """Of the text that its rows show."""


class IndexedCompaction(msgspec.Struct, frozen=True):
    """Where the conversation was compacted, and how many tokens it had before and after."""

    offset: int
    before: int | None = None
    after: int | None = None
    trigger: str | None = None


class IndexedTurn(msgspec.Struct):
    """A turn: where it begins and what is in it."""

    start: int
    chunks: list[TurnChunk]
    prompt: str = ""
    kind: str = ""
    """What it begins with: `human`, `queued`, `plan` or `command`; nothing for what comes before the first."""
    time: str | None = None
    last: str | None = None
    """The time of its last message."""
    tools: dict[str, int] = {}
    errors: int = 0
    added: int = 0
    removed: int = 0
    compacted: list[IndexedCompaction] = []
    content: ContextBytes = msgspec.field(default_factory=ContextBytes)
    """What it put into the context."""

    @property
    def queued(self) -> bool:
        """Whether its prompt waited in the queue."""
        return self.kind == Speaker.QUEUED.value

    def merge(self, later: IndexedTurn) -> None:
        """Append a turn that turned out to be none of its own."""
        first, *rest = later.chunks
        self.chunks[-1].steps += first.steps
        self.chunks[-1].characters += first.characters
        self.chunks += rest
        self.last = later.last or self.last
        _add_all(self.tools, later.tools)
        self.errors += later.errors
        self.added += later.added
        self.removed += later.removed
        self.compacted = [*self.compacted, *later.compacted]
        self.content.add_all(later.content)


class IndexedCall(msgspec.Struct):
    """A tool call: where it and its result stand (offset of the line and number of the block)."""

    name: str = ""
    use: int = -1
    block: int = 0
    result: int = -1
    result_block: int = 0
    failed: bool = False
    path: str | None = None
    """The file it changed."""
    read_path: str | None = None
    """The file it read."""
    alike: bytes = b""
    """A hash of tool and input: the same for calls that ask for the same."""

    @property
    def key(self) -> str:
        """The key of its row."""
        return f"{self.use}.{self.block}" if self.use >= 0 else f"{self.result}.{self.result_block}"


class RelatedCalls:
    """Tool calls of a file by what they have in common."""

    def __init__(self, calls: Iterable[IndexedCall]) -> None:
        self.by_input: dict[bytes, list[IndexedCall]] = {}
        """Those with the same tool and input."""
        self.by_path: dict[str, list[IndexedCall]] = {}
        """Those that changed the same file, in the order in which they stand in the session."""
        for call in calls:
            if call.use >= 0:
                self.by_input.setdefault(call.alike, []).append(call)
                if call.path is not None:
                    self.by_path.setdefault(call.path, []).append(call)
        for changes in self.by_path.values():
            changes.sort(key=lambda call: (call.use, call.block))


class SessionIndex:
    """The index of the lines that were read so far."""

    def __init__(self, file: str) -> None:
        # The first turn is what comes before the first prompt.
        self.turns: list[IndexedTurn] = [IndexedTurn(0, [TurnChunk(0)])]
        # Where turns begin, beside `turns`: a list of numbers can be bisected.
        self.turn_starts: list[int] = [0]
        self.calls: dict[str, IndexedCall] = {}
        # Agents by the ids of the calls that started them.
        self.agents: dict[str, str] = {}
        # Ids of calls that start agents, by the digest of the agent's prompt.
        self.agent_prompts: dict[str, list[str]] = {}
        # Offsets of queued prompts, and of lines that were written before.
        self.queued: set[int] = set()
        self.repeated: set[int] = set()
        # By offset, the blocks of other lines that were written before.
        self.repeated_blocks: dict[int, list[int]] = {}
        # The offset of the first line of each response.
        self.first_lines: dict[str, int] = {}
        self.responses: ResponseCounter[int] = ResponseCounter()
        self.api_errors: list[int] = []
        # Sizes of context windows, as cost records of Claude Code state them.
        self.context_windows: dict[str, int] = {}
        self.is_main = False
        # Lines that cannot be read, records nobody has described, and where the last line ends.
        self.bad = self.unknown = self.end = 0
        # Offsets of calls whose result came, and whether turns were merged, since the view last reset them.
        self.changed: set[int] = set()
        self.was_merged = False
        self.branches = BranchIndex()
        self.fact_collector = FactsCollector()
        self._line_counter = LineCounter(self.responses, 0, file)
        # Hashes of the blocks of answers: Claude Code 2.0 to 2.1.29 appended history again under new uuids.
        self.written: set[int] = set()
        self.last_message: str | None = None

    @property
    def facts(self) -> SessionFacts:
        """Title, times, models and counts of the session."""
        return self.fact_collector.facts()

    @property
    def commands(self) -> set[int]:
        """The offsets of commands with which turns begin."""
        command = Speaker.COMMAND.value  # once: a page asks for each of its batches, of thousands of turns
        return {turn.start for turn in self.turns if turn.kind == command}

    @property
    def has_opening(self) -> bool:
        """Whether anything comes before the first prompt."""
        return bool(self.end) and (len(self.turns) == 1 or self.turns[1].start > 0)

    def turn_at(self, offset: int) -> int:
        """Return the number of the turn that an offset lies in."""
        return bisect_right(self.turn_starts, offset) - 1

    def is_abandoned(self, number: int) -> bool:
        """Tell whether a turn is on a branch that was left."""
        return self.branches.layout().is_abandoned(self.turns[earlier].start for earlier in range(number, 0, -1))

    def chunk_range(self, number: int, chunk: int) -> tuple[int, int]:
        """Return the offsets between which a chunk of a turn lies."""
        chunks = self.turns[number].chunks
        if chunk + 1 < len(chunks):
            return chunks[chunk].start, chunks[chunk + 1].start
        return chunks[chunk].start, self.turns[number + 1].start if number + 1 < len(self.turns) else self.end

    def finish(self) -> None:
        """Count the answer whose lines were added last. More lines may follow all the same."""
        self._line_counter.finish()

    def add(self, item: Item) -> None:
        """Add the next item of the file."""
        if isinstance(item, Blank):
            return
        self.end = item.offset + item.length
        if isinstance(item, Entry):
            self._add_entry(item)
        else:
            self.bad += 1
            self._count_steps(1)

    def _add_entry(self, entry: Entry) -> None:
        record = entry.record
        self.branches.add(entry)
        self._change_turns(add_entry_facts(self.fact_collector, entry))
        if type(record) in _QUIET_RECORDS:
            if isinstance(record, notes.CostState):
                known = record.model_usage.items()
                self.context_windows |= {model: cost.context_window for model, cost in known if cost.context_window}
        elif isinstance(record, Assistant):
            self._add_answer(entry, record)
        else:
            self.last_message = None
            if isinstance(record, User):
                self._add_user(entry, record)
            else:
                self._add_other(entry)

    # answers

    def _add_answer(self, entry: Entry, record: Assistant) -> None:
        add_entry(self._line_counter, entry)
        message, turn = record.message, self.turns[-1]
        if turn.chunks[-1].steps >= CHUNK_STEPS and (message.id is None or message.id != self.last_message):
            turn.chunks.append(TurnChunk(entry.offset))
        self.last_message = message.id
        self.first_lines.setdefault(message.id or record.uuid or "", entry.offset)
        self.is_main = self.is_main or not record.is_sidechain
        repeated = RepeatedBlocks(self.written).add(record)
        if repeated and len(repeated) == len(message.blocks):
            self.repeated.add(entry.offset)
            return
        if repeated:
            self.repeated_blocks[entry.offset] = sorted(repeated)
        turn.last = record.timestamp or turn.last
        if record.is_api_error_message:
            self.api_errors.append(entry.offset)
            turn.errors += 1
        steps = characters = 0
        blocks = [(number, block) for number, block in enumerate(message.blocks) if number not in repeated]
        for number, block in blocks:
            if isinstance(block, ToolUse):
                self._add_use(entry, number, block)
            elif isinstance(block, ToolResult):
                self._add_result(entry, number, block)
            elif isinstance(block, Text):
                characters += len(block.text)
            steps += not isinstance(block, ToolResult)
        turn.content.add_answer(block for _, block in blocks)
        self._count_steps(steps, characters)

    def _add_use(self, entry: Entry, number: int, block: ToolUse) -> None:
        call = self.calls.setdefault(block.id, IndexedCall())
        if call.use >= 0:
            return
        call.name, call.use, call.block = block.name, entry.offset, number
        call.alike = _digest([block.name, block.input])
        if block.name in EDIT_TOOLS:
            call.path = find_target_path(block.input)
        elif block.name in _FILE_TOOLS:
            call.read_path = find_target_path(block.input)
        if block.name in AGENT_TOOLS:
            parsed = parse_input(block.name, block.input)
            if isinstance(parsed, AgentInput) and (parsed.prompt or "").strip():
                self.agent_prompts.setdefault(prompt_digest(parsed.prompt), []).append(block.id)
        _add(self.turns[-1].tools, block.name, 1)

    # what is written in the user's name

    def _add_user(self, entry: Entry, record: User) -> None:
        self.is_main = self.is_main or not record.is_sidechain
        author, blocks = classify_user_record(record), record.message.blocks
        turn = self.turns[-1]
        turn.last = record.timestamp or turn.last
        if author is Speaker.RESULT:
            for number, block in enumerate(blocks):
                if isinstance(block, ToolResult):
                    self._add_result(entry, number, block)
            return
        if author is Speaker.NOTIFICATION and (named := parse_task_notification(first_text(blocks))):
            self.agents.setdefault(named[1], named[0])
        turn.content.add_prompt(blocks, author)
        is_open = author in (Speaker.HUMAN, Speaker.PLAN, Speaker.AGENT)
        characters = sum(len(block.text) for block in blocks if isinstance(block, Text)) if is_open else 0
        self._count_steps(int(author not in (Speaker.META, Speaker.WARMUP)), characters)

    def _add_result(self, entry: Entry, number: int, block: ToolResult) -> None:
        call = self.calls.setdefault(block.tool_use_id, IndexedCall())
        if call.result >= 0:
            return
        call.result, call.result_block, call.failed = entry.offset, number, bool(block.is_error)
        self.changed.add(call.use if call.use >= 0 else entry.offset)
        turn = self.turns[self.turn_at(call.use)] if call.use >= 0 else self.turns[-1]
        turn.errors += call.failed
        turn.content.add_result(call, block)
        paired = ToolCall(ToolUse(id=block.tool_use_id, name=call.name), entry, block, entry)
        if call.name in EDIT_TOOLS and not call.failed:
            added, removed = describe_calls.count_changed_lines(diff_lines(paired))
            turn.added += added
            turn.removed += removed
        elif call.name in AGENT_TOOLS:
            agent = getattr(paired.structured, "agent_id", None)
            if isinstance(agent, str):
                self.agents.setdefault(block.tool_use_id, agent)

    # all other records

    def _add_other(self, entry: Entry) -> None:
        record = entry.record
        match record:
            case Attachment(attachment=QueuedCommand()):
                self.turns[-1].content.add_attachment(entry)
                self._count_steps(1)
                return
            case Attachment(attachment=attachment):
                self.turns[-1].content.add_attachment(entry)
                if type(attachment) in _QUIET_ATTACHMENTS:
                    return
            case Progress(data=AgentProgress(agent_id=str(agent)), parent_tool_use_id=str(call)):
                add_entry(self._line_counter, entry)
                self.agents.setdefault(call, agent)
            case System() as system:
                self._add_system(entry, system)
        described = describe_lines.describe_line(entry)
        self.unknown += described.kind == "unknown"
        self._count_steps(int(described.depth <= Depth.STEPS))

    def _add_system(self, entry: Entry, record: System) -> None:
        turn = self.turns[-1]
        turn.last = record.timestamp or turn.last
        if is_boundary(entry):
            meta = record.compact_metadata
            numbers = (meta.pre_tokens, meta.post_tokens, meta.trigger) if meta else ()
            turn.compacted = [*turn.compacted, IndexedCompaction(entry.offset, *numbers)]
            for earlier in self.turns:
                earlier.content.clear()
        elif record.subtype in ("api_error", "api_refusal"):
            # Shown, but not counted: retries are no errors, only what came after the last one counts, as in `ls`.
            self.api_errors.append(entry.offset)

    # turns and chunks

    def _change_turns(self, change: TurnChange) -> None:
        """Begin a turn, and merge those of queued prompts that turned out to be none into the ones before (rule 4)."""
        for offset in change.dropped:
            number = bisect_left(self.turn_starts, offset)
            if number < len(self.turns) and self.turn_starts[number] == offset:
                turn = self.turns.pop(number)
                del self.turn_starts[number]
                self.queued.discard(offset)
                self.turns[number - 1].merge(turn)
                self.was_merged = True
        if change.began is not None:
            self._begin_turn(change.began)

    def _begin_turn(self, start: TurnStart) -> None:
        offset, kind, text, time, _ = start
        if kind is Speaker.QUEUED:
            self.queued.add(offset)
        before = self.turns[-1]
        # A command that turned out to begin a turn stands some lines before; chunks after it are of its turn.
        chunks = [TurnChunk(offset), *(chunk for chunk in before.chunks if chunk.start > offset)]
        before.chunks = [chunk for chunk in before.chunks if chunk.start <= offset] or [TurnChunk(before.start)]
        self.turns.append(IndexedTurn(offset, chunks, text[:PROMPT_CHARACTERS], kind.value, time, time))
        self.turn_starts.append(offset)

    def _count_steps(self, steps: int, characters: int = 0) -> None:
        chunk = self.turns[-1].chunks[-1]
        chunk.steps += steps
        chunk.characters += characters


def prompt_digest(text: str) -> str:
    """Return the key of an agent's prompt in `SessionIndex.agent_prompts`."""
    return _digest(text.strip()).hex()


def _digest(value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, RecursionError, TypeError, msgspec.MsgspecError):  # lone surrogates, endless nesting
        data = repr(value).encode(errors="backslashreplace")
    return blake2b(data, digest_size=16).digest()


def _add(counts: dict[str, int], name: str, number: int) -> None:
    counts[name] = counts.get(name, 0) + number


def _add_all(counts: dict[str, int], others: dict[str, int]) -> None:
    for name, number in others.items():
        _add(counts, name, number)


def _input_size(value: object) -> int:
    if isinstance(value, dict):
        return sum(len(str(key)) + len(inner) if isinstance(inner, str) else 16 for key, inner in value.items())
    return len(value) if isinstance(value, str) else 16
