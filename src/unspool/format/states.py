"""States: lines in which the program keeps something for itself. Notes too, but of little use to anyone else.

Most were seen only in the program, not in files: the names are its own, the fields those it writes.
"""

from typing import Any, TypeAlias

from unspool.format.envelope import Record


class ReplMode(Record, frozen=True, tag="repl-mode"):
    """Whether the session writes code instead of calling tools."""

    repl_mode: Any = None
    typed_events: bool | None = None


class MemoryMode(Record, frozen=True, tag="memory-mode"):
    """How the session may use memory."""

    mode: Any = None


class AtisLatch(Record, frozen=True, tag="atis-latch"):
    """A state of the program's own (from 2.1.250 on)."""

    atis: str | None = None


class IsolationLatch(Record, frozen=True, tag="isolation-latch"):
    """Which side of an isolation the session is on."""

    side: str | None = None


class ContinuedIn(Record, frozen=True, tag="continued-in"):
    """The conversation goes on in another session."""

    continued_in_session_id: str | None = None


class DerivedFrom(Record, frozen=True, tag="derived-from"):
    """The conversation comes from another session."""


class ForkContextRef(Record, frozen=True, tag="fork-context-ref"):
    """A sub-agent forked from its parent's conversation, which is kept there."""

    parent_session_id: str | None = None
    parent_last_uuid: str | None = None


class EndedByModel(Record, frozen=True, tag="ended-by-model"):
    """The model ended the conversation."""


class SpeculationAccept(Record, frozen=True, tag="speculation-accept"):
    """A prompt that was guessed beforehand came true."""

    time_saved_ms: float | None = None


class HistorySuppression(Record, frozen=True, tag="history-suppression"):
    """The session is not to appear in histories."""

    cause: str | None = None
    ts: str | None = None
    vetoed_against_account_uuid: str | None = None


class ContextCollapse(Record, frozen=True, tag="marble-origami-commit"):
    """A stretch of the conversation that the model sees as a summary."""

    collapse_id: str | None = None
    summary_uuid: str | None = None
    summary_content: str | None = None
    summary: str | None = None
    first_archived_uuid: str | None = None
    last_archived_uuid: str | None = None


class ContextCollapseSnapshot(Record, frozen=True, tag="marble-origami-snapshot"):
    """Such stretches that are prepared but not in effect."""

    staged: tuple[Any, ...] = ()
    armed: bool | None = None
    last_spawn_tokens: int | None = None


class ContextCollapseReset(Record, frozen=True, tag="marble-origami-reset"):
    """All such stretches are undone."""


class ArtifactCommentMonitor(Record, frozen=True, tag="artifact-comment-monitor"):
    """Artifacts whose comments are watched."""

    v: int | None = None
    artifacts: Any = None


class ArtifactAutoreactLedger(Record, frozen=True, tag="artifact-autoreact-ledger"):
    """Artifacts whose comments were answered."""

    v: int | None = None
    account_uuid: str | None = None
    artifacts: Any = None


class ResumeHeadVouch(Record, frozen=True, tag="resume-head-vouch"):
    """A state of the program's own."""


class DataFlowRecords(Record, frozen=True, tag="data-flow-records"):
    """A state of the program's own."""


class DataFlowIncomplete(Record, frozen=True, tag="data-flow-incomplete"):
    """A state of the program's own."""

    v: int | None = None


class SessionOwner(Record, frozen=True, tag="session-owner"):
    """Whose session it is."""


class DevMods(Record, frozen=True, tag="dev-mods"):
    """A state of the program's own."""

    folder: str | None = None


class ObserverRef(Record, frozen=True, tag="observer-ref"):
    """A session that watches this one."""


class BridgeSession(Record, frozen=True, tag="bridge-session"):
    """The session is also open on another device."""

    bridge_session_id: str | None = None
    last_sequence_num: int | None = None
    declared_dialog_kinds: tuple[str, ...] = ()
    session_grouping_id: str | None = None
    no_history_backfill: bool | None = None
    owner_account_uuid: str | None = None
    owner_organization_uuid: str | None = None


AnyState: TypeAlias = (
    ReplMode | MemoryMode | AtisLatch | IsolationLatch | ContinuedIn | DerivedFrom | ForkContextRef | EndedByModel
    | SpeculationAccept | HistorySuppression | ContextCollapse | ContextCollapseSnapshot | ContextCollapseReset
    | ArtifactCommentMonitor | ArtifactAutoreactLedger | ResumeHeadVouch | DataFlowRecords | DataFlowIncomplete
    | SessionOwner | DevMods | ObserverRef | BridgeSession
)  # fmt: skip
