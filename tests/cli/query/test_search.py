"""`unspool search`, as people run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Ran, Run
from tests.planted import KEY, PLANTED, S1, asked, plant
from unspool.testing.build import session, user


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a config folder with a word in every place where one can be."""
    plant(tmp_path / "config")
    return tmp_path / "config"


def test_the_json_has_all_hits(run: Run, config: Path) -> None:
    ran = run("search", "word*", "--config-dir", config, "--json")
    hits = json.loads(ran.out)["items"]
    assert {hit["kind"] for hit in hits} == set(PLANTED.values())
    assert set(hits[0]) == {
        "session_id", "session", "agent_id", "agent", "project", "turn", "role", "kind", "tool", "time", "timestamp",
        "snippet", "path", "file", "offset", "uuid", "score", "command",
    }  # fmt: skip
    assert ran.err == ""
    again = run("search", "word*", "--config-dir", config, "--json", "--no-store")
    assert len(json.loads(again.out)["items"]) == len(hits)


def test_the_numbers_of_turns_are_those_that_show_takes(run: Run, config: Path) -> None:
    for word in ("wordblocks", "wordattached", "wordqueued", "wordsecond"):
        (hit,) = json.loads(run("search", word, "--config-dir", config, "--json").out)["items"]
        shown = run("show", S1, "--turn", str(hit["turn"]), "--depth", "all", "--config-dir", config)
        assert word in shown.out


def test_the_command_of_a_hit_shows_it(run: Run, config: Path) -> None:
    lines = run("search", "wordmiddle", "--config-dir", config).out.splitlines()
    (command,) = [line for line in lines if line.startswith("    unspool --config-dir")]
    assert run(*command.split()[1:]).code == 0


def test_filters_are_understood(run: Run, config: Path) -> None:
    options = ("--in", "result", "--tool", "Bash", "--project", "shop", "--session", S1[:6], "--errors", "--since",
               "2026-01-05", "--until", "2026-01-05")  # fmt: skip
    ran = run("search", "wordresult", *options, "--config-dir", config, "--json", TZ="UTC")
    assert [hit["kind"] for hit in json.loads(ran.out)["items"]] == ["tool_result"]
    assert run("search", "wordparts", "--path", "*.py", "--config-dir", config).code == 0
    assert run("search", "wordresult", *options[:-1], "2026-01-04", "--config-dir", config, TZ="UTC").code == 1


def test_several_folders_are_searched(run: Run, config: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "a.jsonl"
    other.parent.mkdir()
    other.write_text(json.dumps(asked(0, "wordother")) + "\n")
    ran = run("search", "word*", "--config-dir", config, "--config-dir", other.parent, "--json")
    assert len({hit["file"] for hit in json.loads(ran.out)["items"] if str(other.parent) in hit["file"]}) == 1
    assert run("search", "wordother", "--config-dir", other).code == 0


def test_a_first_search_of_a_large_folder_answers_from_the_files(run: Run, config: Path, tmp_path: Path) -> None:
    path = config / "projects" / KEY / "large.jsonl"
    with path.open("w") as file:
        for number in range(20_000):
            file.write(json.dumps(asked(0, "filler " * 150 + f"number{number}", more=number)) + "\n")
    assert path.stat().st_size > 16 * 1024 * 1024
    ran = run("search", "number19999", "--config-dir", config, "--json", UNSPOOL_HOME=str(tmp_path / "own"))
    assert [hit["kind"] for hit in json.loads(ran.out)["items"]] == ["prompt"]
    assert run("sync", "--config-dir", config, UNSPOOL_HOME=str(tmp_path / "own")).code == 0
    again = run("search", "number19999", "--config-dir", config, "--indexed", UNSPOOL_HOME=str(tmp_path / "own"))
    assert again.code == 0


def test_for_people(run: Run, config: Path, tmp_path: Path) -> None:
    ran = run("search", "wordmiddle", "--config-dir", config)
    told = ran.out.replace(str(tmp_path), "TMP")
    assert told.splitlines()[:1] + told.splitlines()[2:] == snapshot(
        [
            "11111111 · turn 2 · tool result of Bash · shop · 2026-01-05 09:08",
            "    TMP/config/projects/-home-me-shop/11111111-1111-4111-8111-111111111111.jsonl:3602",
            "    unspool --config-dir TMP/config show 11111111-1111-4111-8111-111111111111 --turn 2 --depth all",
            "",
        ]
    )
    assert ran.err == ""


def test_nothing_found_and_nothing_to_look_for(run: Run, config: Path) -> None:
    def told(*arguments: str) -> Ran:
        return run("search", *arguments, "--config-dir", config)

    assert told("never-ever") == snapshot(
        Ran(
            code=1,
            out="",
            err="""\
unspool: no matches
hint: use `word*` for the start of a word, or `--regex` for any text
""",
        )
    )
    assert told("--json", "never-ever") == snapshot(
        Ran(
            code=1,
            out="""\
{
  "schema": "unspool/search/1",
  "items": [],
  "skipped": []
}
""",
            err="""\
unspool: no matches
hint: use `word*` for the start of a word, or `--regex` for any text
""",
        )
    )
    assert told() == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: nothing to search for
hint: give some words, or search for punctuation with `--regex PATTERN`
""",
        )
    )
    assert told("&&") == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: no word to search for in `&&`
hint: give some words, or search for punctuation with `--regex PATTERN`
""",
        )
    )
    assert told("--regex", "(") == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: invalid pattern `(`: missing ): (
hint: use re2 syntax: no look-around, no back-references
""",
        )
    )
    assert told("--regex", "a", "b") == snapshot(
        Ran(
            code=2,
            out="",
            err="""\
unspool: --regex cannot be combined with words or --indexed
hint: put everything into the pattern
""",
        )
    )
    wrong = told("a", "--in", "everything")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "unspool: unknown kind `everything`")
    code, out, err = told("a", "--session", "99")
    assert (code, out) == (3, "")
    assert err.startswith("unspool: no session matches `99`\nhint: list sessions with `unspool --config-dir ")


def test_escapes_in_a_transcript_do_not_reach_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    path = tmp_path / "c" / "projects" / KEY / f"{S1}.jsonl"
    path.parent.mkdir(parents=True)
    bad = "\x1b]0;title\x07 bell \x9b31m red \u202e wordbad"
    path.write_bytes(session(user(bad), id=S1).data + json.dumps(asked(2, bad, cwd=bad)).encode() + b"\n")
    sent = on_terminal("search", "wordbad", "--config-dir", tmp_path / "c", COLUMNS="100")
    assert b"wordbad" in sent
    assert b"\x1b]0" not in sent
    assert "\u202e".encode() not in sent
    assert b"\x9b" not in sent.replace("«".encode(), b"").replace("…".encode(), b"")
