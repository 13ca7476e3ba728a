"""Parses the JSON files that Claude Code keeps beside the sessions: history, index, todos, tasks, registry, statistics.

Settings are in `settings.py`, plans and memory in `markdown.py`.

Rules
  1. Only a document that is not JSON at all, or not an object (a list for todos), is refused: with
     `msgspec.DecodeError`, of which `msgspec.ValidationError` is one kind. A field or an item inside it that does not
     fit is left out, and what is around it stays.
  2. Nobody may rely on these files being there, complete or up to date: the session files are.
"""

from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import field

from unspool.format.base import CamelShape
from unspool.format.tools.plans import Todo

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class IndexEntry(CamelShape, frozen=True):
    """A session in the index, as it was when the index was last updated."""

    session_id: str = ""
    full_path: str | None = None
    file_mtime: int | float | None = None
    """Milliseconds since 1970."""
    first_prompt: str | None = None
    summary: str | None = None
    custom_title: str | None = None
    message_count: int | None = None
    created: str | None = None
    modified: str | None = None
    git_branch: str | None = None
    project_path: str | None = None
    is_sidechain: bool | None = None


# Of 1,072 session files beside indexes 347 were not listed, and an index may lag by four weeks: walk instead.
class SessionsIndex(CamelShape, frozen=True):
    """`projects/<project>/sessions-index.json` (gone by 2.1.50). A third of the sessions are not in it."""

    version: int | None = None
    original_path: str | None = None
    entries: tuple[IndexEntry, ...] = ()


class Pasted(CamelShape, frozen=True):
    """Something pasted into a prompt: its text, or in newer versions the hash its text is kept under."""

    id: int | None = None
    type: str | None = None
    content: str | None = None
    content_hash: str | None = None
    media_type: str | None = None
    filename: str | None = None


class HistoryEntry(CamelShape, frozen=True):
    """A line of `history.jsonl`: a prompt typed in the terminal. 2.0.50 wrote some up to three times."""

    display: str = ""
    pasted_contents: dict[str, Pasted] = field(default_factory=dict)
    timestamp: int | float | None = None
    """Milliseconds since 1970."""
    project: str | None = None
    session_id: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether it is not Claude Code's: Codex has a file of this name too, with `session_id`, `ts` and `text`."""
        return self == _NO_HISTORY_ENTRY


_NO_HISTORY_ENTRY = HistoryEntry()


class TodoOwner(NamedTuple):
    """The owner of a todo list; the same id twice for the session itself."""

    session_id: str
    agent_id: str


def todo_owner(name: str) -> TodoOwner | None:
    """Return the owner of `todos/<name>`, None for another file."""
    session, agent, owner = name.removesuffix(".json").partition("-agent-")
    return TodoOwner(session, owner) if session and agent and owner else None


def parse_todos(document: bytes | str) -> tuple[Todo, ...]:
    """Return a todo list (gone by 2.1.70); most are empty."""
    from unspool.format.recover import convert_struct  # start-up: the readers of lines load this module too

    items = _decode(document, list[Any])
    return tuple(convert_struct(item, Todo)[0] for item in items if isinstance(item, dict))


# The surest link from an agent to its call, where it is there; older agents are linked by results and prompts.
class AgentMeta(CamelShape, frozen=True):
    """`agent-<id>.meta.json` beside an agent's own file (from 2.1.70 on). All but the type may be missing."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    """The call that started the agent."""
    worktree_path: str | None = None
    spawn_depth: int | None = None
    is_built_in: bool | None = None
    launched_with_defaults: bool | None = None
    request_shape: str | None = None
    request_non_interactive: bool | None = None
    picked_effort_model: str | None = None
    finished: bool | None = None
    is_fork: bool | None = None
    """Whether it continues its parent's conversation (`fork-context-ref`); one that a person forked has no call."""
    name: str | None = None
    model: str | None = None
    parent_agent_id: str | None = None
    """The agent that started it, if the session did not."""
    stopped_by_user: bool | None = None


