from collections import Counter
from pathlib import Path

import pytest

from bench import corpus, mix
from bench.corpus import Made, Parameters
from bench.families import FAMILIES
from unspool.format.codec import decode
from unspool.format.entry import Entry
from unspool.read.scan import Kind, scan

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


def types(parameters: Parameters) -> set[str]:
    lines = (line for file in corpus.files(parameters) for line in file.data.splitlines())
    entries = (item for line in lines if b'"type"' in line for item in decode(line) if isinstance(item, Entry))
    return {str(type(entry.record).__struct_config__.tag) for entry in entries}
