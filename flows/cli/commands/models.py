"""Commands that try a model."""

from pathlib import Path
from typing import Annotated

import typer

from flows import settings
from flows.cli.app import LEAKS, LOOK, app
from flows.cli.options import Home


@app.command(rich_help_panel=LOOK)
def sample(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str,
        typer.Argument(
            help="A specialist, specialist/phase, a run or a checkpoint: by name, path or key.",
            metavar="RUN_OR_CHECKPOINT",
        ),
    ],
    prompt: Annotated[
        str | None, typer.Option(help="How the document begins.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="A file that it begins with; - is stdin.", show_default=False),
    ] = None,
    fim_suffix: Annotated[
        Path | None,
        typer.Option(
            help="A file with what follows: the model fills the gap before it.", show_default=False
        ),
    ] = None,
    tokens: Annotated[int, typer.Option(min=1, help="At most so many.")] = 128,
    temperature: Annotated[
        float, typer.Option(min=0.0, help="Below 1 the likely are likelier still.")
    ] = 0.8,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, help="Only the so many likeliest tokens.", show_default=False),
    ] = None,
    top_p: Annotated[
        float,
        typer.Option(min=0.0001, max=1.0, help="Only the likeliest with this share together."),
    ] = 1.0,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Always the likeliest; no chance is left.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed writes the same.")] = 0,
    home: Home = None,
) -> None:
    """Let a trained model go on with a text, token by token, until it ends the document."""
    from curriculum.model.sampling import Sampling
    from flows.cli import sample as writing

    chance = Sampling(
        temperature=0.0 if greedy else temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    begun = writing.read_prompt(prompt, file, fim_suffix)
    writing.sample(settings.home(home), what, begun, chance, tokens=tokens)


@app.command(rich_help_panel=LOOK)
def leakcheck(  # noqa: PLR0913 - each is an option
    what: Annotated[
        str | None,
        typer.Argument(
            help="A job.json, a run's folder or specialist/phase: its steps as it will train; or "
            "package.module:builder of your own model: any torch module that takes ids and boundaries, "
            "doc_ids, position_ids or cu_seqlens, or a Hugging Face model. By default ours is examined, "
            "and a step over rows of 4,096 and of 16,384 tokens.",
            metavar="[JOB|RUN|BUILDER]",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A preset or a pattern such as AMF; by default all families.", show_default=False
        ),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(help="Attention by this one. Repeatable; by default all.", show_default=False),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="float64, float32, bfloat16. Repeatable; by default all, of your model float32.",
            show_default=False,
        ),
    ] = None,
    row_length: Annotated[
        list[int] | None,
        typer.Option(
            min=8,
            help="Rows of so many tokens, those of steps included. Repeatable.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All row lengths; takes long.")] = False,
    mutations: Annotated[bool, typer.Option(help="Plant leaks and see that each is found.")] = True,
    device: Annotated[
        str | None,
        typer.Option(help="cpu or cuda; by default a GPU if there is one.", show_default=False),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", show_default=False),
    ] = None,
    home: Home = None,
) -> None:
    """Prove that documents don't influence one another, in a model and in the step that trains.

    Then plant leaks, each of which must turn exactly its claims red. Ends with 1 if anything leaks; with 0 in
    yellow where nothing was seen and not all was covered, in green where all was.
    """
    from flows.cli import leakcheck as proof

    request = proof.LeakcheckOptions(
        what=what,
        home=settings.home(home),
        model=model,
        backends=tuple(backend or ()),
        dtypes=tuple(dtype or ()),
        row_lengths=tuple(row_length or ()),
        full=full,
        mutations=mutations,
        device=device,
    )
    if not proof.leakcheck(request, json_file):
        raise typer.Exit(LEAKS)
