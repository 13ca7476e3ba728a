"""What a `progress` line tells: the `data` of long-running tools, hooks and sub-agents (2.1.12 to 2.1.81)."""

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from unspool.format.base import ABSENT, CamelShape
from unspool.format.blocks import Other


class ProgressData(CamelShape, frozen=True, tag_field="type"):
    """Any progress."""


class BashProgress(ProgressData, frozen=True, tag="bash_progress"):
    """Output of a shell command so far."""

    output: str = ""
    full_output: str = ""
    elapsed_time_seconds: float | None = None
    total_lines: int | None = None
    total_bytes: int | None = None
    timeout_ms: float | None = None
    task_id: str | None = None


class PowerShellProgress(BashProgress, frozen=True, tag="powershell_progress"):
    """Output of a PowerShell command so far."""


class AgentProgress(ProgressData, frozen=True, tag="agent_progress"):
    """A line that a sub-agent just wrote, with all those before it: by far the largest progress lines."""

    agent_id: str | None = None
    prompt: str | None = None
    resume: str | None = None
    message: msgspec.Raw = ABSENT
    normalized_messages: msgspec.Raw = ABSENT


class SkillProgress(AgentProgress, frozen=True, tag="skill_progress"):
    """A line written while a skill runs."""


class HookProgress(ProgressData, frozen=True, tag="hook_progress"):
    """A hook was started."""

    hook_event: str | None = None
    hook_name: str | None = None
    command: str | None = None
    prompt_text: str | None = None
    status_message: str | None = None


class McpProgress(ProgressData, frozen=True, tag="mcp_progress"):
    """A tool of an MCP server started, moved on or ended."""

    status: str | None = None
    server_name: str | None = None
    tool_name: str | None = None
    elapsed_time_ms: float | None = None
    progress: float | None = None
    total: float | None = None
    progress_message: str | None = None


class QueryUpdate(ProgressData, frozen=True, tag="query_update"):
    """A web search was started."""

    query: str | None = None


class SearchResultsReceived(ProgressData, frozen=True, tag="search_results_received"):
    """A web search came back."""

    query: str | None = None
    result_count: int | None = None


class WaitingForTask(ProgressData, frozen=True, tag="waiting_for_task"):
    """The model waits for a background task."""

    task_description: str | None = None
    task_type: str | None = None


KnownProgress: TypeAlias = (
    BashProgress
    | PowerShellProgress
    | AgentProgress
    | SkillProgress
    | HookProgress
    | McpProgress
    | QueryUpdate
    | SearchResultsReceived
    | WaitingForTask
)

if TYPE_CHECKING:
    AnyProgress: TypeAlias = KnownProgress | Other
else:
    AnyProgress: TypeAlias = KnownProgress
