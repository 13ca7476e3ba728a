"""The documents about one session: of `show`, `stats`, `export`, `share`, `edit`, `restore` and `doctor --session`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from unspool.cli.documents.base import Counts, JsonDocument, JsonListDocument, JsonObject


class SessionFields(JsonDocument):
    """What a document says of its session."""

    session_id: str
    """The id of the session."""
    path: str
    """Its file."""
    title: str
    """Its title."""
    project: str | None
    """The name of its project."""
    cwd: str | None
    """The folder it works in."""
    branch: str | None
    """The git branch."""
    versions: list[str]
    """Versions of Claude Code that wrote it."""
    models: list[str]
    """Models that answered."""
    started_at: str | None
    """When its first line was written."""
    ended_at: str | None
    """When its last line was written."""
    agent_program: str | None
    """The other agent that wrote it: `codex`, `gemini`, `opencode` or `pi`; null for Claude Code."""


class ShowStep(JsonObject):
    """A prompt, an answer, a tool call, or something else that happened."""

    type: str
    """`prompt`, `answer`, `thinking`, `tool_call`, `event` or `agent`."""
    time: str | None
    """When it was written."""
    uuid: str | None
    """The uuid of its line."""
    text: str | UnsetType = UNSET
    """The text of a prompt, an answer, thinking or an event."""
    kind: str | UnsetType = UNSET
    """What a prompt or an event is."""
    id: str | UnsetType = UNSET
    """The id of a tool call."""
    name: str | UnsetType = UNSET
    """The tool."""
    target: str | UnsetType = UNSET
    """What the tool works on."""
    failed: bool | UnsetType = UNSET
    """Whether the tool call failed."""
    has_result: bool | UnsetType = UNSET
    """Whether the tool call has a result."""
    seconds: float | UnsetType | None = UNSET
    """How long the tool call took."""
    error: str | UnsetType = UNSET
    """What a failed tool call said."""
    result: str | UnsetType = UNSET
    """With `--depth all`: the result as text."""
    agent_ids: list[str] | UnsetType = UNSET
    """The sub-agents that the tool call started."""
    steps: list[ShowStep] | UnsetType = UNSET
    """With `--depth all`: the steps of the sub-agents."""


class ShowTurn(JsonObject):
    """A turn: a prompt and all that followed it."""

    number: int
    """The number of the turn; 0 is what came before the first prompt."""
    time: str | None
    """When the prompt was written."""
    uuid: str | None
    """The uuid of the prompt's line."""
    prompt: str
    """The prompt."""
    is_abandoned: bool
    """Whether it is on a branch that a resumed session does not continue."""
    starts_branch: bool
    """Whether a branch begins here."""
    steps: list[ShowStep]
    """What happened, as far as `--depth` shows it."""


class ShowAgent(JsonObject):
    """A sub-agent."""

    agent_id: str
    """Its id."""
    kind: str
    """What started it: a task, a warm-up and so on."""
    type: str | None
    """Its type."""
    description: str | None
    """What it was to do, in a few words."""
    call_id: str | None
    """The tool call that started it."""
    path: str
    """Its file."""


class ShowDocument(SessionFields):
    """A session."""

    turn_count: int
    """Prompts of a person."""
    command_turns: int
    """Slash commands that began a turn."""
    tool_calls: int
    """Tool calls."""
    errors: int
    """Failed tool calls and errors of the API."""
    cost_micros: int | None
    """Cost of the session and its agents, in millionths of a US dollar; null if it has no price."""
    unpriced_tokens: int
    """Tokens of models without a price, which are not in the cost."""
    context_tokens: int | None
    """Tokens in the prompt of its last request."""
    resume_command: str | None
    """Command that resumes it in Claude Code; null if Claude Code does not have its file any more."""
    turns: list[ShowTurn]
    """The turns, or those that `--turn` names."""
    agents: list[ShowAgent]
    """Its sub-agents."""


class FileVersionItem(JsonObject):
    """A version of a file that Claude Code kept before a session changed it."""

    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    version: int
    """The number of the version."""
    time: str | None
    """When it was kept."""
    name: str | None
    """The name of the copy; null if the file did not exist."""
    bytes: int | None
    """Size of the copy."""
    copy: str
    """`present`, `gone`, or `none` if the file did not exist."""


class ShowFileDocument(JsonListDocument):
    """The versions of files (`show --file`)."""

    session_id: str
    """The session."""
    items: list[FileVersionItem]
    """The versions, oldest first."""


