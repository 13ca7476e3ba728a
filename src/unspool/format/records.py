"""Records: what one line of a session file means. The lines of the conversation are here, the notes around it
in `notes.py` and `states.py`.

What is bulky and read by few stays encoded (`msgspec.Raw`) until someone asks: structured tool results, what
sub-agents said in progress lines, whole API requests.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import field

from unspool.format import meta_records
from unspool.format.attachments import AnyAttachment
from unspool.format.base import ABSENT, CamelShape
from unspool.format.blocks import Message
from unspool.format.envelope import Record, Unknown
from unspool.format.progress import AnyProgress


class ThinkingMetadata(CamelShape, frozen=True):
    """How much thinking a prompt asked for: two generations of it."""

    level: str | None = None
    disabled: bool | None = None
    triggers: tuple[Any, ...] = ()
    max_thinking_tokens: int | None = None
    kind: str | None = None


class Origin(CamelShape, frozen=True):
    """Who wrote a prompt (from 2.1.173 on)."""

    kind: str | None = None
    producer: str | None = None
    run_id: str | None = None
    from_: str | None = field(default=None, name="from")
    sender_task_id: str | None = None


class TurnPosition(CamelShape, frozen=True):
    """Which prompt and turn of the session this is (from 2.1.290 on)."""

    prompt_index: int | None = None
    turn_index: int | None = None


class PermissionDecision(CamelShape, frozen=True):
    """Why a tool was allowed or denied (from 2.1.325 on)."""

    decision: str | None = None
    source: str | None = None
    reason_type: str | None = None
    rule_source: str | None = None
    grant_scope: str | None = None
    reason_code: str | None = None


class User(Record, frozen=True, tag="user"):
    """A prompt, a tool result, or something the program says in the user's name."""

    message: Message = Message()
    tool_use_result: msgspec.Raw = ABSENT
    """The tool's own structured result; `unspool.format.tools.parse` gives it its type. Never sent to the API."""
    source_tool_assistant_uuid: str | None = field(default=None, name="sourceToolAssistantUUID")
    source_tool_use_id: str | None = field(default=None, name="sourceToolUseID")
    is_compact_summary: bool = False
    is_visible_in_transcript_only: bool = False
    permission_mode: str | None = None
    prompt_id: str | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    turn_position: TurnPosition | None = None
    origin: Origin | None = None
    thinking_metadata: ThinkingMetadata | None = None
    todos: tuple[Any, ...] = ()
    plan_content: str | None = None
    image_paste_ids: tuple[Any, ...] = ()
    classifier_meta_lines: Any = None
    interrupted_message_id: str | None = None
    interrupted_by_shutdown: bool | None = None
    tool_denial_kind: str | None = None
    tool_ends_turn: bool | None = None
    permission_decision: PermissionDecision | None = None
    sandboxed: bool | None = None
    turn_companion: bool | None = None
    queue_skip_attachments: bool | None = None
    summarized_turn_prompt_uuids: tuple[str, ...] = ()
    mcp_meta: Any = None


class Assistant(Record, frozen=True, tag="assistant"):
    """A piece of the model's answer, or an error in its place (model `<synthetic>`)."""

    message: Message = Message()
    request_id: str | None = None
    """Shared by all lines of one API reply; other vendors' servers do not send it."""
    is_api_error_message: bool = False
    error: Any = None
    api_error: Any = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    failed_response_had_no_tool_call: bool | None = None
    attribution_agent: str | None = None
    attribution_skill: str | None = None
    attribution_plugin: str | None = None
    attribution_mcp_server: str | None = None
    attribution_mcp_tool: str | None = None
    effort: str | None = None
    per_turn_effort: str | None = None
    made_by: str | None = None
    request_ref: str | None = None
    """The id of the `api-request` line that asked for this."""
    requested_model: str | None = None
    prompt_cache_requested: str | None = None
    server_classifier_request: str | None = None
    api_block_index: int | None = None
    thinking_duration_ms: float | None = None
    thinking_display: str | None = None
    tool_input_stream_ms: float | None = None


class PreservedSegment(CamelShape, frozen=True):
    """The stretch of the old conversation that a compaction kept (from 2.1.170 on)."""

    head_uuid: str | None = None
    anchor_uuid: str | None = None
    tail_uuid: str | None = None


