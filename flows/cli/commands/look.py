"""Commands that show what a workspace holds."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LOOK, app
from flows.cli.options import Home, Json

EATEN = (
    "A mixture, rows or a folder of some: by path or key; or a specialist or specialist/phase, whose "
    "current mixtures are meant."
)


@app.command(rich_help_panel=LOOK)
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Also runs that others have taken the place of.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the content of the workspace and the state of each phase of each specialist, with its reason."""
    from flows.cli import status as state

    state.status(settings.home(home), as_json=as_json, everything=everything)


@app.command(rich_help_panel=LOOK)
def inspect(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str,
        typer.Argument(
            help="A path, a stage (rows), the first digits of a key or a document's id, a pack_id, or a "
            "run by name (specialist/phase)."
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="How many rows or documents.")] = 1,
    pack_id: Annotated[str | None, typer.Option(help="The row with this pack_id.")] = None,
    document: Annotated[
        str | None, typer.Option(help="The document of that artefact whose id begins so.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only of this family.")] = None,
    domain: Annotated[str | None, typer.Option(help="Only of this domain.")] = None,
    repository: Annotated[str | None, typer.Option(help="Only with text of it.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Only with text of this file or folder, or src/*.h.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Only with text of the commit that begins so.")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Only under it, or none.")] = None,
    step: Annotated[
        str | None, typer.Option(help="Of a mixture or a run only this step, or 10-20.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="Only lines that an SQL condition holds for, as num_docs > 3."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts, trees and tables.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Only name the artefacts that are meant.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write rows or documents as a page to this file.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show rows and documents down to the commit, tokens, plans, runs, checkpoints, selections."""
    from curriculum.inspection.line_selection import InspectOptions, LineFilter, steps
    from flows.cli.inspect import command

    only = LineFilter(
        family=family,
        domain=domain,
        repository=repository,
        path=path,
        commit=commit,
        licence=licence,
        step=steps(step),
        where=where,
    )
    request = InspectOptions(rows=rows, pack_id=pack_id, document=document, full=full, only=only)
    command.show(settings.home(home), what, request, listed=listed, as_json=as_json, html=html)


@app.command(rich_help_panel=LOOK)
def report(
    specialist: Annotated[
        str | None,
        typer.Argument(help="By name; by default all that have begun.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    home: Home = None,
) -> None:
    """Write a specialist's report anew, one page that needs nothing else, and say where it is."""
    from flows.cli import report

    report.report(settings.home(home), specialist, show=show)


@app.command(rich_help_panel=LOOK)
def check(
    paths: Annotated[list[Path], typer.Argument(help="Artefacts, or folders that hold some.")],
) -> None:
    """Hold packed rows against their contract, and every file against its manifest."""
    from flows.cli import check

    check.check(paths)


@app.command(rich_help_panel=LOOK)
def diff(
    before: Annotated[str, typer.Argument(help=EATEN, show_default=False)],
    after: Annotated[str, typer.Argument(help="The same.", show_default=False)],
    full: Annotated[bool, typer.Option("--full", help="Every line and document.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the changes from one mixture or set of rows to another: tokens, shares, licences, documents."""
    from flows.cli import diff as difference

    difference.diff(settings.home(home), before, after, full=full, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs by name (specialist/phase), path or key; or specialists, phase by phase.",
            metavar="RUN RUN…",
        ),
    ],
    full: Annotated[bool, typer.Option("--full", help="Every setting, figure and share.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Runs side by side: settings that differ, val_bpb with intervals, tokens, time, cost, shares."""
    from flows.cli import compare as comparison

    comparison.compare(settings.home(home), runs, full=full, as_json=as_json)
