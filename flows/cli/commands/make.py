"""Commands of the panel Make: build, mix, train, run, and what they begin with."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from curriculum.pipeline.run_config import RunConfig
from flows.cli.app import (
    CLOSED,
    WORK,
    DryRun,
    Explain,
    FromPhase,
    Home,
    OnlyPhase,
    Repositories,
    Sample,
    Shard,
    Specialist,
    app,
    configured,
    own_home,
    tokenizer_app,
)
from schemas.errors import DietError


@app.command(rich_help_panel=WORK)
def init(
    name: Annotated[str, typer.Argument(help="Name of the diet and of its corpus.")] = "mine",
    home: Home = None,
) -> None:
    """Write a commented diet and corpus into the workspace to start from; nothing is overwritten.

    They are diets/NAME.yaml and corpora/NAME.yaml. An editor that supports yaml-language-server explains
    their fields.
    """
    from flows.cli import demo as beginning

    beginning.init(own_home(home), name)


@app.command(rich_help_panel=WORK)
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


@app.command(rich_help_panel=WORK)
@configured("mix")
def mix(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, then plan which rows to train on, in which order."""
    _make(config, phase, "mix", dry_run=dry_run, explain=explain)


@app.command(rich_help_panel=WORK)
@configured("train")
def train(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, mix and train the phases that aren't trained yet, without Prefect.

    Exit code 3: a gate between phases is closed, or a run waits for approval.
    """
    _make(config, phase, "train", dry_run=dry_run, explain=explain)


def _make(
    config: RunConfig,
    phase: str | None,
    until: Literal["mix", "train"],
    *,
    dry_run: bool,
    explain: bool,
) -> None:
    from curriculum.pipeline.execute import Scope
    from flows.cli import forecasts, phases

    scope = Scope(until=until, phase=phase)
    if dry_run:
        forecasts.print_forecast(config, scope)
    if explain:
        phases.make(config, scope, dry=True)
    elif not dry_run and not phases.make(config, scope, dry=False):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=WORK)
def ablate(
    file: Annotated[
        Path, typer.Argument(help="YAML file of the ablation: a diet, arms, seeds and claims.")
    ],
    repo: Repositories = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing: write what another machine needs for it into this folder.",
            show_default=False,
        ),
    ] = None,
    collect: Annotated[
        Path | None,
        typer.Option(
            help="Train nothing: judge the claims by the runs of a bundle.", show_default=False
        ),
    ] = None,
    home: Home = None,
) -> None:
    """Train diets that differ in one thing with the same seeds, and judge claims about them.

    Runs that are there aren't made again; what was stopped is resumed. Exit code 3: there are no verdicts.
    """
    from flows.cli import ablations
    from flows.settings.trust import trusting_new_workspace

    if bundle is not None and collect is not None:
        raise DietError(
            "--bundle", bundle, cause="--collect is given too", cure="Give one of the two"
        )
    place = own_home(home, file, *filter(None, [collect]))
    with trusting_new_workspace(place):
        if bundle is not None:
            with trusting_new_workspace(bundle):
                ablations.bundle(file, place, bundle, tuple(repo or ()))
            return
        if collect is not None:
            has_verdicts = ablations.judge_bundle(file, place, collect, tuple(repo or ()))
        else:
            has_verdicts = ablations.run(file, place, tuple(repo or ()))
    if not has_verdicts:
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=WORK)
@configured("run")
def run(
    config: RunConfig,
    phase: OnlyPhase = None,
    from_phase: FromPhase = None,
    dry_run: DryRun = False,
    explain: Explain = False,
) -> None:
    """Build, mix and train all phases, as a Prefect flow in this process.

    Finished phases are skipped. --phase retrains one phase, starting from the checkpoint of the phase before
    it; --from-phase also retrains the phases after it whose starting weights changed. A running
    `curriculum serve` on the same workspace shows the run. Exit code 3: a gate between phases is closed, or a
    run waits for approval.
    """
    from curriculum.pipeline.execute import Scope
    from flows.cli import forecasts, phases

    if phase is not None and from_phase is not None:
        raise DietError(
            "--from-phase", from_phase, cause="--phase is given too", cure="Give one of the two"
        )
    scope = Scope(phase=from_phase or phase, later_phases=from_phase is not None, retrain=True)
    if dry_run:
        forecasts.print_forecast(config, scope)
    if explain:
        phases.make(config, scope, dry=True)
    elif not dry_run and not phases.run(config, scope):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=WORK)
def approve(
    specialist: Specialist,
    phase: Annotated[str, typer.Argument(help="Phase with a finished run.", show_default=False)],
    comment: Annotated[
        str, typer.Option(help="Comment to record with the approval.", show_default=False)
    ] = "",
    home: Home = None,
) -> None:
    """Approve the finished run of a phase, so that the next phase may start.

    For phases with `require: approval` in the diet. The approval is for these weights only; a later attempt
    needs its own. A flow run that waits for the approval resumes.
    """
    from flows.cli import approvals

    approvals.approve(own_home(home, specialist, there=True), specialist, phase, comment)


@app.command(rich_help_panel=WORK)
def demo(repo: Repositories = None, home: Home = None) -> None:
    """Train a small specialist on the sample corpus, or on your own repositories, in five minutes."""
    from flows.cli import demo as demonstration
    from flows.settings import trust

    place = own_home(home)
    with trust.trusting_new_workspace(place):
        demonstration.demo(place, tuple(repo or ()))


@tokenizer_app.command("train")
@configured("tokenizer train")
def tokenizer_train(config: RunConfig) -> None:
    """Train a byte-level BPE tokenizer on the corpus of a diet and print its path."""
    from flows.cli import builds

    builds.tokenizer(config)
