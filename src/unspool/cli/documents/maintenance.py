"""The documents of `sync`, `doctor`, `config`, `hooks`, `redact`, `demo`, `collect` and `lake`."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from unspool.cli.documents.base import Counts, JsonDocument, JsonListDocument, JsonObject, SkippedFile


class SyncDocument(JsonListDocument):
    """What a sync did."""

    files_seen: int
    """Files in the config folders."""
    files_changed: int
    """Files that were new or had changed."""
    bytes_read: int
    """Bytes that were read."""
    lines_parsed: int
    """Lines that were read."""
    rows_added: int
    """Rows that were added to the store."""
    generations: int
    """Files that were replaced by other content."""
    gone: int
    """Files that were deleted."""
    passages_added: int
    """Texts that were added to the search index."""
    seconds: float
    """How long it took."""
    cpu_seconds: float
    """CPU time."""
    peak_rss_bytes: int
    """The most memory that was used."""
    failed: list[SkippedFile]
    """Deprecated: `skipped`."""


class FoundLine(JsonObject):
    """A line that cannot be read."""

    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    offset: int
    """Where the line begins in the file, in bytes."""
    length: int
    """Its length in bytes."""
    reason: str
    """What is wrong."""


class DoctorFinding(JsonObject):
    """A problem that loses no data."""

    kind: str
    """What it is."""
    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    message: str
    """What is wrong."""
    offset: int | UnsetType = UNSET
    """Where it was first found in the file, in bytes."""
    count: int | UnsetType = UNSET
    """How often, if more than once."""


class DoctorSighting(JsonObject):
    """How often something was found, and in which versions."""

    count: int
    """How often."""
    versions: Counts
    """How often by version of Claude Code."""


class DoctorStore(JsonObject):
    """The condition of the store; null where it is not known."""

    folder: str
    """The data folder."""
    sound: bool
    """Whether the store can be used."""
    message: str | None
    """What is wrong."""
    hint: str | None
    """What to do about it."""
    version: int | None
    """The version of its tables."""
    archive: bool
    """Whether the archive is on."""
    store_bytes: int
    """Size of the store."""
    archive_bytes: int
    """Size of the archive."""
    column_bytes: int
    """Size of the column files for SQL."""
    raw_bytes: int | None
    """Bytes that the archive keeps."""
    archived_bytes: int | None
    """Their size, compressed."""
    folders: int | None
    """Config folders in the store."""
    files: int | None
    """Files in the store."""
    gone_files: int | None
    """Files in the store that were deleted."""
    generations: int | None
    """How often a file was replaced by other content."""
    passages: int | None
    """Texts in the search index."""
    unindexed_bytes: int | None
    """Bytes that are not indexed yet."""
    synced: bool
    """Whether the store has read the examined folder."""


class ExpiringSessionItem(JsonObject):
    """A session that Claude Code deletes soon."""

    session_id: str
    """The session."""
    session: str
    """Deprecated: `session_id`."""
    path: str
    """Its file."""
    time: str
    """From when on Claude Code deletes it at its next start."""
    when: str
    """Deprecated: `time`, in local time."""
    days: int
    """Days until then."""
    archived: bool | None
    """Whether the archive has all of it; null if that is not known."""


class ArchivedSessionItem(JsonObject):
    """A session that only the archive has."""

    session_id: str
    """The session."""
    session: str
    """Deprecated: `session_id`."""
    path: str
    """Where its file was."""
    title: str | None
    """Its title."""
    bytes: int
    """Its size."""
    ended_at: str
    """When its file last changed."""
    modified: str
    """Deprecated: `ended_at`, in local time."""


class NumberComparison(JsonObject):
    """A number of Claude Code's own statistics beside that of the store."""

    theirs: int | None
    """Claude Code's number."""
    ours: int
    """The store's."""
    difference: int | None
    """The store's less Claude Code's."""


class DayDifference(JsonObject):
    """A day that both know."""

    date: str
    """The day."""
    messages: NumberComparison
    """Messages."""
    sessions: NumberComparison
    """Sessions."""
    tool_calls: NumberComparison
    """Tool calls."""
    tokens: dict[str, NumberComparison]
    """Input and output tokens by model."""


class StatisticsDifference(JsonObject):
    """How Claude Code's statistics of a config folder differ from the store's."""

    path: str
    """The file of the statistics."""
    version: int | None
    """Its version."""
    last_computed_date: str | None
    """The last day in it."""
    messages: NumberComparison
    """Messages."""
    sessions: NumberComparison
    """Sessions."""
    tool_calls: NumberComparison
    """Tool calls."""
    models: dict[str, dict[str, NumberComparison]]
    """Tokens by model and kind."""
    days: list[DayDifference]
    """The days that both know."""


