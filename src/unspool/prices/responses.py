"""Counts billed responses, each once, from assistant lines of any number of files.

Every line of an API message repeats its usage, and resumed sessions, forks, replayed sidechains and progress lines
repeat the lines.

Rules for one line
  1. A response is identified by its `message.id`. The request id plays no part: a replay may carry a new one, other
     vendors send none. A line without a message id is identified by its uuid, one without either by its bytes.
  2. The model `<synthetic>` is Claude Code itself: nothing was billed.
  3. Cache writes are split into 5 minutes and 1 hour where the parts add up to the whole; else all are 5 minutes.
  4. A progress line that repeats a sub-agent's response counts like the agent's own line: that may be gone.
  5. Where no stop reason says that the output is final, the approximate size of the content is kept, to estimate from.

Rules for several lines
  6. One line of a response counts, with all its numbers: the one with the most output tokens; then one of the main
     chain before a sidechain's; then the one with the most other tokens; then an agent's own line before a progress
     line that repeats it; then one in the file named after its session or agent that was not forked from another;
     then the earliest; then source and offset decide.
  7. A response is dated by the earliest of its lines, and final when any of them has a stop reason; if none has, the
     output may be a count from the beginning of the stream.
  8. The order of lines and of files changes nothing; nor does it matter whether results are merged line by line or
     file by file.
  9. `LineCounter` gives what `response_of_line` and `ResponseCounter.add` give for every line, with less work: lines
     of a response that follow each other are taken as one, if only their output and content are new and they come in
     the order of their times. Only the line that counts becomes a `Response`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from unspool.format import (
    DECODE_ERRORS,
    MAX_TOKENS,
    BilledLine,
    BilledUsage,
    Buffer,
    bound_tokens,
    decode_text_line,
    parse_timestamp,
)

if TYPE_CHECKING:
    from unspool.format import Assistant

SYNTHETIC = "<synthetic>"

ENVELOPE_BYTES = 800
"""Bytes of an assistant line that are not content, give or take fifty. Measured on 3,085 lines without a stop reason:
727 on average in Claude Code 1.0, 772 in 2.0, 842 in 2.1."""


class Response(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One billed response, with the numbers of the line that counts."""

    id: str
    """Message id, uuid or digest of the line (rule 1)."""
    request_id: str | None = None
    model: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: str | None = None
    """Of the earliest line."""
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    final: bool = False
    size: int = 0
    """Approximate bytes of content on all lines of a file; 0 if it is final."""
    speed: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    offset: int = 0
    counted_at: str | None = None
    """The timestamp of the line that counts."""
    sidechain: bool = False
    from_progress: bool = False
    """Whether the line that counts is a progress line."""
    in_own_file: bool = False
    """Whether it is in the file named after its session or agent, and was not copied there from another session."""

    @property
    def time(self) -> datetime | None:
        """When its earliest line was written."""
        return parse_timestamp(self.timestamp)

    @property
    def cost_micros(self) -> int | None:
        """The cost in millionths of a US dollar, by the price list; None if the model has no price."""
        from unspool.prices.bill import cost_micros  # few need it
        from unspool.prices.price_list import find_price

        price = find_price(self.model, (self.timestamp or "")[:10] or None)
        return cost_micros(self, price) if price else None

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars, by the price list; None if the model has no price."""
        micros = self.cost_micros
        return None if micros is None else micros / 1_000_000

    @property
    def prompt(self) -> int:
        """How many tokens the request had, cached or not."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


class UnbilledLine(NamedTuple):
    """An assistant line that nothing was billed for."""

    offset: int
    reason: str
    timestamp: str | None = None
    notice: str = ""
    """The text that Claude Code wrote in the model's place, if it is about a usage limit."""


LineSummary: TypeAlias = tuple[str | None, bool, int]
"""Of all lines of a response: the earliest time, whether it is final, and the approximate bytes of content."""

AssistantLine: TypeAlias = "Assistant | BilledLine"


def response_of_line(record: AssistantLine, line: Buffer, offset: int, file_name: str) -> Response | UnbilledLine:
    """Return the response that a line reports, or why nothing was billed.

    `file_name` is the name of its file without the ending.
    """
    message = record.message
    if message.model == SYNTHETIC:
        return UnbilledLine(offset, "synthetic", record.timestamp or None, _notice(line))
    if message.usage is None:
        return UnbilledLine(offset, "no usage", record.timestamp or None)
    final = message.stop_reason is not None
    summary = (record.timestamp, final, 0 if final else max(len(line) - ENVELOPE_BYTES, 0))
    return build_response(record, message.id or record.uuid or _digest(line), offset, file_name, summary)


