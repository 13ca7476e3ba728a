"""Sandboxes for commands that nobody approved: what they may write, read and reach is limited by the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.sandbox.landlock import restrict_to_reading
    from unspool.sandbox.mechanism import (
        MECHANISM_NAMES, Mechanism, PreparedSandbox, find_mechanism, make_limits, prepare_sandbox,
    )
    from unspool.sandbox.policy import SandboxPolicy, make_policy, make_sandbox_environment
    from unspool.sandbox.restricted_child import RestrictedChild, start_restricted

__all__ = [
    "MECHANISM_NAMES", "Mechanism", "PreparedSandbox", "RestrictedChild", "SandboxPolicy", "find_mechanism",
    "make_limits", "make_policy", "make_sandbox_environment", "prepare_sandbox", "restrict_to_reading",
    "start_restricted",
]

__getattr__ = lazy_door(__name__, {
    "landlock": "restrict_to_reading",
    "mechanism": "MECHANISM_NAMES Mechanism PreparedSandbox find_mechanism make_limits prepare_sandbox",
    "policy": "SandboxPolicy make_policy make_sandbox_environment",
    "restricted_child": "RestrictedChild start_restricted",
})
