"""Attachments: the kinds of context that Claude Code adds to the conversation (from 2.1.92 on).

The set is open and grows with every version: a kind not listed here is an `Other` that keeps its value.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import field

from unspool.format.base import CamelShape, join_tagged_types
from unspool.format.blocks import AnyBlock, Other


class AttachmentData(CamelShape, frozen=True, tag_field="type"):
    """Base of an attachment."""


class Environment(AttachmentData, frozen=True, tag="environment"):
    """Working folder, platform and shell."""

    snapshot: Any = None


class ModelIdentity(AttachmentData, frozen=True, tag="model"):
    """The model that answers."""

    identity: Any = None
    text: str | None = None


class Date(AttachmentData, frozen=True, tag="date"):
    """The current date."""

    date: str | None = None


class DateChange(AttachmentData, frozen=True, tag="date_change"):
    """The date changed during the session."""

    new_date: str | None = None


class SessionContext(AttachmentData, frozen=True, tag="session_context"):
    """Git status and memory files at the start of the session."""

    context: Any = None


class PromptSnapshot(AttachmentData, frozen=True, tag="prompt_snapshot"):
    """The whole system prompt and all tools: the largest part of a short session since 2.1.290."""

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
    """The available skills."""

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
    """The skills in use, repeated after a compaction."""

    skills: tuple[Any, ...] = ()


class AgentListingDelta(AttachmentData, frozen=True, tag="agent_listing_delta"):
    """Sub-agent types that were added or removed."""

    added_types: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()
    removed_types: tuple[str, ...] = ()
    built_in_types: tuple[str, ...] = ()
    built_in_plugin_types: tuple[str, ...] = ()
    is_initial: bool | None = None
    show_concurrency_note: bool | None = None


class DeferredToolsDelta(AttachmentData, frozen=True, tag="deferred_tools_delta"):
    """Tools behind `ToolSearch` that were added or removed."""

    added_names: tuple[str, ...] = ()
    added_lines: tuple[str, ...] = ()
    removed_names: tuple[str, ...] = ()
    readded_names: tuple[str, ...] = ()
    wire_hidden_names: tuple[str, ...] = ()
    loaded_names: tuple[str, ...] = ()
    surfaced_names: tuple[str, ...] = ()
    """Tools that came late and are sent to the model at once, in blocks of the system message (from 2.1.325 on)."""
    surfaced_definitions: tuple[Any, ...] = ()
    replaced_names: tuple[str, ...] = ()
    removed_by_block: tuple[str, ...] = ()
    still_defined_names: tuple[str, ...] = ()
    left_defined_names: tuple[str, ...] = ()
    restored_names: tuple[str, ...] = ()
    runs_again_names: tuple[str, ...] = ()
    retracted_tools: tuple[Any, ...] = ()
    restores_deferred: bool | None = None
    tool_search_absent: bool | None = None
    tells_when_to_load: bool | None = None
    connected_apps: tuple[Any, ...] = ()
    cause_neutral: bool | None = None
    pending_mcp_servers: tuple[Any, ...] = ()
    failed_mcp_servers: tuple[Any, ...] = ()
    needs_auth_mcp_servers: tuple[Any, ...] = ()


class DeferredToolsRecord(AttachmentData, frozen=True, tag="deferred_tools_record"):
    """The tools that `ToolSearch` loaded, with their descriptions (from 2.1.325 on)."""

    entries: tuple[Any, ...] = ()


class ToolOfferRecord(AttachmentData, frozen=True, tag="tool_offer_record"):
    """The tools that requests offer and hide. No file with one was seen: the fields are those of 2.1.328's code."""

    offered: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()


class Instructions(AttachmentData, frozen=True, tag="instructions"):
    """The memory files that apply to the session (from 2.1.325 on)."""

    files: tuple[Any, ...] = ()


class OutputStyle(AttachmentData, frozen=True, tag="output_style"):
    """A reminder that an output style is active (from 2.1.325 on)."""

    style: str | None = None
    turn_reminder: str | None = None


