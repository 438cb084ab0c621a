"""Held-out documents by domain: those behind val_bpb, files that dominate val, and domains without any."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.corpus.split import BY_HASH, hash_fraction
from curriculum.inspection.formats import TOO_FEW, held_out_words, number, percent
from curriculum.mixing.resolve import ResolvedServing
from curriculum.stages import Built, RowSet
from curriculum.stages.file_sides import FileSide, file_sides
from curriculum.store import Artefact
from curriculum.supply import DocumentKind, Estimate
from curriculum.train.evaluation_sets import (
    MAX_READ,
    factor_of,
    held_out_set,
    order_of,
    validation_of,
)
from schemas.held_out import (
    MIN_DOCUMENTS,
    MIN_LINEAGES,
    HeldOutCount,
    WeightedStratum,
    held_out_count,
)
from schemas.objectives import PHASE_SET
from schemas.reports import RowsReport

FILLED = 0.5
"""One or two files dominate val if they have more than this share of its bytes."""
MAX_FILES = 2
MIN_FILES = 2
"""Minimum number of files in a domain, so that one can be held out and another used for training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutDocuments:
    """Validation documents on which the servings of a phase are measured."""

    served: tuple[str, ...]
    """Domains of the training rows; the domain with most tokens comes first."""
    documents: Mapping[str, int]
    """Number of held-out documents of all servings, by domain."""
    count: HeldOutCount
    """Number of documents and lineages behind val_bpb, and their effective numbers given the weights."""
    knows_lineages: bool = True
    """False if lineages aren't known yet, so that each document counts as a lineage of its own."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of held-out rows of all servings, by domain; empty if no row is built."""
    files: tuple[FileSide, ...] = ()
    """Files in train and val, the largest first. If nothing is built, these are files of a sample."""
    is_whole: bool = True
    """False if `files` come from a sample, so that there may be others."""

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Domains of the training rows that have no held-out document."""
        return tuple(name for name in self.served if not self.documents.get(name))

    def warning(self) -> str | None:
        """Return a warning if val is tiny, has mostly one or two files, or lacks a domain; else None."""
        return ". ".join(self._sentences()) or None

    def _sentences(self) -> Iterator[str]:
        if not self.count.is_sure or self.unmeasured:
            rows = f" in {number(sum(self.rows.values()), 'row')}" if self.rows else ""
            domains = ", ".join(sorted(name for name, held in self.documents.items() if held))
            about = "" if self.rows else "about "
            held = f"val holds {about}{self._counted()}{rows}" + f", all of {domains}" * bool(
                domains
            )
            silent = f"val_bpb says nothing of {', '.join(self.unmeasured)}"
            yield f"{held}: {silent}" if self.unmeasured else held
        if not self.count.is_sure:
            yield (
                f"val_bpb reads {TOO_FEW} below {MIN_DOCUMENTS} documents of {MIN_LINEAGES} lineages, "
                "and a gate on it never ends the phase before its budget"
            )
        yield from self._filled()
        if not self.count.is_sure or self.unmeasured:
            yield self._advice()

    def _counted(self) -> str:
        if self.knows_lineages:
            return held_out_words(self.count)
        return number(sum(self.documents.values()), "document")

    def _filled(self) -> Iterator[str]:
        """Yield a sentence on the files that dominate val, with the YAML line that would exclude them."""
        if found := filling(self.files):
            listed = ", ".join(f'"{file.path}"' for file, _ in found)
            whole = sum(file.num_bytes for file in self.files)
            shares = " and ".join(percent(file.num_bytes / whole) for file, _ in found)
            yield (
                f"{filling_words(self.files)}: a file is held out with all its versions, whatever "
                f"val_fraction is. Of the whole corpus it is {shares}. Evaluations read files in turn, so "
                "your own code can stay. To leave out what is bundled or generated, give its repository in "
                f"the corpus file the line  exclude: [{listed}]"
            )

    def _advice(self) -> str:
        """Return advice for a val that has too few documents, or that lacks domains."""
        counted = {name: len(self._files_of(name)) for name in self.unmeasured}
        if not self.is_whole or not counted or not all(counted.values()):
            return "Add repositories, or raise the corpus's val_fraction"
        reached = {name: self._fraction_of(name) for name in counted}
        rare = [name for name in counted if counted[name] < MIN_FILES or reached[name] >= 1]
        advice = [
            f"Add repositories with {name}: the corpus has {number(counted[name], 'file')} of it, and a "
            "file is held out whole or not at all"
            for name in rare
        ]
        advice += [
            f"A val_fraction above {math.ceil(1000 * fraction) / 1000:g} holds out a file of {name}"
            for name, fraction in reached.items()
            if name not in rare
        ]
        return ". ".join(advice)

    def _fraction_of(self, domain: str) -> float:
        """Return the smallest val_fraction with which some file of a domain is held out.

        A hash of each file's lineage decides at which val_fraction the file is held out.
        """
        return min(hash_fraction(file.lineage) for file in self._files_of(domain)) / BY_HASH

    def _files_of(self, domain: str) -> list[FileSide]:
        return [file for file in self.files if file.domain == domain]


def filling(files: Sequence[FileSide]) -> tuple[tuple[FileSide, float], ...]:
    """Return the one or two files that dominate val, each with its share of val's bytes."""
    held = [file for file in files if file.is_val]
    whole = sum(file.num_bytes for file in held)
    shares = [(file, file.num_bytes / whole) for file in held[:MAX_FILES]] if whole else []
    if len(held) > MAX_FILES and sum(share for _, share in shares) >= FILLED:
        is_one = shares[0][1] >= FILLED
        return tuple(shares[: 1 if is_one else MAX_FILES])
    return ()