class StatsItem(JsonObject):
    """The counts of a session's file."""

    session_id: str
    """The session."""
    id: str
    """Deprecated: `session_id`."""
    lines: int
    """Lines."""
    versions: list[str]
    """Versions of Claude Code that wrote it."""
    user: int
    """Lines of type `user`."""
    assistant: int
    """Lines of type `assistant`."""
    tool_calls: int
    """Tool calls."""
    human_turns: int
    """Prompts of a person."""
    file_history: int
    """Lines of type `file-history-snapshot`."""
    summary: int
    """Lines of type `summary`."""
    system: int
    """Lines of type `system`."""
    queue_operation: int
    """Lines of type `queue-operation`."""


class StatsDocument(JsonListDocument):
    """The counts of all sessions."""

    items: list[StatsItem]
    """The sessions, newest first."""
    sessions: list[StatsItem]
    """Deprecated: `items`."""
    stop_reasons: list[dict[str, str | int]]
    """Answers by stop reason: an object for each session, with `session_id` and a number for each reason."""
    blocks: list[dict[str, str | int]]
    """Content blocks by type: an object for each session, with `session_id` and a number for each type."""


class StatsSessionDocument(JsonDocument):
    """The counts of one session's file (`stats SESSION`)."""

    session_id: str
    """The session."""
    path: str
    """Its file."""
    title: str
    """Its title."""
    lines: int
    """Lines, also those that cannot be read."""
    bytes: int
    """Size of the file."""
    versions: Counts
    """Lines by version of Claude Code."""
    entries: Counts
    """Lines by type."""
    stop_reasons: Counts
    """Answers by stop reason."""
    blocks: Counts
    """Content blocks by type."""
    messages: int
    """Messages."""
    tool_calls: int
    """Tool calls."""
    tool_results: int
    """Tool results."""
    paired: int
    """Tool calls that have a result."""
    uses_without_result: int
    """Tool calls without a result."""
    results_without_use: int
    """Tool results without a call."""
    human_turns: int
    """Prompts of a person."""
    command_turns: int
    """Slash commands that began a turn."""
    text_prompts: int
    """User lines whose content is plain text."""
    seed_human_turns: int
    """Deprecated: `text_prompts`."""
    models: list[str]
    """Models that answered."""
    agents: int
    """Its sub-agents."""


class ExportTurn(JsonObject):
    """A turn."""

    start_uuid: str | None
    """The uuid of the prompt's line."""
    prompt: str
    """The prompt."""
    kind: str
    """Who wrote it."""
    queued: bool
    """Whether it was typed while the model worked."""
    responses: list[str | None]
    """The uuids of the answers' lines."""
    tool_calls: list[str]
    """The ids of its tool calls."""


class ExportMessage(JsonObject):
    """A message: all lines of one response, or one user line."""

    id: str | None
    """The id of the API message."""
    role: str
    """`user` or `assistant`."""
    uuids: list[str | None]
    """The uuids of its lines."""
    blocks: list[Any]
    """Its content blocks, as the lines have them."""
    usage: dict[str, Any] | None
    """The usage of the line with the most output tokens."""
    final: bool
    """Whether the response ended."""
    model: str | None
    """The model."""
    stop_reason: str | None
    """Why the model stopped."""


class ExportToolCall(JsonObject):
    """A tool call with its result."""

    id: str
    """The id of the call."""
    name: str
    """The tool."""
    input: Any
    """What the tool was called with."""
    use_uuid: str | None
    """The uuid of the call's line."""
    result_uuid: str | None
    """The uuid of the result's line."""
    result: Any
    """The result as the model got it."""
    structured: Any
    """The structured result that Claude Code kept."""
    error: bool
    """Whether the call failed."""
    started_at: str | None
    """When the call was written."""
    ended_at: str | None
    """When the result was written."""
    started: str | None
    """Deprecated: `started_at`."""
    ended: str | None
    """Deprecated: `ended_at`."""


class ExportThread(JsonObject):
    """A branch of the session."""

    leaf: str | None
    """The uuid of its last line."""
    active: bool
    """Whether a resumed session continues it."""
    fork: str | None
    """The uuid of the line where it leaves another branch."""
    uuids: list[str | None]
    """The uuids of its lines."""


class ExportAgent(JsonObject):
    """A sub-agent."""

    agent_id: str
    """Its id."""
    id: str
    """Deprecated: `agent_id`."""
    kind: str
    """What started it."""
    agent_class: str = field(name="class")
    """Deprecated: `kind`."""
    type: str | None
    """Its type."""
    description: str | None
    """What it was to do, in a few words."""
    call: str | None
    """The id of the tool call that started it."""
    linked_by: str | None
    """How that call was found."""
    path: str
    """Its file."""


