"""Sessions that were given to `--resume` of Claude Code 2.1.290 and 2.1.325, and what they sent of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.graph.context.test_build import NEW, OLD, sent
from unspool.format.json_edit import JsonPath, patch
from unspool.graph.context.build import NO_RESPONSE, build_context
from unspool.testing.build import (
    DOT,
    Step,
    assistant,
    attachment,
    compaction,
    raw,
    session,
    system,
    tool_result,
    tool_use,
    user,
)

CALLED = 'Called the Read tool with the following input: {"file_path":"/dot.png"}'
ERROR = assistant("API Error: 500", model="<synthetic>", isApiErrorMessage=True)
HOOK = attachment("hook_additional_context", hookName="SessionStart:compact", content=["said"])


def picture() -> Step:
    file = {"base64": DOT, "type": "image/png", "originalSize": 70}
    return attachment("file", filename="/dot.png", content={"type": "image", "file": file})


def reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"


def call_sent(name: str, **given: Any) -> dict[str, Any]:
    made = session(user("go"), assistant(tool_use(name, id="t", **given)), tool_result("r", id="t"), assistant("b"))
    (block,) = build_context(made.entries)[1].blocks
    return block.value


def test_after_an_api_error_nobody_waits_for_an_answer() -> None:
    story = [user("go"), assistant(tool_use("Read", id="t")), tool_result("r", id="t")]
    assert sent(*story)[-1] == ("assistant", [NO_RESPONSE])
    assert sent(*story, ERROR)[-1] == ("user", [{"t": "r"}])


def test_a_summary_with_what_was_attached_to_it_waits_for_no_answer() -> None:
    story = [user("go"), assistant("b", model=OLD), compaction("Summary.")]
    assert sent(*story)[-1] == ("assistant", [NO_RESPONSE])
    assert [role for role, _ in sent(*story, HOOK)][-1] != "assistant"


def test_what_a_local_command_only_showed_is_not_sent() -> None:
    shown = system("local_command", content="<local-command-stdout>$1</local-command-stdout>", isDisplayOnly=True)
    told = system("local_command", content="<local-command-stdout>$2</local-command-stdout>", isDisplayOnly=False)
    assert "$1" not in str(sent(user("a"), assistant("b"), shown, told, user("c"), assistant("d")))
    assert "$2" in str(sent(user("a"), assistant("b"), shown, told, user("c"), assistant("d")))


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_picture_named_in_a_prompt_comes_before_it(model: str) -> None:
    story = [user("See @dot.png"), picture(), picture(), assistant("b", model=model)]
    assert sent(*story) == [
        ("user", [reminder(CALLED)]),
        ("user", ["image", reminder(CALLED), "image", "See @dot.png"]),
        ("assistant", ["b"]),
    ]


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_picture_after_a_result_follows_it(model: str) -> None:
    story = [user("go"), assistant(tool_use("Read", id="t"), model=model), tool_result("r", id="t"), picture()]
    assert sent(*story, assistant("b", model=model))[2] == ("user", [{"t": f"r\n\n{reminder(CALLED)}"}, "image"])


def test_a_pdf_that_was_named_is_told_by_its_size() -> None:
    file = {"filePath": "/a.pdf", "base64": "JVBERi0=", "originalSize": 9}
    named = attachment("file", filename="/a.pdf", content={"type": "pdf", "file": file})
    told = build_context(session(user("a"), named, assistant("b", model=NEW)).entries)[1].blocks[0].text
    assert told is not None
    assert told.endswith("Result of calling the Read tool:\nPDF file read: /a.pdf (9 bytes)")


@pytest.mark.parametrize(("old", "new"), [("Task", "Agent"), ("ListPeers", "ListAgents"), ("KillShell", "KillShell")])
def test_tools_have_their_new_names_if_those_are_offered(old: str, new: str) -> None:
    assert call_sent(old)["name"] == new


def test_fields_that_are_only_for_the_disk_are_not_sent() -> None:
    given = {"to": "a", "message": "hi", "summary": "s"}
    extra = {"type": "message", "recipient": "a", "content": "hi"}
    assert call_sent("SendMessage", **given, **extra)["input"] == given
    assert call_sent("SendMessage", type="shutdown_request", recipient="a")["input"] == {
        "type": "shutdown_request",
        "recipient": "a",
    }
    edits = [{"old_string": "a", "new_string": "b"}]
    assert call_sent("Edit", file_path="/a", old_string="a", new_string="b", edits=edits)["input"] == {
        "file_path": "/a",
        "edits": edits,
    }


def test_an_output_style_is_told_each_turn() -> None:
    style = attachment("output_style", style="Explanatory")
    own = attachment("output_style", style="Mine", turnReminder="Do it so.")
    full = attachment("output_style_instructions", style={"name": "Mine", "prompt": "Explain."})
    told = sent(user("go"), style, own, full, assistant("b", model=NEW))[1]
    texts = [
        "Explanatory output style is active. Remember to follow the specific guidelines for this style.",
        "Mine output style is active. Do it so.",
        "# Output Style: Mine\nExplain.",
    ]
    assert told == ("system", ["\n\n".join(texts)])


def added_tools(**fields: Any) -> list[dict[str, Any]]:
    """Return what is sent of a line that tells of tools which came late, as 2.1.325 writes it."""
    made = session(user("go"), attachment("deferred_tools_delta", **fields), assistant("b", model=NEW))
    extra: dict[JsonPath, object] = {
        ("rendered",): [{"content": reminder("Tools now.")}],
        ("renderedRole",): "system",
    }
    lines = [patch(line, extra) if b"deferred" in line else line for line in made.lines]
    message = build_context(session(*map(raw, lines)).entries)[1].json
    assert message["role"] == "system"
    tools: list[dict[str, Any]]
    text, *tools = message["content"]
    assert text == {"type": "text", "text": "Tools now."}
    return tools


def test_tools_that_came_late_go_with_the_words_of_their_line() -> None:
    definition = {"name": "two", "description": "it", "input_schema": {"type": "object"}}
    defined = [{"name": "two", "listing": "0a", "definition": definition}, {"name": 3}, "x"]
    assert added_tools() == []
    assert added_tools(surfacedNames=["one", "two"], surfacedDefinitions=defined, removedByBlock=["old"]) == [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "old"}},
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "one"}},
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}},
    ]


def notebook(*outputs: object) -> Step:
    cells = [
        {"cellType": "markdown", "source": "# A", "cell_id": "a"},
        {"cellType": "code", "source": "1", "cell_id": "b", "language": "python", "outputs": [*outputs]},
    ]
    return attachment("file", filename="/n.ipynb", content={"type": "notebook", "file": {"cells": cells}})


NOTEBOOK_CALL = reminder('Called the Read tool with the following input: {"file_path":"/n.ipynb"}')
CELLS = '<cell id="a"><cell_type>markdown</cell_type># A</cell id="a">\n<cell id="b">1</cell id="b">'


@pytest.mark.parametrize("model", [OLD, NEW])
def test_a_notebook_with_pictures_is_one_result(model: str) -> None:
    shown = {"text": "one", "image": {"image_data": DOT, "media_type": "image/png"}}
    story = [user("See @n.ipynb"), notebook(shown, {"text": "two"}, {"text": "three"}, 4), assistant("b", model=model)]
    assert sent(*story) == [
        ("user", [NOTEBOOK_CALL]),
        ("user", [reminder(f"{CELLS}\n\none"), "image", reminder("\ntwo\n\nthree") + "\n", "See @n.ipynb"]),
        ("assistant", ["b"]),
    ]


def test_a_notebook_without_pictures_is_sent_as_any_text() -> None:
    told = build_context(session(user("a"), notebook({"text": "2"}), assistant("b", model=NEW)).entries)[1].blocks[0]
    assert told.text is not None
    assert told.text.endswith(f"Result of calling the Read tool:\n{CELLS}\n\n2")


def test_a_command_after_a_result_waits_for_no_answer() -> None:
    story = [user("go"), assistant(tool_use("Read", id="t")), tool_result("r", id="t")]
    caveat = user("<local-command-caveat>Caveat</local-command-caveat>", isMeta=True)
    command = user("<command-name>/exit</command-name>")
    assert sent(*story, caveat, command)[-1][0] == "user"


def at(second: int) -> str:
    return f"2026-11-17T10:00:{second:02d}.000Z"


def test_a_parent_that_was_never_written_is_replaced_by_what_came_shortly_before() -> None:
    def prompts(second: int) -> list[str]:
        found = sent(
            user("one", uuid="a", parentUuid=None, timestamp=at(1)),
            assistant("answer", uuid="b", parentUuid="a", timestamp=at(2)),
            user("two", uuid="c", parentUuid="gone", timestamp=at(second)),
            assistant("more", uuid="d", parentUuid="c", timestamp=at(second)),
        )
        return [text for role, (text,) in found if role == "user"]

    assert prompts(7) == ["one", "two"]
    assert prompts(8) == ["two"]


def test_lines_that_lead_in_a_circle_go_on_with_what_came_shortly_before() -> None:
    found = sent(
        user("one", uuid="a", parentUuid=None, timestamp=at(1)),
        assistant("answer", uuid="b", parentUuid="a", timestamp=at(2)),
        user("two", uuid="c", parentUuid="d", timestamp=at(3)),
        assistant("more", uuid="d", parentUuid="c", timestamp=at(4)),
    )
    assert [text for role, (text,) in found if role == "user"] == ["one", "two"]


def test_results_that_were_cut_after_a_pause_are_sent_as_their_stand_in() -> None:
    def call(name: str, content: str, **more: Any) -> list[Step]:
        return [
            assistant(tool_use(name, id=f"{name}{content[0]}")),
            tool_result(content, id=f"{name}{content[0]}", **more),
        ]

    steps = [*call("Read", "long " * 9), *call("Read", "short"), *call("Task", "long " * 9)]
    steps += [*call("Bash", "error " * 9, error=True), *call("mcp__a__b", "long " * 9)]
    ids = ["Readl", "Reads", "Taskl", "Bashe", "mcp__a__bl", "none"]
    cut = attachment("tool_results_cut", callIds=ids, standIn="[Old result cleared]", roughTokens=9)
    found = sent(user("go"), *steps, assistant("done"), user("more"), cut, assistant("ok"))
    results = {
        id: text for _, blocks in found for block in blocks if isinstance(block, dict) for id, text in block.items()
    }
    cleared = [id for id, text in results.items() if text == "[Old result cleared]"]
    assert cleared == ["Readl", "mcp__a__bl"]


def test_a_reminder_becomes_part_of_a_result_only_where_no_text_stands_after_the_results() -> None:
    """Measured with 2.1.327, of a session of 2.1.100 whose result was trimmed."""

    def hook(event: str) -> Step:
        return attachment("hook_additional_context", hookName=f"{event}:Bash", content=["said"])

    def words(event: str) -> str:
        return reminder(f"{event}:Bash hook additional context: said")

    call, result = assistant(tool_use("Bash", id="a"), model=OLD), tool_result("ok", id="a")
    before, after, end = hook("PreToolUse"), hook("PostToolUse"), assistant("done", model=OLD)
    both = [{"a": "ok"}, words("PreToolUse"), words("PostToolUse")]
    assert sent(user("go"), call, before, result, after, end)[2] == ("user", both)
    alone = [{"a": f"ok\n\n{words('PostToolUse')}"}]
    assert sent(user("go"), call, result, after, end)[2] == ("user", alone)
