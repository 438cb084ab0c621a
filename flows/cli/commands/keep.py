"""Commands of the panel Keep: export, import, serve, trust, merge and remove what a workspace holds."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import KEEP, Home, app


@app.command(rich_help_panel=KEEP)
def export(
    what: Annotated[
        str,
        typer.Argument(
            help="A specialist, specialist/phase, a run or a checkpoint: by name, path or key; for data "
            "specialist/phase, rows, a mixture or tokens.",
            metavar="WHAT",
        ),
    ],
    to: Annotated[Path, typer.Option(help="A folder that isn't there yet.", show_default=False)],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Of a model curriculum, or hf: a Qwen3 of transformers, for models of attention only. Of "
            "data megatron, flat or huggingface; a mixture goes in training order.",
        ),
    ] = "curriculum",
    home: Home = None,
) -> None:
    """Write a trained model, or rows in training order, to a folder for other tools."""
    from flows.cli import exchange

    if form in exchange.FORMATS:
        exchange.export_data(settings.home(home), what, to, form)
        return
    exchange.export_model(settings.home(home), what, to, form)


@app.command("import", rich_help_panel=KEEP)
def import_rows(  # noqa: PLR0913 - each is an option
    path: Annotated[
        Path, typer.Argument(help="A file, or the folder of an export.", show_default=False)
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet: packed rows; megatron, flat: documents as .bin with boundaries.",
        ),
    ] = "parquet",
    family: Annotated[
        str | None,
        typer.Option(
            help="What the documents are made of, where the data doesn't say.", show_default=False
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="A tokenizer.json, or a key of the workspace; by default what lies beside the data.",
            show_default=False,
        ),
    ] = None,
    document_tokens: Annotated[
        str, typer.Option(help="What stands around each document: bos_eos, bos, eos, none.")
    ] = "bos_eos",
    row_length: Annotated[
        int | None,
        typer.Option(min=128, help="Of documents that aren't packed yet.", show_default=False),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Where the data doesn't say; causal then.", show_default=False),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(help="Where the data doesn't say; general then.", show_default=False),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Where the data doesn't say; train then.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="What diets call them: {imported: NAME, share: 0.3}. Rows of split val measure those "
            "of its name.",
            show_default=False,
        ),
    ] = None,
    home: Home = None,
) -> None:
    """Check packed rows, or pack documents, that others made, and publish them as rows."""
    from curriculum.interop.publish import RowFacts
    from flows.cli import exchange

    facts = RowFacts(family=family, objective=objective, variant=None, domain=domain, split=split)
    request = exchange.ImportOptions(
        path=path,
        format=form,
        tokenizer=tokenizer,
        document_tokens=document_tokens,
        row_length=row_length,
        facts=facts,
        name=name,
    )
    exchange.import_rows(settings.home(home), request)


@app.command(rich_help_panel=KEEP)
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="On 127.0.0.1.")] = settings.PORT,
    home: Home = None,
) -> None:
    """Serve the Prefect UI: start runs from a form, watch them, rerun a phase. Ctrl-C ends all of it."""
    from flows.cli.console import print_line
    from flows.server import supervisor as server
    from flows.settings.trust import make_trusted

    make_trusted(settings.home(home))
    server.serve(settings.home(home), port, print_line)


@app.command(rich_help_panel=KEEP)
def trust(
    workspace: Annotated[
        Path | None,
        typer.Argument(
            help="By default $CURRICULUM_HOME, else ./workspace.",
            metavar="[WORKSPACE]",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List the workspaces that you trust.")
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Trust it no more.")] = False,
) -> None:
    """Let the trainers' commands that the diets of a workspace name run as you; prints them first.

    What your own commands made from nothing is trusted already. A workspace that was copied, moved or
    received isn't, until you say so; nor is one whose folder was replaced.
    """
    from flows.cli.workspace import forget_workspace, list_trusted, trust_workspace

    if listed:
        list_trusted()
    elif forget:
        forget_workspace(settings.home(workspace))
    else:
        trust_workspace(settings.home(workspace))


@app.command(rich_help_panel=KEEP)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Workspaces that builds left elsewhere.", metavar="FROM…")
    ],
    home: Home = None,
) -> None:
    """Publish here what was built in other workspaces, each file held against its digest."""
    from flows.cli import workspace
    from flows.settings.trust import trusting_new_workspace

    with trusting_new_workspace(settings.home(home)):
        workspace.merge_into(settings.home(home), sources)


@app.command(rich_help_panel=KEEP)
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False, home: Home = None
) -> None:
    """Remove what nothing refers to any more; asks first."""
    from flows.cli import workspace

    workspace.gc(settings.home(home), sure=yes)
