"""New lines of a repository: lines that no earlier document in commit order shows.

A document shows only those lines that fit into its row. There are two passes over the documents of one
repository. The first finds the first document that shows a line; the second scores the line only there. So
masks depend only on the repository's own training documents of one family, fitted to one row length with
one tokenizer.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from curriculum import frames
from curriculum.encode import ApplyObjective, FitResult, TokenizedDocument
from curriculum.encode.document_batch import chunk_of
from curriculum.objectives.causal import overlaps, scored_where
from curriculum.objectives.new_lines import (
    FirstShowings,
    ShownLines,
    shown_lines,
    within_new_lines,
)
from curriculum.stages.row_sources import RowsSpec
from curriculum.store import Artefact
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, Encoding, byte_ranges
from schemas.document import PART_KINDS, PartKind
from schemas.objectives import OBJECTIVES, TARGET_OBJECTIVE
from schemas.packed_row import TEXT_PIECE

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]


def scoring_new_lines(
    objective: ApplyObjective,
    wanted: RowsSpec,
    documents: Artefact,
    tokenizer: Tokenizer,
    read: Callable[..., Iterator[FitResult]],
    judged: Bools,
) -> ApplyObjective:
    """Return an objective that scores a line only in the first judged document that shows it.

    Objectives that aren't judged by line don't score context at all.

    Args:
        objective: Decides which tokens of a document are scored before this restriction.
        wanted: The rows to build.
        documents: Flat documents of one repository and family.
        tokenizer: Tokenizer of the rows.
        read: Fits documents of some files: `encode_documents` for this repository.
        judged: [documents] whose lines are compared: training documents, or all for later documents.
    """
    if OBJECTIVES[wanted.objective].by_line:
        kinds = ("target",) if wanted.objective == TARGET_OBJECTIVE else PART_KINDS
        lines = NewLines(turns=turns(documents), tokenizer=tokenizer, kinds=kinds)
        for _ in read(documents.shards(), kept=judged, objective=lines.note):
            pass
        narrow: ApplyObjective = lines.score
    else:
        narrow = partial(outside_context, tokenizer=tokenizer)

    def apply(document: TokenizedDocument, fitted: FitResult) -> FitResult:
        done = objective(document, fitted)
        return narrow(document, done) if judged[document.row] else done

    return apply


def turns(documents: Artefact) -> npt.NDArray[np.int64]:
    """Return the rank of each document ([documents]) in the order of committer time, commit and id."""
    columns = frames.scan(documents.shards(), ["document_id", "timestamp", "provenance"]).select(
        "document_id",
        "timestamp",
        commit=frames.document_commit(),
    )
    table = columns.collect().with_row_index("row").sort("timestamp", "commit", "document_id")
    found = np.empty(len(table), dtype=np.int64)
    found[table["row"].to_numpy()] = np.arange(len(table))
    return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NewLines:
    """Lines of one repository, each with the first document that shows it."""

    turns: npt.NDArray[np.int64]
    """[documents]: rank of each document in commit order."""
    tokenizer: Tokenizer
    kinds: tuple[PartKind, ...] = PART_KINDS
    """Kinds of parts whose lines are judged; other parts are never scored."""
    shown: FirstShowings = field(default_factory=FirstShowings)

    def note(self, document: TokenizedDocument, fitted: FitResult) -> FitResult:
        """Record the lines that a fitted document shows, and return the document unchanged."""
        self.shown.add(int(self.turns[document.row]), self.lines(document, fitted).keys)
        return fitted

    def score(self, document: TokenizedDocument, fitted: FitResult) -> FitResult:
        """Return the document with only those scored tokens that are in a header or in a line it shows first.

        Call `note` for every document before.
        """
        lines = self.lines(document, fitted)
        is_new = self.shown.are_first(int(self.turns[document.row]), lines.keys)
        headers = document.part_bytes[_runs(_of_kinds(document, ("header",)))]
        encodings = [
            within_new_lines(encoding, lines.ranges[is_new], headers, self.tokenizer.token_bytes)
            for encoding in fitted.encodings
        ]
        counts = (
            ("lines", len(is_new)),
            ("new_lines", int(is_new.sum())),
            ("without_new_lines", int(not any(encoding.loss_mask.any() for encoding in encodings))),
        )
        return replace(
            fitted,
            encodings=tuple(encodings),
            objective_counts=(*fitted.objective_counts, *counts),
        )

    def lines(self, document: TokenizedDocument, fitted: FitResult) -> ShownLines:
        """Return the lines of the source file that a fitted document shows."""
        shown = _shown(document, fitted.encodings) & ~document.generated
        runs = _runs(shown & _of_kinds(document, self.kinds))
        text = document.ids[int(self.tokenizer.bos_id is not None) :]
        ids = [text[start:end].tolist() for start, end in document.part_tokens[runs].tolist()]
        data = self.tokenizer.decode_bytes(itertools.chain.from_iterable(ids))
        stretches = document.part_bytes[runs]
        ends = np.cumsum(stretches[:, 1] - stretches[:, 0], dtype=np.int32)
        starts = ends - stretches[:, 1] + stretches[:, 0]
        lines = shown_lines(data, np.stack((starts, ends), axis=1))
        stretch = np.searchsorted(starts, lines.ranges[:, 0], side="right") - 1
        shift = (stretches[:, 0] - starts)[stretch]
        return ShownLines(ranges=lines.ranges + shift[:, None], keys=lines.keys)


def _runs(chosen: Bools) -> npt.NDArray[np.int64]:
    """Return the ranges ([r, 2], half-open) of consecutive True values: [F T T F T] -> [1 3) [4 5)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return edges.reshape(-1, 2)


def outside_context(
    document: TokenizedDocument, fitted: FitResult, tokenizer: Tokenizer
) -> FitResult:
    """Return the document with no scored tokens in its context."""
    context = document.part_bytes[_runs(_of_kinds(document, ("context",)))]
    if not len(context):
        return fitted
    encodings = []
    for encoding in fitted.encodings:
        starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
        encodings.append(scored_where(~overlaps(starts, ends, context), encoding))
    return replace(fitted, encodings=tuple(encodings))


def _shown(document: TokenizedDocument, encodings: Sequence[Encoding]) -> Bools:
    """Return a mask of the document's parts ([parts]) that occur in some of `encodings`.

    Encodings leave out parts as a whole.
    """
    pieces = np.concatenate([encoding.pieces for encoding in encodings])
    text = pieces[pieces[:, KIND] == TEXT_PIECE][:, (BYTE_START, BYTE_END)]
    found: Bools = chunk_of(document.part_bytes[:-1], text) >= 0
    return found


def _of_kinds(document: TokenizedDocument, kinds: Sequence[PartKind]) -> Bools:
    return np.isin(document.part_kinds, [PART_KINDS.index(kind) for kind in kinds])