class ExportCompaction(JsonObject):
    """A compaction."""

    uuid: str | None
    """The uuid of its line."""
    trigger: str | None
    """What started it."""
    pre_tokens: int | None
    """Tokens of the context before."""
    post_tokens: int | None
    """Tokens of the context after."""
    preserved: list[str]
    """The uuids of the lines that it kept."""
    time: str | None
    """When it was written."""
    timestamp: str | None
    """Deprecated: `time`."""


class ExportDocument(SessionFields):
    """A session as data (`export --json`)."""

    turns: list[ExportTurn]
    """The turns."""
    messages: list[ExportMessage]
    """The messages."""
    tool_calls: list[ExportToolCall]
    """The tool calls."""
    threads: list[ExportThread]
    """The branches."""
    agents: list[ExportAgent]
    """The sub-agents."""
    compactions: list[ExportCompaction]
    """The compactions."""


class EditVerification(JsonObject):
    """How an edit was checked; null where it was not."""

    invariants: bool
    """Whether the rules of resuming are kept."""
    replay: bool
    """Whether the Messages API would take the context."""
    claude: bool | None
    """Whether an installed Claude Code sends it as predicted."""


class EditPayback(JsonObject):
    """What an edit costs and saves."""

    model: str
    """The model whose prices are used."""
    rewritten_tokens: int
    """Tokens that are read again, once."""
    rewrite_micros: int
    """What that costs, in millionths of a US dollar."""
    saved_micros: int
    """What each request costs less, in millionths of a US dollar."""
    requests: int | None
    """After how many requests the edit has paid for itself; null: never."""
    turns: int | None
    """The same in turns."""


class EditChange(JsonObject):
    """A line or block that is removed or changed."""

    entry: str | int
    """The uuid of the line, else its offset."""
    offset: int
    """Where the line begins in the file, in bytes."""
    block: int | None
    """The number of the block in the line."""
    kind: str
    """What is removed or changed."""
    reason: str
    """Why."""


class EditSummary(JsonObject):
    """An edit: what it was made of, and the sizes before and after."""

    session_id: str
    """The session that the edit writes."""
    session: str
    """Deprecated: `session_id`."""
    path: str
    """Its file."""
    source_session_id: str
    """The session that was edited."""
    source: str
    """Deprecated: `source_session_id`."""
    operation: str
    """`clone`, `fork`, `move`, `trim` or `compress`."""
    lines: list[int]
    """Lines before and after."""
    file_bytes: list[int]
    """Size of the file before and after."""
    context_tokens: list[int]
    """Tokens of the context before and after."""
    exact_tokens: bool
    """Whether the API counted them; otherwise they are estimates."""
    removed: Counts
    """What was removed, by kind."""
    payback: EditPayback | None
    """What the edit costs and saves; null if it changes nothing that is cached."""
    verified: EditVerification
    """How it was checked."""
    undo_id: str | None
    """The id for `unspool edit undo`; null for a plan."""


class EditDocument(EditSummary):
    """An edit that was applied (`edit clone`, `fork`, `move`, `trim`, `compress`)."""

    schema: str
    """`unspool/edit/1`."""


class EditPlanDocument(EditSummary):
    """An edit that would be applied (`edit … --plan`)."""

    schema: str
    """`unspool/edit-plan/1`."""
    changes: list[EditChange]
    """What would be removed or changed."""
    faults: list[str] | UnsetType = UNSET
    """Rules that the edit would break."""
    inherited: list[str] | UnsetType = UNSET
    """Rules that the source breaks already."""


class EditRedactPlanDocument(EditSummary):
    """What a redaction would change (`edit redact --plan`)."""

    schema: str
    """`unspool/edit-redact-plan/1`."""
    files: list[str]
    """The files that would change."""
    found: Counts
    """The secrets that were found, by kind."""
    backups: list[str]
    """The ids of edits whose backups hold what would be removed."""
    elsewhere: list[str]
    """Other files of the config folder that hold the same text; they stay as they are."""
    faults: list[str]
    """Rules that the edit would break."""


class EditRedactDocument(EditSummary):
    """A redaction that was applied (`edit redact`)."""

    schema: str
    """`unspool/edit-redact/1`."""
    files: list[str]
    """The files that were changed."""
    found: Counts
    """The secrets that were found, by kind."""
    archived: int
    """Contents of files in the archive that were changed."""
    rows: int
    """Rows of the store that were changed or deleted."""
    shredded: list[str]
    """The ids of edits whose backups were deleted."""
    elsewhere: list[str]
    """Other files of the config folder that hold the same text; they stay as they are."""
    unreached: list[str]
    """What could not be reached, in words."""
    left: list[str]
    """Files of the data folder, without the backups of edits, that still hold something."""


