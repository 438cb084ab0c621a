"""Commands that answer questions."""

from typing import Annotated

import typer

from flows import settings
from flows.commands.app import LOOK, app
from flows.options import Home, Json


@app.command(rich_help_panel=LOOK)
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, or SHOW TABLES, or DESCRIBE rows.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Ask the workspace in SQL; SHOW TABLES lists documents, rows, pieces, mixtures, runs, metrics."""
    from flows import report

    report.query(settings.home(home), sql, as_json=as_json)


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
    from flows import dashboard as pages

    pages.dashboard(settings.home(home), port, typer.echo, open_it=open_it)


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
    """What a training step read, down to commits and licences; or every step that read a commit."""
    from flows import lineage_lines

    lineage_lines.lineage(settings.home(home), what, step=step, as_json=as_json)
