"""Requested data sets of rows, and their sources: artefacts, objectives, imported rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from curriculum.encode import ApplyObjective, FitResult, TokenizedDocument
from curriculum.mixing.imported import ImportedRows
from curriculum.objectives import DocumentFacts, Objective, objective_of
from curriculum.objectives.causal import within_targets
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME
from schemas.corpus import USUAL_LICENCES, CorpusSpec, LicencesSpec, Overlong
from schemas.errors import DietError
from schemas.families import CHAT_FAMILY, held_out_objective, reads_commits
from schemas.objectives import CHAT_OBJECTIVE, TARGET_OBJECTIVE, USUAL_OBJECTIVE, Score
from schemas.packed_row import Packer


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """A family of the same phase that shows some commits in place of another family."""

    family: str
    repositories: tuple[str, ...] = ()
    """Repositories in which the family is served; empty for all."""

    def counts_in(self, repository: str) -> bool:
        """Return True if the family is served in a repository."""
        return not self.repositories or repository in self.repositories


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsSpec:
    """A data set of rows requested by a diet."""

    family: str
    base: str = ""
    """For v6_enriched, the family to which it adds structure; empty for other families."""
    objective: str = USUAL_OBJECTIVE
    variant: int = 0
    row_length: int
    repositories: tuple[str, ...] = ()
    """Repositories to use; empty for all."""
    imported: ImportedRows | None = None
    """Existing imported rows; None for rows built from the corpus."""
    packer: Packer = "best_fit"
    """Packer of training rows. Validation rows are always packed best fit, so that packers are comparable."""
    score: Score = "new"
    """Targets to score in training rows. Validation rows score all targets."""
    beside: Beside | None = None
    """Family whose commits are left out of training rows. Validation rows keep these commits."""

    @property
    def held_out(self) -> "RowsSpec":
        """Data set of the validation rows. It has a single objective, so that objectives are comparable.

        >>> RowsSpec(family="v3_simple", objective="fim", row_length=512).held_out.title
        'v3_simple causal 512'
        >>> RowsSpec(family="v4_context_graph", row_length=1024).held_out.title
        'v4_context_graph target 1024'
        """
        if self.objective == CHAT_OBJECTIVE:
            return self
        return self._measured_by(USUAL_OBJECTIVE)

    @property
    def held_out_apart(self) -> "tuple[RowsSpec, ...]":
        """Data sets of the validation rows by objective: this data set's objective, and targets of graphs.

        >>> spec = RowsSpec(family="v3_simple", objective="fim", variant=2, row_length=512)
        >>> [held_out.title for held_out in spec.held_out_apart]
        ['v3_simple fim 512']
        >>> spec = RowsSpec(family="v4_context_graph", row_length=1024)
        >>> [held_out.title for held_out in spec.held_out_apart]
        ['v4_context_graph target 1024']
        """
        names = [self.objective, *([TARGET_OBJECTIVE] if reads_commits(self.flat_family) else ())]
        return tuple(dict.fromkeys(self._measured_by(name) for name in names))

    def _measured_by(self, objective: str) -> "RowsSpec":
        assert self.imported is None, "imported rows bring their own"
        name = held_out_objective(self.flat_family, objective)
        return replace(self, objective=name, variant=0, packer="best_fit", score="new", beside=None)

    @property
    def title(self) -> str:
        """Title: family, base, objective, variant if not the first, row length and non-default options.

        Titles of imported rows start with their name.

        >>> RowsSpec(family="v6_enriched", base="v2_simple", row_length=4096).title
        'v6_enriched of v2_simple causal 4096'
        >>> RowsSpec(family="v3_simple", objective="fim", variant=1, row_length=512).title
        'v3_simple fim 2 512'
        >>> RowsSpec(family="v3_simple", packer="chop", row_length=512).title
        'v3_simple causal 512 chop'
        >>> RowsSpec(family="v3_simple", score="all", row_length=512).title
        'v3_simple causal 512 score all'
        >>> beside = Beside(family="v5_clang_graph")
        >>> RowsSpec(family="v4_context_graph", row_length=512, beside=beside).title
        'v4_context_graph causal 512 beside v5_clang_graph'
        """
        if self.imported is not None:
            return f"{self.imported.name}: {self.family} {self.objective} {self.row_length}"
        of = f" of {self.base}" if self.base else ""
        variant = f" {self.variant + 1}" if self.variant else ""
        packer = f" {self.packer}" if self.packer != "best_fit" else ""
        score = " score all" if self.score == "all" else ""
        beside = f" beside {self.beside.family}" if self.beside else ""
        return (
            f"{self.family}{of} {self.objective}{variant} {self.row_length}{packer}{score}{beside}"
        )

    @property
    def scores_new_lines(self) -> bool:
        """True if training rows score only new text. Conversations score everything."""
        return self.score == "new" and self.family != CHAT_FAMILY

    @property
    def flat_family(self) -> str:
        """Family that provides texts, tokens and selection: `base` if there is one."""
        return self.base or self.family


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSet:
    """Training and validation rows of one data set."""

    wanted: RowsSpec
    train: Artefact
    val: Artefact | None
    """Validation rows of the data set's phase; None for imported rows without validation rows."""
    apart: Mapping[str, Artefact]
    """Validation rows by objective; some may be empty."""

    @property
    def splits(self) -> tuple[Artefact, ...]:
        """Existing artefacts without repetition: train, val, and validation rows by objective."""
        sides = (self.train, self.val, *self.apart.values())
        return tuple({side.key: side for side in sides if side is not None}.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSource:
    """Artefacts that the rows of one repository are made of; row i of each is the same document.

    `documents` and `base` differ only for v6_enriched, whose base is selected and tokenized.
    """

    documents: Artefact
    base: Artefact
    tokens: Artefact
    overlong: Overlong = "skip"
    """Treatment of conversations that are longer than a row."""
    licences: LicencesSpec = USUAL_LICENCES
    """Licences of files that contexts may show."""

    @property
    def repository(self) -> str:
        """Name of the repository, or of the source of conversations."""
        return self.documents.manifest.labels["repository"]

    def inputs(self) -> list[Artefact]:
        """Return the artefacts without repetition."""
        return list(
            {
                artefact.key: artefact for artefact in (self.documents, self.base, self.tokens)
            }.values()
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSources:
    """The artefacts that rows are made of."""

    corpus: CorpusSpec
    documents: tuple[Artefact, ...]
    selection: Artefact
    """Selection of file families."""
    selections: Mapping[str, Artefact]
    """Selections of graph and conversation families, by family."""
    tokenizer: Artefact
    tokens: tuple[Artefact, ...]

    def selected(self, wanted: "RowsSpec") -> Artefact:
        """Return the selection that the data set `wanted` is made from."""
        return self.selections.get(wanted.flat_family, self.selection)

    def shown_beside(self, wanted: "RowsSpec") -> dict[str, Artefact]:
        """Return the documents that show commits in place of the requested family, by repository."""
        if wanted.beside is None:
            return {}
        found = _by_repository(self.documents, wanted.beside.family)
        return {
            name: documents for name, documents in found.items() if wanted.beside.counts_in(name)
        }

    def of(self, wanted: "RowsSpec") -> list[RowSource]:
        """Return the sources of the requested rows by repository, in corpus order."""
        bases = _by_repository(self.documents, wanted.flat_family)
        tokens = _by_repository(self.tokens, wanted.flat_family)
        found = _by_repository(self.documents, wanted.family, wanted.base)
        return [
            RowSource(
                documents=documents,
                base=bases[repository],
                tokens=tokens[repository],
                overlong=self.corpus.overlong_of(repository),
                licences=self.corpus.licences,
            )
            for repository, documents in found.items()
            if not wanted.repositories or repository in wanted.repositories
        ]


def _by_repository(
    artefacts: Sequence[Artefact], family: str, base: str = ""
) -> dict[str, Artefact]:
    return {
        artefact.manifest.labels["repository"]: artefact
        for artefact in artefacts
        if artefact.manifest.labels["family"] == family
        and artefact.manifest.labels.get("base", "") == base
    }


def check_objectives(tokenizer: Tokenizer, wanted: Iterable[RowsSpec]) -> None:
    """Raise unless `tokenizer` supports the objectives of all data sets, before anything is read.

    Raises:
        TokenizerError: for the first unsupported objective.
    """
    for objective in sorted({spec.objective for spec in wanted}):
        objective_of(objective, tokenizer, variant=0)


def apply_objective(rule: Objective, tokenizer: Tokenizer, *, row_length: int) -> ApplyObjective:
    """Return a function that applies the objective `rule` to the encodings of a document.

    In validation documents with context, only the target stays scored, whatever the objective scores.
    """

    def apply(document: TokenizedDocument, fitted: FitResult) -> FitResult:
        known = DocumentFacts(
            flat_id=document.flat_id,
            spans=document.spans,
            part_bytes=document.part_bytes,
            part_kinds=document.part_kinds,
            room=row_length,
        )
        done = [rule.apply(encoding, known) for encoding in fitted.encodings]
        encodings = [result.encoding for result in done]
        if document.targets_alone:
            encodings = [
                within_targets(encoding, known, tokenizer.token_bytes) for encoding in encodings
            ]
        return replace(
            fitted,
            encodings=tuple(encodings),
            objective_counts=tuple(count for result in done for count in result.counts),
        )

    return apply


def imported_of(store: Store, tokenizer: Artefact, wanted: RowsSpec) -> RowSet:
    """Return an imported data set with its imported validation rows.

    Raises:
        DietError: for rows of another tokenizer, whose ids have other meanings.
        StoreError: for rows that don't exist any more.
    """
    rows = wanted.imported
    assert rows is not None, "only imported rows are used unchanged"
    train = store.load(store.root / rows.path)
    val = store.load(store.root / rows.measured_by) if rows.measured_by else None
    for artefact in (train, val):
        if artefact is not None:
            _require_tokenizer(store, artefact, tokenizer, rows)
    apart = {wanted.objective: val} if val is not None else {}
    return RowSet(wanted=wanted, train=train, val=val, apart=apart)


def _require_tokenizer(
    store: Store, rows: Artefact, tokenizer: Artefact, stated: ImportedRows
) -> None:
    """Raise unless imported rows were made with a tokenizer of the same content as the diet's.

    Contents are compared, not keys, because one place may train the tokenizer that another place is given.
    A tokenizer that isn't trained yet is checked later.
    """
    theirs = next(record for record in rows.manifest.inputs if record.name == "tokenizer")
    if tokenizer.planned or tokenizer.content == theirs.content:
        return
    there = [artefact for artefact in store.artefacts("tokenizers") if artefact.key == theirs.key]
    other = f"tokenizer: {there[0].path / TOKENIZER_NAME}" if there else "their tokenizer.json"
    raise DietError(
        f"imported rows {stated.name}, split {rows.manifest.labels['split']}",
        f"ids of tokenizer {theirs.content[:12]}",
        cause=f"the diet's tokenizer is {tokenizer.content[:12]}, so the ids have other meanings",
        cure=f"Set {other} in the diet, or import rows of the diet's tokenizer",
    )
