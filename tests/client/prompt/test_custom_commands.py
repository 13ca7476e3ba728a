"""Custom commands become prompts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from unspool.client.prompt.custom_commands import CustomCommand, expand_command, load_custom_commands


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def expand(body: str, arguments: str = "") -> tuple[str, list[str]]:
    """Return the prompt and the commands that were asked to run."""
    asked: list[str] = []

    async def run(command: str) -> str:
        asked.append(command)
        return f"<{command}>"

    async def read(name: str) -> str | None:
        return f"text of {name}" if name.endswith(".md") else None

    return asyncio.run(expand_command(CustomCommand("x", "user", Path("x.md"), body), arguments, run, read)), asked


@pytest.mark.parametrize(
    ("body", "arguments", "prompt"),
    [
        ("Do it.", "", "Do it."),
        ("Do it.", "now", "Do it.\n\nARGUMENTS: now"),
        ("Fix $ARGUMENTS!", " issue 5 ", "Fix issue 5!"),
        ("$0 then $1, not $2.", "a 'b c'", "a then b c, not $2."),
        ("$ARGUMENTS[1] after $ARGUMENTS[0], not $ARGUMENTS[2]", "a b", "b after a, not $ARGUMENTS[2]"),
        ("$1", "one", "$1\n\nARGUMENTS: one"),
        (r"\$0 is $0, $0x and $PATH are not", "a", "$0 is a, $0x and $PATH are not"),
        ("$0", '"say \\"x\\"" y', 'say \\"x\\"'),
        ("$ARGUMENTS", "$0 $ARGUMENTS", "$0 $ARGUMENTS"),
        ("See @notes.md and @gone.txt", "", "See @notes.md and @gone.txt\n\nContents of notes.md:\n\ntext of notes.md"),
        ("costs $10", "", "costs $10"),
    ],
)
def test_a_command_stands_for_its_prompt(body: str, arguments: str, prompt: str) -> None:
    assert expand(body, arguments) == (prompt, [])


def test_arguments_may_have_names() -> None:
    command = CustomCommand(
        "x", "user", Path("x.md"), "From $source to $target, not $targets.", arguments=("source", "target")
    )

    async def refuse(_: str) -> str:
        raise AssertionError

    assert asyncio.run(expand_command(command, "a b", refuse, refuse)) == "From a to b, not $targets."


def test_commands_inside_run_through_whoever_is_asked() -> None:
    assert expand("Status: !`git status` and !`git log $0`.", "-5") == (
        "Status: <git status> and <git log -5>.",
        ["git status", "git log -5"],
    )


def test_arguments_are_words_and_run_nothing() -> None:
    prompt, asked = expand("Say $ARGUMENTS", "!`touch x` @notes.md")
    assert prompt == "Say !`touch x` @notes.md"
    assert asked == []


def test_commands_are_found_with_what_they_say_of_themselves(tmp_path: Path) -> None:
    matter = (
        "---\ndescription: Look at it\nallowed-tools: Bash(git log:*), Read\nmodel: haiku\nargument-hint: [file]\n---\n"
    )
    put(tmp_path / "config/commands/review.md", f"{matter}Review $1.")
    put(tmp_path / "config/commands/list.md", "---\nallowed-tools:\n  - Read\n  - Bash(ls, x:*)\n---\n# Title\nbody")
    put(tmp_path / "root/.claude/commands/db/up.md", "Up.")
    found = load_custom_commands(tmp_path / "config", tmp_path / "root", trusted=True)
    review = found.by_name["review"]
    assert (review.description, review.allowed, review.model) == ("Look at it", ("Bash(git log:*)", "Read"), "haiku")
    assert (review.hint, review.body, review.source) == ("[file]", "Review $1.", "user")
    assert found.by_name["list"].allowed == ("Read", "Bash(ls, x:*)")
    assert found.by_name["list"].description == "Title"
    assert found.by_name["db:up"] == found.by_name["up"]
    assert found.problems == ()


def test_a_projects_commands_wait_for_trust_and_then_go_before_the_users(tmp_path: Path) -> None:
    put(tmp_path / "config/commands/x.md", "mine")
    put(tmp_path / "root/.claude/commands/x.md", "theirs")
    for trusted, body in ((False, "mine"), (True, "theirs")):
        assert load_custom_commands(tmp_path / "config", tmp_path / "root", trusted=trusted).by_name["x"].body == body


def test_what_cannot_be_read_is_said_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "root/.claude/commands"
    put(tmp_path / "secret", "secret")
    put(folder / "good.md", "good")
    put(folder / "bad name.md", "bad")
    (folder / "binary.md").write_bytes(b"\xff")
    (folder / "link.md").symlink_to(tmp_path / "secret")
    (folder / "folder.md").mkdir()
    found = load_custom_commands(tmp_path / "config", tmp_path / "root", trusted=True)
    assert list(found.by_name) == ["good"]
    assert len(found.problems) == 4
