"""Token counts of sampled documents, after the documents were fitted to rows of one length."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from curriculum import encode, frames
from curriculum.corpus.decisions import decisions, held_out_files
from curriculum.encode import FitResult, TokenizedDocument
from curriculum.objectives import objective_of
from curriculum.stages.first_showings import NewLines, turns
from curriculum.stages.row_sources import RowSource, apply_objective
from curriculum.store import Artefact
from curriculum.supply.shown_text import (
    NO_LINES,
    NOTHING_EARLIER,
    Bools,
    Change,
    EarlierVersions,
    ShownText,
    first_shown,
    lines_by_commit,
)
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore
from schemas.families import CHAT_FAMILY, FAMILIES
from schemas.objectives import CHAT_OBJECTIVE, USUAL_OBJECTIVE, Score

MEASURES_SCHEMA = pl.Schema(
    {
        "unit": pl.String,
        "domain": pl.String,
        "tokens": pl.Int64,
        "scored": pl.Int64,
        "documents": pl.Int64,
        "shortened": pl.Int64,
        "routed": pl.Int64,
        "first": pl.Int64,
        "later": pl.Int64,
        "held_out": pl.Int64,
    }
)
"""Counts by unit (a commit or a conversation) and domain.

`tokens` and `scored` are valid and scored tokens in training rows. `documents` is the number of documents
with tokens, and `shortened` the number of those with parts left out to fit a row. `routed` is the number of
documents that are too long for the row. `first` and `later` are tokens of new lines: `first` in the first
document of a file, `later` in its later documents. `held_out` is the number of held-out documents.
"""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class DocumentKind:
    """Kind of rows that is estimated: a family of documents, a row length, and which tokens are targets."""

    family: str
    """Family of the documents; never v6_enriched, because structure doesn't change their length."""
    row_length: int
    score: Score = "new"
    """Tokens that are targets: new ones or all; has no effect on conversations."""

    @property
    def objective(self) -> str:
        """Name of the objective that changes the family's documents least."""
        return CHAT_OBJECTIVE if self.family == CHAT_FAMILY else USUAL_OBJECTIVE

    @property
    def is_compared(self) -> bool:
        """Method for new lines: True to compare a document with the file's text before the change."""
        return FAMILIES[self.family].reads == "changes"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MeasuredKind:
    """Token counts of the selected documents of one kind."""

    counts: pl.DataFrame
    """Table of MEASURES_SCHEMA, unsorted."""
    lines: pl.DataFrame
    """Table of LINES_SCHEMA, for training documents."""


def measure(
    kind: DocumentKind,
    source: RowSource,
    selection: Artefact,
    tokenizer: Tokenizer,
    earlier: EarlierVersions = NOTHING_EARLIER,
) -> MeasuredKind:
    """Fit the selected documents of `source` to rows and count their tokens.

    `earlier` says which lines of a file were known before a sampled change.
    """
    built = objective_of(kind.objective, tokenizer, variant=0)
    room = kind.row_length - built.reserve
    fitter = encode.fitter_of(
        tokenizer, row_length=room, family=kind.family, overlong=source.overlong
    )
    picked = decisions(selection, source.documents)
    changes = _changes(source.documents)
    read = NewLines(turns=turns(source.documents), tokenizer=tokenizer)
    scoring = apply_objective(built, tokenizer, row_length=kind.row_length)
    texts = dict[int, ShownText]()

    def apply(document: TokenizedDocument, fitted: FitResult) -> FitResult:
        done = scoring(document, fitted)
        if done.encodings:
            texts[document.row] = ShownText.from_fitted(
                done,
                NO_LINES if kind.family == CHAT_FAMILY else read.lines(document, done),
                turn=int(read.turns[document.row]),
                change=changes[document.row],
                token_bytes=tokenizer.token_bytes,
            )
        return done

    fitted_documents = encode.encode_documents(
        source.documents.shards(),
        TokenStore.open(source.tokens.path),
        fitter,
        kept=picked.kept_on("train"),
        split=encode.Split(
            held_out=picked.is_held_out_file,
            held_out_files=held_out_files(selection),
            licences=source.licences,
        ),
        objective=apply,
    )
    fits = [
        (fit.row, fit.outcome, fit.elided_bytes > fit.other_side_bytes) for fit in fitted_documents
    ]
    new = dict(zip(texts, first_shown([*texts.values()], earlier), strict=True))
    rows = list[tuple[object, ...]]()
    for row, outcome, is_shortened in fits:
        domain = picked.domains[int(picked.domain[row])]
        tokens = scored = fresh = 0
        if row in texts:
            tokens, scored, fresh = _counted(kind, texts[row], new[row])
        first = 0 if changes[row] in earlier.again else fresh
        shortened = int(tokens > 0 and is_shortened)
        routed = int(outcome in ("routed", "too_long"))
        unit = changes[row][0]
        rows.append(
            (
                *(unit, domain, tokens, scored, int(tokens > 0), shortened, routed),
                *(first, fresh - first, 0),
            )
        )
    rows += [
        (changes[at][0], picked.domains[int(picked.domain[at])], *[0] * 7, 1)
        for at in np.flatnonzero(picked.kept_on("val"))
    ]
    frame = pl.DataFrame(rows, schema=MEASURES_SCHEMA, orient="row")
    return MeasuredKind(
        counts=frame.group_by("unit", "domain").sum(), lines=lines_by_commit([*texts.values()])
    )


def _counted(kind: DocumentKind, text: ShownText, new: Bools) -> tuple[int, int, int]:
    """Return three counts of a document: valid tokens, scored tokens, and scored tokens in new lines.

    `new` flags the lines of `text` that are new.
    """
    scored = int(text.scored.sum()) + text.others
    if not kind.is_compared:
        return int(text.lengths.sum()), scored, scored
    learnt = text.scored[:, new].sum(axis=1)
    fresh = int(learnt.sum()) + text.others * bool(learnt.any())
    if kind.score == "all":
        return int(text.lengths.sum()), scored, fresh
    return int(text.lengths[learnt > 0].sum()), fresh, fresh


def _changes(documents: Artefact) -> list[Change]:
    """Return (commit, lineage) of each document; for a conversation, its digest and its source."""
    own = "blob" if documents.manifest.labels["family"] == CHAT_FAMILY else "commit"
    cited = frames.scan(documents.shards(), ["provenance", "lineage"]).select(
        pl.col("provenance").list.first().struct.field(own), "lineage"
    )
    return list(cited.collect().iter_rows())
