"""Skills, output styles and plugins: what is loaded, what the model is told, what is written to the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Chat, Place
from unspool.client.prompt.plugins import load_plugins
from unspool.client.prompt.skills import load_skills
from unspool.errors import UsageError

COUNT = "---\ndescription: counts things\nwhen_to_use: when it rains\n---\nCount from one to $ARGUMENTS.\n"
Json = dict[str, Any]


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def use(skill: str, **more: str) -> Json:
    return {"type": "tool_use", "name": "Skill", "input": {"skill": skill, **more}}


def lines(place: Place) -> list[Json]:
    return [json.loads(line) for line in place.sessions()[-1].read_text().splitlines()]


def test_a_skill_is_listed_by_its_description_and_sent_when_it_is_used(chat: Chat, place: Place) -> None:
    write(place.config, {"skills/count/SKILL.md": COUNT})
    folder = place.config / "skills" / "count"
    text = f"Base directory for this skill: {folder}\n\nCount from one to three.\n"
    steps = [
        {"content": [use("count", args="three")], "expect": {"tools": ["Skill"]}},
        {"content": "Counted.", "expect": {"text": text}},
    ]
    assert chat("-p", "Count.", script=steps).out == "Counted.\n"
    found = lines(place)
    (result,) = [line for line in found if "toolUseResult" in line]
    (meta,) = [line for line in found if line.get("isMeta")]
    (call,) = [
        block for line in found if line["type"] == "assistant" for block in line["message"]["content"]
        if block["type"] == "tool_use"
    ]  # fmt: skip
    # What Claude Code 2.1.29 and 2.1.326 write for the same call.
    assert result["message"]["content"][0]["content"] == "Launching skill: count"
    assert result["toolUseResult"] == {"success": True, "commandName": "count"}
    assert meta["message"]["content"] == [{"type": "text", "text": text}]
    assert meta["sourceToolUseID"] == call["id"]
    assert meta["parentUuid"] == result["uuid"]


def test_only_names_and_descriptions_of_skills_are_in_the_prompt(chat: Chat, place: Place) -> None:
    write(place.config, {f"skills/s{number}/SKILL.md": COUNT + "A long text. " * 2000 for number in range(20)})
    body = first_request(chat, place)
    (tool,) = [tool for tool in body["tools"] if tool["name"] == "Skill"]
    assert "- s7: counts things - when it rains" in tool["description"]
    assert "A long text" not in json.dumps(body)
    assert len(tool["description"]) < 2_000


def first_request(chat: Chat, place: Place, *flags: str) -> Json:
    from unspool.testing.api import scripted

    with scripted(["Fine."]) as api:
        assert chat("-p", "hi", *flags, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="any").out == "Fine.\n"
    body: Json = api.bodies[0]
    return body


def test_without_skills_there_is_no_tool_for_them(chat: Chat, place: Place) -> None:
    assert "Skill" not in [tool["name"] for tool in first_request(chat, place)["tools"]]


def test_a_skill_may_allow_tools_until_its_turn_ends(chat: Chat, place: Place) -> None:
    skill = "---\ndescription: makes a file\nallowed-tools: Bash(touch:*)\n---\nMake !`touch inner` a file.\n"
    write(place.config, {"skills/make/SKILL.md": skill})
    touch = {"type": "tool_use", "name": "Bash", "input": {"command": "touch made", "description": "Make"}}
    steps = [{"content": [use("make")]}, {"content": [touch]}, "Done."]
    # The skill itself is asked about, as it allows more than reading.
    assert chat("-p", "Make.", script=steps).out == "Done.\n"
    assert not (place.work / "made").exists()
    assert chat("-p", "Make.", "--allowedTools", "Skill(make)", "--sandbox", "off", script=steps).out == "Done.\n"
    assert (place.work / "made").exists()
    assert (place.work / "inner").exists()
    (place.work / "made").unlink()
    assert chat("-p", "Again.", "--continue", script=[{"content": [touch]}, "Done."]).out == "Done.\n"
    assert not (place.work / "made").exists()


def test_a_skill_can_be_typed_and_listed(chat: Chat, place: Place) -> None:
    write(place.config, {"skills/count/SKILL.md": COUNT})
    expect = {"text": "Count from one to four."}
    assert chat("-p", "/count four", script=[{"content": "Counted.", "expect": expect}]).out == "Counted.\n"
    assert "<command-name>/count</command-name>" in json.dumps(lines(place))
    assert chat("-p", "/skills", script=["x"]).out == "count (user): counts things - when it rains\n"


def test_a_skill_with_a_context_of_its_own_is_done_by_a_subagent(chat: Chat, place: Place) -> None:
    write(
        place.config, {"skills/apart/SKILL.md": "---\ndescription: looks\ncontext: fork\n---\nReport on the notes.\n"}
    )
    steps = [{"content": [use("apart")]}, {"content": "All fine.", "expect": {"text": "Report on the notes."}}, "Done."]
    assert chat("-p", "Look.", script=steps).out == "Done.\n"
    (result,) = [line for line in lines(place) if "toolUseResult" in line]
    said = 'Skill "apart" completed (forked execution).\n\nResult:\nAll fine.'
    assert result["message"]["content"][0]["content"] == said
    told = result["toolUseResult"]
    assert (told["success"], told["commandName"], told["status"], told["result"]) == (
        True,
        "apart",
        "forked",
        "All fine.",
    )
    assert told["agentId"].startswith("a")


def test_skills_that_are_not_for_the_model_are_refused_in_claude_codes_words(chat: Chat, place: Place) -> None:
    write(place.config, {
        "skills/count/SKILL.md": COUNT,
        "skills/hidden/SKILL.md": "---\ndescription: x\ndisable-model-invocation: true\n---\nHidden.\n",
    })  # fmt: skip
    steps = [{"content": [use("hidden"), use("nope")]}, "No."]
    assert chat("-p", "Go.", script=steps).out == "No.\n"
    hidden, unknown = [line for line in lines(place) if "toolUseResult" in line]
    assert "due to disable-model-invocation" in hidden["toolUseResult"]
    assert unknown["toolUseResult"] == "Error: Unknown skill: nope"
    assert unknown["message"]["content"][0]["content"] == "<tool_use_error>Unknown skill: nope</tool_use_error>"


def test_skills_of_a_folder_act_once_it_is_trusted(tmp_path: Path) -> None:
    config, root = tmp_path / "config", tmp_path / "work"
    write(root, {".claude/skills/count/SKILL.md": COUNT})
    write(config, {"skills/outside/SKILL.md": COUNT})
    assert [*load_skills(config, root, trusted=False).by_name] == ["outside"]
    assert [*load_skills(config, root, trusted=True).by_name] == ["outside", "count"]
    (root / ".claude" / "skills" / "leads-out").symlink_to(config / "skills" / "outside")
    loaded = load_skills(config, root, trusted=True)
    assert "leads-out" not in loaded.by_name
    assert len(loaded.problems) == 1


def test_an_output_style_is_part_of_the_system_prompt(chat: Chat, place: Place) -> None:
    write(place.config, {
        "settings.json": json.dumps({"outputStyle": "pirate"}),
        "output-styles/pirate.md": "---\nname: pirate\ndescription: talks so\n---\nTalk like a pirate.\n",
    })  # fmt: skip
    said = json.dumps(first_request(chat, place)["system"])
    assert "# Output Style: pirate\\nTalk like a pirate." in said
    assert "# How you answer" not in said
    said = json.dumps(first_request(chat, place, "--settings", '{"outputStyle": "default"}')["system"])
    assert "pirate" not in said
    assert "# How you answer" in said
    told = chat("-p", "hi", "--output-format", "stream-json", script=["Arr."]).objects[0]
    assert told["output_style"] == "pirate"
    done = chat("-p", "hi", "--settings", '{"outputStyle": "nobody"}', script=["Hm."])
    assert "there is no output style `nobody`" in done.err


PLUGIN = {
    ".claude-plugin/plugin.json": '{"name": "tools", "version": "1.0.0"}',
    "commands/greet.md": "Greet $ARGUMENTS from ${CLAUDE_PLUGIN_ROOT}.\n",
    "agents/helper.md": "---\nname: helper\ndescription: helps\n---\nHelp.\n",
    "skills/count/SKILL.md": COUNT,
    "hooks/hooks.json": json.dumps({"hooks": {"PreToolUse": [
        {"matcher": "Bash", "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/deny.sh"'}]}
    ]}}),
    "deny.sh": "#!/bin/sh\necho not with me >&2\nexit 2\n",
}  # fmt: skip


def test_a_plugin_brings_commands_agents_skills_and_hooks(chat: Chat, place: Place) -> None:
    folder = place.root / "it's a plugin"
    write(folder, PLUGIN)
    (folder / "deny.sh").chmod(0o755)
    flags = (
        "--plugin-dir",
        str(folder),
        "--output-format",
        "stream-json",
        "--allowedTools",
        "Bash",
        "--sandbox",
        "off",
    )
    touch = {"type": "tool_use", "name": "Bash", "input": {"command": "touch made", "description": "Make"}}
    steps = [
        {"content": [use("tools:count", args="two"), touch], "expect": {"text": f"Greet Ann from {folder}."}},
        {"content": "Done.", "expect": {"text": "Count from one to two."}},
    ]
    objects = chat("-p", "/tools:greet Ann", *flags, script=steps).objects
    init, result = objects[0], objects[-1]
    assert result["result"] == "Done."
    assert init["plugins"] == [{"name": "tools", "path": str(folder)}]
    assert init["skills"] == ["tools:count"]
    assert "tools:greet" in init["slash_commands"]
    assert "tools:helper" in init["agents"]
    assert not (place.work / "made").exists()  # the hook has denied it


def test_installed_plugins_act_if_the_settings_enable_them(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "tools"
    write(folder, PLUGIN)
    listed = {"version": 2, "plugins": {"tools@market": [{"scope": "user", "installPath": str(folder)}]}}
    write(tmp_path, {"config/plugins/installed_plugins.json": json.dumps(listed)})
    config = tmp_path / "config"
    assert [plugin.name for plugin in load_plugins(config, [{"enabledPlugins": {"tools@market": True}}]).plugins] == [
        "tools"
    ]
    assert load_plugins(config, []).plugins == ()
    on, off = {"enabledPlugins": {"tools@market": True}}, {"enabledPlugins": {"tools@market": False}}
    assert load_plugins(config, [on, off]).plugins == ()
    missing = load_plugins(config, [{"enabledPlugins": {"gone@market": True}}, {"enabledPlugins": ["x"]}])
    assert missing.problems == ("the plugin `gone@market` is enabled, but not installed",)


def test_a_plugin_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="plugin folder not found"):
        load_plugins(tmp_path, [], [tmp_path / "nothing"])
    write(tmp_path, {"bad/.claude-plugin/plugin.json": '{"name": "../x"}'})
    with pytest.raises(UsageError, match="invalid plugin name"):
        load_plugins(tmp_path, [], [tmp_path / "bad"])
