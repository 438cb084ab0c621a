"""The command line: `curriculum build | mix | train | run`, and the ways to look at what they made.

Only `run`, `demo` and `serve` import Prefect; the others call the same functions as the flows do. Each
command imports what it needs when it is called, so that help is there at once.
"""

import dataclasses
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from flows import settings
from flows.options import (
    DryRun,
    Explain,
    FromPhase,
    Home,
    Json,
    OnlyPhase,
    Phases,
    Repositories,
    Sample,
    Shard,
    Share,
    Specialist,
    Workers,
    ordering,
)
from schemas.errors import CurriculumError, DietError

if TYPE_CHECKING:
    from flows.course import Order

LEAKS, WRONG, CLOSED, INTERRUPTED = 1, 2, 3, 128 + signal.SIGINT
WORK, LOOK, KEEP = "Make", "Look", "Keep"


class _Commands(TyperGroup):
    """All commands end in the same ways: a mistake in a line and 2, an interruption in 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except CurriculumError as mistake:
            _end(f"error: {mistake}", WRONG)
        except OSError as failed:
            from curriculum.store import no_room

            if (full := no_room(failed)) is None:
                raise
            _end(f"error: {full}", WRONG)
        except KeyboardInterrupt:
            _end(
                "\ninterrupted. What is finished is kept; the same command goes on from there.",
                INTERRUPTED,
            )


def _end(message: str, code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.write(f"{message}\n")
    raise typer.Exit(code)


app = typer.Typer(
    name="curriculum",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Curriculum training for code models: build packed rows, mix them by a diet, train, look.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
tokenizer_app = typer.Typer(no_args_is_help=True, help="Train a tokenizer.")
app.add_typer(tokenizer_app, name="tokenizer", rich_help_panel=WORK)
diet_app = typer.Typer(no_args_is_help=True, help="Check a diet, or compare two.")
app.add_typer(diet_app, name="diet", rich_help_panel=LOOK)


@app.command(rich_help_panel=WORK)
def init(
    folder: Annotated[Path, typer.Argument(help="Where to; made if it isn't there.")] = Path(),
) -> None:
    """Write a commented diet and corpus to begin with; nothing is overwritten."""
    from flows import init as beginning

    beginning.init(folder)


@app.command(rich_help_panel=WORK)
@ordering
def build(
    order: "Order",
    phase: OnlyPhase = None,
    dry_run: DryRun = False,
    explain: Explain = False,
    sample: Sample = None,
    shard: Shard = None,
) -> None:
    """Read the corpus and build the packed rows that a diet asks for."""
    from flows import forecast, work

    order = dataclasses.replace(order, shard=shard)
    if dry_run:
        forecast.forecasted(order, phase, until="build")
    if dry_run and not explain:
        return
    if sample is None:
        work.build(order, phase, dry=explain)
    else:
        work.sample(order, phase, sample)


@app.command(rich_help_panel=WORK)
@ordering
def mix(
    order: "Order", phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, then lay down which rows a specialist is trained on, in which order."""
    from flows import forecast, work

    if dry_run:
        forecast.forecasted(order, phase, until="mix")
    if explain or not dry_run:
        work.mix(order, phase, dry=explain)


@app.command(rich_help_panel=WORK)
@ordering
def train(
    order: "Order", phase: OnlyPhase = None, dry_run: DryRun = False, explain: Explain = False
) -> None:
    """Build, mix and train what isn't trained yet, without Prefect.

    Ends with 3 at a gate that isn't open, or where somebody's approval is asked for.
    """
    from flows import forecast, work

    if dry_run:
        forecast.forecasted(order, phase, until="train")
    if explain:
        work.train(order, phase, dry=True)
    elif not dry_run and not work.train(order, phase, dry=False):
        raise typer.Exit(CLOSED)