class EditUndoDocument(JsonDocument):
    """An edit that was undone (`edit undo`)."""

    undo_id: str
    """The id of the edit."""
    operation: str
    """The operation."""
    session_id: str
    """The session that the edit wrote."""
    session: str
    """Deprecated: `session_id`."""
    source_session_id: str
    """The session that was edited."""
    source: str
    """Deprecated: `source_session_id`."""
    path: str
    """The file of the session."""
    files: list[str]
    """All files that are as they were before."""


class EditLogItem(EditSummary):
    """An edit in the log."""

    time: str
    """When it was made."""
    when: str
    """Deprecated: `time`."""
    state: str
    """`done`, `undone`, or that it was not finished."""


class EditLogDocument(JsonListDocument):
    """The edits of config folders, oldest first (`edit log`)."""

    items: list[EditLogItem]
    """The edits."""


class RestoredFile(JsonObject):
    """A file that was written."""

    path: str
    """The file."""
    kind: str
    """What it is."""
    bytes: int
    """Its size."""


class RestoreDocument(JsonDocument):
    """A session that was restored from the archive."""

    session_id: str
    """The session."""
    session: str
    """Deprecated: `session_id`."""
    files: list[RestoredFile]
    """The files."""
    dry_run: bool
    """Whether nothing was written."""


class RuleViolation(JsonObject):
    """A rule that a session breaks."""

    rule: str
    """The rule."""
    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    offset: int
    """Where the line begins in the file, in bytes."""
    message: str
    """What is wrong."""


class SessionBreakage(JsonObject):
    """Something in a session that `edit repair` repairs."""

    breakage: str
    """Which breakage, such as `missing-result`."""
    meaning: str
    """The breakage in words."""
    offset: int
    """Where the line begins in the file, in bytes."""
    message: str
    """What is wrong there."""


class DoctorErrorDocument(JsonDocument):
    """What an error text of the Messages API means for a session (`doctor --error`)."""

    error: str
    """The text."""
    breakage: str | None
    """The breakage of the session that leads to it; null if the text is unknown, or the session is sound."""
    meaning: str | None
    """What it means; null if the text is unknown."""
    command: str | None
    """The command that helps; null if the text is unknown."""


class DoctorSessionDocument(JsonDocument):
    """What is broken in a session (`doctor --session`)."""

    session_id: str
    """The session."""
    session: str
    """Deprecated: `session_id`."""
    path: str
    """Its file."""
    violations: list[RuleViolation]
    """The rules that it breaks; empty if it can be resumed as it is."""
    breakages: list[SessionBreakage]
    """What `edit repair` would repair; empty if there is nothing to repair."""
    command: str | None
    """The command that repairs it; null if there is nothing to repair."""


class SharePlace(JsonObject):
    """Where a text is replaced in a shared file."""

    turn: int | None
    """The number of the turn; null in agents and before the first turn."""
    agent_id: str | None
    """The agent, if it is in one."""
    line: int
    """The number of the line in the shared lines of the session, or of the agent."""
    field: str
    """Where in the JSON of the line."""
    before: str
    """The text before it, with everything else that is replaced."""
    after: str
    """The text after it."""


class ShareReplacement(JsonObject):
    """A text that is replaced wherever it stands; never the text itself."""

    id: str
    """Its id, for `--keep`."""
    kind: str
    """What it is."""
    count: int
    """How often it is there."""
    places: list[SharePlace]
    """The first 50 places."""
    kept: bool
    """Whether it stays, because of `--keep`."""


class ShareIncluded(JsonObject):
    """What a shared file includes beside prompts, answers and tool calls."""

    thinking: bool
    """Thinking."""
    results: bool
    """Results of tools, attached files and output of commands."""
    images: bool
    """Images."""
    agents: bool
    """Sub-agents."""


class ShareDocument(JsonListDocument):
    """What a shared file contains and what is replaced in it (`share`)."""

    session_id: str
    """The session."""
    title: str
    """Its title, redacted."""
    format: str
    """`html`, `md` or `jsonl`."""
    path: str | None
    """The file that was written; null without `--yes`."""
    turns: str | None
    """The turns that were asked for; null for all."""
    content: ShareIncluded
    """What is included."""
    shared: Counts
    """How many things of each kind leave."""
    left_out: Counts
    """How many stay."""
    lines: int
    """Lines that leave."""
    size: int
    """Bytes of these lines."""
    items: list[ShareReplacement]
    """The texts that are replaced."""
