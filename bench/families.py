"""Families of versions that write alike, and how often they write what. The counts are those of docs/format.md."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """How a family writes; rates are per turn unless they say otherwise."""

    versions: tuple[str, ...]
    agent_prefix: str
    agent_bits: int
    newest: bool = False
    """The envelope ends the line, stop reasons are on every line, usage is final, thinking often withheld."""
    tree: bool = True
    """A result is the child of its own call; before 2.1 results are a chain."""
    beside: bool = False
    """The files of agents lie beside those of sessions, not in a folder of the session."""
    snapshots: float = 0.0
    queued: float = 0.0
    systems: float = 0.0
    progress: float = 0.0
    """Hook and shell progress, per tool call."""
    attachments: float = 0.0
    notes: tuple[tuple[str, str, float], ...] = ()
    """Lines that say a piece of metadata again: type, field, rate."""


FAMILIES = {
    "2.0": Family(
        ("2.0.37", "2.0.67", "2.0.76"),
        agent_prefix="",
        agent_bits=32,
        tree=False,
        beside=True,
        snapshots=1.3,
        queued=0.75,
        systems=0.27,
    ),
    "2.1": Family(
        ("2.1.12", "2.1.29", "2.1.49"),
        agent_prefix="a",
        agent_bits=24,
        snapshots=1.1,
        queued=0.8,
        systems=0.5,
        progress=0.83,
    ),
    "2.1.160": Family(
        ("2.1.170", "2.1.205", "2.1.217"),
        agent_prefix="a",
        agent_bits=64,
        newest=True,
        snapshots=0.6,
        queued=1.3,
        systems=1.4,
        attachments=3.6,
        notes=(
            ("last-prompt", "lastPrompt", 2.6),
            ("mode", "mode", 1.6),
            ("permission-mode", "permissionMode", 0.75),
            ("ai-title", "aiTitle", 0.75),
            ("custom-title", "customTitle", 1.4),
        ),
    ),
}
