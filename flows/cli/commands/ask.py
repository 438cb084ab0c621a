"""Commands that answer questions."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LOOK, app
from flows.cli.options import Form, Home, Json


@app.command(rich_help_panel=LOOK)
def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT, or SHOW TABLES, or DESCRIBE rows; - reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the question from a file.", show_default=False),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option("--format", help="table, unless --out tells another.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the answer to a file, all of it.", show_default=False),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Ask the workspace in SQL; SHOW TABLES lists documents, rows, pieces, mixtures, runs, metrics."""
    from flows.cli import query as asking

    how = asking.form_of(form, out, as_json=as_json)
    asking.query(settings.home(home), asking.text_of(sql, file), form=how, file=out)


@app.command(
    rich_help_panel=LOOK,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def shell(context: typer.Context, home: Home = None) -> None:
    """DuckDB's own command line over the same views; words behind -- go to it: -- -c "FROM runs"."""
    from flows.cli import query as duckdb

    duckdb.shell(settings.home(home), context.args)


@app.command(rich_help_panel=LOOK)
def dashboard(
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help=f"On 127.0.0.1; by default {settings.DASHBOARD_PORT}, or any that is free.",
            show_default=False,
        ),
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open a browser, where there is one.")
    ] = True,
    home: Home = None,
) -> None:
    """Play with what the workspace holds: overview, mixtures with what-if shares, runs compared, SQL."""
    from flows.cli.console import print_line
    from flows.server import dashboard as pages

    pages.dashboard(settings.home(home), port, print_line, open_it=open_it)


@app.command(rich_help_panel=LOOK)
def lineage(
    what: Annotated[
        str,
        typer.Argument(
            help="A run (path, name or first digits of its key) or a checkpoint; or what was read: a commit, "
            "a document's id, a pack_id, a path in a repository."
        ),
    ],
    step: Annotated[
        int | None,
        typer.Option(help="Of the run: what this step read, row by row.", show_default=False),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the rows of a training step, down to commits and licences; or every step that read a commit."""
    from flows.cli import lineage

    lineage.lineage(settings.home(home), what, step=step, as_json=as_json)
