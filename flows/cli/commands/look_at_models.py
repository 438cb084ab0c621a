"""Commands of the panel Look for trained models: texts that they write, and the proof of their packing."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LEAKS, LOOK, Home, app, own_home


@app.command(rich_help_panel=LOOK)
def sample(  # noqa: PLR0913 - each is an option
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
            help="File with the text after the gap (fill-in-the-middle); the prompt is the text before it.",
            show_default=False,
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="Maximum number of tokens to generate.")] = 128,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature.")] = 0.8,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="Sample from this many most likely tokens.", show_default=False),
    ] = None,
    top_p: Annotated[
        float,
        typer.Option(
            min=0.0001,
            max=1.0,
            help="Sample from the most likely tokens with this total probability (nucleus sampling).",
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
    from flows.cli import sample as writing

    chance = Sampling(
        temperature=0.0 if greedy else temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    begun = writing.read_prompt(prompt, file, fim_suffix)
    writing.sample(own_home(home, what, there=True), what, begun, chance, tokens=tokens)


@app.command(rich_help_panel=LOOK)
def leakcheck(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A job.json, a run's folder or SPECIALIST/PHASE: its training steps are examined. Or "
            "package.module:builder of your own model: a torch module that takes ids and one of boundaries, "
            "doc_ids, position_ids or cu_seqlens, or a Hugging Face model. Default: our models, and 16 steps "
            "of training on rows of 128 to 2,048 tokens.",
            metavar="[JOB|RUN|BUILDER]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model preset, or a pattern of layers such as AMF; default: all layer types.",
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
            help="float64, float32 or bfloat16. Repeatable; default: all, for your own model float32.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        list[int] | None,
        typer.Option(
            min=8,
            help="Row length in tokens, also in training: rows of it and twice as long. Repeatable.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu or cuda; default: a GPU if there is one.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", show_default=False),
    ] = None,
    home: Home = None,
) -> None:
    """Prove that documents packed into one row never influence each other, in a model and in its training.

    The same documents are packed in several ways and trained on; losses, gradients and weights must agree.
    Exit code 1: something leaks. Exit code 0: nothing leaks (green), or nothing leaks in the part that was
    covered (yellow).
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