def build_response(record: AssistantLine, id: str, offset: int, file_name: str, summary: LineSummary) -> Response:
    """Return the response that a line with usage reports."""
    message, time = record.message, record.timestamp or None
    usage = message.usage
    assert usage is not None
    earliest, final, size = summary
    writes, writes_1h, parts = usage.cache_creation_input_tokens, 0, usage.cache_creation
    if not 0 <= writes <= MAX_TOKENS:
        writes = bound_tokens(writes)
    if parts is not None:
        short, long = parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens
        if short + long == writes and short >= 0 and long >= 0:
            writes, writes_1h = short, long
    session, agent = record.session_id or record.session_id_again, record.agent_id
    in_own_file = session == file_name or (agent is not None and f"agent-{agent}" == file_name)
    fresh, output, read = usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens
    searches = usage.server_tool_use
    return Response(  # in the order of its fields: by name it takes three times as long
        id, record.request_id, message.model, session, agent, earliest or None,
        record.cwd, record.git_branch, record.version,
        fresh if 0 <= fresh <= MAX_TOKENS else bound_tokens(fresh),
        output if 0 <= output <= MAX_TOKENS else bound_tokens(output),
        read if 0 <= read <= MAX_TOKENS else bound_tokens(read),
        writes, writes_1h, bound_tokens(searches.web_search_requests) if searches else 0,
        final, size,
        usage.speed, usage.service_tier, usage.inference_geo,
        offset, time, bool(record.is_sidechain), False,
        in_own_file and not record.forked_from,
    )  # fmt: skip


def _notice(line: Buffer) -> str:
    """Return Claude Code's text about a limit, such as `5-hour limit reached ∙ resets 3pm`, or an empty string."""
    try:
        message = decode_text_line(line).message
    except DECODE_ERRORS:
        return ""
    blocks = message.content if message and isinstance(message.content, tuple) else ()
    return next((block.text for block in blocks if "limit" in block.text.lower()), "")


def _digest(line: Buffer) -> str:
    import hashlib  # here for start-up: only lines that Claude Code did not write have no id

    return hashlib.sha256(bytes(line).strip()).hexdigest()


def file_stem(file: str) -> str:
    """Return the name of a session file without folder and ending."""
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")


SourceKey = TypeVar("SourceKey", bound=int | str)
"""How a caller identifies its sources: by number or by path."""
SourceKey_contra = TypeVar("SourceKey_contra", bound=int | str, contravariant=True)


class CountedResponse(NamedTuple, Generic[SourceKey]):
    """A response, the source of the line that counts, and the places of the lines merged into it."""

    source: SourceKey
    response: Response
    merged: tuple[tuple[SourceKey, int], ...]


class ResponseCounter(Generic[SourceKey]):
    """Collects responses from any number of sources and keeps each once."""

    def __init__(self) -> None:
        self._groups: dict[str, _Once[SourceKey] | _Group[SourceKey]] = {}

    def add(self, source: SourceKey, response: Response, others: Sequence[int] = ()) -> None:
        """Add a response as a line or a whole file reports it; `others` are offsets of lines merged into it before."""
        group = self._groups.get(response.id)
        if group is None:
            self._groups[response.id] = (source, response, others)
            return
        if isinstance(group, tuple):
            group = self._groups[response.id] = _Group(*group)
        group.add(source, response, others)

    def responses(self) -> Iterator[tuple[SourceKey, Response]]:
        """Yield each response once, in the order they first appeared, with the source of the line that counts."""
        for group in self._groups.values():
            yield group[:2] if isinstance(group, tuple) else group.result()

    def counted(self) -> Iterator[CountedResponse[SourceKey]]:
        """Yield each response once, with the places of the lines that were merged into it."""
        for group in self._groups.values():
            if isinstance(group, tuple):
                source, response, others = group
                yield CountedResponse(source, response, tuple((source, offset) for offset in others))
            else:
                yield CountedResponse(*group.result(), tuple(sorted(group.others)))


_Once: TypeAlias = tuple[SourceKey, Response, Sequence[int]]
"""What is known of a response that was summary of once, as most are; with nothing to compare, no more is needed."""


def count_once(reported: Iterable[tuple[SourceKey, Response]]) -> list[CountedResponse[SourceKey]]:
    """Return each response once, whichever sources have it, in the order they first appear."""
    counter = ResponseCounter[SourceKey]()
    for source, response in reported:
        counter.add(source, response)
    return list(counter.counted())


class _Group(Generic[SourceKey]):
    """The reports of one response so far."""

    __slots__ = ("_best", "_earliest", "_final", "_sizes", "_source", "others")

    def __init__(self, source: SourceKey, response: Response, others: Sequence[int]) -> None:
        self._source, self._best = source, response
        self._earliest, self._final = response.timestamp, response.final
        self.others: list[tuple[SourceKey, int]] = [(source, offset) for offset in others]
        self._sizes: dict[SourceKey, int] = {source: response.size}
        """The size in each source."""

    def add(self, source: SourceKey, response: Response, others: Sequence[int]) -> None:
        self.others += [(source, offset) for offset in others]
        if _takes_precedence(source, response, self._source, self._best):
            self.others.append((self._source, self._best.offset))
            self._source, self._best = source, response
        else:
            self.others.append((source, response.offset))
        if _is_earlier(response.timestamp, self._earliest):
            self._earliest = response.timestamp
        self._final = self._final or response.final
        self._sizes[source] = self._sizes.get(source, 0) + response.size

    def result(self) -> tuple[SourceKey, Response]:
        size = 0 if self._final else max(self._sizes.values())
        return self._source, replace(self._best, timestamp=self._earliest, final=self._final, size=size)


