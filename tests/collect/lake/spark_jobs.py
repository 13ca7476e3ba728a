"""Runs the Spark ingest in processes of its own: Spark has an environment, and unspool another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SPARK = ROOT / ".venv-spark"
KILLED = ROOT / "tests" / "faults" / "killed_program.py"
MASTER = "local-cluster[2,1,512]"
"""Two worker processes of Spark, each with an executor of its own: tasks and rows go through sockets."""

_WORKER = """#!/bin/sh
PYTHONPATH="{folder}:$PYTHONPATH" exec "{python}" "$@"
"""
_DIES = """
import os, signal, sys

def die(event, arguments):
    # In the middle of a task: it has been received, and derives.
    if event == "import" and arguments[0] == "unspool.collect.lake.derive":
        try:
            os.mkdir({marker!r})
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(die)
"""


def has_spark() -> bool:
    """Return whether Spark is installed; in CI it must be."""
    if (SPARK / ".ready").exists() and shutil.which("java"):
        return True
    if os.environ.get("CI"):
        pytest.fail("no Spark, or no Java to run it: `make spark`")
    return False


def run_ingest(source: str, lake: Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `unspool lake spark-ingest` to its end; the first Python worker of an executor is killed in its task."""
    packages = next((SPARK / "lib").glob("python3*")) / "site-packages"
    plain = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", "UNSPOOL_HOME": str(folder / "own"),
        "SPARK_HOME": str(packages / "pyspark"), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(packages),
        "PYSPARK_PYTHON": str(_dying_worker(folder)), "SPARK_CONF_DIR": str(_configuration(folder)),
    }  # fmt: skip
    program = [str(KILLED)] if "UNSPOOL_KILL_AT" in environment else ["-m", "unspool"]
    command = [*program, "lake", "spark-ingest", "--from", source, "--to", str(lake), "--master", MASTER]
    return subprocess.run(
        [sys.executable, *command], env=plain | environment, cwd=folder, capture_output=True, check=False, timeout=500
    )


def killed_workers(folder: Path) -> bool:
    """Return whether a worker was killed."""
    return (folder / "died").is_dir()


def _dying_worker(folder: Path) -> Path:
    place, worker = folder / "worker", folder / "worker" / "python"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(_DIES.format(marker=str(folder / "died")))
    worker.write_text(_WORKER.format(folder=place, python=sys.executable))
    worker.chmod(0o700)
    return worker


def _configuration(folder: Path) -> Path:
    place = folder / "conf"
    place.mkdir(exist_ok=True)
    options = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        # Jobs of seconds do not pay for the second compiler: 11 s of CPU, and 18 with it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.python.worker.faulthandler.enabled": "false",
    }
    (place / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    (place / "log4j2.properties").write_text("rootLogger.level = error\n")
    return place
