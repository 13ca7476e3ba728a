"""With `--json` every command writes the document that its type describes; nothing is an empty list and exit code 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import msgspec
import pytest

from tests.cli.conftest import Ran, Run, make_runner
from tests.telemetry.receiver import receiving
from unspool.cli.documents.registry import DOCUMENTS, descriptions, make_schema, schema_name
from unspool.cli.main import unspool
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, user

SESSION = "e40e4e4a"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
QUERY = "SELECT session_id, started, 1.5 AS half, [1, NULL] AS list FROM sessions ORDER BY ALL LIMIT 3"
CASES: dict[str, list[str]] = {
    "ls": ["ls", "ls --status --limit 2", "ls --all --no-store"],
    "show": ["show {id}", "show {id} --depth all", "show {id} --turn 2..3 --depth prompts", "show {file} --depth all"],
    "show-file": ["show {id} --file table.py"],
    "stats": ["stats"],
    "stats-session": ["stats {id}"],
    "compare": ["compare {id} {file}", "compare {id}#1 {id}"],
    "compare-messages": ["compare {id} {id} --messages"],
    "compare-groups": ["compare --by model", "compare {id} {id} {id} --by prompt"],
    "insights": ["insights", "insights --since 3650d --limit 2", "insights --session {id}"],
    "usage": [f"usage {period}" for period in (
        "daily", "weekly", "monthly", "session", "model", "project", "branch", "agent", "blocks"
    )],
    "usage-explain": ["usage --explain"],
    "search": ["search tide", "search --regex t.de --limit 3", "search plan --no-store"],
    "sql": ["sql {query}", "sql {nothing}"],
    "watch": ["watch --once --since 3650d"],
    "watch-event": [],
    "export": ["export {id}", "export {file}"],
    "export-otlp": [],
    "share": ["share {id}", "share {id} --md --results --thinking --turns 1"],
    "edit": ["edit clone {id}", "edit compress {id} --keep-last 0 --no-model"],
    "edit-plan": ["edit trim {id} --tools --plan", "edit fork {id} --at 2 --plan"],
    "edit-redact-plan": ["edit redact {id} --secrets --plan"],
    "edit-redact": ["edit redact {id} --turns 1"],
    "edit-undo": ["edit undo"],
    "edit-log": ["edit log"],
    "restore": [],
    "redact": [],
    "sync": ["sync"],
    "doctor": ["doctor", "doctor --no-store"],
    "doctor-session": ["doctor --session {id}"],
    "doctor-error": ["doctor --error {error}"],
    "config": ["config"],
    "config-key": ["config archive"],
    "hooks": ["hooks"],
    "hooks-change": ["hooks install --yes", "hooks remove --yes"],
    "statusline": ["statusline status"],
    "statusline-change": ["statusline install --yes", "statusline uninstall --yes"],
    "statusline-fields": ["statusline fields"],
    "mcp": ["mcp status"],
    "mcp-change": ["mcp install --yes", "mcp uninstall --yes"],
    "demo": ["demo {new}"],
    "collect": [],
    "collect-status": [],
    "collect-enrol": [],
    "collect-leave": [],
    "collect-rotate-key": [],
    "lake-init": [],
    "lake-ingest": [],
    "lake-compact": [],
    "lake-vacuum": [],
    "lake-verify": [],
    "lake-status": [],
    "lake-migrate": [],
    "lake-users": [],
    "lake-sink": [],
    "lake-admin": [],
    "lake-admin-accept": [],
    "lake-admin-revoke": [],
    "lake-admin-token": [],
    "lake-forget": [],
    "lake-pseudonyms": [],
}  # fmt: skip
"""The documents, and commands that write each. Those without a command have a test of their own below."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a demo; with a store from the first command on."""
    folder = tmp_path_factory.mktemp("documents")
    write_demo(folder / "demo")
    return folder


@pytest.fixture(scope="module")
def ask(place: Path) -> Callable[..., Ran]:
    """Return a function that runs a command on the demo, its words separated by blanks, with `--json`."""
    run = make_runner(place)
    (file,) = (place / "demo").glob(f"projects/*/{SESSION}*.jsonl")
    named = {"id": SESSION, "file": str(file), "query": QUERY, "nothing": f"{QUERY.replace('LIMIT 3', 'LIMIT 0')}"}
    named["error"] = "messages.1: `tool_use` ids must be unique"

    def ask(words: str, *more: str) -> Ran:
        named["new"] = str(place / f"new{len(list(place.iterdir()))}")
        arguments = [word.format_map(named) for word in words.split()]
        place_of = [] if words.startswith(("config", "demo")) else ["--config-dir", str(place / "demo")]
        return run(*place_of, *arguments, *(more or ["--json"]))

    return ask


