"""Commands that hold diets against what there is, before anything is made."""

from typing import Annotated

import typer

from curriculum.pipeline.config import RunConfig
from flows import settings
from flows.cli.app import LOOK, app, diet_app
from flows.cli.options import Home, Json, Phases, Share, Workers, configured


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
    phases: Phases = None,
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
        phases=phases,
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


@diet_app.command("diff")
def diet_diff(
    before: Annotated[str, typer.Argument(help="A diet, by name or path.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="Another one.", metavar="AFTER")],
    phases: Phases = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what changes in tokens from one diet to another."""
    from flows.cli import diet

    diet.diff(settings.home(home), before, after, phases=phases, as_json=as_json)
