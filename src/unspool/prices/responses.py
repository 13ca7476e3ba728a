"""What was billed, once each. In: what lines or files say. Out: one `Response` for each answer the API gave.

Every line of an answer repeats its usage, and resumed sessions, forks, replayed sidechains and progress lines repeat
the lines.

Rules
  1. Of the lines of a response one counts, with all its numbers: the one with the most output tokens; then one of the
     main chain before a sidechain's; then the one with the most other tokens; then an agent's own line before a
     progress line that tells of it; then one in the file named after its session or agent that was not forked from
     another; then the earliest; then source and offset decide.
  2. A response is dated by the earliest of its lines, and final when any of them has a stop reason; if none has, the
     output may be a count from the beginning of the stream.
  3. The order of lines and of files changes nothing; nor does it matter whether files are put together from lines
     or from files.

[merged: answers.py] What one line says of a billed response. In: an answer's line. Out: a `Response`, or why nothing was billed.

Rules
  1. A response is known by its `message.id`. The request id plays no part: a replay may carry a new one, other vendors
     send none. A line without a message id is known by its uuid, one without either by its bytes.
  2. The model `<synthetic>` is the program itself: nothing was billed.
  3. Cache writes are split into 5 minutes and 1 hour where the parts make up the whole; else all are 5 minutes.
  4. What a progress line tells of a sub-agent's answer counts like the agent's own line: that may be gone.
  5. Where no stop reason says that the output is final, about the size of the content is kept to estimate it from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from unspool.format.base import UNDECODABLE, BilledUsage, Buffer, CamelShape, Shape
from unspool.format.timestamps import moment

if TYPE_CHECKING:
    from unspool.format.projections import Glance
    from unspool.format.records import Assistant

SYNTHETIC = "<synthetic>"
MOST = 10**9
"""Tokens. No response has more; a number beyond is damage, and sums must stay within 64 bits."""


ENVELOPE = 800
"""Bytes of an answer's line that are not content, but for some fifty. Of 3,085 lines without a stop reason: 727 on
average in 1.0, 772 in 2.0, 842 in 2.1."""


class Response(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One billed answer, as the line that counts has it."""

    id: str
    """What it is known by (rule 1)."""
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
    """About how many bytes of content it has, on all lines of a file; 0 if it is final."""
    speed: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    offset: int = 0
    counted_at: str | None = None
    """The timestamp of the line that counts."""
    sidechain: bool = False
    retold: bool = False
    """The line that counts is a progress line."""
    at_home: bool = False
    """It lies in the file named after its session or agent, and was not copied there from another session."""

    @property
    def prompt(self) -> int:
        """How many tokens the request had, cached or not."""
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


class Dropped(NamedTuple):
    """An answer's line that nothing was billed for."""

    offset: int
    reason: str
    timestamp: str | None = None
    notice: str = ""
    """What the program said in the model's place, if it was about a limit."""


