"""`client/chat.py`: sessions that are begun, gone on with, forked, rewound and renamed."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import unspool
from tests.client.talk import (
    MODEL,
    Place,
    Session,
    all_lines,
    converse,
    ending,
    manuscript,
    of,
    opened,
    place,
    records,
    sound,
    talk,
)
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.config import SessionStart
from unspool.edit.rules import check
from unspool.errors import NotFound, Refused, UsageError
from unspool.export.file_versions import find_versions, read_version
from unspool.graph.context.pairing import INTERRUPTED_CALL
from unspool.paths import project_key
from unspool.testing.build import assistant, session, text, thinking, tool_result, tool_use, user


def put(path: str, text: str) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": "Put", "input": {"path": path, "text": text}}]}


def test_a_session_lies_where_the_program_looks_for_it_and_is_its_owner_s_alone(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, _ = talk(there, ["Hello."], "Hi.")
    path = session.chat.path
    assert path.parent.parent == there.config / "projects"
    assert path.parent.name == project_key(str(there.work.resolve()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_every_line_has_the_program_s_envelope(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / ".git").mkdir()
    (there.work / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    session, _ = talk(there, ["Hello."], "Hi.")
    for line in all_lines(session.chat.path):
        if "uuid" in line:
            assert line["sessionId"] == session.chat.session_id
            assert (line["version"], line["userType"], line["isSidechain"]) == ("2.1.29", "external", False)
            assert (line["cwd"], line["gitBranch"]) == (str(there.work.resolve()), "feature/x")
            assert len(line["slug"].split("-")) == 3
    (prompt,) = records(session.chat.path, "user")
    assert prompt["permissionMode"] == "default"


def test_a_new_session_has_no_file_before_its_first_prompt(tmp_path: Path) -> None:
    session, _ = converse(place(tmp_path), ["Hello."], lambda chat: chat.local_command("cost", "", "nothing"))
    assert not session.chat.path.exists()


def test_a_session_is_read_whole_by_the_library(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, _ = talk(there, [put("a.txt", "one"), "Done.", "Yes."], "Write.", "Well?")
    read = unspool.open(there.config).session(session.chat.session_id)
    assert [turn.text for turn in read.turns] == ["Write.", "Well?"]
    assert [(call.use.name, call.result is not None) for call in read.tool_calls] == [("Put", True)]
    assert read.bad_lines == ()


def test_going_on_sends_what_was_said(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, [put("a.txt", "one"), "Done."], "Write.")
    start = SessionStart(resume=first.chat.path)
    script = [{"content": "Still here.", "expect": {"anywhere": ["Write.", "Done.", "a.txt"], "text": "Well?"}}]
    second, found = talk(there, script, "Well?", start=start)
    assert ending(found) == "end_turn"
    assert second.chat.session_id == first.chat.session_id
    sent = str(second.model.requests[0]["messages"][:-1]).replace(", 'cache_control': {'type': 'ephemeral'}", "")
    assert sent == str(first.chat.transcript.conversation.messages)


def test_a_new_session_does_not_take_an_id_that_is_there(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["Hello."], "Hi.")
    with pytest.raises(Refused, match="already exists"):
        talk(there, [], start=SessionStart(session_id=first.chat.session_id))


def written(there: Place, *story: Any) -> Path:
    """Write a session as the program would have, and return its file."""
    id = "3f2a0000-0000-4000-8000-000000000001"
    path = there.config / "projects" / project_key(str(there.work.resolve())) / f"{id}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(session(*story, id=id, cwd=str(there.work)).data)
    return path


def test_a_call_that_a_crash_left_open_is_answered_before_the_next_prompt(tmp_path: Path) -> None:
    there = place(tmp_path)
    path = written(there, user("Go."), assistant(text("I run."), tool_use("Echo"), model=MODEL))
    script = [{"content": "I see.", "expect": {"anywhere": "Tool call interrupted"}}]
    talk(there, script, "Well?", start=SessionStart(resume=path))
    results = [line for line in records(path, "user") if "sourceToolAssistantUUID" in line]
    assert [line["message"]["content"][0]["content"] for line in results] == [INTERRUPTED_CALL]


def test_a_prompt_that_was_never_answered_is_followed_by_the_program_s_own_words(tmp_path: Path) -> None:
    there = place(tmp_path)
    path = written(there, user("Go."))
    resumed, _ = talk(there, ["I see."], "Well?", start=SessionStart(resume=path))
    assert [message["role"] for message in resumed.model.requests[0]["messages"]] == ["user", "assistant", "user"]
    assert "No response requested." in path.read_text()


def test_a_torn_last_line_is_left_alone_and_nothing_is_added_to_it(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["Hello."], "Hi.")
    with first.chat.path.open("ab") as file:
        file.write(b'{"type":"assistant","mess')
    before = first.chat.path.read_bytes()
    model, _ = converse(there, ["Still here."], "Well?", start=SessionStart(resume=first.chat.path))
    after = first.chat.path.read_bytes()
    assert after.startswith(before + b"\n{")
    assert model.model.failures == []


def test_times_grow_also_if_the_clock_goes_back(tmp_path: Path) -> None:
    there = place(tmp_path)
    path = written(there, user("Go.", timestamp="2099-01-01T00:00:00.000Z"), assistant("Yes.", model=MODEL))
    lines = all_lines(path)
    lines[-1]["timestamp"] = "2099-01-01T00:00:00.001Z"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    talk(there, ["I see."], "Well?", start=SessionStart(resume=path))


def test_another_branch_can_be_gone_on_with(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["One.", "Two.", "Three."], "First.", "Second.", "Third.")
    points = first.chat.points()
    script = [{"content": "Other.", "expect": {"anywhere": "Second.", "absent": "Third."}}]
    second, _ = talk(there, script, "Instead.", start=SessionStart(resume=first.chat.path, leaf=points[2].parent))
    assert [(branch.text, branch.is_active) for branch in second.chat.tree()] == [("Third.", False), ("Instead.", True)]


def test_a_line_that_is_not_there_is_not_gone_on_from(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["One."], "First.")
    with pytest.raises(NotFound, match="no line in"):
        talk(there, [], start=SessionStart(resume=first.chat.path, leaf="nowhere"))


def test_a_session_in_use_is_refused(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["One.", "Two."], "First.")
    entry = there.config / "sessions" / f"{os.getppid()}.json"
    entry.parent.mkdir(exist_ok=True)
    entry.write_bytes(msgspec.json.encode({"pid": os.getppid(), "sessionId": first.chat.session_id}))
    with pytest.raises(Refused, match="is running this session"):
        talk(there, [], start=SessionStart(resume=first.chat.path))
    talk(there, ["Yes."], "Well?", start=SessionStart(resume=first.chat.path, force=True))


def test_who_works_with_a_session_says_so(tmp_path: Path) -> None:
    there = place(tmp_path)
    entry = there.config / "sessions" / f"{os.getpid()}.json"
    seen: list[str] = []

    def look(*_: object) -> None:
        seen.append(msgspec.json.decode(entry.read_bytes())["status"])

    talk(there, ["Hello."], "Hi.", look, at=look)
    assert {*seen[:-1]} == {"busy"}
    assert seen[-1] == "idle"
    assert not entry.exists()


def test_a_fork_is_a_copy_that_goes_on_by_itself(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, [put("a.txt", "one"), "Done."], "Write.")
    before = first.chat.path.read_bytes()
    script = [{"content": "Copied.", "expect": {"anywhere": ["Write.", "Done."]}}]
    second, _ = talk(there, script, "Well?", start=SessionStart(resume=first.chat.path, fork=True))
    assert second.chat.session_id != first.chat.session_id
    assert first.chat.path.read_bytes() == before


def go_back(to: int) -> Callable[[Chat], object]:
    """Return what takes the conversation back to before a prompt."""
    return lambda chat: chat.rewind(chat.points()[to].uuid, conversation=True, files=False)


def test_going_back_leaves_a_branch_and_sends_nothing_of_it(tmp_path: Path) -> None:
    there = place(tmp_path)
    script = ["One.", "Two.", {"content": "Other.", "expect": {"anywhere": "First.", "absent": ["Second.", "Two."]}}]

    session, _ = talk(there, script, "First.", "Second.", go_back(1), sound, "Instead.")
    assert [point.text for point in session.chat.points()] == ["First.", "Instead."]


def test_going_back_to_the_beginning_leaves_nothing_to_send(tmp_path: Path) -> None:
    script = ["One.", {"content": "Other.", "expect": {"absent": ["First.", "One."]}}]
    talk(place(tmp_path), script, "First.", go_back(0), "Instead.")


def test_files_go_back_to_what_they_were_before_a_prompt(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "old.txt").write_text("as it was")
    script = [put("old.txt", "changed"), "Done.", put("new.txt", "new"), put("old.txt", "again"), "Done."]

    def restore(chat: Chat) -> None:
        points = chat.points()
        assert [point.files for point in points] == [("new.txt", "old.txt"), ("new.txt", "old.txt")]
        assert chat.rewind(points[1].uuid, conversation=False, files=True) == ["new.txt", "old.txt"]
        assert (there.work / "old.txt").read_text() == "changed"
        assert not (there.work / "new.txt").exists()
        assert chat.rewind(points[0].uuid, conversation=False, files=True) == ["old.txt"]
        assert (there.work / "old.txt").read_text() == "as it was"

    talk(there, script, "First.", "Second.", restore)


def test_files_go_back_also_after_the_session_was_left(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "a.txt").write_text("as it was")
    first, _ = talk(there, [put("a.txt", "one"), "Done."], "First.")
    second, _ = talk(there, [put("a.txt", "two"), "Done."], "Second.", start=SessionStart(resume=first.chat.path))
    points = second.chat.points()
    assert second.chat.rewind(points[1].uuid, conversation=False, files=True) == ["a.txt"]
    assert (there.work / "a.txt").read_text() == "one"
    assert second.chat.rewind(points[0].uuid, conversation=False, files=True) == ["a.txt"]
    assert (there.work / "a.txt").read_text() == "as it was"


def test_backups_are_named_and_told_as_the_program_does(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "a.txt").write_text("as it was")
    session, _ = talk(there, [put("a.txt", "one"), "Done.", "Yes."], "First.", "Second.")
    snapshots = records(session.chat.path, "file-history-snapshot")
    assert [(line["isSnapshotUpdate"], [*line["snapshot"]["trackedFileBackups"]]) for line in snapshots] == [
        (False, []), (True, ["a.txt"]), (False, ["a.txt"]),
    ]  # fmt: skip
    assert [line["snapshot"]["trackedFileBackups"].get("a.txt", {}).get("version") for line in snapshots] == [
        None,
        1,
        2,
    ]
    read = unspool.open(there.config).session(session.chat.session_id)
    (found,) = find_versions(read).values()
    assert [read_version(read, version) for version in found] == [b"as it was", b"one"]


def test_a_snapshot_is_told_before_the_next_request(tmp_path: Path) -> None:
    session, _ = talk(place(tmp_path), [put("a.txt", "one"), "Done."], "First.")
    kinds = [(line["type"], line.get("isSnapshotUpdate")) for line in all_lines(session.chat.path)]
    assert kinds.index(("file-history-snapshot", True)) < max(
        at for at, kind in enumerate(kinds) if kind[0] == "assistant"
    )


def test_another_model_is_not_sent_what_the_first_one_thought(tmp_path: Path) -> None:
    there = place(tmp_path)
    script = [
        {"content": [{"type": "thinking", "thinking": "Secretly."}, "One."]},
        {"content": "Two.", "expect": {"absent": "Secretly.", "anywhere": "One."}},
    ]

    session, _ = converse(there, script, "First.", lambda chat: chat.set_model("claude-sonnet-4-5"), "Second.")
    assert session.model.failures == []
    assert session.model.requests[1]["model"] == "claude-sonnet-4-5"
    assert check.check_rules(manuscript(session.chat.path)) == []


def test_a_title_is_found_by_the_library(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, _ = talk(there, ["One."], "First.", lambda chat: chat.rename("The first one"))
    assert unspool.open(there.config).session("The first one").id == session.chat.session_id
    again, _ = talk(there, ["Two."], "Second.", start=SessionStart(resume=session.chat.path))
    assert again.chat.title == "The first one"


def test_titles_stay_where_lists_of_sessions_look(tmp_path: Path) -> None:
    long = {"content": [{"type": "tool_use", "name": "Echo", "input": {"text": "x" * 20_000}}]}
    talk(place(tmp_path), ["One.", *[long] * 12, "Done."], "First.", "Second.")


def test_prompts_that_were_typed_are_remembered(tmp_path: Path) -> None:
    there = place(tmp_path)
    session, _ = talk(there, ["One."], "First.", interactive=True)
    (line,) = all_lines(there.config / "history.jsonl")
    assert (line["display"], line["sessionId"]) == ("First.", session.chat.session_id)
    assert line["project"] == str(there.work.resolve())


def test_a_command_s_expansion_follows_its_line(tmp_path: Path) -> None:
    raw = "<command-message>greet</command-message>\n<command-name>/greet</command-name>"

    async def go() -> Session:
        session = await opened(place(tmp_path), [{"content": "Hello.", "expect": {"anywhere": "Greet the world"}}])
        await session.chat.turn(raw, lambda event: None, [{"type": "text", "text": "Greet the world"}])
        await session.chat.close()
        return session

    session = asyncio.run(go())
    sound(session.chat)
    assert session.model.failures == []
    first, second = records(session.chat.path, "user")
    assert "permissionMode" not in first
    assert (second["isMeta"], second["parentUuid"]) == (True, first["uuid"])


def test_local_commands_are_written_as_the_program_does(tmp_path: Path) -> None:
    session, _ = talk(
        place(tmp_path), ["One.", "Two."], "First.", lambda chat: chat.local_command("cost", "", "$0.00"), "Second."
    )
    said = [line["content"] for line in records(session.chat.path, "system") if line["subtype"] == "local_command"]
    assert said[0].startswith("<command-name>/cost</command-name>")
    assert said[1] == "<local-command-stdout>$0.00</local-command-stdout>"


def test_a_folder_that_cannot_be_written_ends_the_turn_with_words(tmp_path: Path) -> None:
    there = place(tmp_path)
    there.config.mkdir()
    (there.config / "projects").write_text("in the way")
    _, found = converse(there, ["Hello."], "Hi.")
    (failed,) = of(events.TurnFailed, found)
    assert failed.exit_code == 4
    assert ending(found) == "failed"


def test_thinking_of_a_session_is_sent_to_the_model_that_thought_it(tmp_path: Path) -> None:
    there = place(tmp_path)
    story = [user("Go."), assistant(thinking("Hm."), text("Yes."), model=MODEL)]
    path = written(there, *story)
    same, _ = talk(there, ["I see."], "Well?", start=SessionStart(resume=path))
    assert "Hm." in str(same.model.requests[0])


def test_a_file_does_not_say_what_is_allowed(tmp_path: Path) -> None:
    there = place(tmp_path)
    path = written(there, user("Go.", permissionMode="bypassPermissions"), assistant("Yes.", model=MODEL))
    session, _ = talk(there, ["I see."], "Well?", start=SessionStart(resume=path))
    assert session.chat.mode == "default"


def test_plan_mode_and_todos_are_as_they_were_left(tmp_path: Path) -> None:
    there = place(tmp_path)
    todos = [{"content": "Sow", "status": "pending", "activeForm": "Sowing"}]
    call = tool_use("TodoWrite", id="toolu_1", todos=todos)
    done = tool_result("Noted.", id="toolu_1", structured={"oldTodos": [], "newTodos": todos})
    path = written(there, user("Go.", permissionMode="plan"), assistant(call, model=MODEL), done)
    session, _ = talk(there, ["I see."], "Well?", start=SessionStart(resume=path))
    assert (session.chat.mode, session.chat.todos) == ("plan", todos)


def test_two_turns_at_once_are_refused(tmp_path: Path) -> None:
    async def go() -> None:
        session = await opened(place(tmp_path), ["One.", "Two."])
        began = asyncio.Event()
        first = asyncio.ensure_future(session.say("First.", lambda event, chat: began.set()))
        await began.wait()
        with pytest.raises(UsageError, match="a turn is running"):
            await session.say("Second.")
        first.cancel()
        await asyncio.wait([first])
        await session.say("Third.")
        await session.chat.close()

    asyncio.run(go())


def test_a_branch_that_is_gone_on_with_stays_the_one_if_the_turn_is_cut_off(tmp_path: Path) -> None:
    there = place(tmp_path)
    first, _ = talk(there, ["One.", "Two."], "First.", "Second.")
    leaf = first.chat.points()[1].parent

    async def go() -> None:
        session = await opened(there, ["Other."], SessionStart(resume=first.chat.path, leaf=leaf))
        written: list[bytes] = []

        def at(event: Any) -> bool:
            written.append(first.chat.path.read_bytes())
            return True

        await session.stop_listening("Instead.", at)
        await session.chat.close()
        first.chat.path.write_bytes(written[0])

    asyncio.run(go())
    script = [{"content": "Yes.", "expect": {"anywhere": "Instead.", "absent": "Second."}}]
    talk(there, script, "Well?", start=SessionStart(resume=first.chat.path))


def test_what_is_no_text_is_written_as_near_as_can_be(tmp_path: Path) -> None:
    work = tmp_path / "w\udcff"
    work.mkdir()
    session, _ = talk(Place(tmp_path / "config", work), ["One."], "half \ud83d a character")
    assert session.model.requests[0]["messages"][0]["content"][0]["text"] == "half \ufffd a character"


def test_nothing_is_not_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        talk(place(tmp_path), [], " ")


def test_folders_are_their_owner_s_alone(tmp_path: Path) -> None:
    there = Place(tmp_path / "a" / "config", place(tmp_path).work)
    session, _ = talk(there, [put("a.txt", "one"), "Done."], "Go.")
    for folder in (session.chat.path.parent, *session.chat.path.parents[1:4], there.config / "sessions"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
