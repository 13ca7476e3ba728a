"""Commands as real processes: what they say, how they end, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import base64
import os
import resource
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.tools.calling import decoded
from tests.client.tools.commanding import call, context, is_running, made, said, until
from tests.profiles import examples
from unspool.client.tool_context import ToolContext
from unspool.client.tools.shell.bash import BashTool, find_pull_request
from unspool.testing.pictures import table

BASH = BashTool()


def test_what_a_command_says_is_told_with_its_errors_in_order(tmp_path: Path) -> None:
    outcome = call(BASH, context(tmp_path), command="printf '\\n\\n  one\\n'; echo two >&2; echo three")
    assert outcome.content == "  one\ntwo\nthree"
    assert outcome.result == {"stdout": "  one\ntwo\nthree", "stderr": "", "interrupted": False, "isImage": False}
    assert not outcome.is_error
    decoded("Bash", outcome)


def test_a_command_that_says_nothing_is_told_so(tmp_path: Path) -> None:
    outcome = call(BASH, context(tmp_path), command="true")
    assert outcome.content == "(Bash completed with no output)"
    assert outcome.result["stdout"] == ""


def test_a_command_that_fails_is_an_error_with_its_code(tmp_path: Path) -> None:
    outcome = call(BASH, context(tmp_path), command="echo so far; exit 3")
    assert (outcome.content, outcome.result) == ("Exit code 3\nso far", "Error: Exit code 3\nso far")
    assert outcome.is_error


def test_a_shell_that_is_killed_has_the_code_of_its_signal(tmp_path: Path) -> None:
    assert call(BASH, context(tmp_path), command="kill -9 $$").content == "Exit code 137"


@pytest.mark.parametrize(
    ("command", "meaning"),
    [
        ("grep zebra notes", "No matches found"),
        ("cat notes | grep zebra", "No matches found"),
        ("cd . && A=1 /usr/bin/grep 'a|b;c' notes", "No matches found"),
        ("diff notes other > /dev/null", "Files differ"),
        ("test -f nowhere", "Condition is false"),
        ("[ -f nowhere ]", "Condition is false"),
    ],
)
def test_an_exit_code_that_is_an_answer_is_no_error(tmp_path: Path, command: str, meaning: str) -> None:
    at = context(tmp_path)
    (at.cwd / "notes").write_text("milk\n")
    (at.cwd / "other").write_text("tea\n")
    outcome = call(BASH, at, command=command)
    assert not outcome.is_error
    assert outcome.result["returnCodeInterpretation"] == meaning


@pytest.mark.parametrize(
    "command", ["grep zebra notes && echo found", "grep zebra nowhere", "false # grep", "echo 'a; exit 1"]
)
def test_another_exit_code_is_an_error(tmp_path: Path, command: str) -> None:
    at = context(tmp_path)
    (at.cwd / "notes").write_text("milk\n")
    assert call(BASH, at, command=command).is_error


def test_there_is_nothing_to_read_and_no_terminal(tmp_path: Path) -> None:
    outcome = call(
        BASH, context(tmp_path), command="cat; test -t 0 || echo none; (: < /dev/tty) 2> /dev/null || echo no tty"
    )
    assert outcome.content == "none\nno tty"


def test_the_folder_is_kept_and_variables_are_not(tmp_path: Path) -> None:
    at = context(tmp_path)
    call(BASH, at, command="mkdir -p 'a b/c'; cd 'a b/c'; VALUE=1")
    assert call(BASH, at, command="pwd; echo [$VALUE]").content == f"{at.workspace.root}/a b/c\n[]"


def test_the_folder_stays_where_it_was_if_the_command_fails(tmp_path: Path) -> None:
    at = context(tmp_path)
    call(BASH, at, command="mkdir sub; cd sub; false")
    assert at.cwd == at.workspace.root


@pytest.mark.parametrize("command", ["cd ..", "cd /", "ln -s / link; cd link", "mkdir x; cd x/../.."])
def test_a_folder_outside_is_left_again(tmp_path: Path, command: str) -> None:
    at = context(tmp_path)
    outcome = call(BASH, at, command=f"{command}; echo there")
    assert outcome.content == f"there\nShell cwd was reset to {at.workspace.root}"
    assert outcome.result["stderr"] == f"Shell cwd was reset to {at.workspace.root}"
    assert at.cwd == at.workspace.root


def test_a_folder_that_was_added_is_not_outside(tmp_path: Path) -> None:
    at = context(tmp_path)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    at.workspace = at.workspace._replace(added=(tmp_path / "other",))
    assert call(BASH, at, command="cd ../other/deep; pwd").content == str(tmp_path / "other" / "deep")
    assert at.cwd == tmp_path / "other" / "deep"


def test_a_folder_that_is_gone_is_left_for_the_project(tmp_path: Path) -> None:
    at = context(tmp_path)
    call(BASH, at, command="mkdir sub; cd sub")
    (at.workspace.root / "sub").rmdir()
    assert call(BASH, at, command="pwd").content == str(at.workspace.root)


def test_our_keys_are_not_in_the_environment_of_a_command(tmp_path: Path) -> None:
    keys = {
        "ANTHROPIC_API_KEY": "s1",
        "ANTHROPIC_AUTH_TOKEN": "s2",
        "ANTHROPIC_CUSTOM_HEADERS": "x: s3",
        "CLAUDE_CODE_OAUTH_TOKEN": "s4",
        "UNSPOOL_SINK_PASSWORD": "s5",
    }
    outcome = said(call(BASH, context(tmp_path, **keys, MINE="kept"), command="env"))
    assert "MINE=kept" in outcome
    assert [name for name in keys if name in outcome] == []


@pytest.mark.parametrize("path", [".:{}", ":{}", "{}:", "bin:{}", "{}::/usr/bin", "./:{}"])
def test_a_program_in_the_folder_does_not_shadow_one_of_the_system(tmp_path: Path, path: str) -> None:
    at = context(tmp_path, PATH=path.format(os.environ["PATH"]), CDPATH=".")
    for name in ("ls", "zebra", "bin/ls", "bin/zebra"):
        (at.cwd / name).parent.mkdir(exist_ok=True)
        (at.cwd / name).write_text("#!/bin/sh\necho shadow\n")
        (at.cwd / name).chmod(0o755)
    outcome = call(BASH, at, command="ls; zebra || echo no such program")
    assert "shadow" not in said(outcome)
    assert "no such program" in said(outcome)


def test_a_sleep_that_takes_too_long_is_ended_and_what_it_said_is_told(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome = call(BASH, context(tmp_path), command="sleep 0; echo started; sleep 600", timeout=1500)
    assert outcome.content == "Exit code 143\nCommand timed out after 1.5s\nstarted"
    assert outcome.is_error
    assert time.monotonic() - began < 60


def interrupted(at: ToolContext, command: str, *files: str) -> list[int]:
    """Cancel a command when it has written the ids of its processes to files; return them."""

    async def whole() -> None:
        running = asyncio.create_task(made(BASH, at, command=command))
        await until(lambda: all((at.cwd / name).exists() and (at.cwd / name).read_text() for name in files))
        running.cancel()
        await asyncio.sleep(0)
        running.cancel()  # impatient
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(whole())
    return [int((at.cwd / name).read_text()) for name in files]


def test_a_command_that_does_not_listen_is_ended_too(tmp_path: Path) -> None:
    inner = "(trap '' TERM; echo $BASHPID > inner; while :; do sleep 1; done)"
    processes = interrupted(context(tmp_path), f"trap '' TERM INT HUP; echo $$ > outer; {inner}", "outer", "inner")
    assert not any(map(is_running, processes))


def test_what_left_the_group_is_ended_with_the_command(tmp_path: Path) -> None:
    once = "setsid sh -c 'echo $$ > once; exec sleep 600' &"
    twice = "(setsid setsid sh -c 'echo $$ > twice; exec sleep 600' &);"
    processes = interrupted(context(tmp_path), f"{once} {twice} sleep 600", "once", "twice")
    assert not any(map(is_running, processes))


def test_a_call_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    (group,) = interrupted(context(tmp_path), "echo $$ > pid; sleep 600 | sleep 600", "pid")
    groups = subprocess.run(["ps", "-eo", "pgid,stat"], capture_output=True, text=True, check=True).stdout
    assert [line for line in groups.splitlines() if line.split()[0] == str(group) and "Z" not in line] == []


def test_what_a_command_put_in_the_background_goes_on_until_the_conversation_is_closed(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def conversation() -> None:
        await made(BASH, at, command="(while :; do echo tick; sleep 0.01; done) & echo $! > pid")
        process = int((at.cwd / "pid").read_text())
        again = await made(BASH, at, command=f"kill -0 {process} && echo alive")
        assert again.content == "alive"
        await at.tasks.stop()
        await until(lambda: not is_running(process))

    asyncio.run(conversation())


def test_how_a_command_goes_is_told_after_two_seconds_and_when_it_has_said_more(tmp_path: Path) -> None:
    at = context(tmp_path)
    told: list[tuple[str, dict[str, Any]]] = []
    at.report_progress = lambda call_id, data: told.append((call_id, data))
    call(BASH, at, command="seq 9; sleep 3.5; echo 10; sleep 1.5")
    assert len(told) == 2
    assert told[0][1]["elapsedTimeSeconds"] >= 2
    assert told[1][1]["output"] == "6\n7\n8\n9\n10"
    assert told[0][0] == "toolu_1"
    assert told[0][1]["type"] == "bash_progress"
    assert told[0][1]["output"] == "5\n6\n7\n8\n9"
    assert told[0][1]["totalLines"] == 9


def test_a_long_output_is_in_a_file_beside_the_session(tmp_path: Path) -> None:
    at = context(tmp_path)
    outcome = call(BASH, at, command="seq 1 20000")
    path = at.workspace.side_folder / "tool-results" / "toolu_1.txt"
    whole = "".join(f"{number}\n" for number in range(1, 20001))
    assert path.read_text() == whole
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert said(outcome).startswith(
        f"<persisted-output>\nOutput too large (106.3KB). Full output saved to: {path}\n\nPreview (first 2KB):\n1\n2\n"
    )
    assert said(outcome).endswith("\n526\n527\n...\n</persisted-output>")
    assert outcome.result["persistedOutputPath"] == str(path)
    assert outcome.result["persistedOutputSize"] == len(whole)
    assert whole.startswith(outcome.result["stdout"])
    decoded("Bash", outcome)


def test_a_long_output_of_a_command_that_fails_keeps_both_ends(tmp_path: Path) -> None:
    outcome = said(call(BASH, context(tmp_path), command="seq 1 20000; exit 2"))
    assert outcome.startswith("Exit code 2\n1\n2\n")
    assert "\n\n... [98894 characters truncated] ...\n\n" in outcome
    assert "\n19999\n20000\n\nFull output saved to: " in outcome


FLOOD = """
import asyncio, resource, sys
from pathlib import Path
from tests.client.tools.calling import decoded
from tests.client.tools.commanding import call, context
from unspool.client.tools.shell.bash import BashTool
at = context(Path(sys.argv[1]))
call(BashTool(), at, command="true")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
outcome = call(BashTool(), at, command="head -c 50000000 /dev/zero | tr '\\\\0' x; exit " + sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(outcome.content), len(str(outcome.result)))
"""


@pytest.mark.parametrize("code", ["0", "1"])
def test_fifty_megabytes_of_output_cost_a_few_of_memory(tmp_path: Path, code: str) -> None:
    run = subprocess.run([sys.executable, "-c", FLOOD, str(tmp_path), code], capture_output=True, text=True, check=True)
    kilobytes, content, result = map(int, run.stdout.split())
    (saved,) = tmp_path.glob("config/projects/*/*/tool-results/toolu_1.txt")
    assert saved.stat().st_size == 50_000_000
    assert kilobytes < 16_000
    assert content < 12_000
    assert result < 32_000


def test_an_output_without_end_has_a_file_with_an_end(tmp_path: Path) -> None:
    at = context(tmp_path)
    outcome = call(BASH, at, command="head -c 70000000 /dev/zero")
    assert "Output exceeded the 64MB persist limit; only the first part was saved to: " in said(outcome)
    assert (at.workspace.side_folder / "tool-results" / "toolu_1.txt").stat().st_size == 64 << 20
    assert outcome.result["persistedOutputSize"] == 70_000_000


def test_an_output_that_cannot_be_saved_is_still_told(tmp_path: Path) -> None:
    at = context(tmp_path)
    at.workspace.side_folder.parent.mkdir(parents=True)
    at.workspace.side_folder.write_text("in the way")
    outcome = call(BASH, at, command="seq 1 20000")
    assert "Output too large (106.3KB), and it could not be saved: " in said(outcome)
    assert "persistedOutputPath" not in outcome.result


def test_a_disk_that_is_full_ends_the_file_and_not_the_call(tmp_path: Path) -> None:
    at = context(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, limits[1]))  # as little room as a full disk has
    try:
        outcome = call(BASH, at, command="head -c 5000000 /dev/zero | tr '\\0' x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "Only a part could be saved (file too large): " in said(outcome)
    assert (at.workspace.side_folder / "tool-results" / "toolu_1.txt").stat().st_size == 1_500_000


def test_a_call_with_an_unusual_id_is_saved_under_a_plain_name(tmp_path: Path) -> None:
    at = context(tmp_path)

    async def twice() -> None:
        for _ in range(2):
            await made(BASH, at, "../../../../etc/x", command="seq 1 20000")

    asyncio.run(twice())
    names = sorted(path.name for path in (at.workspace.side_folder / "tool-results").iterdir())
    assert len(names) == 2
    assert all("/" not in name and name.startswith("call-") for name in names)
    assert list(tmp_path.rglob("x.txt")) == []


def test_a_picture_that_is_printed_is_shown(tmp_path: Path) -> None:
    address = "data:image/jpeg;base64," + base64.b64encode(table()).decode()
    outcome = call(BASH, context(tmp_path), command=f"echo '{address}'")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(table()).decode()}
    assert outcome.content == [{"type": "image", "source": source}]
    assert outcome.result == {"stdout": address, "stderr": "", "interrupted": False, "isImage": True}


@pytest.mark.parametrize("address", ["data:image/png;base64,bm8gcGljdHVyZQ==", "data:image/png;base64,%%%"])
def test_what_only_looks_like_a_picture_is_text(tmp_path: Path, address: str) -> None:
    assert call(BASH, context(tmp_path), command=f"echo '{address}'").content == address


def test_a_picture_that_the_api_would_refuse_is_text(tmp_path: Path) -> None:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (9000).to_bytes(4) + (1).to_bytes(4) + bytes(100)
    address = "data:image/png;base64," + base64.b64encode(header).decode()
    assert call(BASH, context(tmp_path), command=f"echo '{address}'").content == address


def test_bytes_that_are_no_text_are_told_as_far_as_they_are(tmp_path: Path) -> None:
    assert call(BASH, context(tmp_path), command="printf 'a\\xffb'").content == "a\ufffdb"


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({}, "The required parameter `command` is missing"),
        ({"command": 5}, "The parameter `command` type is expected as `string` but provided as `number`"),
        ({"command": "true", "timeout": []}, "`timeout`"),
        ({"command": "a\0b"}, "could not be started"),
        ({"command": "x" * 3_000_000}, "could not be started: Argument list too long"),
    ],
)
def test_an_input_that_does_not_fit_gets_words_to_act_on(tmp_path: Path, input: dict[str, Any], words: str) -> None:
    outcome = call(BASH, context(tmp_path), **input)
    assert outcome.is_error
    assert words in said(outcome)


def test_a_timeout_is_at_most_what_the_environment_says(tmp_path: Path) -> None:
    at = context(tmp_path, BASH_MAX_TIMEOUT_MS="200", BASH_DEFAULT_TIMEOUT_MS="nonsense")
    assert "timed out after 0.2s" in said(call(BASH, at, command="sleep 600", timeout=99999999))


def test_a_sandbox_that_is_not_there_may_be_left(tmp_path: Path) -> None:
    assert call(BASH, context(tmp_path), command="echo hi", dangerouslyDisableSandbox=True).content == "hi"


@settings(max_examples=examples(20), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60))
def test_a_command_is_what_the_shell_is_given(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        outcome = call(BASH, context(Path(folder)), command=f"printf %s {shlex.quote(text)} > out")
        assert not outcome.is_error
        assert (Path(folder) / "work" / "out").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        (
            "gh pr create --fill",
            "Creating…\nhttps://github.com/o/r/pull/12\n",
            (12, "https://github.com/o/r/pull/12", "o/r"),
        ),
        (
            "git push && gh  pr  create",
            "https://ghe.e.org/a-b/c.d/pull/3",
            (3, "https://ghe.e.org/a-b/c.d/pull/3", "a-b/c.d"),
        ),
        ("gh pr view", "https://github.com/o/r/pull/12", None),
        ("gh pr create", "pull request create failed", None),
    ],
)
def test_a_pull_request_that_was_made_is_known(
    command: str, output: str, expected: tuple[int, str, str] | None
) -> None:
    assert find_pull_request(command, output) == expected
