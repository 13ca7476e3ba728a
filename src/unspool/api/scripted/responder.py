"""Decides how a scripted API answers a request, and builds the response and its events. No sockets here.

Rules
  1. First what the API checks: path, headers, JSON, the rules of `api/rules`. Then what the script expects.
  2. A refusal is worded as the API does. What fails the run is kept with the request, once. A request that is larger
     than the script's window does not fail it: a client may not know the window, and learn it from the refusal.
  3. The same request gets the same ids, another request others. So a run can be repeated, and a session that is resumed
     under another server never meets an id twice.
  4. The events of a response put together are the response.
  5. Where a script has a window, a response ends where the window or `max_tokens` does: texts are cut, calls left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from unspool.api.endpoint import HIDDEN, is_secret_header
from unspool.api.rules.turns import ThinkingMemory
from unspool.api.rules.validate import find_problems
from unspool.api.scripted.script import Failure, Json, PlayedStep, ScriptPlayer, ScriptStep, unmet_demands
from unspool.prices import estimate_request_tokens

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
MAX_REQUEST_BYTES = 32 * 1024 * 1024
MESSAGES_PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ScriptedReply(NamedTuple):
    """How a request is answered: with an error, a number of tokens, or a step."""

    status: int = 200
    error: str = ""
    """Why the request is refused, in the API's words; empty if it is not."""
    body: object = None
    """The request's body, decoded."""
    problems: tuple[str, ...] = ()
    failure: str | None = None
    """Why the run has failed."""
    step: PlayedStep | None = None
    tokens: int | None = None
    http_failure: Failure | None = None
    """The HTTP error that the script has instead of a response."""

    def error_response(self, request_id: str) -> tuple[int, Json, dict[str, str]] | None:
        """Return status, body and headers of an error; None if the request is answered."""
        if self.error:
            return self.status, error_body(self.status, self.error, request_id), {}
        failure = self.http_failure
        if failure is None:
            return None
        words = failure.message or ("Overloaded" if failure.status == 529 else "as the script has it")
        headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        return failure.status, error_body(failure.status, words, request_id, failure.type), headers


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer. Names of headers are lower case; what is secret in them is not kept."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    """200 also if the response broke off."""
    request_id: str
    step: str | None = None
    """Which step of the script answered: `steps.0`, `cues.Say hello..1`, `default`."""
    problems: list[str] = []
    """What the API refuses in it."""
    failure: str | None = None
    """Why the run has failed with it: a broken rule, or something that the script expects and that is lacking."""


def decide_reply(
    player: ScriptPlayer,
    memory: ThinkingMemory | None,
    *,
    data: bytes,
    headers: Mapping[str, str],
    method: str = "POST",
    path: str = MESSAGES_PATH,
) -> ScriptedReply:
    """Return how a request is answered; without a memory the API's rules are not checked.

    Names of headers are lower case.
    """
    if path not in (MESSAGES_PATH, COUNT_PATH):
        return ScriptedReply(404, f"Not found: {path}")
    if method != "POST":
        return ScriptedReply(405, "Method Not Allowed")
    if not headers.get("x-api-key") and not headers.get("authorization"):
        failure = "neither `x-api-key` nor `authorization` was sent"
        return ScriptedReply(401, "x-api-key header is required", failure=failure)
    if not headers.get("anthropic-version"):
        return ScriptedReply(400, "anthropic-version: header is required", failure="`anthropic-version` was not sent")
    if len(data) > MAX_REQUEST_BYTES:
        return ScriptedReply(413, "Request exceeds the maximum size", failure="the request is larger than 32 MB")
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _refuse(data.decode(errors="replace"), f"The request body is not valid JSON: {error}")
    if not isinstance(body, dict):
        return _refuse(body, "Input should be a valid dictionary or object")
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",") if beta.strip()]
    counting = path == COUNT_PATH
    problems = find_problems(body, memory, betas=betas, counting=counting) if memory is not None else []
    if problems:
        return _refuse(body, *(problem.message for problem in problems))
    return _reply_with_count(body, player) if counting else _choose_step(body, headers, player)


def _reply_with_count(body: Json, player: ScriptPlayer) -> ScriptedReply:
    match player.script.count_tokens:
        case Failure() as failure:
            return ScriptedReply(failure.status, body=body, http_failure=failure)
        case given:
            return ScriptedReply(body=body, tokens=max(1, estimate_request_tokens(body)) if given is None else given)


def _choose_step(body: Json, headers: Mapping[str, str], player: ScriptPlayer) -> ScriptedReply:
    window = player.script.window
    # No failure of the run: the client may learn the window from this refusal (rule 2).
    if window is not None and (tokens := estimate_request_tokens(body)) > window:
        words = f"prompt is too long: {tokens} tokens > {window} maximum"
        return ScriptedReply(400, words, body, (words,))
    played = player.choose(body)
    if played is None:
        words = "the script has nothing to say to this"
        return ScriptedReply(400, f"{words}; a `default` would be said to everything", body, failure=words)
    demand = played.step.expect
    if demand is not None and (unmet := unmet_demands(demand, body, headers)):
        words = f"the script expects something else at `{played.name}`: {'; '.join(unmet)}"
        return ScriptedReply(400, words, body, failure=words, step=played)
    failure = played.step.error if played.fails else None
    return ScriptedReply(failure.status if failure else 200, body=body, step=played, http_failure=failure)


def _refuse(body: object, *problems: str) -> ScriptedReply:
    return ScriptedReply(400, problems[0], body, problems, f"the API refuses it: {problems[0]}")


def hide_secret_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without the values that are secret."""
    return {name.lower(): HIDDEN if is_secret_header(name) else value for name, value in headers.items()}