def check(name: str, text: str) -> Any:
    """Decode a document by its type, which knows no other fields, and by its published schema."""
    data = json.loads(text)
    assert data["schema"] == schema_name(name)
    msgspec.convert(data, DOCUMENTS[name], strict=True)
    jsonschema.validate(data, make_schema(name), cls=jsonschema.Draft202012Validator)
    return data


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, cases in CASES.items() for words in cases])
def test_a_command_writes_its_document(ask: Callable[..., Ran], name: str, words: str) -> None:
    done = ask(words)
    assert done.code == 0, done.err
    check(name, done.out)


def test_no_document_is_without_a_command() -> None:
    assert CASES.keys() == DOCUMENTS.keys()


def test_every_command_with_json_has_a_document() -> None:
    with_json = {name for name, command in all_commands(unspool) if any(p.name == "as_json" for p in command.params)}
    edits = {"edit-clone", "edit-fork", "edit-move", "edit-trim", "edit-compress", "edit-repair"}  # written as `edit`
    # Written as `lake-admin`, and by two commands as `lake-admin-token` and `lake-ingest`.
    admin = {f"lake-admin-{name}" for name in ("init", "key", "add", "remove", "show", "require-keys")}
    assert with_json - edits - admin - {"lake-admin-enrol", "lake-spark-ingest", "lake-sql"} <= DOCUMENTS.keys()


def all_commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its words joined by hyphens."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{prefix}{name}-")


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_schemas_are_valid_and_describe_every_field(name: str) -> None:
    schema = make_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema.get("$defs", {}).values()):
        assert all(field["description"].endswith(".") for field in part["properties"].values())


def test_names_are_the_same_everywhere() -> None:
    """One name for each thing: what a document names otherwise is deprecated, and stands beside the right name."""
    wrong = {"sessionId", "session", "agent", "agentId", "file", "timestamp", "when", "at", "started", "last"}
    allowed = {("SearchItem", "session")}
    for part, fields in descriptions().items():
        for name, text in fields.items():
            assert name == name.lower()
            if name in wrong and (part, name) not in allowed:
                assert text.startswith("Deprecated"), (part, name)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("ls --project nope", "ls"),
        ("usage --project nope", "usage"),
        ("search nosuchwordanywhere", "search"),
        ("search nosuchwordanywhere --no-store", "search"),
    ],
)
def test_nothing_is_an_empty_list_and_exit_code_1(ask: Callable[..., Ran], words: str, name: str) -> None:
    done = ask(words)
    assert done.code == 1
    assert check(name, done.out)["items"] == []
    assert done.err.startswith("unspool: ")
    lines = ask(words, "--jsonl")
    assert (lines.code, lines.out) == (1, "")


@pytest.mark.parametrize("words", ["ls", "stats", "usage", "edit log", "search word", "watch --once"])
def test_an_empty_folder_has_the_same_documents(run: Run, tmp_path: Path, words: str) -> None:
    (tmp_path / "empty" / "projects").mkdir(parents=True)
    done = run("--config-dir", tmp_path / "empty", *words.split(), "--json")
    assert done.code == 1
    name = words.replace(" word", "").replace(" --once", "").replace(" ", "-")
    assert check(name, done.out)["items"] == []


@pytest.mark.parametrize("words", ["ls", "usage daily", "search tide", "watch --once --since 3650d"])
def test_json_lines_are_the_items_of_the_document(ask: Callable[..., Ran], words: str) -> None:
    items = json.loads(ask(words).out)["items"]
    lines = [json.loads(line) for line in ask(words, "--jsonl").out.splitlines()]
    assert [line.get("session_id") for line in lines] == [item.get("session_id") for item in items]
    assert [line.keys() for line in lines] == [item.keys() for item in items]
    assert len(lines) > 1


def test_json_and_json_lines_exclude_each_other(ask: Callable[..., Ran]) -> None:
    done = ask("ls", "--json", "--jsonl")
    assert (done.code, done.err.splitlines()[0]) == (2, "unspool: --json and --jsonl cannot be used together")


def test_what_a_line_holds_does_not_break_a_document(run: Run, tmp_path: Path) -> None:
    """Any field of a line may hold any JSON; times are RFC 3339 or null."""
    odd: list[Any] = [None, 1, -1.5, True, [], {}, "x", "2026-13-77", [{"a": 1}]]
    root = tmp_path / "config"
    path = session(user("tide"), assistant("low"), user("more"), assistant("high")).save(root)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    written = []
    for name in ("timestamp", "version", "gitBranch", "cwd", "sessionId", "uuid", "message", "type", "requestId"):
        written += [{**line, name: value} for line in lines for value in odd]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *written]))
    for name, words in [
        ("ls", "ls --all"), ("search", "search tide"), ("usage", "usage session"), ("usage-explain", "usage --explain"),
        ("stats", "stats"), ("stats-session", f"stats {path}"), ("show", f"show {path} --depth all"),
        ("export", f"export {path}"), ("doctor", "doctor"), ("watch", "watch --once --since 3650d"),
    ]:  # fmt: skip
        done = run("--config-dir", root, *words.split(), "--json")
        assert done.code == 0, (words, done.err)
        check(name, done.out)


