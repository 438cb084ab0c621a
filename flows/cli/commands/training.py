"""Commands of the panel Train: train, run, approve and compare diets."""

from pathlib import Path
from typing import Annotated

import typer

from curriculum.exposure import real_path
from curriculum.pipeline.run_config import RunConfig
from flows.cli.app import (
    CLOSED,
    TRAIN,
    ConfiguredCommand,
    DryRun,
    Explain,
    FromPhase,
    Home,
    OnlyPhase,
    Repositories,
    Specialist,
    app,
    configured,
    own_home,
)
from schemas.errors import DietError


@app.command(rich_help_panel=TRAIN)
def demo(repo: Repositories = None, home: Home = None) -> None:
    """Train a small specialist in five minutes, on the sample corpus or on your own repositories."""
    from flows.cli import demo as demonstration
    from flows.settings import trust

    place = own_home(home)
    with trust.trusting_new_workspace(place):
        demonstration.demo(place, tuple(repo or ()))


@app.command(rich_help_panel=TRAIN, cls=ConfiguredCommand)
@configured("train")
def train(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, mix and train the phases that are not trained yet, without Prefect (unlike `run`).

    `train` never retrains a finished phase; use `run --phase` for that. Exit code 3: a gate between phases
    is closed, or a run waits for approval.
    """
    from curriculum.pipeline.execute import Scope
    from flows.cli import phases

    scope = Scope(until="train", phase=phase)
    if not phases.make_or_preview(config, scope, dry_run=dry_run, explain=explain):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=TRAIN, cls=ConfiguredCommand)
@configured("run")
def run(
    config: RunConfig,
    phase: OnlyPhase = None,
    from_phase: FromPhase = None,
    dry_run: DryRun = False,
    explain: Explain = False,
) -> None:
    """Build, mix and train all phases as a Prefect flow; can retrain phases (unlike `train`).

    Finished phases are skipped. --phase retrains one phase from the checkpoint of the previous phase;
    --from-phase also retrains later phases whose starting weights changed. The flow runs in this process, and
    a running `curriculum serve` on the same workspace shows it. Exit code 3: a gate between phases is closed,
    or a run waits for approval.
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


@app.command(rich_help_panel=TRAIN)
def approve(
    specialist: Specialist,
    phase: Annotated[
        str, typer.Argument(help="Phase whose finished run is approved.", show_default=False)
    ],
    comment: Annotated[
        str, typer.Option(help="Comment to record with the approval.", show_default=False)
    ] = "",
    home: Home = None,
) -> None:
    """Approve the finished run of a phase, so that the next phase may start.

    Applies to phases with `require: approval` in the diet. The approval covers only the weights of this run;
    a retrained phase needs a new approval. A flow run that waits for the approval resumes.
    """
    from flows.cli import approvals

    approvals.approve(own_home(home, specialist, there=True), specialist, phase, comment)


@app.command(rich_help_panel=TRAIN)
def ablate(
    file: Annotated[
        Path,
        typer.Argument(help="YAML file with the diet, arms, seeds and claims of the ablation."),
    ],
    repo: Repositories = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Don't train; write a bundle to this folder, with which another machine can train the arms.",
            show_default=False,
        ),
    ] = None,
    collect: Annotated[
        Path | None,
        typer.Option(
            help="Don't train; judge the claims by the finished runs in this bundle.",
            show_default=False,
        ),
    ] = None,
    home: Home = None,
) -> None:
    """Run an ablation: train its arms with the same seeds and judge its claims.

    Finished runs are reused, interrupted runs are resumed. Exit code 3: the claims have no verdicts.
    """
    from curriculum.outputs import claim_folder
    from flows.cli import ablations
    from flows.settings.trust import require_trusted, trusting_new_workspace

    if bundle is not None and collect is not None:
        raise DietError(
            "--bundle", bundle, cause="--collect is given too", cure="Give one of the two"
        )
    place = own_home(home, file)
    if bundle is not None:
        bundle = claim_folder("--bundle", bundle)
    if collect is not None:
        collect = real_path(collect)
        require_trusted(collect)
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
