"""The lines that a client writes, field by field in the order in which Claude Code 2.1.29 writes them.

The types in `records.py` and `meta_records.py` are for reading: they know the fields of all versions, in any order. A
line of the conversation consists of three parts, which are encoded as one object: `LineEnvelope`, what the line says
(`UserLine`, `AssistantLine`, …), and `LineEnd`. Every other line is one part.

Rules
  1. A field that is `UNSET` is left out. Every other field is written, null and false too.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType, field

Json: TypeAlias = dict[str, Any]

# 2.0.76, 2.1.29 and the newest version resume what is written (docs/compatible.md).
FORMAT_VERSION = "2.1.29"
"""The version of Claude Code whose format is followed: `version` of every line."""


class LinePart(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Base of all parts of lines."""


class LineEnvelope(LinePart, frozen=True, kw_only=True):
    """The fields that every line of a conversation begins with, whatever its type."""

    parent_uuid: str | None = None
    logical_parent_uuid: str | UnsetType | None = UNSET
    """Of a compaction boundary: the line before it."""
    is_sidechain: bool = False
    user_type: str = "external"
    cwd: str
    session_id: str
    version: str = FORMAT_VERSION
    git_branch: str = ""
    agent_id: str | UnsetType = UNSET
    slug: str | UnsetType = UNSET


class LineEnd(LinePart, frozen=True):
    """The fields that every line of a conversation ends with."""

    uuid: str
    timestamp: str


class UserMessage(msgspec.Struct, frozen=True, gc=False, tag_field="role", tag="user"):
    """A message of the user."""

    content: str | list[Json]


class UserLine(LinePart, frozen=True, tag="user"):
    """A prompt, a tool result, or a text that the client adds in the user's name."""

    message: UserMessage
    permission_mode: str | UnsetType = UNSET
    is_meta: bool | UnsetType = UNSET
    mcp_meta: Any = UNSET
    tool_use_result: Any = UNSET
    source_tool_assistant_uuid: str | UnsetType = field(default=UNSET, name="sourceToolAssistantUUID")
    source_tool_use_id: str | UnsetType = field(default=UNSET, name="sourceToolUseID")
    is_visible_in_transcript_only: bool | UnsetType = UNSET
    is_compact_summary: bool | UnsetType = UNSET


class ResponseMessage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Blocks of a response of the API, with the response's id, model and usage."""

    model: str | None
    id: str | None
    type: str = "message"
    role: str = "assistant"
    content: list[Json]
    stop_reason: str | None
    stop_sequence: str | None
    usage: Json


class AssistantLine(LinePart, frozen=True):
    """A block of a response."""

    message: ResponseMessage
    request_id: str | UnsetType = UNSET
    type: str = "assistant"


_NOTHING_USED: Json = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": None,
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
}


class SyntheticMessage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A text that the client adds in the model's name."""

    id: str
    container: None = None
    model: str = "<synthetic>"
    role: str = "assistant"
    stop_reason: str = "stop_sequence"
    stop_sequence: str = ""
    type: str = "message"
    usage: Json = field(default_factory=lambda: _NOTHING_USED)
    content: list[Json]
    context_management: None = None


class SyntheticLine(LinePart, frozen=True, tag="assistant"):
    """A message that the client adds in the model's name: an error of the API, or that no response was requested."""

    message: SyntheticMessage
    error: str | UnsetType = UNSET
    is_api_error_message: bool | UnsetType = UNSET


class WrittenCompaction(LinePart, frozen=True):
    """Why the conversation was compacted, and how many tokens it had."""

    trigger: str
    pre_tokens: int


class SystemLine(LinePart, frozen=True, tag="system"):
    """A note of the client in the conversation."""

    subtype: str
    content: str | UnsetType = UNSET
    level: str | UnsetType = UNSET
    compact_metadata: WrittenCompaction | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    is_meta: bool = False


class AttachmentLine(LinePart, frozen=True, tag="attachment"):
    """What Claude Code keeps beside the conversation: here the outcome of a hook."""

    attachment: Json


