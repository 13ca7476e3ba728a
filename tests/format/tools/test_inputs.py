import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real_files import corpus
from unspool.format.tools import parse
from unspool.format.tools.agents import AgentInput, StructuredOutputInput
from unspool.format.tools.files import EditReplacement, GrepInput, MultiEditInput, ReadInput
from unspool.format.tools.parse import INPUT_TYPES, OtherInput
from unspool.format.tools.plans import AskUserQuestionInput, QuestionItem, QuestionOption, Todo, TodoWriteInput
from unspool.format.tools.shell import BashInput, SedEdit
from unspool.graph import describe_target

FACTS = Path(__file__).parents[1] / "facts" / "tool_inputs.tsv"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=8), values, max_size=3),
    max_leaves=10,
)


def keys(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


def test_every_genuine_key_is_declared() -> None:
    with FACTS.open() as file:
        facts = list(csv.DictReader(file, delimiter="\t"))
    assert len(facts) > 40
    genuine = [(fact["tool"], key) for fact in facts for key in fact["keys"].split()]
    assert [(tool, key) for tool, key in genuine if key not in keys(INPUT_TYPES[tool])] == []


def test_an_input_is_the_struct_of_its_tool() -> None:
    assert parse.parse_input("Bash", {"command": "ls", "timeout": 1000}) == BashInput(command="ls", timeout=1000)
    assert parse.parse_input("PowerShell", {"command": "dir"}) == BashInput(command="dir")
    assert parse.parse_input("Task", {"prompt": "look"}) == parse.parse_input("Agent", {"prompt": "look"})
    assert parse.parse_input("Agent", {"prompt": "look"}) == AgentInput(prompt="look")


def test_options_of_grep_have_names() -> None:
    value = {"pattern": "x", "-n": True, "-A": 1, "-B": 2, "-C": 3, "-i": True, "-o": False, "type": "py"}
    assert parse.parse_input("Grep", value) == GrepInput(
        pattern="x",
        type="py",
        line_number=True,
        after_context=1,
        before_context=2,
        short_context=3,
        ignore_case=True,
        only_matching=False,
    )


def test_what_is_inside_an_input_has_its_type_too() -> None:
    edits = [{"old_string": "a", "new_string": "b"}]
    assert parse.parse_input("MultiEdit", {"file_path": "f", "edits": edits}) == MultiEditInput(
        file_path="f", edits=(EditReplacement(old_string="a", new_string="b"),)
    )
    question = {"question": "?", "header": "H", "multiSelect": True, "options": [{"label": "yes"}]}
    assert parse.parse_input("AskUserQuestion", {"questions": [question]}) == AskUserQuestionInput(
        questions=(QuestionItem(question="?", header="H", options=(QuestionOption(label="yes"),), multi_select=True),)
    )
    edit = {"filePath": "f", "newContent": "new"}
    assert parse.parse_input("Bash", {"command": "sed", "_simulatedSedEdit": edit}) == BashInput(
        command="sed", simulated_sed_edit=SedEdit(file_path="f", new_content="new")
    )


@pytest.mark.parametrize(
    ("todos", "read"),
    [
        (
            [{"content": "a", "status": "pending", "activeForm": "doing a"}],
            (Todo(content="a", status="pending", active_form="doing a"),),
        ),
        (
            [{"content": "a", "id": "1", "priority": "high"}, "b"],
            (Todo(content="a", id="1", priority="high"), "b"),
        ),
        ("- [ ] a", "- [ ] a"),
    ],
    ids=["2.x", "1.0.x with a stray string", "string"],
)
def test_todos_come_in_three_forms(todos: object, read: Any) -> None:
    assert parse.parse_input("TodoWrite", {"todos": todos}) == TodoWriteInput(todos=read)


def test_numbers_and_flags_written_as_strings_are_understood() -> None:
    assert parse.parse_input("Read", {"file_path": "f", "offset": "10"}) == ReadInput(file_path="f", offset=10)
    assert parse.parse_input("Bash", {"command": "10", "run_in_background": "true"}) == BashInput(
        command="10", run_in_background=True
    )


def test_structured_output_is_any_object() -> None:
    assert parse.parse_input("StructuredOutput", {"area": 1}) == StructuredOutputInput(value={"area": 1})


@pytest.mark.parametrize(
    ("tool", "value"),
    [
        ("mcp__server__tool", {"a": 1}),
        ("Gash", {"command": "ls"}),
        ("Bash", "ls"),
        ("Bash", {"command": ["ls"]}),
    ],
    ids=["MCP", "no such tool", "not an object", "does not fit"],
)
def test_anything_else_keeps_its_value(tool: str, value: object) -> None:
    assert parse.parse_input(tool, value) == OtherInput(tool=tool, value=value)


def test_a_bottomless_input_is_kept() -> None:
    value: dict[str, Any] = {}
    for _ in range(100_000):
        value = {"questions": [value], "metadata": value}
    assert parse.parse_input("AskUserQuestion", value).__class__ in {AskUserQuestionInput, OtherInput}


@given(st.sampled_from([*INPUT_TYPES, "Gash"]), json_values)
def test_any_json_is_some_input(tool: str, value: Any) -> None:
    parse.parse_input(tool, value)


@given(st.data(), st.sampled_from(sorted(INPUT_TYPES)))
def test_known_keys_with_any_values_are_some_input(data: st.DataObject, tool: str) -> None:
    names = st.sampled_from(sorted(keys(INPUT_TYPES[tool])) or ["unknown"])
    parse.parse_input(tool, data.draw(st.dictionaries(names, json_values)))


def test_real_inputs_fit_their_tools() -> None:
    calls = [
        (call.get("name", ""), call.get("input")) for path in corpus().rglob("*.jsonl") for call in tool_calls(path)
    ]
    parsed = [parse.parse_input(name, value) for name, value in calls if name in INPUT_TYPES]
    assert parsed
    assert [other for other in parsed if isinstance(other, OtherInput)] == []


def tool_calls(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        message = record.get("message") if isinstance(record, dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                yield block


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "9" * 5000, "1e999"])
def test_a_number_that_nothing_can_be_computed_with_fits_no_input(number: str) -> None:
    value = {"file_path": "/a", "offset": number, "limit": number}
    assert parse.parse_input("Read", value) == OtherInput(tool="Read", value=value)
    assert describe_target("Read", value, None) == "/a"
