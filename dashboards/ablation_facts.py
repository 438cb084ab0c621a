"""Results of ablations that their page shows, read from the ablations' reports and Parquet files."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from curriculum import parquet
from curriculum.store import Artefact, Store, read_mark
from schemas.ablation import (
    ABLATION_SCHEMA,
    ARMS_NAME,
    ARMS_SCHEMA,
    CLAIMS_NAME,
    CONTROL,
    MIN_SEEDS,
    NULL,
    Verdict,
    View,
    viewed_set,
)
from schemas.errors import CurriculumError, StoreError
from schemas.reports import AblationReport

CURE = "Judge the ablation again: curriculum ablate"
MAX_LINES = 100_000
"""Maximum number of rows per file; real ablations have hundreds."""
Line = TypeVar("Line")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimLine:
    """A row of claims.parquet: the result for one claim."""

    claim: str
    arm: str
    against: str
    set: str
    view: View
    direction: Literal["lower", "higher"]
    delta: FiniteFloat
    verdict: Verdict
    seeds: int
    difference: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat
    seeds_needed: int | None
    low_documents: FiniteFloat
    high_documents: FiniteFloat
    documents: int
    lineages: int
    equal_tokens: int | None
    equal_difference: FiniteFloat | None
    equal_low: FiniteFloat | None
    equal_high: FiniteFloat | None

    @property
    def is_own(self) -> bool:
        """True for the comparisons `null` and `control`, which every ablation makes besides its claims."""
        return self.arm in (NULL, CONTROL)

    @property
    def viewed_set(self) -> str:
        """Validation set of the claim, followed by its view unless that is the default view."""
        return viewed_set(self.set, self.view)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmLine:
    """A row of arms.parquet: val_bpb of one arm on one set with one seed."""

    arm: str
    seed: int
    set: str
    view: View
    val_bpb: FiniteFloat
    steps: int
    positions: int
    scored: int
    distinct: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmMeans:
    """Results of one arm with all of its seeds."""

    name: str
    seeds: tuple[int, ...]
    steps: int
    positions: int
    scored: float
    distinct: float
    val_bpb: dict[str, tuple[float, ...]]
    """val_bpb with each seed, by the name of the set and view."""

    def mean(self, name: str) -> float | None:
        """Return the mean val_bpb of a validation set over the seeds; None if the arm has none."""
        return statistics.fmean(self.val_bpb[name]) if name in self.val_bpb else None


@dataclass(frozen=True, kw_only=True, slots=True)
class AblationFacts:
    """Claims and arms of one ablation."""

    name: str
    created: str
    report: AblationReport
    claims: tuple[ClaimLine, ...]
    """Claims of the ablation, followed by the comparisons `null` and `control`."""
    arms: tuple[ArmMeans, ...]

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the validation sets on which the arms were measured."""
        return tuple(dict.fromkeys(name for arm in self.arms for name in arm.val_bpb))

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds that the arms were trained with."""
        return tuple(dict.fromkeys(seed for arm in self.arms for seed in arm.seeds))

    @property
    def notices(self) -> list[str]:
        """Sentences that say why claims have no verdict."""
        own = {line.arm: line.verdict for line in self.claims if line.is_own}
        found = []
        if len(self.seeds) < MIN_SEEDS:
            found.append(f"Claims with fewer than {MIN_SEEDS} seeds have no verdict.")
        if own.get(NULL) == "confirmed":
            found.append(
                "No claim has a verdict: another order of the same rows changes val_bpb significantly."
            )
        if own.get(CONTROL) != "confirmed":
            found.append(
                "No claim has a verdict: a quarter of the tokens is not significantly worse."
            )
        return found


def ablations(home: Path) -> tuple[list[AblationFacts], list[str]]:
    """Return the current ablations of a workspace, newest first, and the errors of unreadable ones."""
    store, found, lost = Store(home, dry=True), [], []
    for mark in sorted((home / "current").glob("ablation-*.txt")):
        try:
            paths = [line for line in read_mark(mark) if line.startswith("ablations/")]
            found += [facts_of(store.load(home / path)) for path in paths]
        except (CurriculumError, OSError) as failed:
            lost.append(str(failed))
    return sorted(found, key=lambda facts: facts.created, reverse=True), lost


def facts_of(artefact: Artefact) -> AblationFacts:
    """Read the claims and arms of an ablation artefact.

    Raises:
        StoreError: If a file is missing, damaged, or does not match the schema of this version.
    """
    claims = _lines(artefact.path / CLAIMS_NAME, ABLATION_SCHEMA, ClaimLine)
    arms = [*_arms(_lines(artefact.path / ARMS_NAME, ARMS_SCHEMA, ArmLine))]
    if not arms or not claims:
        raise StoreError(str(artefact.path), cause="it has no claims or no arms", cure=CURE)
    return AblationFacts(
        name=artefact.manifest.labels["ablation"],
        created=artefact.manifest.created,
        report=artefact.reported(AblationReport),
        claims=tuple(sorted(claims, key=lambda line: line.is_own)),
        arms=tuple(arms),
    )


def _lines(file: Path, schema: pa.Schema, line: type[Line]) -> list[Line]:
    table = parquet.read_table(file, schema.names)
    if len(table) > MAX_LINES:
        raise StoreError(str(file), f"{len(table):,} lines", cause="too many", cure=CURE)
    known: list[dict[str, Any]] = table.to_pylist()
    try:
        return TypeAdapter(list[line]).validate_python(known)  # type: ignore[valid-type]
    except ValidationError as wrong:
        fault = wrong.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise StoreError(str(file), where, cause=fault["msg"], cure=CURE) from None


def _arms(lines: Sequence[ArmLine]) -> Iterator[ArmMeans]:
    for name in dict.fromkeys(line.arm for line in lines):
        own = [line for line in lines if line.arm == name]
        figures: dict[str, tuple[float, ...]] = {}
        for line in own:
            held = viewed_set(line.set, line.view)
            figures[held] = (*figures.get(held, ()), line.val_bpb)
        yield ArmMeans(
            name=name,
            seeds=tuple(dict.fromkeys(line.seed for line in own)),
            steps=own[0].steps,
            positions=own[0].positions,
            scored=statistics.fmean({line.seed: line.scored for line in own}.values()),
            distinct=statistics.fmean({line.seed: line.distinct for line in own}.values()),
            val_bpb=figures,
        )
