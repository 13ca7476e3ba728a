import os
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from bench import corpus, mix, usage
from bench.corpus import Made, Parameters
from bench.families import FAMILIES
from bench.store import Synced
from unspool.format.codec import decode
from unspool.format.records import Entry
from unspool.read.source_tree import Kind, scan

SMALL = Parameters(size=1_000_000)


@pytest.fixture(scope="module")
def made() -> list[Made]:
    return list(corpus.files(SMALL))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.tree(SMALL, tmp_path_factory.mktemp("bench"))


def test_the_same_parameters_give_the_same_bytes(made: list[Made]) -> None:
    assert list(corpus.files(SMALL)) == made
    assert list(corpus.files(Parameters(size=SMALL.size, seed=2))) != made


def test_a_tree_is_made_once(tree: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    assert corpus.tree(SMALL, tree.parent) == tree
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


def test_every_line_is_a_record_without_a_flaw(made: list[Made]) -> None:
    lines = [line for file in made if file.name.startswith("projects/") for line in file.data.splitlines(True)]
    items = [item for line in lines if line.startswith(b'{"') for item in decode(line)]
    assert all(isinstance(item, Entry) and not item.flaws for item in items)


def test_the_scan_knows_every_file(tree: Path) -> None:
    found = scan(tree)
    kinds = Counter(source.kind for source in found.sources)
    assert kinds[Kind.HISTORY] == 1
    assert kinds[Kind.SESSION] > 0
    assert kinds[Kind.AGENT] > 0
    assert found.skipped == ()
    assert {source.path for source in found.sources} == {path for path in tree.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("family", "inside"), [("2.0", False), ("2.1", True)])
def test_agents_lie_where_their_version_puts_them(family: str, inside: bool) -> None:
    files = corpus.files(Parameters(size=600_000, shares=((family, 1.0),)))
    agents = [Path(file.name) for file in files if "/agent-" in file.name]
    assert agents
    assert all((path.parent.name == "subagents") is inside for path in agents)


def test_the_mix_is_that_of_real_files(tree: Path) -> None:
    measured = mix.measure(tree)
    lines = len(measured.sizes)
    assert 500 < measured.percentile(0.5) < 2500
    assert 3000 < measured.percentile(0.9) < 20_000
    assert 0.3 < measured.types["assistant"] / lines < 0.6
    assert 0.2 < measured.types["user"] / lines < 0.4
    assert 0.2 < measured.parts["toolUseResult"] / measured.bytes < 0.6
    assert 0.03 < measured.wide / lines < 0.4


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_names_its_type_after_its_message_and_a_prompt_before(family: str) -> None:
    files = corpus.files(Parameters(size=200_000, shares=((family, 1.0),)))
    lines = [line for file in files if file.name.startswith("projects/") for line in file.data.splitlines()]
    answers = [line for line in lines if b'"requestId":' in line]
    prompts = [line for line in lines if b'"role":"user"' in line and b'"data":' not in line]
    assert answers
    assert all(line.index(b'"message":{') < line.index(b'"type":"assistant"') for line in answers)
    assert prompts
    assert all(line.index(b'"type":"user"') < line.index(b'"message":{') for line in prompts)


def test_types_belong_to_their_family() -> None:
    seen = {name: types(Parameters(size=400_000, shares=((name, 1.0),))) for name in FAMILIES}
    assert "progress" in seen["2.1"]
    assert not {"progress", "attachment"} & seen["2.0"]
    assert {"attachment", "last-prompt"} <= seen["2.1.160"]
    assert "progress" not in seen["2.1.160"]


def test_there_are_as_many_sessions_as_asked_for_and_they_are_alike() -> None:
    files = corpus.files(Parameters(size=1_200_000, sessions=40))
    sizes = [len(file.data) for file in files if file.name.startswith("projects/")]
    assert len(sizes) == 40
    assert 1_100_000 < sum(sizes) < 1_300_000
    assert max(sizes) < 3 * 30_000


def test_trees_of_different_names_are_kept_beside_each_other(tree: Path) -> None:
    stamp = (tree.parent / "tree.json").read_bytes()
    other = corpus.tree(Parameters(size=30_000, sessions=2), tree.parent, "two")
    assert len(list(other.glob("projects/*/*.jsonl"))) == 2
    assert (tree.parent / "tree.json").read_bytes() == stamp


SPIN = "import time\nwhile time.process_time() < 0.3: pass"


def test_what_a_command_took_is_that_of_all_its_processes() -> None:
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
    took = usage.spent([sys.executable, "-c", starts], os.environ)
    assert 0.3 <= took.cpu < 3
    assert took.wall >= 0.3


def test_the_memory_of_a_command_is_not_that_of_who_measures_it() -> None:
    held = bytearray(os.urandom(1)) * 200_000_000
    small = usage.spent([sys.executable, "-c", "pass"], os.environ).memory
    large = usage.spent([sys.executable, "-c", "b'x' * 60_000_000"], os.environ).memory
    assert small < 60_000_000 < large < len(held)


def test_a_command_that_fails_is_not_measured() -> None:
    with pytest.raises(SystemExit, match="ended with 7"):
        usage.spent([sys.executable, "-c", "raise SystemExit(7)"], os.environ)


def test_a_command_sees_neither_the_home_nor_the_store_of_who_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNSPOOL_HOME", "/nowhere/store")
    monkeypatch.setenv("XDG_DATA_HOME", "/nowhere/data")
    monkeypatch.setenv("HOME", "/nowhere")
    seen = usage.around(tmp_path / "tree", tmp_path / "data", tmp_path)
    assert [name for name, value in seen.items() if "/nowhere" in value] == []
    assert seen["UNSPOOL_HOME"] == str(tmp_path / "data")


def test_a_line_more_is_one_response_more(tree: Path, tmp_path: Path) -> None:
    session = next(path for path in sorted(tree.rglob("*.jsonl")) if b'"requestId":' in path.read_bytes())
    data, environment = session.read_bytes(), usage.around(tree, tmp_path / "data", tmp_path)
    said = tmp_path / "said.json"
    with usage.unchanged(session):
        counts = []
        for number in range(3):
            usage.spent(usage.unspool(*usage.USAGE), environment, said)
            counts.append(msgspec.json.decode(said.read_bytes())["totals"]["responses"])
            with session.open("ab") as file:
                file.write(usage.one_more(session.read_bytes(), number))
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]
    assert session.read_bytes() == data


