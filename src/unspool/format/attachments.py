"""Attachments: what the program puts beside the conversation (from 2.1.92 on), by kind.

The set is open and grows with every version: a kind not listed here is an `Other` that keeps its value.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import field

from unspool.format.base import CamelShape
from unspool.format.blocks import AnyBlock, Other


class AttachmentData(CamelShape, frozen=True, tag_field="type"):
    """Any attachment."""


class Environment(AttachmentData, frozen=True, tag="environment"):
    """Folder, platform, shell."""

    snapshot: Any = None


class Model(AttachmentData, frozen=True, tag="model"):
    """Which model answers."""

    identity: Any = None
    text: str | None = None


class Date(AttachmentData, frozen=True, tag="date"):
    """Today."""

    date: str | None = None


class DateChange(AttachmentData, frozen=True, tag="date_change"):
    """Midnight passed."""

    new_date: str | None = None


class SessionContext(AttachmentData, frozen=True, tag="session_context"):
    """Git status and memory files at the start."""

    context: Any = None


class PromptSnapshot(AttachmentData, frozen=True, tag="prompt_snapshot"):
    """The program's system prompt and tools, whole: the largest part of a short session since 2.1.290."""

    system_prompt: tuple[Any, ...] = ()
    tools: tuple[Any, ...] = ()
    cli_prefix: str | None = None
    context_rendering: str | None = None
    reminder_fold: bool | None = None
    echo_wire_tool_inputs: bool | None = None
    system_turns: bool | None = None
    tool_change_header: bool | None = None
    inline_tools: bool | None = None
    kept_reminders: bool | None = None


class RemoteSessionChange(AttachmentData, frozen=True, tag="remote_session_change"):
    """How commits and pull requests are signed."""

    url: str | None = None
    commit: str | None = None
    pr: str | None = None
    send_user_file_hint: bool | None = None
    managed_commit: bool | None = None
    managed_pr: bool | None = None


class SkillListing(AttachmentData, frozen=True, tag="skill_listing"):
    """The skills there are."""

    content: str | None = None
    skill_count: int | None = None
    is_initial: bool | None = None
    names: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()


class DynamicSkill(AttachmentData, frozen=True, tag="dynamic_skill"):
    """Skills found in a folder that was just visited."""

    skill_dir: str | None = None
    skill_names: tuple[str, ...] = ()
    display_path: str | None = None


class InvokedSkills(AttachmentData, frozen=True, tag="invoked_skills"):
    """Skills in use, said again after a compaction."""

    skills: tuple[Any, ...] = ()


class AgentListingDelta(AttachmentData, frozen=True, tag="agent_listing_delta"):
    """Sub-agent types that came or went."""

    added_types: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()
    removed_types: tuple[str, ...] = ()
    built_in_types: tuple[str, ...] = ()
    built_in_plugin_types: tuple[str, ...] = ()
    is_initial: bool | None = None
    show_concurrency_note: bool | None = None


class DeferredToolsDelta(AttachmentData, frozen=True, tag="deferred_tools_delta"):
    """Tools to be found with `ToolSearch` that came or went."""

    added_names: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()
    removed_names: tuple[str, ...] = ()
    readded_names: tuple[str, ...] = ()
    wire_hidden_names: tuple[str, ...] = ()
    pending_mcp_servers: tuple[Any, ...] = ()
    failed_mcp_servers: tuple[Any, ...] = ()
    needs_auth_mcp_servers: tuple[Any, ...] = ()


class McpInstructionsDelta(AttachmentData, frozen=True, tag="mcp_instructions_delta"):
    """Instructions of MCP servers that came or went."""

    added_names: tuple[str, ...] = ()
    added_blocks: tuple[str, ...] = ()
    removed_names: tuple[str, ...] = ()


class CommandPermissions(AttachmentData, frozen=True, tag="command_permissions"):
    """Tools a slash command may use."""

    allowed_tools: tuple[str, ...] = ()
    model: str | None = None


class QueuedCommand(AttachmentData, frozen=True, tag="queued_command"):
    """A prompt that was typed while the model worked and taken in mid-turn; it has no user line."""

    prompt: str | tuple[AnyBlock, ...] = ""
    command_mode: str | None = None
    """`prompt`, `task-notification`, …"""
    timestamp: str | None = None
    source_uuid: str | None = field(default=None, name="source_uuid")
    delivery_id: str | None = field(default=None, name="delivery_id")
    origin: Any = None
    human_turn: bool | None = None
    run_id: str | None = None
    is_meta: bool | None = None
    image_paste_ids: tuple[Any, ...] = ()


class File(AttachmentData, frozen=True, tag="file"):
    """A file mentioned with `@`, or read again after a compaction."""

    filename: str | None = None
    content: Any = None
    display_path: str | None = None
    truncated: bool | None = None
    saved_copy_framing: Any = None


class CompactFileReference(AttachmentData, frozen=True, tag="compact_file_reference"):
    """A file too large to be read again after a compaction."""

    filename: str | None = None
    display_path: str | None = None


class EditedTextFile(AttachmentData, frozen=True, tag="edited_text_file"):
    """A file that changed under the model's hands."""

    filename: str | None = None
    snippet: str | None = None
    display_path: str | None = None


class Directory(AttachmentData, frozen=True, tag="directory"):
    """A folder mentioned with `@`."""

    path: str | None = None
    content: str | None = None
    display_path: str | None = None


class NestedMemory(AttachmentData, frozen=True, tag="nested_memory"):
    """A memory file of a folder that was just visited."""

    path: str | None = None
    content: Any = None
    display_path: str | None = None


