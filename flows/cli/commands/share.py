"""Commands of the panel Share: export, import, merge and trust."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import SHARE, Home, app, own_home


@app.command(rich_help_panel=SHARE)
def export(
    what: Annotated[
        str,
        typer.Argument(
            help="Model: SPECIALIST, SPECIALIST/PHASE, or the path or key of a run or checkpoint. Data: "
            "SPECIALIST/PHASE, or the path or key of rows, a mixture or tokens.",
            metavar="MODEL_OR_DATA",
        ),
    ],
    to: Annotated[
        Path, typer.Option(help="Output folder; must not exist yet.", show_default=False)
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="Model: curriculum, or hf (Qwen3 of transformers, only for models without other layers than "
            "attention). Data: megatron, flat or huggingface; mixtures are written in training order.",
        ),
    ] = "curriculum",
    unpacked: Annotated[
        bool,
        typer.Option(
            "--unpacked",
            help="With huggingface: write one document per example, for collators that pack examples.",
        ),
    ] = False,
    home: Home = None,
) -> None:
    """Export a trained model, or training data, for other tools."""
    from flows.cli import exports

    if unpacked:
        exports.require_packed(form)
    if form in exports.FORMATS:
        exports.export_data(own_home(home, what, there=True), what, to, form, unpacked=unpacked)
        return
    exports.export_model(own_home(home, what, there=True), what, to, form)


@app.command("import", rich_help_panel=SHARE)
def import_rows(  # noqa: PLR0913 - every parameter is an option
    path: Annotated[
        Path, typer.Argument(help="File, or folder of an export, to import.", show_default=False)
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet (packed rows), or megatron or flat (tokenized documents in a .bin file).",
        ),
    ] = "parquet",
    family: Annotated[
        str | None,
        typer.Option(help="Family of the documents, if the data has none.", show_default=False),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="Path of a tokenizer.json, or key of a tokenizer in the workspace; default: the "
            "tokenizer.json beside the data.",
            show_default=False,
        ),
    ] = None,
    document_tokens: Annotated[
        str | None,
        typer.Option(
            help="Special tokens around each document: bos_eos, bos, eos or none; checked against the data. "
            "Default: as the workspace's tokenizer adds them, or bos_eos for a tokenizer.json.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        int | None,
        typer.Option(
            min=128,
            help="Row length in tokens, for documents that are not packed yet.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Type of token ids in a flat .bin file without offsets.bin: uint16, int32, uint32 or int64; "
            "required if several types fit the file.",
            show_default=False,
        ),
    ] = None,
    boundaries: Annotated[
        str | None,
        typer.Option(
            help="eos: end a document at every EOS token, if the data stores no document boundaries. The "
            "manifest records this fallback and counts its documents.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="Objective, if the data has none; default: causal.", show_default=False),
    ] = None,
    domain: Annotated[
        str | None,
        typer.Option(help="Domain, if the data has none; default: general.", show_default=False),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Split (train or val), if the data has none; default: train.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the rows in diets, as in {imported: NAME, share: 0.3}. Rows of split val validate "
            "the train rows with the same name.",
            show_default=False,
        ),
    ] = None,
    unsandboxed: Annotated[
        bool,
        typer.Option(
            "--unsandboxed",
            help="Read the files without a sandbox, on kernels without Landlock. Use this only for files "
            "that you trust.",
        ),
    ] = False,
    home: Home = None,
) -> None:
    """Import packed rows or tokenized documents: check or pack the data and add it as rows."""
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


@app.command(rich_help_panel=SHARE)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(help="Workspaces to copy artefacts from.", metavar="FROM…")
    ],
    home: Home = None,
) -> None:
    """Copy artefacts that other workspaces built into this workspace, and verify every file."""
    from flows.cli import workspace
    from flows.settings.trust import trusting_new_workspace

    place, others = own_home(home), [settings.workspace_path(source) for source in sources]
    with trusting_new_workspace(place):
        workspace.merge_into(place, others)


@app.command(rich_help_panel=SHARE)
def trust(
    workspace: Annotated[
        Path | None,
        typer.Argument(
            help="Workspace to trust; default: $CURRICULUM_HOME, else ./workspace.",
            metavar="[WORKSPACE]",
            show_default=False,
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List trusted workspaces.")] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Stop trusting the workspace.")] = False,
) -> None:
    """Trust a workspace, so that all commands may write and execute there.

    Prints the trainer commands that its diets name. A workspace that your own commands created is trusted
    already. A workspace that was copied, moved, received or replaced is not trusted: until you trust it,
    commands can only read it, in a sandbox.
    """
    from flows.cli.permission import forget_workspace, list_trusted, trust_workspace

    if listed:
        list_trusted()
    elif forget:
        forget_workspace(settings.home(workspace))
    else:
        trust_workspace(settings.home(workspace))
