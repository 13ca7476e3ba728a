"""Inputs and results of the tools for the web, MCP resources, artifacts and worktrees."""

from typing import Any

from msgspec import field

from unspool.format.base import CamelShape, Shape


class WebFetchInput(Shape, frozen=True):
    """Fetch a page and ask a question about it."""

    url: str = ""
    prompt: str | None = None
    offset: int | float | None = None
    max_length: int | float | None = None
    raw: bool | None = None


class WebFetchResult(CamelShape, frozen=True):
    """A page was fetched; `result` is the answer about it, not the page."""

    url: str = ""
    code: int | None = None
    code_text: str | None = None
    bytes: int | None = None
    result: str = ""
    duration_ms: int | float | None = None
    artifact_read: dict[str, Any] | None = None


class WebSearchInput(Shape, frozen=True):
    """Search the web."""

    query: str = ""
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None


class WebSearchHit(Shape, frozen=True):
    """A page in the results of a web search."""

    title: str = ""
    url: str = ""
    snippet: str | None = None


class WebSearchHits(Shape, frozen=True):
    """The results of one web search."""

    tool_use_id: str | None = None
    content: tuple[WebSearchHit, ...] = ()


class WebSearchResult(CamelShape, frozen=True):
    """The results of web searches and the model's comments on them, alternating."""

    query: str = ""
    results: tuple[WebSearchHits | str, ...] = ()
    duration_seconds: int | float | None = None
    search_count: int | None = None


class ListMcpResourcesToolInput(Shape, frozen=True):
    """List the resources of MCP servers; the result is a list."""

    server: str | None = None


class ReadMcpResourceToolInput(Shape, frozen=True):
    """Read a resource of an MCP server."""

    server: str = ""
    uri: str = ""


class ResourceContent(CamelShape, frozen=True):
    """A resource of an MCP server: a text, or the file its bytes were saved to."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob_saved_to: str | None = None


class ReadMcpResourceToolResult(CamelShape, frozen=True):
    """A resource of an MCP server was read."""

    contents: tuple[ResourceContent, ...] = ()
    error: str | None = None


class ArtifactInput(Shape, frozen=True):
    """Publish a page or manage published ones; without an action it is published."""

    action: str | None = None
    file_path: str | None = None
    file_paths: tuple[str, ...] | None = None
    url: str | None = None
    title: str | None = None
    description: str | None = None
    label: str | None = None
    prompt: str | None = None
    favicon: str | None = None
    icon: str | None = None
    limit: int | float | None = None
    page_token: str | None = None
    scope: str | None = None
    force: bool | None = None
    pin: bool | None = None
    out_dir: str | None = None
    asset_id: str | None = None
    after: str | None = None
    capabilities: dict[str, Any] | None = None
    contract: str | None = None


class ArtifactResult(CamelShape, frozen=True):
    """A page was published, or published ones were listed or read."""

    url: str | None = None
    path: str | None = None
    title: str | None = None
    version: str | None = None
    updated: bool | None = None
    unchanged: bool | None = None
    owned: bool | None = None
    pinned: bool | None = None
    artifact_id: str | None = field(default=None, name="artifact_id")
    live_subscription: str | bool | None = None
    warnings: tuple[str, ...] | None = None
    artifacts: tuple[dict[str, Any], ...] | None = None
    read: dict[str, Any] | None = None


class EnterWorktreeInput(Shape, frozen=True):
    """Continue in a separate git worktree."""

    name: str | None = None
    path: str | None = None


class EnterWorktreeResult(CamelShape, frozen=True):
    """The session entered a git worktree."""

    message: str = ""
    worktree_path: str | None = None
    worktree_branch: str | None = None


class ExitWorktreeInput(Shape, frozen=True):
    """Leave the git worktree, and keep or remove it."""

    action: str | None = None
    discard_changes: bool | None = None


class ExitWorktreeResult(CamelShape, frozen=True):
    """The session left the git worktree."""

    message: str = ""
    action: str | None = None
    original_cwd: str | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None
    tmux_session_name: str | None = None
    discarded_files: int | None = None
    discarded_commits: int | None = None
