"""Source files with the largest shares of the tokens, over all families and by phase."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from curriculum.inspection.formats import Line, percent
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.stages import Built
from curriculum.stages.file_shares import MAX_FILES, FileShare, file_shares
from curriculum.store import Artefact
from schemas.errors import CurriculumError

LARGE = 0.25
"""A file causes a warning if it has more than this share of a phase's tokens."""
LISTED = 3
"""Maximum number of files to list for a phase."""


def shares_of(built: Built) -> tuple[FileShare, ...]:
    """Return the shares of files in the tokens of a build; empty if some artefact isn't built."""
    made = [built.selection, *built.documents, *built.tokens]
    if any(artefact.planned for artefact in made):
        return ()
    return file_shares(built.documents, built.tokens, built.selection)


def lines_of_artefacts(built: Sequence[Artefact]) -> tuple[Line, ...]:
    """Return the table of the largest files in the artefacts of a build.

    The table is empty if an artefact can't be read, or if there isn't exactly one selection of files.
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
    """Yield one table row per file: its share of the tokens of each family. The largest file comes first."""
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
    """Return the files that have the largest shares of a phase's tokens.

    The files of some servings are unknown and don't count: graphs, imported rows, and servings that name
    repositories.
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
    """Return a text that names the largest files of a phase.

    >>> phase_words([("own:deps/one.h", 0.468), ("own:src/a.c", 0.021)])
    'largest files by tokens: own:deps/one.h 46.8%, own:src/a.c 2.1%'
    """
    listed = ", ".join(f"{lineage} {percent(share)}" for lineage, share in found)
    return f"largest files by tokens: {listed}" if listed else ""


def large_file_warning(found: Sequence[tuple[str, float]]) -> str | None:
    """Return a warning if the largest file of a phase has a large share of its tokens, else None."""
    lineage, share = found[0] if found else ("", 0.0)
    if share < LARGE:
        return None
    path = lineage.partition(":")[2]
    return (
        f"{percent(share)} of its tokens are of {lineage}, with all its versions. Where it isn't your code, "
        f'give its repository in the corpus file the line  exclude: ["{path}"]'
    )
