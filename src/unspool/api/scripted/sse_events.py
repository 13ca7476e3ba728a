"""An answer as the API streams it: a step and a request in, a message out; a message in, events out; events to bytes.

Rules
  1. The same request gets the same ids, another request others. So a run can be repeated, and a session that goes on
     under another server never meets an id twice.
  2. The pieces of an answer put together are the answer.
  3. Where a script has a window, an answer ends where the window or `max_tokens` does: words are cut, calls left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from unspool.api.scripted.script import Json, Step
from unspool.prices.token_estimate import estimate

_STREAMED = ("tool_use", "server_tool_use", "mcp_tool_use")


def message(step: Step, body: Json, window: int | None = None) -> Json:
    """Return the whole answer of a step to a request; in a window, what fits of it."""
    seed = hashlib.sha256(msgspec.json.encode([body.get("messages"), body.get("model"), step])).hexdigest()[:22]
    content = [_identified(block, f"{seed}{number:02}") for number, block in enumerate(step.blocks)]
    cut = None
    if window is not None:
        content, cut = _fitting(content, body, window)
    calls = any(block.get("type") == "tool_use" for block in content)
    usage = {
        "input_tokens": estimate(body),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": max(1, _tokens(content)),
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


def events(whole: Json, chunk: int) -> Iterator[Json]:
    """Yield a message piece by piece."""
    usage = whole["usage"]
    begun = {
        **whole,
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": min(1, usage["output_tokens"])},
    }
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        start, deltas = _pieces(block, max(1, chunk))
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def framed(event: Json) -> bytes:
    """Return an event as the stream has it."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


def _fitting(content: list[Json], body: Json, window: int) -> tuple[list[Json], str | None]:
    """Return what fits of an answer, and why it ends there; nothing if all of it does."""
    allowed = body.get("max_tokens")
    room, why = max(0, window - estimate(body)), "model_context_window_exceeded"
    if isinstance(allowed, int) and allowed < room:
        room, why = allowed, "max_tokens"
    if _tokens(content) <= room:
        return content, None
    fitting: list[Json] = []
    for block in content:
        left = room - _tokens(fitting)
        if _tokens([block]) > left:
            if block.get("type") == "text" and (words := _start(str(block.get("text")), left)).strip():
                fitting.append({**block, "text": words})
            break
        fitting.append(block)
    return fitting, why


def _start(text: str, tokens: int) -> str:
    """Return the beginning of a text, as far as it fits into some tokens."""
    return text.encode(errors="replace")[: tokens * 7 // 2].decode(errors="ignore")


def _tokens(content: list[Json]) -> int:
    return estimate({"messages": [{"content": content}]}) - 4


def _identified(block: Json, seed: str) -> Json:
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


def _pieces(block: Json, chunk: int) -> tuple[Json, list[Json]]:
    """Return a block as it begins, and what is added to it."""
    match block:
        case {"type": "text", "text": str() as text}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in _cut(text, chunk)]
        case {"type": "thinking", "thinking": str() as text, "signature": signature}:
            deltas: list[Json] = [{"type": "thinking_delta", "thinking": part} for part in _cut(text, chunk)]
            return {**block, "thinking": "", "signature": ""}, [
                *deltas,
                {"type": "signature_delta", "signature": signature},
            ]
        case {"type": str() as kind, "input": given} if kind in _STREAMED:
            parts = ["", *_cut(msgspec.json.encode(given).decode(), chunk)]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


def _cut(text: str, chunk: int) -> list[str]:
    return [text[at : at + chunk] for at in range(0, len(text), chunk)]
