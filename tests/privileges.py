"""Run a process that the modes of files bind: root is not bound, unless it gives that up."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def bound_by_modes() -> tuple[str, ...]:
    """Return the command that runs another one bound by the modes of files; skip the test if there is none."""
    if os.geteuid() != 0:
        return ()
    bound = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    if not shutil.which("setpriv") or subprocess.run([*bound, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root may read and write everywhere, and `setpriv` cannot take that away here")
    return bound