class ReadTruncationNotice(AttachmentData, frozen=True, tag="read_truncation_notice"):
    """A read was cut short."""

    banner: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")


class PlanMode(AttachmentData, frozen=True, tag="plan_mode"):
    """Plan mode is on."""

    reminder_type: str | None = None
    is_sub_agent: bool | None = None
    plan_file_path: str | None = None
    plan_exists: bool | None = None


class PlanModeExit(AttachmentData, frozen=True, tag="plan_mode_exit"):
    """Plan mode is over."""

    plan_file_path: str | None = None
    plan_exists: bool | None = None


class PlanFileReference(AttachmentData, frozen=True, tag="plan_file_reference"):
    """The plan, said again after a compaction."""

    plan_file_path: str | None = None
    plan_content: str | None = None


class AutoMode(AttachmentData, frozen=True, tag="auto_mode"):
    """Automatic permission mode is on."""

    auto_mode_consent_flow: bool | None = None
    bash_first: bool | None = None
    steer_only: bool | None = None
    bypass: bool | None = None


class AutoModeExit(AttachmentData, frozen=True, tag="auto_mode_exit"):
    """Automatic permission mode is over."""


class TaskReminder(AttachmentData, frozen=True, tag="task_reminder"):
    """The task list, said again."""

    content: tuple[Any, ...] = ()
    item_count: int | None = None


class TodoReminder(AttachmentData, frozen=True, tag="todo_reminder"):
    """The todo list, said again."""

    content: tuple[Any, ...] = ()
    item_count: int | None = None


class TaskStatus(AttachmentData, frozen=True, tag="task_status"):
    """How a background task is doing."""

    task_id: str | None = None
    task_type: str | None = None
    description: str | None = None
    status: str | None = None
    delta_summary: str | None = None
    output_file_path: str | None = None


class GoalStatus(AttachmentData, frozen=True, tag="goal_status"):
    """Whether the goal that was set is met."""

    met: bool | None = None
    condition: str | None = None
    sentinel: bool | None = None
    reason: str | None = None
    iterations: int | None = None
    duration_ms: float | None = None
    tokens: int | None = None


class Reminder(AttachmentData, frozen=True):
    """A sentence for the model."""

    text: str | None = None


class SilentTurnReminder(Reminder, frozen=True, tag="silent_turn_reminder"):
    """The user has not heard anything for long."""


class TotalTokensReminder(Reminder, frozen=True, tag="total_tokens_reminder"):
    """How many tokens are left."""


class BatchingReminderSent(Reminder, frozen=True, tag="batching_reminder_sent"):
    """Calls could be made together."""

    model: str | None = None


class BudgetUsd(AttachmentData, frozen=True, tag="budget_usd"):
    """How much money is left."""

    used: float | None = None
    total: float | None = None
    remaining: float | None = None


class MaxTurnsReached(AttachmentData, frozen=True, tag="max_turns_reached"):
    """A limit of turns was reached."""

    max_turns: int | None = None
    turn_count: int | None = None
    exit_committed: bool | None = None


class UltraEffortEnter(AttachmentData, frozen=True, tag="ultra_effort_enter"):
    """Highest effort is on."""

    reminder_type: str | None = None


class UltraEffortExit(AttachmentData, frozen=True, tag="ultra_effort_exit"):
    """Highest effort is over."""


class Hook(AttachmentData, frozen=True):
    """What a hook said or did."""

    hook_name: str | None = None
    hook_event: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    command: str | None = None
    duration_ms: float | None = None


class HookSuccess(Hook, frozen=True, tag="hook_success"):
    """It ran."""

    content: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None


class HookNonBlockingError(Hook, frozen=True, tag="hook_non_blocking_error"):
    """It failed, and the turn went on."""

    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None


class HookBlockingError(Hook, frozen=True, tag="hook_blocking_error"):
    """It said no."""

    blocking_error: Any = None


class HookErrorDuringExecution(Hook, frozen=True, tag="hook_error_during_execution"):
    """It could not be run."""

    content: str | None = None


class HookCancelled(Hook, frozen=True, tag="hook_cancelled"):
    """It was stopped."""


class HookStoppedContinuation(Hook, frozen=True, tag="hook_stopped_continuation"):
    """It ended the turn."""

    message: str | None = None


class HookSystemMessage(Hook, frozen=True, tag="hook_system_message"):
    """It has a word for the user."""

    content: str | None = None


class HookAdditionalContext(Hook, frozen=True, tag="hook_additional_context"):
    """It has a word for the model."""

    content: tuple[Any, ...] = ()


KnownAttachment: TypeAlias = (
    Environment | Model | Date | DateChange | SessionContext | PromptSnapshot | RemoteSessionChange
    | SkillListing | DynamicSkill | InvokedSkills | AgentListingDelta | DeferredToolsDelta
    | McpInstructionsDelta | CommandPermissions | QueuedCommand | File | CompactFileReference
    | EditedTextFile | Directory | NestedMemory | ReadTruncationNotice | PlanMode | PlanModeExit
    | PlanFileReference | AutoMode | AutoModeExit | TaskReminder | TodoReminder | TaskStatus | GoalStatus
    | SilentTurnReminder | TotalTokensReminder | BatchingReminderSent | BudgetUsd | MaxTurnsReached
    | UltraEffortEnter | UltraEffortExit | HookSuccess | HookNonBlockingError | HookBlockingError
    | HookErrorDuringExecution | HookCancelled | HookStoppedContinuation | HookSystemMessage
    | HookAdditionalContext
)  # fmt: skip

if TYPE_CHECKING:
    AnyAttachment: TypeAlias = KnownAttachment | Other
else:
    AnyAttachment: TypeAlias = KnownAttachment