class DoctorDocument(JsonListDocument):
    """What is in config folders, and the condition of the store."""

    root: str
    """What was examined; the first of several."""
    roots: list[str]
    """All that was examined."""
    files: int
    """Files that are read line by line."""
    sessions: int
    """Session files."""
    agent_files: int
    """Files of sub-agents."""
    lines: int
    """Lines."""
    bytes: int
    """Bytes that could be read."""
    accounted_bytes: int
    """Bytes that belong to a line."""
    unread_files: int
    """Files that could not be read to their end."""
    unread_bytes: int
    """Bytes that are missing of them."""
    records: Counts
    """Lines by type."""
    kinds: Counts
    """Lines by type and subtype."""
    unknown: Counts
    """Kinds that are not described."""
    versions: Counts
    """Lines by version of Claude Code."""
    bad_lines: list[FoundLine]
    """Lines that cannot be read."""
    warnings: list[DoctorFinding]
    """Problems that lose no data."""
    side_files: Counts
    """Other files by kind."""
    side_bytes: int
    """Their size."""
    undeclared_fields: dict[str, DoctorSighting]
    """Fields that are not described."""
    misfit_results: dict[str, DoctorSighting]
    """Structured results that do not fit their tool, by tool."""
    unknown_tools: dict[str, DoctorSighting]
    """Tools that are not described."""
    agents: Counts
    """Sub-agents: `linked`, `unlinked`, `warmup`, `special`."""
    store: DoctorStore | None
    """The store; null with `--no-store`."""
    deleted_soon: list[ExpiringSessionItem]
    """Sessions that Claude Code deletes soon."""
    archive_only: list[ArchivedSessionItem] | None
    """Sessions that only the archive has; null if it cannot be read."""
    stats_difference: StatisticsDifference | None
    """Deprecated: the only one of `stats_differences`."""
    stats_differences: list[StatisticsDifference]
    """How Claude Code's own statistics differ from the store's, by config folder."""
    unresolved_edits: list[str]
    """Edits that a killed process left unfinished, by their ids."""
    status_lines: dict[str, str]
    """Whether our status line is installed, by settings file."""
    sandbox: str | None
    """What confines the commands of `unspool chat` on this machine; null if nothing does."""


class ConfigItem(JsonObject):
    """A setting."""

    key: str
    """Its name."""
    value: Any
    """Its value."""
    default: Any
    """Its default."""
    meaning: str
    """What it does."""


class ConfigDocument(JsonListDocument):
    """The settings."""

    path: str
    """The file that keeps them."""
    file: str
    """Deprecated: `path`."""
    items: list[ConfigItem]
    """The settings."""
    settings: list[ConfigItem]
    """Deprecated: `items`."""
    unknown: list[str]
    """Settings in the file that this version does not know."""


class ConfigKeyDocument(ConfigItem):
    """One setting (`config KEY`)."""

    schema: str
    """`unspool/config-key/1`."""


class HooksDocument(JsonDocument):
    """The hooks in the settings of Claude Code."""

    path: str
    """The settings file."""
    settings: str
    """Deprecated: `path`."""
    installed: bool
    """Whether there are any."""
    events: list[str]
    """The events that have one."""
    signals_path: str
    """The folder that hooks write to."""
    signals: str
    """Deprecated: `signals_path`."""
    sessions: int
    """Sessions that have written signals."""
    newest_at: str | None
    """The time of the newest signal."""
    newest: str | None
    """Deprecated: `newest_at`."""


class HooksChangeDocument(JsonDocument):
    """Hooks that were installed or removed (`hooks install`, `hooks remove`)."""

    changed: bool
    """Whether the settings were changed."""
    events: list[str]
    """The events that have a hook now."""


class McpDocument(JsonDocument):
    """The MCP server in the settings of a client (`mcp status`)."""

    client: str
    """The client."""
    path: str
    """The settings file."""
    installed: bool
    """Whether the server is the one of unspool."""
    server: Any
    """The server named `unspool` in the settings."""


class McpChangeDocument(JsonDocument):
    """An MCP server that was installed or uninstalled (`mcp install`, `mcp uninstall`)."""

    changed: bool
    """Whether the settings were changed."""
    path: str
    """The settings file."""


class StatuslineDocument(JsonDocument):
    """The status line in the settings of Claude Code."""

    path: str
    """The settings file."""
    installed: bool
    """Whether it is the one of unspool."""
    status_line: Any
    """The status line that the settings name."""


class StatuslineChangeDocument(JsonDocument):
    """A status line that was installed or uninstalled (`statusline install`, `statusline uninstall`)."""

    changed: bool
    """Whether the settings were changed."""
    path: str
    """The settings file."""


class StatuslineField(JsonObject):
    """A field of the template."""

    name: str
    """Its name."""
    shows: str
    """What it shows."""


class StatuslineFieldsDocument(JsonListDocument):
    """The fields that a template of the status line may have (`statusline fields`)."""

    items: list[StatuslineField]
    """The fields."""


