import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.tools.calling import call, context_in, decoded, problem_of, text_of
from unspool.client.tool_context import ToolContext
from unspool.format.tools.files import NotebookEditResult

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "m1", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "id": "c1",
            "metadata": {"tags": ["x"]},
            "execution_count": 3,
            "source": "print(1)",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}],
        },
    ],
    "metadata": {"language_info": {"name": "julia"}, "unknown": 1.5},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    context = context_in(tmp_path)
    (context.workspace.root / "a.ipynb").write_text(json.dumps(NOTEBOOK, indent=2, ensure_ascii=False) + "\n")
    assert not call(context, "Read", file_path="a.ipynb").is_error
    return context


def edit(context: ToolContext, source: str, **given: Any) -> tuple[str, list[dict[str, Any]]]:
    outcome = call(context, "NotebookEdit", notebook_path="a.ipynb", new_source=source, **given)
    assert isinstance(decoded("NotebookEdit", outcome), NotebookEditResult)
    notebook = json.loads((context.workspace.root / "a.ipynb").read_text())
    assert {key: notebook[key] for key in notebook if key != "cells"} == {
        key: value for key, value in NOTEBOOK.items() if key != "cells"
    }
    return text_of(outcome), notebook["cells"]


def test_a_cell_is_replaced_and_its_outputs_are_gone(context: ToolContext) -> None:
    words, cells = edit(context, "print(2)\nx", cell_id="c1")
    assert words == "Updated cell c1 with print(2)\nx"
    assert cells[0] == NOTEBOOK["cells"][0]  # type: ignore[index]
    assert cells[1] == {
        "cell_type": "code",
        "id": "c1",
        "metadata": {"tags": ["x"]},
        "execution_count": None,
        "source": "print(2)\nx",
        "outputs": [],
    }


def test_a_source_keeps_its_form(context: ToolContext) -> None:
    _, cells = edit(context, "# New\n\nwords", cell_id="m1")
    assert cells[0]["source"] == ["# New\n", "\n", "words"]


def test_a_file_keeps_its_indentation_and_its_end(context: ToolContext) -> None:
    edit(context, "x", cell_id="c1")
    text = (context.workspace.root / "a.ipynb").read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"


def test_a_cell_is_added_after_another_or_at_the_top(context: ToolContext) -> None:
    words, cells = edit(context, "new", cell_id="m1", edit_mode="insert", cell_type="code")
    assert [cell["source"] for cell in cells] == [["# Title\n", "text"], ["new"], "print(1)"]
    assert words == f"Inserted cell {cells[1]['id']} with new"
    _, cells = edit(context, "top", edit_mode="insert", cell_type="markdown")
    assert cells[0] == {"cell_type": "markdown", "id": cells[0]["id"], "metadata": {}, "source": ["top"]}
    assert len({cell["id"] for cell in cells}) == 4


def test_a_cell_is_deleted(context: ToolContext) -> None:
    words, cells = edit(context, "", cell_id="c1", edit_mode="delete")
    assert words == "Deleted cell c1"
    assert [cell["id"] for cell in cells] == ["m1"]


def test_a_cell_can_be_meant_by_its_place(context: ToolContext) -> None:
    assert edit(context, "x", cell_id="cell-1")[0] == "Updated cell c1 with x"
    assert edit(context, "y", cell_number=0)[0] == "Updated cell m1 with y"


def test_a_cell_of_code_can_become_one_of_words(context: ToolContext) -> None:
    _, cells = edit(context, "words", cell_id="c1", cell_type="markdown")
    assert cells[1] == {"cell_type": "markdown", "id": "c1", "metadata": {"tags": ["x"]}, "source": "words"}


def test_cells_of_older_notebooks_have_no_ids(context: ToolContext) -> None:
    path = context.workspace.root / "old.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": []}], "nbformat": 4, "nbformat_minor": 4}))
    call(context, "Read", file_path="old.ipynb")
    given = {"new_source": "x", "cell_id": "cell-0", "edit_mode": "insert", "cell_type": "code"}
    assert text_of(call(context, "NotebookEdit", notebook_path="old.ipynb", **given)) == "Inserted cell cell-1 with x"
    assert "id" not in json.loads(path.read_text())["cells"][1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cell_id": "nope"}, 'Cell with ID "nope" not found in notebook.'),
        ({"cell_id": "cell-9"}, "Cell with index 9 does not exist in notebook."),
        ({"cell_number": -1}, "Cell with index -1 does not exist in notebook."),
        ({}, "Cell ID must be specified when not inserting a new cell."),
        ({"edit_mode": "insert"}, "Cell type is required when using edit_mode=insert."),
        ({"notebook_path": "none.ipynb"}, "Notebook file does not exist."),
        (
            {"notebook_path": "a.txt"},
            "File must be a Jupyter notebook (.ipynb file). For editing other file types, use the FileEdit tool.",
        ),
    ],
)
def test_what_cannot_be_done_says_why_in_the_words_of_the_program(context: ToolContext, given: Any, words: str) -> None:
    before = (context.workspace.root / "a.ipynb").read_bytes()
    assert (
        problem_of(call(context, "NotebookEdit", **{"notebook_path": "a.ipynb", "new_source": "x", **given})) == words
    )
    assert (context.workspace.root / "a.ipynb").read_bytes() == before


def test_a_notebook_is_changed_only_by_who_has_read_it(context: ToolContext) -> None:
    path = context.workspace.root / "a.ipynb"
    path.write_text(path.read_text() + "\n")
    outcome = call(context, "NotebookEdit", notebook_path="a.ipynb", new_source="x", cell_id="c1")
    assert "modified since read" in problem_of(outcome)
