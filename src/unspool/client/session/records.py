"""Builds the records that the client writes, with their fields in the order of Claude Code. Pure.

The envelope (`parentUuid`, `cwd`, `sessionId`, … `uuid`, `timestamp`) is added by the writer. The wordings are those of
Claude Code 2.1.29, so that every version recognizes them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_FOR_TOOLS = "[Request interrupted by user for tool use]"
INTERRUPTED_CALL = "Interrupted by user"
"""The result of a tool call that had not begun when the response was interrupted."""
_REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)
REJECTED = _REJECTED + "STOP what you are doing and wait for the user to tell you how to proceed."
REJECTED_WITH = _REJECTED + "To tell you how to proceed, the user said:\n"
REJECTED_RESULT = "User rejected tool use"
CUT_SHORT = (
    "Output token limit hit. Go on right where the answer stopped: no apology, no recap. Break what is left into "
    "smaller pieces."
)
CALL_CUT_SHORT = (
    "Output token limit hit. The last tool call was cut off before its input was whole, and was not run. Make it "
    "again, smaller if need be."
)
BROKEN_OFF = (
    "<system-reminder>\nThe connection broke while you were answering; what came before that is above. Go on right "
    "where it stopped, without repeating it.\n</system-reminder>"
)
SYNTHETIC = "<synthetic>"
_NOTHING_USED: Json = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": None,
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
}


def user_record(content: str | list[Json], **more: Any) -> Json:
    """Return a message of the user."""
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def meta_record(content: str | list[Json]) -> Json:
    """Return a message that the client adds in the user's name."""
    return user_record(content, isMeta=True)


def tool_result_record(
    call_id: str, content: str | list[Json], *, is_error: bool, structured: Any, source: str | None
) -> Json:
    """Return the result of a tool call."""
    block: Json = {"tool_use_id": call_id, "type": "tool_result", "content": content}
    if is_error:
        block["is_error"] = True
    more: Json = {} if structured is None else {"toolUseResult": structured}
    if source is not None:
        more["sourceToolAssistantUUID"] = source
    return user_record([block], **more)


# A line for each block, as Claude Code writes them: readers join the lines with the same `message.id`.
def assistant_record(head: Json, content: list[Json], request_id: str | None) -> Json:
    """Return blocks of a response; without blocks: only its usage and stop reason."""
    message = {
        "model": head.get("model"),
        "id": head.get("id"),
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": head.get("stop_reason"),
        "stop_sequence": head.get("stop_sequence"),
        "usage": head.get("usage") or {"input_tokens": 0, "output_tokens": 0},
    }
    return {"message": message, **({"requestId": request_id} if request_id else {}), "type": "assistant"}


def synthetic_record(id: str, text: str, **more: Any) -> Json:
    """Return a message that the client adds in the model's name."""
    message = {
        "id": id,
        "container": None,
        "model": SYNTHETIC,
        "role": "assistant",
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": _NOTHING_USED,
        "content": [{"type": "text", "text": text}],
        "context_management": None,
    }
    return {"type": "assistant", "message": message, **more}


def api_failure_record(id: str, text: str, kind: str | None) -> Json:
    """Return the error that the API sent instead of a response."""
    return synthetic_record(id, text, **({"error": kind} if kind else {}), isApiErrorMessage=True)


def system_record(subtype: str, content: str | None = None, **more: Any) -> Json:
    """Return a note of the client in the conversation."""
    text = {} if content is None else {"content": content}
    return {"type": "system", "subtype": subtype, **text, **more, "isMeta": False}


def api_error_record(message: str, status: int | None, seconds: float, attempt: int, max_retries: int) -> Json:
    """Return the error after which a request is sent again."""
    error = {"status": status, "message": message} if status is not None else {"message": message}
    times = {"retryInMs": round(seconds * 1000, 1), "retryAttempt": attempt, "maxRetries": max_retries}
    return {"type": "system", "subtype": "api_error", "level": "error", "error": error, **times}


def progress_record(call_id: str, name: str, data: Json) -> Json:
    """Return the progress of a running tool call."""
    return {"type": "progress", "data": data, "toolUseID": name, "parentToolUseID": call_id}


def snapshot_record(message: str, prompt: str, files: Json, time: str, *, update: bool) -> Json:
    """Return a snapshot of the backups of all tracked files, as they were before a prompt."""
    held = {"messageId": prompt, "trackedFileBackups": files, "timestamp": time}
    return {"type": "file-history-snapshot", "messageId": message, "snapshot": held, "isSnapshotUpdate": update}
