"""Selections: the only place where the whole corpus is seen.

    kept        what is kept, on which side of the split; tokenizers are trained on it
    selection   the same with each document's domain; rows are made by it

One pair is made of the documents of files and decides the sides; each family of graphs has its own on top,
so that rows of files never depend on what graphs say. A changed rule of domains makes selections and rows
anew, and neither documents nor tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum import parquet
from curriculum.corpus import domains
from curriculum.corpus.select import (
    KEPT_NAME,
    REVISION,
    SELECTION_NAME,
    SIDES_NAME,
    DocumentsOf,
    KnownFiles,
    ingredients,
    select,
)
from curriculum.stages.stage import Stage
from curriculum.store import Artefact, Recipe, StagingDirectory
from schemas.corpus import CorpusSpec, DomainsSpec
from schemas.errors import PackError, StoreError
from schemas.families import VERSIONS_FAMILY
from schemas.packed_row import TEXT_PIECE
from schemas.reports import SelectionReport


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptDocuments:
    """Documents, and the artefact that says what of them is kept."""

    documents: Sequence[Artefact]
    kept: Artefact

    @property
    def of_graphs(self) -> bool:
        """Return True for documents of one family of graphs."""
        return "family" in self.kept.manifest.labels


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept(Stage[Sequence[Artefact], Sequence[Artefact]]):
    """Documents that are kept, and their side of the split; one task sees all of them."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    files: KeptDocuments | None = None
    """Files, whose sides hold; then the documents are of one family of graphs."""

    def tasks(self, inputs: Sequence[Artefact]) -> Sequence[Sequence[Artefact]]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: Sequence[Artefact]) -> str:
        """Name the documents."""
        return f"kept of {_title(self.corpus, task, of_graphs=self.files is not None)}"

    def recipes(self, task: Sequence[Artefact]) -> Sequence[Recipe]:
        """Return the recipe of what is kept."""
        kept = (self.files.kept.as_input("kept"),) if self.files else ()
        labels = _labels(self.corpus, task, of_graphs=self.files is not None)
        recipe = Recipe(
            stage="selections",
            labels=(*labels, ("step", "kept")),
            revision=REVISION,
            config=ingredients(self.corpus),
            inputs=(
                *kept,
                *(
                    documents.as_input(title(documents))
                    for documents in (*_versions_in(self.files), *task)
                ),
            ),
        )
        return [recipe]

    def run(self, task: Sequence[Artefact], drafts: Sequence[StagingDirectory]) -> None:
        """Find duplicates, apply the rules of quality and split by files."""
        (draft,) = drafts
        known = (
            KnownFiles(
                sides=self.files.kept.path / SIDES_NAME, versions=folders(_versions_in(self.files))
            )
            if self.files
            else None
        )
        draft.record(select(folders(task), self.corpus, draft.path, known=known).report())


def _versions_in(files: KeptDocuments | None) -> list[Artefact]:
    """The documents of files' versions, of those that a selection of graphs knows."""
    listed = files.documents if files else ()
    return [each for each in listed if each.manifest.labels["family"] == VERSIONS_FAMILY]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection(Stage[KeptDocuments, KeptDocuments]):
    """Kept documents with the domain of each; one task sees all of them."""

    name = "selection"
    placement = "each shard"
    corpus: CorpusSpec
    rules: DomainsSpec

    def tasks(self, inputs: KeptDocuments) -> Sequence[KeptDocuments]:
        """Return all documents as one task."""
        return [inputs]

    def title(self, task: KeptDocuments) -> str:
        """Return the name of the corpus, or of the family of graphs."""
        return _title(self.corpus, task.documents, of_graphs=task.of_graphs)

    def recipes(self, task: KeptDocuments) -> Sequence[Recipe]:
        """Return the recipe of the selection."""
        recipe = Recipe(
            stage="selections",
            labels=_labels(self.corpus, task.documents, of_graphs=task.of_graphs),
            revision=domains.REVISION,
            config=domains.ingredients(self.rules),
            inputs=(
                task.kept.as_input("kept"),
                *(each.as_input(title(each)) for each in task.documents),
            ),
        )
        return [recipe]

    def run(self, task: KeptDocuments, drafts: Sequence[StagingDirectory]) -> None:
        """Decide the domain of each kept document by the rules."""
        (draft,) = drafts
        decided = domains.label_domains(
            folders(task.documents), task.kept.path, self.rules, draft.path
        )
        draft.record(task.kept.reported(SelectionReport))
        draft.record(decided.report())


