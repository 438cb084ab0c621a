"""Artefacts of a stage by what they were built for."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from curriculum.pipeline.built_for import last_built_first, of_owner
from curriculum.pipeline.references import find
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from schemas.errors import StoreError
from schemas.mixture import MixtureReport
from tests.error_fields import fields
from tests.factories import READ_ONCE

EMPTY_MIXTURE = MixtureReport(
    slot_length=8, slots=0, rows=0, tokens=0, budget=0, tokens_per_step=8, steps=0, strata=(),
    repetition=READ_ONCE,
)  # fmt: skip


def _write(drafts: Sequence[StagingDirectory]) -> None:
    for draft in drafts:
        (draft.path / "lines.parquet").write_text(repr(draft.recipe.labels))
        if draft.recipe.stage == "mixtures":
            draft.record(EMPTY_MIXTURE)


def _publish(store: Store, stage: str, *inputs: Input, **labels: str) -> Artefact:
    recipe = Recipe(
        stage=stage,
        labels=tuple(labels.items()),
        revision=1,
        config=dict(labels),
        inputs=inputs,
        tools={},
    )
    return store.produce([recipe], _write)[0]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A workspace with rows of two corpora in the same folders; those of `mine` were built last."""
    store = Store(tmp_path)
    for corpus in ("sample", "mine"):
        selection = _publish(store, "selections", corpus=corpus)
        rows = [
            _publish(store, "rows", selection.as_input("selection"), family=family)
            for family in ("v2_simple", "v3_simple")
        ]
        _publish(
            store, "mixtures", rows[1].as_input("rows"), specialist=f"{corpus}-model", phase="one"
        )
        store.mark(f"build+{corpus}+one+{corpus}", [selection, *rows])
    return store


def _families(artefacts: Sequence[Artefact]) -> list[str]:
    return [each.manifest.labels["family"] for each in artefacts]


def _corpora(store: Store, artefacts: Sequence[Artefact]) -> list[str]:
    selections = {each.key: each for each in store.artefacts("selections")}
    return [
        selections[record.key].manifest.labels["corpus"]
        for each in artefacts
        for record in each.manifest.inputs
    ]


def test_rows_of_the_corpus_that_was_built_last_come_first(store: Store) -> None:
    ordered = last_built_first(store, find(store, "rows").artefacts)
    assert _corpora(store, ordered) == ["mine", "mine", "sample", "sample"]
    assert _families(ordered) == ["v2_simple", "v3_simple"] * 2, "else in the order of paths"
    more = _publish(
        store, "rows", find(store, "selections").artefacts[1].as_input("selection"), family="v4"
    )
    store.mark("build+sample+one+sample", [*find(store, "selections").artefacts[1:], more])
    ordered = last_built_first(store, find(store, "rows").artefacts)
    assert _corpora(store, ordered)[0] == "sample", "whatever the times of files are"


@pytest.mark.parametrize(
    ("owner", "families"),
    [
        ("sample", ["v2_simple", "v3_simple"]),
        ("v2_simple", ["v2_simple", "v2_simple"]),
        ("sample-model/one", ["v3_simple"]),
        ("sample-model", ["v3_simple"]),
    ],
)
def test_rows_are_narrowed_to_a_corpus_a_family_or_a_phase(
    store: Store, owner: str, families: list[str]
) -> None:
    found = of_owner(store, find(store, "rows"), owner)
    assert _families(found.artefacts) == families
    if owner.startswith("sample"):
        assert set(_corpora(store, found.artefacts)) == {"sample"}


def test_an_unknown_owner_is_refused_with_names_that_are_there(store: Store) -> None:
    with pytest.raises(StoreError, match="mine", check=fields(name="nonsuch")):
        of_owner(store, find(store, "rows"), "nonsuch")


def test_an_owner_behind_what_is_no_stage_is_refused_with_the_command_that_was_meant(
    store: Store,
) -> None:
    with pytest.raises(StoreError, match="inspect sample-model/one"):
        of_owner(store, find(store, "."), "sample-model/one")
