"""Chats with MCP servers that run as processes, well-behaved and hostile."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.client.conftest import Chat, Place
from tests.client.mcp.conftest import HERE, MANY, THINGS, config, hostile, results, use

pytest.importorskip("mcp")
STREAM = ("-p", "go", "--output-format", "stream-json")
ALLOW = ("--allowedTools", "mcp__things", "mcp__bad__*")


def test_tools_of_a_server_are_called_and_their_results_written_as_claude_code_does(chat: Chat, place: Place) -> None:
    calls = [
        use("mcp__things__add", a=2, b=3),
        use("mcp__things__draw"),
        use("mcp__things__add", a="two", b=3),
        use("mcp__things__advance"),
    ]
    ran = chat(*STREAM, *ALLOW, "--mcp-config", config(things=THINGS), script=[{"content": calls}, "Done."])
    assert (ran.code, ran.err) == (0, "")
    first, picture, wrong, advanced = results(ran.objects)
    assert first == '{"result":5}'
    assert [block["type"] for block in picture] == ["image"]
    assert "input.a must be integer" in wrong
    assert advanced == '{"result":"all"}'
    lines = [json.loads(line) for line in place.sessions()[0].read_text().splitlines()]
    (line,) = [line for line in lines if line.get("mcpMeta") == {"structuredContent": {"result": 5}}]
    assert line["toolUseResult"] == '{"result":5}'
    progress = [line["data"] for line in lines if line["type"] == "progress"]
    assert [data["status"] for data in progress if data["toolName"] == "add"] == ["started", "completed"]
    reported = [data for data in progress if data["status"] == "progress"]
    assert [(data["progress"], data["total"], data["progressMessage"]) for data in reported] == [(1, 2, "half")]


def test_the_first_object_lists_servers_and_tools(chat: Chat) -> None:
    ran = chat(*STREAM, "--mcp-config", config(things=THINGS, gone={"command": "/no/such/program"}), script=["Hi."])
    init = ran.objects[0]
    assert init["mcp_servers"] == [{"name": "things", "status": "connected"}, {"name": "gone", "status": "failed"}]
    assert "mcp__things__add" in init["tools"]
    assert ran.err == "unspool: MCP server `gone` is not connected: `/no/such/program` was not found\n"


def test_subagents_use_servers_as_their_definitions_allow(chat: Chat) -> None:
    def agent(kind: str) -> dict[str, object]:
        return use("Task", description="d", prompt=f"work as {kind}", subagent_type=kind)

    kinds = {"all": None, "some": ["mcp__things"], "none": ["Read"]}
    agents = {
        kind: {"description": "d", "prompt": "p", **({"tools": tools} if tools else {})}
        for kind, tools in kinds.items()
    }
    call = {"content": [use("mcp__things__add", a=1, b=1)]}
    works = {"content": "Two.", "expect": {"result": "2", "is_error": False}}
    fails = {"content": "Nothing.", "expect": {"result": "No such tool available"}}
    script = {
        "cues": {
            "go": [{"content": [agent(kind) for kind in kinds]}, "Done."],
            "work as all": [call, works],
            "work as some": [call, works],
            "work as none": [call, fails],
        }
    }
    flags = ("--agents", json.dumps(agents), "--mcp-config", config(things=THINGS))
    ran = chat(*STREAM, *ALLOW, *flags, script=script)
    assert ran.objects[-1]["result"] == "Done."
    said = json.dumps(results(ran.objects))
    assert (said.count("Two."), said.count("Nothing.")) == (2, 1)


def test_a_hook_sees_and_denies_calls_of_servers(chat: Chat) -> None:
    hook = {"type": "command", "command": "echo not today >&2; exit 2"}
    settings = json.dumps({"hooks": {"PreToolUse": [{"matcher": "mcp__things__.*", "hooks": [hook]}]}})
    script = [{"content": [use("mcp__things__add", a=1, b=1)]}, "Done."]
    flags = ("--settings", settings, "--mcp-config", config(things=THINGS))
    (denied,) = results(chat(*STREAM, *ALLOW, *flags, script=script).objects)
    assert "not today" in denied


def test_what_no_rule_allows_is_not_called(chat: Chat, place: Place) -> None:
    script = [{"content": [use("mcp__things__add", a=1, b=2)]}, "Done."]
    (refused,) = results(chat(*STREAM, "--mcp-config", config(things=THINGS), script=script).objects)
    assert "no rule allows `mcp__things__add`" in refused


@pytest.mark.parametrize("rule", ["mcp__things__add", "mcp__things", "mcp__things__*"])
def test_a_tool_that_a_rule_denies_is_not_offered_and_not_called(chat: Chat, rule: str) -> None:
    script = [{"content": [use("mcp__things__add", a=1, b=2)]}, "Done."]
    ran = chat(*STREAM, "--disallowedTools", rule, "--mcp-config", config(things=THINGS), script=script)
    assert "No such tool available" in results(ran.objects)[0]


def test_the_instructions_of_a_server_are_in_the_system_prompt(chat: Chat) -> None:
    expected = {"content": "Hi.", "expect": {"system": ["Add small numbers only."]}}
    assert chat("-p", "go", "--mcp-config", config(things=THINGS), script=[expected]).out == "Hi.\n"


def test_a_server_gets_its_variables_and_not_the_keys_of_the_api(chat: Chat) -> None:
    server = {**THINGS, "env": {"COLOUR": "${TINT}", "SHADE": "${NONE:-light}"}}
    names = ("COLOUR", "SHADE", "ANTHROPIC_API_KEY")
    script = [{"content": [use("mcp__things__variable", name=name) for name in names]}, "Done."]
    environment = {"TINT": "blue", "ANTHROPIC_API_KEY": "secret"}
    ran = chat(*STREAM, *ALLOW, "--mcp-config", config(things=server), script=script, **environment)
    assert [json.loads(text)["result"] for text in results(ran.objects)] == ["blue", "light", "not set"]


def test_a_long_result_is_saved_to_a_file(chat: Chat, place: Place) -> None:
    script = [{"content": [use("mcp__things__repeat", word="long ", times=100_000)]}, "Done."]
    ran = chat(*STREAM, *ALLOW, "--mcp-config", config(things=THINGS), script=script)
    (text,) = results(ran.objects)
    assert text.startswith("Error: result (500,0")
    assert "Format: JSON with schema: {result: [string]}" in text
    (path,) = place.config.glob("projects/*/*/tool-results/mcp-things-repeat-*.txt")
    assert str(path) in text
    assert len(path.read_text()) > 500_000


def test_a_server_that_has_ended_is_started_again(chat: Chat) -> None:
    script = [{"content": [use("mcp__things__die"), use("mcp__things__add", a=1, b=1)]}, "Done."]
    died, again = results(chat(*STREAM, *ALLOW, "--mcp-config", config(things=THINGS), script=script).objects)
    assert "it ended with exit code 3" in died
    assert again == '{"result":2}'


def test_resources_are_listed_read_and_mentioned(chat: Chat) -> None:
    calls = [use("ListMcpResourcesTool"), use("ReadMcpResourceTool", server="things", uri="note://milk")]
    mentioned = {"content": [*calls], "expect": {"anywhere": ["[Resource from things at note://milk] Remember"]}}
    ran = chat(
        "-p",
        "Look at @things:note://milk.",
        *STREAM[2:],
        "--mcp-config",
        config(things=THINGS),
        script=[mentioned, "Done."],
    )
    listed, read = results(ran.objects)
    assert json.loads(listed)[0]["uri"] == "note://milk"
    assert read == "[Resource from things at note://milk] Remember the milk."
    assert ran.objects[-1]["result"] == "Done."


@pytest.mark.parametrize(
    ("rules", "refused"),
    [
        ({}, False),
        ({"deny": ["mcp__things"]}, True),
        ({"deny": ["mcp__*"]}, True),
        ({"ask": ["mcp__things__*"]}, True),
        ({"deny": ["ReadMcpResourceTool"]}, True),
        ({"deny": ["mcp__other", "mcp__things__add"]}, False),
    ],
)
def test_a_rule_that_denies_a_server_or_asks_about_it_holds_for_its_resources(
    chat: Chat, rules: dict[str, list[str]], refused: bool
) -> None:
    calls = [use("ReadMcpResourceTool", server="things", uri="note://milk"), use("ListMcpResourcesTool")]
    given = ("--mcp-config", config(things=THINGS), "--settings", json.dumps({"permissions": rules}))
    ran = chat(*STREAM, *given, script=[{"content": calls}, "Done."])
    read, listed = results(ran.objects)
    assert ("Remember the milk." in read) != refused
    # What a server has is not told either, if the server is denied.
    assert ("note://milk" in listed) != ({"mcp__things", "mcp__*"} & {*rules.get("deny", ())} != set())


def plugin_with_servers(folder: Path, manifest: dict[str, object] | None = None, file: object = None) -> Path:
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin" / "plugin.json").write_text(json.dumps({"name": "plug", **(manifest or {})}))
    if file is not None:
        (folder / ".mcp.json").write_text(json.dumps(file))
    return folder


@pytest.mark.parametrize("way", ["file", "file without mcpServers", "manifest", "file named by the manifest"])
def test_servers_of_a_plugin_are_used_under_its_name(chat: Chat, place: Place, way: str) -> None:
    folder = place.root / "plug"
    server = {"command": sys.executable, "args": ["${CLAUDE_PLUGIN_ROOT}/things_server.py"]}
    named = {"things": server}
    made = {
        "file": lambda: plugin_with_servers(folder, file={"mcpServers": named}),
        "file without mcpServers": lambda: plugin_with_servers(folder, file=named),
        "manifest": lambda: plugin_with_servers(folder, {"mcpServers": named}),
        "file named by the manifest": lambda: plugin_with_servers(folder, {"mcpServers": "./servers.json"}),
    }
    made[way]()
    (folder / "servers.json").write_text(json.dumps({"mcpServers": named}))
    shutil.copy(HERE / "things_server.py", folder)
    calls = [use("mcp__plugin_plug_things__variable", name="CLAUDE_PLUGIN_ROOT")]
    allowed = ("--allowedTools", "mcp__plugin_plug_things", "--plugin-dir", folder)
    ran = chat(*STREAM, *allowed, script=[{"content": calls}, "Done."])
    assert (ran.code, ran.err) == (0, "")
    assert results(ran.objects) == [json.dumps({"result": str(folder)}, separators=(",", ":"))]


@pytest.mark.parametrize(
    "file", [5, {"mcpServers": 5}, {"mcpServers": {"x": 5}}, {"mcpServers": {"x": {"command": 5}}}]
)
def test_a_plugin_with_wrong_servers_is_named_and_stops_nothing(chat: Chat, place: Place, file: object) -> None:
    folder = plugin_with_servers(place.root / "plug", {"mcpServers": "../../secret.json"}, file)
    ran = chat("-p", "go", "--plugin-dir", folder, script=["Hi."])
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert "plug" in ran.err


def test_a_prompt_of_a_server_is_a_slash_command(chat: Chat, place: Place) -> None:
    expected = {"content": "Hello.", "expect": {"anywhere": ["Greet the whole world kindly."]}}
    ran = chat("-p", '/mcp__things__greet "the whole world"', "--mcp-config", config(things=THINGS), script=[expected])
    assert ran.out == "Hello.\n"
    assert "<command-name>/mcp__things__greet</command-name>" in place.sessions()[0].read_text()
    missing = chat("-p", "/mcp__things__greet", "--mcp-config", config(things=THINGS), script=["Hi."])
    assert missing.code == 2
    assert missing.err.startswith("unspool: `/mcp__things__greet` needs `name`")


@pytest.fixture(params=["http", "sse"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Start a server on loopback; yield its configuration."""
    note = tmp_path / "port"
    with subprocess.Popen(
        [sys.executable, str(HERE / "things_server.py"), request.param, str(note)],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:  # it says so when it listens
            if "running on" in line:
                break
        path = "mcp" if request.param == "http" else "sse"
        yield {"type": request.param, "url": f"http://127.0.0.1:{note.read_text()}/{path}"}
        process.kill()


def test_a_server_is_reached_over_http(chat: Chat, address: dict[str, str]) -> None:
    script = [{"content": [use("mcp__things__add", a=20, b=22)]}, "Done."]
    ran = chat(*STREAM, *ALLOW, "--mcp-config", config(things=address), script=script)
    assert (results(ran.objects), ran.err) == (['{"result":42}'], "")


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_an_address_where_nobody_listens_is_one_line(chat: Chat, kind: str) -> None:
    server = {"type": kind, "url": "http://127.0.0.1:9/mcp"}
    ran = chat("-p", "go", "--mcp-config", config(bad=server), script=["Hi."])
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert ran.err.startswith("unspool: MCP server `bad` is not connected: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("refuses", "it ended with exit code 7 (it wrote: no such key"),
        ("sleeps", "it did not start within 2 s"),
        ("list", "its answer does not follow the protocol"),
    ],
)
def test_a_server_that_does_not_start_is_one_line(chat: Chat, way: str, said: str) -> None:
    servers = config(things=THINGS, bad=hostile(way))
    script = [{"content": [use("mcp__things__add", a=1, b=1), use("mcp__bad__call")]}, "Done."]
    # The good server must not need all of the time, however slow the machine is: only the one that sleeps gets little.
    ran = chat(
        *STREAM, *ALLOW, "--mcp-config", servers, script=script, MCP_TIMEOUT="2000" if way == "sleeps" else "30000"
    )
    assert ran.err.startswith("unspool: MCP server `bad` is not connected: ") or way == "sleeps"
    assert said in ran.err
    assert "\x1b" not in ran.err
    assert all(line.startswith("unspool: MCP server `") for line in ran.err.splitlines())
    assert ran.objects[-1]["result"] == "Done."


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("dies", "it ended with exit code -9"),
        ("endless", "it sent a line of more than 16 MB"),
        ("floods", "it sent more than 10,000 messages that nobody asked for"),
        ("chatters", "it printed more than 10,000 lines that are no messages"),
        ("odd", "its answer does not follow the protocol"),
        ("hangs", 'MCP server "bad" tool "call" timed out after 0.5 s'),
    ],
)
def test_a_call_that_a_server_spoils_is_an_error_and_the_chat_goes_on(chat: Chat, way: str, said: str) -> None:
    script = [{"content": [use("mcp__bad__call"), use("mcp__things__add", a=1, b=1)]}, "Done."]
    environment = {"MCP_TOOL_TIMEOUT": "500"} if way == "hangs" else {}
    servers = config(things=THINGS, bad=hostile(way))
    ran = chat(*STREAM, *ALLOW, "--mcp-config", servers, script=script, **environment)
    spoiled, good = results(ran.objects)
    assert ran.err == ""
    assert said in spoiled
    assert good == '{"result":2}'
    assert ran.objects[-1]["result"] == "Done."


