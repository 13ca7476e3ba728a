"""Maps a session to spans: session, turns, requests, tool calls, agents.

Rules
  1. The session is the root. A turn is in the session, a request in its turn or agent, a tool call in the request that
     made it, an agent in the tool call that started it. Where the link is not known, the next one above is taken.
  2. Only requests that the session pays for have spans. What a fork repeats is in the trace of the session it was made
     in, so that tokens and cost add up over all traces.
  3. Names are those of the semantic conventions for generative AI; what they do not name begins with `unspool.`.
  4. A span whose line has no time, or one that the protocol cannot hold, is at the beginning of the session.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from unspool.export import CallState, describe_calls
from unspool.format import AnyRecord, Assistant, Entry, milliseconds
from unspool.graph import ToolCall, Turn, WholeMessage, find_request_times, group_messages
from unspool.telemetry.mapping.records import AgentRecords, BilledRequest, SessionCopy, TracedSession
from unspool.telemetry.mapping.signals import Attributes, Span, SpanKind, make_span_id, make_trace_id
from unspool.telemetry.mapping.texts import TextPolicy

AGENT_NAME: Final = "Claude Code"
PROVIDER: Final = "anthropic"
OTHER: Final = "_OTHER"
"""What the conventions call a value that is not known."""
TOOL_ERROR: Final = "tool_error"
_LAST_TIME: Final = 18_000_000_000_000
"""Milliseconds since 1970 that the protocol can hold: it counts nanoseconds in 64 bits."""
_USAGE = {
    "gen_ai.usage.output_tokens": "output",
    "gen_ai.usage.cache_read.input_tokens": "cache_read",
    "unspool.usage.cache_creation_5m.input_tokens": "cache_write_5m",
    "unspool.usage.cache_creation_1h.input_tokens": "cache_write_1h",
    "unspool.usage.web_searches": "web_searches",
}


class _Work(NamedTuple):
    """Lines of one file, and the spans that their requests and calls are in."""

    file: str
    entries: Sequence[Entry]
    calls: Sequence[ToolCall]
    offsets: Sequence[int]
    """Where the turns begin."""
    parents: Sequence[bytes]
    """The spans of the turns, after that for lines before the first."""
    agent: str = ""

    def parent(self, offset: int) -> bytes:
        """Return the span of the turn, the session or the agent that a line is in."""
        return self.parents[bisect_right(self.offsets, offset)]


class _PlacedRequest(NamedTuple):
    """Where a request is in its file, and when it was."""

    parent: bytes
    start: int
    end: int
    message: WholeMessage | None


def map_spans(session: TracedSession, texts: TextPolicy) -> list[Span]:
    """Return the spans of a session, each once, the root first."""
    return list(_SessionMapper(session, texts).map().values())


class _SessionMapper:
    """Makes the spans of one session."""

    def __init__(self, session: TracedSession, texts: TextPolicy) -> None:
        self._session, self._texts = session, texts
        self._trace = make_trace_id(session.id)
        self._conversation = texts.name(session.id)
        self._start, self._end = _time_range(session)
        self._spans: dict[bytes, Span] = {}
        self._request_spans: dict[str, bytes] = {}
        """By the id of the message."""
        self._tool_spans: dict[str, bytes] = {}
        """By the id of the call."""

    def map(self) -> dict[bytes, Span]:
        """Return the spans by their ids."""
        roots = [self._add_session(copy) for copy in self._session.copies] or [self._add_root(None)]
        works = [
            work
            for copy, root in zip(self._session.copies, roots, strict=False)
            for work in (self._add_turns(copy, root), *self._agent_works(copy))
        ]
        self._add_requests(works, roots[0])
        for work in works:
            self._add_calls(work)
            self._add_api_errors(work)
        for copy, root in zip(self._session.copies, roots, strict=False):
            self._add_agents(copy, root)
        return self._spans

    def _id(self, *parts: str) -> bytes:
        return make_span_id(self._trace, *parts)

    def _add(self, span_id: bytes, name: str, parent: bytes, times: tuple[int, int], **rest: Any) -> bytes:
        start, end = times
        # The first counts: copies of a session have the same lines.
        self._spans.setdefault(
            span_id,
            Span(
                trace_id=self._trace,
                span_id=span_id,
                parent_id=parent,
                name=name,
                start=start,
                end=max(start, end),
                **rest,
            ),
        )
        return span_id

    def _attributes(self, operation: str | None, **named: Any) -> Attributes:
        """Return attributes that all spans have, and named ones; `__` stands for a point, None is left out."""
        shared: Attributes = {"gen_ai.operation.name": operation} if operation else {}
        shared |= {"gen_ai.provider.name": PROVIDER, "gen_ai.conversation.id": self._conversation}
        return shared | {name.replace("__", "."): value for name, value in named.items() if value is not None}

    def _name(self, text: str | None) -> str | None:
        return self._texts.name(text) if text else None

    def _add_root(self, copy: SessionCopy | None) -> bytes:
        attributes = self._attributes(None)
        if copy is not None:
            named = {
                "unspool.project": self._name(copy.project),
                "vcs.ref.head.name": self._name(copy.branch),
                "unspool.claude_code.version": self._name(copy.version),
                "unspool.session.title": self._name(copy.title) if self._texts.content else None,
            }
            attributes |= {name: value for name, value in named.items() if value is not None}
            attributes |= {
                "unspool.session.human_turns": sum(turn.is_human for turn in copy.turns),
                "unspool.session.command_turns": sum(not turn.is_human for turn in copy.turns),
                "unspool.session.tool_calls": len(copy.calls),
                "unspool.session.agents": len(copy.agents),
            }
        id = self._id("session", copy.key if copy else "")
        return self._add(id, "session", b"", (self._start, self._end), attributes=attributes)

    def _add_session(self, copy: SessionCopy) -> bytes:
        return self._add_root(copy)

    def _add_turns(self, copy: SessionCopy, root: bytes) -> _Work:
        ids = _number_lines(turn.prompt for turn in copy.turns)
        spans = [self._add_turn(number, turn, root, ids[number - 1]) for number, turn in enumerate(copy.turns, 1)]
        offsets = [turn.prompt.offset for turn in copy.turns]
        return _Work(copy.file, copy.entries, copy.calls, offsets, [root, *spans])

    def _add_turn(self, number: int, turn: Turn, root: bytes, line: str) -> bytes:
        times = [time for entry in (turn.prompt, *turn.entries) if (time := _time(entry)) is not None]
        start = _time(turn.prompt) or min(times, default=self._start)
        attributes = self._attributes(
            "invoke_agent",
            gen_ai__agent__name=AGENT_NAME,
            unspool__turn__number=number,
            unspool__turn__kind=turn.speaker.value,
        )
        if self._texts.content:
            attributes["gen_ai.input.messages"] = self._texts.prompt(turn.text)
        id = self._id("turn", line)
        return self._add(
            id, f"invoke_agent {AGENT_NAME}", root, (start, max(times, default=start)), attributes=attributes
        )

    def _agent_works(self, copy: SessionCopy) -> Iterator[_Work]:
        from unspool.graph import find_tool_calls

        repeated = {call.id for call in copy.calls}
        for agent in copy.agents:
            # A forked agent's file repeats the calls before the fork.
            calls = [call for call in find_tool_calls(agent.entries) if call.id not in repeated]
            yield _Work(agent.file, agent.entries, calls, (), [self._agent_id(copy, agent)], agent.agent.id)

    def _agent_id(self, copy: SessionCopy, agent: AgentRecords) -> bytes:
        return self._id("agent", copy.key, agent.agent.id)

    def _add_requests(self, works: Sequence[_Work], root: bytes) -> None:
        agents = {work.agent: work for work in works if work.agent}
        placed: dict[tuple[str, str], _PlacedRequest] = {}
        for work in works:
            placed.update(((work.file, id), one) for id, one in _placed_requests(work))
        anywhere = {id: one for (_, id), one in placed.items()}
        for request in self._session.requests:
            response = request.response
            place = placed.get((request.file, response.id)) or anywhere.get(response.id)
            if place is None:
                agent = agents.get(response.agent_id or "")
                time = _bounded(milliseconds(response.timestamp)) or self._start
                place = _PlacedRequest(agent.parents[0] if agent else root, time, time, None)
            self._request_spans[response.id] = self._add_request(request, place)

    def _add_request(self, request: BilledRequest, place: _PlacedRequest) -> bytes:
        response, bill, message = request.response, request.bill, place.message
        model = self._name(response.model)
        stop = message.stop_reason if message else None
        attributes = self._attributes(
            "chat",
            gen_ai__request__model=model,
            gen_ai__response__model=model,
            gen_ai__response__id=self._name(response.id),
            gen_ai__response__finish_reasons=(self._texts.name(stop),) if stop else None,
            gen_ai__agent__id=self._name(response.agent_id),
            unspool__project=self._name(request.project),
        )
        writes = response.cache_write_5m + response.cache_write_1h
        attributes |= {"gen_ai.usage.input_tokens": response.prompt, "gen_ai.usage.cache_creation.input_tokens": writes}
        attributes |= {name: getattr(response, field) for name, field in _USAGE.items()}
        if bill.unpriced_tokens:
            attributes["unspool.unpriced_tokens"] = bill.unpriced_tokens
        if bill.cost_micros or not bill.unpriced_tokens:
            attributes["unspool.cost"] = bill.cost_micros / 1_000_000
        if not response.final:
            attributes["unspool.usage.output_is_partial"] = True
        if message is not None and self._texts.content:
            blocks = [placed.block for placed in message.blocks]
            attributes["gen_ai.output.messages"] = self._texts.answer(blocks, message.stop_reason)
        id = self._id("request", response.id)
        start, end = place.start or self._start, place.end or self._start
        name = f"chat {model}" if model else "chat"
        return self._add(id, name, place.parent, (start, end), kind=SpanKind.CLIENT, attributes=attributes)

    def _add_calls(self, work: _Work) -> None:
        for call in work.calls:
            record = call.use_entry.record
            message = (record.message.id or record.uuid) if isinstance(record, Assistant) else None
            parent = self._request_spans.get(message or "") or work.parent(call.use_entry.offset)
            if call.id not in self._tool_spans:
                self._tool_spans[call.id] = self._add_call(call, parent)

    def _add_call(self, call: ToolCall, parent: bytes) -> bytes:
        state = describe_calls.describe_outcome(call).state
        start = _time(call.use_entry) or self._start
        end = max(start, (_time(call.result_entry) if call.result_entry else None) or start)
        ran = call.measured_milliseconds
        # What came before the tool ran was waiting for permission, or for its turn.
        begin = max(start, end - ran) if ran is not None else start
        name = self._name(call.name) or OTHER
        failed = state is CallState.FAILED
        attributes = self._attributes(
            "execute_tool",
            gen_ai__tool__name=name,
            gen_ai__tool__type="function",
            gen_ai__tool__call__id=self._name(call.id),
            unspool__tool__state=state.value,
            error__type=TOOL_ERROR if failed else None,
        )
        if self._texts.content:
            attributes["gen_ai.tool.call.arguments"] = self._texts.value(call.input)
            if call.result is not None:
                attributes["gen_ai.tool.call.result"] = self._texts.value(describe_calls.result_text(call))
        id = self._id("tool", call.id)
        return self._add(id, f"execute_tool {name}", parent, (begin, end), attributes=attributes, is_failed=failed)

    def _add_api_errors(self, work: _Work) -> None:
        errors = [entry for entry in work.entries if _is_api_error(entry)]
        for entry, line in zip(errors, _number_lines(errors), strict=True):
            time = _time(entry) or self._start
            attributes = self._attributes("chat", error__type=self._error_type(entry.record))
            id = self._id("error", work.agent, line)
            rest: dict[str, Any] = {"kind": SpanKind.CLIENT, "attributes": attributes, "is_failed": True}
            self._add(id, "chat", work.parent(entry.offset), (time, time), **rest)

    def _error_type(self, record: AnyRecord) -> str:
        """Return the API's type of an error, or its status; these fields may hold anything."""
        assert isinstance(record, Assistant)
        found = next((one for one in (record.api_error_type, record.api_error, record.error) if _is_word(one)), None)
        status = record.api_error_status
        return self._texts.name(str(found or status or OTHER))

    def _add_agents(self, copy: SessionCopy, root: bytes) -> None:
        owners = {call.id: records.agent.id for records in copy.agents for call in _own_calls(records)}
        starts = {records.agent.id: records.agent.call.id for records in copy.agents if records.agent.call is not None}
        for records in copy.agents:
            agent = records.agent
            parent = self._tool_spans.get(starts.get(agent.id, ""), root)
            if _is_started_by_itself(agent.id, starts, owners):
                parent = root
            times = [time for entry in records.entries if (time := _time(entry)) is not None]
            start = min(times, default=self._start)
            kind = self._name(agent.type) or agent.kind.value
            attributes = self._attributes(
                "invoke_agent", gen_ai__agent__name=kind, gen_ai__agent__id=self._name(agent.id)
            )
            if self._texts.content:
                attributes["gen_ai.input.messages"] = self._texts.prompt(agent.prompt)
            self._add(
                self._agent_id(copy, records),
                f"invoke_agent {kind}",
                parent,
                (start, max(times, default=start)),
                attributes=attributes,
            )


