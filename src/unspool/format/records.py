"""Records and entries: what the lines of a conversation mean, together with their bytes.

The lines beside the conversation (titles, modes, queue operations, snapshots) are in `meta_records.py`, what
attachments hold in `attachments.py`.

What is bulky and read by few stays encoded (`msgspec.Raw`) until it is needed: structured tool results, what
sub-agents wrote in progress lines, whole API requests.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec import field

from unspool.format import meta_records as _meta_records  # noqa: F401 # defines most types of records
from unspool.format.attachments import AnyAttachment
from unspool.format.base import ABSENT, Buffer, CamelShape, Record, Unknown, join_tagged_types, type_name
from unspool.format.blocks import AnyBlock, Message, Other, ToolResult, ToolUse


class ProgressData(CamelShape, frozen=True, tag_field="type"):
    """Base of what the `data` of a progress line may be (2.1.12 to 2.1.81)."""


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
    # Not decoded: while there were progress lines, these made up 9 % of all bytes.
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
    """A tool of an MCP server started, advanced or ended."""

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
    """A web search returned."""

    query: str | None = None
    result_count: int | None = None


class WaitingForTask(ProgressData, frozen=True, tag="waiting_for_task"):
    """The model waits for a background task."""

    task_description: str | None = None
    task_type: str | None = None


if TYPE_CHECKING:
    KnownProgress: TypeAlias = ProgressData
    AnyProgress: TypeAlias = ProgressData | Other
else:
    KnownProgress = AnyProgress = join_tagged_types(ProgressData)


class ThinkingMetadata(CamelShape, frozen=True):
    """How much thinking a prompt requested, in an old and a new form."""

    level: str | None = None
    disabled: bool | None = None
    triggers: tuple[Any, ...] = ()
    max_thinking_tokens: int | None = None
    kind: str | None = None


class PromptAuthor(CamelShape, frozen=True):
    """Who wrote a prompt (from 2.1.173 on)."""

    kind: str | None = None
    producer: str | None = None
    run_id: str | None = None
    from_: str | None = field(default=None, name="from")
    sender_task_id: str | None = None


class TurnPosition(CamelShape, frozen=True):
    """The number of the prompt and the turn in the session (from 2.1.290 on)."""

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
    """A prompt, a tool result, or a text that Claude Code writes as the user."""

    message: Message = Message()
    # Not decoded: structured results are 38 % of all bytes.
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
    origin: PromptAuthor | None = None
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
    queue_skip_slash_commands: bool | None = None
    queue_transcript_only: bool | None = None
    queue_priority: str | None = None
    wakeup_source: str | None = None
    """Of a prompt that Claude Code was scheduled to give itself: by what."""
    scheduled_task_id: str | None = None
    scheduled_fire_id: str | None = None
    summarized_turn_prompt_uuids: tuple[str, ...] = ()
    summarize_metadata: Any = None
    """Of the summary of a part of the conversation: how many messages, and of which side."""
    refused_message_id: str | None = None
    holds_persons_words: bool | None = None
    """Of the result of a call that a person refused with a reason."""
    mcp_meta: Any = None
    mcp_call_not_read_only: str | None = None


class Assistant(Record, frozen=True, tag="assistant"):
    """A part of the model's answer, or an error in its place (model `<synthetic>`)."""

    message: Message = Message()
    # Not a key of a response: 29,000 lines of another vendor's model have none.
    request_id: str | None = None
    """Shared by all lines of one API reply; other vendors' servers do not send it."""
    is_api_error_message: bool = False
    error: Any = None
    api_error: Any = None
    api_error_status: int | None = None
    api_error_type: str | None = None
    error_details: Any = None
    is_aborted_mid_stream: bool | None = None
    supersedes_uuids: tuple[str, ...] = ()
    refused_message_id: str | None = None
    refusing_model: str | None = None
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
    """The id of the `api-request` line that requested it."""
    requested_model: str | None = None
    prompt_cache_requested: str | None = None
    server_classifier_request: str | None = None
    api_block_index: int | None = None
    thinking_duration_ms: float | None = None
    thinking_display: str | None = None
    tool_input_stream_ms: float | None = None


