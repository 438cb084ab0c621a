"""Artefacts of a stage by what they were built for: a run or a mixture, a corpus, a family, a repository."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from curriculum.inspection.lineage import inputs
from curriculum.mixing.mix import report_of
from curriculum.pipeline.references import LISTED, Reference, artefacts_of
from curriculum.store import Artefact, Store, read_mark
from schemas.errors import StoreError
from schemas.stages import STAGES

_SELECTION = re.compile(r"selections/corpus-([^/]+)/")


def of_owner(store: Store, found: Reference, owner: str) -> Reference:
    """Keep the artefacts of one stage that belong to `owner`.

    That is a label (family, repository, specialist, phase …), a corpus, or what `artefacts_of` resolves: a
    run, a mixture, the first digits of a key. Of a mixture the rows with most of its tokens come first.

    Raises:
        StoreError: where none does.
    """
    stage = found.artefacts[0].manifest.stage if found.artefacts else ""
    if not stage or any(each.manifest.stage != stage for each in found.artefacts):
        raise StoreError(
            owner,
            cause="it narrows a stage such as rows or documents, and none is named before it",
            cure=f"Leave out what stands before it: curriculum inspect {owner}",
        )
    kept = [each for each in found.artefacts if owner in each.manifest.labels.values()]
    corpora = {} if kept else _built(store)
    if owner in corpora:
        kept = [each for each in found.artefacts if each.path in corpora[owner]]
    if not kept:
        owners = artefacts_of(store, owner, STAGES)
        made_of = {one.path for each in owners for one in (each, *inputs(store, each, stage))}
        kept = [each for each in found.artefacts if each.path in made_of]
        tokens = _planned_tokens(owners)
        kept.sort(key=lambda artefact: -tokens[artefact.key])
    if not kept:
        raise StoreError(
            owner,
            cause=f"no artefact of stage {stage} belongs to a corpus, family, run or mixture of this name",
            cure=f"Name one: {', '.join(_owners(corpora, found.artefacts)[: 2 * LISTED])}",
        )
    return replace(found, artefacts=tuple(kept))


def _planned_tokens(owners: Iterable[Artefact]) -> Counter[str]:
    """Return the tokens that the mixtures among some artefacts take of rows, by the rows' key."""
    found: Counter[str] = Counter()
    for mixture in (owner for owner in owners if owner.manifest.stage == "mixtures"):
        for stratum in report_of(mixture).strata:
            for variant in stratum.by_variant:
                taken = variant.drawn * variant.rows_tokens // max(variant.rows, 1)
                found[variant.rows_key] += taken
    return found


def last_built_first(store: Store, artefacts: Sequence[Artefact]) -> list[Artefact]:
    """Order artefacts so that those of the corpus of the newest among them come first, else as they are."""
    by_corpus = [
        [artefact for artefact in artefacts if artefact.path in built]
        for built in _built(store).values()
    ]
    newest = max(filter(None, by_corpus), key=_newest, default=[])
    first = {each.path for each in newest}
    return sorted(artefacts, key=lambda each: each.path not in first)


def _newest(artefacts: Sequence[Artefact]) -> str:
    """The time at which the newest was made, as manifests have it: times of files change with a copy."""
    return max(artefact.manifest.created for artefact in artefacts)


def _built(store: Store) -> dict[str, set[Path]]:
    """Paths of all that was built last of each corpus, by its name: corpora are those of its selections."""
    found: dict[str, set[Path]] = {}
    for mark in sorted((store.root / "current").glob("build+*.txt")):
        lines = read_mark(mark)
        for match in filter(None, map(_SELECTION.match, lines)):
            found.setdefault(match[1], set()).update(store.root / line for line in lines)
    return found


def _owners(corpora: Iterable[str], artefacts: Sequence[Artefact]) -> list[str]:
    """Names that artefacts belong to: corpora, then families and the like."""
    labels = (value for artefact in artefacts for value in artefact.manifest.labels.values())
    return [
        *dict.fromkeys(corpora),
        *dict.fromkeys(label for label in labels if not label.isdigit()),
    ]