class PreservedMessages(CamelShape, frozen=True):
    """The lines of that stretch."""

    anchor_uuid: str | None = None
    uuids: tuple[str, ...] = ()
    all_uuids: tuple[str, ...] = ()


class CompactMetadata(CamelShape, frozen=True):
    """What a compaction did."""

    trigger: str | None = None
    """`auto` or `manual`."""
    pre_tokens: int | None = None
    post_tokens: int | None = None
    cumulative_dropped_tokens: int | None = None
    duration_ms: float | None = None
    pre_compact_discovered_tools: tuple[str, ...] = ()
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None
    running_turn_prompt: Any = None
    user_context: str | None = None
    messages_summarized: int | None = None


class MicrocompactMetadata(CamelShape, frozen=True):
    """What clearing old tool results did (2.1.12 to 2.1.62)."""

    trigger: str | None = None
    pre_tokens: int | None = None
    tokens_saved: int | None = None
    compacted_tool_ids: tuple[str, ...] = ()
    cleared_attachment_uui_ds: tuple[str, ...] = field(default=(), name="clearedAttachmentUUIDs")


class HookInfo(CamelShape, frozen=True):
    """A hook that ran when the turn stopped."""

    command: str | None = None
    prompt_text: str | None = None
    duration_ms: float | None = None


class CommandRun(CamelShape, frozen=True):
    """The slash command behind a `local_command`."""

    command: str | None = None
    args: str | None = None


class System(Record, frozen=True, tag="system"):
    """Something the program notes; `subtype` says what. Lines of 1.0.x have no subtype."""

    subtype: str | None = None
    content: str | None = None
    level: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    request_id: str | None = None
    source: str | None = None
    # compact_boundary, microcompact_boundary
    logical_parent_uuid: str | None = None
    compact_metadata: CompactMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    # turn_duration
    duration_ms: float | None = None
    message_count: int | None = None
    pending_background_agent_count: int | None = None
    # local_command
    command_run: CommandRun | None = None
    # api_error
    error: Any = None
    cause: Any = None
    retry_in_ms: float | None = None
    retry_attempt: int | None = None
    max_retries: int | None = None
    # stop_hook_summary
    hook_count: int | None = None
    hook_infos: tuple[HookInfo, ...] = ()
    hook_errors: tuple[Any, ...] = ()
    hook_additional_context: tuple[Any, ...] = ()
    prevented_continuation: bool | None = None
    stop_reason: str | None = None
    has_output: bool | None = None
    # model_refusal_fallback, api_refusal
    direction: str | None = None
    scope: str | None = None
    trigger: str | None = None
    original_model: str | None = None
    fallback_model: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: str | None = None
    retracted_message_uuids: tuple[str, ...] = ()


SYSTEM_SUBTYPES = frozenset(
    {
        None,
        "api_error",
        "api_refusal",
        "away_summary",
        "compact_boundary",
        "error",
        "informational",
        "info",
        "local_command",
        "microcompact_boundary",
        "model_refusal_fallback",
        "session_start",
        "stop_hook_summary",
        "turn_duration",
    }
)
"""The subtypes somebody has seen; `unspool doctor` reports any other."""


class Progress(Record, frozen=True, tag="progress"):
    """What a long-running tool is doing (2.1.12 to 2.1.81). A node of the graph like any other."""

    data: AnyProgress | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    parent_tool_use_id: str | None = field(default=None, name="parentToolUseID")


class Attachment(Record, frozen=True, tag="attachment"):
    """Something the program puts beside the conversation (from 2.1.92 on). A node of the graph."""

    attachment: AnyAttachment | None = None
    rendered: tuple[Any, ...] = ()
    """How it was worded for the model (from 2.1.325 on)."""
    rendered_role: str | None = None
    rendered_beside_tool_result: bool | None = None
    rendered_in_human_turn: Any = None
    is_compact_summary: bool = False


KnownRecord: TypeAlias = (
    User | Assistant | System | Progress | Attachment | meta_records.AnyNote | meta_records.AnyState
)

# As with blocks: the decoder sees the known ones, `codec` makes an `Unknown` of the rest.
if TYPE_CHECKING:
    AnyRecord: TypeAlias = KnownRecord | Unknown
else:
    AnyRecord: TypeAlias = KnownRecord
