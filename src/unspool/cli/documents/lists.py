"""The documents of `ls`, `search`, `usage`, `sql`, `watch` and `export --otlp`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from unspool.cli.documents.base import Counts, JsonListDocument, JsonObject, UsageNumbers


class LsItem(JsonObject):
    """A session."""

    session_id: str | None
    """The id of the session."""
    id: str | None
    """Deprecated: `session_id`."""
    path: str
    """Its file."""
    title: str
    """Its title: the one it was given, else a summary, else the first prompt."""
    project: str | None
    """The name of its project."""
    cwd: str | None
    """The folder it works in."""
    branch: str | None
    """The git branch."""
    versions: list[str]
    """Versions of Claude Code that wrote it."""
    models: list[str]
    """Models that answered."""
    started_at: str | None
    """When its first line was written."""
    ended_at: str | None
    """When its last line was written."""
    started: str | None
    """Deprecated: `started_at`, as the line has it."""
    last: str | None
    """Deprecated: `ended_at`, as the line has it."""
    turns: int
    """Prompts of a person."""
    command_turns: int
    """Slash commands that began a turn."""
    messages: int
    """Messages of user and model."""
    tool_calls: int
    """Tool calls."""
    errors: int
    """Failed tool calls and errors of the API."""
    agents: int
    """Its sub-agents."""
    bytes: int
    """Size of its file."""
    cost_micros: int | None
    """Cost of the session and its agents, in millionths of a US dollar; null if it has no price."""
    unpriced_tokens: int
    """Tokens of models without a price, which are not in the cost."""
    context_tokens: int | None
    """Tokens in the prompt of its last request."""
    gone: bool
    """Whether its file was deleted and only the store has it."""
    agent_program: str | None
    """The other agent that wrote it: `codex`, `gemini`, `opencode` or `pi`; null for Claude Code."""
    status: str | UnsetType = UNSET
    """With `--status`: what it is doing now."""
    kind: str | UnsetType = UNSET
    """With `--status`: the activity as one word."""
    detail: str | UnsetType = UNSET
    """With `--status`: the activity in words."""


class LsDocument(JsonListDocument):
    """The sessions, newest first."""

    items: list[LsItem]
    """The sessions."""
    hidden: dict[str, int]
    """How many sessions are not listed, by reason; `--all` lists them."""


class SearchItem(JsonObject):
    """A text that matches."""

    session_id: str | None
    """The session; null in files that belong to none."""
    session: str | None
    """Deprecated: `session_id`."""
    agent_id: str | None
    """The sub-agent in which the text was found."""
    agent: str | None
    """Deprecated: `agent_id`."""
    project: str | None
    """The name of the project."""
    turn: int | None
    """The number of the turn, as `unspool show --turn` takes it; null in agents."""
    role: str
    """Who wrote the text."""
    kind: str
    """What the text is: `prompt`, `answer`, `tool_input`, `tool_result` and so on."""
    tool: str | None
    """The tool of a tool call."""
    time: str | None
    """When the line was written."""
    timestamp: str | None
    """Deprecated: `time`, as the line has it."""
    snippet: str
    """The text around the first match; matches are between `«` and `»`."""
    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    offset: int
    """Where the line begins in the file, in bytes."""
    uuid: str | None
    """The uuid of the line."""
    score: float
    """How well it matches; larger is better."""
    command: str | None
    """The command that shows the turn."""


class SearchDocument(JsonListDocument):
    """What a search found, best first."""

    items: list[SearchItem]
    """The hits."""


class UsageItem(UsageNumbers):
    """A row of a usage report: what it is about, and the numbers."""

    date: str | UnsetType | None = UNSET
    """`daily`: the day; null for responses without a time."""
    week: str | UnsetType | None = UNSET
    """`weekly`: the Monday of the week."""
    month: str | UnsetType | None = UNSET
    """`monthly`: the month, as 2026-11."""
    session_id: str | UnsetType | None = UNSET
    """`session` and `agent`: the session."""
    session: str | UnsetType | None = UNSET
    """Deprecated: `session_id`."""
    agent_id: str | UnsetType | None = UNSET
    """`agent`: the sub-agent; `main` is everything that no sub-agent did."""
    agent: str | UnsetType | None = UNSET
    """Deprecated: `agent_id`."""
    model: str | UnsetType | None = UNSET
    """`model`: the model."""
    project: str | UnsetType | None = UNSET
    """`project` and `session`: the project."""
    branch: str | UnsetType | None = UNSET
    """`branch`: the git branch."""
    started_at: str | UnsetType | None = UNSET
    """`session`: the time of the first response; `blocks`: the start of the window."""
    ended_at: str | UnsetType | None = UNSET
    """`session` and `blocks`: the time of the last response."""
    first: str | UnsetType | None = UNSET
    """Deprecated: `started_at`, in the time zone of the report."""
    last: str | UnsetType | None = UNSET
    """Deprecated: `ended_at`, in the time zone of the report."""
    block_start: str | UnsetType = UNSET
    """`blocks`: the start of the 5-hour window, in the time zone of the report."""
    block_end: str | UnsetType = UNSET
    """`blocks`: the end of the window."""
    is_gap: bool | UnsetType = UNSET
    """`blocks`: whether this is the time between two windows."""
    is_active: bool | UnsetType = UNSET
    """`blocks`: whether the window has not ended."""
    burn_rate: int | UnsetType | None = UNSET
    """`blocks`: tokens a minute in the active window."""
    cost_per_hour_micros: int | UnsetType | None = UNSET
    """`blocks`: cost of an hour at this rate, in millionths of a US dollar."""
    projected_cost_micros: int | UnsetType | None = UNSET
    """`blocks`: cost of the whole window at this rate, in millionths of a US dollar."""
    resets_at: str | UnsetType | None = UNSET
    """`blocks`: when a limit that was reached resets."""
    limit_unit: str | UnsetType | None = UNSET
    """`blocks`: what the limit of a window counts."""
    limit_amount: float | UnsetType | None = UNSET
    """`blocks`: the limit of a window."""
    limit_is_learned: bool | UnsetType | None = UNSET
    """`blocks`: whether the limit was learned from windows that reached it."""
    limit_used_percent: float | UnsetType | None = UNSET
    """`blocks`: how much of the limit is used."""
    breakdown: list[UsageItem] | UnsetType = UNSET
    """With `--breakdown`: the row by model."""


class UsageDocument(JsonListDocument):
    """Tokens and cost."""

    period: str
    """What the rows are about: `daily`, `session`, `model` and so on."""
    items: list[UsageItem]
    """The rows."""
    rows: list[UsageItem]
    """Deprecated: `items`."""
    totals: UsageNumbers
    """All rows together, also those that `--limit` leaves out."""


class CountedPlace(JsonObject):
    """A line that was counted."""

    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    offset: int
    """Where the line begins in the file, in bytes."""


class ExplainedLine(CountedPlace):
    """A line with usage, and what was done with it."""

    why: str
    """Why it was counted, merged or dropped."""
    id: str | UnsetType | None = UNSET
    """The id of the API message."""
    counted: CountedPlace | UnsetType = UNSET
    """Merged lines: the line that was counted instead."""
    session_id: str | UnsetType | None = UNSET
    """Counted lines: the session that pays."""
    session: str | UnsetType | None = UNSET
    """Deprecated: `session_id`."""
    agent_id: str | UnsetType | None = UNSET
    """Counted lines: the sub-agent."""
    agent: str | UnsetType | None = UNSET
    """Deprecated: `agent_id`."""
    time: str | UnsetType | None = UNSET
    """Counted lines: when the line was written."""
    timestamp: str | UnsetType | None = UNSET
    """Deprecated: `time`."""
    model: str | UnsetType | None = UNSET
    """Counted lines: the model."""
    input_tokens: int | UnsetType = UNSET
    """Counted lines: input tokens."""
    output_tokens: int | UnsetType = UNSET
    """Counted lines: output tokens."""
    cache_write_tokens: int | UnsetType = UNSET
    """Counted lines: tokens written to the cache."""
    cache_write_5m_tokens: int | UnsetType = UNSET
    """Counted lines: those that stay for 5 minutes."""
    cache_write_1h_tokens: int | UnsetType = UNSET
    """Counted lines: those that stay for an hour."""
    cache_read_tokens: int | UnsetType = UNSET
    """Counted lines: tokens read from the cache."""
    web_searches: int | UnsetType = UNSET
    """Counted lines: web searches."""
    estimated: bool | UnsetType = UNSET
    """Counted lines: whether only an early count of the output is known."""
    cost_micros: int | UnsetType | None = UNSET
    """Counted lines: cost in millionths of a US dollar."""


class UsageExplanationDocument(JsonListDocument):
    """Which lines were counted, merged and dropped, and why (`usage --explain`)."""

    counted: list[ExplainedLine]
    """Lines that were counted."""
    merged: list[ExplainedLine]
    """Lines that repeat a counted one."""
    dropped: list[ExplainedLine]
    """Lines that are not billed."""


class SqlColumn(JsonObject):
    """A column of a result."""

    name: str
    """Its name."""
    type: str
    """Its type in DuckDB."""


class SqlDocument(JsonListDocument):
    """The rows of a query. A query without rows was answered: the exit code is 0."""

    columns: list[SqlColumn]
    """The columns of the result."""
    items: list[dict[str, Any]]
    """The rows: an object of values by column name."""


class PendingToolCall(JsonObject):
    """A tool call that has no result yet."""

    id: str
    """The id of the call."""
    name: str
    """The tool."""
    input: Any
    """What the tool was called with."""


class WatchItem(JsonObject):
    """A session or sub-agent, and what it is doing."""

    session_id: str
    """The session."""
    agent_id: str | None
    """The sub-agent; null for the session itself."""
    title: str
    """The title of the session."""
    project: str | None
    """The name of the project."""
    project_key: str | None
    """The folder of the project below `projects`."""
    cwd: str | None
    """The folder it works in."""
    branch: str | None
    """The git branch."""
    model: str | None
    """The model that answered last."""
    group: str
    """The group on the board: `Needs you`, `Working` and so on."""
    status: str
    """What it is doing, as one word."""
    kind: str
    """The activity, as one word."""
    detail: str
    """The activity in words."""
    source: str
    """How it is known: `registry`, `hooks` or `transcript`."""
    probably: bool
    """Whether it is only probable."""
    since: str | None
    """Since when it does this."""
    tool: str | None
    """The tool that runs or asks."""
    target: str | None
    """What the tool works on."""
    pending: PendingToolCall | None
    """The tool call that has no result yet."""
    goal: str
    """The last prompt."""
    recent_output: str
    """The last text of the model."""
    started_at: str | None
    """When it started."""
    ended_at: str | None
    """When its last line was written."""
    context_tokens: int | None
    """Tokens in the prompt of its last request."""
    cache_5m_tokens: int
    """Tokens that its last answers wrote to the cache for 5 minutes."""
    cache_1h_tokens: int
    """Tokens that its last answers wrote to the cache for an hour."""
    agents: int
    """How many of its sub-agents work."""
    background_commands: int
    """How many of its commands run in the background."""
    pid: int | None
    """The process of Claude Code."""
    path: str | None
    """Its file; null while it has none."""


class WatchDocument(JsonListDocument):
    """The live board (`watch --once`)."""

    items: list[WatchItem]
    """Sessions and sub-agents that worked lately, those that need you first."""


class WatchEvent(JsonObject):
    """Something that happened: a line of `watch --json`."""

    schema: str
    """`unspool/watch-event/1`."""
    event: str
    """What happened: `session_started`, `status`, `prompt`, `message`, `tool_call`, `skipped` and so on."""
    session_id: str | None
    """The session; null for `skipped`."""
    session: str | None
    """Deprecated: `session_id`."""
    agent_id: str | None
    """The sub-agent."""
    agent: str | None
    """Deprecated: `agent_id`."""
    time: str | None
    """When it happened."""
    at: str | None
    """Deprecated: `time`."""
    status: str | None
    """What the session is doing, as one word."""
    detail: str | None
    """The activity in words."""
    kind: str | None
    """The activity, as one word."""
    source: str | None
    """How it is known."""
    since: str | None
    """Since when."""
    probably: bool | None
    """Whether it is only probable."""
    path: str | None
    """The file."""
    end: int | None
    """How far the file was read, in bytes."""
    offset: int | UnsetType = UNSET
    """Where the line begins in the file, in bytes."""
    id: str | UnsetType = UNSET
    """The id of a tool call."""
    failed: bool | UnsetType = UNSET
    """`tool_result`: whether the call failed."""
    prompt: str | UnsetType = UNSET
    """`prompt`: the text, cut if it is long."""
    text: str | UnsetType = UNSET
    """`message`: the text, cut if it is long."""
    title: str | UnsetType = UNSET
    """`title`: the new title."""
    reason: str | UnsetType = UNSET
    """`skipped`: why the file cannot be read."""
    tool: str | UnsetType = UNSET
    """The tool."""
    target: str | UnsetType | None = UNSET
    """What the tool works on."""
    model: str | UnsetType = UNSET
    """`message` and `session_changed`: the model."""
    branch: str | UnsetType = UNSET
    """`session_changed`: the git branch."""
    cwd: str | UnsetType = UNSET
    """`session_changed`: the folder it works in."""
    goal: str | UnsetType = UNSET
    """`session_changed`: the last prompt."""
    stop_reason: str | UnsetType = UNSET
    """`message`: why the model stopped."""
    trigger: str | UnsetType = UNSET
    """`compaction`: what started it."""
    tokens_before: int | UnsetType = UNSET
    """`compaction`: tokens of the context before."""
    tokens_after: int | UnsetType = UNSET
    """`compaction`: tokens of the context after."""


class ExportOtlpDocument(JsonListDocument):
    """What `export --otlp` sent."""

    traces_url: str | None
    """The address that traces were sent to; null if none are sent."""
    metrics_url: str | None
    """The address that metrics were sent to; null if none are sent."""
    sessions: int
    """Sessions of which something was sent."""
    unchanged: int
    """Sessions of which the receiver already had everything."""
    spans: int
    """Spans that were sent."""
    points: int
    """Data points of metrics that were sent."""
    rejected: int
    """Spans and points that the receiver did not take."""
    notes: list[str]
    """What the receiver said about those."""
    redactions: Counts
    """Secrets that were replaced in what was read, by kind."""