class PreservedSegment(CamelShape, frozen=True):
    """The part of the old conversation that a compaction kept (from 2.1.170 on)."""

    head_uuid: str | None = None
    anchor_uuid: str | None = None
    tail_uuid: str | None = None


class PreservedMessages(CamelShape, frozen=True):
    """The lines that a compaction kept."""

    anchor_uuid: str | None = None
    uuids: tuple[str, ...] = ()
    all_uuids: tuple[str, ...] = ()


class CompactMetadata(CamelShape, frozen=True):
    """The result of a compaction."""

    trigger: str | None = None
    """`auto` or `manual`."""
    pre_tokens: int | None = None
    post_tokens: int | None = None
    cumulative_dropped_tokens: int | None = None
    duration_ms: float | None = None
    pre_compact_discovered_tools: tuple[str, ...] = ()
    pre_compact_organizations_cover_start: bool | None = None
    """Written by 2.1.328."""
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None
    running_turn_prompt: Any = None
    user_context: str | None = None
    messages_summarized: int | None = None


class MicrocompactMetadata(CamelShape, frozen=True):
    """The result of clearing old tool results (2.1.12 to 2.1.62)."""

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
    """A message of Claude Code itself; `subtype` says which. Lines of 1.0.x have no subtype."""

    subtype: str | None = None
    content: str | None = None
    level: str | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    request_id: str | None = None
    source: str | None = None
    # compact_boundary, microcompact_boundary: their parent is null, the logical one is set (273 of 273 seen)
    logical_parent_uuid: str | None = None
    compact_metadata: CompactMetadata | None = None
    microcompact_metadata: MicrocompactMetadata | None = None
    # turn_duration
    duration_ms: float | None = None
    message_count: int | None = None
    pending_background_agent_count: int | None = None
    # local_command
    command_run: CommandRun | None = None
    is_display_only: bool | None = None
    # memory_saved
    written_paths: tuple[str, ...] = ()
    team_count: int | None = None
    verb: str | None = None
    # permission_retry
    commands: tuple[str, ...] = ()
    heard_at_next_prompt: bool | None = None
    # scheduled_task_fire
    task_id: str | None = None
    task_kind: str | None = None
    cron: str | None = None
    cron_kind: str | None = None
    prompt: str | None = None
    no_op_streak: int | None = None
    streak_started_at: Any = None
    folded_uuids: tuple[str, ...] = ()
    # api_error
    error: Any = None
    cause: Any = None
    retry_in_ms: float | None = None
    retry_attempt: int | None = None
    max_retries: int | None = None
    # bridge_status (2.1.220 to 2.1.232)
    url: str | None = None
    # informational: why a prompt was not sent (2.1.326)
    prevent_continuation: bool | None = None
    prompt_submit_ending: Any = None
    # stop_hook_summary
    hook_count: int | None = None
    hook_infos: tuple[HookInfo, ...] = ()
    hook_errors: tuple[Any, ...] = ()
    failed_hook_error_indexes: tuple[int, ...] = ()
    hook_additional_context: tuple[Any, ...] = ()
    prevented_continuation: bool | None = None
    stop_reason: str | None = None
    has_output: bool | None = None
    # model_refusal_fallback, model_refusal_no_fallback, api_refusal
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
        "agents_killed",
        "api_metrics",
        "away_summary",
        "bridge_status",
        "compact_boundary",
        "error",
        "informational",
        "info",
        "local_command",
        "memory_saved",
        "microcompact_boundary",
        "model_refusal_fallback",
        "model_refusal_no_fallback",
        "permission_retry",
        "scheduled_task_fire",
        "session_start",
        "stop_hook_summary",
        "turn_duration",
    }
)
"""The subtypes that are known; `unspool doctor` reports any other.

No file with `api_metrics`, `memory_saved` or `permission_retry` was seen: 2.1.326 has no code that writes the first,
the second needs a feature that is switched on remotely, and the third a call that the automatic mode has refused. Their
fields are those that its code gives them.
"""


