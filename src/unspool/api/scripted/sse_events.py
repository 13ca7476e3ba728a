"""Builds the response to a request from a step of a script, and the events that the API would stream for it.

Rules
  1. The same request gets the same ids, another request others. So a run can be repeated, and a session that is resumed
     under another server never meets an id twice.
  2. The events of a response put together are the response.
  3. Where a script has a window, a response ends where the window or `max_tokens` does: texts are cut, calls left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from unspool.api.scripted.script import Json, ScriptStep
from unspool.prices import estimate_request_tokens

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def build_message(step: ScriptStep, body: Json, window: int | None = None) -> Json:
    """Return the message that a step answers a request with; in a window, what fits of it."""
    # Derived from the request, so that the same run has the same ids (rule 1).
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
