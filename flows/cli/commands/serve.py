"""Commands of the panel Serve: servers of pages on this machine."""

from typing import Annotated

import typer

from flows import settings
from flows.cli.app import SERVE, Home, app, own_home


@app.command(rich_help_panel=SERVE)
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = settings.PORT,
    home: Home = None,
) -> None:
    """Serve the Prefect UI to start, watch and retry runs; Ctrl-C stops the server and its runs."""
    from flows.cli.console import print_line
    from flows.server import supervisor as server
    from flows.settings.trust import make_trusted

    place = own_home(home)
    make_trusted(place)
    server.serve(place, port, print_line)


@app.command(rich_help_panel=SERVE)
def dashboard(
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help=f"Port on 127.0.0.1; default: {settings.PAGES_PORT}, or any free port.",
            show_default=False,
        ),
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    home: Home = None,
) -> None:
    """Explore the workspace in a browser; unlike `serve`, it can't start runs.

    Pages: overview, mixtures with what-if shares, comparison of runs, SQL.
    """
    from flows.cli.console import print_line
    from flows.server import dashboard as pages

    pages.dashboard(own_home(home, there=True), port, print_line, open_it=open_it)