class RedactItem(JsonObject):
    """A place with something to redact; never the secret itself."""

    path: str
    """The file."""
    file: str
    """Deprecated: `path`."""
    line: int
    """The number of the line; 0 in files that are not JSONL."""
    kind: str
    """What it is."""
    count: int
    """How often it is there."""
    field: str
    """Where in the JSON of the line."""


class RedactDocument(JsonListDocument):
    """What would be redacted (`redact --check`). With findings the exit code is 1, without it is 0."""

    rules: str
    """The version of the rules."""
    lines: int
    """Lines that were examined."""
    kinds: Counts
    """How often each kind was found."""
    items: list[RedactItem]
    """The findings."""
    found: list[RedactItem]
    """Deprecated: `items`."""


class DemoDocument(JsonDocument):
    """A demo that was written."""

    path: str
    """The folder."""
    folder: str
    """Deprecated: `path`."""
    sessions: int
    """Sessions."""
    agents: int
    """Sub-agents."""
    files: int
    """Files."""
    bytes: int
    """Bytes."""


class CollectDocument(JsonListDocument):
    """What a collector sent, or with `--dry-run` would send."""

    segments: int
    """Objects."""
    bytes: int
    """Their size."""
    lines: int
    """Lines in them."""
    redactions: int
    """Secrets that were replaced."""
    redacted: Counts
    """Secrets that were replaced, by kind."""
    pending: int
    """Parts of objects that wait to be sent: lines of one file each."""
    pending_bytes: int
    """Their size."""
    source_bytes: int
    """Bytes of the lines before redaction and compression."""
    failed: list[SkippedFile]
    """Files that could not be sent."""


class CollectTarget(JsonObject):
    """An object store that was sent to."""

    to: str
    """Its URL."""
    org: str
    """The organisation."""
    device: str
    """This machine."""
    streams: int
    """Files that were sent."""
    segments: int
    """Objects."""
    lines: int
    """Lines."""
    pending: int
    """Parts of objects that wait to be sent: lines of one file each."""
    pending_bytes: int
    """Their size."""
    redactions: int
    """Secrets that were replaced in what was sent."""
    failed_files: int
    """Files that could not be read at the last look."""
    failed_attempts: int
    """Attempts in a row that the store did not answer or refused."""
    confirmed_at: str | None
    """When the last object was confirmed."""
    looked_at: str | None
    """When a collector last looked at the files."""
    confirmed: str | None
    """Deprecated: `confirmed_at`."""


class CollectStatusDocument(JsonListDocument):
    """What was sent to each object store (`collect --status`)."""

    items: list[CollectTarget]
    """The object stores."""


class CollectEnrolDocument(JsonDocument):
    """For whom this machine collects (`collect enrol`)."""

    org: str
    """The organisation."""
    user: str
    """The user."""
    device: str
    """This machine."""
    key_id: str
    """The id of the key that marks secrets."""


class CollectLeaveDocument(JsonDocument):
    """The enrolment that this machine had (`collect leave`)."""

    org: str
    """The organisation."""
    device: str
    """The device that it was."""
    told: list[str]
    """Object stores that were told."""
    dropped: int
    """Parts of segments that waited to be sent, and never will be."""


class LakeInitDocument(JsonDocument):
    """A lake that was made (`lake init`)."""

    lake: str
    """Its URL."""
    tables: list[str]
    """Its tables."""


class BadSegmentItem(JsonObject):
    """An object that is no segment of its stream."""

    name: str
    """Its name."""
    size: int
    """Its size."""
    reason: str
    """What is wrong."""


class LargeSegmentItem(JsonObject):
    """A segment that alone needs more memory than was allowed."""

    name: str
    """Of the object."""
    bytes: int
    """Of all streams in it."""


class LakeIngestDocument(JsonDocument):
    """What was read into a lake (`lake ingest`); with `--follow` a line for each round."""

    streams: int
    """Streams with new lines."""
    segments: int
    """Segments."""
    lines: int
    """Lines."""
    bytes: int
    """Bytes of the lines."""
    conflicts: int
    """How often another ingest was faster."""
    waiting: int
    """Devices and streams that wait for a segment that is missing."""
    bad: list[BadSegmentItem]
    """Objects that are no segments."""
    seconds: float
    """How long it took."""
    large: list[LargeSegmentItem]
    """Segments that alone need more memory than was allowed."""


class CompactedTable(JsonObject):
    """A table whose files were merged."""

    table: str
    """Its name."""
    removed: int
    """Files that were replaced."""
    added: int
    """Files that replace them."""


class LakeCompactDocument(JsonDocument):
    """Files that were merged (`lake compact`)."""

    tables: list[CompactedTable]
    """The tables."""