@app.command(rich_help_panel=WORK)
@ordering
def run(
    order: "Order",
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
    from flows import forecast, work

    if phase is not None and from_phase is not None:
        raise DietError(
            "--from-phase", from_phase, cause="--phase is given too", cure="Give one of the two"
        )
    named, onwards = from_phase or phase, from_phase is not None
    if dry_run:
        forecast.forecasted(order, named, until="train", anew=named, onwards=onwards)
    if explain:
        work.explain_run(order, named, onwards=onwards)
    elif not dry_run and not work.run(order, named, onwards=onwards):
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
    from flows import approving

    approving.approve(settings.home(home), specialist, phase, comment)


@app.command(rich_help_panel=WORK)
def demo(repo: Repositories = None, home: Home = None) -> None:
    """Train a small specialist on a sample corpus, or on your repositories, in five minutes."""
    from flows import demo as demonstration

    demonstration.demo(settings.home(home), tuple(repo or ()))


@tokenizer_app.command("train")
@ordering
def tokenizer_train(order: "Order") -> None:
    """Train a byte-level BPE on the corpus of a diet and say where it lies."""
    from flows import work

    work.tokenizer(order)


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
    from flows import supply as estimates

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
@ordering
def diet_check(order: "Order", share: Share = 0.01, as_json: Json = False) -> None:
    """Hold what a diet asks against what there is: rows that are built, else an estimate.

    Ends with 2 if it can't be served.
    """
    from flows import diet

    diet.check(order, share=share, as_json=as_json)


@diet_app.command("diff")
def diet_diff(
    before: Annotated[str, typer.Argument(help="A diet, by name or path.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="Another one.", metavar="AFTER")],
    phases: Phases = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show what changes in tokens from one diet to another."""
    from flows import diet

    diet.diff(settings.home(home), before, after, phases=phases, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def status(
    everything: Annotated[
        bool, typer.Option("--all", help="Also runs that others have taken the place of.")
    ] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What the workspace holds, how each phase of each specialist stands, and why."""
    from flows import status as state

    state.status(settings.home(home), as_json=as_json, everything=everything)


@app.command(rich_help_panel=LOOK)
def inspect(
    what: Annotated[
        str,
        typer.Argument(
            help="A path in the workspace, or the first digits of a key or of a document's id."
        ),
    ],
    rows: Annotated[int, typer.Option(min=1, help="How many rows or documents.")] = 1,
    pack_id: Annotated[str | None, typer.Option(help="The row with this pack_id.")] = None,
    document: Annotated[
        str | None, typer.Option(help="The document of that artefact whose id begins so.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Whole texts and trees.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write rows or documents as a page to this file.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show an artefact: packed rows down to the commit, documents, plans, runs."""
    from flows import look

    wish = look.Wish(rows=rows, pack_id=pack_id, document=document, full=full)
    look.show(settings.home(home), what, wish, as_json=as_json, html=html)


@app.command(rich_help_panel=LOOK)
def query(
    sql: Annotated[str, typer.Argument(help="One SELECT, or SHOW TABLES, or DESCRIBE rows.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Ask the workspace in SQL; SHOW TABLES lists documents, rows, pieces, mixtures, runs, metrics."""
    from flows import report

    report.query(settings.home(home), sql, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def check(
    paths: Annotated[list[Path], typer.Argument(help="Artefacts, or folders that hold some.")],
) -> None:
    """Hold packed rows against their contract, and every file against its manifest."""
    from flows import report

    report.check(paths)


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
    from flows import sample as writing

    chance = Sampling(
        temperature=0.0 if greedy else temperature, top_k=top_k, top_p=top_p, seed=seed
    )
    begun = writing.read_prompt(prompt, file, fim_suffix)
    writing.sample(settings.home(home), what, begun, chance, tokens=tokens)


@app.command(rich_help_panel=LOOK)
def leakcheck(  # noqa: PLR0913 - each is an option
    builder: Annotated[
        str | None,
        typer.Argument(
            help="package.module:builder of your own model: any torch module that takes ids and "
            "boundaries, doc_ids, position_ids or cu_seqlens, or a Hugging Face model. By default "
            "ours is examined.",
            metavar="[BUILDER]",
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
        typer.Option(min=8, help="Rows of so many tokens. Repeatable.", show_default=False),
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
) -> None:
    """Prove that documents of a row don't see one another, forward and backward.

    Then plant leaks, each of which must turn exactly its claims red. Ends with 1 if anything leaks.
    """
    from flows import leakcheck as proof

    wish = proof.Wish(
        builder=builder,
        model=model,
        backends=tuple(backend or ()),
        dtypes=tuple(dtype or ()),
        row_lengths=tuple(row_length or ()),
        full=full,
        mutations=mutations,
        device=device,
    )
    if not proof.leakcheck(wish, json_file):
        raise typer.Exit(LEAKS)


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


def main() -> None:
    """The entry point."""
    app()


if __name__ == "__main__":
    main()