def filling_words(files: Sequence[FileSide]) -> str:
    """Return a text that names the files that dominate val; empty if none do."""
    named = " and ".join(f"{file.lineage} ({percent(share)})" for file, share in filling(files))
    return f"val is mostly {named}" if named else ""


def filling_of(built: Sequence[Artefact]) -> str:
    """Return a text that names the files that dominate val, given the artefacts of a build."""
    selections = [artefact for artefact in built if artefact.manifest.stage == "selections"]
    of_files = [
        selection
        for selection in selections
        if not {"family", "step"} & selection.manifest.labels.keys()
    ]
    documents = [artefact for artefact in built if artefact.manifest.stage == "documents"]
    return filling_words(file_sides(documents, of_files[0])) if len(of_files) == 1 else ""


def held_out(
    servings: Sequence[ResolvedServing],
    sets: Sequence[RowSet],
    built: Built | None = None,
    *,
    workspace: Path,
) -> HeldOutDocuments | None:
    """Return the held-out documents of a phase's servings, given the row set of each serving.

    The result is None if some rows aren't built, or if no serving has held-out rows.
    """
    if any(side is not None and side.planned for pair in sets for side in (pair.train, pair.val)):
        return None
    measured = [
        (serving, pair, pair.val)
        for serving, pair in zip(servings, sets, strict=True)
        if pair.val is not None
    ]
    if not measured:
        return None
    served, held_rows = Counter[str](), Counter[str]()
    documents: defaultdict[str, set[str]] = defaultdict(set)
    for _, pair, val in measured:
        for name, size in pair.train.reported(RowsReport).domains.items():
            served[name] += size.tokens
        for name, size in val.reported(RowsReport).domains.items():
            held_rows[name] += size.rows
        for row in order_of(val).rows:
            documents[row.domain].update(row.documents)
    listed = [validation_of(serving, val) for serving, _, val in measured]
    whole = held_out_set(PHASE_SET, PHASE_SET, listed, workspace=workspace)
    return HeldOutDocuments(
        served=tuple(name for name, tokens in served.most_common() if tokens),
        documents={name: len(found) for name, found in documents.items()},
        count=held_out_count([]) if whole is None else whole.limit_positions(MAX_READ),
        rows=held_rows,
        files=() if built is None else _files_of(built),
    )


def _files_of(built: Built) -> tuple[FileSide, ...]:
    made = [built.selection, *built.documents]
    return (
        () if any(step.planned for step in made) else file_sides(built.documents, built.selection)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedServing:
    """A kind of rows that isn't built yet, with its share of a phase and its factors by domain."""

    kind: DocumentKind
    share: float
    factors: Mapping[str, float] | None = None


def expected_held_out(found: Estimate, servings: Sequence[ExpectedServing]) -> HeldOutDocuments:
    """Estimate which documents a build would hold out for the servings."""
    tokens, documents = Counter[str](), Counter[tuple[DocumentKind, str]]()
    of_kind: defaultdict[DocumentKind, Counter[str]] = defaultdict(Counter)
    wanted = {serving.kind for serving in servings}
    for line in (line for line in found.lines if line.kind in wanted and not line.is_total):
        of_kind[line.kind][line.domain] += round(line.tokens)
        tokens[line.domain] += round(line.tokens)
        documents[line.kind, line.domain] += round(line.held_out)
    held = Counter[str]()
    for (_, domain), count in documents.items():
        held[domain] += count
    knows_lineages = bool(found.files) and found.is_whole
    files = [file for file in found.files if file.is_val and file.domain in tokens]
    strata = []
    for serving in servings:
        asked = {
            domain: size * factor_of(domain, serving.factors)
            for domain, size in of_kind[serving.kind].items()
        }
        for domain, size in asked.items():
            held_here = documents[serving.kind, domain]
            named = [f"{serving.kind} {domain} {at}" for at in range(held_here)]
            lineages = [file.lineage for file in files if file.domain == domain][: len(named)]
            if named and size:
                weight = serving.share * size / sum(asked.values())
                strata.append(
                    WeightedStratum(
                        weight=weight,
                        documents=named,
                        lineages=lineages if knows_lineages else named,
                    )
                )
    return HeldOutDocuments(
        served=tuple(name for name, count in tokens.most_common() if count),
        documents=held,
        count=held_out_count(strata),
        knows_lineages=knows_lineages,
        files=found.files,
        is_whole=found.is_whole,
    )
