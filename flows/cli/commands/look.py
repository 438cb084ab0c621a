"""Commands of the panel Look: answers, diets, artefacts, runs and models, and none of them changed."""

from pathlib import Path
from typing import Annotated

import typer

from curriculum.pipeline.run_config import RunConfig
from flows import settings
from flows.cli.app import (
    LOOK,
    WRONG,
    AnswerFormat,
    Home,
    Json,
    NamedKind,
    PhasesFile,
    Share,
    Workers,
    app,
    configured,
    diet_app,
    look,
    own_home,
)


@app.command(rich_help_panel=LOOK)
def query(
    sql: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT, SHOW TABLES or DESCRIBE statement; - reads it from standard input.",
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
            help="Output format; default: table, or the format of --out's file name.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the whole result to this file.", show_default=False),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Refuse to answer where something of the workspace can't be read."
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Query the workspace in SQL. SHOW TABLES lists documents, rows, mixtures, runs, metrics and more."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import query as asking

    how = asking.form_of(form, out, as_json=as_json)
    question = asking.text_of(sql, file)
    look(
        home,
        lambda place, to: asking.query(place, question, form=how, file=to, strict=strict),
        output=out,
    )


@app.command("ls", rich_help_panel=LOOK)
def list_names(
    kind: Annotated[
        NamedKind | None, typer.Argument(help="List only these; default: all.", show_default=False)
    ] = None,
    paths: Annotated[
        bool,
        typer.Option(
            "--paths",
            help="Print the folders of Parquet files of the current rows, documents or runs, one a line.",
        ),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List diets, corpora, models, phases files, runs, rows and documents by name, for other commands."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import names

    listed = names.list_paths if paths else names.list_names
    look(home, lambda place, _: listed(place, kind, as_json=as_json))


@app.command(
    rich_help_panel=LOOK,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def shell(context: typer.Context, home: Home = None) -> None:
    """Open DuckDB's shell on the workspace's tables. Options after -- go to DuckDB: -- -c "FROM runs"."""
    from flows.cli import query as duckdb

    duckdb.shell(own_home(home, there=True), context.args)


@app.command(rich_help_panel=LOOK)
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
    """Explore the workspace in a browser: overview, mixtures with what-if shares, comparison of runs, SQL."""
    from flows.cli.console import print_line
    from flows.server import dashboard as pages

    pages.dashboard(own_home(home, there=True), port, print_line, open_it=open_it)


@app.command(rich_help_panel=LOOK)
def lineage(
    what: Annotated[
        str,
        typer.Argument(
            help="A run or checkpoint (name, path or key), to list what it read; or a commit, document id, "
            "pack_id or path in a repository, to list the steps that read it."
        ),
    ],
    step: Annotated[
        int | None,
        typer.Option(help="With a run: list the rows of this step.", show_default=False),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Trace a training step to its rows, commits and licences, or a commit to the steps that read it."""
    from flows.cli import lineage

    look(
        home,
        lambda place, _: lineage.lineage(place, what, step=step, as_json=as_json),
        named=[what],
    )


@app.command(rich_help_panel=LOOK)
def supply(
    what: Annotated[
        str,
        typer.Argument(
            help="Name or path of a corpus or diet, or path of a repository.",
            metavar="CORPUS_OR_DIET",
        ),
    ],
    share: Share = 0.01,
    phases_file: PhasesFile = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Path of a tokenizer.json; default: the diet's, or one trained on the sample.",
            show_default=False,
        ),
    ] = None,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed",
            help="Try a tokenizer.json that you trust without a sandbox, where the kernel has no Landlock.",
        ),
    ] = False,
    workers: Workers = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Estimate the available tokens by family, row length and domain, from a sample of commits."""
    from flows.cli import supply as estimates
    from flows.settings.trust import trusting_new_workspace

    place = own_home(home, what)
    with trusting_new_workspace(place):
        estimates.supply(
            place,
            what,
            share=share,
            phases_file=phases_file,
            tokenizer=tokenizer,
            unsandboxed=unsandboxed,
            workers=workers,
            as_json=as_json,
        )


@diet_app.command("check")
@configured("diet check")
def diet_check(config: RunConfig, share: Share = 0.01, as_json: Json = False) -> None:
    """Check that there are enough tokens for a diet: in the rows that are built, else by an estimate.

    The last line is the verdict. Exit code 2: some phase has too few, and the verdict has the largest budget
    that fits.
    """
    from flows.cli import diet

    if not diet.check(config, share=share, as_json=as_json):
        raise typer.Exit(WRONG)


@app.command(rich_help_panel=LOOK)
def status(
    specialist: Annotated[
        str | None,
        typer.Argument(
            help="Show only this specialist or SPECIALIST/PHASE; default: all.", show_default=False
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="List replaced runs too.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the artefacts of the workspace, and the state of each specialist's phases with the reason."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import status as state

    look(
        home,
        lambda place, _: state.status(place, specialist, as_json=as_json, everything=everything),
    )


@app.command(rich_help_panel=LOOK)
def inspect(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str,
        typer.Argument(
            help="A path, a stage such as rows, a run (SPECIALIST/PHASE), the first digits of a key or of a "
            "document's id, or a pack_id."
        ),
    ],
    owner: Annotated[
        str | None,
        typer.Argument(
            help="With a stage: only of this corpus, family, repository, run or mixture.",
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
        str | None, typer.Option(help="Filter by file, folder or pattern such as src/*.h.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(help="Filter by commit; its first digits are enough.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="Filter by licence; none: documents without one.")
    ] = None,
    step: Annotated[
        str | None, typer.Option(help="Steps of a mixture or run to show: 10 or 10-20.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="Filter by an SQL condition such as num_docs > 3."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print whole texts, trees and tables.")
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
def report(
    specialist: Annotated[
        str | None,
        typer.Argument(help="Name of a specialist; default: all.", show_default=False),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    home: Home = None,
) -> None:
    """Write a specialist's report, a self-contained web page, and print its path."""
    from flows.cli import status

    look(
        home,
        lambda place, to: status.report(place, specialist, show=show, folder=to),
        named=[specialist] if specialist else [],
        folder=settings.reports_folder,
    )


@app.command(rich_help_panel=LOOK)
def check(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Artefacts: paths (also of folders that hold some), keys, or SPECIALIST or SPECIALIST/PHASE "
            "for its current mixtures and runs.",
            metavar="WHAT…",
        ),
    ],
    home: Home = None,
) -> None:
    """Verify artefacts: files against their manifests, documents and packed rows against their contracts."""
    from flows.cli import workspace

    look(home, lambda place, _: workspace.check(place, paths), named=paths)


@app.command(rich_help_panel=LOOK)
def diff(
    before: Annotated[
        str,
        typer.Argument(
            help="A diet (name or YAML file); a mixture (SPECIALIST, SPECIALIST/PHASE, path or key); rows "
            "(path or key); or a run (path or key).",
            show_default=False,
        ),
    ],
    after: Annotated[str, typer.Argument(help="Another of the same kind.", show_default=False)],
    phases_file: PhasesFile = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Print every line and document; tables are cut otherwise."),
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what changes between two diets, mixtures, sets of rows, or runs.

    Diets: tokens by phase and serving, and other fields. Mixtures and rows: tokens, shares, licences and
    documents. Runs: settings and val_bpb, as curriculum compare.
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
            help="Two or more runs (SPECIALIST/PHASE, path or key); or specialists, compared phase by phase.",
            metavar="RUN RUN…",
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Print all settings, figures and shares.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare runs side by side: differing settings, val_bpb with intervals, tokens, time, cost, shares."""
    from flows.cli import compare as comparison

    look(
        home,
        lambda place, _: comparison.compare(place, runs, full=full, as_json=as_json),
        named=runs,
    )
