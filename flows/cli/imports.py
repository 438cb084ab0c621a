"""`curriculum import`: read rows that other tools wrote."""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.text import Text

from curriculum.inspection.formats import first_names, number
from curriculum.interop.eos_boundaries import OPTION, Boundaries
from curriculum.interop.foreign_parquet import check_facts
from curriculum.interop.huggingface import write_card
from curriculum.interop.id_types import TYPE_OPTION, IdType
from curriculum.interop.import_process import ForeignRows, publish_foreign
from curriculum.interop.publish import ImportFormat, RowFacts
from curriculum.mixing.imported import IMPORT, TRAIN, check_name, mark_of
from curriculum.pipeline.attempts import mark_current
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import NO_ENGINE, DocumentTokens
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME
from flows.cli.console import MUTED, out, print_line
from flows.settings import trust
from schemas.cures import tokenizer_file
from schemas.errors import SchemaError
from schemas.mistakes import nearest
from schemas.regular_files import kind_at
from schemas.reports import ImportReport
from schemas.visible import one_line, shortened


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """Options of an import; an option that wasn't given is None."""

    path: Path
    format: str
    tokenizer: str | None
    document_tokens: str | None
    """None means the setting of the tokenizer if it is in the workspace, and bos_eos for a tokenizer.json."""
    row_length: int | None
    facts: RowFacts
    boundaries: str | None = None
    dtype: str | None = None
    name: str | None = None
    """Name by which diets refer to the rows."""
    unsandboxed: bool = False
    """True if files may be read without a sandbox on kernels without Landlock."""

    @property
    def stand_in(self) -> Boundaries | None:
        """Way to find the boundaries of documents in data that doesn't store them."""
        return next((known for known in get_args(Boundaries) if known == self.boundaries), None)

    @property
    def id_type(self) -> IdType | None:
        """Integer type of the token ids in data that doesn't store the type."""
        return next((known for known in get_args(IdType) if known == self.dtype), None)


def import_rows(home: Path, options: ImportOptions) -> None:
    """Publish the rows of other tools as a current artefact, and print which values were filled in.

    Raises:
        SchemaError: if the data can't be read as rows; nothing is published then.
        DietError: if the name is invalid, or if a name is given for rows that diets can't use.
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
        out.print(Text(one_line(f"{tokenizer.name} can't encode text here: {reason}"), MUTED))
    if options.name is None:
        return
    keys = [line.rpartition("/")[2] for line in lines if line.startswith("rows/")]
    before = next((other for other in keys if other != key), None)
    instead = f", instead of {before}" if before else ""
    if split == TRAIN:
        out.print(f"diets use these rows as {{imported: {options.name}, share: …}}{instead}")
    else:
        out.print(f"validation rows of {options.name}{instead}")


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
            raise SchemaError(name, value, cause="unknown value", cure=nearest(str(value), values))
    if options.dtype is not None and options.format == "parquet":
        raise SchemaError(
            TYPE_OPTION,
            options.dtype,
            cause="Parquet files store the type of their ids",
            cure="Omit --dtype, or give --format flat for a .bin file",
        )
    path = options.path
    if options.format == "parquet" and not (path.is_dir() or path.is_file()):
        raise SchemaError(
            str(path), cause=f"{kind_at(path)} is at this path", cure="Check the path"
        )


def _tokenizer_for(store: Store, options: ImportOptions) -> Artefact:
    """Return the tokenizer with the given key or path, or the tokenizer next to the imported data."""
    beside = (options.path if options.path.is_dir() else options.path.parent) / TOKENIZER_NAME
    given = options.tokenizer
    if given is None and not beside.is_file():
        raise SchemaError(
            "--tokenizer",
            cause=f"{beside.name} beside {options.path.name} is missing, so the token ids can't "
            "be decoded",
            cure="Give the path of a tokenizer.json, or the key of a tokenizer in the workspace",
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
                cause="it is no file, and it matches no key of a tokenizer or several keys",
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
        store, file, framed, finished=options.format == "parquet", unsandboxed=options.unsandboxed
    )


def _print_import(store: Store, rows: Artefact) -> None:
    report = rows.reported(ImportReport)
    domains = report.domains.values()
    sums = {
        "rows": sum(domain.rows for domain in domains),
        "documents": sum(domain.documents for domain in domains) - report.further_pieces,
        "tokens": sum(domain.tokens for domain in domains),
    }
    state = "" if rows.made else "  already imported"
    where = rows.path.relative_to(store.root)
    out.print(Text(str(where)), Text(state, MUTED), soft_wrap=True)
    out.print(Text("  ".join(f"{value:,} {name}" for name, value in sums.items())))
    cut = {
        "divided": report.divided,
        "further pieces": report.further_pieces,
        "added bos": report.added_bos,
        "empty": report.empty,
        "unscored": report.unscored,
        "documents after an EOS": report.boundaries_from_eos,
        "documents without an EOS": report.without_eos,
        "cleared targets across a boundary": report.cleared,
    }
    for name, amount in cut.items():
        if amount:
            out.print(Text(f"{name}: {amount}"))
    left_behind = [one_line(name) for name in report.columns_left_behind]
    said = f"{number(len(left_behind), 'column')} not imported: {first_names(left_behind)}"
    for line in (*report.fallbacks, *report.read_as, *([said] if left_behind else ())):
        print_line(line, MUTED)
