"""The policies in docs/policies allow what collectors, ingests and readers do at a real S3 server, and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.faults.s3 import BUCKET, CREDENTIALS, Proxy, SeenRequest, proxied, server
from tests.faults.world import World

POLICIES = Path(__file__).parents[2] / "docs" / "policies"
NAMES = {"BUCKET": BUCKET, "ORG": "acme", "DEVICE": "laptop"}


class Action(NamedTuple):
    """A request as a policy sees it."""

    name: str
    resource: str
    conditions: dict[str, str]


def as_action(request: SeenRequest) -> Action:
    """Return what a request asks for."""
    parts = urlsplit(request.path)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    resource = f"arn:aws:s3:::{bucket}" + (f"/{key}" if key else "")
    conditions = {"s3:if-none-match": "*"} if request.is_conditional else {}
    if request.method == "POST" and "delete" in query and not key:
        # Several objects at once, named in the body, which is not recorded: only old files of tables are deleted so.
        return Action("s3:DeleteObject", f"{resource}/lake/entries/old.parquet", {})
    if not key:
        assert (request.method, "list-type" in query) == ("GET", True), request
        return Action("s3:ListBucket", resource, {"s3:prefix": query.get("prefix", [""])[0]})
    names = {"PUT": "s3:PutObject", "GET": "s3:GetObject", "HEAD": "s3:GetObject", "DELETE": "s3:DeleteObject"}
    return Action("s3:PutObject" if request.method == "POST" else names[request.method], resource, conditions)


class Policy:
    """A policy of S3, as far as the files use the language."""

    def __init__(self, name: str) -> None:
        text = (POLICIES / name).read_text()
        for placeholder, value in NAMES.items():
            text = re.sub(rf"\b{placeholder}\b", value, text)
        self.statements: list[dict[str, Any]] = json.loads(text)["Statement"]
        self.used: set[tuple[str, str]] = set()

    def allows(self, action: Action) -> bool:
        """Return whether an action is allowed; remember what allowed it."""
        allowed = False
        for statement in self.statements:
            fitting = [one for one in statement["Resource"] if fnmatchcase(action.resource, one)]
            if action.name not in statement["Action"] or not fitting or not _holds(statement, action):
                continue
            if statement["Effect"] == "Deny":
                return False
            allowed = True
            self.used.update((action.name, one) for one in fitting)
        return allowed

    def grants(self) -> set[tuple[str, str]]:
        """Return every action with every resource that is allowed."""
        allowing = [statement for statement in self.statements if statement["Effect"] == "Allow"]
        return {(name, one) for statement in allowing for name in statement["Action"] for one in statement["Resource"]}


def _holds(statement: dict[str, Any], action: Action) -> bool:
    for operator, tests in statement.get("Condition", {}).items():
        for key, wanted in tests.items():
            value = action.conditions.get(key)
            match operator:
                case "StringLike":
                    if value is None or not any(fnmatchcase(value, one) for one in wanted):
                        return False
                case "Null":
                    if (value is None) != (wanted == "true"):
                        return False
                case _:
                    raise AssertionError(operator)
    return True


class Recorded(NamedTuple):
    """What each part of a team asked the server for."""

    device: list[Action]
    administrator: list[Action]
    ingester: list[Action]
    reader: list[Action]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Run a whole team at a real server, with a proxy that writes down what is asked for."""
    folder = tmp_path_factory.mktemp("policies")
    with server(folder) as port, proxied(port) as proxy:
        yield _record(_Team(folder, proxy), folder)


def _record(team: _Team, folder: Path) -> Recorded:
    world, token = World(folder / "config"), folder / "token"
    for count in (5, 4):
        world.append(world.create(), count)
    segments, lake = f"s3://{BUCKET}/in", f"s3://{BUCKET}/lake"
    admin, org, source = ("lake", "admin"), ("--lake", lake, "--org", "acme"), ("--from", segments)
    send, ingest = ("collect", "--to", segments, "--config-dir", world.root), ("lake", "ingest", *source, "--to", lake)
    team.run("owner", "lake", "init", lake)
    administrator = team.run("administrator", *admin, "init", *org)
    administrator += team.run(
        "administrator", *admin, "enrol", *org, "--user", "ada", "--device", "laptop", "-o", token
    )
    device = team.run("device", "collect", "enrol", "--token-file", token, "--to", segments)
    device += team.run("device", *send)
    administrator += team.run("administrator", *admin, "accept", *org, *source)
    administrator += team.run("administrator", "lake", "users", "--lake", lake, "--set", "acme/laptop=ada")
    ingester = team.run("ingester", *ingest)
    device += team.run("device", "collect", "rotate-key", "--to", segments)
    # A device that has lost what it knew asks for what it has sent.
    (folder / "device" / "collect.db").unlink()
    world.append(world.paths[0], 3)
    device += team.run("device", *send)
    ingester += team.run("ingester", *ingest)
    # It reads its rewritten segments, and what it must not send again.
    forget = ("lake", "forget", "--lake", lake, *source, "--session", world.paths[1].stem, "--yes")
    administrator += team.run("administrator", *forget)
    (folder / "device" / "collect.db").unlink()
    device += team.run("device", *send)
    ingester += team.run("ingester", *ingest)
    ingester += team.run("ingester", "lake", "verify", "--lake", lake, *source, "--full")
    reader = team.run("reader", "lake", "sql", "--lake", lake, "SELECT count(*) FROM entries")
    administrator += team.run("administrator", *admin, "revoke", "acme/laptop", "--lake", lake, *source)
    device += team.run("device", *send, code=5)
    administrator += team.run("administrator", *forget[:6], "--device", "acme/laptop", "--yes")
    return Recorded(device, administrator, ingester, reader)


