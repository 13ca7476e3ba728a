"""A collector that runs uses the credentials that are in its file now, at a real S3 server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.s3 import BUCKET, CREDENTIALS, server
from tests.faults.world import World


def write_credentials(path: Path, **changed: str) -> None:
    """Write a file of credentials in place of another, at once."""
    new = path.with_name("new")
    new.write_text("".join(f"{name}={value}\n" for name, value in {**CREDENTIALS, **changed}.items()))
    new.chmod(0o600)
    new.replace(path)


@pytest.mark.slow
def test_a_collector_that_runs_takes_exchanged_credentials(tmp_path: Path) -> None:
    world, path = World(tmp_path / "config"), tmp_path / "secret.env"
    world.append(world.create(), 4)
    write_credentials(path)
    with server(tmp_path) as port:
        command = [sys.executable, "-m", "unspool", "collect", "--follow", "--every", "0.1", "--flush-age", "0"]
        command += ["--to", f"s3://{BUCKET}/in", "--config-dir", str(world.root), "--env-file", str(path)]
        place = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", "UNSPOOL_ORG": "acme"}
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "USER": "ada", **place}
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith("1 segment, ")
            # The server does not know these: that it refuses them shows that they are used.
            write_credentials(path, AWS_ACCESS_KEY_ID="another", AWS_SECRET_ACCESS_KEY="another-secret")
            world.append(world.paths[0], 2)
            said = process.stderr.readline()
            assert said.startswith(f"unspool: unexpected response from the store at `s3://{BUCKET}/in`: 403 forbidden")
            write_credentials(path)
            assert process.stdout.readline().startswith("1 segment, 2 lines, ")
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
