"""Commands of the panel Make: build, mix, train, run, and what they begin with."""

from pathlib import Path
from typing import Annotated

import typer

from curriculum.pipeline.config import RunConfig
from flows import settings
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
    tokenizer_app,
)
from schemas.errors import DietError


@app.command(rich_help_panel=WORK)
def init(
    folder: Annotated[Path, typer.Argument(help="Where to; made if it isn't there.")] = Path(),
) -> None:
    """Write a commented diet and corpus to begin with; nothing is overwritten."""
    from flows.cli import demo as beginning

    beginning.init(folder)


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
    """Read the corpus and build the packed rows that a diet asks for."""
    from flows.cli import phases

    config = config.model_copy(update={"shard": shard})
    if dry_run:
        phases.print_forecast(config, phase, until="build")
    if dry_run and not explain:
        return
    if sample is None:
        phases.build(config, phase, dry=explain)
    else:
        phases.sample(config, phase, sample)


@app.command(rich_help_panel=WORK)
@configured("mix")
def mix(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, then lay down which rows a specialist is trained on, in which order."""
    from flows.cli import phases

    if dry_run:
        phases.print_forecast(config, phase, until="mix")
    if explain or not dry_run:
        phases.mix(config, phase, dry=explain)


@app.command(rich_help_panel=WORK)
@configured("train")
def train(
    config: RunConfig, phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, mix and train what isn't trained yet, without Prefect.

    Ends with 3 at a gate that isn't open, or where somebody's approval is asked for.
    """
    from flows.cli import phases

    if dry_run:
        phases.print_forecast(config, phase, until="train")
    if explain:
        phases.train(config, phase, dry=True)
    elif not dry_run and not phases.train(config, phase, dry=False):
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
    """Take a specialist through its curriculum, as a Prefect flow in this process.

    Without --phase what is done is kept. With it that phase is trained anew, from where the phase before
    it ended; with --from-phase those after it follow, each anew where what it goes on from has other
    weights. A server of `curriculum serve` on the same workspace shows the run. Ends with 3 at a gate that
    isn't open, or where somebody's approval is asked for.
    """
    from flows.cli import phases

    if phase is not None and from_phase is not None:
        raise DietError(
            "--from-phase", from_phase, cause="--phase is given too", cure="Give one of the two"
        )
    named, onwards = from_phase or phase, from_phase is not None
    if dry_run:
        phases.print_forecast(
            config, named, until="train", retrain=named is not None, onwards=onwards
        )
    if explain:
        phases.explain_run(config, named, onwards=onwards)
    elif not dry_run and not phases.run(config, named, onwards=onwards):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=WORK)
def approve(
    specialist: Specialist,
    phase: Annotated[str, typer.Argument(help="A phase that is trained.", show_default=False)],
    comment: Annotated[
        str, typer.Option(help="What is to be remembered of it.", show_default=False)
    ] = "",
    home: Home = None,
) -> None:
    """Approve the run of a phase whose diet asks for it: the next phase may begin.

    It holds for these weights, not for another attempt. A run on a server that waits for it goes on.
    """
    from flows.cli import status

    status.approve(settings.home(home), specialist, phase, comment)


@app.command(rich_help_panel=WORK)
def demo(repo: Repositories = None, home: Home = None) -> None:
    """Train a small specialist on a sample corpus, or on your repositories, in five minutes."""
    from flows.cli import demo as demonstration
    from flows.settings import trust

    with trust.trusting_new_workspace(settings.home(home)):
        demonstration.demo(settings.home(home), tuple(repo or ()))


@tokenizer_app.command("train")
@configured("tokenizer train")
def tokenizer_train(config: RunConfig) -> None:
    """Train a byte-level BPE on the corpus of a diet and say where it lies."""
    from flows.cli import phases

    phases.tokenizer(config)
