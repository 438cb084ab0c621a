"""Source files with the largest shares of tokens, over all families and by phase."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from curriculum.inspection.formats import Line, percent
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.stages import Built
from curriculum.stages.file_shares import MAX_FILES, FileShare, file_shares
from curriculum.store import Artefact
from schemas.errors import CurriculumError

LARGE = 0.25
"""Share of a phase's tokens above which a file causes a warning."""
LISTED = 3
"""Maximum number of files listed for a phase."""


def shares_of(built: Built) -> tuple[FileShare, ...]:
    """Return the files' shares of tokens in a build; empty if a part isn't built."""
    made = [built.selection, *built.documents, *built.tokens]
    if any(artefact.planned for artefact in made):
        return ()
    return file_shares(built.documents, built.tokens, built.selection)


def lines_of_artefacts(built: Sequence[Artefact]) -> tuple[Line, ...]:
    """Return the table of the largest files in built artefacts.

    The table is empty unless exactly one artefact is a selection of files, and if an artefact can't be read.
    """
    by_stage = {
        stage: [artefact for artefact in built if artefact.manifest.stage == stage]
        for stage in ("selections", "documents", "tokens")
    }
    selections = [
        selection
        for selection in by_stage["selections"]
        if not {"family", "step"} & set(selection.manifest.labels)
    ]
    if len(selections) != 1:
        return ()
    try:
        shares = file_shares(by_stage["documents"], by_stage["tokens"], selections[0])
    except (CurriculumError, OSError):
        return ()
    return tuple(share_lines(shares))


def share_lines(shares: Sequence[FileShare]) -> Iterator[Line]:
    """Yield one row per file, the largest first: its share of each family's tokens."""
    families = sorted({file.family for file in shares})
    ranked = dict.fromkeys(
        file.lineage for file in sorted(shares, key=lambda file: file.share, reverse=True)
    )
    known = {(file.family, file.lineage): file.share for file in shares}
    for lineage in [*ranked][:MAX_FILES]:
        found = {family: known.get((family, lineage)) for family in families}
        yield {
            "largest files": lineage,
            **{name: "" if share is None else percent(share) for name, share in found.items()},
        }


def phase_shares(phase: ResolvedPhase, shares: Iterable[FileShare]) -> list[tuple[str, float]]:
    """Return the files with the largest shares of a phase's tokens.

    Files of graph servings, imported rows and servings of named repositories are unknown and don't count.
    """
    known = [*shares]
    sums: defaultdict[str, float] = defaultdict(float)
    for serving in phase.servings:
        if serving.imported is None and not serving.repositories:
            family = serving.base or serving.family
            for file in known:
                if file.family == family:
                    sums[file.lineage] += serving.share * file.share
    return sorted(sums.items(), key=lambda pair: (-pair[1], pair[0]))[:LISTED]


def phase_words(found: Sequence[tuple[str, float]]) -> str:
    """Name the largest files of a phase.

    >>> phase_words([("own:deps/one.h", 0.468), ("own:src/a.c", 0.021)])
    'largest files by tokens: own:deps/one.h 46.8%, own:src/a.c 2.1%'
    """
    listed = ", ".join(f"{lineage} {percent(share)}" for lineage, share in found)
    return f"largest files by tokens: {listed}" if listed else ""


def large_file_warning(found: Sequence[tuple[str, float]]) -> str | None:
    """Return a warning if the largest file of a phase has a large share of its tokens."""
    lineage, share = found[0] if found else ("", 0.0)
    if share < LARGE:
        return None
    path = lineage.partition(":")[2]
    return (
        f"{percent(share)} of its tokens are of {lineage}, with all its versions. Where it isn't your code, "
        f'give its repository in the corpus file the line  exclude: ["{path}"]'
    )
