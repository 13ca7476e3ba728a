"""Each rule of the API with a request that breaks it and the nearest one that does not."""

from __future__ import annotations

import base64
import copy
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.testing.build import DOT, document, image, text, thinking
from unspool.testing.strict import Memory, count_tokens, problems

Json = dict[str, Any]

OLD, NEW = "claude-opus-4-5", "claude-opus-5-5"
ENABLED = {"type": "enabled", "budget_tokens": 1024}
ADAPTIVE = {"type": "adaptive"}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}


def request(*messages: Any, **more: Any) -> Json:
    """A request without the fields that are set to `...`."""
    body = {"model": OLD, "max_tokens": 2048, "messages": list(messages), **more}
    return {key: value for key, value in body.items() if value is not ...}


def says(*content: Any) -> Json:
    return {"role": "user", "content": list(content) if content and not isinstance(content[0], str) else content[0]}


def answers(*content: Any) -> Json:
    return {**says(*content), "role": "assistant"}


def call(id: str = "toolu_1", **more: Any) -> Json:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {}, **more}


def result(id: str = "toolu_1", content: Any = "done", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def search(id: str = "srvtoolu_1") -> Json:
    return {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tides"}}


def found(id: str = "srvtoolu_1") -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": id, "content": []}


def picture(data: bytes, media_type: str = "image/png") -> Json:
    return image(base64.b64encode(data).decode(), media_type)


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big")


def jpeg(width: int, height: int) -> bytes:
    app = b"\xff\xe0\x00\x10JFIF\x00" + bytes(9)
    return (
        b"\xff\xd8" + app + b"\xff\xc0\x00\x11\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + bytes(10)
    )


HI = says("hi")
PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
LOOP = (HI, answers(call()), says(result()))


class Rule(NamedTuple):
    """What the API says to one request, and a request like it that it takes."""

    says: str
    broken: Json
    sound: Json


RULES = {
    "a model": Rule("model: Field required", request(HI, model=...), request(HI)),
    "a model with a name": Rule("model: String should have", request(HI, model=""), request(HI)),
    "a limit": Rule("max_tokens: Field required", request(HI, max_tokens=...), request(HI)),
    "a whole limit": Rule("max_tokens: Input should be a valid integer", request(HI, max_tokens="9"), request(HI)),
    "a true limit": Rule("max_tokens: Input should be a valid integer", request(HI, max_tokens=True), request(HI)),
    "a positive limit": Rule(
        "max_tokens: Input should be greater", request(HI, max_tokens=0), request(HI, max_tokens=1)
    ),
    "known fields": Rule("max_token: Extra inputs", request(HI, max_token=1), request(HI, metadata={})),
    "messages": Rule("messages: Field required", request(messages=...), request(HI)),
    "a list of messages": Rule("messages: Input should be a valid array", request(messages={}), request(HI)),
    "one message": Rule("messages: at least one message is required", request(), request(HI)),
    "objects as messages": Rule("messages.0: Input should be", request("hi"), request(HI)),
    "roles": Rule(
        "messages.1.role: Input should be", request(HI, {"role": "tool", "content": "x"}), request(HI, says("x"))
    ),
    "a role": Rule("messages.0.role: Field required", request({"content": "x"}), request(HI)),
    "the user first": Rule(
        'first message must use the "user" role', request(answers("a"), HI), request(HI, answers("a"), HI)
    ),
    "no notes of a program": Rule("messages.0.id: Extra", request({**HI, "id": "m"}), request(HI)),
    "content": Rule("messages.0.content: Field required", request({"role": "user"}), request(HI)),
    "no empty string": Rule("messages.0: all messages must have non-empty", request(says(""), HI), request(HI, HI)),
    "no empty list": Rule(
        "messages.1: all messages must have non-empty",
        request(HI, {"role": "assistant", "content": []}, HI),
        request(HI, {"role": "assistant", "content": []}),
    ),
    "no blank string": Rule("must contain non-whitespace text", request(says(" \n")), request(says(" x\n"))),
    "no empty text": Rule(
        "text content blocks must be non-empty", request(says(text("a"), text(""))), request(says(text("a")))
    ),
    "no blank text": Rule(
        "must contain non-whitespace", request(HI, answers(text(" ")), HI), request(HI, answers(text(".")), HI)
    ),
    "no mark on an empty text": Rule(
        "messages.0.content.0.text: cache_control cannot be set for empty text blocks",
        request(says({**text(""), "cache_control": MARK})),
        request(says({**text("a"), "cache_control": MARK})),
    ),
    "blocks are objects": Rule("messages.0.content.1: Input", request(says(text("a"), 5)), request(says(text("a")))),
    "blocks have a type": Rule(
        "messages.0.content.0.type: Field", request(says({"text": "a"})), request(says(text("a")))
    ),
    "known types": Rule("Input tag 'song' found", request(says({"type": "song"})), request(says(text("a")))),
    "texts are texts": Rule(
        "messages.0.content.0.text.text: Input", request(says({"type": "text", "text": 5})), request(HI)
    ),
    "known fields of blocks": Rule(
        "0.text.uuid: Extra", request(says({**text("a"), "uuid": "u"})), request(says(text("a")))
    ),
    "calls are the assistant's": Rule(
        "`tool_use` blocks can only be in `assistant`", request(says(call())), request(*LOOP)
    ),
    "results are the user's": Rule(
        "`tool_result` blocks can only be in", request(HI, answers(result()), HI), request(*LOOP)
    ),
    "thinking is the assistant's": Rule("`thinking` blocks can only be in", request(says(thinking("a"))), request(HI)),
    "pictures are the user's": Rule(
        "`image` blocks can only be", request(HI, answers(image()), HI), request(says(image()))
    ),
    "a call has a result": Rule(
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_2. Each",
        request(HI, answers(call(), call("toolu_2")), says(result())),
        request(HI, answers(call(), call("toolu_2")), says(result("toolu_2"), result())),
    ),
    "a result comes at once": Rule(
        "messages.1: `tool_use` ids were found without",
        request(HI, answers(call()), HI, answers("a"), says(result())),
        request(HI, answers(call()), says(result()), answers("a"), HI),
    ),
    "results first": Rule(
        "messages.1: `tool_use` ids were found without",
        request(HI, answers(call()), says(text("here"), result())),
        request(HI, answers(call()), says(result(), text("here"))),
    ),
    "results first, over messages of one turn": Rule(
        "messages.1: `tool_use` ids were found without",
        request(HI, answers(call()), says("here"), says(result())),
        request(HI, answers(call()), says(result()), says("here")),
    ),
    "a result has a call": Rule(
        "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9.",
        request(says(result("toolu_9"))),
        request(HI, answers(call("toolu_9")), says(result("toolu_9"))),
    ),
    "one result": Rule(
        "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks",
        request(HI, answers(call()), says(result(), result())),
        request(*LOOP),
    ),
    "ids are unique": Rule(
        "messages.3.content.0: `tool_use` ids must be unique",
        request(*LOOP, answers(call()), says(result())),
        request(*LOOP, answers(call("toolu_2")), says(result("toolu_2"))),
    ),
    "ids are words": Rule(
        "tool_use.id: String should match", request(HI, answers(call("a b")), says(result("a b"))), request(*LOOP)
    ),
    "inputs are objects": Rule(
        "tool_use.input: Input", request(HI, answers(call(input="ls")), says(result())), request(*LOOP)
    ),
    "an input is there": Rule(
        "tool_use.input: Field required",
        request(HI, answers({key: value for key, value in call().items() if key != "input"}), says(result())),
        request(*LOOP),
    ),
    "calls have a name": Rule(
        "tool_use.name: String", request(HI, answers(call(name="")), says(result())), request(*LOOP)
    ),
    "an error says something": Rule(
        "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true",
        request(HI, answers(call()), says(result(content="", is_error=True))),
        request(HI, answers(call()), says(result(content="", is_error=False))),
    ),
    "what a result may hold": Rule(
        "messages.2.content.0.tool_result.content.0: Input tag 'tool_use'",
        request(HI, answers(call()), says(result(content=[call("b")]))),
        request(
            HI, answers(call()), says(result(content=[text(""), image(), {"type": "tool_reference", "tool_name": "X"}]))
        ),
    ),
    "a server's call is answered": Rule(
        "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result`",
        request(HI, answers(search(), text("a")), HI),
        request(HI, answers(search(), found(), text("a")), HI),
    ),
    "a server's answer was asked for": Rule(
        "Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
        request(HI, answers(found(), search(), text("a")), HI),
        request(HI, answers(search(), found(), text("a")), HI),
    ),
    "an answer of another server's tool": Rule(
        "block must have a corresponding `mcp_tool_use` block before it.",
        request(HI, answers({"type": "mcp_tool_result", "tool_use_id": "m", "content": []}, text("a")), HI),
        request(
            HI,
            answers(
                {"type": "mcp_tool_use", "id": "m", "name": "x", "server_name": "s", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "m", "content": []},
                text("a"),
            ),
            HI,
        ),
    ),
    "thinking is signed": Rule(
        "thinking.signature: Field required",
        request(HI, answers({"type": "thinking", "thinking": "hm"}, text("a")), HI),
        request(HI, answers(thinking("", "c2ln"), text("a")), HI),
    ),
    "a signature is not empty": Rule(
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        request(HI, answers(thinking("hm", ""), text("a")), HI),
        request(HI, answers(thinking("hm"), text("a")), HI),
    ),
    "redacted thinking has data": Rule(
        "Invalid `data` in `redacted_thinking`",
        request(HI, answers({"type": "redacted_thinking", "data": ""}, text("a")), HI),
        request(HI, answers({"type": "redacted_thinking", "data": "ZGF0YQ=="}, text("a")), HI),
    ),
    "no mark on thinking": Rule(
        "thinking.cache_control: Extra inputs are not permitted",
        request(HI, answers({**thinking("hm"), "cache_control": MARK}, text("a")), HI),
        request(HI, answers(thinking("hm"), {**text("a"), "cache_control": MARK}), HI),
    ),
    "the last answer does not end in thinking": Rule(
        "messages.1: The final block in an assistant message cannot be `thinking`.",
        request(HI, answers(text("a"), thinking("hm")), thinking=ADAPTIVE),
        request(HI, answers(text("a"), thinking("hm")), HI, thinking=ADAPTIVE),
    ),
    "an open loop begins with thinking": Rule(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        request(*LOOP, thinking=ENABLED),
        request(HI, answers(thinking("hm"), call()), says(result()), thinking=ENABLED),
    ),
    "an open loop begins with thinking, and need not go on with it": Rule(
        "messages.1.content.0.type: Expected `thinking`",
        request(*LOOP, answers(thinking("hm"), call("b")), says(result("b")), thinking=ENABLED),
        request(
            HI, answers(thinking("hm"), call()), says(result()), answers(call("b")), says(result("b")), thinking=ENABLED
        ),
    ),
    "an open loop needs thinking only when enabled": Rule(
        "messages.1.content.0.type: Expected `thinking`",
        request(*LOOP, thinking=ENABLED),
        request(*LOOP, thinking=ADAPTIVE),
    ),
    "a closed loop needs no thinking": Rule(
        "messages.1.content.0.type: Expected `thinking`",
        request(*LOOP, thinking=ENABLED),
        request(*LOOP, answers("a"), HI, thinking=ENABLED),
    ),
    "a prompt closes a loop": Rule(
        "messages.1.content.0.type: Expected `thinking`",
        request(HI, answers(call()), says(result(), text("and?")), thinking=ENABLED),
        request(HI, answers(call()), says(result()), answers("a"), says("and?"), thinking=ENABLED),
    ),
    "a budget": Rule(
        "thinking.enabled.budget_tokens: Field",
        request(HI, thinking={"type": "enabled"}),
        request(HI, thinking=ENABLED),
    ),
    "a budget of 1024": Rule(
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        request(HI, thinking={**ENABLED, "budget_tokens": 1023}),
        request(HI, thinking=ENABLED),
    ),
    "a budget below the limit": Rule(
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        request(HI, thinking=ENABLED, max_tokens=1024),
        request(HI, thinking=ENABLED, max_tokens=1025),
    ),
    "kinds of thinking": Rule(
        "thinking: Input tag 'deep'", request(HI, thinking={"type": "deep"}), request(HI, thinking=ADAPTIVE)
    ),
    "the temperature of thinking": Rule(
        "`temperature` may only be set to 1",
        request(HI, thinking=ADAPTIVE, temperature=0.5),
        request(HI, thinking=ADAPTIVE, temperature=1),
    ),
    "top_k of thinking": Rule("`top_k` must be unset", request(HI, thinking=ENABLED, top_k=5), request(HI, top_k=5)),
    "top_p of thinking": Rule(
        "`top_p` must be greater", request(HI, thinking=ENABLED, top_p=0.5), request(HI, thinking=ENABLED, top_p=0.95)
    ),
    "temperatures": Rule("temperature: Input should", request(HI, temperature=1.5), request(HI, temperature=0.5)),
    "stream is yes or no": Rule("stream: Input should", request(HI, stream="yes"), request(HI, stream=True)),
    "stop sequences are strings": Rule(
        "stop_sequences: Input", request(HI, stop_sequences=[1]), request(HI, stop_sequences=["\nHuman:"])
    ),
    "stop sequences say something": Rule(
        "stop_sequences: each", request(HI, stop_sequences=[" "]), request(HI, stop_sequences=[])
    ),
    "metadata": Rule("metadata: Input should", request(HI, metadata="me"), request(HI, metadata={"user_id": "me"})),
    "system": Rule("system: Input should be a valid string", request(HI, system=5), request(HI, system="Be kind.")),
    "blocks of system": Rule(
        "system.0.type: Input should be 'text'", request(HI, system=[image()]), request(HI, system=[text("a")])
    ),
    "no empty text in system": Rule(
        "system: text content blocks must be non-empty", request(HI, system=[text("")]), request(HI, system="")
    ),
    "no blank system": Rule(
        "system: text content blocks must contain", request(HI, system=" "), request(HI, system=[])
    ),
    "tools": Rule("tools: Input should be a valid array", request(HI, tools={}), request(HI, tools=[])),
    "names of tools": Rule(
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        request(HI, tools=[{**TOOL, "name": "my.tool"}]),
        request(HI, tools=[{**TOOL, "name": "mcp__my-tool"}]),
    ),
    "lengths of names": Rule(
        "custom.name: String",
        request(HI, tools=[{**TOOL, "name": "a" * 129}]),
        request(HI, tools=[{**TOOL, "name": "a" * 128}]),
    ),
    "different tools": Rule(
        "tools: Tool names must be unique.", request(HI, tools=[TOOL, TOOL]), request(HI, tools=[TOOL])
    ),
    "a schema": Rule("input_schema: Field required", request(HI, tools=[{"name": "Read"}]), request(HI, tools=[TOOL])),
    "an object's schema": Rule(
        "tools.0.custom.input_schema.type: Field required",
        request(HI, tools=[{**TOOL, "input_schema": {}}]),
        request(HI, tools=[{**TOOL, "input_schema": {"type": "object"}}]),
    ),
    "a plain schema": Rule(
        "does not support oneOf",
        request(HI, tools=[{**TOOL, "input_schema": {"type": "object", "anyOf": []}}]),
        request(HI, tools=[TOOL, {"type": "web_search_20250305", "name": "web_search"}]),
    ),
    "choices": Rule(
        "tool_choice: Input should",
        request(HI, tools=[TOOL], tool_choice={"type": "some"}),
        request(HI, tools=[TOOL], tool_choice={"type": "any"}),
    ),
    "a choice of nothing": Rule(
        "tool_choice may only be specified",
        request(HI, tool_choice={"type": "auto"}),
        request(HI, tools=[TOOL], tool_choice={"type": "auto"}),
    ),
    "a chosen tool": Rule(
        "Tool 'Write' not found in provided tools",
        request(HI, tools=[TOOL], tool_choice={"type": "tool", "name": "Write"}),
        request(HI, tools=[TOOL], tool_choice={"type": "tool", "name": "Read"}),
    ),
    "no force while thinking": Rule(
        "Thinking may not be enabled when tool_choice forces tool use.",
        request(HI, tools=[TOOL], tool_choice={"type": "any"}, thinking=ENABLED),
        request(HI, tools=[TOOL], tool_choice={"type": "auto"}, thinking=ENABLED),
    ),
    "four marks": Rule(
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        request(
            says(*[{**text("a"), "cache_control": MARK}] * 3),
            system=[{**text("a"), "cache_control": MARK}],
            tools=[{**TOOL, "cache_control": MARK}],
        ),
        request(
            says(*[{**text("a"), "cache_control": MARK}] * 2),
            system=[{**text("a"), "cache_control": MARK}],
            tools=[{**TOOL, "cache_control": MARK}],
        ),
    ),
    "marks inside results count": Rule(
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        request(HI, answers(call()), says(result(content=[{**text("a"), "cache_control": MARK}] * 5))),
        request(HI, answers(call()), says(result(content=[{**text("a"), "cache_control": MARK}] * 4))),
    ),
    "kinds of marks": Rule(
        "cache_control.type: Input",
        request(says({**text("a"), "cache_control": {"type": "long"}})),
        request(says({**text("a"), "cache_control": HOUR})),
    ),
    "lives of marks": Rule(
        "cache_control.ttl: Input should be",
        request(says({**text("a"), "cache_control": {**MARK, "ttl": "2h"}})),
        request(says({**text("a"), "cache_control": {**MARK, "ttl": "5m"}})),
    ),
    "long marks first": Rule(
        "a ttl='1h' cache_control block must not come after a ttl='5m'",
        request(says({**text("a"), "cache_control": HOUR}), system=[{**text("a"), "cache_control": MARK}]),
        request(says({**text("a"), "cache_control": MARK}), system=[{**text("a"), "cache_control": HOUR}]),
    ),
    "kinds of pictures": Rule(
        "image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
        request(says(image(DOT, "image/tiff"))),
        request(says(image())),
    ),
    "pictures are what they say": Rule(
        "Image does not match the provided media type image/jpeg",
        request(says(image(DOT, "image/jpeg"))),
        request(says(picture(jpeg(9, 9), "image/jpeg"))),
    ),
    "pictures are pictures": Rule(
        "image.source.base64.data: Could not process image",
        request(says(picture(b"hello"))),
        request(says(picture(png(1, 1)))),
    ),
    "pictures are base64": Rule(
        "image.source.base64.data: Invalid base64", request(says(image("a*b"))), request(says(image()))
    ),
    "pictures are not empty": Rule("image cannot be empty", request(says(image(""))), request(says(image()))),
    "sources": Rule("image.source: Field required", request(says({"type": "image"})), request(says(image()))),
    "kinds of sources": Rule(
        "image.source: Input tag 'disk'",
        request(says({"type": "image", "source": {"type": "disk"}})),
        request(says({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}})),
    ),
    "small pictures": Rule(
        "image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
        request(says(image("A" * 5242884))),
        request(says(picture(png(1, 1) + bytes(3932160 - 24)))),
    ),
    "edges of pictures": Rule(
        "exceed max allowed size: 8000 pixels",
        request(says(picture(png(1, 8001)))),
        request(says(picture(png(8000, 1)))),
    ),
    "edges of a photograph": Rule(
        "size: 8000 pixels",
        request(says(picture(jpeg(8001, 1), "image/jpeg"))),
        request(says(picture(jpeg(8000, 1), "image/jpeg"))),
    ),
    "edges of many pictures": Rule(
        "exceed max allowed size for many-image requests: 2000 pixels",
        request(HI, answers(call()), says(result(content=[picture(png(2001, 1))] * 21))),
        request(HI, answers(call()), says(result(content=[picture(png(2001, 1))] * 20))),
    ),
    "documents": Rule(
        "document.source.base64.data: The PDF", request(says(document(DOT))), request(says(document(PDF)))
    ),
    "kinds of documents": Rule(
        "media_type: Input should be 'application/pdf'",
        request(says(document(PDF, "text/html"))),
        request(says({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}})),
    ),
    "documents have a source": Rule(
        "document.source: Field", request(says({"type": "document"})), request(says(document(PDF)))
    ),
    "documents are base64": Rule(
        "document.source.base64.data: Invalid", request(says(document("a*"))), request(says(document(PDF)))
    ),
    "documents have data": Rule(
        "document.source.base64.data: Field required",
        request(says({"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}})),
        request(says(document(PDF))),
    ),
    "texts as documents": Rule(
        "document.source.text.media_type: Input should be 'text/plain'",
        request(says({"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "a"}})),
        request(says({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}})),
    ),
    "blocks as documents": Rule(
        "document.source.content.content: Field required",
        request(says({"type": "document", "source": {"type": "content"}})),
        request(says({"type": "document", "source": {"type": "content", "content": [text("a")]}})),
    ),
    "files as documents": Rule(
        "document.source.file.file_id: Field required",
        request(says({"type": "document", "source": {"type": "file"}})),
        request(says({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    ),
    "kinds of sources of documents": Rule(
        "document.source: Input tag 'disk'",
        request(says({"type": "document", "source": {"type": "disk"}})),
        request(says(document(PDF))),
    ),
    "secure addresses": Rule(
        "image.source.url.url: Only HTTPS URLs are supported.",
        request(says({"type": "image", "source": {"type": "url", "url": "http://example.org/a.png"}})),
        request(says({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}})),
    ),
    "pictures have data": Rule(
        "image.source.base64.data: Field required",
        request(says({"type": "image", "source": {"type": "base64", "media_type": "image/png"}})),
        request(says(image())),
    ),
    "results are text or blocks": Rule(
        "tool_result.content: Input should be", request(HI, answers(call()), says(result(content=5))), request(*LOOP)
    ),
    "errors are yes or no": Rule(
        "tool_result.is_error: Input", request(HI, answers(call()), says(result(is_error="yes"))), request(*LOOP)
    ),
    "results hold blocks": Rule(
        "tool_result.content.0: Input should be a valid",
        request(HI, answers(call()), says(result(content=["a"]))),
        request(HI, answers(call()), says(result(content=[text("a")]))),
    ),
    "no blank end of a beginning": Rule(
        "final assistant content cannot end with trailing whitespace",
        request(HI, answers("So ")),
        request(HI, answers("So")),
    ),
    "a model that begins itself": Rule(
        "This model does not support assistant message prefill.",
        request(HI, answers("So"), model=NEW),
        request(HI, answers("So"), HI, model=NEW),
    ),
    "a model that begins itself, unless it paused": Rule(
        "This model does not support assistant message prefill.",
        request(HI, answers("So"), model=NEW),
        request(HI, answers(search(), found()), model=NEW),
    ),
    "a beginning without thinking": Rule(
        "an `assistant` message in the final position cannot contain `thinking`",
        request(HI, answers(thinking("hm"), text("So"))),
        request(HI, answers(thinking("hm"), text("So")), thinking=ENABLED),
    ),
    "a beginning with thinking": Rule(
        "Expected `thinking`",
        request(HI, answers("So"), thinking=ENABLED),
        request(HI, answers("So"), thinking=ADAPTIVE),
    ),
    "the system speaks after the user": Rule(
        "a `system` message must follow a `user` message",
        request(HI, answers("a"), {"role": "system", "content": "b"}),
        request(HI, {"role": "system", "content": "b"}, answers("a"), HI),
    ),
    "the user waits for the answer": Rule(
        "must be the last message or be followed by an `assistant` message",
        request(HI, {"role": "system", "content": "b"}, HI),
        request(HI, {"role": "system", "content": []}),
    ),
    "the system speaks once": Rule(
        "consecutive `system` messages",
        request(HI, {"role": "system", "content": "b"}, {"role": "system", "content": "b"}),
        request(HI, {"role": "system", "content": "b"}),
    ),
    "the system does not begin": Rule(
        'first message must use the "user" role', request({"role": "system", "content": "b"}), request(HI)
    ),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_broken_rule_is_named_and_its_sound_neighbour_is_taken(rule: Rule) -> None:
    assert [problem.message for problem in problems(rule.sound)] == []
    named = problems(rule.broken)
    assert [problem.type for problem in named] == ["invalid_request_error"] * len(named)
    assert rule.says in "\n".join(problem.message for problem in named)
    assert all(problem.message.startswith((problem.path, "messages: ")) for problem in named)


def test_messages_of_one_role_in_a_row_are_one_turn() -> None:
    body = request(HI, HI, answers(call()), answers(call("b")), says(result()), says(result("b")), HI)
    assert problems(body) == []


def test_counting_needs_no_limit() -> None:
    assert problems(request(HI, max_tokens=...), counting=True) == []


def test_with_a_beta_new_fields_and_types_are_let_through() -> None:
    body = request(says({"type": "song", "notes": []}), tune=1)
    assert len(problems(body)) == 2
    assert problems(body, betas=["songs-2030-01-01"]) == []


def test_with_interleaved_thinking_a_budget_may_be_larger_than_an_answer() -> None:
    body = request(HI, thinking={"type": "enabled", "budget_tokens": 4096})
    assert problems(body, betas=["interleaved-thinking-2025-05-14"]) == []


class Sent(NamedTuple):
    """What became of an answer's thinking on its way back."""

    back: list[Json]
    problem: str | None


SIGNED, OTHER = thinking("hm", "c2ln"), thinking("ah", "b3RoZXI=")


@pytest.mark.parametrize(
    "sent",
    [
        Sent([SIGNED], None),
        Sent([], "messages.1.content.0"),
        Sent([thinking("hmm", "c2ln")], "messages.1.content.0"),
        Sent([OTHER], "messages.1.content.0"),
        Sent([SIGNED, OTHER], "messages.1.content.0"),
    ],
    ids=["unchanged", "left out", "other words", "another one", "one more"],
)
@pytest.mark.parametrize("switch", [ENABLED, ADAPTIVE], ids=["enabled", "adaptive"])
def test_thinking_of_this_run_is_unchanged_in_an_open_loop(sent: Sent, switch: Json) -> None:
    memory = Memory()
    memory.keep({"content": [SIGNED, call()]})
    named = problems(request(HI, answers(*sent.back, call()), says(result()), thinking=switch), memory)
    assert [problem.path for problem in named if "cannot be modified" in problem.message] == [sent.problem] * bool(
        sent.problem
    )
    assert bool(named) == bool(sent.problem)


def test_an_answer_of_this_run_that_had_no_thinking_needs_none() -> None:
    memory = Memory()
    memory.keep({"content": [call()]})
    assert problems(request(*LOOP, thinking=ENABLED), memory) == []


def test_old_thinking_may_be_left_out_but_not_reworded() -> None:
    memory = Memory()
    memory.keep({"content": [SIGNED, call()]})
    rest = [says(result()), answers("a"), HI]
    assert problems(request(HI, answers(call()), *rest, thinking=ADAPTIVE), memory) == []
    (problem,) = problems(request(HI, answers(thinking("x", "c2ln"), call()), *rest, thinking=ADAPTIVE), memory)
    assert problem.message == "messages.1.content.0: Invalid `signature` in `thinking` block"


words = st.sampled_from(["a", "Tide", "what now", "日本"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*request(), "type", "content", "role", "id", "source", "text"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@st.composite
def conversations(draw: st.DrawFn) -> Json:
    """A conversation as a program keeps it: prompts, thinking, parallel calls, results, reminders."""
    messages: list[Json] = []
    ids = iter(range(10_000))
    for _ in range(draw(st.integers(1, 4))):
        messages.append(says(*[text(draw(words)) for _ in range(draw(st.integers(1, 2)))]))
        for _ in range(draw(st.integers(0, 3))):
            calls = [call(f"toolu_{next(ids)}", input={"a": draw(words)}) for _ in range(draw(st.integers(1, 3)))]
            said = [thinking(draw(st.sampled_from(["", "hm"]))), *[text(draw(words))] * draw(st.integers(0, 1))]
            messages.append(answers(*said, *calls))
            done = draw(
                st.permutations([result(one["id"], draw(st.sampled_from(["", " ", "ok", "日"]))) for one in calls])
            )
            messages.append(says(*done, *[text(draw(words))] * draw(st.integers(0, 1))))
            if draw(st.booleans()):
                messages.append(says(draw(words)))
        messages.append(answers(thinking("hm"), text(draw(words))))
    return request(*messages, says(draw(words)), thinking=draw(st.sampled_from([ENABLED, ADAPTIVE, ...])))


@given(conversations())
def test_a_sound_conversation_has_no_problem(body: Json) -> None:
    assert problems(body) == []


@given(conversations(), st.data())
def test_a_lost_block_of_a_pair_is_always_noticed(body: Json, data: st.DataObject) -> None:
    pairs = [
        (turn, place)
        for turn, message in enumerate(body["messages"])
        for place, block in enumerate(message["content"])
        if isinstance(block, dict) and block["type"] in ("tool_use", "tool_result")
    ]
    if not pairs:
        return
    turn, place = data.draw(st.sampled_from(pairs))
    torn = copy.deepcopy(body)
    del torn["messages"][turn]["content"][place]
    assert problems(torn)


@given(
    st.dictionaries(
        st.sampled_from([*request(HI), "system", "tools", "tool_choice", "thinking", "stop_sequences"]), json_values
    )
)
def test_any_object_is_judged(body: Json) -> None:
    assert all(problem.message for problem in problems(body))
    assert count_tokens(body) > 0


@given(st.lists(json_values, max_size=4), st.sampled_from(["user", "assistant", "system"]))
def test_any_content_is_judged(content: list[Any], role: str) -> None:
    assert all(problem.message for problem in problems(request(HI, {"role": role, "content": content})))


@given(conversations())
def test_more_content_is_more_tokens(body: Json) -> None:
    longer = {**body, "messages": [*body["messages"], answers("more"), HI]}
    assert count_tokens(body) == count_tokens(copy.deepcopy(body)) < count_tokens(longer)
