"""Inputs and results of the tools that start agents, send them messages, run workflows and load skills."""

from typing import Any, Final, TypeAlias

from msgspec import field

from unspool.format.base import CamelShape, Shape, Usage

AGENT_TOOLS: Final = frozenset({"Task", "Agent"})
"""The tools that start an agent: Claude Code 2.1.63 renamed `Task` to `Agent`."""


class AgentInput(Shape, frozen=True):
    """Start an agent; the tool is called Task before 2.1.63."""

    description: str = ""
    prompt: str = ""
    subagent_type: str | None = None
    model: str | None = None
    effort: str | None = None
    resume: str | None = None
    """The agent to resume."""
    run_in_background: bool | None = None
    max_turns: int | None = None
    isolation: str | None = None
    name: str | None = None
    team_name: str | None = None
    mode: str | None = None


class ToolStats(CamelShape, frozen=True):
    """Counts of what an agent did (from 2.1.98)."""

    read_count: int = 0
    search_count: int = 0
    bash_count: int = 0
    edit_file_count: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    other_tool_count: int = 0
    frame_count: int | None = None


class AgentCompleted(CamelShape, frozen=True, tag_field="status", tag="completed"):
    """An agent returned its answer. 1.0.x wrote neither the status nor the agent's id."""

    agent_id: str | None = None
    agent_type: str | None = None
    prompt: str | None = None
    content: tuple[Any, ...] = ()
    total_duration_ms: int | float | None = None
    total_tokens: int | None = None
    total_tool_use_count: int | None = None
    usage: Usage | None = None
    """Of the last response alone; `total_tokens` is its sum."""
    tool_stats: ToolStats | None = None
    tools_used: tuple[str, ...] | None = None
    resolved_model: str | None = None
    models_used: tuple[str, ...] | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None
    was_interrupted: bool | None = None


class AgentLaunched(CamelShape, frozen=True, tag_field="status", tag="async_launched"):
    """An agent was started in the background; its answer comes later, as a task notification."""

    agent_id: str | None = None
    is_async: bool | None = None
    description: str | None = None
    prompt: str | None = None
    output_file: str | None = None
    can_read_output_file: bool | None = None
    can_continue_agent: bool | None = None
    resolved_model: str | None = None
    models_used: tuple[str, ...] | None = None


class AgentSentAway(CamelShape, frozen=True, tag_field="status", tag="remote_launched"):
    """An agent was started in the cloud."""

    task_id: str | None = None
    session_url: str | None = None
    description: str | None = None
    prompt: str | None = None
    output_file: str | None = None


class TeammateSpawned(Shape, frozen=True, tag_field="status", tag="teammate_spawned"):
    """A member of a team was started, in a terminal of its own."""

    teammate_id: str | None = None
    agent_id: str | None = None
    """Not the id that agent files are named by."""
    agent_type: str | None = None
    name: str | None = None
    team_name: str | None = None
    model: str | None = None
    prompt: str | None = None
    color: str | None = None
    is_splitpane: bool | None = None
    plan_mode_required: bool | None = None
    tmux_session_name: str | None = None
    tmux_window_name: str | None = None
    tmux_pane_id: str | None = None


class ListAgentsInput(Shape, frozen=True):
    """List the agents that can receive messages (2.1.325)."""

    channel: str | None = None
    q: str | None = None


class SendMessageInput(Shape, frozen=True):
    """Send a message to an agent: `recipient` and `content` at first, `to` and `message` in newer versions."""

    to: str | None = None
    message: str | dict[str, Any] | None = None
    summary: str | None = None
    type: str | None = None
    recipient: str | None = None
    content: str | None = None
    request_id: str | None = None
    approve: bool | None = None
    notify_when_idle: bool | None = None


class Routing(CamelShape, frozen=True):
    """The sender and the target of a message."""

    sender: str | None = None
    sender_color: str | None = None
    target: str | None = None
    target_color: str | None = None
    summary: str | None = None
    content: str | None = None


class SendMessageResult(Shape, frozen=True):
    """A message was sent to an agent."""

    success: bool = False
    message: str = ""
    routing: Routing | None = None
    request_id: str | None = None
    target: str | None = None
    pin: Any = None
    resumed_agent_id: str | None = field(default=None, name="resumedAgentId")


class TeamCreateInput(Shape, frozen=True):
    """Start a team."""

    team_name: str = ""
    description: str | None = None
    agent_type: str | None = None


class TeamCreateResult(Shape, frozen=True):
    """A team was started."""

    team_name: str = ""
    team_file_path: str | None = None
    lead_agent_id: str | None = None


class TeamDeleteInput(Shape, frozen=True):
    """End the team."""


class TeamDeleteResult(Shape, frozen=True):
    """A team has ended."""

    success: bool = False
    message: str = ""
    team_name: str | None = None


class WorkflowInput(CamelShape, frozen=True):
    """Run a script that starts agents."""

    script: str | None = None
    script_path: str | None = None
    name: str | None = None
    description: str | None = None
    title: str | None = None
    args: Any = None
    resume_from_run_id: str | None = None


class WorkflowResult(CamelShape, frozen=True):
    """A workflow was started; its progress is in `workflows/<run id>.json`."""

    status: str | None = None
    is_async: bool | None = None
    run_id: str | None = None
    task_id: str | None = None
    task_type: str | None = None
    workflow_name: str | None = None
    summary: str | None = None
    transcript_dir: str | None = None
    script_path: str | None = None
    session_url: str | None = None
    warning: str | None = None
    error: str | None = None


class StructuredOutputInput(Shape, frozen=True):
    """The answer in the schema that the caller required: any object."""

    value: dict[str, Any] = field(default_factory=dict)


class SkillInput(Shape, frozen=True):
    """Use a skill; the key was `command` at first."""

    skill: str | None = None
    args: str | None = None
    command: str | None = None


class SkillResult(CamelShape, frozen=True):
    """A skill was loaded, or a slash command (SlashCommand); its text follows as a user line."""

    success: bool = False
    command_name: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    model: str | None = None
    status: str | None = None
    """`forked`: an agent followed the skill (`context: fork`)."""
    agent_id: str | None = None
    result: Any = None
    """What the agent answered."""
    tools_used_line: str | None = None


class SlashCommandInput(Shape, frozen=True):
    """Use a slash command (2.0.x); Skill since."""

    command: str = ""


class ToolSearchInput(Shape, frozen=True):
    """Load tools that the request did not describe."""

    query: str = ""
    max_results: int | float | None = None


class ToolSearchResult(Shape, frozen=True):
    """Tools were loaded."""

    query: str = ""
    matches: tuple[str, ...] = ()
    total_deferred_tools: int | None = None


AgentResult: TypeAlias = AgentCompleted | AgentLaunched | AgentSentAway | TeammateSpawned
