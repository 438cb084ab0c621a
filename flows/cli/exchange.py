"""`curriculum export` and `import`: models and data for other tools, and rows that others made."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.text import Text

from curriculum.inspection.formats import count, first_names, number
from curriculum.interop import tokens_out
from curriculum.interop.dataset_export import export_packed, export_unpacked
from curriculum.interop.eos_boundaries import OPTION, Boundaries
from curriculum.interop.foreign_parquet import check_facts
from curriculum.interop.huggingface import whole_folder, write_card
from curriculum.interop.id_types import TYPE_OPTION, IdType
from curriculum.interop.import_process import ForeignRows, publish_foreign
from curriculum.interop.publish import ImportFormat, RowFacts
from curriculum.interop.row_order import Ordered
from curriculum.mixing.imported import IMPORT, TRAIN, check_name, mark_of
from curriculum.pipeline.attempts import (
    Attempt,
    attempts_in,
    current_runs,
    mark_current,
)
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.references import artefacts_of, checkpoint_of, store_of, title_of
from curriculum.pipeline.status import later_phases
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import NO_ENGINE, DocumentTokens, Tokenizer
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME
from flows.cli.console import MUTED, err, out, warn
from flows.settings import trust
from schemas.cures import tokenizer_file
from schemas.errors import CurriculumError, JobError, SchemaError, StoreError
from schemas.manifest import TokenFormat
from schemas.mistakes import nearest
from schemas.regular_files import kind_at
from schemas.reports import ImportReport
from schemas.visible import one_line, shortened

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
    for file in sorted(path for path in to.rglob("*") if path.is_file()):
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
    err.print(Text(title_of(checkpoint), MUTED), soft_wrap=True)
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
    for file in sorted(to.iterdir()):
        out.print(Text(f"{file}  "), Text(f"{count(file.stat().st_size)}B", MUTED), soft_wrap=True)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """Options of an import; None where nothing is given."""

    path: Path
    format: str
    tokenizer: str | None
    document_tokens: str | None
    """The tokenizer's own where None and the tokenizer is one of the workspace, else bos_eos."""
    row_length: int | None
    facts: RowFacts
    boundaries: str | None = None
    dtype: str | None = None
    name: str | None = None
    """Name of the rows in diets."""
    unsandboxed: bool = False
    """Read files without a sandbox where the kernel has none."""

    @property
    def stand_in(self) -> Boundaries | None:
        """Stand-in for boundaries that aren't stored."""
        return next((known for known in get_args(Boundaries) if known == self.boundaries), None)

    @property
    def id_type(self) -> IdType | None:
        """Type of ids that isn't stored."""
        return next((known for known in get_args(IdType) if known == self.dtype), None)


def import_rows(home: Path, options: ImportOptions) -> None:
    """Publish rows from elsewhere, make them live, and say what was filled in.

    Raises:
        SchemaError: for what can't be read as rows; nothing is published then.
        DietError: for a name that can't be one, and for a name for rows that a diet can't serve.
    """
    _check_options(options)
    store = Store(home)
    trust.make_trusted(home)
    with store.leased():
        artefact = _tokenizer_for(store, options)
        tokenizer = load_tokenizer(artefact)
        asked = ForeignRows(
            path=options.path,
            format=next(form for form in get_args(ImportFormat) if form == options.format),
            facts=options.facts,
            row_length=options.row_length,
            boundaries=options.stand_in,
            id_type=options.id_type,
        )
        rows = publish_foreign(store, asked, artefact, unsandboxed=options.unsandboxed)
        split, key = rows.manifest.labels["split"], rows.key[:KEY_DIGITS]
        mark = mark_of(options.name, split) if options.name else f"{IMPORT}-{key}"
        file = store.root / "current" / f"{mark}.txt"
        lines = read_mark(file) if file.is_file() else ()
        mark_current(store, mark, [rows, artefact])
    write_card(store)
    _print_import(store, rows)
    if tokenizer.engine == NO_ENGINE:
        reason = shortened(tokenizer.engine_reason)
        out.print(Text(f"{tokenizer.name} encodes no text here: {reason}", MUTED))
    if options.name is None:
        return
    keys = [line.rpartition("/")[2] for line in lines if line.startswith("rows/")]
    before = next((other for other in keys if other != key), None)
    instead = f", in place of {before}" if before else ""
    if split == TRAIN:
        out.print(f"a diet serves them as {{imported: {options.name}, share: …}}{instead}")
    else:
        out.print(f"they measure what is served as {options.name}{instead}")


