"""How thorough property tests are: a profile for each of `make quick`, `make test` and `.ci/run`.

No profile has a deadline: how long one example takes depends on what else the machine is doing, and a test that fails
on a busy machine says nothing about the code.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("UNSPOOL_PROFILE") or ("ci" if os.environ.get("CI") else "default")
_SLOW_MACHINE = [HealthCheck.too_slow]  # which measures the machine too


def load_profile() -> None:
    """Make the profile that the environment names the one that tests run with."""
    settings.register_profile("quick", deadline=None, max_examples=10, suppress_health_check=_SLOW_MACHINE)
    settings.register_profile("default", deadline=None, suppress_health_check=_SLOW_MACHINE)
    settings.register_profile("ci", deadline=None, suppress_health_check=_SLOW_MACHINE, print_blob=True)
    settings.load_profile(PROFILE)


def examples(count: int) -> int:
    """Return how many examples a test that needs more or fewer than usual tries: a tenth with `make quick`."""
    return max(count // 10, 5) if PROFILE == "quick" else count
