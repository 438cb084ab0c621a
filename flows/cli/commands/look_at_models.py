"""Commands of the panel Look that run models: generate text and check packed rows for leaks."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LEAKS, LOOK, Home, app, own_home


@app.command(rich_help_panel=LOOK)
def generate(  # noqa: PLR0913 - every parameter is an option
    what: Annotated[
        str,
        typer.Argument(
            help="SPECIALIST, SPECIALIST/PHASE, or the path or key of a run or checkpoint.",
            metavar="RUN_OR_CHECKPOINT",
        ),
    ],
    prompt: Annotated[
        str | None, typer.Option(help="Text to continue.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="File with the text to continue; - reads standard input.", show_default=False
        ),
    ] = None,
    fim_suffix: Annotated[
        Path | None,
        typer.Option(
            help="File with the text after the gap (fill-in-the-middle); the prompt is the text before.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens to generate.")] = 128,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")] = 0.8,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of most likely tokens to sample from; default: all.",
            show_default=False,
        ),
    ] = None,
    top_p: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=1.0,
            help="Total probability of the most likely tokens to sample from (nucleus sampling).",
        ),
    ] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Greedy decoding: always take the most likely token.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives the same text.")] = 0,
    home: Home = None,
) -> None:
    """Generate text with a trained model: continue a prompt, or fill the gap before a suffix."""
    from curriculum.model.sampling import Sampling
    from flows.cli import generate as generation

    sampling = Sampling(
        temperature=0.0 if greedy else temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    read = generation.read_prompt(prompt, file, fim_suffix)
    generation.generate(own_home(home, what, there=True), what, read, sampling, tokens=tokens)


@app.command(rich_help_panel=LOOK)
def leakcheck(
    what: Annotated[
        str | None,
        typer.Argument(
            help="job.json, folder of a run or SPECIALIST/PHASE: check the training steps of this run. Or "
            "package.module:builder: check your own model, a Hugging Face model or a torch module that takes "
            "ids and one of boundaries, doc_ids, position_ids or cu_seqlens. Default: check the built-in "
            "models and 16 training steps on rows of 128 to 2,048 tokens.",
            metavar="[JOB|RUN|BUILDER]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model preset, or pattern of layers such as AMF; default: all layer types.",
            show_default=False,
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="Attention backend. Repeatable; default: all.", show_default=False),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="Data type: float64, float32 or bfloat16. Repeatable; default: all, or float32 for your own "
            "model.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        list[int] | None,
        typer.Option(
            min=8,
            help="Row length in tokens; training steps use this length and twice this length. Repeatable.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu or cuda; default: a GPU if there is one.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="File for the report as JSON.", show_default=False),
    ] = None,
    home: Home = None,
) -> None:
    """Check that documents packed into the same row never influence each other in a model or its training.

    Packs the same documents in several ways and trains on them; losses, gradients and weights must agree.
    Exit code 1: a leak was found. Exit code 0: no leak was found (green), or none in the part that was
    checked (yellow).
    """
    from flows.cli import leakcheck as proof

    request = proof.LeakcheckOptions(
        what=what,
        home=settings.home(home) if what is None else own_home(home, what),
        model=model,
        backends=tuple(backend or ()),
        dtypes=tuple(dtype or ()),
        row_lengths=tuple(row_length or ()),
        device=device,
    )
    if not proof.leakcheck(request, json_file):
        raise typer.Exit(LEAKS)
