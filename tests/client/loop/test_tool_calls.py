"""`client/loop/tool_calls.py`: what follows a call besides its result."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.client.talk import Allow, Echo, all_lines, fitted, of, opened, place, records, talk
from unspool.client import events
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.client.tools.registry import built_in_tools
from unspool.permissions import RuleDecision


class Doing(Echo):
    """Does something to the desk."""

    name = "Bash"
    is_concurrent = False

    def __init__(self, said: str = "done") -> None:
        super().__init__()
        self._said = said

    def check(self, input: dict[str, Any]) -> None:
        """Accept any input."""

    async def run(self, input: dict[str, Any], desk: ToolContext, call_id: str) -> ToolOutcome:
        for name, value in input.items():
            if name == "cwd":
                desk.cwd = desk.workspace.root / value
            elif name != "command":
                setattr(desk, name, value)
        return ToolOutcome(content=self._said, result={"stdout": self._said})


def does(**input: Any) -> list[Any]:
    return [{"content": [{"type": "tool_use", "name": "Bash", "input": input}]}, "Done."]


def test_a_todo_list_is_kept_and_told(tmp_path: Path) -> None:
    there = place(tmp_path)
    todos = [{"content": "Sow", "status": "pending", "activeForm": "Sowing"}]
    session, found = talk(there, does(todos=todos), "Go.", fittings=fitted([Doing()]))
    assert [event.todos for event in of(events.TodosChanged, found)] == [tuple(todos)]
    id = session.chat.session_id
    assert msgspec.json.decode((there.config / "todos" / f"{id}-agent-{id}.json").read_bytes()) == todos


def test_another_mode_is_told(tmp_path: Path) -> None:
    session, found = talk(place(tmp_path), [*does(mode="plan"), "Yes."], "Go.", "On.", fittings=fitted([Doing()]))
    assert [event.mode for event in of(events.ModeChanged, found)] == ["plan"]
    assert session.chat.mode == "plan"


def test_lines_say_where_the_shell_has_walked_to(tmp_path: Path) -> None:
    there = place(tmp_path)
    (there.work / "deep" / ".git").mkdir(parents=True)
    (there.work / "deep" / ".git" / "HEAD").write_text("ref: refs/heads/side\n")
    session, _ = talk(there, does(cwd="deep"), "Go.", fittings=fitted([Doing()]))
    root = str(there.work.resolve())
    places = [(line["cwd"], line["gitBranch"]) for line in all_lines(session.chat.path) if "uuid" in line]
    assert places == [(root, "")] * 3 + [(f"{root}/deep", "side")] * 2


@pytest.mark.parametrize(
    ("command", "said", "linked"),
    [("gh pr create --fill", "https://github.com/me/it/pull/7\n", True),
     ("git push && gh pr create", "Created https://git.example.com/me/it/pull/12", True),
     ("echo https://github.com/me/it/pull/7", "https://github.com/me/it/pull/7", False),
     ("gh pr create", "aborted", False)],
)  # fmt: skip
def test_a_pull_request_that_a_call_makes_is_noted(tmp_path: Path, command: str, said: str, linked: bool) -> None:
    session, _ = talk(place(tmp_path), does(command=command), "Go.", fittings=fitted([Doing(said)]))
    found = records(session.chat.path, "pr-link")
    assert bool(found) is linked
    if linked:
        assert found[0]["prRepository"] == "me/it"
        assert found[0]["prUrl"].endswith(f"/pull/{found[0]['prNumber']}")
        assert found[0]["sessionId"] == session.chat.session_id


class Watching:
    """A person who looks at what others are told of them."""

    def __init__(self, entry: Path) -> None:
        self._entry = entry
        self.seen: list[tuple[str, str]] = []

    def _look(self) -> None:
        told = msgspec.json.decode(next(self._entry.glob("*.json")).read_bytes())
        self.seen.append((told["status"], told.get("waitingFor", "")))

    async def ask_permission(self, wish: PermissionRequest, ruling: RuleDecision) -> PermissionAnswer:
        self._look()
        return PermissionAnswer(allowed=True)

    async def ask_questions(self, choices: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        self._look()
        return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        self._look()
        return PermissionAnswer(allowed=True)


def test_who_waits_for_a_person_says_so(tmp_path: Path) -> None:
    there = place(tmp_path)
    person = Watching(there.config / "sessions")

    async def go() -> None:
        session = await opened(there, does(), person=person, fittings=fitted([Doing()], Allow("ask")))
        await session.say("Go.")
        await session.chat.context.user.ask_questions(())
        await session.chat.context.user.approve_plan("a plan")
        await session.chat.close()

    asyncio.run(go())
    assert person.seen == [
        ("waiting", "permission prompt"), ("waiting", "input needed"), ("waiting", "permission prompt"),
    ]  # fmt: skip


class Refusing:
    """A person who counts what they are asked. No `NoUser`, which a chat does not ask at all."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask_permission(self, wish: PermissionRequest, ruling: RuleDecision) -> PermissionAnswer:
        self.asked.append(f"{wish.tool}({wish.target})")
        return PermissionAnswer(allowed=False)

    async def ask_questions(self, choices: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        return PermissionAnswer(allowed=False)


@pytest.mark.parametrize(
    ("tool", "input", "field"),
    [
        ("Read", {"file_path": 12}, "`file_path`"),
        ("Read", {}, "`file_path`"),
        ("Edit", {"file_path": "/etc/x", "old_string": "a", "new_string": []}, "`new_string`"),
        ("Write", {"file_path": "/etc/x", "content": None}, "`content`"),
        ("Bash", {"command": ["rm", "x"]}, "`command`"),
        ("Bash", {"command": "rm x", "tmieout": 5}, "`tmieout`"),
        ("WebFetch", {"url": {}, "prompt": "x"}, "`url`"),
    ],
)
def test_nobody_is_asked_about_a_call_that_cannot_be_made(
    tmp_path: Path, tool: str, input: dict[str, Any], field: str
) -> None:
    person = Refusing()
    script = [{"content": [{"type": "tool_use", "name": tool, "input": input}]}, "I see."]

    async def go() -> list[events.AnyEvent]:
        session = await opened(place(tmp_path), script, person=person, fittings=fitted(built_in_tools(), Allow("ask")))
        return await session.say("Go.")

    (ended,) = of(events.CallEnded, asyncio.run(go()))
    assert person.asked == []
    assert ended.is_error
    assert ended.denied is None
    assert "InputValidationError" in str(ended.content)
    assert field in str(ended.content)


@pytest.mark.parametrize(
    ("name", "asked"),
    [("work/a.txt", False), ("work/missing.txt", False), ("outside.txt", True), ("missing.txt", True)],
)
def test_an_edit_that_cannot_be_made_is_asked_about_only_where_its_failure_would_tell_something(
    tmp_path: Path, name: str, asked: bool
) -> None:
    there = place(tmp_path)
    for known in ("outside.txt", "work/a.txt"):
        (tmp_path / known).write_text("words\n")
    person = Refusing()
    input = {"file_path": str(tmp_path / name), "old_string": "no such words", "new_string": "x"}
    script = [{"content": [{"type": "tool_use", "name": "Edit", "input": input}]}, "I see."]

    async def go() -> list[events.AnyEvent]:
        permissions = PermissionPolicy(root=there.work.resolve())
        session = await opened(there, script, person=person, fittings=fitted(built_in_tools(), permissions))
        return await session.say("Go.")

    (ended,) = of(events.CallEnded, asyncio.run(go()))
    assert bool(person.asked) == asked
    # Of a file outside the model does not learn whether it is there.
    tells = "has not been read" in str(ended.content) or "does not exist" in str(ended.content)
    assert tells == (not asked)
