"""Turns records into structure (messages, tool calls, threads, turns, agents, context) with pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.graph.agents import Agent, AgentClass, AgentFile, AgentSigns, choose_calls, link_agents
    from unspool.graph.branch_index import BranchIndex, BranchState
    from unspool.graph.integrity import find_flaws
    from unspool.graph.messages import RepeatedBlocks, WholeMessage, find_repeated_blocks, group_messages
    from unspool.graph.prompts import (
        HUMAN_TURNS, INTERRUPT_PREFIX, Speaker, TurnChange, TurnStart, is_typed_prompt, parse_task_notification,
        text_between, typed_command,
    )
    from unspool.graph.request_times import RequestTime, find_request_times
    from unspool.graph.search_text import (
        PASSAGE_KINDS, Json, Passage, extract_passages, extract_text_passages, find_target_path, join_texts,
    )
    from unspool.graph.session_facts import FactsCollector, SessionFacts, choose_title, is_special_fork
    from unspool.graph.session_facts_from_entries import add_entry_facts, collect_facts
    from unspool.graph.thread_lines import (
        find_path_with_siblings, find_preserved, find_thread_entries, find_thread_entries_in_graph,
    )
    from unspool.graph.threads import (
        SessionGraph, Thread, build_main_graph, find_leaf, find_leaf_by_oldest_rule, find_threads, is_boundary,
        is_message, lay_out_threads,
    )
    from unspool.graph.tool_calls import (
        ToolCall, collect_uses_and_results, describe_target, find_orphan_results, find_tool_calls, first_line,
    )
    from unspool.graph.turns import (
        PromptTracker, Turn, classify_user_record, find_prompts, find_turn_starts, first_text, is_queued_prompt,
        join_text, split_turns, typed_text,
    )

__all__ = [
    "HUMAN_TURNS", "INTERRUPT_PREFIX", "PASSAGE_KINDS", "Agent", "AgentClass", "AgentFile", "AgentSigns", "BranchIndex",
    "BranchState", "FactsCollector", "Json", "Passage", "PromptTracker", "RepeatedBlocks", "RequestTime",
    "SessionFacts", "SessionGraph", "Speaker", "Thread", "ToolCall", "Turn", "TurnChange", "TurnStart", "WholeMessage",
    "add_entry_facts", "build_main_graph", "choose_calls", "choose_title", "classify_user_record", "collect_facts",
    "collect_uses_and_results", "describe_target", "extract_passages", "extract_text_passages", "find_flaws",
    "find_leaf", "find_leaf_by_oldest_rule", "find_orphan_results", "find_path_with_siblings", "find_preserved",
    "find_prompts", "find_repeated_blocks", "find_request_times", "find_target_path", "find_thread_entries",
    "find_thread_entries_in_graph", "find_threads", "find_tool_calls", "find_turn_starts", "first_line", "first_text",
    "group_messages", "is_boundary", "is_message", "is_queued_prompt", "is_special_fork", "is_typed_prompt",
    "join_text", "join_texts", "lay_out_threads", "link_agents", "parse_task_notification", "split_turns",
    "text_between", "typed_command", "typed_text",
]

__getattr__ = lazy_door(__name__, {
    "agents": "Agent AgentClass AgentFile AgentSigns choose_calls link_agents",
    "branch_index": "BranchIndex BranchState",
    "integrity": "find_flaws",
    "messages": "RepeatedBlocks WholeMessage find_repeated_blocks group_messages",
    "prompts":
        "HUMAN_TURNS INTERRUPT_PREFIX Speaker TurnChange TurnStart is_typed_prompt parse_task_notification "
        "text_between typed_command",
    "request_times": "RequestTime find_request_times",
    "search_text": "PASSAGE_KINDS Json Passage extract_passages extract_text_passages find_target_path join_texts",
    "session_facts": "FactsCollector SessionFacts choose_title is_special_fork",
    "session_facts_from_entries": "add_entry_facts collect_facts",
    "thread_lines": "find_path_with_siblings find_preserved find_thread_entries find_thread_entries_in_graph",
    "threads":
        "SessionGraph Thread build_main_graph find_leaf find_leaf_by_oldest_rule find_threads is_boundary is_message "
        "lay_out_threads",
    "tool_calls": "ToolCall collect_uses_and_results describe_target find_orphan_results find_tool_calls first_line",
    "turns":
        "PromptTracker Turn classify_user_record find_prompts find_turn_starts first_text is_queued_prompt join_text "
        "split_turns typed_text",
})
