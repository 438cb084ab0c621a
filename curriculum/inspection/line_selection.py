"""Options of `inspect`, and the artefact's lines that they choose."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.inspection.lineage import inputs
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.store import Artefact, Store
from schemas.document import PARTS
from schemas.errors import StoreError

FILTERS = {
    "rows": ("family", "domain", "repository", "path", "commit", "licence", "where"),
    "documents": ("family", "domain", "repository", "path", "commit", "licence", "where"),
    "tokens": ("family", "domain", "repository", "path", "commit", "licence"),
    "selections": ("family", "domain", "repository", "path", "where"),
    "mixtures": (
        *("family", "domain", "repository", "path", "commit", "licence", "step", "where"),
    ),
    "runs": ("family", "domain", "step", "where"),
    "checkpoints": ("family", "domain"),
}
"""Filters of the lines of each stage; a run's lines are its figures and its steps."""
OF_DOCUMENTS = ("repository", "path", "commit", "licence")
"""Filters that only documents have: rows are chosen by the documents in them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LineFilter:
    """Filter of lines: all given values must match."""

    family: str | None = None
    domain: str | None = None
    repository: str | None = None
    path: str | None = None
    """A file, a folder, or a pattern with * and ?."""
    commit: str | None = None
    """Its first digits."""
    licence: str | None = None
    step: tuple[int, int] | None = None
    """Steps from the first to the last, both among them, counted from 1."""
    where: str | None = None
    """An SQL condition on the columns of the lines."""

    @property
    def given(self) -> tuple[str, ...]:
        """The names of what is asked for."""
        return tuple(each.name for each in fields(self) if getattr(self, each.name) is not None)

    def words(self, name: str) -> str:
        """Return the value of a filter as it was given.

        >>> LineFilter(step=(3, 3)).words("step"), LineFilter(step=(3, 5)).words("step")
        ('3', '3-5')
        """
        value = getattr(self, name)
        return "-".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)

    def refuse(self, stage: str, what: str, *, known: Collection[str] | None = None) -> None:
        """Nothing that is asked for may be passed over.

        Raises:
            StoreError: for what the lines of a stage can't be chosen by.
        """
        can = FILTERS.get(stage, ()) if known is None else known
        for name in self.given:
            if name not in can:
                listed = ", ".join(f"--{each}" for each in can)
                raise StoreError(
                    f"--{name}",
                    self.words(name),
                    cause=f"{what} is of stage {stage}, which knows no {name}",
                    cure=f"Choose by {listed}" if can else "Leave it out",
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectOptions:
    """Number of rows or documents, their filter, and whole texts or excerpts."""

    rows: int = 1
    pack_id: str | None = None
    document: str | None = None
    """The first digits of a document's id."""
    full: bool = False
    only: LineFilter = LineFilter()


def steps(text: str | None) -> tuple[int, int] | None:
    """A step, or a range of them.

    >>> steps("12"), steps("10-20")
    ((12, 12), (10, 20))

    Raises:
        StoreError: for what is neither.
    """
    if text is None:
        return None
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise StoreError("--step", text, cause="it is no step", cure="Say 12, or 10-20")
    found = int(first), int(last or first)
    if not 1 <= found[0] <= found[1]:
        raise StoreError(
            "--step", text, cause="steps count from 1 upwards", cure="Say 12, or 10-20"
        )
    return found


Mask = npt.NDArray[np.bool_]
NO_LICENCE = "none"
NAMES = {
    "documents": (PARTS,),
    "rows": (PARTS,),
    "mixtures": (PLAN_NAME,),
    "selections": ("selection.parquet", "kept.parquet"),
    "runs": ("metrics/",),
    "tokenizers": ("token_bytes.parquet",),
}
"""Beginnings of the names of the files that hold the lines of a stage."""


def line_files(artefact: Artefact) -> list[Path]:
    """The files that hold an artefact's lines, in their order."""
    prefixes = NAMES.get(artefact.manifest.stage, ())
    names = [each.name for each in artefact.manifest.files]
    mine = sorted(name for name in names if name.startswith(prefixes) and prefixes)
    return [artefact.path / name for name in mine if name.endswith(".parquet")]