class BilledMessage(Shape, frozen=True):
    """The part of a message that tells what was billed."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: BilledUsage | None = None


class BilledLine(CamelShape, frozen=True):
    """The part of an assistant line that tells what was billed, by the names of `Assistant`."""

    type: str | None = None
    message: BilledMessage = BilledMessage()
    uuid: str | None = None
    request_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    session_id_again: str | None = msgspec.field(default=None, name="session_id")
    agent_id: str | None = None
    is_sidechain: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    forked_from: object = None


Told: TypeAlias = tuple[str | None, bool, int]
"""What all lines of an answer say: the earliest time, whether it is final, and about how much content they have."""

Answer: TypeAlias = "Assistant | BilledLine | Glance"

billed_line: Callable[[Buffer], BilledLine] = msgspec.json.Decoder(BilledLine).decode


def billed(answer: Answer, line: Buffer, offset: int, home: str) -> Response | Dropped:
    """Return what an answer's line says of a response, or why nothing was billed.

    `home` is the name of its file without the ending.
    """
    message = answer.message
    if message.model == SYNTHETIC:
        return Dropped(offset, "synthetic", answer.timestamp or None, _notice(line))
    if message.usage is None:
        return Dropped(offset, "no usage", answer.timestamp or None)
    final = message.stop_reason is not None
    told = (answer.timestamp, final, 0 if final else max(len(line) - ENVELOPE, 0))
    return response(answer, message.id or answer.uuid or _digest(line), offset, home, told)


def response(answer: Answer, id: str, offset: int, home: str, told: Told) -> Response:
    """Return the response that a line with usage tells of."""
    message, time = answer.message, answer.timestamp or None
    usage = message.usage
    assert usage is not None
    earliest, final, size = told
    writes, writes_1h, parts = usage.cache_creation_input_tokens, 0, usage.cache_creation
    if not 0 <= writes <= MOST:
        writes = _tamed(writes)
    if parts is not None:
        short, long = parts.ephemeral_5m_input_tokens, parts.ephemeral_1h_input_tokens
        if short + long == writes and short >= 0 and long >= 0:
            writes, writes_1h = short, long
    session, agent = answer.session_id or answer.session_id_again, answer.agent_id
    at_home = session == home or (agent is not None and f"agent-{agent}" == home)
    fresh, output, read = usage.input_tokens, usage.output_tokens, usage.cache_read_input_tokens
    searches = usage.server_tool_use
    return Response(  # in the order of its fields: by name it takes three times as long
        id, answer.request_id, message.model, session, agent, earliest or None,
        answer.cwd, answer.git_branch, answer.version,
        fresh if 0 <= fresh <= MOST else _tamed(fresh),
        output if 0 <= output <= MOST else _tamed(output),
        read if 0 <= read <= MOST else _tamed(read),
        writes, writes_1h, _tamed(searches.web_search_requests) if searches else 0,
        final, size,
        usage.speed, usage.service_tier, usage.inference_geo,
        offset, time, bool(answer.is_sidechain), False,
        at_home and not answer.forked_from,
    )  # fmt: skip


def _tamed(number: int) -> int:
    """Return a number of tokens that can be added up: none is negative, none absurd."""
    return min(max(number, 0), MOST)


def _notice(line: Buffer) -> str:
    """Return what the program says of a limit: `5-hour limit reached ∙ resets 3pm`, or nothing."""
    try:
        texts = [block.text for block in _said()(line).message.content]
    except UNDECODABLE:
        return ""
    return next((text for text in texts if "limit" in text.lower()), "")


class _Text(Shape, frozen=True, tag_field="type", tag="text"):
    text: str = ""


class _Message(Shape, frozen=True):
    content: tuple[_Text, ...] = ()


class _Said(Shape, frozen=True):
    message: _Message = _Message()


@cache
def _said() -> Callable[[Buffer], _Said]:
    return msgspec.json.Decoder(_Said).decode


def _digest(line: Buffer) -> str:
    import hashlib  # only for lines that no program of Anthropic's wrote

    return hashlib.sha256(bytes(line).strip()).hexdigest()


def stem(file: str) -> str:
    """Return the name of a file of lines without its folder and ending."""
    return file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")


S = TypeVar("S", bound=int | str)
"""What a caller calls its sources: numbers or paths."""


class Counted(NamedTuple, Generic[S]):
    """A response, where the line that counts is, and where those are that were merged into it."""

    source: S
    response: Response
    merged: tuple[tuple[S, int], ...]


class Counting(Generic[S]):
    """Takes responses from any number of sources and keeps each once."""

    def __init__(self) -> None:
        self._groups: dict[str, _Once[S] | _Group[S]] = {}

    def add(self, source: S, response: Response, others: Sequence[int] = ()) -> None:
        """Take what a line, or a whole file, says of a response; `others` are lines that were merged into it before."""
        group = self._groups.get(response.id)
        if group is None:
            self._groups[response.id] = (source, response, others)
            return
        if isinstance(group, tuple):
            group = self._groups[response.id] = _Group(*group)
        group.add(source, response, others)

    def billed(self) -> Iterator[tuple[S, Response]]:
        """Yield each response once, in the order they first appeared, with the source of the line that counts."""
        for group in self._groups.values():
            yield group[:2] if isinstance(group, tuple) else group.billed()

    def counted(self) -> Iterator[Counted[S]]:
        """Yield the same, with the lines that were merged."""
        for group in self._groups.values():
            if isinstance(group, tuple):
                source, response, others = group
                yield Counted(source, response, tuple((source, offset) for offset in others))
            else:
                yield Counted(*group.billed(), tuple(sorted(group.others)))


_Once: TypeAlias = tuple[S, Response, Sequence[int]]
"""What is known of a response that was told of once, as most are; with nothing to compare, no more is needed."""


def unique(found: Iterable[tuple[S, Response]]) -> list[Counted[S]]:
    """Return each response once, whichever sources have it, in the order they first appear."""
    counting = Counting[S]()
    for source, response in found:
        counting.add(source, response)
    return list(counting.counted())


class _Group(Generic[S]):
    """What was said of one response so far."""

    __slots__ = ("_best", "_earliest", "_final", "_sizes", "_source", "others")

    def __init__(self, source: S, response: Response, others: Sequence[int]) -> None:
        self._source, self._best = source, response
        self._earliest, self._final = response.timestamp, response.final
        self.others: list[tuple[S, int]] = [(source, offset) for offset in others]
        self._sizes: dict[S, int] = {source: response.size}
        """The size in each source."""

    def add(self, source: S, response: Response, others: Sequence[int]) -> None:
        self.others += [(source, offset) for offset in others]
        if _before(source, response, self._source, self._best):
            self.others.append((self._source, self._best.offset))
            self._source, self._best = source, response
        else:
            self.others.append((source, response.offset))
        if _is_earlier(response.timestamp, self._earliest):
            self._earliest = response.timestamp
        self._final = self._final or response.final
        self._sizes[source] = self._sizes.get(source, 0) + response.size

    def billed(self) -> tuple[S, Response]:
        size = 0 if self._final else max(self._sizes.values())
        return self._source, replace(self._best, timestamp=self._earliest, final=self._final, size=size)


def _before(source: S, response: Response, other_source: S, other: Response) -> bool:
    """Tell whether the first of two counts (rule 1)."""
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
        response.retold,
        not response.at_home,
    )


def _is_earlier(timestamp: str | None, other: str | None) -> bool:
    """Compare times, whatever their offset; those that are none come last. Of one moment, what is written decides."""
    if timestamp == other:
        return False
    time, other_time = moment(timestamp), moment(other)
    if time is None or other_time is None or time == other_time:
        return (time is None, timestamp or "") < (other_time is None, other or "")
    return time < other_time
