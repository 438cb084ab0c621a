"""Artefacts of a stage by what they were built for: a run or a mixture, a corpus, a family, a repository."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from curriculum.inspection.lineage import inputs
from curriculum.pipeline.references import LISTED, Reference, artefacts_of
from curriculum.store import Artefact, Store, read_mark
from schemas.errors import StoreError
from schemas.stages import STAGES

_SELECTION = re.compile(r"selections/corpus=([^/]+)/")


def of_owner(store: Store, found: Reference, owner: str) -> Reference:
    """Keep the artefacts of one stage that belong to `owner`.

    That is a label (family, repository, specialist, phase …), a corpus, or what `artefacts_of` resolves: a
    run, a mixture, the first digits of a key.

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
    if not kept:
        kept = _of_corpus(store, found.artefacts, owner)
    if not kept:
        owners = artefacts_of(store, owner, STAGES)
        made_of = {one.path for each in owners for one in (each, *inputs(store, each, stage))}
        kept = [each for each in found.artefacts if each.path in made_of]
    if not kept:
        raise StoreError(
            owner,
            cause=f"no artefact of stage {stage} belongs to a corpus, family, run or mixture of this name",
            cure=f"Name one: {', '.join(_owners(store, found.artefacts)[: 2 * LISTED])}",
        )
    return replace(found, artefacts=tuple(kept))


def last_built_first(store: Store, artefacts: Sequence[Artefact]) -> list[Artefact]:
    """Order artefacts so that those of the corpus of the newest among them come first, else as they are."""
    of_corpora = [
        _of_corpus(store, artefacts, name)
        for name in dict.fromkeys(name for file in _build_marks(store) for name in _corpora(file))
    ]
    newest = max(filter(None, of_corpora), key=_newest, default=[])
    first = {each.path for each in newest}
    return sorted(artefacts, key=lambda each: each.path not in first)


def _newest(artefacts: Sequence[Artefact]) -> str:
    """The time at which the newest was made, as manifests have it: times of files change with a copy."""
    return max(each.manifest.created for each in artefacts)


def _of_corpus(store: Store, artefacts: Sequence[Artefact], corpus: str) -> list[Artefact]:
    marked = {
        store.root / line
        for file in _build_marks(store)
        if corpus in _corpora(file)
        for line in read_mark(file)
    }
    return [each for each in artefacts if each.path in marked]


def _build_marks(store: Store) -> list[Path]:
    return sorted((store.root / "current").glob("build-*.txt"))


def _corpora(mark: Path) -> list[str]:
    """The corpora that a build is of: those of its selections."""
    return [match[1] for line in read_mark(mark) if (match := _SELECTION.match(line))]


def _owners(store: Store, artefacts: Sequence[Artefact]) -> list[str]:
    """Names that artefacts belong to: corpora, then families and the like."""
    corpora: Iterator[str] = (name for file in _build_marks(store) for name in _corpora(file))
    labels = (value for each in artefacts for value in each.manifest.labels.values())
    return [*dict.fromkeys(corpora), *dict.fromkeys(each for each in labels if not each.isdigit())]
