"""Specs of rows that are asked for, and what they are made of: artefacts, objectives, imported rows."""

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
    """A family that is served in the same phase, and shows some commits in another's place."""

    family: str
    repositories: tuple[str, ...] = ()
    """Empty where all count."""

    def counts_in(self, repository: str) -> bool:
        """Return True if it is served there."""
        return not self.repositories or repository in self.repositories


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsSpec:
    """A data set of rows that a diet asks for."""

    family: str
    base: str = ""
    """The family that v6_enriched adds structure to; empty for every other."""
    objective: str = USUAL_OBJECTIVE
    variant: int = 0
    row_length: int
    repositories: tuple[str, ...] = ()
    """Empty where all count."""
    imported: ImportedRows | None = None
    """Rows that are there already; None where they are built of the corpus."""
    packer: Packer = "best_fit"
    """Packer of training rows; what measures them is packed best fit, so that both packers compare."""
    score: Score = "new"
    """Targets of training rows; rows that measure them score everything."""
    beside: Beside | None = None
    """The family whose commits training rows leave out; rows that measure them have all."""

    @property
    def held_out(self) -> "RowsSpec":
        """The data set whose validation rows measure this one, by one objective, so that objectives compare.

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
        """The data sets whose validation rows measure it by objective: its own, and targets of graphs.

        >>> [each.title for each in RowsSpec(family="v3_simple", objective="fim", variant=2, row_length=512)
        ...     .held_out_apart]
        ['v3_simple fim 512']
        >>> [each.title for each in RowsSpec(family="v4_context_graph", row_length=1024).held_out_apart]
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
        """Family, base, objective, which variant but for the first, row length and what is unusual in words.

        Imported rows have their name before.

        >>> RowsSpec(family="v6_enriched", base="v2_simple", row_length=4096).title
        'v6_enriched of v2_simple causal 4096'
        >>> RowsSpec(family="v3_simple", objective="fim", variant=1, row_length=512).title
        'v3_simple fim 2 512'
        >>> RowsSpec(family="v3_simple", packer="chop", row_length=512).title
        'v3_simple causal 512 chop'
        >>> RowsSpec(family="v3_simple", score="all", row_length=512).title
        'v3_simple causal 512 score all'
        >>> RowsSpec(family="v4_context_graph", row_length=512, beside=Beside(family="v5_clang_graph")).title
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
        """True if its training rows score what is new alone; conversations score all."""
        return self.score == "new" and self.family != CHAT_FAMILY

    @property
    def flat_family(self) -> str:
        """The family whose texts, tokens and selection count."""
        return self.base or self.family


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSet:
    """One data set of rows: what is trained on, and what is held out to measure it."""

    wanted: RowsSpec
    train: Artefact
    val: Artefact | None
    """Rows that measure it in its phase; None of imported rows that nothing was imported to measure."""
    apart: Mapping[str, Artefact]
    """Rows that measure it by objective; some may hold none."""

    @property
    def splits(self) -> tuple[Artefact, ...]:
        """Each as far as it is there: train, val, and those apart that are others."""
        sides = (self.train, self.val, *self.apart.values())
        return tuple({side.key: side for side in sides if side is not None}.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSource:
    """Sources of the rows of one repository; row i of each is the same document.

    `documents` and `base` differ for v6_enriched only, whose base is selected and tokenised.
    """

    documents: Artefact
    base: Artefact
    tokens: Artefact
    overlong: Overlong = "skip"
    """Fate of its conversations that are longer than a row."""
    licences: LicencesSpec = USUAL_LICENCES
    """Licences that its contexts may show."""

    @property
    def repository(self) -> str:
        """The repository's name, or that of a source of conversations."""
        return self.documents.manifest.labels["repository"]

    def inputs(self) -> list[Artefact]:
        """Each artefact once."""
        return list({each.key: each for each in (self.documents, self.base, self.tokens)}.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSources:
    """The artefacts that rows are made of."""

    corpus: CorpusSpec
    documents: tuple[Artefact, ...]
    selection: Artefact
    """Selection of the families that are made of files."""
    selections: Mapping[str, Artefact]
    """Selections of families that are made of graphs or conversations, by family."""
    tokenizer: Artefact
    tokens: tuple[Artefact, ...]

    def selected(self, wanted: "RowsSpec") -> Artefact:
        """The selection that decides about what is wanted."""
        return self.selections.get(wanted.flat_family, self.selection)

    def shown_beside(self, wanted: "RowsSpec") -> dict[str, Artefact]:
        """Return the documents that show commits in place of the wanted ones, by repository."""
        if wanted.beside is None:
            return {}
        found = _by_repository(self.documents, wanted.beside.family)
        return {name: each for name, each in found.items() if wanted.beside.counts_in(name)}

    def of(self, wanted: "RowsSpec") -> list[RowSource]:
        """Return the sources of the wanted rows, repository by repository in the corpus' order."""
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
    """Pass if a given tokenizer has what the objectives need, before anything is read; a trained one has.

    Raises:
        TokenizerError: for the first that it can't serve.
    """
    for objective in sorted({each.objective for each in wanted}):
        objective_of(objective, tokenizer, variant=0)


def apply_objective(rule: Objective, tokenizer: Tokenizer, *, row_length: int) -> ApplyObjective:
    """Return the function that applies an objective to each encoding of a document for rows of one length.

    Whatever the objective scores of a held-out document with context, its target alone stays scored.
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
        encodings = [each.encoding for each in done]
        if document.targets_alone:
            encodings = [within_targets(each, known, tokenizer.token_bytes) for each in encodings]
        return replace(
            fitted,
            encodings=tuple(encodings),
            objective_counts=tuple(count for each in done for count in each.counts),
        )

    return apply


def imported_of(store: Store, tokenizer: Artefact, wanted: RowsSpec) -> RowSet:
    """A data set that was imported, and what was imported to measure it.

    Raises:
        DietError: for rows of another tokenizer than `tokenizer`, whose ids mean something else.
        StoreError: for rows that aren't there any more.
    """
    rows = wanted.imported
    assert rows is not None, "only imported rows are taken as they are"
    train = store.load(store.root / rows.path)
    val = store.load(store.root / rows.measured_by) if rows.measured_by else None
    for each in (train, val):
        if each is not None:
            _require_tokenizer(store, each, tokenizer, rows)
    apart = {wanted.objective: val} if val is not None else {}
    return RowSet(wanted=wanted, train=train, val=val, apart=apart)


def _require_tokenizer(
    store: Store, rows: Artefact, tokenizer: Artefact, stated: ImportedRows
) -> None:
    """Contents are compared: the same tokenizer may have been trained here and given there.

    Of one that isn't trained yet only the key is known; it is looked at when it is.
    """
    theirs = next(each for each in rows.manifest.inputs if each.name == "tokenizer")
    if tokenizer.planned or tokenizer.content == theirs.content:
        return
    there = [artefact for artefact in store.artefacts("tokenizers") if artefact.key == theirs.key]
    other = f"tokenizer: {there[0].path / TOKENIZER_NAME}" if there else "their tokenizer.json"
    raise DietError(
        f"imported rows {stated.name}, split {rows.manifest.labels['split']}",
        f"ids of tokenizer {theirs.content[:12]}",
        cause=f"the diet's is {tokenizer.content[:12]}, to which they mean other text",
        cure=f"Give the diet {other}, or import rows of the diet's tokenizer",
    )
