"""A session on a page: read at once or bit by bit, told as `Story` tells it."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unspool
from tests.page.made_up import made, steps, versions
from tests.page.scene import ID, built, viewed
from tests.profiles import examples
from tests.real_files import corpus
from unspool.errors import NotFound
from unspool.export import outline
from unspool.export.depth import Depth
from unspool.export.story import (
    AnswerStep,
    EventStep,
    PromptStep,
    SidechainStep,
    ThinkingStep,
    ToolCallStep,
    build_story,
)
from unspool.page import index
from unspool.page.detail import read_detail
from unspool.page.find import find_text
from unspool.page.rows import TranscriptRow, walk_rows
from unspool.page.sections import split_into_batches
from unspool.page.view import PageView
from unspool.testing.build import Step, assistant, image, queued, rewind, session, tool_result, tool_use, user

KINDS = {
    PromptStep: "prompt",
    AnswerStep: "answer",
    ThinkingStep: "thought",
    ToolCallStep: "call",
    SidechainStep: "inside",
}
CUTS = st.lists(st.integers(0, 20_000), max_size=4)


def opened(config: Path) -> PageView:
    return PageView.read(unspool.open(config).session(ID))


def state(view: PageView) -> bytes:
    """Return all that a page shows, to compare."""
    shown = [view.outline(), view.sections.read_turns(None, Depth.ALL), split_into_batches(view.index), view.chart()]
    return msgspec.json.encode(shown)


@settings(max_examples=examples(100))
@given(some=steps, version=versions, cuts=CUTS, chunk=st.sampled_from([3, 150]))
def test_in_however_many_goes_a_file_is_read_the_page_is_the_same(
    some: list[Step], version: str, cuts: list[int], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("c")
    built = made(some, version)
    path = built.save(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "CHUNK_STEPS", chunk)
        whole = opened(config)
        path.write_bytes(b"")
        view = opened(config)
        for cut in sorted(cuts):
            path.write_bytes(built.data[:cut])
            view.grow()
        path.write_bytes(built.data)
        view.grow()
        assert view.position == whole.position
        assert state(view) == state(whole)


@settings(max_examples=examples(100))
@given(some=steps, version=versions, cut=st.integers(0, 20_000))
def test_what_a_growth_tells_makes_the_old_page_the_new_one(
    some: list[Step], version: str, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("c")
    built = made(some, version)
    path = built.save(config)
    path.write_bytes(built.data[:cut])
    view = opened(config)
    before = {row.key: row for section in view.sections.read_turns(None, Depth.ALL) for row in section.rows}
    path.write_bytes(built.data)
    growth = view.grow()
    after = {row.key: row for section in view.sections.read_turns(None, Depth.ALL) for row in section.rows}
    if growth.restarted or not before:
        return
    told = {fresh.row.key: fresh.row for fresh in growth.rows}
    folded = {inner.key for row in told.values() for inner in walk_rows(row.rows)}
    kept = {key: row for key, row in before.items() if key not in folded}
    assert {**kept, **told} == after


@settings(max_examples=examples(100))
@given(some=steps, version=versions)
def test_a_page_tells_what_the_story_of_all_lines_tells(
    some: list[Step], version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("c")
    made(some, version).save(config)
    one = unspool.open(config).session(ID)
    view = PageView.read(one)
    story = build_story(one.entries)
    wanted = [_known(step) for section in outline.number_sections(one) for step in story.steps(section.entries)]
    wanted.sort(key=lambda pair: int(pair[1]))  # rows stand in the order of the file, an agent's lines by the first
    kinds = {"prompt", "answer", "thought", "call", "inside"}
    marks = {"compaction", "interrupt", "api-error", "command", "output", "notification", "summary", "result", "other"}
    rows = [row for section in view.sections.read_turns(None, Depth.ALL) for top in section.rows for row in _flat(top)]
    told = [(row.kind, row.key.partition(".")[0]) for row in rows if row.kind in kinds | marks]
    assert told == wanted


def _flat(row: TranscriptRow) -> tuple[TranscriptRow, ...]:
    return row.rows if row.kind == "fold" else (row,)


def _known(step: PromptStep | AnswerStep | ThinkingStep | ToolCallStep | EventStep | SidechainStep) -> tuple[str, str]:
    if isinstance(step, EventStep):
        return step.kind.name.lower().replace("_", "-"), str(step.entry.offset)
    return KINDS[type(step)], str(step.entry.offset)


@settings(max_examples=examples(100))
@given(some=steps, version=versions)
def test_branches_are_those_of_the_outline(
    some: list[Step], version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("c")
    made(some, version).save(config)
    one = unspool.open(config).session(ID)
    wanted = [(part.number, part.left, part.starts_branch) for part in outline.number_sections(one) if part.number]
    turns = PageView.read(one).outline().turns
    assert [(turn.number, turn.left, turn.starts_branch) for turn in turns if turn.number] == wanted


@settings(max_examples=examples(100))
@given(some=steps, version=versions)
def test_every_row_opens(some: list[Step], version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = tmp_path_factory.mktemp("c")
    made(some, version).save(config)
    view = opened(config)
    for section in view.sections.read_turns(None, Depth.ALL):
        for row in walk_rows(section.rows):
            if row.kind not in ("fold", "inside"):
                found = read_detail(view, row.key)
                assert (found.row.key, found.row.kind) == (row.key, row.kind)
                assert found.raw


def test_every_line_has_a_row_or_belongs_to_one(tmp_path: Path) -> None:
    view = built(tmp_path)
    told = {
        row.key.partition(".")[0]
        for section in view.sections.read_turns(None, Depth.ALL)
        for row in walk_rows(section.rows)
    }
    results = {str(call.result) for call in view.index.calls.values()}
    offsets = {str(item.offset) for item in view.lines.read_range(0, view.position)}
    assert offsets - told - results == set()


def test_blocks_cover_all_turns_and_stay_while_a_file_grows(tmp_path: Path) -> None:
    exchange = [user("go"), *[assistant(tool_use("Bash", command="ls")), tool_result("x")] * 200, assistant("done")]
    built = session(*exchange * 3, id=ID)
    path = built.save(tmp_path)
    path.write_bytes(built.data[: len(built.data) * 2 // 3])
    view = opened(tmp_path)
    before = split_into_batches(view.index)
    assert max(batch.steps for batch in before) <= 2 * index.CHUNK_STEPS
    path.write_bytes(built.data)
    view.grow()
    after = split_into_batches(view.index)
    assert [block.id for block in after[: len(before)]] == [block.id for block in before]
    assert before[:-1] == after[: len(before) - 1]
    told = [row.key for batch in after for section in view.sections.read_batch(batch) for row in section.rows]
    assert told == [row.key for section in view.sections.read_turns(None) for row in section.rows]
    assert len(split_into_batches(view.index)) == len(after) > 3


def test_a_file_that_was_rewritten_is_read_anew(tmp_path: Path) -> None:
    path = session(user("one"), assistant("two"), id=ID).save(tmp_path)
    view = opened(tmp_path)
    session(user("three"), id=ID).save(tmp_path)
    growth = view.grow()
    assert growth.restarted
    assert [turn.prompt for turn in view.outline().turns] == ["three"]
    assert path.stat().st_size == view.position


def test_a_torn_line_waits_for_its_end_and_a_whole_one_does_not(tmp_path: Path) -> None:
    made = session(user("one"), assistant("two"), id=ID)
    path = made.save(tmp_path)
    path.write_bytes(made.data[:-20])
    view = opened(tmp_path)
    assert [row.kind for section in view.sections.read_turns(None) for row in section.rows] == ["prompt"]
    path.write_bytes(made.data[:-1])
    assert [fresh.row.kind for fresh in view.grow().rows] == ["answer"]
    path.write_bytes(made.data)
    assert not view.grow().rows


def test_a_result_that_comes_later_changes_the_row_of_its_call(tmp_path: Path) -> None:
    lines = [user("go"), assistant(tool_use("Bash", id="x", command="ls")), user("meanwhile"), tool_result("y", id="x")]
    made = session(*lines, id=ID)
    path = made.save(tmp_path)
    path.write_bytes(b"".join(made.lines[:3]))
    view = opened(tmp_path)
    path.write_bytes(made.data)
    growth = view.grow()
    assert [(fresh.section.number, fresh.row.state) for fresh in growth.rows] == [(1, "done")]


def test_a_queued_prompt_that_is_said_again_is_no_turn(tmp_path: Path) -> None:
    made = session(user("one"), queued("two", taken=False), user("two"), id=ID)
    path = made.save(tmp_path)
    path.write_bytes(b"".join(made.lines[:2]))
    view = opened(tmp_path)
    assert [turn.prompt for turn in view.outline().turns] == ["one", "two"]
    path.write_bytes(made.data)
    assert view.grow().restarted
    assert [(turn.prompt, turn.queued) for turn in view.outline().turns] == [("one", False), ("two", False)]


def test_a_picture_is_found_by_what_it_is(tmp_path: Path) -> None:
    view = built(tmp_path)
    (digest,) = {
        picture.digest for section in view.sections.read_turns(None) for row in section.rows for picture in row.pictures
    }
    again = opened(tmp_path)  # nothing was looked at yet
    blob = again.image(digest)
    assert blob is not None
    assert blob.mime == "image/png"
    assert blob.data.startswith(b"\x89PNG")
    assert again.image("0" * 64) is None
    assert again.image("../../etc/passwd") is None


@pytest.mark.parametrize("data", ["PHN2Zz48L3N2Zz4=", "!!!", "", "R0lG", "/9j/"])
def test_what_is_no_picture_is_not_given_out(tmp_path: Path, data: str) -> None:
    view = viewed(tmp_path, user("look", image(data, "image/svg+xml")))
    rows = [row for section in view.sections.read_turns(None) for row in section.rows]
    shown = [picture.mime for row in rows for picture in row.pictures]
    assert set(shown) <= {"image/jpeg"}
    assert "image" in rows[0].outcome or shown


def test_a_webp_has_its_size_as_every_other_picture(tmp_path: Path) -> None:
    webp = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (299).to_bytes(3, "little") + (199).to_bytes(3, "little")
    view = viewed(tmp_path, user("look", image(b64encode(webp).decode(), "image/webp")))
    (picture,) = (picture for row in view.sections.read_turns(None)[0].rows for picture in row.pictures)
    assert (picture.mime, picture.width, picture.height) == ("image/webp", 300, 200)


@pytest.mark.parametrize("key", ["", "x", "1", "1.x", "-1.0", "1.0/..", "9" * 30 + ".0", "../1.0", "nobody/1.0", "².0"])
def test_what_is_no_step_is_not_found(tmp_path: Path, key: str) -> None:
    view = viewed(tmp_path, user("hi"))
    with pytest.raises(NotFound):
        read_detail(view, key)


@pytest.mark.parametrize("offset", [1, 7, 10**15])
def test_a_place_where_no_line_begins_is_an_error_or_what_is_there(tmp_path: Path, offset: int) -> None:
    view = viewed(tmp_path, user("hi"))
    try:
        assert read_detail(view, f"{offset}.0").raw
    except NotFound:
        assert offset > view.position


def test_agents_have_pages_of_their_own_at_any_depth(tmp_path: Path) -> None:
    view = built(tmp_path)
    inner = view.open_agent("a1")
    keys = [row.key for section in inner.sections.read_turns(None) for row in section.rows]
    assert all(key.startswith("a1/") for key in keys)
    call = next(row for section in inner.sections.read_turns(None) for row in section.rows if row.kind == "call")
    assert call.agent == "a3"
    assert read_detail(view, call.key).agent == "a3"
    assert [row.kind for section in view.open_agent("a3").sections.read_turns(None) for row in section.rows] == [
        "prompt",
        "answer",
    ]
    with pytest.raises(NotFound):
        view.open_agent("../a1")


def test_words_are_found_in_what_is_said_done_and_given_back(tmp_path: Path) -> None:
    view = built(tmp_path)
    assert [match.kind for match in find_text(view, "the BUG")] == ["prompt"]
    keys = {match.key for match in find_text(view, "failed")}
    bash = next(row.key for section in view.sections.read_turns(None) for row in section.rows if row.name == "Bash")
    assert bash in keys
    assert find_text(view, "  ") == []
    assert find_text(view, "no such words anywhere") == []


def test_the_same_call_and_the_changes_of_a_file_are_linked(tmp_path: Path) -> None:
    def change(number: int) -> list[Step]:
        given = {"file_path": "/a", "old_string": str(number), "new_string": "x"}
        return [assistant(tool_use("Edit", id=f"e{number}", **given)), tool_result("ok", id=f"e{number}")]

    bash = [assistant(tool_use("Bash", command="ls")), tool_result("x")]
    view = viewed(tmp_path, user("go"), *change(1), *bash, *change(2), *bash, rewind(1), user("again"), *change(3))
    rows = [row for section in view.sections.read_turns(None) for row in section.rows if row.kind == "call"]
    edits = [row.key for row in rows if row.name == "Edit"]
    shells = [row.key for row in rows if row.name == "Bash"]
    middle = read_detail(view, edits[1])
    assert (middle.previous, middle.next) == (edits[0], edits[2])
    assert read_detail(view, edits[0]).previous is None
    assert read_detail(view, shells[0]).same == (shells[1],)


def test_damaged_real_files_never_crash_a_page() -> None:
    for path in sorted(corpus().rglob("*.jsonl"))[::4]:
        for one in unspool.open(path).sessions():
            view = PageView.read(one)
            sections = view.sections.read_turns(None, Depth.ALL)
            wanted = [(part.number, part.left) for part in outline.number_sections(one) if part.number]
            assert [(turn.number, turn.left) for turn in view.outline().turns if turn.number] == wanted
            assert len(view.to_dict(range(2))["turns"]) == len(view.outline().turns)
            keys = [
                row.key for section in sections for row in walk_rows(section.rows) if row.kind not in ("fold", "inside")
            ]
            for key in keys[:: max(1, len(keys) // 20)]:
                assert read_detail(view, key).raw


@settings(max_examples=examples(100))
@given(some=steps, version=versions, cut=st.integers(0, 20_000))
def test_what_was_kept_goes_on_as_if_it_had_never_been_away(
    some: list[Step], version: str, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    config = tmp_path_factory.mktemp("c")
    built = made(some, version)
    path = built.save(config)
    path.write_bytes(built.data[:cut])
    kept = opened(config).pack()
    path.write_bytes(built.data)
    view = PageView.read(unspool.open(config).session(ID), kept)
    assert state(view) == state(opened(config))
    assert not view.grow().rows


@pytest.mark.parametrize("kept", [b"", b"x", b"\x91\xa6page 0", b"\xc1", b"\x90"])
def test_what_cannot_be_read_back_is_read_anew(tmp_path: Path, kept: bytes) -> None:
    session(user("one"), id=ID).save(tmp_path)
    view = PageView.read(unspool.open(tmp_path).session(ID), kept)
    assert [turn.prompt for turn in view.outline().turns] == ["one"]


def test_what_was_kept_of_another_file_is_read_anew(tmp_path: Path) -> None:
    session(user("one"), assistant("two"), id=ID).save(tmp_path)
    kept = opened(tmp_path).pack()
    session(user("three"), id=ID).save(tmp_path)
    view = PageView.read(unspool.open(tmp_path).session(ID), kept)
    assert [turn.prompt for turn in view.outline().turns] == ["three"]


def test_an_agent_that_was_started_since_is_found(tmp_path: Path) -> None:
    view = built(tmp_path)
    folder = view.source.path.with_suffix("") / "subagents"
    assert len(view.session.agent_sources) == 3
    (folder / "agent-late.jsonl").write_bytes(session(user("go"), assistant("ok"), agent="late", id=ID).data)
    (folder / "agent-link.jsonl").symlink_to(folder / "agent-late.jsonl")
    assert [row.kind for section in view.open_agent("late").sections.read_turns(None) for row in section.rows] == [
        "prompt",
        "answer",
    ]
    for name in ("link", "../agent-late", "la\0te", "x" * 100):
        with pytest.raises(NotFound):
            view.open_agent(name)


def test_a_file_that_is_replaced_after_it_was_indexed_is_shown_as_it_is(tmp_path: Path) -> None:
    steps = [user("go"), assistant(tool_use("Bash", id="toolu_a", command="ls")), tool_result("x", id="toolu_a")]
    view = viewed(tmp_path, *steps, assistant("Done."))
    path = view.source.path
    path.write_bytes(path.read_bytes().replace(b"toolu_a", b"toolu_b"))
    for batch in split_into_batches(view.index):
        rows = [row for section in view.sections.read_batch(batch, Depth.ALL) for row in walk_rows(section.rows)]
        assert "Bash" in [row.name for row in rows]
        for row in rows:
            assert read_detail(view, row.key).key == row.key
