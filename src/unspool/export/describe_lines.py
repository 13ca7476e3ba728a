"""What `Story` leaves out: lines that are no part of the conversation, in a few words. A line in, a `Noted` out.

Rules
  1. Every line says something, if only at the greatest depth: nothing in a file is invisible on its page.
  2. What a person may have to act on, or nobody has described yet, is told with the steps.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from unspool.display.units import amount, duration, tokens
from unspool.export.depth import Depth
from unspool.export.describe_calls import first_line
from unspool.format import attachments, meta_records, progress
from unspool.format.blocks import Other, as_blocks
from unspool.format.entry import Entry
from unspool.format.envelope import Unknown
from unspool.format.records import SYSTEM_SUBTYPES, Attachment, Progress, System, User
from unspool.graph.turns import text_of


class Noted(NamedTuple):
    """What a line says."""

    kind: str
    """`hook`, `queue`, `pull request`, `unknown`, `progress`, `attached`, `note`, …"""
    text: str
    depth: Depth = Depth.ALL
    failed: bool = False
    url: str | None = None


def noted(entry: Entry) -> Noted:
    """Return what a line says that is no step of the conversation."""
    match entry.record:
        case Unknown(type=kind):
            return Noted("unknown", f"record `{kind}`" if kind else "record without a type", Depth.STEPS)
        case System() as record:
            return _system(record)
        case Attachment(attachment=attachment):
            return _attachment(attachment)
        case Progress(data=data):
            return _progress(data)
        case User() as record:
            return Noted("note to the model", text_of(record.message.blocks))
        case meta_records.QueueOperation(operation=operation, content=content):
            said = text_of(as_blocks(content)) if content else ""
            return Noted("queue", f"{operation or 'operation'}{f': {said}' if said else ''}", Depth.STEPS)
        case record:
            return _note(record)


def _note(record: Any) -> Noted:
    match record:
        case meta_records.PrLink(pr_number=number, pr_url=url, pr_repository=repository):
            parts = [f"#{number}" if number is not None else "", repository or "", url or ""]
            return Noted("pull request", " ".join(part for part in parts if part), Depth.STEPS, url=url)
        case meta_records.FrameLink(title=title, path=path, frame_url=url):
            return Noted("artifact", title or path or url or "", Depth.STEPS, url=url)
        case meta_records.Relocated(relocated_cwd=folder):
            return Noted("moved", f"to {folder}", Depth.STEPS)
        case meta_records.WorktreeState(worktree_session=state):
            return Noted("worktree", "entered" if state else "left", Depth.STEPS)
        case meta_records.ContentReplacement(replacements=replaced):
            return Noted("shortened", f"{amount(len(replaced), 'tool result')} in what the model sees", Depth.STEPS)
        case meta_records.ContinuedIn(continued_in_session_id=id):
            return Noted("continued", f"in session {id}", Depth.STEPS)
        case meta_records.EndedByModel():
            return Noted("ended", "by the model", Depth.STEPS)
        case meta_records.ContextCollapse(summary=summary):
            return Noted("collapsed", summary or "a stretch of the conversation", Depth.STEPS)
        case meta_records.CustomTitle(custom_title=words) | meta_records.AiTitle(ai_title=words):
            return Noted("title", words or "")
        case meta_records.Summary(summary=words) | meta_records.TaskSummary(summary=words):
            return Noted("title", words)
        case meta_records.PermissionMode(permission_mode=mode) | meta_records.Mode(mode=mode):
            return Noted("mode", mode or "")
        case meta_records.LastPrompt(last_prompt=words):
            return Noted("last prompt", words or "")
        case meta_records.FileHistorySnapshot(snapshot=history):
            return Noted("snapshot", amount(len(history.tracked_file_backups), "file"))
        case meta_records.FileHistoryDelta(tracking_path=path):
            return Noted("snapshot", path or "")
        case _:
            tag = type(record).__struct_config__.tag
            return Noted("note", tag if isinstance(tag, str) else "")


def _system(record: System) -> Noted:
    match record.subtype:
        case "stop_hook_summary":
            return _stop_hooks(record)
        case "turn_duration":
            took = record.duration_ms
            return Noted("turn took", duration(timedelta(milliseconds=min(took, 1e12))) if took is not None else "")
        case "microcompact_boundary":
            saved = record.microcompact_metadata.tokens_saved if record.microcompact_metadata else None
            words = f"{tokens(saved)} tokens of old tool results" if saved is not None else "old tool results"
            return Noted("cleared", words, Depth.STEPS)
        case "model_refusal_fallback":
            words = " to ".join(model for model in (record.original_model, record.fallback_model) if model)
            return Noted("other model", words or record.content or "", Depth.STEPS)
        case "error":
            return Noted("error", record.content or "", Depth.STEPS, failed=True)
        case subtype if subtype in SYSTEM_SUBTYPES:
            return Noted("program", record.content or subtype or "", Depth.STEPS if record.content else Depth.ALL)
        case subtype:
            words = f"system line `{subtype}`" + (f": {record.content}" if record.content else "")
            return Noted("unknown", words, Depth.STEPS)


def _stop_hooks(record: System) -> Noted:
    commands = [info.command or info.prompt_text or "" for info in record.hook_infos]
    errors = [first_line(str(error)) for error in record.hook_errors]
    count = record.hook_count if record.hook_count is not None else len(commands)
    words = [f"{amount(count, 'hook')} at the end of the turn", *errors]
    if record.prevented_continuation:
        words.append("stopped it")
    words += [first_line(command) for command in commands if command][:1]
    return Noted("hook", " · ".join(words), Depth.STEPS, failed=bool(errors))


def _progress(data: Any) -> Noted:
    match data:
        case progress.HookProgress(hook_event=event, hook_name=name, command=command):
            words = " ".join(part for part in (name or event or "", first_line(command or "")) if part)
            return Noted("hook", words, Depth.STEPS)
        case Other(type=kind):
            return Noted("unknown", f"progress `{kind}`", Depth.STEPS)
        case progress.BashProgress(elapsed_time_seconds=seconds, total_lines=lines):
            took = f"{seconds:.0f} s" if seconds is not None else ""
            return Noted("progress", " · ".join(part for part in (took, amount(lines or 0, "line")) if part))
        case progress.AgentProgress(agent_id=id):
            return Noted("progress", f"agent {id}" if id else "agent")
        case progress.McpProgress(server_name=server, tool_name=tool, status=status):
            return Noted("progress", " ".join(part for part in (server, tool, status) if part))
        case progress.QueryUpdate(query=query) | progress.SearchResultsReceived(query=query):
            return Noted("progress", query or "")
        case progress.WaitingForTask(task_description=words):
            return Noted("progress", f"waiting for {words or 'a task'}")
        case _:
            return Noted("progress", "")


def _attachment(data: Any) -> Noted:
    match data:
        case attachments.Hook():
            return _hook(data)
        case Other(type=kind):
            return Noted("unknown", f"attachment `{kind}`", Depth.STEPS)
        case (
            attachments.File(filename=name, display_path=shown)
            | attachments.CompactFileReference(filename=name, display_path=shown)
        ):
            return Noted("attached", shown or name or "a file", Depth.STEPS)
        case attachments.Directory(path=path, display_path=shown):
            return Noted("attached", shown or path or "a folder", Depth.STEPS)
        case attachments.EditedTextFile(filename=name, display_path=shown):
            return Noted("changed elsewhere", shown or name or "a file", Depth.STEPS)
        case attachments.NestedMemory(path=path, display_path=shown):
            return Noted("memory", shown or path or "", Depth.STEPS)
        case attachments.TaskStatus(description=words, status=status, task_id=id):
            return Noted("task", f"{words or id or ''} {status or ''}".strip(), Depth.STEPS)
        case attachments.GoalStatus(met=met, condition=condition):
            return Noted("goal", f"{'met' if met else 'not met'}: {condition or ''}", Depth.STEPS)
        case attachments.MaxTurnsReached(max_turns=most):
            return Noted("limit", f"{most} turns reached", Depth.STEPS, failed=True)
        case attachments.PlanMode():
            return Noted("plan mode", "on", Depth.STEPS)
        case attachments.PlanModeExit():
            return Noted("plan mode", "over", Depth.STEPS)
        case attachments.Reminder(text=text):
            return Noted("note to the model", text or "")
        case None:
            return Noted("unknown", "attachment without content", Depth.STEPS)
        case _:
            tag = type(data).__struct_config__.tag
            return Noted("attached", tag.replace("_", " ") if isinstance(tag, str) else "")


def _hook(data: attachments.Hook) -> Noted:
    name = data.hook_name or data.hook_event or "hook"
    match data:
        case attachments.HookSuccess(content=content, stdout=stdout, stderr=stderr):
            said = first_line(content or stdout or stderr or "")
            return Noted("hook", f"{name}{f': {said}' if said else ''}", Depth.STEPS if said else Depth.ALL)
        case attachments.HookNonBlockingError(stderr=stderr, stdout=stdout, exit_code=code):
            words = [name, f"exit {code}" if code is not None else "", first_line(stderr or stdout or "")]
            return Noted("hook", " · ".join(word for word in words if word), Depth.STEPS, failed=True)
        case attachments.HookBlockingError(blocking_error=error):
            reason = error.get("blockingError") if isinstance(error, dict) else error
            return Noted("hook", f"{name} said no: {first_line(str(reason or ''))}", Depth.STEPS, failed=True)
        case attachments.HookErrorDuringExecution(content=content):
            return Noted("hook", f"{name} could not be run: {first_line(content or '')}", Depth.STEPS, failed=True)
        case attachments.HookCancelled():
            return Noted("hook", f"{name} was stopped", Depth.STEPS, failed=True)
        case attachments.HookStoppedContinuation(message=message):
            return Noted("hook", f"{name} ended the turn: {first_line(message or '')}", Depth.STEPS)
        case attachments.HookSystemMessage(content=content):
            return Noted("hook", f"{name}: {first_line(content or '')}", Depth.STEPS)
        case attachments.HookAdditionalContext(content=content):
            said = first_line("\n".join(map(str, content)))
            return Noted("hook", f"{name} told the model: {said}", Depth.STEPS)
        case _:
            return Noted("hook", name, Depth.STEPS)
