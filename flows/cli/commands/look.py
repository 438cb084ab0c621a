"""Commands of the panel Look: answers, diets, artefacts, runs and models, and none of them changed."""

from pathlib import Path
from typing import Annotated

import typer

from curriculum.pipeline.config import RunConfig
from flows import settings
from flows.cli.app import (
    LEAKS,
    LOOK,
    Form,
    Home,
    Json,
    Kind,
    PhasesFile,
    Share,
    Workers,
    app,
    configured,
    diet_app,
)


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
    settings.apply(settings.NO_MATRICES)
    from flows.cli import query as asking

    how = asking.form_of(form, out, as_json=as_json)
    asking.query(settings.home(home), asking.text_of(sql, file), form=how, file=out)


@app.command("ls", rich_help_panel=LOOK)
def list_names(
    kind: Annotated[
        Kind | None, typer.Argument(help="Only these; by default all.", show_default=False)
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List diets, corpora, models, phases and runs by the names that other commands take."""
    settings.apply(settings.NO_MATRICES)
    from flows.cli import names

    names.list_names(settings.home(home), kind, as_json=as_json)


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


@app.command(rich_help_panel=LOOK)
def supply(
    what: Annotated[
        str,
        typer.Argument(
            help="A corpus or a diet, by name or path, or a repository's path.",
            metavar="CORPUS_OR_DIET",
        ),
    ],
    share: Share = 0.01,
    phases_file: PhasesFile = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="The path of a tokenizer.json; by default the diet's, or one trained on the sample.",
            show_default=False,
        ),
    ] = None,
    workers: Workers = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Estimate from some commits what there is to train on: tokens by family, row length and domain."""
    from flows.cli import supply as estimates

    estimates.supply(
        settings.home(home),
        what,
        share=share,
        phases_file=phases_file,
        tokenizer=tokenizer,
        workers=workers,
        as_json=as_json,
    )


@diet_app.command("check")
@configured("diet check")
def diet_check(config: RunConfig, share: Share = 0.01, as_json: Json = False) -> None:
    """Hold what a diet asks against what there is: rows that are built, else an estimate.

    Ends with 2 if it can't be served.
    """
    from flows.cli import diet

    diet.check(config, share=share, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Also runs that others have taken the place of.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the content of the workspace and the state of each phase of each specialist, with its reason."""
    settings.apply(settings.NO_MATRICES)
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
    from flows.cli import status

    status.report(settings.home(home), specialist, show=show)


@app.command(rich_help_panel=LOOK)
def check(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Paths of artefacts or of folders with some; names (SPECIALIST, SPECIALIST/PHASE), whose "
            "current mixtures and runs are checked; or keys.",
            metavar="WHAT…",
        ),
    ],
    home: Home = None,
) -> None:
    """Verify artefacts: files against their manifests, documents and packed rows against their contracts."""
    from flows.cli import workspace

    workspace.check(settings.home(home), paths)


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

    difference.diff(
        settings.home(home), before, after, phases_file=phases_file, full=full, as_json=as_json
    )


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


@app.command(rich_help_panel=LOOK)
def sample(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str,
        typer.Argument(
            help="A specialist, specialist/phase, a run or a checkpoint: by name, path or key.",
            metavar="RUN_OR_CHECKPOINT",
        ),
    ],
    prompt: Annotated[
        str | None, typer.Option(help="How the document begins.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file that it begins with; - is stdin.", show_default=False),
    ] = None,
    fim_suffix: Annotated[
        Path | None,
        typer.Option(
            help="A file with what follows: the model fills the gap before it.", show_default=False
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="At most so many.")] = 128,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Below 1 the likely are likelier still.")
    ] = 0.8,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="Only the so many likeliest tokens.", show_default=False),
    ] = None,
    top_p: Annotated[
        float,
        typer.Option(min=0.0001, max=1.0, help="Only the likeliest with this share together."),
    ] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always the likeliest; no chance is left.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed writes the same.")] = 0,
    home: Home = None,
) -> None:
    """Let a trained model go on with a text, token by token, until it ends the document."""
    from curriculum.model.sampling import Sampling
    from flows.cli import sample as writing

    chance = Sampling(
        temperature=0.0 if greedy else temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    begun = writing.read_prompt(prompt, file, fim_suffix)
    writing.sample(settings.home(home), what, begun, chance, tokens=tokens)


@app.command(rich_help_panel=LOOK)
def leakcheck(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str | None,
        typer.Argument(
            help="A job.json, a run's folder or specialist/phase: its steps as it will train; or "
            "package.module:builder of your own model: any torch module that takes ids and boundaries, "
            "doc_ids, position_ids or cu_seqlens, or a Hugging Face model. By default ours is examined, "
            "and a step over rows of 4,096 and of 16,384 tokens.",
            metavar="[JOB|RUN|BUILDER]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A preset or a pattern such as AMF; by default all families.", show_default=False
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="Attention by this one. Repeatable; by default all.", show_default=False),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="float64, float32, bfloat16. Repeatable; by default all, of your model float32.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        list[int] | None,
        typer.Option(
            min=8,
            help="Rows of so many tokens, those of steps included. Repeatable.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All row lengths; takes long.")] = False,
    mutations: Annotated[bool, typer.Option(help="Plant leaks and see that each is found.")] = True,
    device: Annotated[
        str | None,
        typer.Option(help="cpu or cuda; by default a GPU if there is one.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", show_default=False),
    ] = None,
    home: Home = None,
) -> None:
    """Prove that documents don't influence one another, in a model and in the step that trains.

    Then plant leaks, each of which must turn exactly its claims red. Ends with 1 if anything leaks; with 0 in
    yellow where nothing was seen and not all was covered, in green where all was.
    """
    from flows.cli import leakcheck as proof

    request = proof.LeakcheckOptions(
        what=what,
        home=settings.home(home),
        model=model,
        backends=tuple(backend or ()),
        dtypes=tuple(dtype or ()),
        row_lengths=tuple(row_length or ()),
        full=full,
        mutations=mutations,
        device=device,
    )
    if not proof.leakcheck(request, json_file):
        raise typer.Exit(LEAKS)
