"""DuckDB, Polars and Spark give the same sums as `unspool usage` on the machine that was collected from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import polars
import pytest

from tests.collect.lake.lakes import TestLake
from tests.faults.s3 import BUCKET, CREDENTIALS, server
from tests.faults.world import World
from tests.real_files import corpus
from tests.store.asking import Columns
from unspool.demo.write import write_demo

ROOT = Path(__file__).parents[3]
SPARK = ROOT / ".venv-spark"
NAMES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_micros")
BY_DAY = """SELECT CAST(CAST(coalesce(time, TIMESTAMP '1970-01-01') AS DATE) AS VARCHAR), count(*),
    sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_5m_tokens + cache_write_1h_tokens),
    sum(cost_micros) FROM responses GROUP BY 1 ORDER BY 1"""

Sums = list[tuple[Any, ...]]


@pytest.fixture(params=["a demo", "sessions that went on", "real files"])
def told(request: pytest.FixtureRequest, lake: TestLake, tmp_path: Path) -> Sums:
    """What the machine itself says, by day; the lake has what it sent."""
    root = tmp_path / "config"
    device = lake.device()
    match request.param:
        case "a demo":
            write_demo(root)
        case "real files":
            root = corpus()
        case _:
            world = World(root)
            for count in (5, 20, 30):
                world.append(world.create(), count)
                world.fork(world.paths[0])
                device.send(world.root)
                lake.ingest()
    device.is_last = True
    device.send(root)
    lake.ingest()
    own = Columns(tmp_path / "own", root)
    own.refresh()
    return [tuple(map(_plain, row)) for row in own.rows(BY_DAY)]


def test_all_engines_say_what_usage_says(told: Sums, lake: TestLake, request: pytest.FixtureRequest) -> None:
    assert told
    assert [tuple(map(_plain, row)) for row in lake.rows(BY_DAY)] == told
    assert by_polars(lake) == told
    if "demo" not in request.node.name and (spark := by_spark(lake)):  # twice is enough: it takes its time
        assert spark == told


def by_polars(lake: TestLake) -> Sums:
    """Read the table as anybody would who has Polars."""
    responses = polars.scan_delta(str(lake.folder / "responses"))
    writes = (polars.col("cache_write_5m_tokens") + polars.col("cache_write_1h_tokens")).alias("cache_write_tokens")
    found = (
        responses.with_columns(writes)
        .group_by("day")
        .agg(polars.len().alias("responses"), *(polars.col(name).sum() for name in NAMES))
        .sort("day")
        .collect()
    )
    return [(row["day"].isoformat(), row["responses"], *(row[name] for name in NAMES)) for row in found.to_dicts()]


def by_spark(lake: TestLake) -> Sums | None:
    """Run the documented job; nothing where there is no Spark."""
    if not (SPARK / ".ready").exists() or not shutil.which("java"):
        if os.environ.get("CI"):
            pytest.fail("no Spark, or no Java to run it: `make spark`")
        return None
    script, place = ROOT / "docs" / "spark_usage.py", lake.folder.as_uri()
    environment = {"PATH": os.environ["PATH"], "HOME": str(lake.folder.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(SPARK / "bin" / "python"), str(script), place, "--json"],
        env=environment,
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    rows = json.loads(done.stdout)
    return [(row["day"], row["responses"], *(row[name] or 0 for name in NAMES)) for row in rows]


def _plain(value: object) -> object:
    # A day of which no response has a price: SQL says null, Polars 0.
    return value if isinstance(value, str) else int(str(value or 0))


@pytest.mark.slow
def test_the_example_with_storage_options_reads_a_lake_in_an_object_store(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "team.md").read_text()
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "storage_options" in block]
    write_demo(tmp_path / "config")
    with server(tmp_path) as port:
        place = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], **place}
        segments, lake = f"s3://{BUCKET}/in", f"s3://{BUCKET}/lake"
        for words in (
            ("collect", "--to", segments, "--config-dir", f"{tmp_path}/config", "--org", "acme", "--user", "me"),
            ("lake", "init", lake),
            ("lake", "ingest", "--from", segments, "--to", lake),
        ):
            subprocess.run([sys.executable, "-m", "unspool", *words], env=environment, check=True, capture_output=True)
        names: dict[str, Any] = {}
        code = example.replace("s3://bucket", f"s3://{BUCKET}").replace("\n}\n", "\n} | place\n", 1)
        exec(compile(code + "\n", "team.md", "exec"), {"deltalake": deltalake, "polars": polars, "place": place}, names)
        found = polars.scan_delta(f"{lake}/responses", storage_options=place).select(polars.len()).collect().item()
    assert found > 50
    assert len(names["table"].file_uris()) > 0