def test_both_tools_are_understood(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    counts = {"input_tokens": 1, "output_tokens": 2, "cache_write_tokens": 3, "cache_read_tokens": 4}
    ours.write_bytes(msgspec.json.encode({"totals": {**counts, "cost_micros": 2_500_000}}))
    counts = {"inputTokens": 1, "outputTokens": 2, "cacheCreationTokens": 3, "cacheReadTokens": 4}
    theirs.write_bytes(msgspec.json.encode({"totals": {**counts, "totalCost": 2.5}}))
    assert usage.our_totals(ours) == usage.their_totals(theirs) == (1, 2, 3, 4, 2.5)
    assert usage.our_totals(ours).tokens == 10


def test_without_npm_the_other_tool_is_left_out_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usage.ccusage(tmp_path) == (None, "there is no npm to install it")


def test_an_install_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no such  package >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert usage.ccusage(tmp_path) == (None, "npm could not install it: no such package")


def test_an_archive_that_is_off_takes_no_room(tree: Path, tmp_path: Path) -> None:
    alone, whole = Synced(archive=False), Synced(archive=True)
    for side in (alone, whole):
        side.measure(tree, tmp_path)
    assert alone.archive_size < whole.archive_size
    assert 0 < whole.store_size < 1_000_000
    assert not list(tmp_path.glob("data-*"))


def types(parameters: Parameters) -> set[str]:
    lines = (line for file in corpus.files(parameters) for line in file.data.splitlines())
    entries = (item for line in lines if b'"type"' in line for item in decode(line) if isinstance(item, Entry))
    return {str(type(entry.record).__struct_config__.tag) for entry in entries}
