"""Commands of the panel Look that read a workspace without changing it."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LOOK, AnswerFormat, Home, Json, NamedKind, PhasesFile, app, look, own_home


@app.command(rich_help_panel=LOOK)
def status(
    specialist: Annotated[
        str | None,
        typer.Argument(help="Specialist, or SPECIALIST/PHASE; default: all.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also list replaced runs.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the artefacts of the workspace, and the state of every phase with the reason."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import status as state

    look(
        home,
        lambda place, _: state.status(place, specialist, as_json=as_json, everything=everything),
    )


@app.command("ls", rich_help_panel=LOOK)
def list_names(
    kind: Annotated[
        NamedKind | None,
        typer.Argument(help="Kind of names to list; default: all.", show_default=False),
    ] = None,
    paths: Annotated[
        bool,
        typer.Option(
            "--paths",
            help="Print the folders that contain the Parquet files of the current rows, documents or runs, "
            "one per line.",
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the names of diets, corpora, models, phases files, runs, rows and documents."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import names

    listed = names.list_paths if paths else names.list_names
    look(home, lambda place, _: listed(place, kind, as_json=as_json))


@app.command(rich_help_panel=LOOK)
def report(
    specialist: Annotated[
        str | None,
        typer.Argument(help="Name of a specialist; default: all.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    home: Home = None,
) -> None:
    """Write a specialist's report as a self-contained web page and print its path."""
    from flows.cli import status

    look(
        home,
        lambda place, to: status.report(place, specialist, show=show, folder=to),
        named=[specialist] if specialist else [],
        folder=settings.reports_folder,
    )


@app.command(rich_help_panel=LOOK)
def inspect(  # noqa: PLR0913 - every parameter is an option
    what: Annotated[
        str,
        typer.Argument(
            help="Path, stage such as rows, run (SPECIALIST/PHASE), pack_id, or the first digits of a key or "
            "document id."
        ),
    ],
    owner: Annotated[
        str | None,
        typer.Argument(
            help="With a stage: corpus, family, repository, run or mixture to show.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows or documents to show.")] = 1,
    pack_id: Annotated[str | None, typer.Option(help="Show the row with this pack_id.")] = None,
    document: Annotated[
        str | None, typer.Option(help="Show the document whose id starts with these digits.")
    ] = None,
    family: Annotated[str | None, typer.Option(help="Filter by family.")] = None,
    domain: Annotated[str | None, typer.Option(help="Filter by domain.")] = None,
    repository: Annotated[str | None, typer.Option(help="Filter by repository.")] = None,
    path: Annotated[
        str | None, typer.Option(help="Filter by file, folder or glob such as src/*.h.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Filter by commit; its first digits are enough.")
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(help="Filter by licence; none selects documents without a licence."),
    ] = None,
    step: Annotated[
        str | None, typer.Option(help="Steps of a mixture or run to show, such as 10 or 10-20.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="Filter by a SQL condition such as num_docs > 3."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print texts, trees and tables in full.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Only list the matching artefacts.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write the rows or documents as a web page to this file.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show rows, documents, tokens, mixtures, runs, checkpoints or selections, with their sources."""
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
    look(
        home,
        lambda place, to: command.show(
            place, what, request, owner=owner, listed=listed, as_json=as_json, html=html, draft=to
        ),
        named=[what],
        output=html,
    )


@app.command(rich_help_panel=LOOK)
def lineage(
    what: Annotated[
        str,
        typer.Argument(
            help="Run or checkpoint (name, path or key) whose training data is listed; or commit, document "
            "id, pack_id or path in a repository, for the training steps that used it."
        ),
    ],
    step: Annotated[
        int | None,
        typer.Option(help="With a run: training step whose rows are listed.", show_default=False),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Trace training steps to their rows, commits and licences, or commits to the steps that used them."""
    from flows.cli import lineage

    look(
        home,
        lambda place, _: lineage.lineage(place, what, step=step, as_json=as_json),
        named=[what],
    )


@app.command(rich_help_panel=LOOK)
def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            help="SELECT, SHOW TABLES or DESCRIBE statement; - reads the statement from standard input.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Read the SQL from a file.", show_default=False),
    ] = None,
    form: Annotated[
        AnswerFormat | None,
        typer.Option(
            "--format",
            help="Output format; default: table, or the format that the extension of --out names.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the whole result.", show_default=False),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if any part of the workspace can't be read."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Answer one SQL query on the workspace's tables; `shell` is interactive.

    SHOW TABLES lists the tables: documents, rows, mixtures, runs, metrics and more.
    """
    settings.apply(settings.NO_MATRICES)
    from flows.cli import query as asking

    how = asking.answer_format(form, out, as_json=as_json)
    question = asking.sql_text(sql, file)
    look(
        home,
        lambda place, to: asking.query(place, question, form=how, file=to, strict=strict),
        output=out,
    )


@app.command(
    rich_help_panel=LOOK,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def shell(context: typer.Context, home: Home = None) -> None:
    """Open an interactive DuckDB shell on the workspace's tables; `query` answers one query.

    Options after -- go to DuckDB, for example -- -c "FROM runs".
    """
    from flows.cli import query as duckdb

    duckdb.shell(own_home(home, there=True), context.args)


@app.command(rich_help_panel=LOOK)
def diff(
    before: Annotated[
        str,
        typer.Argument(
            help="Diet (name or YAML file), mixture (SPECIALIST, SPECIALIST/PHASE, path or key), rows (path "
            "or key) or run (path or key).",
            show_default=False,
        ),
    ],
    after: Annotated[
        str,
        typer.Argument(
            help="Diet, mixture, rows or run to compare with the first.", show_default=False
        ),
    ],
    phases_file: PhasesFile = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Print all lines and documents; default: the first lines of long tables."
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what differs between two diets, mixtures, rows or runs; `compare` takes many runs.

    Diets: tokens by phase and serving, and other fields. Mixtures and rows: tokens, shares, licences and
    documents. Runs: settings and val_bpb.
    """
    from flows.cli import diff as difference

    look(
        home,
        lambda place, _: difference.diff(
            place, before, after, phases_file=phases_file, full=full, as_json=as_json
        ),
        named=[before, after, phases_file or before],
    )


@app.command(rich_help_panel=LOOK)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Two or more runs (SPECIALIST/PHASE, path or key), or specialists to compare by phase.",
            metavar="RUN RUN…",
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Print all settings, metrics and shares.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare two or more runs side by side; `diff` also compares diets, mixtures and rows.

    Prints differing settings, val_bpb with confidence intervals, tokens, time, cost and shares.
    """
    from flows.cli import compare as comparison

    look(
        home,
        lambda place, _: comparison.compare(place, runs, full=full, as_json=as_json),
        named=runs,
    )
