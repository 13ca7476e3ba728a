"""Describes the lines that are no step of the conversation (`story.py`) in a few words.

Rules
  1. Every line has a description, if only at the greatest depth: nothing in a file is invisible on its page.
  2. What a person may have to act on, and what is unknown, is shown with the steps.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from unspool.display import amount, duration, tokens
from unspool.export.depth import Depth
from unspool.format import (
    SYSTEM_SUBTYPES,
    Attachment,
    Entry,
    Other,
    Progress,
    System,
    Unknown,
    User,
    as_blocks,
    attachments,
    meta_records,
    records,
    type_name,
)
from unspool.graph import first_line, join_text


class LineDescription(NamedTuple):
    """What a line says, and the depth at which it is shown."""

    kind: str
    """`hook`, `queue`, `pull request`, `unknown`, `progress`, `attached`, `note`, …"""
    text: str
    depth: Depth = Depth.ALL
    failed: bool = False
    url: str | None = None


def describe_line(entry: Entry) -> LineDescription:
    """Return the description of a line that is no step of the conversation."""
    match entry.record:
        case Unknown(type=kind):  # rule 2: a type that no known version writes may matter
            return LineDescription("unknown", f"record `{kind}`" if kind else "record without a type", Depth.STEPS)
        case System() as record:
            return _describe_system(record)
        case Attachment(attachment=attachment):
            return _describe_attachment(attachment)
        case Progress(data=data):
            return _describe_progress(data)
        case User() as record:
            return LineDescription("note to the model", join_text(record.message.blocks))
        case meta_records.QueueOperation(operation=operation, content=content):
            text = join_text(as_blocks(content)) if content else ""
            return LineDescription("queue", f"{operation or 'operation'}{f': {text}' if text else ''}", Depth.STEPS)
        case record:
            return _describe_meta_record(record)


def _describe_meta_record(record: Any) -> LineDescription:
    match record:
        case meta_records.PrLink(pr_number=number, pr_url=url, pr_repository=repository):
            parts = [f"#{number}" if number is not None else "", repository or "", url or ""]
            return LineDescription("pull request", " ".join(part for part in parts if part), Depth.STEPS, url=url)
        case meta_records.FrameLink(title=title, path=path, frame_url=url):
            return LineDescription("artifact", title or path or url or "", Depth.STEPS, url=url)
        case meta_records.Relocated(relocated_cwd=folder):
            return LineDescription("moved", f"to {folder}", Depth.STEPS)
        case meta_records.WorktreeState(worktree_session=state):
            return LineDescription("worktree", "entered" if state else "left", Depth.STEPS)
        case meta_records.ContentReplacement(replacements=replaced):
            return LineDescription("shortened", f"{amount(len(replaced), 'tool result')} in the context", Depth.STEPS)
        case meta_records.ContinuedIn(continued_in_session_id=id):
            return LineDescription("continued", f"in session {id}", Depth.STEPS)
        case meta_records.EndedByModel():
            return LineDescription("ended", "by the model", Depth.STEPS)
        case meta_records.ContextCollapse(summary=summary):
            return LineDescription("collapsed", summary or "part of the conversation", Depth.STEPS)
        case meta_records.CustomTitle(custom_title=words) | meta_records.AiTitle(ai_title=words):
            return LineDescription("title", words or "")
        case meta_records.Summary(summary=words) | meta_records.TaskSummary(summary=words):
            return LineDescription("title", words)
        case meta_records.PermissionMode(permission_mode=mode) | meta_records.Mode(mode=mode):
            return LineDescription("mode", mode or "")
        case meta_records.LastPrompt(last_prompt=words):
            return LineDescription("last prompt", words or "")
        case meta_records.FileHistorySnapshot(snapshot=history):
            return LineDescription("snapshot", amount(len(history.tracked_file_backups), "file"))
        case meta_records.FileHistoryDelta(tracking_path=path):
            return LineDescription("snapshot", path or "")
        case _:
            return LineDescription("note", type_name(record) or "")


def _describe_system(record: System) -> LineDescription:
    match record.subtype:
        case "stop_hook_summary":
            return _describe_stop_hooks(record)
        case "turn_duration":
            # Bounded: `timedelta` raises for a number that a file may well hold.
            took = record.duration_ms
            return LineDescription(
                "turn took", duration(timedelta(milliseconds=max(0, min(took, 1e12)))) if took is not None else ""
            )
        case "microcompact_boundary":
            saved = record.microcompact_metadata.tokens_saved if record.microcompact_metadata else None
            words = f"{tokens(saved)} tokens of old tool results" if saved is not None else "old tool results"
            return LineDescription("cleared", words, Depth.STEPS)
        case "model_refusal_fallback":
            words = " to ".join(model for model in (record.original_model, record.fallback_model) if model)
            return LineDescription("other model", words or record.content or "", Depth.STEPS)
        case "error":
            return LineDescription("error", record.content or "", Depth.STEPS, failed=True)
        case subtype if subtype in SYSTEM_SUBTYPES:
            return LineDescription(
                "program", record.content or subtype or "", Depth.STEPS if record.content else Depth.ALL
            )
        case subtype:
            words = f"system line `{subtype}`" + (f": {record.content}" if record.content else "")
            return LineDescription("unknown", words, Depth.STEPS)


def _describe_stop_hooks(record: System) -> LineDescription:
    commands = [info.command or info.prompt_text or "" for info in record.hook_infos]
    errors = [first_line(str(error)) for error in record.hook_errors]
    count = record.hook_count if record.hook_count is not None else len(commands)
    words = [f"{amount(count, 'hook')} at the end of the turn", *errors]
    if record.prevented_continuation:
        words.append("stopped it")
    words += [first_line(command) for command in commands if command][:1]
    return LineDescription("hook", " · ".join(words), Depth.STEPS, failed=bool(errors))


def _describe_progress(data: Any) -> LineDescription:
    match data:
        case records.HookProgress(hook_event=event, hook_name=name, command=command):
            words = " ".join(part for part in (name or event or "", first_line(command or "")) if part)
            return LineDescription("hook", words, Depth.STEPS)
        case Other(type=kind):
            return LineDescription("unknown", f"progress `{kind}`", Depth.STEPS)
        case records.BashProgress(elapsed_time_seconds=seconds, total_lines=lines):
            took = f"{seconds:.0f} s" if seconds is not None else ""
            return LineDescription("progress", " · ".join(part for part in (took, amount(lines or 0, "line")) if part))
        case records.AgentProgress(agent_id=id):
            return LineDescription("progress", f"agent {id}" if id else "agent")
        case records.McpProgress(server_name=server, tool_name=tool, status=status):
            return LineDescription("progress", " ".join(part for part in (server, tool, status) if part))
        case records.QueryUpdate(query=query) | records.SearchResultsReceived(query=query):
            return LineDescription("progress", query or "")
        case records.WaitingForTask(task_description=words):
            return LineDescription("progress", f"waiting for {words or 'a task'}")
        case _:
            return LineDescription("progress", "")


def _describe_attachment(data: Any) -> LineDescription:
    match data:
        case attachments.HookAttachment():
            return _describe_hook(data)
        case Other(type=kind):
            return LineDescription("unknown", f"attachment `{kind}`", Depth.STEPS)
        case (
            attachments.FileMention(filename=name, display_path=shown)
            | attachments.CompactFileReference(filename=name, display_path=shown)
        ):
            return LineDescription("attached", shown or name or "a file", Depth.STEPS)
        case attachments.Directory(path=path, display_path=shown):
            return LineDescription("attached", shown or path or "a folder", Depth.STEPS)
        case attachments.EditedTextFile(filename=name, display_path=shown):
            return LineDescription("changed elsewhere", shown or name or "a file", Depth.STEPS)
        case attachments.NestedMemory(path=path, display_path=shown):
            return LineDescription("memory", shown or path or "", Depth.STEPS)
        case attachments.TaskStatus(description=words, status=status, task_id=id):
            return LineDescription("task", f"{words or id or ''} {status or ''}".strip(), Depth.STEPS)
        case attachments.GoalStatus(met=met, condition=condition):
            return LineDescription("goal", f"{'met' if met else 'not met'}: {condition or ''}", Depth.STEPS)
        case attachments.MaxTurnsReached(max_turns=limit):
            return LineDescription("limit", f"{limit} turns reached", Depth.STEPS, failed=True)
        case attachments.PlanMode():
            return LineDescription("plan mode", "on", Depth.STEPS)
        case attachments.PlanModeExit():
            return LineDescription("plan mode", "over", Depth.STEPS)
        case attachments.Reminder(text=text):
            return LineDescription("note to the model", text or "")
        case None:
            return LineDescription("unknown", "attachment without content", Depth.STEPS)
        case _:
            return LineDescription("attached", (type_name(data) or "").replace("_", " "))


def _describe_hook(data: attachments.HookAttachment) -> LineDescription:
    name = data.hook_name or data.hook_event or "hook"
    match data:
        case attachments.HookSuccess(content=content, stdout=stdout, stderr=stderr):
            output = first_line(content or stdout or stderr or "")
            return LineDescription(
                "hook", f"{name}{f': {output}' if output else ''}", Depth.STEPS if output else Depth.ALL
            )
        case attachments.HookNonBlockingError(stderr=stderr, stdout=stdout, exit_code=code):
            words = [name, f"exit {code}" if code is not None else "", first_line(stderr or stdout or "")]
            return LineDescription("hook", " · ".join(word for word in words if word), Depth.STEPS, failed=True)
        case attachments.HookBlockingError(blocking_error=error):
            reason = error.get("blockingError") if isinstance(error, dict) else error
            return LineDescription("hook", f"{name} said no: {first_line(str(reason or ''))}", Depth.STEPS, failed=True)
        case attachments.HookErrorDuringExecution(content=content):
            return LineDescription("hook", f"cannot run {name}: {first_line(content or '')}", Depth.STEPS, failed=True)
        case attachments.HookCancelled():
            return LineDescription("hook", f"{name} was stopped", Depth.STEPS, failed=True)
        case attachments.HookStoppedContinuation(message=message):
            return LineDescription("hook", f"{name} ended the turn: {first_line(message or '')}", Depth.STEPS)
        case attachments.HookSystemMessage(content=content):
            return LineDescription("hook", f"{name}: {first_line(content or '')}", Depth.STEPS)
        case attachments.HookAdditionalContext(content=content):
            text = first_line("\n".join(map(str, content)))
            return LineDescription("hook", f"{name} told the model: {text}", Depth.STEPS)
        case _:
            return LineDescription("hook", name, Depth.STEPS)