class OutputStyleInstructions(AttachmentData, frozen=True, tag="output_style_instructions"):
    """The output style that is active, with its instructions (from 2.1.325 on)."""

    style: Any = None


class UnknownCommandFallback(AttachmentData, frozen=True, tag="unknown_command_fallback"):
    """A prompt began with a slash command that does not exist; it was sent as it is (from 2.1.325 on)."""

    command_name: str | None = None
    available_command_names: tuple[str, ...] = ()
    available_command_count: int | None = None


class McpInstructionsDelta(AttachmentData, frozen=True, tag="mcp_instructions_delta"):
    """Instructions of MCP servers that were added or removed."""

    added_names: tuple[str, ...] = ()
    added_blocks: tuple[str, ...] = ()
    removed_names: tuple[str, ...] = ()


class CommandPermissions(AttachmentData, frozen=True, tag="command_permissions"):
    """The tools that a slash command may use."""

    allowed_tools: tuple[str, ...] = ()
    model: str | None = None


# Up to 2.1.63 such a prompt is only in a `queue-operation` line; who lists prompts must look at both.
class QueuedCommand(AttachmentData, frozen=True, tag="queued_command"):
    """A prompt that was typed while the model worked and inserted during the turn; it has no user line."""

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
    tools_used_delta: tuple[str, ...] = ()
    """Of a notification that an agent has ended: the tools that it used, and what it cost."""
    usage: Any = None


class FileMention(AttachmentData, frozen=True, tag="file"):
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
    """A file that somebody else changed after the model read it."""

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
    """A file was read only in part."""

    banner: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")


class PlanMode(AttachmentData, frozen=True, tag="plan_mode"):
    """Plan mode is on."""

    reminder_type: str | None = None
    is_sub_agent: bool | None = None
    plan_file_path: str | None = None
    plan_exists: bool | None = None


class PlanModeExit(AttachmentData, frozen=True, tag="plan_mode_exit"):
    """Plan mode ended."""

    plan_file_path: str | None = None
    plan_exists: bool | None = None


class PlanFileReference(AttachmentData, frozen=True, tag="plan_file_reference"):
    """The plan, repeated after a compaction."""

    plan_file_path: str | None = None
    plan_content: str | None = None


class AutoMode(AttachmentData, frozen=True, tag="auto_mode"):
    """Automatic permission mode is on."""

    auto_mode_consent_flow: bool | None = None
    bash_first: bool | None = None
    steer_only: bool | None = None
    bypass: bool | None = None


class AutoModeExit(AttachmentData, frozen=True, tag="auto_mode_exit"):
    """Automatic permission mode ended."""


class TaskReminder(AttachmentData, frozen=True, tag="task_reminder"):
    """The task list, repeated for the model."""

    content: tuple[Any, ...] = ()
    item_count: int | None = None


class TodoReminder(AttachmentData, frozen=True, tag="todo_reminder"):
    """The todo list, repeated for the model."""

    content: tuple[Any, ...] = ()
    item_count: int | None = None


class TaskStatus(AttachmentData, frozen=True, tag="task_status"):
    """The status of a background task."""

    task_id: str | None = None
    task_type: str | None = None
    description: str | None = None
    status: str | None = None
    delta_summary: str | None = None
    output_file_path: str | None = None


class GoalStatus(AttachmentData, frozen=True, tag="goal_status"):
    """Whether the goal of the session is met."""

    met: bool | None = None
    condition: str | None = None
    sentinel: bool | None = None
    reason: str | None = None
    iterations: int | None = None
    duration_ms: float | None = None
    tokens: int | None = None


class Reminder(AttachmentData, frozen=True):
    """Base of a reminder to the model."""

    text: str | None = None


class SilentTurnReminder(Reminder, frozen=True, tag="silent_turn_reminder"):
    """The model has not written to the user for long."""


