"""`curriculum export` of data: rows, mixtures and tokens in formats that other tools read."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.text import Text

from curriculum.inspection.formats import count
from curriculum.interop import tokens_out
from curriculum.interop.huggingface import export_parquet, whole_folder
from curriculum.interop.row_order import Ordered
from curriculum.pipeline.references import artefacts_of, store_of
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from flows.cli.console import MUTED, out
from schemas.errors import StoreError
from schemas.manifest import TokenFormat

if TYPE_CHECKING:
    from curriculum.tokens.codec import Tokenizer

TOKEN_FORMATS: tuple[TokenFormat, ...] = get_args(TokenFormat)
PARQUET_FORMAT = "huggingface"
FORMATS = (*TOKEN_FORMATS, PARQUET_FORMAT)
"""Formats of data; those of models are curriculum.train.export's."""
STAGES = ("rows", "mixtures", "tokens", "documents")
LISTED = 3


def export_data(home: Path, what: str, to: Path, form: str) -> None:
    """Write rows, a mixture in training order, or tokens to a folder, and say what is there.

    Raises:
        StoreError: for none or several that could be meant, and where something is at `to`.
    """
    store, artefact = data_of(home, what)
    if form == PARQUET_FORMAT and artefact.manifest.stage == "tokens":
        raise StoreError(
            what,
            artefact.manifest.stage,
            cause="`datasets` loads rows; documents it loads from the workspace as they lie",
            cure=f"Take rows or a mixture, or load_dataset({str(store.root)!r}, …)",
        )
    tokenizer = load_tokenizer(_tokenizer_of(store, artefact))
    with whole_folder(to) as folder:
        _write(store, artefact, tokenizer, folder, form)
    for file in sorted(each for each in to.rglob("*") if each.is_file()):
        out.print(Text(f"{file}  "), Text(f"{count(file.stat().st_size)}B", MUTED), soft_wrap=True)


def _write(
    store: Store, artefact: Artefact, tokenizer: "Tokenizer", folder: Path, form: str
) -> None:
    if artefact.manifest.stage == "tokens":
        tokens_out.export_tokens(artefact, tokenizer, folder, _token_format(form))
        return
    ordered = Ordered.of(store, artefact)
    if form == PARQUET_FORMAT:
        rows = {each.key for each in ordered.sources}
        made_of = [
            each for row in store.artefacts("rows") if row.key in rows
            for each in _inputs(store, row, "documents")
        ]  # fmt: skip
        export_parquet(ordered, tokenizer, folder, {each.key: each for each in made_of}.values())
    else:
        tokens_out.export_rows(ordered, tokenizer, folder, _token_format(form))


def _token_format(form: str) -> TokenFormat:
    return next(each for each in TOKEN_FORMATS if each == form)


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
            ", ".join(str(each.path.relative_to(store.root)) for each in found[:LISTED]) or None,
            cause=f"{len(found):,} data sets are meant"
            if found
            else "it names no rows and no mixture",
            cure="Give the folder or key of rows, tokens or a mixture, or SPECIALIST/PHASE",
        )
    return store, _tokens_for(store, found[0])


def _tokens_for(store: Store, artefact: Artefact) -> Artefact:
    """The tokens of documents; any other artefact itself."""
    if artefact.manifest.stage != "documents":
        return artefact
    found = [
        each for each in store.artefacts("tokens")
        if artefact.key in {made.key for made in each.manifest.inputs}
    ]  # fmt: skip
    if len(found) != 1:
        raise StoreError(
            str(artefact.path.relative_to(store.root)),
            f"{len(found)} tokens",
            cause="documents go as tokens of one tokenizer",
            cure="Name the folder below tokens/",
        )
    return found[0]


def _tokenizer_of(store: Store, artefact: Artefact) -> Artefact:
    found = _inputs(store, artefact, "tokenizer")
    if not found:
        of_rows = [
            each for row in _inputs(store, artefact, "rows")
            for each in _inputs(store, row, "tokenizer")
        ]  # fmt: skip
        # Imported rows may have come with the tokenizer that was trained here too.
        found = list({each.content: each for each in of_rows}.values())
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
    keys = {each.key for each in artefact.manifest.inputs if each.name.split()[0] == role}
    stage = "tokenizers" if role == "tokenizer" else role
    return [each for each in store.artefacts(stage) if each.key in keys] if keys else []
