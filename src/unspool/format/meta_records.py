"""Records of lines beside the conversation: titles, modes, queued prompts, file backups, requests, costs, and states
that Claude Code keeps for itself.

Rules
  1. These lines are no nodes of the conversation graph: they have no uuid.
  2. Most are written again and again (over thirty times in one file); the last one counts.
  3. Most states (from `ReplMode` on) were seen only in Claude Code's code, not in files: names and fields are its own.
"""

from typing import Any

import msgspec
from msgspec import field

from unspool.format.base import ABSENT, CamelShape, Record
from unspool.format.blocks import AnyBlock


class Summary(Record, frozen=True, tag="summary"):
    """A title for the session that holds `leaf_uuid`, often another file (until 2.1.29). Not a compaction."""

    summary: str = ""
    leaf_uuid: str | None = None


class CustomTitle(Record, frozen=True, tag="custom-title"):
    """The title that the user gave."""

    custom_title: str | None = None


class AiTitle(Record, frozen=True, tag="ai-title"):
    """The title that a model gave (from 2.1.112 on)."""

    ai_title: str | None = None


class TaskSummary(Record, frozen=True, tag="task-summary"):
    """A sentence about what the session is doing."""

    summary: str = ""


class OtherAgentLine(Record, frozen=True, tag="other-agent"):
    """A line of another agent's session that has no counterpart here. unspool writes it when it translates."""

    program: str = ""
    """The agent: `codex`, `gemini`, `opencode` or `pi`."""
    kind: str = ""
    """What the agent calls the line."""


class Tag(Record, frozen=True, tag="tag"):
    """A tag that the user gave the session."""

    tag: str | None = None


class AgentName(Record, frozen=True, tag="agent-name"):
    """The session's name among other agents."""

    agent_name: str | None = None


class AgentColor(Record, frozen=True, tag="agent-color"):
    """The session's colour among other agents."""

    agent_color: str | None = None


class AgentSetting(Record, frozen=True, tag="agent-setting"):
    """The agent definition the session runs as."""

    agent_setting: str | None = None


class Mode(Record, frozen=True, tag="mode"):
    """`normal`, `coordinator`, … (from 2.1.157 on)."""

    mode: str | None = None


class PermissionMode(Record, frozen=True, tag="permission-mode"):
    """`default`, `acceptEdits`, `plan`, … (from 2.1.92 on)."""

    permission_mode: str | None = None


# 2.1.325 resumes from this leaf; without one, from the last line of the file.
class LastPrompt(Record, frozen=True, tag="last-prompt"):
    """The newest prompt and the leaf to resume from (from 2.1.77 on)."""

    last_prompt: str | None = None
    leaf_uuid: str | None = None
    """All zeros after a rewind to the start."""
    explicit: bool | None = None


class PrLink(Record, frozen=True, tag="pr-link"):
    """A pull request made in this session."""

    pr_number: int | None = None
    pr_url: str | None = None
    pr_repository: str | None = None


class FrameLink(Record, frozen=True, tag="frame-link"):
    """An artifact published from this session."""

    path: str | None = None
    frame_url: str | None = None
    title: str | None = None
    artifact_count: int | None = None


class QueueOperation(Record, frozen=True, tag="queue-operation"):
    """A change of the queue of prompts typed while the model was busy: `enqueue`, `dequeue`, `remove` or `popAll`."""

    operation: str | None = None
    # A list on 12 and absent on 111 of 3,892 enqueued prompts; 204 prompts are kept nowhere else.
    content: str | tuple[AnyBlock, ...] | None = None
    """Often the only place the prompt's text is kept. May also be a task's JSON or a notification."""
    reason: str | None = None
    command_uuid: str | None = None
    delivery_id: str | None = None


class Backup(CamelShape, frozen=True):
    """A copy of a file as it was: `file-history/<session>/<name>`, or no file (null) if it did not exist."""

    # The first 16 digits of the SHA-256 of the file's absolute path, `@v` and the version (2.0.76 to 2.1.325).
    backup_file_name: str | None = None
    version: int | None = None
    backup_time: str | None = None
    real_parent_dir: str | None = None


class FileHistory(CamelShape, frozen=True):
    """The backups that belong to a message."""

    message_id: str | None = None
    timestamp: str | None = None
    tracked_file_backups: dict[str, Backup] = field(default_factory=dict)
    has_untracked_changes: bool | None = None


