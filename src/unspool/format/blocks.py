"""Messages and their content blocks, as the Messages API defines them.

A decoded message holds `AnyBlock`s. The set is open: a block of a type not listed here, and anything in a content list
that is not an object, is an `Other` that keeps its value.
"""

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from unspool.format.base import ABSENT, DECODE_ERRORS, Shape, Usage, join_tagged_types
from unspool.format.json_edit import repair_text


class Block(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    """Base of a content block."""

    cache_control: Any = None
    """Only in requests and in what was copied from them (`api-request-blob`)."""


class Text(Block, frozen=True, tag="text"):
    """Text."""

    text: str = ""
    citations: Any = None


class Thinking(Block, frozen=True, tag="thinking"):
    """The model's reasoning. From 2.1.64 on the text is often withheld and only the signature is there."""

    thinking: str = ""
    signature: str | None = None


class RedactedThinking(Block, frozen=True, tag="redacted_thinking"):
    """The model's reasoning, encrypted by the API."""

    data: str = ""


class ToolUse(Block, frozen=True, tag="tool_use"):
    """A tool call. `unspool.format.tools.parse` gives the input its type."""

    id: str = ""
    name: str = ""
    input: Any = None
    caller: Any = None


class MediaSource(Shape, frozen=True):
    """The bytes of an image or document, or where they are."""

    type: str = ""
    """`base64`, `text`, `url`, `file` or `content`."""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: Any = None


class Image(Block, frozen=True, tag="image"):
    """An image, in a prompt or in a tool result."""

    source: MediaSource = MediaSource()


class Document(Block, frozen=True, tag="document"):
    """A PDF or a text document, in a prompt or in a tool result."""

    source: MediaSource = MediaSource()
    title: str | None = None
    context: str | None = None
    citations: Any = None


class ToolReference(Block, frozen=True, tag="tool_reference"):
    """A deferred tool that `ToolSearch` made available (from 2.1.64 on, inside tool results)."""

    tool_name: str = ""


class SearchResult(Block, frozen=True, tag="search_result"):
    """A passage with its source, inside a tool result."""

    source: str | None = None
    title: str | None = None
    content: Any = None
    citations: Any = None


class ToolResult(Block, frozen=True, tag="tool_result"):
    """The result of a tool call. Normally in user lines; some other vendors' servers put it in assistant lines."""

    tool_use_id: str = ""
    encoded_content: msgspec.Raw = msgspec.field(default=ABSENT, name="content")
    """Left encoded: it is a third of all bytes, and few readers need it."""
    is_error: bool | None = None

    @property
    def content(self) -> "str | tuple[AnyBlock, ...]":
        """The text, or blocks. Decoded each time."""
        return _decode_content(self.encoded_content)

    @property
    def blocks(self) -> "tuple[AnyBlock, ...]":
        """The content as blocks, whichever way it was written."""
        return as_blocks(self.content)

    @property
    def is_text(self) -> bool:
        """Whether the content is a plain string, as in most results."""
        return bytes(memoryview(self.encoded_content)[:1]) == b'"'


class ServerToolUse(Block, frozen=True, tag="server_tool_use"):
    """A call of a tool that runs on the API's side: web search, code execution."""

    id: str = ""
    name: str = ""
    input: Any = None
    caller: Any = None


class ServerToolResult(Block, frozen=True):
    """Base of the result of a tool on the API's side. Pairs with `ServerToolUse` or `McpToolUse` by id."""

    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None
    caller: Any = None


class WebSearchToolResult(ServerToolResult, frozen=True, tag="web_search_tool_result"):
    """Result of a web search on the API's side."""


class WebFetchToolResult(ServerToolResult, frozen=True, tag="web_fetch_tool_result"):
    """A page that was fetched on the API's side."""


class CodeExecutionToolResult(ServerToolResult, frozen=True, tag="code_execution_tool_result"):
    """Output of code that ran on the API's side."""


class BashCodeExecutionToolResult(ServerToolResult, frozen=True, tag="bash_code_execution_tool_result"):
    """Output of a shell command that ran on the API's side."""


class TextEditorCodeExecutionToolResult(ServerToolResult, frozen=True, tag="text_editor_code_execution_tool_result"):
    """Outcome of a file edit that ran on the API's side."""


class ToolSearchToolResult(ServerToolResult, frozen=True, tag="tool_search_tool_result"):
    """Tools that were found on the API's side."""


class AdvisorToolResult(ServerToolResult, frozen=True, tag="advisor_tool_result"):
    """Advice from a second model on the API's side."""


class McpToolUse(Block, frozen=True, tag="mcp_tool_use"):
    """A call of an MCP server's tool that the API itself makes."""

    id: str = ""
    name: str = ""
    server_name: str | None = None
    input: Any = None


class McpToolResult(ServerToolResult, frozen=True, tag="mcp_tool_result"):
    """The result of a call that the API made to an MCP server."""


class ContainerUpload(Block, frozen=True, tag="container_upload"):
    """A file that was put into a code-execution container."""

    file_id: str = ""


class Compaction(Block, frozen=True, tag="compaction"):
    """A summary that the API made of the messages before it."""

    content: Any = None


class Fallback(Block, frozen=True, tag="fallback"):
    """The answer changed models midway (seen in 2.1.217)."""

    from_: Any = msgspec.field(default=None, name="from")
    to: Any = None


class Other(Shape, frozen=True):
    """A block of a type that is not described yet, kept as it is."""

    type: str | None = None
    value: Any = None


# msgspec cannot decode into an untagged member, so the decoder sees the known ones only; `recover` puts
# an `Other` where they do not fit.
if TYPE_CHECKING:
    KnownBlock: TypeAlias = Block
    AnyBlock: TypeAlias = Block | Other
else:
    KnownBlock = AnyBlock = join_tagged_types(Block)


def as_blocks(content: str | tuple[AnyBlock, ...]) -> tuple[AnyBlock, ...]:
    """Return message content as blocks: a plain string is one text block, an empty one none."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    return content


def _decode_content(raw: msgspec.Raw) -> str | tuple[AnyBlock, ...]:
    """Decode content of any form: a block that does not fit is an `Other`; what is not JSON is no content."""
    if not memoryview(raw).nbytes:
        return ""
    try:
        return _CONTENT.decode(raw)
    except DECODE_ERRORS:
        pass
    # The slow way, block by block: one unknown block must not cost the others.
    try:
        value = msgspec.json.decode(repair_text(bytes(raw))[0])
    except (msgspec.DecodeError, RecursionError):
        return ""
    if value is None or isinstance(value, str):
        return value or ""
    return tuple(_convert_block(item) for item in (value if isinstance(value, list) else [value]))


def _convert_block(value: Any) -> AnyBlock:
    try:
        block: AnyBlock = msgspec.convert(value, AnyBlock)
        return block
    except msgspec.ValidationError:
        kind = value.get("type") if isinstance(value, dict) else None
        return Other(type=kind if isinstance(kind, str) else None, value=value)


_CONTENT: msgspec.json.Decoder[str | tuple[AnyBlock, ...]] = msgspec.json.Decoder(str | tuple[AnyBlock, ...])


class Message(Shape, frozen=True):
    """The API's part of a user or assistant line. An assistant line normally holds one block of it."""

    role: str | None = None
    # A string does not mean that a human wrote it (26 % are written by Claude Code), nor does a list mean the opposite.
    content: str | tuple[AnyBlock, ...] = ""
    id: str | None = None
    type: str | None = None
    model: str | None = None
    # Null is the normal final state of old data: in 86 % of the messages seen it is null on every line.
    stop_reason: str | None = None
    """Null on every line of most messages before 2.1.64; on all lines from 2.1.100 on."""
    stop_sequence: str | None = None
    usage: Usage | None = None
    stop_details: Any = None
    diagnostics: Any = None
    container: Any = None
    context_management: Any = None

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The content as blocks, whichever way it was written."""
        return as_blocks(self.content)
