"""`unspool schema`: prints the JSON Schema of what a command writes with `--json`."""

from __future__ import annotations

import click

from unspool.cli import output
from unspool.errors import NotFound


def _complete_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from unspool.cli.documents.registry import DOCUMENTS

    return [name for name in DOCUMENTS if name.startswith(incomplete)]


@click.command()
@click.argument("command", nargs=-1, shell_complete=_complete_names)
@output.paged
def schema(command: tuple[str, ...]) -> None:
    """Print the JSON Schema of the --json output of a command.

    COMMAND is a command, or a form of it that writes another document: `ls`, `edit log`, `usage-explain`. Without it,
    all names are listed. docs/json.md describes every field.
    """
    from unspool.cli.documents.registry import DOCUMENTS, make_schema

    if not command:
        output.print_pairs(
            ((name, (document.__doc__ or "").splitlines()[0]) for name, document in DOCUMENTS.items()), indent=0
        )
        return
    name = "-".join(command)
    if name not in DOCUMENTS:
        raise NotFound(f"no JSON document is named `{name}`", hint="list the names with `unspool schema`")
    output.write_json(make_schema(name))
