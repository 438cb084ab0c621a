"""Commands of the panel Keep: export, import, serve, trust, merge and remove what a workspace holds."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import KEEP, Home, app, own_home


@app.command(rich_help_panel=KEEP)
def export(
    what: Annotated[
        str,
        typer.Argument(
            help="Model: SPECIALIST, SPECIALIST/PHASE, or the path or key of a run or checkpoint. Data: "
            "SPECIALIST/PHASE, or the path or key of rows, a mixture or tokens.",
            metavar="WHAT",
        ),
    ],
    to: Annotated[Path, typer.Option(help="New folder to write to.", show_default=False)],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Model: curriculum, or hf (a transformers Qwen3; for models of attention layers). Data: "
            "megatron, flat or huggingface; mixtures are written in training order.",
        ),
    ] = "curriculum",
    unpacked: Annotated[
        bool,
        typer.Option(
            "--unpacked",
            help="With huggingface: write one document an example, for collators that join examples.",
        ),
    ] = False,
    home: Home = None,
) -> None:
    """Export a trained model, or rows in training order, for other tools."""
    from flows.cli import exports

    if unpacked:
        exports.require_packed(form)
    if form in exports.FORMATS:
        exports.export_data(own_home(home, what, there=True), what, to, form, unpacked=unpacked)
        return
    exports.export_model(own_home(home, what, there=True), what, to, form)


@app.command("import", rich_help_panel=KEEP)
def import_rows(  # noqa: PLR0913 - each is an option
    path: Annotated[
        Path, typer.Argument(help="File to import, or the folder of an export.", show_default=False)
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet: packed rows; megatron or flat: tokenized documents in a .bin file.",
        ),
    ] = "parquet",
    family: Annotated[
        str | None,
        typer.Option(
            help="Family of the documents, if the data doesn't name it.", show_default=False
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Path of a tokenizer.json, or the key of one in the workspace; default: the one beside the "
            "data.",
            show_default=False,
        ),
    ] = None,
    document_tokens: Annotated[
        str | None,
        typer.Option(
            help="Special tokens around each document: bos_eos, bos, eos or none; compared with the data. "
            "Default: those of the workspace's tokenizer, or bos_eos for a tokenizer.json.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        int | None,
        typer.Option(
            min=128,
            help="Row length to pack to, for documents that aren't packed yet.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Type of the ids in a flat .bin file without offsets.bin: uint16, int32, uint32 or int64; "
            "needed if several fit the file.",
            show_default=False,
        ),
    ] = None,
    boundaries: Annotated[
        str | None,
        typer.Option(
            help="eos: if the data stores no boundaries, take each EOS for the end of a document; a fallback "
            "that the manifest records and counts.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="Objective, if the data doesn't name it; default: causal.", show_default=False
        ),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(
            help="Domain, if the data doesn't name it; default: general.", show_default=False
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split, if the data doesn't name it; default: train.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name for diets to use: {imported: NAME, share: 0.3}. Rows of split val are the validation "
            "rows of the train rows with the same name.",
            show_default=False,
        ),
    ] = None,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed",
            help="Read files that you trust without a sandbox, where the kernel has no Landlock.",
        ),
    ] = False,
    home: Home = None,
) -> None:
    """Import packed rows or tokenized documents: check or pack them, and publish them as rows."""
    from curriculum.interop.publish import RowFacts
    from flows.cli import imports

    facts = RowFacts(family=family, objective=objective, variant=None, domain=domain, split=split)
    request = imports.ImportOptions(
        path=path,
        format=form,
        tokenizer=tokenizer,
        document_tokens=document_tokens,
        row_length=row_length,
        facts=facts,
        boundaries=boundaries,
        dtype=dtype,
        name=name,
        unsandboxed=unsandboxed,
    )
    imports.import_rows(own_home(home), request)


@app.command(rich_help_panel=KEEP)
def serve(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on 127.0.0.1.")] = settings.PORT,
    home: Home = None,
) -> None:
    """Serve the Prefect UI: start runs from a form, watch them, rerun phases. Ctrl-C stops everything."""
    from flows.cli.console import print_line
    from flows.server import supervisor as server
    from flows.settings.trust import make_trusted

    place = own_home(home)
    make_trusted(place)
    server.serve(place, port, print_line)


@app.command(rich_help_panel=KEEP)
def trust(
    workspace: Annotated[
        Path | None,
        typer.Argument(
            help="Default: $CURRICULUM_HOME, else ./workspace.",
            metavar="[WORKSPACE]",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List trusted workspaces.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Remove the trust.")] = False,
) -> None:
    """Trust a workspace: print the trainer commands that its diets name, and let all commands work with it.

    A workspace that your own commands created is trusted already. One that was copied, moved, received or
    replaced isn't until you trust it: commands can only look at it, in a sandbox.
    """
    from flows.cli.permission import forget_workspace, list_trusted, trust_workspace

    if listed:
        list_trusted()
    elif forget:
        forget_workspace(settings.home(workspace))
    else:
        trust_workspace(settings.home(workspace))


@app.command(rich_help_panel=KEEP)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Workspaces to merge from.", metavar="FROM…")
    ],
    home: Home = None,
) -> None:
    """Copy what was built in other workspaces into this one, verifying every file."""
    from flows.cli import workspace
    from flows.settings.trust import trusting_new_workspace

    place, others = own_home(home), [settings.workspace_path(source) for source in sources]
    with trusting_new_workspace(place):
        workspace.merge_into(place, others)


@app.command(rich_help_panel=KEEP)
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for confirmation.")] = False,
    home: Home = None,
) -> None:
    """Remove artefacts that nothing refers to any more; asks first."""
    from flows.cli import workspace

    workspace.gc(own_home(home, there=True), sure=yes)
