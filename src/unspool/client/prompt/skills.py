"""Loads skills (`skills/NAME/SKILL.md`) of the user, the project and plugins.

Rules
  1. The model is told names and descriptions only (`tools/skill.py`). The text of a skill is sent when it is used.
  2. A skill is a custom command with a folder of its own: arguments, shell commands and files work the same way.
  3. `disable-model-invocation` keeps a skill from the model, `user-invocable: false` from the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from unspool.client.prompt.custom_commands import CustomCommand
from unspool.client.prompt.definition_files import DEFINED_NAME, DefinitionFile, Definitions, Plugin, load_definitions
from unspool.errors import Unreadable
from unspool.permissions import split_rules


def load_skills(
    config: Path, root: Path, *, trusted: bool, plugins: Sequence[Plugin] = ()
) -> Definitions[CustomCommand]:
    """Load the skills by name; the project's go before the user's."""
    return load_definitions(config, root, "skills", _read_skill, trusted=trusted, plugins=plugins, pattern="*/SKILL.md")


def _read_skill(file: DefinitionFile) -> CustomCommand:
    """Read the skill that a file defines; `Unreadable` says what is wrong with it."""
    fields, body = file.read("skill")
    # Claude Code calls a skill by its folder; `name` is what it is shown as.
    name = file.path.parent.name
    if not DEFINED_NAME.fullmatch(name):
        raise Unreadable(f"invalid skill name `{file.path.parent}`")
    first_line = next((line.strip("# ") for line in body.splitlines() if line.strip()), "")
    description = fields.get("description", first_line[:100])
    when = fields.get("when_to_use") or fields.get("when-to-use")
    model = fields.get("model")
    return CustomCommand(
        name=file.full_name(name),
        source=file.source,
        path=file.path,
        body=body,
        description=f"{description} - {when}" if when else description,
        hint=fields.get("argument-hint", ""),
        allowed=tuple(split_rules(fields.get("allowed-tools", "").strip("[]"))),
        model=None if model == "inherit" else model,
        arguments=tuple(re.findall(r"[^\W\d]\w*", fields.get("arguments", ""))),
        plugin_root=file.plugin.root if file.plugin else None,
        skill_folder=file.path.parent,
        for_model=not _is_true(fields.get("disable-model-invocation")),
        for_user=fields.get("user-invocable", "true").lower() != "false",
        forks=fields.get("context") == "fork",
        agent=fields.get("agent"),
    )


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"
