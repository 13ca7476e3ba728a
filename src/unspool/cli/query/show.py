"""`unspool show`: prints a session."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from unspool.cli import output, store_access
from unspool.cli.query.show_file import print_file_versions
from unspool.cli.query.show_render import TranscriptRenderer
from unspool.cli.session_argument import open_session
from unspool.display import amount
from unspool.errors import NothingFound, UsageError
from unspool.export import DEPTH_NAMES, Depth, Section, build_branch_tree, number_sections, parse_turn_range
from unspool.home import Session


@click.command()
@click.argument("session")
@click.option("--turn", metavar="N", help="Only these turns: `3`, `-1` (the last), `2..5`, `4..`, `..3`.")
@click.option(
    "--depth",
    type=click.Choice(DEPTH_NAMES),
    default="steps",
    show_default=True,
    help="How much is told: prompts; answers too; tool calls too; all, with thinking, results and agents.",
)
@click.option("--tree", "as_tree", is_flag=True, help="Draw the turns as the tree of their branches.")
@click.option("--file", metavar="PATH[@vN[..vM]]", help="The versions of a file it changed; one of them; two compared.")
@click.option("--diff", is_flag=True, help="With --file: what changed from the version before.")
@click.option("-o", "--output", "target", metavar="FILE", help="With --file: write a version or diff to a new file.")
@click.option("--json", "as_json", is_flag=True, help="With --file: write the list of versions as JSON.")
@store_access.store_options
@output.config_option
def show(
    session: str,
    *,
    turn: str | None,
    depth: str,
    as_tree: bool,
    file: str | None,
    diff: bool,
    target: str | None,
    as_json: bool,
    access: store_access.AccessOptions,
) -> None:
    """Show a session: what was asked, what was done, what came of it.

    SESSION is a file, the beginning of a session's id, an agent's id or a title. On a terminal it goes through $PAGER,
    or `less`.

    With `--file`: files as they were before the session changed them. PATH, or the end of it, lists their versions,
    PATH@v2 is one of them, byte for byte, and PATH@v1..v3 the difference of two.
    """
    if file is not None:
        if turn or as_tree:
            raise UsageError("`--file` shows a file, not turns", hint="leave out `--turn` and `--tree`")
    elif diff or target or as_json:
        raise UsageError("`--diff`, `-o` and `--json` go with `--file`", hint="`unspool export` writes a whole session")
    with open_session(session, access) as opened:
        if file is not None:
            print_file_versions(opened, file, diff=diff, target=target, as_json=as_json)
        else:
            _print_session(opened, Depth[depth.upper()], turn, as_tree=as_tree)


def _print_session(session: Session, depth: Depth, turn: str | None, *, as_tree: bool) -> None:
    transcript = TranscriptRenderer(session, depth, output.terminal_width())
    if as_tree:
        pieces = _render_tree(transcript, session)
    else:
        pieces = _render_sections(transcript, _select_sections(session, turn), is_whole=turn is None)
    # The pager takes the pieces as they are made: the first turn of a long session is there at once.
    if sys.stdout.isatty():
        output.show_pages(pieces)
    else:
        for piece in pieces:
            click.echo(piece, nl=False)


def _render_sections(transcript: TranscriptRenderer, selected: list[Section], *, is_whole: bool) -> Iterator[str]:
    if is_whole:
        yield transcript.head()
    for number, section in enumerate(selected):
        text = transcript.section(section)
        yield text if is_whole or number else text.lstrip("\n")
    if is_whole:
        yield transcript.foot()


def _render_tree(transcript: TranscriptRenderer, session: Session) -> Iterator[str]:
    yield transcript.head()
    yield "\n"
    yield from transcript.tree(build_branch_tree(session))


def _select_sections(session: Session, turn: str | None) -> list[Section]:
    """Return the turns that `--turn` names; without it all, and what came before the first."""
    sections = number_sections(session)
    if not sections:
        raise NothingFound(f"nothing in this session: `{session.id}`")
    if turn is None:
        return sections
    count = len(session.turns)
    numbers = parse_turn_range(turn, count)
    if numbers is None:
        raise UsageError(f"not a turn: `{turn}`", hint="as in `--turn 3`, `--turn -1` or `--turn 2..5`")
    selected = [section for section in sections if section.number in numbers]
    if not selected:
        raise NothingFound(f"no such turn: `{turn}`", hint=f"the session has {amount(count, 'turn')}")
    return selected
