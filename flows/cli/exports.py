"""`curriculum export`: models and data for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.text import Text

from curriculum.inspection.formats import count
from curriculum.interop import tokens_out
from curriculum.interop.dataset_export import export_packed, export_unpacked
from curriculum.interop.row_order import Ordered
from curriculum.outputs import whole_folder
from curriculum.pipeline.attempts import Attempt, attempts_in, current_runs
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import artefacts_of, checkpoint_of, store_of, title_of
from curriculum.pipeline.status import later_phases
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from flows.cli.console import MUTED, err, out, warn
from schemas.errors import CurriculumError, JobError, StoreError
from schemas.manifest import TokenFormat
from schemas.mistakes import nearest
from schemas.visible import one_line

if TYPE_CHECKING:
    from curriculum.train.export import Vocabulary

TOKEN_FORMATS: tuple[TokenFormat, ...] = get_args(TokenFormat)
PARQUET_FORMAT = "huggingface"
UNPACKED_OPTION = "--unpacked"
FORMATS = (*TOKEN_FORMATS, PARQUET_FORMAT)
"""Formats of data; those of models are curriculum.train.export's."""
STAGES = ("rows", "mixtures", "tokens", "documents")
LISTED = 3


def export_data(home: Path, what: str, to: Path, form: str, *, unpacked: bool) -> None:
    """Write rows, a mixture in training order, or tokens to a folder, and say what is there.

    Raises:
        StoreError: for none or several that could be meant, and where something is at `to`.
    """
    store, artefact = data_of(home, what)
    if form == PARQUET_FORMAT and artefact.manifest.stage == "tokens":
        raise StoreError(
            what,
            artefact.manifest.stage,
            cause="`datasets` loads rows; documents can be read from the workspace directly",
            cure=f"Take rows or a mixture, or load_dataset({str(store.root)!r}, …)",
        )
    tokenizer = load_tokenizer(_tokenizer_of(store, artefact))
    with whole_folder(to) as folder:
        _write(store, artefact, tokenizer, folder, form, unpacked=unpacked)
    _print_files(to)


def _print_files(folder: Path) -> None:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        out.print(Text(f"{file}  "), Text(f"{count(file.stat().st_size)}B", MUTED), soft_wrap=True)


def require_packed(form: str) -> None:
    """Raise unless a format has packed rows, which --unpacked divides.

    Raises:
        StoreError: naming the option.
    """
    if form != PARQUET_FORMAT:
        raise StoreError(
            UNPACKED_OPTION,
            form,
            cause="only exports of packed rows for Hugging Face can be unpacked",
            cure=f"Say --format {PARQUET_FORMAT}, or leave {UNPACKED_OPTION} out",
        )


def _write(
    store: Store,
    artefact: Artefact,
    tokenizer: Tokenizer,
    folder: Path,
    form: str,
    *,
    unpacked: bool,
) -> None:
    if artefact.manifest.stage == "tokens":
        tokens_out.export_tokens(artefact, tokenizer, folder, _token_format(form))
        return
    ordered = Ordered.of(store, artefact)
    if form == PARQUET_FORMAT:
        rows = {source.key for source in ordered.sources}
        made_of = [
            documents for row in store.artefacts("rows") if row.key in rows
            for documents in _inputs(store, row, "documents")
        ]  # fmt: skip
        export = export_unpacked if unpacked else export_packed
        export(
            ordered, tokenizer, folder, {documents.key: documents for documents in made_of}.values()
        )
    else:
        tokens_out.export_rows(ordered, tokenizer, folder, _token_format(form))


def _token_format(form: str) -> TokenFormat:
    return next(known for known in TOKEN_FORMATS if known == form)


def data_of(home: Path, what: str) -> tuple[Store, Artefact]:
    """The rows, mixture or tokens that a path, a name or the first digits of a key mean.

    A name is that of a phase's current mixture: templates/syntax. Documents stand for their tokens.

    Raises:
        StoreError: for none, or several.
    """
    store = store_of(home, what)
    found = artefacts_of(store, what, STAGES)
    if len(found) != 1:
        raise StoreError(
            what,
            ", ".join(str(artefact.path.relative_to(store.root)) for artefact in found[:LISTED])
            or None,
            cause=f"{len(found):,} data sets match" if found else "it names no rows and no mixture",
            cure="Give the folder or key of rows, tokens or a mixture, or SPECIALIST/PHASE",
        )
    return store, _tokens_for(store, found[0])