def _takes_precedence(source: SourceKey, response: Response, other_source: SourceKey, other: Response) -> bool:
    """Tell whether the first of two reports counts (rule 6)."""
    if response.output != other.output:
        return response.output > other.output
    rank, other_rank = _rank(response), _rank(other)
    if rank != other_rank:
        return rank < other_rank
    if response.counted_at != other.counted_at:
        return _is_earlier(response.counted_at, other.counted_at)
    return (source, response.offset) < (other_source, other.offset)


def _rank(response: Response) -> tuple[bool, int, int, bool, bool]:
    return (
        response.sidechain,
        -response.prompt,
        -response.web_searches,
        response.from_progress,
        not response.in_own_file,
    )


def _is_earlier(timestamp: str | None, other: str | None) -> bool:
    """Tell whether a timestamp is earlier, whatever its offset. None comes last; equal times compare as text."""
    if timestamp == other:
        return False
    time, other_time = parse_timestamp(timestamp), parse_timestamp(other)
    if time is None or other_time is None or time == other_time:
        return (time is None, timestamp or "") < (other_time is None, other or "")
    return time < other_time


class ReportTaker(Protocol[SourceKey_contra]):
    """Takes responses as lines report them: a `ResponseCounter`, or what passes them on to one."""

    def add(self, source: SourceKey_contra, response: Response, others: Sequence[int] = (), /) -> None:
        """Take a response, and the offsets of lines that were merged into it before."""


class LineCounter(Generic[SourceKey]):
    """Counts the responses of one file, line by line (rule 9)."""

    def __init__(self, counter: ReportTaker[SourceKey], source: SourceKey, file: str) -> None:
        self._counter, self._source, self.file = counter, source, file
        self._file_name = file_stem(file)
        self.unbilled: list[UnbilledLine] = []
        # The response whose lines are being taken; the fields below describe it and are set while `_id` is.
        self._id: str | None = None
        self._best: AssistantLine
        self._usage: BilledUsage
        self._offset: int
        self._others: list[int]
        """Offsets of its lines that do not count."""
        self._first: str | None
        """The timestamp of its first line."""
        self._last: str | None
        """The timestamp of its last line."""
        self._last_time: datetime | None
        """The same, parsed, if it had to be."""
        self._final: bool
        self._size: int

    def add_line(self, record: AssistantLine, line: Buffer, offset: int) -> None:
        """Count an assistant line."""
        message = record.message
        id, usage = message.id, message.usage
        if not id or usage is None or message.model == SYNTHETIC:
            self.finish()
            self.add(response_of_line(record, line, offset, self._file_name))
            return
        if id != self._id or not self._continues(record, usage):
            self.finish()
            self._id, self._best, self._usage, self._offset, self._others = id, record, usage, offset, []
            self._first, self._last_time, self._final, self._size = record.timestamp, None, False, 0
        elif usage.output_tokens > self._usage.output_tokens:
            self._others.append(self._offset)
            self._best, self._usage, self._offset = record, usage, offset
        else:
            self._others.append(offset)
        self._last = record.timestamp
        if message.stop_reason is not None:
            self._final, self._size = True, 0
        elif not self._final and len(line) > ENVELOPE_BYTES:
            self._size += len(line) - ENVELOPE_BYTES

    def finish(self) -> None:
        """Count the last response; call it when there are no more lines."""
        if self._id is not None:
            summary = (self._first, self._final, self._size)
            response = build_response(self._best, self._id, self._offset, self._file_name, summary)
            self._counter.add(self._source, response, self._others)
            self._id = None

    def add(self, result: Response | UnbilledLine) -> None:
        """Count what `response_of_line` returned for a line."""
        if isinstance(result, Response):
            self._counter.add(self._source, result)
        else:
            self.unbilled.append(result)

    def _continues(self, record: AssistantLine, usage: BilledUsage) -> bool:
        """Tell whether a line can be taken as one with those before it (rule 9)."""
        best = self._best
        if record.timestamp != self._last:
            now, last = parse_timestamp(record.timestamp), self._last_time or parse_timestamp(self._last)
            if now is None or last is None or now <= last:
                return False
            self._last_time = now
        return (
            (usage == self._usage or usage.output_tokens != self._usage.output_tokens)
            and record.message.model == best.message.model
            and record.is_sidechain == best.is_sidechain
            and record.session_id == best.session_id
            and record.agent_id == best.agent_id
            and record.forked_from == best.forked_from
        )