class FileHistorySnapshot(Record, frozen=True, tag="file-history-snapshot"):
    """All files tracked at a prompt, or an update of that."""

    message_id: str | None = None
    snapshot: FileHistory = FileHistory()
    is_snapshot_update: bool | None = None


class FileHistoryDelta(Record, frozen=True, tag="file-history-delta"):
    """One more file tracked since the snapshot (from 2.1.325 on)."""

    message_id: str | None = None
    snapshot_message_id: str | None = None
    tracking_path: str | None = None
    backup: Backup | None = None


class AttributionSnapshot(Record, frozen=True, tag="attribution-snapshot"):
    """The share of each file that the model wrote."""

    message_id: str | None = None
    surface: str | None = None
    file_states: Any = None
    prompt_count: int | None = None


class ResultReplacement(CamelShape, frozen=True):
    """A tool result that is sent to the model in a shorter form."""

    kind: str | None = None
    tool_use_id: str | None = None
    replacement: str | None = None


class ContentReplacement(Record, frozen=True, tag="content-replacement"):
    """Tool results that are sent to the model in a shorter form."""

    replacements: tuple[ResultReplacement, ...] = ()


class WorktreeState(Record, frozen=True, tag="worktree-state"):
    """The git worktree that the session works in; null after it left."""

    worktree_session: Any = None


class Relocated(Record, frozen=True, tag="relocated"):
    """The session moved to another working folder."""

    relocated_cwd: str | None = None


class ModelCost(CamelShape, frozen=True):
    """Tokens and cost of one model, as Claude Code counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_creation_ephemeral_5m_input_tokens: int | None = field(
        default=None, name="cacheCreationEphemeral5mInputTokens"
    )
    cache_creation_ephemeral_1h_input_tokens: int | None = field(
        default=None, name="cacheCreationEphemeral1hInputTokens"
    )
    web_search_requests: int = 0
    cost_usd: float | None = field(default=None, name="costUSD")
    context_window: int | None = None
    max_output_tokens: int | None = None


class CostState(Record, frozen=True, tag="cost-state"):
    """Claude Code's own running totals (from 2.1.290 on)."""

    total_cost_usd: float | None = field(default=None, name="totalCostUSD")
    total_api_duration: float | None = field(default=None, name="totalAPIDuration")
    total_api_duration_without_retries: float | None = field(default=None, name="totalAPIDurationWithoutRetries")
    total_tool_duration: float | None = None
    total_lines_added: int | None = None
    total_lines_removed: int | None = None
    total_duration: float | None = None
    start_time: float | None = None
    model_usage: dict[str, ModelCost] = field(default_factory=dict)
    has_unknown_model_cost: bool | None = None


# Not needed to resume, but these lines still hold every text that was sent: redaction and edits must reach them too.
class ApiRequest(Record, frozen=True, tag="api-request"):
    """A request as it was sent, with references to its shape and its messages (from 2.1.325 on)."""

    id: str | None = None
    query_source: str | None = None
    shape_hash: str | None = None
    params: msgspec.Raw = ABSENT
    base: str | None = None
    """The request this one extends: its first `keep` messages, then those of `tail`."""
    keep: int | None = None
    tail: tuple[str, ...] = ()
    cache_control: msgspec.Raw = ABSENT
    request_digest: str | None = None


class ApiRequestResumed(Record, frozen=True, tag="api-request-resumed"):
    """A request that continued a paused one. No file with one was seen: the fields are those in the code of 2.1.328."""

    message_id: str | None = None
    paused_request_id: str | None = None
    resumed_request_id: str | None = None


class ApiRequestShape(Record, frozen=True, tag="api-request-shape"):
    """The system prompt and tools of requests, stored once."""

    shape_hash: str | None = None
    shape: msgspec.Raw = ABSENT


class ApiRequestBlob(Record, frozen=True, tag="api-request-blob"):
    """A message of requests, stored once."""

    hash: str | None = None
    message: msgspec.Raw = ABSENT


class ToolsUsed(Record, frozen=True, tag="tools-used"):
    """The tools used so far."""

    tools: tuple[str, ...] = ()


class WorkflowLaunched(Record, frozen=True, tag="launched"):
    """In a workflow's journal: the workflow was started (from 2.1.290 on)."""


