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
