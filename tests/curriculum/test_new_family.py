"""A family that is registered goes through the whole pipeline: one function, one entry, one line of YAML."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from pydantic import ValidationError

from curriculum.families.document_builder import DocumentBuilder
from curriculum.pipeline import Pipeline
from curriculum.pipeline.run_config import CorpusConfig
from curriculum.stages import RowsSpec
from schemas.change import FileChange
from schemas.diet import Serving
from schemas.document import Document
from schemas.families import FAMILIES, FamilySpec, families_of
from schemas.objectives import OBJECTIVES, ObjectiveSpec

TITLE = "// toy: the newest version alone\n\n"
FAMILY = FamilySpec(
    name="toy", reads="changes", revision=1, render="tests.curriculum.test_new_family:newest"
)
LINE = "{family: toy, share: 1.0}"
DIET = f"""\
extends: templates.demo
specialist: toys
branch: only
token_budget: 8K
anneal: null
phases:
  - phase: syntax
    portion: 1.0
    max_repetition: 100
    servings:
      - {LINE}
"""


def newest(change: FileChange, *, family: str) -> Iterator[Document]:
    """Yield the version after a change under a title."""
    if change.after is not None and change.after.text:
        builder = DocumentBuilder()
        builder.add("header", TITLE)
        size = len(change.after.text.encode())
        source = builder.cite(change, change.path, change.after, (0, size), lineage=change.lineage)
        builder.add("code", change.after.text, source=source)
        yield builder.document(family, change, file=change)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry with the toy family."""
    monkeypatch.setattr(FAMILIES, "_entries", {**FAMILIES, FAMILY.name: FAMILY})


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="v2_simple is already registered"):
        FAMILIES.register(FAMILIES["v2_simple"])


def test_a_family_is_known_to_diets_from_its_registration_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValidationError, match="toy"):
        Serving(family="toy", share=1.0)
    monkeypatch.setattr(FAMILIES, "_entries", {**FAMILIES})
    FAMILIES.register(FAMILY)
    assert Serving(family="toy", share=1.0).objective == "causal"
    assert families_of("changes")[-1] == "toy"
    assert "toy" in str(Serving.model_json_schema())


def test_an_objective_is_known_to_diets_from_its_registration_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OBJECTIVES, "_entries", {**OBJECTIVES})
    OBJECTIVES.register(
        ObjectiveSpec(name="toy", revision=1, build="curriculum.objectives.causal:lesson")
    )
    assert Serving(family="v2_simple", objective="toy", share=1.0).objective == "toy"


@pytest.mark.system
@pytest.mark.usefixtures("toy")
def test_a_new_family_is_built_packed_mixed_and_trained(tmp_path: Path) -> None:
    home = tmp_path / "home"
    pipeline = Pipeline(home)
    file = tmp_path / "toys.yaml"
    file.write_text(DIET)
    corpus = CorpusConfig(max_commits=4, versions_per_path=1, workers=1)
    (run,) = pipeline.train(str(file), phase="syntax", corpus=corpus)
    assert (run.path / "report.json").is_file()
    built = pipeline.build(str(file), phase="syntax", corpus=corpus)["syntax"]
    rows = built.rows_of(RowsSpec(family="toy", row_length=512))
    assert rows.train.manifest.labels["family"] == "toy"
    made = [each for each in built.documents if each.manifest.labels["family"] == "toy"]
    texts = pl.concat(pl.read_parquet(file) for each in made for file in each.shards())["text"]
    assert len(texts)
    assert texts.str.starts_with(TITLE).all()