def _tokens_for(store: Store, artefact: Artefact) -> Artefact:
    """The tokens of documents; any other artefact itself."""
    if artefact.manifest.stage != "documents":
        return artefact
    found = [
        tokens for tokens in store.artefacts("tokens")
        if artefact.key in {made.key for made in tokens.manifest.inputs}
    ]  # fmt: skip
    if len(found) != 1:
        raise StoreError(
            str(artefact.path.relative_to(store.root)),
            f"{len(found)} tokens",
            cause="an export of documents needs the tokens of exactly one tokenizer",
            cure="Name the folder below tokens/",
        )
    return found[0]


def _tokenizer_of(store: Store, artefact: Artefact) -> Artefact:
    found = _inputs(store, artefact, "tokenizer")
    if not found:
        of_rows = [
            tokenizer for row in _inputs(store, artefact, "rows")
            for tokenizer in _inputs(store, row, "tokenizer")
        ]  # fmt: skip
        # Imported rows may have come with the tokenizer that was trained here too.
        found = list({tokenizer.content: tokenizer for tokenizer in of_rows}.values())
    if len(found) != 1:
        raise StoreError(
            str(artefact.path.relative_to(store.root)),
            f"{len(found)} tokenizers",
            cause="the tokenizer that it was made with isn't there",
            cure="Build it again, or merge the workspace that holds it",
        )
    return found[0]


def _inputs(store: Store, artefact: Artefact, role: str) -> Sequence[Artefact]:
    """The inputs of a role, by the first word of their names; their stage is called alike."""
    keys = {made_of.key for made_of in artefact.manifest.inputs if made_of.name.split()[0] == role}
    stage = "tokenizers" if role == "tokenizer" else role
    return [made for made in store.artefacts(stage) if made.key in keys] if keys else []


def export_model(home: Path, what: str, to: Path, form: str) -> None:
    """Write the model of a run or checkpoint to a folder; print which it is, and what is there.

    Raises:
        JobError: for no such checkpoint or format, and a model that the format can't hold.
    """
    checkpoint = checkpoint_of(home, what)
    err.print(Text(one_line(title_of(checkpoint)), MUTED), soft_wrap=True)
    from curriculum.train import export as exporting
    from curriculum.train.restore import job_of

    known = next((name for name in exporting.FORMATS if name == form), None)
    if known is None:
        cure = nearest(form, exporting.FORMATS)
        raise JobError("--format", form, cause="there is no such format", cure=cure)
    exporting.require_exportable(checkpoint)
    store = Store.containing(checkpoint)
    tokenizer = load_tokenizer(store.load(store.root / job_of(checkpoint).tokenizer.path))
    exporting.export(checkpoint, to, vocabulary_of(tokenizer), known)
    _warn_of_later_phases(store, Attempt.at(checkpoint.parents[1]))
    _print_files(to)


def _warn_of_later_phases(store: Store, run: Attempt) -> None:
    """Warn of phases of a run's diet that come after it and aren't trained."""
    try:
        later = later_phases(newest_plan(store, run.ref, attempts_in(store)), run.job.phase)
    except CurriculumError as wrong:
        warn(f"phases of its diet that follow {run.name} aren't known: {wrong}")
        return
    trained = current_runs(store, run.ref)
    if untrained := ", ".join(name for name in later if name not in trained):
        warn(f"phases of its diet that follow {run.name} aren't trained yet: {untrained}")


def vocabulary_of(tokenizer: Tokenizer) -> "Vocabulary":
    """A tokenizer as an export holds it."""
    from curriculum.train.export import Vocabulary

    return Vocabulary(
        json=tokenizer.json,
        document_tokens=tokenizer.document_tokens,
        ids={str(role): token for role, token in tokenizer.ids_of.items()},
        texts={
            role: tokenizer.decode([token])
            for role, token in tokenizer.ids_of.items()
            if tokenizer.special[token]
        },
        chat=tokenizer.chat_template.fields if tokenizer.chat_template else {},
    )
