"""Filter artefacts of a stage by the run, mixture, corpus, family or repository that they belong to."""

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
    """Return those of the artefacts `found`, which are of one stage, that belong to `owner`.

    `owner` is a label value (family, repository, specialist, phase …), a corpus, or a reference that
    `artefacts_of` resolves: a run, a mixture, or a key prefix. If it is a mixture, the rows that have most
    of its tokens come first.

    Raises:
        StoreError: if no artefact belongs to it.
    """
    stage = found.artefacts[0].manifest.stage if found.artefacts else ""
    if not stage or any(artefact.manifest.stage != stage for artefact in found.artefacts):
        raise StoreError(
            owner,
            cause=(
                "an owner can only filter a stage, for example rows or documents, but none is "
                "named before it"
            ),
            cure=f"Remove the words before it: curriculum inspect {owner}",
        )
    kept = [artefact for artefact in found.artefacts if owner in artefact.manifest.labels.values()]
    corpora = {} if kept else _built(store)
    if owner in corpora:
        kept = [artefact for artefact in found.artefacts if artefact.path in corpora[owner]]
    if not kept:
        owners = artefacts_of(store, owner, STAGES)
        made_of = {
            made.path for artefact in owners for made in (artefact, *inputs(store, artefact, stage))
        }
        kept = [artefact for artefact in found.artefacts if artefact.path in made_of]
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
    """Return the number of tokens that mixtures take from rows, by the key of the rows."""
    found: Counter[str] = Counter()
    for mixture in (owner for owner in owners if owner.manifest.stage == "mixtures"):
        for stratum in report_of(mixture).strata:
            for variant in stratum.by_variant:
                taken = variant.drawn * variant.rows_tokens // max(variant.rows, 1)
                found[variant.rows_key] += taken
    return found


def last_built_first(store: Store, artefacts: Sequence[Artefact]) -> list[Artefact]:
    """Move the artefacts of the most recently built corpus to the front; otherwise keep the order."""
    by_corpus = [
        [artefact for artefact in artefacts if artefact.path in built]
        for built in _built(store).values()
    ]
    newest = max(filter(None, by_corpus), key=_newest, default=[])
    first = {artefact.path for artefact in newest}
    return sorted(artefacts, key=lambda artefact: artefact.path not in first)


def _newest(artefacts: Sequence[Artefact]) -> str:
    """Return the latest creation time in the manifests. Times of files change if a workspace is copied."""
    return max(artefact.manifest.created for artefact in artefacts)


def _built(store: Store) -> dict[str, set[Path]]:
    """Return the paths of the artefacts in the latest build of each corpus, by the name of the corpus."""
    found: dict[str, set[Path]] = {}
    for mark in sorted((store.root / "current").glob("build+*.txt")):
        lines = read_mark(mark)
        for match in filter(None, map(_SELECTION.match, lines)):
            found.setdefault(match[1], set()).update(store.root / line for line in lines)
    return found


def _owners(corpora: Iterable[str], artefacts: Sequence[Artefact]) -> list[str]:
    """Return names of owners of artefacts: corpora first, then label values, for example families."""
    labels = (value for artefact in artefacts for value in artefact.manifest.labels.values())
    return [
        *dict.fromkeys(corpora),
        *dict.fromkeys(label for label in labels if not label.isdigit()),
    ]
