"""Search: a word wherever a word can be is found, said to be what it is, and found once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.planted import (
    KEY,
    NEW_AGENT,
    OLD_AGENT,
    PLANTED,
    S1,
    S2,
    S3,
    asked,
    at,
    line,
    main_session,
    plant,
    result,
    said,
    text,
    use,
    write,
)
from unspool.read.source_tree import scan
from unspool.store.archive.archive import Archive
from unspool.store.database import locked, open_archive, open_store
from unspool.store.search.corpus import Corpus
from unspool.store.search.index import find_unindexed, update_index
from unspool.store.search.request import SearchFilters
from unspool.store.search.results import SearchHit
from unspool.store.search.search import search_corpora
from unspool.store.search.terms import RegexQuery, parse_words
from unspool.store.sync.sync import SyncOptions, sync_folder

PLACES = ("session", "agent", "project", "turn", "role", "kind", "tool", "file", "offset", "uuid", "snippet")


class Searched:
    """A folder, and a store that knows it."""

    def __init__(self, root: Path, own: Path) -> None:
        self.root, self.own = root, own
        self.database = open_store(own)

    def archive(self) -> Archive:
        return Archive(open_archive(self.own))

    def sync(self, *, indexing: bool = True) -> None:
        with closing(open_archive(self.own)) as kept, locked(self.own):
            sync_folder(self.database, Archive(kept), self.root, SyncOptions(workers=1))
            if indexing:
                update_index(self.database, lambda: Archive(kept), find_unindexed(self.database, self.root))

    @property
    def kept(self) -> Corpus:
        return Corpus(self.root, self.database, self.archive)

    @property
    def files(self) -> Corpus:
        return Corpus(self.root, None, None, scan(self.root))


def find(
    corpus: Corpus, what: str, *, limit: int | None = None, indexed: bool = False, **filters: Any
) -> list[SearchHit]:
    """Search for words, or for `/a pattern/`."""
    is_pattern = what.startswith("/") and what.endswith("/")
    wanted = RegexQuery(what[1:-1]) if is_pattern else parse_words(what)
    assert wanted is not None
    return search_corpora([corpus], wanted, SearchFilters(**filters), limit=limit, indexed_only=indexed)


def told(hits: list[SearchHit]) -> list[dict[str, Any]]:
    return [{name: value for name, value in hit._asdict().items() if name in PLACES} for hit in hits]


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Searched]:
    """Return a folder with nothing in it."""
    found = Searched(tmp_path / "config", tmp_path / "own")
    found.root.mkdir()
    yield found
    found.database.close()


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searched]:
    """Return a folder with a word in every place where one can be, which no test changes."""
    place = tmp_path_factory.mktemp("planted")
    found = Searched(place / "config", place / "own")
    plant(found.root)
    found.sync()
    yield found
    found.database.close()


@pytest.fixture
def world(empty: Searched) -> Searched:
    """Return the same, for a test that changes it."""
    plant(empty.root)
    empty.sync()
    return empty


def session_file(world: Searched, id: str) -> Path:
    return world.root / "projects" / KEY / f"{id}.jsonl"


def by_kind(corpus: Corpus, form: str = "{}") -> dict[str, list[str]]:
    return {word: [hit.kind for hit in find(corpus, form.format(word))] for word in PLANTED}


EACH_ONCE = {word: [kind] for word, kind in PLANTED.items()}


@pytest.mark.parametrize("form", ["{}", "/{}/"], ids=["words", "pattern"])
def test_a_word_in_every_place_is_found_once_with_its_kind(planted: Searched, form: str) -> None:
    hits = {word: find(planted.kept, form.format(word)) for word in PLANTED}
    assert {word: [hit.kind for hit in found] for word, found in hits.items()} == EACH_ONCE
    assert by_kind(planted.files, form) == EACH_ONCE
    assert all(f"«{word}»" in found[0].snippet for word, found in hits.items())


def test_without_an_index_the_same_is_found_in_the_same_places(planted: Searched, tmp_path: Path) -> None:
    other = Searched(planted.root, tmp_path / "other")
    other.sync(indexing=False)
    with closing(other.database):
        for word in PLANTED:
            hits = told(find(planted.kept, word))
            assert told(find(other.kept, word)) == hits
            assert told(find(planted.files, word)) == hits


@pytest.mark.parametrize("form", ["{}", "/{}/"], ids=["words", "pattern"])
def test_what_is_gone_is_found_in_the_archive(world: Searched, form: str) -> None:
    before = {word: told(find(world.kept, form.format(word))) for word in PLANTED}
    shutil.rmtree(world.root / "projects")
    (world.root / "history.jsonl").unlink()
    world.sync()
    assert {word: told(find(world.kept, form.format(word))) for word in PLANTED} == before


def test_what_is_gone_is_found_if_it_was_never_indexed(empty: Searched) -> None:
    plant(empty.root)
    empty.sync(indexing=False)
    shutil.rmtree(empty.root / "projects")
    empty.sync(indexing=False)
    assert by_kind(empty.kept) == EACH_ONCE
    empty.sync()
    assert by_kind(empty.kept) == EACH_ONCE


def test_a_hit_says_where_it_is(planted: Searched) -> None:
    (hit,) = find(planted.kept, "wordresult")
    assert hit == SearchHit(
        session=S1,
        agent=None,
        project="shop",
        turn=1,
        role="user",
        kind="tool_result",
        tool="Bash",
        timestamp=at(3),
        snippet="out «wordresult»",
        file=str(session_file(planted, S1)),
        offset=hit.offset,
        uuid="00000000-0000-4000-8000-000000000030",
        score=hit.score,
    )
    assert b"wordresult" in session_file(planted, S1).read_bytes()[hit.offset :].partition(b"\n")[0]


@pytest.mark.parametrize("place", ["kept", "files"])
def test_agents_turns_and_tools_are_told(planted: Searched, place: str) -> None:
    def hit(word: str) -> tuple[Any, ...]:
        (found,) = find(getattr(planted, place), word)
        return found.session, found.agent, found.turn, found.tool

    assert hit("wordsubagent") == (S1, NEW_AGENT, 2, None)
    assert hit("wordoldagent") == (S2, OLD_AGENT, 1, None)
    assert hit("wordmiddle") == (S1, None, 2, "Bash")
    assert hit("wordparts") == (S1, None, 1, "Read")
    assert hit("wordstderr") == (S1, None, 1, "Bash")
    assert hit("wordoverflow") == (S1, None, 6, "WebFetch")
    assert hit("wordmcp") == (S1, None, 6, "mcp__db__query")
    assert hit("wordhistory")[:2] == hit("wordtodo")[:2] == (S1, None)
    assert hit("wordplan")[0] is None


IDENTIFIERS = {
    "getUserName": ["getUserName", "getusername", "user", "Name", "get*", "getUser*"],
    "max_retry_count": ["max_retry_count", "retry", "retry_count", "MAX", '"retry count"'],
    "src/pages/index.test.tsx": ["src/pages/index.test.tsx", "index.test.tsx", "pages/index", "tsx"],
    "ERR_MODULE_NOT_FOUND": ["ERR_MODULE_NOT_FOUND", "module_not_found", "module"],
    "TS2345": ["TS2345", "ts2345", "2345"],
    "HTTPServerError": ["HTTPServerError", "http", "server", "error", "ServerError"],
    "größe": ["größe", "GRÖßE", "grö*"],
    "数据库连接": ["数据库连接", "数据库", "连接"],
}


@pytest.mark.parametrize("kind", ["prompt", "tool_input", "tool_result"])
def test_identifiers_are_found_whole_and_by_part(empty: Searched, kind: str) -> None:
    every = " and ".join(IDENTIFIERS)
    lines = {
        "prompt": asked(0, every),
        "tool_input": said(0, use("toolu_1", "Write", content=every)),
        "tool_result": result(0, "toolu_1", every),
    }
    write(session_file(empty, S1), [lines[kind]])
    empty.sync()
    for ways in IDENTIFIERS.values():
        for way in ways:
            for corpus in (empty.kept, empty.files):
                assert [hit.kind for hit in find(corpus, way)] == [kind], way
            assert [hit.kind for hit in find(empty.kept, way, limit=1)] == [kind], way
    assert find(empty.kept, "etUser") == find(empty.files, "etUser") == []


def test_words_phrases_and_beginnings(empty: Searched) -> None:
    write(session_file(empty, S1), [asked(0, "red green blue"), asked(1, "green and red")])
    empty.sync()
    counts = {"red green": 2, '"red green"': 1, '"green red"': 0, "gre*": 2, "gre": 0, "blue red": 1, "yellow red": 0,
              '"green bl"*': 1, "RED": 2, "red red": 2}  # fmt: skip
    for corpus in (empty.kept, empty.files):
        assert {what: len(find(corpus, what)) for what in counts} == counts


def test_filters(planted: Searched) -> None:
    def wanted(**filters: Any) -> set[str]:
        found = find(planted.kept, "/word[a-z]+/", **filters)
        assert told(found) == told(find(planted.files, "/word[a-z]+/", **filters))
        return {word for hit in found for word in PLANTED if f"«{word}»" in hit.snippet}

    assert wanted(kinds=frozenset({"tool_input"})) == {"wordinput", "wordnested"}
    assert wanted(kinds=frozenset({"thinking", "queued"})) == {"wordthinking", "wordqueued", "wordattached"}
    assert wanted(tool="read") == {"wordparts"}
    assert wanted(tool="Bash") >= {"wordinput", "wordresult", "wordstderr", "wordhead"}
    assert wanted(tool="WebFetch") == {"wordoverflow"}
    assert wanted(target="*.py") == wanted(target="src/*") == wanted(target="/home/me/*") == {"wordparts"}
    assert wanted(target="*.rs") == wanted(project="elsewhere") == set()
    assert wanted(errors=True) == {"wordresult", "wordstderr"}
    assert wanted(session=S2) == {"wordoldagent"}
    assert wanted(since=1767604740000, until=1767604740001) == {"wordsecond"}
    answers = {"wordanswer", "wordsecond", "wordsubagent", "wordoldagent"}
    assert wanted(project="SHOP", kinds=frozenset({"answer"})) == answers


def test_the_index_takes_the_same_filters(planted: Searched) -> None:
    def found(word: str, **filters: Any) -> bool:
        return bool(find(planted.kept, word, indexed=True, **filters))

    assert found("wordresult", tool="bash", errors=True, session=S1, project="SHOP", kinds=frozenset({"tool_result"}))
    assert found("wordparts", target="*.py", since=1767603900000, until=1767603900001)
    for wrong in (
        {"kinds": frozenset({"answer"})}, {"tool": "Read"}, {"session": S2}, {"project": "x"}, {"target": "*.py"},
        {"until": 1}, {"since": 1867603900000},
    ):  # fmt: skip
        assert not found("wordresult", **wrong)
    assert not found("wordanswer", errors=True)
    assert not found("wordmiddle")


def test_several_folders_are_searched_at_once(empty: Searched, tmp_path: Path) -> None:
    corpora = []
    for name in ("a", "b"):
        root = tmp_path / name
        lines = [asked(0, "in both", sessionId=S3), asked(0, f"only in {name}", sessionId=S3)]
        write(root / "projects" / KEY / f"{S3}.jsonl", lines)
        with closing(open_archive(empty.own)) as kept, locked(empty.own):
            sync_folder(empty.database, Archive(kept), root, SyncOptions(workers=1))
            update_index(empty.database, lambda kept=kept: Archive(kept), find_unindexed(empty.database, root))  # type: ignore[misc]
        corpora.append(Corpus(root, empty.database, empty.archive))
    both = parse_words("both")
    assert both is not None
    assert [Path(hit.file).parts[-4] for hit in search_corpora(corpora, both)] == ["a"]  # one line: one hit
    assert [hit.snippet for hit in find(corpora[1], "only b")] == ["«only» in «b»"]
    assert find(corpora[0], "only b") == []


def test_a_line_that_a_fork_repeats_is_one_hit_where_it_came_from(world: Searched) -> None:
    write(session_file(world, S3), main_session())
    world.sync()
    for corpus in (world.kept, world.files):
        (hit,) = find(corpus, "wordanswer")
        assert (hit.session, Path(hit.file).name) == (S1, f"{S1}.jsonl")
        (hit,) = find(corpus, "wordanswer", session=S3)
        assert hit.session == S3


def test_what_progress_repeats_of_an_agent_is_no_hit_of_its_own(world: Searched) -> None:
    message = {"type": "assistant", "message": {"content": [text("found the wordsubagent and wordlost")]}}
    with session_file(world, S1).open("a") as file:
        for agent in (NEW_AGENT, "agone"):
            told = line("progress", 30, data={"type": "agent_progress", "agentId": agent, "message": message})
            file.write(json.dumps(told) + "\n")
    world.sync()
    assert [hit.kind for hit in find(world.kept, "wordsubagent")] == ["answer", "structured"]
    assert [hit.kind for hit in find(world.kept, "wordlost")] == ["structured"]


def test_one_more_line_is_found_before_and_after_it_is_indexed(world: Searched) -> None:
    with session_file(world, S1).open("a") as file:
        file.write(json.dumps(said(40, text("wordanswer again, wordmore"))) + "\n")
    world.sync(indexing=False)
    before = told(find(world.kept, "wordmore"))
    assert [hit["turn"] for hit in before] == [6]
    assert find(world.kept, "wordmore", limit=1) != []
    world.sync()
    assert told(find(world.kept, "wordmore")) == told(find(world.kept, "wordmore", indexed=True)) == before
    assert len(find(world.kept, "wordanswer")) == 2


def test_a_file_written_anew_is_searched_as_it_is_and_as_it_was(world: Searched) -> None:
    session_file(world, S2).write_text(json.dumps(asked(1, "something else entirely", sessionId=S2, more=9)) + "\n")
    world.sync()
    assert [hit.snippet for hit in find(world.kept, "entirely")] == ["something else «entirely»"]
    assert [hit.snippet for hit in find(world.kept, "second", session=S2)] == ["the «second»"]
    assert [hit.snippet for hit in find(world.kept, "/second/", session=S2)] == ["the «second»"]


def test_a_very_long_line_is_looked_through(empty: Searched) -> None:
    session_file(empty, S3).parent.mkdir(parents=True)
    with session_file(empty, S3).open("w") as file:
        file.write('{"type":"user","message":{"role":"user","content":"')
        for number in range(70):
            file.write("filler  " * 131_072 + (" wordverylong " if number == 40 else ""))
        file.write('"}}\n')
    empty.sync()
    for corpus in (empty.kept, empty.files):
        assert [(hit.kind, hit.session) for hit in find(corpus, "wordverylong")] == [("structured", S3)]


def test_the_best_come_first_and_what_must_be_looked_through_last(empty: Searched) -> None:
    lines = [asked(n, f"zebra {'and other words ' * n}", more=1) for n in range(10)]
    structured = result(20, "toolu_1", "nothing", toolUseResult={"stderr": "zebra zebra zebra"})
    write(session_file(empty, S1), [structured, *lines, {"type": "custom-title", "customTitle": "The zebra"}])
    empty.sync()
    hits = find(empty.kept, "zebra")
    assert [hits[0].kind, hits[-1].kind, len(hits)] == ["title", "structured", 12]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[-2] >= 1 > scores[-1]
    assert told(find(empty.kept, "zebra", limit=5)) == told(hits[:5])


def test_more_hits_than_are_ranked_are_all_there(empty: Searched) -> None:
    lines = [asked(n % 60, f"okapi number{n}", uuid=f"{n:08}-0000-4000-8000-000000000000") for n in range(2100)]
    write(session_file(empty, S1), lines)
    empty.sync()
    hits = find(empty.kept, "okapi")
    assert len({hit.uuid for hit in hits}) == len(hits) == 2100
    assert len(find(empty.kept, "okapi", limit=30)) == 30
    assert len({hit.uuid for hit in find(empty.kept, "okapi", limit=2080)}) == 2080
    assert len(find(empty.kept, "okapi", limit=5000)) == 2100


def test_copies_do_not_use_up_what_is_asked_for(empty: Searched) -> None:
    for digit in range(9):
        lines = [asked(n, f"the same okapi {n}") for n in range(4)]
        write(session_file(empty, f"{digit}{S1[1:]}"), lines)
    write(session_file(empty, S2), [asked(20, f"another {'and longer ' * 20} okapi", sessionId=S2)])
    empty.sync()
    assert len(find(empty.kept, "okapi", limit=5)) == len(find(empty.kept, "okapi")) == 5


def test_bytes_that_are_no_text_are_found_by_a_pattern_only(empty: Searched) -> None:
    session_file(empty, S1).parent.mkdir(parents=True)
    session_file(empty, S1).write_bytes(
        json.dumps(asked(0, 'say "hello" to gnu')).encode() + b"\n" + b'{"type":"user","cwd":"/okapi","broken\xff'
    )
    empty.sync()
    for corpus in (empty.kept, empty.files):
        assert [hit.kind for hit in find(corpus, r'/\\"hello/')] == ["prompt"]
        assert [hit.kind for hit in find(corpus, "/4000-8000/")] == ["structured"]
        assert [hit.kind for hit in find(corpus, "/(?i)OKAPI/")] == ["structured"]


def test_after_the_archive_was_off_a_deleted_session_is_still_known(empty: Searched) -> None:
    write(session_file(empty, S1), [asked(0, "a lonely quagga")])
    with closing(open_archive(empty.own)) as kept, locked(empty.own):
        sync_folder(empty.database, Archive(kept), empty.root, SyncOptions(workers=1, archive=False))
        update_index(empty.database, lambda: Archive(kept), find_unindexed(empty.database, empty.root))
    session_file(empty, S1).unlink()
    with closing(open_archive(empty.own)) as kept, locked(empty.own):
        sync_folder(empty.database, Archive(kept), empty.root, SyncOptions(workers=1, archive=False))
    (hit,) = find(empty.kept, "quagga")
    assert (hit.session, hit.kind, hit.snippet, hit.turn) == (S1, "prompt", "", 1)