class StepStarted(Record, frozen=True, tag="started"):
    """In a workflow's journal: an agent was started."""

    key: str | None = None
    label: str | None = None
    phase: str | None = None


class StepResult(Record, frozen=True, tag="result"):
    """In a workflow's journal: an agent returned its result."""

    key: str | None = None
    result: Any = None
    remote_control_device_report: bool | None = None
    tools_used: tuple[str, ...] = ()


class ReplMode(Record, frozen=True, tag="repl-mode"):
    """Whether the session writes code instead of calling tools."""

    repl_mode: Any = None
    typed_events: bool | None = None


class MemoryMode(Record, frozen=True, tag="memory-mode"):
    """How the session may use memory."""

    mode: Any = None


class AtisLatch(Record, frozen=True, tag="atis-latch"):
    """An internal state of Claude Code (from 2.1.250 on)."""

    atis: str | None = None


class IsolationLatch(Record, frozen=True, tag="isolation-latch"):
    """The side of an isolation that the session is on."""

    side: str | None = None


class ContinuedIn(Record, frozen=True, tag="continued-in"):
    """The conversation continues in another session."""

    continued_in_session_id: str | None = None


class DerivedFrom(Record, frozen=True, tag="derived-from"):
    """The conversation was derived from another session."""


class ForkContextRef(Record, frozen=True, tag="fork-context-ref"):
    """A sub-agent was forked from its parent's conversation, which stays in the parent's file."""

    parent_session_id: str | None = None
    parent_last_uuid: str | None = None
    """The last line of the parent that the agent knows."""
    context_length: int | None = None
    """How many messages of the parent it knows."""


class EndedByModel(Record, frozen=True, tag="ended-by-model"):
    """The model ended the conversation."""


class SpeculationAccept(Record, frozen=True, tag="speculation-accept"):
    """The user accepted a prompt that had been predicted."""

    time_saved_ms: float | None = None


class HistorySuppression(Record, frozen=True, tag="history-suppression"):
    """The session is left out of histories."""

    cause: str | None = None
    ts: str | None = None
    vetoed_against_account_uuid: str | None = None


class ContextCollapse(Record, frozen=True, tag="marble-origami-commit"):
    """A part of the conversation that is sent to the model as a summary."""

    collapse_id: str | None = None
    summary_uuid: str | None = None
    summary_content: str | None = None
    summary: str | None = None
    first_archived_uuid: str | None = None
    last_archived_uuid: str | None = None


class ContextCollapseSnapshot(Record, frozen=True, tag="marble-origami-snapshot"):
    """Context collapses that are prepared but not in effect."""

    staged: tuple[Any, ...] = ()
    armed: bool | None = None
    last_spawn_tokens: int | None = None


class ContextCollapseReset(Record, frozen=True, tag="marble-origami-reset"):
    """All context collapses are undone."""


class ArtifactCommentMonitor(Record, frozen=True, tag="artifact-comment-monitor"):
    """Artifacts whose comments are watched."""

    v: int | None = None
    artifacts: Any = None


class ArtifactAutoreactLedger(Record, frozen=True, tag="artifact-autoreact-ledger"):
    """Artifacts whose comments were answered."""

    v: int | None = None
    account_uuid: str | None = None
    artifacts: Any = None


class ResumeHeadVouch(Record, frozen=True, tag="resume-head-vouch"):
    """An internal state of Claude Code."""


class DataFlowRecords(Record, frozen=True, tag="data-flow-records"):
    """An internal state of Claude Code."""


class DataFlowIncomplete(Record, frozen=True, tag="data-flow-incomplete"):
    """An internal state of Claude Code."""

    v: int | None = None


class SessionOwner(Record, frozen=True, tag="session-owner"):
    """The owner of the session."""


class DevMods(Record, frozen=True, tag="dev-mods"):
    """An internal state of Claude Code."""

    folder: str | None = None


class ObserverRef(Record, frozen=True, tag="observer-ref"):
    """A session that watches this one."""


class BridgeSession(Record, frozen=True, tag="bridge-session"):
    """The session is also open on another device."""

    bridge_session_id: str | None = None
    last_sequence_num: int | None = None
    declared_dialog_kinds: tuple[str, ...] = ()
    session_grouping_id: str | None = None
    no_history_backfill: bool | None = None
    owner_account_uuid: str | None = None
    owner_organization_uuid: str | None = None