def _placed_requests(work: _Work) -> Iterator[tuple[str, _PlacedRequest]]:
    """Yield the requests of a file by the ids that their responses may have."""
    messages = {message.id: message for message in group_messages(work.entries) if message.role == "assistant"}
    for request in find_request_times(work.entries):
        record, offset = request.entry.record, request.entry.offset
        message = messages.get(request.id) or messages.get(record.uuid or "")
        place = _PlacedRequest(work.parent(offset), _bounded(request.start) or 0, _bounded(request.end) or 0, message)
        yield request.id, place
        if record.uuid and isinstance(record, Assistant) and not record.message.id:
            yield record.uuid, place


def _own_calls(agent: AgentRecords) -> Iterable[ToolCall]:
    from unspool.graph import find_tool_calls

    return find_tool_calls(agent.entries)


def _is_started_by_itself(agent: str, starts: dict[str, str], owners: dict[str, str]) -> bool:
    """Tell whether an agent is among those that started it: lines may say so, and spans must not go in a circle."""
    seen = {agent}
    at: str | None = agent
    while at is not None:
        at = owners.get(starts.get(at, ""))
        if at in seen:
            return True
        if at is not None:
            seen.add(at)
    return False


def _time_range(session: TracedSession) -> tuple[int, int]:
    """Return the first and the last time of a session's own lines; of a deleted one those of its requests."""
    entries = (entry for copy in session.copies for entry in copy.entries)
    times = [time for entry in entries if (time := _time(entry)) is not None]
    if not times:
        stamps = (request.response.timestamp for request in session.requests)
        times = [time for stamp in stamps if (time := _bounded(milliseconds(stamp))) is not None]
    if not times:
        times = [_bounded(session.changed) or 1]
    return min(times), max(times)


def _time(entry: Entry) -> int | None:
    return _bounded(milliseconds(entry.record.timestamp))


def _bounded(time: int | None) -> int | None:
    """Return a time that the protocol can hold, or None."""
    return time if time is not None and 0 < time <= _LAST_TIME else None


def _number_lines(entries: Iterable[Entry]) -> list[str]:
    """Return what lines are known by: their uuids, the second with the same uuid with a 2 after it."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        line = entry.record.uuid or f"line {entry.offset}"
        seen[line] += 1
        found.append(line if seen[line] == 1 else f"{line} {seen[line]}")
    return found


def _is_api_error(entry: Entry) -> bool:
    return isinstance(entry.record, Assistant) and entry.record.is_api_error_message


def _is_word(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
