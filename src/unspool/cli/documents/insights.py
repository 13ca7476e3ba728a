"""The document of `insights`."""

from __future__ import annotations

from unspool.cli.documents.base import Counts, JsonListDocument, JsonObject


class InsightPlace(JsonObject):
    """A line that a figure counts."""

    session_id: str | None
    """The session."""
    agent_id: str | None
    """The sub-agent; null in the main conversation."""
    turn: int | None
    """The turn, as in `show --turn`; of an agent the turn that it worked in. Null before the first turn."""
    source: str | None
    """Its file."""
    offset: int
    """Where the line begins in the file, in bytes: the step on the page."""
    time: str | None
    """When it was written."""
    value: int | None
    """What it is listed by: milliseconds, micro-dollars or tokens; null if by its time."""


class InsightRow(JsonObject):
    """A row with the lines that weigh most."""

    places: list[InsightPlace]
    """At most five lines, those that weigh most first; of a suggestion at most 20, the newest first."""


class InsightTotals(JsonObject):
    """What all sections are about."""

    responses: int
    """Billed responses."""
    cost_micros: int
    """Their cost, in millionths of a US dollar."""
    unpriced_tokens: int
    """Tokens of models without a price, which are not in the cost."""
    billed_sessions: int
    """Sessions that paid for responses."""
    sessions: int
    """Sessions with tool calls."""
    calls: int
    """Tool calls, each once."""
    failed: int
    """Calls whose result is an error."""
    rejected: int
    """Those of them that the user rejected or interrupted."""
    duration_ms: int
    """From calls to their results, added up."""
    calls_cost_micros: int
    """The cost of the responses that made the calls."""
    untimed_calls: int
    """Calls without the times of both lines."""


class InsightTool(InsightRow):
    """A tool."""

    tool: str | None
    """Its name."""
    calls: int
    """Its calls."""
    failed: int
    """Those whose result is an error."""
    unanswered: int
    """Those without a result."""
    duration_ms: int
    """From calls to their results: run time, and waiting for approval."""
    longest_ms: int | None
    """The longest of them."""
    cost_micros: int
    """Its share of the responses that made the calls."""


class InsightFile(InsightRow):
    """A file that tool calls name."""

    path: str
    """The file, as the model wrote it."""
    reads: int
    """Calls that read it."""
    changes: int
    """Calls that write or edit it."""
    not_done: int
    """Calls that failed or have no result."""
    added: int
    """Lines added, where results tell."""
    removed: int
    """Lines removed, where results tell."""
    duration_ms: int
    """From calls to their results."""
    cost_micros: int
    """The calls' share of the responses that made them."""
    sessions: int
    """Sessions with such calls."""


class InsightProject(InsightRow):
    """A project."""

    project: str | None
    """Its name."""
    sessions: int
    """Sessions that paid for responses."""
    responses: int
    """Billed responses."""
    cost_micros: int
    """Their cost."""
    unpriced_tokens: int
    """Tokens of models without a price."""
    turns_ms: int
    """The time of its turns, from the prompt to the last line."""


class InsightFailure(InsightRow):
    """A kind of failed calls."""

    kind: str
    """What its failures have in common."""
    tool: str | None
    """The tool."""
    words: str
    """The words of the newest."""
    failures: int
    """How many there are."""
    sessions: int
    """In how many sessions."""
    duration_ms: int
    """From calls to their results."""
    cost_micros: int
    """The calls' share of the responses that made them."""


class InsightCommand(InsightRow):
    """A shell command that failed."""

    command: str
    """The command, word for word."""
    runs: int
    """How often it ran."""
    failed: int
    """How often it failed or was rejected."""
    failed_ms: int
    """The time of the failed runs."""
    failed_cost_micros: int
    """Their share of the responses that made them."""
    sessions: int
    """Sessions in which it failed."""


class InsightRetry(InsightRow):
    """Calls of a tool that were made again after they had failed."""

    tool: str | None
    """The tool."""
    retries: int
    """Calls with the tool and input of a failed call before them."""
    succeeded: int
    """Those that succeeded."""
    failed_again: int
    """Those that failed."""
    duration_ms: int
    """From calls to their results."""
    cost_micros: int
    """The calls' share of the responses that made them."""


