"""Validation text that also occurs in training documents: scoring it would measure memorization.

Text is compared by windows of tokens (schemas/windows.py): a target counts as known if a training document
has the same token after the same 15 tokens, whether that document scores the token or not. The training
documents that are compared are the versions of all files and the documents of the measured family, fitted
to the same row length. So validation rows don't depend on other servings of a diet.

Memory: 8 bytes per distinct window of the validation documents, which is the first limit that a large
corpus reaches. Time: training documents are read once more, at about 10 Mtok/s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from curriculum import encode
from curriculum.corpus.decisions import decisions, held_out_files
from curriculum.encode import ApplyObjective, FitResult, TokenizedDocument
from curriculum.objectives.causal import scored_where
from curriculum.packing.windows import window_hashes
from curriculum.stages.row_sources import RowSources, RowsSpec
from curriculum.stages.selection import title
from curriculum.store import Artefact, Input
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding
from curriculum.tokens.token_store import TokenStore
from schemas.families import VERSIONS_FAMILY
from schemas.packed_row import COMPARED_INPUT

REVISION = 1
"""Version of this code. Raise it whenever other tokens are left unscored."""
Hashes = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
_START = np.zeros(1, dtype=np.int64)


def compared_families(wanted: RowsSpec) -> tuple[RowsSpec, ...]:
    """Return the data sets whose training documents are compared.

    >>> spec = RowsSpec(family="v3_simple", objective="fim", row_length=512)
    >>> [compared.title for compared in compared_families(spec)]
    ['v2_simple causal 512', 'v3_simple causal 512']
    >>> [compared.title for compared in compared_families(replace(spec, family="v2_simple"))]
    ['v2_simple causal 512']
    """
    families = dict.fromkeys((VERSIONS_FAMILY, wanted.flat_family))
    return tuple(RowsSpec(family=family, row_length=wanted.row_length) for family in families)


def compared_inputs(
    sources: RowSources, wanted: RowsSpec, *, beside: Sequence[Artefact]
) -> Iterator[Input]:
    """Yield the artefacts to compare with as inputs, except those in `beside`, which are inputs already."""
    own = {made.key for made in (sources.selected(wanted), *beside)}
    compared = {"selection of files": sources.selection}
    for spec in compared_families(wanted):
        for source in sources.of(spec):
            compared |= {title(made): made for made in source.inputs()}
    for name, made in compared.items():
        if made.key not in own:
            yield made.as_input(COMPARED_INPUT + name)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainedText:
    """Windows of validation documents that also occur in training documents."""

    windows: Hashes
    """Sorted hashes of the windows."""

    @staticmethod
    def of(
        held_out: Iterable[FitResult], sources: RowSources, wanted: RowsSpec, tokenizer: Tokenizer
    ) -> "TrainedText":
        """Return the scored windows of validation documents that occur in training documents."""
        windows = np.unique(_joined(_scored(encoding) for encoding in _encodings(held_out)))
        shown = np.zeros(len(windows), dtype=np.bool_)
        for spec in compared_families(wanted) if len(windows) else ():
            for encoding in _encodings(_trained(sources, spec, tokenizer)):
                hashes = window_hashes(encoding.ids, _START)
                places = np.minimum(np.searchsorted(windows, hashes), len(windows) - 1)
                shown[places[windows[places] == hashes]] = True
        return TrainedText(windows=windows[shown])

    def unscoring(self, objective: ApplyObjective, measured: Bools) -> ApplyObjective:
        """Return the objective without validation targets whose windows occur in training documents.

        Args:
            objective: Decides which tokens are scored.
            measured: [documents] mask of the documents that aren't training documents.
        """

        def apply(document: TokenizedDocument, fitted: FitResult) -> FitResult:
            done = objective(document, fitted)
            if not measured[document.row]:
                return done
            encodings = tuple(self._unscored(encoding) for encoding in done.encodings)
            before, after = (
                sum(int(np.count_nonzero(encoding.loss_mask)) for encoding in some)
                for some in (done.encodings, encodings)
            )
            counts = (("held_out_scored", before), ("held_out_trained", before - after))
            return replace(
                done, encodings=encodings, objective_counts=(*done.objective_counts, *counts)
            )

        return apply

    def _unscored(self, encoding: Encoding) -> Encoding:
        is_shown = np.isin(window_hashes(encoding.ids, _START), self.windows)
        return scored_where(~is_shown, encoding)


def _encodings(fitted: Iterable[FitResult]) -> Iterable[Encoding]:
    return (encoding for result in fitted for encoding in result.encodings)


def _scored(encoding: Encoding) -> Hashes:
    targets = np.flatnonzero(encoding.loss_mask[:-1]) + 1
    return window_hashes(encoding.ids, _START)[targets]


def _joined(hashes: Iterable[Hashes]) -> Hashes:
    return np.concatenate([np.empty(0, dtype=np.uint64), *hashes])


def _trained(sources: RowSources, spec: RowsSpec, tokenizer: Tokenizer) -> Iterable[FitResult]:
    """Yield the training documents of the data set `spec`, fitted to its rows."""
    selection = sources.selected(spec)
    held_out = held_out_files(selection)
    fitter = encode.fitter_of(tokenizer, row_length=spec.row_length, family=spec.family)
    for source in sources.of(spec):
        picked = decisions(selection, source.base)
        yield from encode.encode_documents(
            source.base.shards(),
            TokenStore.open(source.tokens.path),
            fitter,
            kept=picked.kept_on("train"),
            split=encode.Split(
                held_out=picked.is_held_out_file,
                held_out_files=held_out,
                licences=source.licences,
            ),
        )