def error_body(status: int, words: str, request_id: str, kind: str | None = None) -> Json:
    """Return the body of an error, as the API has it."""
    return {
        "type": "error",
        "error": {"type": kind or _ERROR_TYPES.get(status, "api_error"), "message": words},
        "request_id": request_id,
    }


def build_message(step: ScriptStep, body: Json, window: int | None = None) -> Json:
    """Return the message that a step answers a request with; in a window, what fits of it."""
    # Derived from the request, so that the same run has the same ids (rule 3).
    seed = hashlib.sha256(msgspec.json.encode([body.get("messages"), body.get("model"), step])).hexdigest()[:22]
    content = [_add_ids(block, f"{seed}{number:02}") for number, block in enumerate(step.blocks)]
    cut = None
    if window is not None:
        content, cut = _fit(content, body, window)
    calls = any(block.get("type") == "tool_use" for block in content)
    usage = {
        "input_tokens": estimate_request_tokens(body),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, _count_tokens(content)),
        "service_tier": "standard",
    }
    return {
        "id": step.id or f"msg_01{seed}",
        "type": "message",
        "role": "assistant",
        "model": step.model or body.get("model"),
        "content": content,
        "stop_reason": cut or step.stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {**usage, **step.usage},
    }


def message_events(message: Json, chunk: int) -> Iterator[Json]:
    """Yield the events of a message."""
    usage = message["usage"]
    begun = {
        **message,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": min(1, usage["output_tokens"])},
    }
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        start, deltas = _split_block(block, max(1, chunk))
        yield {"type": "content_block_start", "index": index, "content_block": start}
        # The API sends a ping after the first block has begun; a client must skip it.
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def encode_event(event: Json) -> bytes:
    """Return an event as bytes of the stream."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


def _fit(content: list[Json], body: Json, window: int) -> tuple[list[Json], str | None]:
    """Return what fits of a content, and the stop reason; None if all of it fits."""
    allowed = body.get("max_tokens")
    space, why = max(0, window - estimate_request_tokens(body)), "model_context_window_exceeded"
    if isinstance(allowed, int) and allowed < space:
        space, why = allowed, "max_tokens"
    if _count_tokens(content) <= space:
        return content, None
    fitting: list[Json] = []
    for block in content:
        left = space - _count_tokens(fitting)
        if _count_tokens([block]) > left:
            if block.get("type") == "text" and (words := _cut_text(str(block.get("text")), left)).strip():
                fitting.append({**block, "text": words})
            break
        fitting.append(block)
    return fitting, why


def _cut_text(text: str, tokens: int) -> str:
    """Return the beginning of a text that fits into some tokens: seven bytes are taken for two, as in the estimate."""
    return text.encode(errors="replace")[: tokens * 7 // 2].decode(errors="ignore")


def _count_tokens(content: list[Json]) -> int:
    return estimate_request_tokens({"messages": [{"content": content}]}) - 4


def _add_ids(block: Json, seed: str) -> Json:
    """Give a call an id, and thinking a signature, if the script has none."""
    match block:
        case {"type": "tool_use" | "mcp_tool_use"} if not block.get("id"):
            return {"type": block["type"], "id": f"toolu_{seed}", "input": {}, **block}
        case {"type": "server_tool_use"} if not block.get("id"):
            return {"type": block["type"], "id": f"srvtoolu_{seed}", "input": {}, **block}
        case {"type": "thinking"} if not block.get("signature"):
            return {"thinking": "", **block, "signature": f"c2ln{seed}"}
        case _:
            return block


def _split_block(block: Json, chunk: int) -> tuple[Json, list[Json]]:
    """Return a block as it begins, and the deltas that complete it."""
    match block:
        case {"type": "text", "text": str() as text}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _chunks(text, chunk)]
        case {"type": "thinking", "thinking": str() as text, "signature": signature}:
            deltas: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in _chunks(text, chunk)]
            return {**block, "thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": signature},
            ]
        case {"type": str() as kind, "input": given} if kind in _CALLS:
            # The API begins the input of a call with an empty delta.
            parts = ["", *_chunks(msgspec.json.encode(given).decode(), chunk)]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


def _chunks(text: str, chunk: int) -> list[str]:
    return [text[at : at + chunk] for at in range(0, len(text), chunk)]
