"""Write the man page `unspool(1)` from the help of the commands: `python -m scripts.man_page [--check]`.

It is installed with the package. `make fix` writes it again, and `make check` fails if it is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
PATH = ROOT / "data" / "share" / "man" / "man1" / "unspool.1"
ENVIRONMENT = (
    ("CLAUDE_CONFIG_DIR", "The config folder of Claude Code. Default: ~/.claude."),
    ("UNSPOOL_HOME", "The folder in which unspool keeps its data. Default: ~/.local/share/unspool."),
    ("UNSPOOL_PAGER, PAGER", "The pager for long output. Default: less. `cat` means none."),
    ("NO_COLOR", "If set, print no colours."),
)


def render() -> str:
    """Return the page as roff."""
    from unspool.cli.main import EXIT_CODES, unspool

    context = click.Context(unspool, info_name="unspool")
    lines = ['.TH UNSPOOL 1 "" unspool "User Commands"', ".SH NAME", "unspool \\- read the sessions of Claude Code"]
    lines += [".SH SYNOPSIS", ".B unspool", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGS\\fR]"]
    lines += [".SH DESCRIPTION", *_paragraphs(unspool.help or ""), ".SH OPTIONS", *_options(unspool, context)]
    lines += [".SH COMMANDS"]
    for name in unspool.list_commands(context):
        command = unspool.get_command(context, name)
        assert command is not None
        lines += _command(name, command, context)
    lines += [
        ".SH EXIT STATUS",
        *_definitions((str(code), meaning) for code, meaning in EXIT_CODES.items()),
        ".SH ENVIRONMENT",
        *_definitions(ENVIRONMENT),
    ]
    return "\n".join(lines) + "\n"


def main(*arguments: str) -> None:
    """Write the page, or tell whether it is up to date."""
    text = render()
    if "--check" in arguments:
        if not PATH.exists() or PATH.read_text("utf-8") != text:
            sys.exit(f"{PATH.relative_to(ROOT)} is out of date: run `make fix`")
        return
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(text, "utf-8")


def _command(path: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f'.SS "{escape(f"unspool {path} {usage}")}"', *_paragraphs(command.help or ""))
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(f"{path} {name}", inner, context)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = (option.get_help_record(context) for option in command.get_params(context))
    yield from _definitions(record for record in records if record)


def _definitions(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in pairs:
        yield from (".TP", f"\\fB{escape(name)}\\fR", escape(" ".join(meaning.split())))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        yield from (".PP", escape(" ".join(paragraph.split())))


def escape(text: str) -> str:
    """Return text in which nothing is taken for a roff command.

    >>> escape(".SH --x")
    '\\\\&.SH \\\\-\\\\-x'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "\\(ga")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    main(*sys.argv[1:])