def test_redact_exits_with_1_if_it_finds_something(run: Run, tmp_path: Path) -> None:
    clean, secret = tmp_path / "clean.txt", tmp_path / "secret.txt"
    clean.write_text("nothing here\n")
    secret.write_text(f"token {SECRET}\n")
    nothing, found = (run("redact", "--check", path, "--json") for path in (clean, secret))
    assert (nothing.code, found.code) == (0, 1)
    assert check("redact", nothing.out)["items"] == []
    (item,) = check("redact", found.out)["items"]
    assert (item["path"], item["count"]) == (str(secret), 1)
    assert SECRET not in found.out + found.err
    assert run("redact", "--check", secret).code == 1


def test_a_restored_session_is_a_document(run: Run, tmp_path: Path) -> None:
    path = session(user("tide"), assistant("low")).save(tmp_path / "config")
    assert run("sync", "--config-dir", tmp_path / "config").code == 0
    path.unlink()
    done = run("restore", path.stem, "--config-dir", tmp_path / "config", "--json")
    data = check("restore", done.out)
    assert (data["session_id"], len(data["files"])) == (path.stem, 1)


def test_what_a_collector_and_a_lake_say_are_documents(run: Run, tmp_path: Path) -> None:
    session(user("tide"), assistant("low")).save(tmp_path / "config")
    url, lake = (tmp_path / "segments").as_uri(), str(tmp_path / "lake")
    empty = run("collect", "--status", "--json")
    assert (empty.code, check("collect-status", empty.out)["items"]) == (1, [])
    check("collect-enrol", run("collect", "enrol", "--org", "acme", "--user", "ada", "--json").out)
    check("collect", run("collect", "--to", url, "--config-dir", tmp_path / "config", "--json").out)
    assert len(check("collect-status", run("collect", "--status", "--json").out)["items"]) == 1
    check("lake-init", run("lake", "init", lake, "--json").out)
    check("lake-ingest", run("lake", "ingest", "--from", url, "--to", lake, "--json").out)
    check("lake-compact", run("lake", "compact", "--lake", lake, "--older-than", "0", "--json").out)
    check("lake-vacuum", run("lake", "vacuum", "--lake", lake, "--json").out)
    check("lake-verify", run("lake", "verify", "--lake", lake, "--from", url, "--json").out)
    check("lake-status", run("lake", "status", "--lake", lake, "--from", url, "--json").out)
    check("lake-migrate", run("lake", "migrate", "--lake", lake, "--json").out)
    check("lake-users", run("lake", "users", "--lake", lake, "--set", "acme/d1=ada", "--json").out)
    check("collect-leave", run("collect", "leave", "--json").out)
    check("sql", run("lake", "sql", "--lake", lake, "SELECT count(*) AS n FROM entries", "--json").out)


def test_what_is_said_of_administrators_and_keys_are_documents(run: Run, tmp_path: Path) -> None:
    url, lake, token = (tmp_path / "segments").as_uri(), ("--lake", str(tmp_path / "lake")), tmp_path / "token"
    org = ("--org", "acme")
    assert run("lake", "init", tmp_path / "lake").code == 0
    check("lake-admin", run("lake", "admin", "init", *lake, *org, "--json").out)
    made = ("lake", "admin", "enrol", *lake, *org, "--user", "ada", "--device", "d1", "-o", token, "--json")
    check("lake-admin-token", run(*made).out)
    check("collect-enrol", run("collect", "enrol", "--token-file", token, "--to", url, "--json").out)
    check("lake-admin-accept", run("lake", "admin", "accept", *lake, *org, "--from", url, "--json").out)
    check("collect-rotate-key", run("collect", "rotate-key", "--to", url, "--json").out)
    check("lake-admin-revoke", run("lake", "admin", "revoke", "acme/d1", *lake, "--json").out)
    assert len(check("lake-admin", run("lake", "admin", "show", *lake, *org, "--json").out)["devices"]) == 1


def test_what_was_sent_to_opentelemetry_is_a_document(run: Run, tmp_path: Path) -> None:
    session(user("tide"), assistant("low")).save(tmp_path / "config")
    with receiving() as received:
        sent = run("export", "--otlp", received.address, "--config-dir", tmp_path / "config", "--json")
        assert check("export-otlp", sent.out)["spans"] == 3


def test_schema_prints_what_the_tests_check(run: Run) -> None:
    assert json.loads(run("schema", "edit", "log").out) == make_schema("edit-log")
    assert [line.split()[0] for line in run("schema").out.splitlines()] == list(DOCUMENTS)
    wrong = run("schema", "nope")
    assert (wrong.code, wrong.err.splitlines()[0]) == (3, "unspool: no JSON document is named `nope`")