class Progress(Record, frozen=True, tag="progress"):
    """What a long-running tool is doing (2.1.12 to 2.1.81). A node of the graph."""

    data: AnyProgress | None = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    parent_tool_use_id: str | None = field(default=None, name="parentToolUseID")


class Attachment(Record, frozen=True, tag="attachment"):
    """Context that Claude Code adds to the conversation (from 2.1.92 on). A node of the graph."""

    attachment: AnyAttachment | None = None
    rendered: tuple[Any, ...] = ()
    """The text that was sent to the model for it (from 2.1.325 on)."""
    rendered_role: str | None = None
    rendered_beside_tool_result: bool | None = None
    rendered_in_human_turn: Any = None
    is_compact_summary: bool = False


# msgspec cannot decode into an untagged member, so the decoder sees the known types only; `recover` makes an `Unknown`
# of every other line.
if TYPE_CHECKING:
    KnownRecord: TypeAlias = Record
    AnyRecord: TypeAlias = Record | Unknown
else:
    # The types of `meta_records` are among them.
    KnownRecord = AnyRecord = join_tagged_types(Record)


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The bytes of a line and its record. Bytes outside every entry belong to bad or blank lines."""

    offset: int
    raw: Buffer
    """The bytes, line end included. A view into what was read; `line` is a copy."""
    record: AnyRecord
    flaws: tuple[str, ...] = ()
    """What had to be repaired to decode the record; the bytes are unchanged."""

    def __repr__(self) -> str:
        return f"<Entry {type_name(self.record)} at {self.offset}, {self.length} bytes>"

    @property
    def line(self) -> bytes:
        """The bytes, line end included."""
        return bytes(self.raw)

    @property
    def length(self) -> int:
        """The number of bytes in the file."""
        return len(self.raw)

    @property
    def content_blocks(self) -> tuple[AnyBlock, ...]:
        """The blocks of a message's line; none if its content is a plain string, or the line is no message."""
        # By the exact type, here and below: these are asked for every line several times while an edit is planned, and
        # a check against a union of types takes three times as long. No type of block or record has a subtype.
        record = self.record
        if type(record) is Assistant or type(record) is User:
            content = record.message.content
            return () if isinstance(content, str) else content
        return ()

    @property
    def call_ids(self) -> list[str]:
        """The ids of the tool calls in a line of the model."""
        record = self.record
        if type(record) is not Assistant or type(content := record.message.content) is str:
            return []
        return [block.id for block in content if type(block) is ToolUse]

    @property
    def answered_ids(self) -> list[str]:
        """The ids of the tool calls whose results are in a user line."""
        record = self.record
        if type(record) is not User or type(content := record.message.content) is str:
            return []
        return [block.tool_use_id for block in content if type(block) is ToolResult]


class BadLine(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are not a JSON object, or too many to hold. Only their place is kept."""

    offset: int
    length: int
    reason: str


class Blank(msgspec.Struct, frozen=True, gc=False):
    """White space between entries."""

    offset: int
    length: int


Item: TypeAlias = Entry | BadLine | Blank


class Dialect(NamedTuple):
    """How the lines of one kind of file are decoded."""

    decode: Callable[[Buffer], Any]
    convert: Callable[[dict[str, Any]], tuple[Any, list[str]]]
    """Makes a record of a decoded object, leaving out the fields that do not fit; returns their paths too."""
    is_line: Callable[[Any], bool]
    """Whether a record is a line of its own, and not an object inside a line of which only the end is left."""