def test_results_of_odd_kinds_harm_nothing(chat: Chat) -> None:
    for way, said in (
        ("escapes", "owned"),
        ("huge", "Output has been saved to"),
        ("image", "a picture that"),
        ("changes", "changed"),
    ):
        script = [{"content": [use("mcp__bad__call")]}, "Done."]
        ran = chat(*STREAM, *ALLOW, "--mcp-config", config(bad=hostile(way)), script=script)
        assert said in json.dumps(results(ran.objects))
        assert ("\x1b" in ran.out, ran.err) == (False, "")
        assert ran.objects[-1]["result"] == "Done."


def test_schemas_that_the_api_would_refuse_are_replaced(chat: Chat) -> None:
    ran = chat(*STREAM, "--mcp-config", config(bad=hostile("schemas")), script=["Hi."])
    names = [name for name in ran.objects[0]["tools"] if name.startswith("mcp__")]
    assert names == [f"mcp__bad__{name}" for name in ("top", "unknown", "keys", "deep", "large", "same")]
    assert ran.err.count("is replaced: ") == 4
    assert ran.err.count("it is not used") == 2
    assert ran.objects[-1]["result"] == "Hi."


class Wrong(http.server.BaseHTTPRequestHandler):
    """Answers each request with what its path names."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status = {"/401": 401, "/500": 500}.get(self.path, 200)
        self.send_response(status)
        kinds = {"/html": "text/html", "/endless-event": "text/event-stream"}
        self.send_header("content-type", kinds.get(self.path, "application/json"))
        if self.path == "/bomb":
            self.send_header("content-encoding", "gzip")
        self.end_headers()
        try:
            while self.path.startswith("/endless"):
                self.wfile.write(b"x" * 1_000_000)
            if self.path == "/bomb":
                self.wfile.write(gzip.compress(b" " * 300_000_000, 1))
            self.wfile.write(b"<html>\x1b[2J</html>" if self.path == "/html" else b'{"jsonrpc": 5}')
        except OSError:
            pass  # the other end has had enough

    do_GET = do_POST  # noqa: N815 the name is that of the library

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.parametrize("path", ["401", "500", "html", "json", "endless", "endless-event", "bomb"])
def test_an_address_that_answers_something_else_is_one_line(chat: Chat, path: str) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wrong) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        server = {"type": "http", "url": f"http://127.0.0.1:{pages.server_port}/{path}"}
        ran = chat("-p", "go", "--mcp-config", config(bad=server), script=["Hi."])
        pages.shutdown()
    assert ran.out == "Hi.\n"
    assert ran.err.startswith("unspool: MCP server `bad` is not connected: ")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert {"401": "it needs a login", "500": "HTTP status 500"}.get(path, "") in ran.err


def test_a_list_that_never_ends_is_cut(chat: Chat) -> None:
    ran = chat(*STREAM, "--mcp-config", config(bad=hostile("pages")), script=["Hi."])
    assert ran.objects[-1]["result"] == "Hi."


def test_no_server_outlives_the_chat(chat: Chat, place: Place) -> None:
    mark = f"UNSPOOL_TEST_MARK_{os.getpid()}"
    servers = {name: {**hostile(name), "env": {mark: "1"}} for name in ("sleeps", "escapes")}
    chat("-p", "go", "--mcp-config", config(**servers), script=["Hi."], MCP_TIMEOUT="500")
    assert [process for process in psutil.process_iter() if _has_mark(process, mark)] == []


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return mark in process.environ()
    except psutil.Error:
        return False


def test_with_fifty_tools_the_first_request_grows_by_less_than_2000_tokens(chat: Chat, place: Place) -> None:
    given = config(many=MANY)
    script = {"cues": {"go": ["Hi."]}}
    alone = chat(*STREAM, script=script).objects[-1]["usage"]["input_tokens"]
    ran = chat(*STREAM, "--mcp-config", given, script=script)
    assert sum(name.startswith("mcp__many__") for name in ran.objects[0]["tools"]) == 50
    assert ran.objects[-1]["usage"]["input_tokens"] - alone < 2_000
    undeferred = chat(*STREAM, "--mcp-config", given, script=script, ENABLE_TOOL_SEARCH="false")
    assert undeferred.objects[-1]["usage"]["input_tokens"] - alone > 5_000


def test_a_deferred_tool_is_found_and_called(chat: Chat, place: Place) -> None:
    given = config(many=MANY)
    script = [
        {"content": [use("ToolSearch", query="select:mcp__many__tool_7"), use("ToolSearch", query="elephants")]},
        {
            "content": [use("mcp__many__tool_7", path="a")],
            "expect": {"anywhere": ["can be called now: mcp__many__tool_7"]},
        },
        "Done.",
    ]
    ran = chat(*STREAM, "--allowedTools", "mcp__many", "--mcp-config", given, script=script)
    found, nothing, called = results(ran.objects)
    assert found == [{"type": "tool_reference", "tool_name": "mcp__many__tool_7"}]
    assert nothing == "No matching deferred tools found"
    assert called == [{"type": "text", "text": "tool_7"}]
    lines = [json.loads(line) for line in place.sessions()[0].read_text().splitlines()]
    searched = next(line["toolUseResult"] for line in lines if "matches" in (line.get("toolUseResult") or ()))
    expected = {"matches": ["mcp__many__tool_7"], "query": "select:mcp__many__tool_7", "total_deferred_tools": 50}
    assert searched == expected
    again = {"content": "Back.", "expect": {"tools": ["mcp__many__tool_7"]}}
    resumed = chat(*STREAM, "--resume", place.sessions()[0].stem, "--mcp-config", given, script=[again])
    assert resumed.objects[-1]["result"] == "Back."
    gone = chat(*STREAM, "--resume", place.sessions()[0].stem, script=["Back again."])
    assert gone.objects[-1]["result"] == "Back again."