def select_lines(store: Store, artefact: Artefact, only: LineFilter) -> list[Mask] | None:
    """Return the mask of chosen lines of each of the artefact's files; None for all.

    Raises:
        StoreError: for what lines of this stage can't be chosen by.
        CatalogError: for a condition that is none.
    """
    if not only.given:
        return None
    stage, files = artefact.manifest.stage, line_files(artefact)
    only.refuse(stage, artefact.path.name)
    masks = [np.ones(parquet.read_metadata(file).num_rows, np.bool_) for file in files]
    if only.family is not None and not _is_family(artefact, only.family):
        return [np.zeros_like(mask) for mask in masks]
    wanted = _wanted_document_ids(store, artefact, only) if stage == "rows" else None
    for mask, file in zip(masks, files, strict=True):
        match stage:
            case "documents":
                mask &= _documents_mask(file, only)
                mask &= _in_domain(store, artefact, file, only)
            case "rows":
                mask &= _rows_mask(file, only, wanted)
            case "selections":
                mask &= _selection_mask(file, only)
            case "mixtures":
                mask &= _plan_mask(store, artefact, file, only)
            case "runs" if only.step:
                mask &= _range_mask(file, "step", *only.step)
    if only.where is not None:
        masks = _matching_condition(files, masks, only.where)
    return masks


def has_row(rows: Artefact, pack_id: str) -> bool:
    """Return True if an artefact holds a row with this pack_id."""
    return any(
        bool(_equal_mask(parquet.read_table(file, columns=["pack_id"])["pack_id"], pack_id).any())
        for file in line_files(rows)
    )


def _is_family(artefact: Artefact, family: str) -> bool:
    """Return True if an artefact may have lines of a family: an artefact of one family has no other."""
    return artefact.manifest.labels.get("family", family) == family


def _matching_condition(files: Sequence[Path], masks: list[Mask], condition: str) -> list[Mask]:
    from curriculum.catalog.answer import matching

    found = matching(files, condition)
    kept = [np.zeros_like(mask) for mask in masks]
    for mask, numbers in zip(kept, found, strict=True):
        mask[numbers] = True
    return [mask & each for mask, each in zip(masks, kept, strict=True)]


def _documents_mask(file: Path, only: LineFilter) -> Mask:
    """Choose by provenance, where one of a document's sources is enough."""
    table = parquet.read_table(file, columns=["provenance"])
    provenance: Any = table["provenance"].combine_chunks()
    flat: Any = provenance.flatten()
    fits = np.ones(len(flat), np.bool_)
    if only.repository is not None:
        fits &= _equal_mask(pc.struct_field(flat, "repository"), only.repository)
    if only.commit is not None:
        fits &= _as_mask(pc.starts_with(pc.struct_field(flat, "commit"), only.commit.lower()))
    if only.path is not None:
        fits &= _as_mask(pc.match_substring_regex(pc.struct_field(flat, "path"), regex(only.path)))
    if only.licence is not None:
        licence: Any = pc.struct_field(flat, "licence")
        fits &= _equal_mask(pc.fill_null(licence, NO_LICENCE), only.licence)
    mask = np.zeros(len(table), np.bool_)
    parents: Any = pc.list_parent_indices(provenance)
    mask[parents.to_numpy()[fits]] = True
    return mask


def _in_domain(store: Store, documents: Artefact, file: Path, only: LineFilter) -> Mask:
    """Choose by the newest selection that decided on these documents."""
    number = parquet.read_metadata(file).num_rows
    if only.domain is None:
        return np.ones(number, np.bool_)
    keys = {documents.key, *(each.key for each in documents.manifest.inputs)}
    decided = [
        each
        for each in store.artefacts("selections")
        if keys & {record.key for record in each.manifest.inputs} and _has_domains(each)
    ]
    if not decided:
        raise StoreError(
            "--domain",
            only.domain,
            cause=f"no selection has said yet in which domains the documents of {documents.path.name} are",
            cure="Build the phase to its rows first",
        )
    newest = max(decided, key=lambda each: each.manifest.created)
    known = parquet.read_table(
        newest.path / "selection.parquet",
        columns=["document_id"],
        filters=[("domain", "=", only.domain)],
    )
    # A document of v6_enriched stands where its base's does.
    column = "base_document_id" if documents.manifest.labels.get("base") else "document_id"
    ids: Any = parquet.read_table(file, columns=[column])[column]
    return _as_mask(pc.is_in(ids, value_set=known["document_id"].combine_chunks()))


def _has_domains(selection: Artefact) -> bool:
    return any(each.name == "selection.parquet" for each in selection.manifest.files)


def _rows_mask(file: Path, only: LineFilter, wanted: Any) -> Mask:
    """Choose by domain, and by the documents in a row, where some are wanted."""
    if only.domain is not None:
        domains = parquet.read_table(file, columns=["domain"])["domain"]
        return _equal_mask(domains, only.domain) & _rows_with_documents(file, wanted)
    return _rows_with_documents(file, wanted)