class LakeVacuumDocument(JsonDocument):
    """Files that no table needs (`lake vacuum`)."""

    files: int
    """How many there are."""
    removed: bool
    """Whether they were removed."""


class LakeForgetDocument(JsonDocument):
    """What was removed from a store and its lake, or would be (`lake forget`)."""

    devices: int
    """Devices of which segments change."""
    segments: int
    """Segments that are rewritten."""
    parts: int
    """Parts in them that change."""
    lines: int
    """Lines that are removed."""
    files: int
    """Old files of tables that were deleted."""
    is_versioned: bool
    """Whether the store keeps old versions of objects, as far as it tells."""
    removed: bool
    """Whether it was done; without `--yes`, nothing is."""


class LakeProblemItem(JsonObject):
    """A difference between manifests, segments and tables."""

    what: str
    """What is wrong."""
    where: str
    """Where."""
    words: str
    """The details."""


class LakeVerifyDocument(JsonDocument):
    """A comparison of manifests, segments and tables (`lake verify`)."""

    devices: int
    """Devices."""
    streams: int
    """Streams."""
    segments: int
    """Segments."""
    lines: int
    """Lines."""
    responses: int
    """Responses."""
    read_segments: int
    """Segments that were read; those that were verified earlier and are the same are not."""
    counted_partitions: int
    """Partitions of tables whose rows were read."""
    is_recorded: bool
    """Whether that was recorded in the lake, so that the next run reads only what is new."""
    problems: list[LakeProblemItem]
    """What is wrong."""
    whole: bool
    """Whether nothing is."""


class LakeDevice(JsonObject):
    """How far a device is, in the object store and in the tables."""

    org: str
    """The organisation."""
    user: str
    """The user."""
    device: str
    """The device."""
    seen_at: str | None
    """When it last said something, by its clock."""
    collector: str | None
    """Its version of unspool."""
    claude_code: str | None
    """Its version of Claude Code."""
    system: str | None
    """Its operating system."""
    streams: int
    """Files that it has sent."""
    sent_segments: int
    """Segments that it has sent."""
    sent_lines: int
    """Lines that it has sent."""
    segments: int
    """Segments in the tables."""
    lines: int
    """Lines in the tables."""
    backlog_segments: int
    """Segments that it has sent and that are not in the tables."""
    backlog_lines: int
    """Lines that it has sent and that are not in the tables."""
    pending: int
    """Parts of segments that wait on the device."""
    pending_bytes: int
    """Their size."""
    lag_seconds: float
    """How much older the newest segment in the tables is than its last word; 0 without a backlog."""
    redactions: int
    """Secrets that were replaced in what is in the tables."""
    failed: int
    """Files that it could not read."""
    left: bool
    """Whether it was taken out (`collect leave`)."""


class LakeStatusDocument(JsonDocument):
    """The devices of a lake (`lake status`)."""

    items: list[LakeDevice]
    """The devices."""
    quarantined: int
    """Objects that could not be read."""
    damaged_manifests: list[str]
    """Manifests that could not be read."""


class LakeMigrateDocument(JsonDocument):
    """What an existing lake lacked (`lake migrate`)."""

    lake: str
    """Its URL."""
    version: int
    """Its version."""
    added: list[str]
    """Columns that were added, as `table.column`."""
    is_current: bool
    """Whether a new lake would have the same version."""


class BoundDevice(JsonObject):
    """A device that is bound to a user."""

    device: str
    """The device, as `org/device`."""
    user: str
    """Its user."""


class LakeUsersDocument(JsonDocument):
    """The devices that are bound to users (`lake users`)."""

    items: list[BoundDevice]
    """The devices."""


class SunkTable(JsonObject):
    """A table that was copied to a database."""

    table: str
    """Its name."""
    version: int
    """The version of the lake's table that the database has."""
    files_added: int
    """Files of the lake whose rows were added."""
    files_removed: int
    """Files of the lake whose rows were removed."""
    rows_added: int
    """Rows that were added."""
    rows_removed: int
    """Rows that were removed."""
    cells_altered: int
    """Values that the database cannot hold as they are."""
    columns_added: list[str]
    """Columns that the table in the database did not have."""


class LakeSinkDocument(JsonDocument):
    """What was copied to a database (`lake sink`); with `--follow` a line for each round that copied anything."""

    tables: list[SunkTable]
    """The tables."""
    left: list[str]
    """Tables of an earlier run with other options, which were not brought up to date."""
    seconds: float
    """How long it took."""


class RevealedUser(JsonObject):
    """A user and the pseudonym in the tables of a lake."""

    pseudonym: str
    """The name in the tables."""
    user: str
    """The name that the devices say."""


class LakePseudonymsDocument(JsonDocument):
    """Whose the pseudonyms of a lake are (`lake users --pseudonyms FILE --from URL`)."""

    items: list[RevealedUser]
    """The users."""