def _title(corpus: CorpusSpec, documents: Sequence[Artefact], *, of_graphs: bool) -> str:
    return documents[0].manifest.labels["family"] if of_graphs else corpus.name


def _labels(
    corpus: CorpusSpec, documents: Sequence[Artefact], *, of_graphs: bool
) -> tuple[tuple[str, str], ...]:
    family = [("family", documents[0].manifest.labels["family"])] if of_graphs else []
    return (("corpus", corpus.name), *family)


def folders(documents: Sequence[Artefact]) -> list[DocumentsOf]:
    """Return the folder of each artefact of documents, with its repository."""
    return [
        DocumentsOf(repository=each.manifest.labels["repository"], path=each.path)
        for each in documents
    ]


def title(artefact: Artefact) -> str:
    """The role of a family's documents or tokens in other recipes: stage, family, repository."""
    labels = artefact.manifest.labels
    return f"{artefact.manifest.stage} {labels['family']} {labels['repository']}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decisions:
    """Decisions of the selection about the documents of one artefact, by row; all [documents].

    A document that stands twice in the artefact is kept at its first row only.
    """

    kept: npt.NDArray[np.bool_]
    val: npt.NDArray[np.bool_]
    domain: npt.NDArray[np.int64]
    """Index into `domains`."""
    domains: tuple[str, ...]
    lineage: npt.NDArray[np.int64]
    """Index into `lineages`."""
    lineages: tuple[str, ...]
    document_ids: npt.NDArray[np.bytes_]


def decisions(selection: Artefact, documents: Artefact) -> Decisions:
    """Join an artefact's documents with the selection; some 100 bytes of memory a document.

    Raises:
        StoreError: naming the first document that the selection lacks.
    """
    labels = documents.manifest.labels
    chosen = parquet.read_table(
        selection.path / SELECTION_NAME,
        columns=["document_id", "keep", "split", "domain", "lineage"],
        filters=[("family", "=", labels["family"]), ("repository", "=", labels["repository"])],
    )
    ids = _ids(parquet.read_table(documents.files(), columns=["document_id"]))
    domain, domains = _coded(chosen["domain"])
    lineage, lineages = _coded(chosen["lineage"])
    found = _places(_ids(chosen), ids, selection, documents)
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return Decisions(
        kept=_column(chosen, "keep").astype(np.bool_)[found] & first,
        val=(_column(chosen, "split") == "val")[found],
        domain=domain[found],
        domains=domains,
        lineage=lineage[found],
        lineages=lineages,
        document_ids=ids,
    )


def _coded(names: Any) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """The index of each of some names, and the names, sorted."""
    listed = names.to_pylist()
    known = {name: code for code, name in enumerate(sorted(set(listed)))}
    return np.array([known[name] for name in listed], dtype=np.int64), tuple(known)


def train_ids(kept: Artefact, documents: Artefact) -> set[str]:
    """The ids of an artefact's documents that are kept on the train side."""
    labels = documents.manifest.labels
    wanted = [("family", labels["family"]), ("repository", labels["repository"])]
    chosen = parquet.read_table(
        kept.path / KEPT_NAME,
        columns=["document_id"],
        filters=[
            (name, "=", value) for name, value in (*wanted, ("keep", True), ("split", "train"))
        ],
    )
    return {str(name) for name in chosen["document_id"].to_pylist()}


def val_lineages(selection: Artefact) -> frozenset[str]:
    """The files on the val side, of all that documents are made of; copies of train's aren't held out."""
    sides = parquet.read_table(selection.path / SIDES_NAME, filters=[("split", "=", "val")])
    return frozenset(str(side["lineage"]) for side in sides.to_pylist() if side["copy_of"] is None)


def _places(
    chosen: npt.NDArray[np.bytes_],
    ids: npt.NDArray[np.bytes_],
    selection: Artefact,
    documents: Artefact,
) -> npt.NDArray[np.int64]:
    """[documents]: the row of the selection, which is in the order of ids, that holds each document."""
    found = np.searchsorted(chosen, ids)
    lacking = found == len(chosen)
    lacking[~lacking] = chosen[found[~lacking]] != ids[~lacking]
    if lacking.any():
        raise StoreError(
            str(selection.path),
            f"document {ids[lacking][0].decode()}",
            cause=f"{documents.path} has it, and the selection made of these documents lacks it",
            cure="One of the two was changed: move both out of the workspace, and build again",
        )
    return found


