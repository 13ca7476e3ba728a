"""Exports sessions: as JSON data, counts, a sequence of steps, Markdown, and the versions of the files they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.export import counts, describe_calls, describe_lines, file_versions, json_data, outline
    from unspool.export.block_text import blocks_to_text
    from unspool.export.depth import DEPTH_NAMES, Depth, parse_depth
    from unspool.export.describe_calls import CallState, diff_lines, split_exit_code
    from unspool.export.file_versions import (
        FileHistoryVersion, diff_versions, find_versions, read_version, version_label, version_to_json,
    )
    from unspool.export.json_data import decode_line
    from unspool.export.markdown import render_markdown
    from unspool.export.outline import (
        Branch, Section, build_branch_tree, find_agent_turns, number_sections, parse_turn_range,
    )
    from unspool.export.redaction import read_redaction_options, read_share_key
    from unspool.export.share import (
        SharedCopy, SharePreview, ShareRequest, copy_for_sharing, read_jsonl,
    )
    from unspool.export.share_lines import ShareContent
    from unspool.export.story import (
        AnswerStep, EventKind, EventStep, PromptStep, SidechainStep, Step, Story, ThinkingStep, ToolCallStep,
        build_story, min_depth,
    )

__all__ = [
    "DEPTH_NAMES", "AnswerStep", "Branch", "CallState", "Depth", "EventKind", "EventStep", "FileHistoryVersion",
    "PromptStep", "Section", "ShareContent", "SharePreview", "ShareRequest", "SharedCopy", "SidechainStep", "Step",
    "Story", "ThinkingStep", "ToolCallStep", "blocks_to_text", "build_branch_tree", "build_story", "copy_for_sharing",
    "counts", "decode_line", "describe_calls", "describe_lines", "diff_lines", "diff_versions", "file_versions",
    "find_agent_turns", "find_versions", "json_data", "min_depth", "number_sections", "outline", "parse_depth",
    "parse_turn_range", "read_jsonl", "read_redaction_options", "read_share_key", "read_version", "render_markdown",
    "split_exit_code", "version_label", "version_to_json",
]

__getattr__ = lazy_door(__name__, {
    "block_text": "blocks_to_text",
    "depth": "DEPTH_NAMES Depth parse_depth",
    "describe_calls": "CallState diff_lines split_exit_code",
    "file_versions": "FileHistoryVersion diff_versions find_versions read_version version_label version_to_json",
    "json_data": "decode_line",
    "markdown": "render_markdown",
    "outline": "Branch Section build_branch_tree find_agent_turns number_sections parse_turn_range",
    "redaction": "read_redaction_options read_share_key",
    "share": "SharedCopy SharePreview ShareRequest copy_for_sharing read_jsonl",
    "share_lines": "ShareContent",
    "story":
        "AnswerStep EventKind EventStep PromptStep SidechainStep Step Story ThinkingStep ToolCallStep "
        "build_story min_depth",
})