class _Team:
    def __init__(self, folder: Path, proxy: Proxy) -> None:
        self._folder, self._proxy = folder, proxy

    def run(self, who: str, *words: str | Path, code: int = 0) -> list[Action]:
        """Run a command, and return what it asked for."""
        environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._proxy.server_port}"}
        environment |= {"HOME": str(self._folder), "PATH": os.environ["PATH"], "UNSPOOL_HOME": str(self._folder / who)}
        command = [sys.executable, "-m", "unspool", *map(str, words)]
        self._proxy.seen.clear()
        done = subprocess.run(command, env=environment, cwd=self._folder, capture_output=True, check=False, timeout=300)
        assert done.returncode == code, done.stderr.decode()
        return list(map(as_action, self._proxy.seen))


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.json")), ids=lambda path: path.name)
def test_every_policy_is_json_and_names_what_must_be_filled_in(path: Path) -> None:
    text = path.read_text()
    assert isinstance(json.loads(text), dict)
    assert "BUCKET" in text or path.name == "gcs-roles.json"
    assert ("DEVICE" in text) == ("device" in path.name)


@pytest.mark.parametrize("name", ["s3-device.json", "minio-device.json"])
def test_a_device_may_do_what_it_does_and_nothing_else(recorded: Recorded, name: str) -> None:
    policy = Policy(name)
    assert [action for action in recorded.device if not policy.allows(action)] == []
    # A grant that nothing needs would be too much.
    assert policy.grants() - policy.used == set()


def test_a_device_may_not_touch_anything_else() -> None:
    policy, root = Policy("s3-device.json"), f"arn:aws:s3:::{BUCKET}"
    conditional = {"s3:if-none-match": "*"}
    own = f"{root}/in/segments/acme/laptop/2026-01-01/000000000001-0000000000000000.jsonl.zst"
    assert policy.allows(Action("s3:PutObject", own, conditional))
    for action in (
        Action("s3:PutObject", own, {}),
        Action("s3:DeleteObject", own, {}),
        Action("s3:PutObject", own.replace("laptop", "desktop"), conditional),
        Action("s3:PutObject", own.replace("laptop", "laptop2"), conditional),
        Action("s3:GetObject", own.replace("laptop", "desktop"), {}),
        Action("s3:PutObject", f"{root}/in/enrolments/acme/laptop/000001.json", {}),
        Action("s3:PutObject", f"{root}/in/manifests/acme/laptop.json", conditional),
        Action("s3:PutObject", f"{root}/in/manifests/acme/desktop.heartbeat", {}),
        Action("s3:GetObject", f"{root}/lake/users.json", {}),
        Action("s3:PutObject", f"{root}/in/tombstones/acme/laptop/2026-01-01/x.json", conditional),
        Action("s3:GetObject", f"{root}/in/tombstones/acme/desktop/2026-01-01/x.json", {}),
        Action("s3:GetObject", f"{root}/in/tombstones/acme.json", {}),
        Action("s3:ListBucket", root, {"s3:prefix": "in/segments/acme/"}),
        Action("s3:ListBucket", root, {"s3:prefix": ""}),
        Action("s3:ListBucket", root, {}),
    ):
        assert not policy.allows(action), action


@pytest.mark.parametrize("who", ["administrator", "ingester", "reader"])
def test_others_may_do_what_they_do(recorded: Recorded, who: str) -> None:
    policy = Policy(f"s3-{who}.json")
    assert [action for action in getattr(recorded, who) if not policy.allows(action)] == []


def test_an_ingester_may_not_change_whom_the_lake_believes() -> None:
    policy, lake = Policy("s3-ingester.json"), f"arn:aws:s3:::{BUCKET}/lake"
    assert policy.allows(Action("s3:PutObject", f"{lake}/entries/x.parquet", {}))
    for name in ("administrators.json", "users.json", "devices/acme/laptop.json", "unspool-lake.json"):
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert not policy.allows(Action(action, f"{lake}/{name}", {})), name
    assert not policy.allows(Action("s3:PutObject", lake.replace("/lake", "/in/segments/acme/x"), {}))