class InsightApiErrors(InsightRow):
    """Errors of the API in a session."""

    session_id: str | None
    """The session."""
    errors: int
    """Lines that tell of an error, after which the request was sent again."""


class InsightRepeatedRead(InsightRow):
    """A file that was read again while it was in the context."""

    path: str | None
    """The file."""
    reads: int
    """Reads after the first, with the same input and the same result."""
    bytes: int
    """Bytes of their results."""
    tokens: int
    """Their tokens, estimated: 3.6 bytes are one."""
    carried_tokens: int
    """The same tokens, once for each later request up to the next compaction."""
    cost_micros: int
    """The calls' share of the responses that made them."""


class InsightLostCache(InsightRow):
    """Requests that lost the cache for one reason."""

    kind: str
    """`pause`, `model` or `cache`."""
    why: str
    """The reason in words."""
    requests: int
    """How many they are."""
    lost_tokens: int
    """Tokens that were sent again."""
    cost_micros: int
    """What that cost more than reading them from the cache."""
    unpriced_requests: int
    """Requests of models without a price."""


class InsightGrowth(InsightRow):
    """What contexts grew by, from one request to the next."""

    kind: str
    """`start`, `answer`, `prompt`, `result` or `dropped`."""
    tool: str | None
    """Of results: the tool."""
    tokens: int
    """Tokens; of what was dropped less than 0."""
    steps: int
    """How many requests they came in before."""
    largest: int
    """The most tokens at once."""


class InsightContext(InsightRow):
    """A session with a full context."""

    session_id: str | None
    """The session."""
    requests: int
    """Requests of its main conversation."""
    peak_tokens: int
    """The longest prompt."""
    last_tokens: int
    """The last prompt."""
    cost_micros: int
    """The cost of these requests."""


class InsightApproval(InsightRow):
    """Calls of a tool that waited for approval."""

    tool: str | None
    """The tool."""
    calls: int
    """Calls of a second or longer that today's rules ask about, in turns whose mode asks."""
    approved: int
    """Those that were approved."""
    rejected: int
    """Those that were rejected."""
    waited_at_most_ms: int
    """From calls to their results, less the run where the result says how long it took."""
    measured_calls: int
    """Calls whose result says how long the tool ran."""


class InsightWait(InsightRow):
    """Waits for a person."""

    kind: str
    """`prompt`, `question`, `plan` or `rejected`."""
    waits: int
    """How many there were."""
    waited_ms: int
    """Their time."""
    longest_ms: int
    """The longest."""
    median_ms: int
    """The median."""


class InsightSuggestion(InsightRow):
    """A change that would have saved something."""

    kind: str
    """`claude_md`, `permission` or `trim`."""
    action: str
    """What to do."""
    text: str
    """The line, the rule or the command."""
    project: str
    """The project or folder it is for."""
    saved: Counts
    """What it would have saved, by what it is."""
    computed: str
    """How that was computed."""
    evidence: int
    """Lines of evidence; `places` has the newest."""


class InsightsDocument(JsonListDocument):
    """Where money and time go, and what would have saved some (`insights`)."""

    totals: InsightTotals
    """What all sections are about."""
    tools: list[InsightTool]
    """By tool."""
    files: list[InsightFile]
    """By file."""
    projects: list[InsightProject]
    """By project."""
    failures: list[InsightFailure]
    """By kind of failure."""
    commands: list[InsightCommand]
    """Shell commands that failed."""
    retries: list[InsightRetry]
    """Calls that were made again after a failure."""
    api_errors: list[InsightApiErrors]
    """Requests that were sent again after an error of the API."""
    repeated_reads: list[InsightRepeatedRead]
    """Files that were read again while they were in the context."""
    lost_caches: list[InsightLostCache]
    """Requests that lost the cache."""
    growth: list[InsightGrowth]
    """What filled contexts."""
    contexts: list[InsightContext]
    """The fullest contexts."""
    approvals: list[InsightApproval]
    """Waits for approval."""
    waits: list[InsightWait]
    """Waits for a person."""
    suggestions: list[InsightSuggestion]
    """What would have saved something."""
    left_out: Counts
    """How many rows `--limit` leaves out, by section."""
    unknown: Counts
    """How many calls are not in a figure because nothing says what it needs."""