def _ids(table: Any) -> npt.NDArray[np.bytes_]:
    return np.array(table["document_id"].to_pylist(), dtype="S32")


def _column(table: Any, name: str) -> npt.NDArray[Any]:
    return np.array(table[name].to_pylist())


ROWS_AT_ONCE = 64
GENERATED = -1
"""The side of a part that stands in no file."""
Sides = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """The parts of one document: where each ends, and its side: 1 val, 0 train or GENERATED."""

    ends: npt.NDArray[np.int32]
    sides: Sides
    is_context: npt.NDArray[np.bool_]

    def between(self, start: int, end: int) -> slice:
        """The parts that hold some of the bytes `[start, end)`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return slice(first, int(np.searchsorted(self.ends, end, side="left")) + 1)


def check_sides(
    rows: Artefact,
    documents: Sequence[Artefact],
    held_out: frozenset[str],
    token_bytes: npt.NDArray[np.int32],
) -> int:
    """The number of text pieces that were held against the sides of their files; all were on the row's.

    The context of a held-out document may be of files that are trained on, where none of it is scored.
    `documents` are what the rows were made of, `held_out` the files of val, `token_bytes` the bytes of each
    id. Memory: six bytes a part of a document.

    Raises:
        PackError: with the first piece that comes from the other side, or has scored context.
    """
    known = {name: parts for each in documents for name, parts in _parts(each, held_out)}
    checked = 0
    for file in rows.files():
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=_CHECKED):
            for row in batch.to_pylist():
                checked += _check(row, known, token_bytes)
    return checked


_CHECKED = ["pack_id", "split", "input_ids", "loss_mask", "document_ids", "pieces"]


def _check(
    row: dict[str, Any], known: dict[str, _Parts], token_bytes: npt.NDArray[np.int32]
) -> int:
    own = int(row["split"] != "train")
    texts = [piece for piece in row["pieces"] if piece["kind"] == TEXT_PIECE]
    scored = np.array([0, *row["loss_mask"][:-1]], dtype=np.bool_)
    sizes = token_bytes[np.array(row["input_ids"])]
    for piece in texts:
        name = row["document_ids"][piece["doc"]]
        parts, tokens = known.get(name), slice(piece["token_start"], piece["token_end"])
        if parts is None:
            raise PackError(
                f"row {row['pack_id']}",
                f"document {name}",
                cause="it is in none of the documents that these rows were made of",
                cure="Build these rows anew",
            )
        shown = parts.between(piece["byte_start"], piece["byte_end"])
        is_own = np.isin(parts.sides[shown], (own, GENERATED))
        context = parts.is_context[shown]
        if own and context.any():
            is_own |= context
            ends = piece["byte_start"] + np.cumsum(sizes[tokens])
            of_part = np.searchsorted(parts.ends[shown], ends[scored[tokens]], side="left")
            is_own[of_part[context[of_part]]] = False
        if not is_own.all():
            raise PackError(
                f"row {row['pack_id']}",
                f"bytes {piece['byte_start']} to {piece['byte_end']} of document {name}",
                cause=f"some come from a file on the other side than {row['split']}, or are context "
                "of a held-out target and scored",
                cure="Build these rows anew",
            )
    return len(texts)


def _parts(documents: Artefact, held_out: frozenset[str]) -> list[tuple[str, _Parts]]:
    found = []
    columns = ["document_id", "parts", "provenance"]
    for file in documents.files():
        for batch in parquet.File(file).iter_batches(batch_size=ROWS_AT_ONCE, columns=columns):
            for line in batch.to_pylist():
                side = [int(each["lineage"] in held_out) for each in line["provenance"]]
                ends = [part["end"] for part in line["parts"]]
                sides = [
                    side[part["source"]] if part["source"] >= 0 else GENERATED
                    for part in line["parts"]
                ]
                parts = _Parts(
                    ends=np.array(ends, dtype=np.int32),
                    sides=np.array(sides, dtype=np.int8),
                    is_context=np.array([part["kind"] == "context" for part in line["parts"]]),
                )
                found.append((line["document_id"], parts))
    return found