def _check_options(options: ImportOptions) -> None:
    if options.name is not None:
        check_name(options.name)
    check_facts(options.facts)
    known = {
        "--format": (options.format, get_args(ImportFormat)),
        "--document-tokens": (options.document_tokens, get_args(DocumentTokens)),
        OPTION: (options.boundaries, get_args(Boundaries)),
        TYPE_OPTION: (options.dtype, get_args(IdType)),
    }
    for name, (value, values) in known.items():
        if value is not None and value not in values:
            raise SchemaError(
                name, value, cause="there is no such value", cure=nearest(str(value), values)
            )
    if options.dtype is not None and options.format == "parquet":
        raise SchemaError(
            TYPE_OPTION,
            options.dtype,
            cause="Parquet says of which type its ids are",
            cure="Leave it out, or say --format flat for a .bin file",
        )
    path = options.path
    if options.format == "parquet" and not (path.is_dir() or path.is_file()):
        raise SchemaError(str(path), cause=f"{kind_at(path)} lies there", cure="Check the path")


def _tokenizer_for(store: Store, options: ImportOptions) -> Artefact:
    """Find the tokenizer by a key of the workspace, a path, or beside the data."""
    beside = (options.path if options.path.is_dir() else options.path.parent) / TOKENIZER_NAME
    given = options.tokenizer
    if given is None and not beside.is_file():
        raise SchemaError(
            "--tokenizer",
            cause=f"there is no {beside.name} beside {options.path.name}, so ids mean nothing",
            cure="Give the path of a tokenizer.json, or the key of one of the workspace",
        )
    if given is not None and not Path(given).exists():
        found = [
            tokenizer
            for tokenizer in store.artefacts("tokenizers")
            if tokenizer.key.startswith(given)
        ]
        if len(found) != 1:
            raise SchemaError(
                "--tokenizer",
                given,
                cause="it is neither a path nor the first digits of one tokenizer's key",
                cure=f"{tokenizer_file(given)}; or give more digits of a key",
            )
        if options.document_tokens is None:
            return store.load(found[0].path)
        file = found[0].path
    else:
        file = beside.parent if given is None else Path(given)
    wanted = options.document_tokens or "bos_eos"
    framed: DocumentTokens = next(name for name in get_args(DocumentTokens) if name == wanted)
    return given_tokenizer(
        store,
        file,
        framed,
        finished=options.format == "parquet",
        unsandboxed=options.unsandboxed,
    )


def _print_import(store: Store, rows: Artefact) -> None:
    report = rows.reported(ImportReport)
    domains = report.domains.values()
    sums = {
        "rows": sum(domain.rows for domain in domains),
        "documents": sum(domain.documents for domain in domains) - report.further_pieces,
        "tokens": sum(domain.tokens for domain in domains),
    }
    state = "" if rows.made else "  was there already"
    where = rows.path.relative_to(store.root)
    out.print(Text(str(where)), Text(state, MUTED), soft_wrap=True)
    out.print(Text("  ".join(f"{value:,} {name}" for name, value in sums.items())))
    cut = {
        "divided": report.divided,
        "further pieces": report.further_pieces,
        "added bos": report.added_bos,
        "empty": report.empty,
        "unscored": report.unscored,
        "documents behind an EOS": report.boundaries_from_eos,
        "documents without an EOS": report.without_eos,
        "targets across a boundary, cleared": report.cleared,
    }
    for name, amount in cut.items():
        if amount:
            out.print(Text(f"{name}: {amount}"))
    left_behind = [one_line(name) for name in report.columns_left_behind]
    said = f"{number(len(left_behind), 'column')} left behind: {first_names(left_behind)}"
    for line in (*report.fallbacks, *report.read_as, *([said] if left_behind else ())):
        out.print(Text(line, MUTED), soft_wrap=True)