def _rows_with_documents(file: Path, wanted: Any) -> Mask:
    """Mask of the rows that hold one of some documents; None asks for none of them."""
    if wanted is None:
        return np.ones(parquet.read_metadata(file).num_rows, np.bool_)
    ids: Any = parquet.read_table(file, columns=["document_ids"])["document_ids"].combine_chunks()
    held = _as_mask(pc.is_in(ids.flatten(), value_set=wanted))
    parents: Any = pc.list_parent_indices(ids)
    has = np.zeros(len(ids), np.bool_)
    has[parents.to_numpy()[held]] = True
    return has


def _wanted_document_ids(store: Store, rows: Artefact, only: LineFilter) -> Any:
    """The ids of the documents of rows that are what is asked for; None where all are."""
    if not set(only.given) & set(OF_DOCUMENTS):
        return None
    found: list[str] = []
    for each in inputs(store, rows, "documents"):
        if only.repository in (None, each.manifest.labels.get("repository", only.repository)):
            for file in line_files(each):
                ids = parquet.read_table(file, columns=["document_id"])["document_id"]
                fitting: Any = ids.filter(pa.array(_documents_mask(file, only)))
                found += fitting.to_pylist()
    return pa.array(found, pa.string())


def _selection_mask(file: Path, only: LineFilter) -> Mask:
    names = [*("family", "repository", "lineage"), *(["domain"] if only.domain else [])]
    there = parquet.read_schema(file).names
    if only.domain and "domain" not in there:
        raise StoreError(
            "--domain",
            only.domain,
            cause=f"{file.parent.name} says what is kept, before domains are decided",
            cure="Look at the selection beside it, which holds selection.parquet",
        )
    table = parquet.read_table(file, columns=names)
    mask = np.ones(len(table), np.bool_)
    for name in ("family", "repository", "domain"):
        if (value := getattr(only, name)) is not None:
            mask &= _equal_mask(table[name], value)
    if only.path is not None:
        paths = [str(each).partition(":")[2] for each in table["lineage"].to_pylist()]
        mask &= _as_mask(pc.match_substring_regex(pa.array(paths, pa.string()), regex(only.path)))
    return mask


def _plan_mask(store: Store, mixture: Artefact, file: Path, only: LineFilter) -> Mask:
    """Choose by stratum, by step, and by the content of the rows."""
    table = parquet.read_table(file, columns=["slot", "stratum", "rows_key", "shard", "row"])
    report = report_of(mixture)
    mask = np.ones(len(table), np.bool_)
    if only.family is not None or only.domain is not None:
        strata = [
            each.stratum
            for each in report.strata
            if only.family in (None, each.family) and only.domain in (None, each.domain)
        ]
        mask &= np.isin(table["stratum"].to_numpy(), strata)
    if only.step is not None:
        slots = slots_of(only.step, report.tokens_per_step // report.slot_length)
        mask &= _range_mask(file, "slot", slots.start, slots.stop - 1)
    if set(only.given) & set(OF_DOCUMENTS):
        mask &= _planned_rows_mask(store, mixture, table, only)
    return mask


def slots_of(steps: tuple[int, int], each: int) -> range:
    """The slots of a plan that steps from a first to a last read, of so many slots each.

    >>> slots_of((1, 1), 8), slots_of((3, 4), 8)
    (range(0, 8), range(16, 32))
    """
    return range((steps[0] - 1) * each, steps[1] * each)


def _planned_rows_mask(store: Store, mixture: Artefact, plan: pa.Table, only: LineFilter) -> Mask:
    mask = np.zeros(len(plan), np.bool_)
    shards, numbers = plan["shard"].to_numpy(), plan["row"].to_numpy()
    for rows in inputs(store, mixture, "rows"):
        mine = _equal_mask(plan["rows_key"], rows.key)
        if not mine.any():
            continue
        wanted = _wanted_document_ids(store, rows, only)
        for shard, file in enumerate(line_files(rows)):
            here = np.flatnonzero(mine & (shards == shard))
            mask[here] = _rows_with_documents(file, wanted)[numbers[here]]
    return mask


def _range_mask(file: Path, name: str, first: int, last: int) -> Mask:
    values = parquet.read_table(file, columns=[name])[name].to_numpy()
    mask: Mask = (values >= first) & (values <= last)
    return mask


def regex(pattern: str) -> str:
    r"""A path, a folder or a pattern as a regular expression.

    >>> regex("src"), regex("*.h")
    ('^src(/.*)?$', '^.*\\.h(/.*)?$')
    """
    letters = {"*": ".*", "?": "."}
    written = "".join(letters.get(letter) or re.escape(letter) for letter in pattern.rstrip("/"))
    return f"^{written}(/.*)?$"


def _equal_mask(values: Any, value: str) -> Mask:
    return _as_mask(pc.equal(values, pa.scalar(value)))


def _as_mask(values: Any) -> Mask:
    """Booleans as an array; null is false."""
    known: Any = pc.fill_null(values, False)
    mask: Mask = np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)
    return mask
