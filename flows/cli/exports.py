"""`curriculum export`: write trained models and training data in formats of other tools."""

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
"""Formats of data; curriculum.train.export has the formats of models."""
STAGES = ("rows", "mixtures", "tokens", "documents")
LISTED = 3


def export_data(home: Path, what: str, to: Path, form: str, *, unpacked: bool) -> None:
    """Write rows, a mixture in training order, or tokens to the folder `to`, and print the files.

    Raises:
        StoreError: if no artefact or several match the name, or if `to` exists.
    """
    store, artefact = data_of(home, what)
    if form == PARQUET_FORMAT and artefact.manifest.stage == "tokens":
        raise StoreError(
            what,
            artefact.manifest.stage,
            cause="this format exports rows only; the library `datasets` reads documents directly "
            "from the workspace",
            cure=f"Export rows or a mixture, or call load_dataset({str(store.root)!r}, …)",
        )
    tokenizer = load_tokenizer(_tokenizer_of(store, artefact))
    with whole_folder(to) as folder:
        _write(store, artefact, tokenizer, folder, form, unpacked=unpacked)
    _print_files(to)


def _print_files(folder: Path) -> None:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        out.print(Text(f"{file}  "), Text(f"{count(file.stat().st_size)}B", MUTED), soft_wrap=True)


def require_packed(form: str) -> None:
    """Raise unless `form` is the format of packed rows; only that format supports the option --unpacked.

    Raises:
        StoreError: naming the option.
    """
    if form != PARQUET_FORMAT:
        raise StoreError(
            UNPACKED_OPTION,
            form,
            cause="only the Hugging Face format of packed rows can be unpacked",
            cure=f"Give --format {PARQUET_FORMAT}, or omit {UNPACKED_OPTION}",
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
    """Return the rows, the mixture or the tokens to which a path, a name or the first digits of a key refer.

    SPECIALIST/PHASE means the current mixture of a phase. For documents, their tokens are returned.

    Raises:
        StoreError: if no artefact or several match.
    """
    store = store_of(home, what)
    found = artefacts_of(store, what, STAGES)
    if len(found) != 1:
        raise StoreError(
            what,
            ", ".join(str(artefact.path.relative_to(store.root)) for artefact in found[:LISTED])
            or None,
            cause=f"{len(found):,} data sets match"
            if found
            else "no rows, mixture or tokens have this name",
            cure="Give the folder or key of rows, tokens or a mixture, or SPECIALIST/PHASE",
        )
    return store, _tokens_for(store, found[0])


def _tokens_for(store: Store, artefact: Artefact) -> Artefact:
    """Return the tokens artefact made from a documents artefact; return any other artefact unchanged."""
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
            cause="an export of documents needs tokens of exactly one tokenizer",
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
        # Imported rows may use the tokenizer that was trained here too.
        found = list({tokenizer.content: tokenizer for tokenizer in of_rows}.values())
    if len(found) != 1:
        raise StoreError(
            str(artefact.path.relative_to(store.root)),
            f"{len(found)} tokenizers",
            cause="its tokenizer isn't in the workspace",
            cure="Build the data again, or merge the workspace that has the tokenizer",
        )
    return found[0]


def _inputs(store: Store, artefact: Artefact, role: str) -> Sequence[Artefact]:
    """Return the inputs of an artefact that have a role, such as `rows` or `tokenizer`.

    The role is the first word of an input's name in the manifest; it also tells the stage of the input.
    """
    keys = {made_of.key for made_of in artefact.manifest.inputs if made_of.name.split()[0] == role}
    stage = "tokenizers" if role == "tokenizer" else role
    return [made for made in store.artefacts(stage) if made.key in keys] if keys else []


def export_model(home: Path, what: str, to: Path, form: str) -> None:
    """Write the model of a run or checkpoint to a folder; print the checkpoint and the files.

    Raises:
        JobError: if there is no such checkpoint or format, or if the format doesn't support the model.
    """
    checkpoint = checkpoint_of(home, what)
    err.print(Text(one_line(title_of(checkpoint)), MUTED), soft_wrap=True)
    from curriculum.train import export as exporting
    from curriculum.train.restore import job_of

    known = next((name for name in exporting.FORMATS if name == form), None)
    if known is None:
        cure = nearest(form, exporting.FORMATS)
        raise JobError("--format", form, cause="unknown format", cure=cure)
    exporting.require_exportable(checkpoint)
    store = Store.containing(checkpoint)
    tokenizer = load_tokenizer(store.load(store.root / job_of(checkpoint).tokenizer.path))
    exporting.export(checkpoint, to, vocabulary_of(tokenizer), known)
    _warn_of_later_phases(store, Attempt.at(checkpoint.parents[1]))
    _print_files(to)


def _warn_of_later_phases(store: Store, run: Attempt) -> None:
    """Warn if the diet of the run has later phases that are not trained yet."""
    try:
        later = later_phases(newest_plan(store, run.ref, attempts_in(store)), run.job.phase)
    except CurriculumError as wrong:
        warn(f"the later phases of the diet of {run.name} are unknown: {wrong}")
        return
    trained = current_runs(store, run.ref)
    if untrained := ", ".join(name for name in later if name not in trained):
        warn(f"later phases of the diet of {run.name} are not trained yet: {untrained}")


def vocabulary_of(tokenizer: Tokenizer) -> "Vocabulary":
    """Return the vocabulary of a tokenizer, as exports store it."""
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
