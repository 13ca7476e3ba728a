"""`unspool sql`: runs SQL queries with DuckDB."""

from __future__ import annotations

import sys

import click

from unspool.cli import output, store_access
from unspool.cli.query import sql_access
from unspool.cli.query.sql_output import format_options, print_query_error, write_answer
from unspool.errors import UnspoolError, UsageError


@click.command()
@click.argument("query", required=False)
@format_options
@store_access.store_options
@output.json_option
@output.folders_option
@click.pass_context
def sql(
    ctx: click.Context,
    *,
    query: str | None,
    form: str,
    target: str | None,
    timeout: float,
    access: store_access.AccessOptions,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Ask in SQL: sessions, messages, tool calls, files, responses and their cost.

    QUERY is one statement that reads, in DuckDB's dialect. Without one it is read from stdin; on a terminal there is a
    prompt. The tables are made from the store when they are first asked for, and after that from what has changed.
    docs/sql.md has them all, with example questions.
    """
    from unspool.store.sql import EngineStopped, QueryLimits, SqlEngine

    limits = QueryLimits(deadline=timeout or None)
    if query is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        query = sys.stdin.read()
    for attempt in (1, 2):
        with (
            sql_access.open_sql_tables(config_dirs, access, deep=attempt == 2) as tables,
            SqlEngine(tables.setup, str(tables.columns), limits) as engine,
        ):
            try:
                if query is not None:
                    write_answer(engine, query, "json" if as_json else form, target)
                else:
                    from unspool.cli.query.sql_prompt import run_prompt

                    run_prompt(engine, form, tables.folder)
            except (UsageError, EngineStopped) as error:
                if attempt == 1 and _may_be_damaged(error, str(tables.columns)):
                    continue  # once more, with every byte of the column files compared
                print_query_error(error)
                ctx.exit(error.exit_code)
            break


def _may_be_damaged(error: UnspoolError, folder: str) -> bool:
    """Tell whether damaged column files may be the reason of an error."""
    from unspool.store.sql import EngineStopped

    # Either the message names a column file, or the engine has died on one.
    return isinstance(error, EngineStopped) or folder in error.message