class TotalTokensReminder(Reminder, frozen=True, tag="total_tokens_reminder"):
    """The number of tokens left."""


class BatchingReminderSent(Reminder, frozen=True, tag="batching_reminder_sent"):
    """Tool calls could be made in parallel."""

    model: str | None = None


class BudgetUsd(AttachmentData, frozen=True, tag="budget_usd"):
    """The money spent and left."""

    used: float | None = None
    total: float | None = None
    remaining: float | None = None


class MaxTurnsReached(AttachmentData, frozen=True, tag="max_turns_reached"):
    """The limit of turns was reached."""

    max_turns: int | None = None
    turn_count: int | None = None
    exit_committed: bool | None = None


class UltraEffortEnter(AttachmentData, frozen=True, tag="ultra_effort_enter"):
    """The highest effort level is on."""

    reminder_type: str | None = None


class UltraEffortExit(AttachmentData, frozen=True, tag="ultra_effort_exit"):
    """The highest effort level ended."""


class HookAttachment(AttachmentData, frozen=True):
    """Base of the outcome of a hook."""

    hook_name: str | None = None
    hook_event: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    command: str | None = None
    duration_ms: float | None = None


class HookSuccess(HookAttachment, frozen=True, tag="hook_success"):
    """A hook ran."""

    content: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None


class HookNonBlockingError(HookAttachment, frozen=True, tag="hook_non_blocking_error"):
    """A hook failed, and the turn continued."""

    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None


class HookBlockingError(HookAttachment, frozen=True, tag="hook_blocking_error"):
    """A hook blocked the action."""

    blocking_error: Any = None


class HookErrorDuringExecution(HookAttachment, frozen=True, tag="hook_error_during_execution"):
    """A hook could not be run."""

    content: str | None = None


class HookCancelled(HookAttachment, frozen=True, tag="hook_cancelled"):
    """A hook was cancelled."""


class HookStoppedContinuation(HookAttachment, frozen=True, tag="hook_stopped_continuation"):
    """A hook ended the turn."""

    message: str | None = None


class HookSystemMessage(HookAttachment, frozen=True, tag="hook_system_message"):
    """A hook sent a message to the user."""

    content: str | None = None


class HookAdditionalContext(HookAttachment, frozen=True, tag="hook_additional_context"):
    """A hook added context for the model."""

    content: tuple[Any, ...] = ()


class HookPermissionDecision(HookAttachment, frozen=True, tag="hook_permission_decision"):
    """A hook for `PermissionRequest` allowed or denied a tool call (from 2.1.325 on)."""

    decision: str | None = None
    """`allow` or `deny`."""


class BashOutputAudienceNote(AttachmentData, frozen=True, tag="bash_output_audience_note"):
    """The model alone sees the whole output of a shell command (from 2.1.325 on, in the terminal)."""

    tool_use_id: str | None = field(default=None, name="toolUseID")


class AlreadyReadFile(AttachmentData, frozen=True, tag="already_read_file"):
    """A file mentioned with `@` that the model has read already: it is not sent again."""

    filename: str | None = None
    content: Any = None
    display_path: str | None = None
    truncated: bool | None = None


class ToolResultsCut(AttachmentData, frozen=True, tag="tool_results_cut"):
    """Old tool results that are no longer sent, after a long pause (2.1.326): microcompaction as it is today."""

    call_ids: tuple[str, ...] = ()
    stand_in: str | None = None
    """What is sent in their place."""
    rough_tokens: float | None = None


class CompanionIntro(AttachmentData, frozen=True, tag="companion_intro"):
    """The introduction of a companion. 2.1.326 leaves such lines out and writes none; no file with one was seen."""


# As with blocks, the decoder sees the known kinds only; `recover` puts an `Other` where they do not fit.
if TYPE_CHECKING:
    KnownAttachment: TypeAlias = AttachmentData
    AnyAttachment: TypeAlias = AttachmentData | Other
else:
    KnownAttachment = AnyAttachment = join_tagged_types(AttachmentData)
