"""What one line says of a billed response. In: an answer's line. Out: a `Response`, or why nothing was billed.

Rules
  1. A response is known by its `message.id`. The request id plays no part: a replay may carry a new one, other vendors
     send none. A line without a message id is known by its uuid, one without either by its bytes.
  2. The model `<synthetic>` is the program itself: nothing was billed.
  3. Cache writes are split into 5 minutes and 1 hour where the parts make up the whole; else all are 5 minutes.
  4. What a progress line tells of a sub-agent's answer counts like the agent's own line: that may be gone.
  5. Where no stop reason says that the output is final, about the size of the content is kept to estimate it from.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from unspool.format.shape import UNDECODABLE, Buffer, CamelShape, Shape
from unspool.format.usage import BilledUsage

if TYPE_CHECKING:  # to read what was billed, the types of all lines need not be loaded
    from unspool.format.glance import Glance
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