class StopHookSummaryLine(LinePart, frozen=True, kw_only=True, tag="system"):
    """Which hooks ran at the end of a turn, and what became of it."""

    subtype: str = "stop_hook_summary"
    hook_count: int
    hook_infos: list[Json]
    hook_errors: list[str]
    prevented_continuation: bool
    stop_reason: str
    has_output: bool
    level: str = "suggestion"
    tool_use_id: str = field(name="toolUseID")


class ApiError(LinePart, frozen=True, kw_only=True):
    """What the API answered instead of a response."""

    status: int | UnsetType = UNSET
    message: str


class ApiErrorLine(LinePart, frozen=True, kw_only=True, tag="system"):
    """The error after which a request is sent again."""

    subtype: str = "api_error"
    level: str = "error"
    error: ApiError
    retry_in_ms: float
    retry_attempt: int
    max_retries: int = 10


class ProgressLine(LinePart, frozen=True, kw_only=True, tag="progress"):
    """The progress of a running tool call."""

    data: Json
    tool_use_id: str = field(name="toolUseID")
    parent_tool_use_id: str = field(name="parentToolUseID")


class FileBackup(LinePart, frozen=True):
    """One version of a file: the name of its backup, None if the file did not exist."""

    backup_file_name: str | None
    version: int
    backup_time: str


class WrittenSnapshot(LinePart, frozen=True):
    """The backups of all tracked files as they were before a prompt."""

    message_id: str
    tracked_file_backups: dict[str, FileBackup]
    timestamp: str


class FileSnapshotLine(LinePart, frozen=True, kw_only=True, tag="file-history-snapshot"):
    """A snapshot, and the line after which it was written."""

    message_id: str
    snapshot: WrittenSnapshot
    is_snapshot_update: bool


class LastPromptLine(LinePart, frozen=True, kw_only=True, tag="last-prompt"):
    """The last prompt, for lists of sessions, and the line that is resumed."""

    last_prompt: str
    leaf_uuid: str
    session_id: str


class CustomTitleLine(LinePart, frozen=True, kw_only=True, tag="custom-title"):
    """The title that the user gave the session."""

    custom_title: str
    session_id: str


class QueueOperationLine(LinePart, frozen=True, kw_only=True, tag="queue-operation"):
    """What happens to text that the user typed during a turn."""

    operation: str
    timestamp: str
    session_id: str
    content: str | UnsetType = UNSET


class PullRequestLine(LinePart, frozen=True, kw_only=True, tag="pr-link"):
    """A pull request that a tool call has created."""

    session_id: str
    pr_number: int
    pr_url: str
    pr_repository: str
    timestamp: str


class HistoryLine(LinePart, frozen=True, kw_only=True):
    """A prompt in `history.jsonl`."""

    display: str
    pasted_contents: dict[str, Any] = {}
    timestamp: int
    project: str
    session_id: str


AnyMessageLine: TypeAlias = (
    UserLine | AssistantLine | SyntheticLine | SystemLine | ApiErrorLine | ProgressLine | AttachmentLine
    | StopHookSummaryLine
)  # fmt: skip
"""What a line of the conversation says."""

_encode = msgspec.json.Encoder().encode


def encode_line(*parts: LinePart) -> bytes:
    """Encode the parts of a line as one JSON object, with a line end."""
    try:
        encoded = [_encode(part) for part in parts]
    except UnicodeEncodeError:  # file names may hold bytes that are no text
        encoded = [_encode(replace_surrogates(msgspec.to_builtins(part))) for part in parts]
    return b"{" + b",".join(part[1:-1] for part in encoded) + b"}\n"


def replace_surrogates(value: Any) -> Any:
    """Return a value that can be encoded: each lone surrogate is replaced by U+FFFD."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            return {replace_surrogates(key): replace_surrogates(part) for key, part in value.items()}
        case list() | tuple():
            return [replace_surrogates(part) for part in value]
        case _:
            return value