# `sessions/<pid>.<hash>.key` beside it holds a token of Claude Code. There is no struct for it, on purpose.
class ProcessEntry(CamelShape, frozen=True):
    """`sessions/<pid>.json`: a running Claude Code. A killed one leaves it, so look at `proc_start` too."""

    pid: int | None = None
    session_id: str | None = None
    cwd: str | None = None
    started_at: int | float | None = None
    proc_start: str | None = None
    """When the process started, in clock ticks since boot: pids are reused."""
    version: str | None = None
    kind: str | None = None
    entrypoint: str | None = None
    status: str | None = None
    """`idle`, `busy` or `waiting`; never in 2.1.100."""
    waiting_for: str | None = None
    updated_at: int | float | None = None
    status_updated_at: int | float | None = None
    name: str | None = None
    name_source: str | None = None
    name_since: int | float | None = None
    peer_protocol: int | None = None
    peer_features: tuple[str, ...] = ()
    pid_domain: str | None = None
    messaging_socket_path: str | None = None


class CustomTitleFile(CamelShape, frozen=True):
    """`<session>/custom-title.json` (2.1.325): the title that the user gave the session."""

    custom_title: str | None = None


def parse_custom_title(document: bytes | str) -> str | None:
    """Return the title of a session."""
    return parse_object(document, CustomTitleFile).custom_title


class DailyActivity(CamelShape, frozen=True):
    """Counts of a day."""

    date: str = ""
    message_count: int = 0
    session_count: int = 0
    tool_call_count: int = 0


class DailyTokens(CamelShape, frozen=True):
    """Tokens of a day by model."""

    date: str = ""
    tokens_by_model: dict[str, int] = field(default_factory=dict)


class ModelUsage(CamelShape, frozen=True):
    """Tokens of a model. Claude Code adds them up per line, so they are too high."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    web_search_requests: int = 0
    cost_usd: int | float = field(default=0, name="costUSD")
    context_window: int | None = None
    max_output_tokens: int | None = None


class LongestSession(CamelShape, frozen=True):
    """The session that took the longest."""

    session_id: str | None = None
    duration: int | float | None = None
    message_count: int | None = None
    timestamp: str | None = None


class StatsCache(CamelShape, frozen=True):
    """`stats-cache.json`, versions 1 to 3, which /stats writes: whole days only, up to yesterday."""

    version: int | None = None
    last_computed_date: str | None = None
    daily_activity: tuple[DailyActivity, ...] = ()
    daily_model_tokens: tuple[DailyTokens, ...] = ()
    model_usage: dict[str, ModelUsage] = field(default_factory=dict)
    total_sessions: int | None = None
    total_messages: int | None = None
    longest_session: LongestSession | None = None
    first_session_date: str | None = None
    hour_counts: dict[str, int] = field(default_factory=dict)
    total_speculation_time_saved_ms: int | float | None = None


class WorkflowPhase(CamelShape, frozen=True):
    """A phase of a workflow."""

    title: str = ""
    detail: str | None = None


class WorkflowStep(CamelShape, frozen=True):
    """A phase that began (`workflow_phase`) or an agent that ran in it (`workflow_agent`)."""

    type: str | None = None
    index: int | None = None
    title: str | None = None
    label: str | None = None
    phase_index: int | None = None
    phase_title: str | None = None
    agent_id: str | None = None
    model: str | None = None
    state: str | None = None
    attempt: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    duration_ms: int | float | None = None
    result_preview: str | None = None


class Workflow(CamelShape, frozen=True):
    """`<session>/workflows/<run id>.json`: the progress and result of a workflow."""

    run_id: str = ""
    task_id: str | None = None
    status: str | None = None
    workflow_name: str | None = None
    timestamp: str | None = None
    duration_ms: int | float | None = None
    agent_count: int | None = None
    total_tokens: int | None = None
    total_tool_calls: int | None = None
    default_model: str | None = None
    script_path: str | None = None
    phases: tuple[WorkflowPhase, ...] = ()
    workflow_progress: tuple[WorkflowStep, ...] = ()
    result: Any = None


def parse_object(document: bytes | str, struct: type[S]) -> S:
    """Parse a JSON object as a struct, leaving out the fields that do not fit."""
    try:
        return _decode(document, struct)
    except msgspec.ValidationError:
        from unspool.format.recover import convert_struct

        return convert_struct(_decode(document, dict[str, Any]), struct)[0]


def _decode(document: bytes | str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(document, type=kind)
    # One type of error for every unreadable document: callers catch `msgspec.DecodeError`.
    except (UnicodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"not readable as JSON: {error}") from error
