"""`curriculum import`: packed rows, or tokenised documents, that others made."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rich.text import Text

from curriculum.interop.card import write_card
from curriculum.interop.derive_columns import RowFacts
from curriculum.interop.foreign_parquet import bounded_memory, check_facts
from curriculum.interop.publish import Imported, ImportFormat, parquet_rows, publish
from curriculum.interop.tokens_in import token_rows
from curriculum.mixing.imported import IMPORT, TRAIN, check_name, mark_of
from curriculum.pipeline.attempts import mark_current
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.recipe import KEY_DIGITS
from curriculum.tokens.controls import DocumentTokens
from flows.cli.console import MUTED, out
from flows.settings import trust
from schemas.errors import SchemaError
from schemas.manifest import TokenFormat
from schemas.reports import ImportReport
from schemas.text import nearest

if TYPE_CHECKING:
    from curriculum.tokens.codec import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """Options of an import; None where nothing is given."""

    path: Path
    format: str
    tokenizer: str | None
    document_tokens: str
    row_length: int | None
    facts: RowFacts
    name: str | None = None
    """Name of the rows in diets."""


def take_in(home: Path, options: Import) -> None:
    """Publish rows from elsewhere, make them live, and say what was filled in.

    Raises:
        SchemaError: for what can't be read as rows; nothing is published then.
        DietError: for a name that can't be one, and for a name for rows that a diet can't serve.
    """
    _check(options)
    store = Store(home)
    trust.make_trusted(home)
    with store.leased():
        tokenizer = _tokenizer_for(store, options)
        with bounded_memory(options.path):
            rows = publish(store, _read(options, load_tokenizer(tokenizer)), tokenizer)
        before = _live_before(store, options.name, rows)
        mark_current(store, _mark_of(options.name, rows), [rows, tokenizer])
    write_card(store)
    _tell(store, rows)
    if options.name is not None:
        _tell_name(options.name, rows, before)


def _mark_of(name: str | None, rows: Artefact) -> str:
    if name is None:
        return f"{IMPORT}-{rows.key[:KEY_DIGITS]}"
    return mark_of(name, rows.manifest.labels["split"])


def _live_before(store: Store, name: str | None, rows: Artefact) -> str | None:
    """The first digits of what stood under the name; None where nothing else did."""
    file = store.root / "current" / f"{_mark_of(name, rows)}.txt"
    lines = read_mark(file) if file.is_file() else ()
    keys = [line.rpartition("/")[2] for line in lines if line.startswith("rows/")]
    return next((key for key in keys if key != rows.key[:KEY_DIGITS]), None)


def _tell_name(name: str, rows: Artefact, before: str | None) -> None:
    instead = f", in place of {before}" if before else ""
    if rows.manifest.labels["split"] == TRAIN:
        out.print(f"a diet serves them as {{imported: {name}, share: …}}{instead}")
    else:
        out.print(f"they measure what is served as {name}{instead}")


def _check(options: Import) -> None:
    if options.name is not None:
        check_name(options.name)
    check_facts(options.facts)
    known = {
        "--format": (options.format, get_args(ImportFormat)),
        "--document-tokens": (options.document_tokens, get_args(DocumentTokens)),
    }
    for name, (value, values) in known.items():
        if value is not None and value not in values:
            raise SchemaError(
                name, value, cause="there is no such value", cure=nearest(str(value), values)
            )
    if not options.path.exists() and options.format == "parquet":
        raise SchemaError(str(options.path), cause="it isn't there", cure="Check the path")


def _read(options: Import, tokenizer: "Tokenizer") -> Imported:
    if options.format == "parquet":
        return parquet_rows(options.path, options.facts, tokenizer)
    form: TokenFormat = next(each for each in get_args(TokenFormat) if each == options.format)
    return token_rows(options.path, form, options.facts, tokenizer, options.row_length)


def _tokenizer_for(store: Store, options: Import) -> Artefact:
    """Find the tokenizer by a key of the workspace, a path, or beside the data."""
    beside = (options.path if options.path.is_dir() else options.path.parent) / "tokenizer.json"
    said = options.tokenizer
    if said is None and not beside.is_file():
        raise SchemaError(
            "--tokenizer",
            cause=f"there is no {beside.name} beside {options.path.name}, so ids mean nothing",
            cure="Give the path of a tokenizer.json, or the key of one of the workspace",
        )
    if said is not None and not Path(said).exists():
        found = [each for each in store.artefacts("tokenizers") if each.key.startswith(said)]
        if len(found) != 1:
            raise SchemaError(
                "--tokenizer",
                said,
                cause="it is no path, and no key of one tokenizer begins so",
                cure="Give the path of a tokenizer.json, or more digits of a key",
            )
        return store.load(found[0].path)
    file = Path(said) if said is not None else beside
    file = file / "tokenizer.json" if file.is_dir() else file
    framed = next(each for each in get_args(DocumentTokens) if each == options.document_tokens)
    return given_tokenizer(store, file, framed)


def _tell(store: Store, rows: Artefact) -> None:
    report = rows.reported(ImportReport)
    domains = report.domains.values()
    sums = {
        "rows": sum(each.rows for each in domains),
        "documents": sum(each.documents for each in domains),
        "tokens": sum(each.tokens for each in domains),
    }
    state = "" if rows.made else "  was there already"
    where = rows.path.relative_to(store.root)
    out.print(Text(str(where)), Text(state, MUTED), soft_wrap=True)
    out.print(Text("  ".join(f"{value:,} {name}" for name, value in sums.items())))
    cut = {
        "divided": report.divided,
        "added bos": report.added_bos,
        "empty": report.empty,
        "unscored": report.unscored,
    }
    for name, number in cut.items():
        if number:
            out.print(Text(f"{name}: {number}"))
    left_behind = (f"{name} is left behind" for name in report.columns_left_behind)
    for line in (*report.fallbacks, *report.read_as, *left_behind):
        out.print(Text(line, MUTED), soft_wrap=True)
