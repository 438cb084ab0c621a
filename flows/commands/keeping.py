"""Commands that keep a workspace, and hand on what it holds."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.commands.app import KEEP, app
from flows.options import Home


@app.command(rich_help_panel=KEEP)
def export(
    what: Annotated[
        str,
        typer.Argument(
            help="A specialist, specialist/phase, a run or a checkpoint: by name, path or key.",
            metavar="RUN_OR_CHECKPOINT",
        ),
    ],
    to: Annotated[Path, typer.Option(help="A folder that isn't there yet.", show_default=False)],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="curriculum, or hf: a Qwen3 of transformers, for models of attention only.",
        ),
    ] = "curriculum",
    home: Home = None,
) -> None:
    """Write a trained model to a folder: weights, config, tokenizer, and how to load it."""
    from flows import export as handing_on

    handing_on.export(settings.home(home), what, to, form)


@app.command(rich_help_panel=KEEP)
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = settings.PORT,
    home: Home = None,
) -> None:
    """Serve the Prefect UI: start runs from a form, watch them, rerun a phase. Ctrl-C ends all of it."""
    from flows import serve as server

    server.serve(settings.home(home), port, typer.echo)


@app.command(rich_help_panel=KEEP)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Workspaces that builds left elsewhere.", metavar="FROM…")
    ],
    home: Home = None,
) -> None:
    """Publish here what was built in other workspaces, each file held against its digest."""
    from flows import spread

    spread.merge_into(settings.home(home), sources)


@app.command(rich_help_panel=KEEP)
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False, home: Home = None
) -> None:
    """Remove what nothing refers to any more; asks first."""
    from flows import report

    report.gc(settings.home(home), sure=yes)
