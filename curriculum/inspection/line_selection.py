"""Options of `inspect`, and the rows of an artefact that they select."""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.inspection.lineage import inputs
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.store import Artefact, Store
from schemas.cures import cure_of
from schemas.document import PARTS
from schemas.errors import StoreError
from schemas.stages import data_table_of
from schemas.whole_numbers import whole_number

OF_DOCUMENTS = ("repository", "path", "commit", "licence")
"""Filters on documents. They select a packed row if one of its documents matches."""
FILTERS = {
    "rows": ("family", "domain", *OF_DOCUMENTS, "where"),
    "documents": ("family", "domain", *OF_DOCUMENTS, "where"),
    "tokens": ("family", "domain", *OF_DOCUMENTS),
    "selections": ("family", "domain", "repository", "path", "where"),
    "mixtures": ("family", "domain", *OF_DOCUMENTS, "step", "where"),
    "runs": ("family", "domain", "step", "where"),
    "checkpoints": ("family", "domain"),
}
"""Filters that each stage supports. For runs, they select figures and steps."""
FILES = {
    "documents": (PARTS,),
    "rows": (PARTS,),
    "mixtures": (PLAN_NAME,),
    "selections": ("selection.parquet", "kept.parquet"),
    "runs": ("metrics/",),
    "tokenizers": ("token_bytes.parquet",),
}
"""Prefixes of the names of the files that contain the rows of a stage."""
NO_LICENCE = "none"
BATCH_LINES = 8
Mask = npt.NDArray[np.bool_]
Line = dict[str, Any]
"""A row of a Parquet file: its values by column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineFilter:
    """Filter of rows. A row must match all values that are given."""

    family: str | None = None
    domain: str | None = None
    repository: str | None = None
    path: str | None = None
    """Path of a file or folder, or a pattern with * and ?."""
    commit: str | None = None
    """First digits of the commit's hash."""
    licence: str | None = None
    step: tuple[int, int] | None = None
    """First and last step. Both are included, and steps are counted from 1."""
    where: str | None = None
    """SQL condition on the columns."""

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the filters for which a value is given."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)

    def words(self, name: str) -> str:
        """Return the value of a filter as the user wrote it.

        >>> LineFilter(step=(3, 3)).words("step"), LineFilter(step=(3, 5)).words("step")
        ('3', '3-5')
        """
        value = getattr(self, name)
        return "-".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)

    def has_figure(self, family: str, domain: str) -> bool:
        """Return True if the filter matches a figure of this family and domain."""
        return self.family in (None, family) and self.domain in (None, domain)

    def refuse(self, stage: str, what: str, *, known: Collection[str] | None = None) -> None:
        """Raise a StoreError if a given filter isn't supported by the stage, or isn't in `known`."""
        can = FILTERS.get(stage, ()) if known is None else known
        for name in self.given:
            if name not in can:
                listed = ", ".join(f"--{option}" for option in can)
                raise StoreError(
                    f"--{name}",
                    self.words(name),
                    cause=f"{what} is of stage {stage}, which knows no {name}",
                    cure=f"Choose by {listed}" if can else "Leave it out",
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectOptions:
    """Options of `inspect`: the number of rows or documents, their filter, and how much text to show."""

    rows: int = 1
    pack_id: str | None = None
    document: str | None = None
    """ID of a document."""
    full: bool = False
    only: LineFilter = LineFilter()


def steps(text: str | None) -> tuple[int, int] | None:
    """Parse a step, or a range of steps.

    >>> steps("12"), steps("10-20")
    ((12, 12), (10, 20))

    Raises:
        StoreError: if the text is neither.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    start, end = whole_number(first), whole_number(last if dash else first)
    if start is None or end is None:
        raise StoreError("--step", text, cause="it is no step", cure="Say 12, or 10-20")
    if not 1 <= start <= end:
        raise StoreError(
            "--step", text, cause="steps count from 1 upwards", cure="Say 12, or 10-20"
        )
    return start, end


def line_files(artefact: Artefact) -> list[Path]:
    """Return the files that contain the rows of an artefact, in order."""
    prefixes = FILES.get(artefact.manifest.stage, ())
    names = [file.name for file in artefact.manifest.files]
    mine = sorted(name for name in names if name.startswith(prefixes) and prefixes)
    return [artefact.path / name for name in mine if name.endswith(".parquet")]


def documents_of(store: Store, tokens: Artefact) -> Artefact | None:
    """Return the documents that were encoded to `tokens`, row by row, or None if they were deleted."""
    own = {record.key for record in tokens.manifest.inputs if record.name == "documents"}
    found = [documents for documents in inputs(store, tokens, "documents") if documents.key in own]
    return found[0] if found and line_files(found[0]) else None


def has_lines(store: Store, artefact: Artefact, options: InspectOptions) -> bool:
    """Return True if a row of an artefact matches the options. For tokens, rows of their documents count."""
    stage = artefact.manifest.stage
    if options.pack_id is not None and stage != "rows":
        return False
    if stage == "tokens" and options.only.given:
        documents = documents_of(store, artefact)
        return documents is not None and has_lines(store, documents, options)
    masks = select_lines(store, artefact, options)
    return masks is None or any(mask.any() for mask in masks)


def chosen_lines(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[tuple[int, Line]]:
    """Yield the selected rows, each with its number in the artefact.

    Raises:
        StoreError: if the stage doesn't support a filter.
    """
    return lines_of(line_files(artefact), select_lines(store, artefact, options))


def first_lines(
    store: Store, artefact: Artefact, options: InspectOptions, most: int | None
) -> tuple[tuple[Line, ...], int]:
    """Return the first `most` selected rows, and the number of all selected rows.

    Raises:
        StoreError: if a file lacks a column that its table requires.
    """
    files, masks = line_files(artefact), select_lines(store, artefact, options)
    for file in files:
        _require_columns(artefact, file)
    sizes = [parquet.read_metadata(file).num_rows for file in files]
    number = sum(sizes) if masks is None else sum(int(mask.sum()) for mask in masks)
    return tuple(line for _, line in itertools.islice(lines_of(files, masks), most)), number


def _require_columns(artefact: Artefact, file: Path) -> None:
    """Raise unless a file has all columns that its table requires."""
    name = file.relative_to(artefact.path).as_posix()
    kind = data_table_of(artefact.manifest.stage, name)
    there = {*parquet.read_schema(file).names}
    for field in kind.schema if kind is not None else ():
        if not (field.nullable or field.name in there):
            raise StoreError(str(file), cause=f"it has no column {field.name}", cure=cure_of(file))


def lines_of(
    files: Sequence[Path], masks: Sequence[Mask] | None, columns: Collection[str] | None = None
) -> Iterator[tuple[int, Line]]:
    """Yield those rows of files that the masks select, by default all, with their numbers across all files.

    Rows are decoded in small batches. Columns that a file lacks are left out.
    """
    first = 0
    for number, file in enumerate(files):
        inside = 0
        with parquet.File(file) as opened:
            there = opened.schema_arrow.names
            names = [name for name in there if columns is None or name in columns]
            for group in range(opened.num_row_groups):
                size = opened.metadata.row_group(group).num_rows
                mask = np.ones(size, np.bool_) if masks is None else masks[number][inside:][:size]
                if mask.any():
                    yield from _lines_in(opened, group, first + inside, mask, names)
                inside += size
        first += inside


def _lines_in(
    opened: pq.ParquetFile, group: int, first: int, mask: Mask, names: list[str]
) -> Iterator[tuple[int, Line]]:
    at, left = 0, int(mask.sum())
    for batch in opened.iter_batches(BATCH_LINES, row_groups=[group], columns=names):
        kept = np.flatnonzero(mask[at : at + len(batch)])
        # `take` would import pandas, which is slow; even a run that has nothing to do reads rows.
        lines = [line for row in kept.tolist() for line in batch.slice(row, 1).to_pylist()]
        yield from zip((kept + first + at).tolist(), lines, strict=True)
        at, left = at + len(batch), left - len(kept)
        if not left:
            return


def select_lines(store: Store, artefact: Artefact, options: InspectOptions) -> list[Mask] | None:
    """Return a mask of the selected rows for each file of the artefact, or None to select all rows.

    Raises:
        StoreError: if the stage doesn't support a filter.
        CatalogError: if the SQL condition is invalid.
    """
    only, files = options.only, line_files(artefact)
    only.refuse(artefact.manifest.stage, artefact.path.name)
    conditions = [*_conditions(store, artefact, options)]
    masks = [_mask(file, pl.all_horizontal(conditions)) for file in files] if conditions else None
    if only.where is None:
        return masks
    from curriculum.catalog.answer import matching

    matched = [
        np.isin(np.arange(parquet.read_metadata(file).num_rows), numbers)
        for file, numbers in zip(files, matching(files, only.where), strict=True)
    ]
    return matched if masks is None else [a & b for a, b in zip(masks, matched, strict=True)]


def _mask(file: Path, condition: pl.Expr) -> Mask:
    """Return a mask of the rows that match a condition. Only the columns in the condition are read."""
    names = condition.meta.root_names()
    if not names:
        size = parquet.read_metadata(file).num_rows
        return np.full(size, bool(pl.select(condition).item()))
    mask: Mask = _frame(file, names).select(condition.fill_null(False)).to_series().to_numpy()
    return mask


def _frame(file: Path, names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(parquet.read_table(file, columns=list(dict.fromkeys(names))))


def _conditions(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[pl.Expr]:
    """Yield the conditions that the rows of an artefact must match."""
    only, labels = options.only, artefact.manifest.labels
    # An artefact of one family has no rows of another.
    if only.family is not None and labels.get("family", only.family) != only.family:
        yield pl.lit(False)
        return
    match artefact.manifest.stage:
        case "documents":
            yield from _document_conditions(store, artefact, options)
        case "rows":
            yield from _row_conditions(store, artefact, options)
        case "selections":
            yield from _selection_conditions(artefact, only)
        case "mixtures":
            yield from _plan_conditions(store, artefact, only)
        case "runs" if only.step is not None:
            yield pl.col("step").is_between(*only.step)


def _document_conditions(
    store: Store, documents: Artefact, options: InspectOptions
) -> Iterator[pl.Expr]:
    if options.document is not None:
        yield pl.col("document_id") == options.document
    if set(options.only.given) & set(OF_DOCUMENTS):
        yield _has_source(options.only)
    if options.only.domain is not None:
        yield _in_domain(store, documents, options.only.domain)


def _row_conditions(store: Store, rows: Artefact, options: InspectOptions) -> Iterator[pl.Expr]:
    if options.pack_id is not None:
        yield pl.col("pack_id") == options.pack_id
    if options.only.domain is not None:
        yield pl.col("domain") == options.only.domain
    if set(options.only.given) & set(OF_DOCUMENTS):
        yield _with_documents(store, rows, options.only)


def _has_source(only: LineFilter) -> pl.Expr:
    """Return the condition that a document has a provenance entry that matches the filter."""
    return pl.col("provenance").list.eval(pl.all_horizontal([*_source_conditions(only)])).list.any()


def _source_conditions(only: LineFilter) -> Iterator[pl.Expr]:
    field = pl.element().struct.field
    if only.repository is not None:
        yield field("repository") == only.repository
    if only.commit is not None:
        yield field("commit").str.starts_with(only.commit.lower())
    if only.path is not None:
        yield field("path").str.contains(regex(only.path))
    if only.licence is not None:
        yield field("licence").fill_null(NO_LICENCE) == only.licence


def _in_domain(store: Store, documents: Artefact, domain: str) -> pl.Expr:
    """Return the condition that the newest selection assigns a document to `domain`."""
    keys = {documents.key, *(record.key for record in documents.manifest.inputs)}
    decided = [
        artefact
        for artefact in store.artefacts("selections")
        if keys & {record.key for record in artefact.manifest.inputs} and _has_domains(artefact)
    ]
    if not decided:
        raise StoreError(
            "--domain",
            domain,
            cause=f"no selection has said yet in which domains the documents of {documents.path.name} are",
            cure="Build the phase to its rows first",
        )
    newest = max(decided, key=lambda artefact: artefact.manifest.created)
    lines = _frame(newest.path / "selection.parquet", ["document_id", "domain"])
    known = lines.filter(pl.col("domain") == domain)["document_id"].to_list()
    # A v6_enriched document has the domain of its base document.
    is_enriched = documents.manifest.labels.get("base")
    return pl.col("base_document_id" if is_enriched else "document_id").is_in(known)


def _has_domains(selection: Artefact) -> bool:
    return any(file.name == "selection.parquet" for file in selection.manifest.files)


def _with_documents(store: Store, rows: Artefact, only: LineFilter) -> pl.Expr:
    """Return the condition that a packed row contains a document that matches the filter."""
    wanted = [
        name
        for documents in inputs(store, rows, "documents")
        if only.repository in (None, documents.manifest.labels.get("repository", only.repository))
        for file in line_files(documents)
        for name in _frame(file, ["document_id", "provenance"])
        .filter(_has_source(only))["document_id"]
        .to_list()
    ]
    return pl.col("document_ids").list.eval(pl.element().is_in(wanted)).list.any()


def _selection_conditions(selection: Artefact, only: LineFilter) -> Iterator[pl.Expr]:
    if only.domain is not None and not _has_domains(selection):
        raise StoreError(
            "--domain",
            only.domain,
            cause=f"{selection.path.name} says what is kept, before domains are decided",
            cure="Look at the selection beside it, which holds selection.parquet",
        )
    for name in ("family", "repository", "domain"):
        if (value := getattr(only, name)) is not None:
            yield pl.col(name) == value
    if only.path is not None:
        path = pl.col("lineage").str.splitn(":", 2).struct.field("field_1").fill_null("")
        yield path.str.contains(regex(only.path))


def _plan_conditions(store: Store, mixture: Artefact, only: LineFilter) -> Iterator[pl.Expr]:
    """Yield the conditions on the rows of a mixture: stratum, step, and documents."""
    report = report_of(mixture)
    if only.family is not None or only.domain is not None:
        strata = [
            stratum.stratum
            for stratum in report.strata
            if only.has_figure(stratum.family, stratum.domain)
        ]
        yield pl.col("stratum").is_in(strata)
    if only.step is not None:
        slots = slots_of(only.step, report.tokens_per_step // report.slot_length)
        yield pl.col("slot").is_between(slots.start, slots.stop - 1)
    if set(only.given) & set(OF_DOCUMENTS):
        plan = _frame(mixture.path / PLAN_NAME, ["rows_key"])
        planned = set(plan["rows_key"].unique())
        wanted = [
            name
            for rows in inputs(store, mixture, "rows")
            if rows.key in planned
            for condition in [_with_documents(store, rows, only)]
            for file in line_files(rows)
            for name in _frame(file, ["pack_id", "document_ids"])
            .filter(condition)["pack_id"]
            .to_list()
        ]
        yield pl.col("pack_id").is_in(wanted)


def slots_of(steps: tuple[int, int], slots_per_step: int) -> range:
    """Return the slots that a range of steps reads.

    >>> slots_of((1, 1), 8), slots_of((3, 4), 8)
    (range(0, 8), range(16, 32))
    """
    return range((steps[0] - 1) * slots_per_step, steps[1] * slots_per_step)


def regex(pattern: str) -> str:
    r"""Convert a path, folder or pattern to a regular expression.

    >>> regex("src"), regex("*.h")
    ('^src(/.*)?$', '^.*\\.h(/.*)?$')
    """
    letters = {"*": ".*", "?": "."}
    written = "".join(letters.get(letter) or re.escape(letter) for letter in pattern.rstrip("/"))
    return f"^{written}(/.*)?$"
