"""Servings of a mixture as YAML lines that can be pasted into a diet, with other shares."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from schemas.families import ENRICHED_FAMILY, FAMILIES
from schemas.objectives import OBJECTIVES, USUAL_OBJECTIVE

INDENT = " " * 4
"""Indent of `servings:` below a phase, as in the shipped diets."""
DIGITS = 4
"""Number of decimals of a share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingLine:
    """A row of the result of lines.sql: a serving of a mixture; domains and repositories are JSON texts."""

    serving: int
    family: str
    objective: str
    row_length: int
    domains: str | None
    base: str | None
    repositories: str | None
    variants: int
    imported: str
    score: str | None
    beside: str | None

    @property
    def flat_family(self) -> str:
        """Family of the serving's text; for rows with structure, their base family."""
        return self.base or self.family


def rounded(shares: Sequence[float]) -> list[float]:
    """Scale shares to a sum of 1 and round them to DIGITS decimals; only a share that is 0 becomes 0.

    >>> rounded([1, 1, 1]), rounded([0.2, 0.0, 0.6]), rounded([1e-9, 1])
    ([0.3334, 0.3333, 0.3333], [0.25, 0.0, 0.75], [0.0001, 0.9999])
    """
    whole = math.fsum(shares)
    units = 10**DIGITS
    exact = [units * share / whole for share in shares]
    floors = [max(math.floor(share), 1 if share > 0 else 0) for share in exact]
    # The remainder goes to the shares that lost most by rounding; an excess is taken from the largest share.
    by_loss = sorted(range(len(exact)), key=lambda at: floors[at] - exact[at])
    left = units - sum(floors)
    for at in by_loss[: max(0, left)]:
        floors[at] += 1
    if left < 0:
        floors[max(range(len(floors)), key=floors.__getitem__)] += left
    return [floor / units for floor in floors]


def as_yaml(lines: Sequence[ServingLine], asked: Mapping[int, float], title: str) -> str:
    """Return the servings with the requested shares as YAML; empty if all shares are 0.

    `asked` has the requested share of each serving, by its number.
    """
    wanted = [(line, asked[line.serving]) for line in lines if asked[line.serving] > 0]
    if not wanted:
        return ""
    shares = rounded([share for _, share in wanted])
    written = [f"# {title}, at other shares", "servings:"]
    for (line, _), share in zip(wanted, shares, strict=True):
        fields = dict(_fields(line, share, lines))
        text = yaml.safe_dump(
            fields, default_flow_style=True, sort_keys=False, width=math.inf, allow_unicode=True
        )
        written.append(f"  - {text.strip()}")
    return "".join(f"{INDENT}{line}\n" for line in written)


def _fields(
    line: ServingLine, share: float, lines: Sequence[ServingLine]
) -> Iterator[tuple[str, Any]]:
    """Yield the fields with which a diet describes a serving; `lines` are all servings of the phase.

    Fields that have their default value are left out.
    """
    if line.imported:
        yield "imported", line.imported
    else:
        yield "family", line.family
        if line.family == ENRICHED_FAMILY and line.base:
            yield "base", line.base
        if line.objective != USUAL_OBJECTIVE:
            yield "objective", line.objective
        yield "row_length", line.row_length
    yield "share", share
    if domains := json.loads(line.domains or "{}"):
        yield "domains", domains
    if not line.imported:
        if repositories := json.loads(line.repositories or "[]"):
            yield "repositories", repositories
        if line.objective in OBJECTIVES and OBJECTIVES[line.objective].variants:
            yield "variants", line.variants
        if line.score:
            yield "score", line.score
        families = [FAMILIES[other.flat_family] for other in lines if not other.imported]
        if not line.beside and any(family.stand_in == line.flat_family for family in families):
            yield "both", True
