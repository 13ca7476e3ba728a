"""Which MCP servers a chat uses: files, flags, scopes and approvals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.conftest import Chat, Place
from tests.client.mcp.conftest import THINGS, config, use
from unspool.client.mcp.approvals import FILE_NAME, FolderApprovals, ServerApprovals
from unspool.client.mcp.config_files import ConfigScope, McpConfiguration, McpFlags, find_servers, own_file
from unspool.client.mcp.server_config import ServerConfig, parse_server
from unspool.errors import Unreadable, UsageError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def find(
    root: Path,
    *configs: str,
    settings: list[dict[str, Any]] | None = None,
    trusted: bool = True,
    strict: bool = False,
    sources: tuple[str, ...] | None = None,
    approvals: FolderApprovals | None = None,
) -> McpConfiguration:
    scope = ConfigScope(root / "config", root / "work", {"KEY": "secret"}, trusted, sources)
    (root / "work").mkdir(exist_ok=True)
    return find_servers(scope, McpFlags(configs, strict), settings or [], approvals or FolderApprovals())


def commands(found: McpConfiguration) -> dict[str, tuple[str, str]]:
    return {server.name: (server.command, server.scope) for server in found.servers}


def fill(root: Path) -> None:
    """Write servers of all scopes; `shared` is in each."""
    local = {"shared": {"command": "local"}, "mine": {"command": "mine"}}
    own = {
        "mcpServers": {"shared": {"command": "user"}, "everywhere": {"command": "user"}},
        "projects": {str(root / "work"): {"mcpServers": local}},
    }
    write(root / "config" / ".claude.json", own)
    write(
        root / "work" / ".mcp.json", {"mcpServers": {"shared": {"command": "project"}, "team": {"command": "project"}}}
    )


def test_the_nearest_scope_of_a_server_counts(tmp_path: Path) -> None:
    fill(tmp_path)
    found = find(tmp_path, config(everywhere={"command": "flag"}), settings=[{"enableAllProjectMcpServers": True}])
    assert commands(found) == {
        "shared": ("local", "local"),
        "everywhere": ("flag", "flag"),
        "team": ("project", "project"),
        "mine": ("mine", "local"),
    }


def test_a_server_of_the_project_is_used_only_if_it_is_approved(tmp_path: Path) -> None:
    fill(tmp_path)
    nobody = find(tmp_path)
    assert "team" not in commands(nobody)
    assert [server.name for server in nobody.pending] == ["team"]
    assert "team" in commands(find(tmp_path, settings=[{"enabledMcpjsonServers": ["team"]}]))
    refused = find(tmp_path, settings=[{"enableAllProjectMcpServers": True}, {"disabledMcpjsonServers": ["team"]}])
    assert ("team" in commands(refused), refused.pending) == (False, ())


def test_a_folder_that_is_not_trusted_has_no_servers_of_its_own(tmp_path: Path) -> None:
    fill(tmp_path)
    found = find(tmp_path, trusted=False, settings=[{"enableAllProjectMcpServers": True}])
    assert "team" not in commands(found)
    assert (found.pending, len(found.problems)) == ((), 1)


def test_strict_and_sources_leave_out_files(tmp_path: Path) -> None:
    fill(tmp_path)
    assert commands(find(tmp_path, config(one={"command": "x"}), strict=True)) == {"one": ("x", "flag")}
    assert [*commands(find(tmp_path, sources=("user",)))] == ["shared", "everywhere"]
    assert find(tmp_path, sources=()) == McpConfiguration()


def test_an_approval_is_for_a_server_as_it_is_configured(tmp_path: Path) -> None:
    fill(tmp_path)
    kept = ServerApprovals(tmp_path / "data")
    (server,) = find(tmp_path).pending
    kept.keep(tmp_path / "work", server, "approved")
    assert "team" in commands(find(tmp_path, approvals=kept.read(tmp_path / "work")))
    write(tmp_path / "work" / ".mcp.json", {"mcpServers": {"team": {"command": "other"}}})
    changed = find(tmp_path, approvals=kept.read(tmp_path / "work"))
    assert [server.command for server in changed.pending] == ["other"]
    kept.keep(tmp_path / "work", changed.pending[0], "declined")
    assert find(tmp_path, approvals=kept.read(tmp_path / "work")).pending == ()
    assert kept.read(tmp_path) == FolderApprovals()


def test_approvals_that_cannot_be_read_approve_nothing_and_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("{")
    kept = ServerApprovals(tmp_path)
    assert kept.read(tmp_path) == FolderApprovals()
    with pytest.raises(Unreadable):
        kept.keep(tmp_path, ServerConfig(name="a", scope="project", transport="stdio"), "approved")
    assert path.read_text() == "{"


def test_variables_are_put_in_and_a_missing_one_is_named() -> None:
    given = {"type": "http", "url": "https://${HOST:-example.org}/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
    server = parse_server("a", given, "user", {"KEY": "secret"})
    assert (server.url, server.headers) == ("https://example.org/mcp", {"Authorization": "Bearer secret"})
    with pytest.raises(UsageError, match="`KEY` of its configuration is not set"):
        parse_server("a", given, "user", {})


@given(st.text(max_size=10), JSON_VALUES)
def test_any_configuration_is_a_server_or_a_problem(name: str, value: Any) -> None:
    try:
        server = parse_server(name, value, "user", {})
    except UsageError:
        return
    assert server.key


@given(JSON_VALUES, JSON_VALUES)
def test_any_file_is_read_without_an_error(tmp_path_factory: pytest.TempPathFactory, own: Any, project: Any) -> None:
    root = tmp_path_factory.mktemp("files")
    write(root / "config" / ".claude.json", {"mcpServers": own, "projects": {str(root / "work"): own}})
    write(root / "work" / ".mcp.json", {"mcpServers": project})
    find(root, settings=[{"enabledMcpjsonServers": project, "enableAllProjectMcpServers": own}])


def test_the_own_file_is_in_the_config_folder_or_beside_it(tmp_path: Path) -> None:
    assert own_file(tmp_path / ".claude") == tmp_path / ".claude.json"
    assert own_file(tmp_path / "other") == tmp_path / "other" / ".claude.json"


def test_a_script_does_not_start_a_server_that_nobody_approved(chat: Chat, place: Place) -> None:
    pytest.importorskip("mcp")
    touches = {"command": "touch", "args": [str(place.root / "started")]}
    write(place.work / ".mcp.json", {"mcpServers": {"team": touches}})
    ran = chat("-p", "go", "--trust", script=["Hi."])
    assert ran.out == "Hi.\n"
    assert "MCP servers of .mcp.json are not approved and not used: `team`" in ran.err
    assert not (place.root / "started").exists()


def test_a_server_that_settings_enable_is_used_by_a_script(chat: Chat, place: Place) -> None:
    pytest.importorskip("mcp")
    write(place.work / ".mcp.json", {"mcpServers": {"things": THINGS}})
    script = [{"content": [use("mcp__things__add", a=1, b=1)]}, {"content": "Two.", "expect": {"result": "2"}}]
    settings = json.dumps({"enabledMcpjsonServers": ["things"], "permissions": {"allow": ["mcp__things__add"]}})
    assert chat("-p", "go", "--trust", "--settings", settings, script=script).out == "Two.\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "--mcp-config is not a JSON object with `mcpServers`"),
        ('{"mcpServers": {"a": {}}}', "MCP server `a`: it has neither a `command` nor a `type`"),
        ("missing.json", "cannot read `missing.json` of --mcp-config"),
    ],
)
def test_a_wrong_flag_is_an_error_of_usage(chat: Chat, given: str, said: str) -> None:
    ran = chat("-p", "go", "--mcp-config", given, script=["Hi."])
    assert ran.code == 2
    assert said in ran.err


WITHOUT_SDK = """
import sys
if sys.argv[1] == "absent":
    sys.modules["mcp"] = None  # as if the extra were not installed
del sys.argv[1]
def tell(event, arguments):
    if event == "import" and arguments[0].partition(".")[0] in ("mcp", "mcp_types", "pydantic", "jsonschema"):
        print("loads", arguments[0], file=sys.stderr)
sys.addaudithook(tell)
from unspool.__main__ import main
main()
"""


def run_chat(place: Place, how: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_SDK, how, "chat", "-p", "go", "--model", place.script(["Hi."]), *flags]
    return subprocess.run(
        command, env=place.environment, cwd=place.work, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_chat_without_servers_does_not_load_the_sdk(place: Place) -> None:
    ran = run_chat(place, "installed")
    assert (ran.stdout, ran.stderr) == ("Hi.\n", "")


def test_without_the_extra_servers_of_files_are_left_out_and_those_of_a_flag_refused(place: Place) -> None:
    write(place.config / ".claude.json", {"mcpServers": {"things": THINGS}})
    ran = run_chat(place, "absent")
    assert ran.stdout == "Hi.\n"
    assert ran.stderr.startswith("unspool: MCP servers are not used: ")
    refused = run_chat(place, "absent", "--mcp-config", config(things=THINGS))
    assert refused.returncode != 0
    assert "mcp" in refused.stderr.splitlines()[1]
