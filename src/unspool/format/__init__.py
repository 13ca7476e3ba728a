"""The format of Claude Code's files: bytes in, typed records out. Pure: no files, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.format import attachments, blocks, json_edit, meta_records, records, written_lines
    from unspool.format.attachments import MaxTurnsReached, QueuedCommand
    from unspool.format.base import (
        ABSENT, DECODE_ERRORS, MAX_TOKENS, BilledUsage, Buffer, Envelope, Unknown, Usage, bound_tokens,
        count_prompt_tokens, encode_json, parse_version, type_name,
    )
    from unspool.format.blocks import (
        AnyBlock, Document, Image, MediaSource, Message, Other, RedactedThinking, Text, Thinking, ToolReference,
        ToolResult, ToolUse, as_blocks,
    )
    from unspool.format.codec import HISTORY, SESSION, Json, decode, decode_plain, decode_spoken_fields
    from unspool.format.image_header import parse_encoded_image_header, parse_image_header
    from unspool.format.json_edit import REMOVE, JsonPath, patch, repair_text
    from unspool.format.meta_records import (
        AiTitle, Backup, ContentReplacement, CustomTitle, FileHistoryDelta, FileHistorySnapshot, ForkContextRef,
        LastPrompt, PermissionMode, PrLink, QueueOperation, Summary, Tag,
    )
    from unspool.format.projections import (
        LONG_TEXT, BilledLine, Glance, GlanceBlock, LongTextBlock, LongTextLine, TextLine, TextMessage,
        decode_beginning, decode_billed_line, decode_file_change, decode_glance, decode_long_glance,
        decode_long_text_blocks, decode_long_text_line, decode_raw_line, decode_text_line,
    )
    from unspool.format.raw_json import RawJson, cut_raw_json, structured_result_text
    from unspool.format.records import (
        SYSTEM_SUBTYPES, AgentProgress, AnyRecord, Assistant, Attachment, BadLine, Blank, CompactMetadata, Dialect,
        Entry, HookProgress, Item, PreservedSegment, Progress, System, User,
    )
    from unspool.format.recover import recover_items
    from unspool.format.timestamps import (
        DAY, DAYS_FROM, DAYS_TO, QUARTER, elapsed_time, format_time, format_timestamp, local_time, milliseconds,
        milliseconds_of, parse_local_time, parse_time_range, parse_timestamp, parse_zone, to_utc_text, zone_offsets,
    )
    from unspool.format.undeclared_fields import find_undeclared_fields, find_undeclared_in_result
    from unspool.format.written_lines import FORMAT_VERSION, FileBackup, LineEnvelope, encode_line, replace_surrogates

__all__ = [
    "ABSENT", "DAY", "DAYS_FROM", "DAYS_TO", "DECODE_ERRORS", "FORMAT_VERSION", "HISTORY", "LONG_TEXT", "MAX_TOKENS",
    "QUARTER", "REMOVE", "SESSION", "SYSTEM_SUBTYPES", "AgentProgress", "AiTitle", "AnyBlock", "AnyRecord", "Assistant",
    "Attachment", "Backup", "BadLine", "BilledLine", "BilledUsage", "Blank", "Buffer", "CompactMetadata",
    "ContentReplacement", "CustomTitle", "Dialect", "Document", "Entry", "Envelope", "FileBackup", "FileHistoryDelta",
    "FileHistorySnapshot", "ForkContextRef", "Glance", "GlanceBlock", "HookProgress", "Image", "Item", "Json",
    "JsonPath", "LastPrompt", "LineEnvelope", "LongTextBlock", "LongTextLine", "MaxTurnsReached", "MediaSource",
    "Message", "Other", "PermissionMode", "PrLink", "PreservedSegment", "Progress", "QueueOperation", "QueuedCommand",
    "RawJson", "RedactedThinking", "Summary", "System", "Tag", "Text", "TextLine", "TextMessage", "Thinking",
    "ToolReference", "ToolResult", "ToolUse", "Unknown", "Usage", "User", "as_blocks", "attachments", "blocks",
    "bound_tokens", "count_prompt_tokens", "cut_raw_json", "decode", "decode_beginning", "decode_billed_line",
    "decode_file_change", "decode_glance", "decode_long_glance", "decode_long_text_blocks", "decode_long_text_line",
    "decode_plain", "decode_raw_line", "decode_spoken_fields", "decode_text_line", "elapsed_time", "encode_json",
    "encode_line", "find_undeclared_fields", "find_undeclared_in_result", "format_time", "format_timestamp",
    "json_edit", "local_time", "meta_records", "milliseconds", "milliseconds_of", "parse_encoded_image_header",
    "parse_image_header", "parse_local_time", "parse_time_range", "parse_timestamp", "parse_version", "parse_zone",
    "patch", "records", "recover_items", "repair_text", "replace_surrogates", "structured_result_text", "to_utc_text",
    "type_name", "written_lines", "zone_offsets",
]

__getattr__ = lazy_door(__name__, {
    "attachments": "MaxTurnsReached QueuedCommand",
    "base":
        "ABSENT DECODE_ERRORS MAX_TOKENS BilledUsage Buffer Envelope Unknown Usage bound_tokens count_prompt_tokens "
        "encode_json parse_version type_name",
    "blocks":
        "AnyBlock Document Image MediaSource Message Other RedactedThinking Text Thinking ToolReference ToolResult "
        "ToolUse as_blocks",
    "codec": "HISTORY SESSION Json decode decode_plain decode_spoken_fields",
    "image_header": "parse_encoded_image_header parse_image_header",
    "json_edit": "REMOVE JsonPath patch repair_text",
    "meta_records":
        "AiTitle Backup ContentReplacement CustomTitle FileHistoryDelta FileHistorySnapshot ForkContextRef LastPrompt "
        "PermissionMode PrLink QueueOperation Summary Tag",
    "projections":
        "LONG_TEXT BilledLine Glance GlanceBlock LongTextBlock LongTextLine TextLine TextMessage decode_beginning "
        "decode_billed_line decode_file_change decode_glance decode_long_glance decode_long_text_blocks "
        "decode_long_text_line decode_raw_line decode_text_line",
    "raw_json": "RawJson cut_raw_json structured_result_text",
    "records":
        "SYSTEM_SUBTYPES AgentProgress AnyRecord Assistant Attachment BadLine Blank CompactMetadata Dialect Entry "
        "HookProgress Item PreservedSegment Progress System User",
    "recover": "recover_items",
    "timestamps":
        "DAY DAYS_FROM DAYS_TO QUARTER elapsed_time format_time format_timestamp local_time milliseconds "
        "milliseconds_of parse_local_time parse_time_range parse_timestamp parse_zone to_utc_text zone_offsets",
    "undeclared_fields": "find_undeclared_fields find_undeclared_in_result",
    "written_lines": "FORMAT_VERSION FileBackup LineEnvelope encode_line replace_surrogates",
})
