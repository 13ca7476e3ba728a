"""`make run` and the launcher of the checkout, with a command in the place of unspool that does nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose environment exists already; its `unspool` prints its arguments, and `serve` never ends."""
    for name in ("Makefile", "unspool", "pyproject.toml", "requirements"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    command = '#!/bin/sh\necho "$UNSPOOL_HOME|$*"\nif [ "$1" = serve ]; then exec sleep 600; fi\n'
    for name, text in {"python": "#!/bin/sh\n", "unspool": command}.items():
        (binaries / name).write_text(text)
        (binaries / name).chmod(0o755)
    (tmp_path / ".venv" / ".base").touch()
    (tmp_path / "home").mkdir()
    return tmp_path


def environment(checkout: Path) -> dict[str, str]:
    return {"HOME": str(checkout / "home"), "PATH": os.environ["PATH"]}


def test_ctrl_c_ends_make_run_without_an_error(checkout: Path) -> None:
    with subprocess.Popen(
        ["make", "run"],
        cwd=checkout,
        env=environment(checkout),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as command:
        assert command.stdout is not None
        seen = [next(line for line in command.stdout if "|serve" in line)]
        os.killpg(command.pid, signal.SIGINT)
        seen += command.stdout
    assert seen == [f"{checkout}/.demo/data|serve --config-dir .demo/config\n"]


def test_the_launcher_runs_from_anywhere_and_through_a_link(checkout: Path) -> None:
    link = checkout / "home" / "unspool"
    link.symlink_to(checkout / "unspool")
    for name in (checkout / "unspool", link):
        printed = subprocess.check_output([name, "ls", "a b"], cwd="/", env=environment(checkout), text=True)
        assert printed == "|ls a b\n"
