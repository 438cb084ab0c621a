"""Commands of the panel Data: start a diet, estimate tokens, build and mix rows, verify, clean up."""

from typing import Annotated

import typer

from curriculum.pipeline.run_config import RunConfig
from flows.cli.app import (
    CLOSED,
    DATA,
    WRONG,
    CommitFraction,
    ConfiguredCommand,
    DryRun,
    Explain,
    Home,
    Json,
    OnlyPhase,
    PhasesFile,
    Sample,
    Shard,
    Workers,
    app,
    configured,
    diet_app,
    look,
    own_home,
    tokenizer_app,
)


@app.command(rich_help_panel=DATA)
def init(
    name: Annotated[str, typer.Argument(help="Name of the new diet and of its corpus.")] = "mine",
    home: Home = None,
) -> None:
    """Write a commented diet and corpus to start from; existing files stay.

    The files are diets/NAME.yaml and corpora/NAME.yaml. An editor that supports yaml-language-server shows
    the documentation of their fields.
    """
    from flows.cli import demo as beginning

    beginning.init(own_home(home), name)


@app.command(rich_help_panel=DATA)
def supply(
    what: Annotated[
        str,
        typer.Argument(
            help="Name or path of a corpus or diet, or path of a repository.",
            metavar="CORPUS_OR_DIET",
        ),
    ],
    commit_fraction: CommitFraction = 0.01,
    phases_file: PhasesFile = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Path of a tokenizer.json; default: the diet's tokenizer, or one trained on the commits "
            "that are read.",
            show_default=False,
        ),
    ] = None,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed",
            help="Load the tokenizer.json without a sandbox, on kernels without Landlock. Use this only for "
            "a file that you trust.",
        ),
    ] = False,
    workers: Workers = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Estimate how many tokens a corpus has; `diet check` compares a diet with these tokens.

    Prints tokens by family, row length and domain, extrapolated from a fraction of the commits.
    """
    from flows.cli import supply as estimates
    from flows.settings.trust import trusting_new_workspace

    place = own_home(home, what)
    with trusting_new_workspace(place):
        estimates.supply(
            place,
            what,
            share=commit_fraction,
            phases_file=phases_file,
            tokenizer=tokenizer,
            unsandboxed=unsandboxed,
            workers=workers,
            as_json=as_json,
        )


@diet_app.command("check", cls=ConfiguredCommand)
@configured("diet check")
def diet_check(
    config: RunConfig, commit_fraction: CommitFraction = 0.01, as_json: Json = False
) -> None:
    """Check that a diet has enough tokens; `supply` only estimates how many tokens there are.

    Counts the rows that are built; families without rows are estimated from a fraction of the commits. The
    last line is the verdict. Exit code 2: a phase has too few tokens; the verdict then names the largest
    token budget that fits.
    """
    from flows.cli import diet

    if not diet.check(config, share=commit_fraction, as_json=as_json):
        raise typer.Exit(WRONG)


@tokenizer_app.command("train", cls=ConfiguredCommand)
@configured("tokenizer train")
def tokenizer_train(config: RunConfig) -> None:
    """Train a byte-level BPE tokenizer on a diet's corpus and print its path."""
    from flows.cli import builds

    builds.tokenizer(config)


@app.command(rich_help_panel=DATA, cls=ConfiguredCommand)
@configured("build")
def build(
    config: RunConfig,
    phase: OnlyPhase = None,
    dry_run: DryRun = False,
    explain: Explain = False,
    sample: Sample = None,
    shard: Shard = None,
) -> None:
    """Read the corpus and build the packed rows that a diet needs."""
    from curriculum.pipeline.execute import Scope
    from flows.cli import builds, forecasts

    config = config.model_copy(update={"shard": shard})
    if dry_run:
        forecasts.print_forecast(config, Scope(until="build", phase=phase))
    if dry_run and not explain:
        return
    if sample is None:
        builds.build(config, phase, dry=explain)
    else:
        builds.sample(config, phase, sample)


@app.command(rich_help_panel=DATA, cls=ConfiguredCommand)
@configured("mix")
def mix(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, then choose the rows to train on and their order."""
    from curriculum.pipeline.execute import Scope
    from flows.cli import phases

    scope = Scope(until="mix", phase=phase)
    if not phases.make_or_preview(config, scope, dry_run=dry_run, explain=explain):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=DATA)
def check(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Artefact paths, folders with artefacts, or keys; SPECIALIST or SPECIALIST/PHASE checks its "
            "current mixtures and runs.",
            metavar="WHAT…",
        ),
    ],
    home: Home = None,
) -> None:
    """Verify artefacts: compare files with manifests, and documents and packed rows with their contracts."""
    from flows.cli import workspace

    look(home, lambda place, _: workspace.check(place, paths), outside=paths)


@app.command(rich_help_panel=DATA)
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    home: Home = None,
) -> None:
    """Remove artefacts that nothing refers to any more, after confirmation."""
    from flows.cli import workspace

    workspace.gc(own_home(home, there=True), sure=yes)
