"""Loads output styles: how the model talks (`outputStyle` of the settings, files in `output-styles/`).

Rules
  1. A style is added to the system prompt. It replaces what that says about answers, unless the file has
     `keep-coding-instructions: true`.
  2. A style that does not exist is reported, and the default is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from unspool.client.prompt.definition_files import DefinitionFile, Definitions, Plugin, load_definitions
from unspool.client.tool_result import Json

DEFAULT_STYLE = "default"


class OutputStyle(NamedTuple):
    """A way to talk."""

    name: str
    description: str
    prompt: str
    keeps_instructions: bool = False
    """Whether what the system prompt says about answers stays."""

    @property
    def section(self) -> str:
        """The section of the system prompt, in the words of Claude Code 2.1.326."""
        return f"# Output Style: {self.name}\n{self.prompt}"


BUILT_IN_STYLES = (
    OutputStyle(
        "Explanatory",
        "Explains why the code is as it is",
        "Besides the work, teach: before and after a change say in two or three sentences why it is made this way, "
        "what in this code base speaks for it, and which alternative was left.",
        keeps_instructions=True,
    ),
    OutputStyle(
        "Learning",
        "Lets you write some of the code yourself",
        "Work together with the person, who wants to learn. Where a decision or a few lines of code matter, do not "
        "write them: mark the place with `TODO(human)`, say what is needed and what to weigh, and wait.",
        keeps_instructions=True,
    ),
)


def load_output_styles(
    config: Path, root: Path, *, trusted: bool, plugins: Sequence[Plugin] = ()
) -> Definitions[OutputStyle]:
    """Load the styles by name."""
    found = load_definitions(config, root, "output-styles", _read_style, trusted=trusted, plugins=plugins)
    return found._replace(by_name={**{style.name: style for style in BUILT_IN_STYLES}, **found.by_name})


def choose_style(
    documents: Iterable[Json], styles: Definitions[OutputStyle]
) -> tuple[OutputStyle | None, tuple[str, ...]]:
    """Return the style that the last of some settings names, None for the default, and what is wrong with it."""
    name: object = None
    for document in documents:
        name = document.get("outputStyle", name)
    if name is None or name == DEFAULT_STYLE:
        return None, ()
    style = styles.by_name.get(name) if isinstance(name, str) else None
    return style, () if style else (f"there is no output style `{name}`: the default is used",)


def _read_style(file: DefinitionFile) -> OutputStyle:
    fields, body = file.read("output style")
    return OutputStyle(
        name=file.full_name(fields.get("name") or file.path.stem),
        description=fields.get("description", ""),
        prompt=body,
        keeps_instructions=fields.get("keep-coding-instructions", "").lower() == "true",
    )
