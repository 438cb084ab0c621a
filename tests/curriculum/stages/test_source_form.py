"""The options that docs/families.md lists give back the documents and rows that had no defaults of their own.

The digests were taken before context, full_file, changes, score and both had their defaults: of the ids of
all documents, which are digests of their texts, and of the tokens and masks of training rows. Those of rows
were taken anew, with the same documents, when the split became one by stratum.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from curriculum.corpus.load import load_corpus
from curriculum.stages import Built, RowsSpec, Tokenizing, build
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec, HistorySpec
from schemas.diet import Diet, Serving

FAMILIES_PAGE = Path(__file__).parents[3] / "docs" / "families.md"
LENGTHS = {"v2_simple": 512, "v3_doxygen": 512, "v4_context_graph": 1024}
DOCUMENTS = {
    ("v2_simple", "arena"): (72, "3ccecc21bea3351a"),
    ("v2_doxygen", "arena"): (72, "c75f2358e1ef205f"),
    ("v3_simple", "arena"): (30, "6b375644d29052ff"),
    ("v3_doxygen", "arena"): (30, "e672d64fc7007f0c"),
    ("v4_context_graph", "arena"): (22, "c1f5e22649793882"),
    ("v2_simple", "ringlog"): (87, "497c51b5a743dacb"),
    ("v2_doxygen", "ringlog"): (87, "a663046dd17656bc"),
    ("v3_simple", "ringlog"): (50, "94435033d82d5c4c"),
    ("v3_doxygen", "ringlog"): (50, "2c89ed7c85f8a9b9"),
    ("v4_context_graph", "ringlog"): (24, "66560d457020438a"),
}
ROWS = {
    "v2_simple": (245, "3e395ba4e897be94"),
    "v3_doxygen": (104, "865cbb18a47a1404"),
    "v4_context_graph": (23, "718b5b1b155cb1ed"),
}


def options() -> tuple[dict[str, str], list[Serving]]:
    """The fields of a corpus file and the servings that the document lists."""
    section = FAMILIES_PAGE.read_text("utf-8").split("## The source document's form", 1)[1]
    corpus, diet = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)[:2]
    fields = yaml.safe_load(corpus)
    assert {"name", "repositories"} < fields.keys()
    phases = Diet.model_validate(yaml.safe_load(diet)).phases
    given = {name: fields[name] for name in fields.keys() - {"name", "repositories"}}
    return given, [serving for phase in phases for serving in phase.servings]


def small(**changes: Any) -> CorpusSpec:
    """Two repositories of the sample, two versions of a file."""
    shipped = load_corpus("sample")
    chosen = tuple(each for each in shipped.repositories if each.name in ("arena", "ringlog"))
    fixed = {"repositories": chosen, "history": HistorySpec(versions_per_path=2)}
    spec = shipped.model_copy(update={**fixed, "val_fraction": 0.15})
    return CorpusSpec.model_validate({**spec.model_dump(), **changes})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    fields, servings = options()
    wanted = [
        RowsSpec(family=each.family, row_length=LENGTHS[each.family], score=each.score)
        for each in servings
        if each.family in LENGTHS and each.score
    ]
    assert {each.family for each in wanted} == set(ROWS)
    return build(
        Store(tmp_path_factory.mktemp("source form")),
        small(**fields),
        wanted,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=800),
    )


def digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def ids(documents: Artefact) -> list[str]:
    tables = [pq.read_table(shard, columns=["document_id"]) for shard in documents.shards()]
    return [str(each) for table in tables for each in table["document_id"].to_pylist()]


def row_lines(rows: Artefact) -> list[str]:
    tables = [pq.read_table(shard, columns=["input_ids", "loss_mask"]) for shard in rows.shards()]
    lines = [row for table in tables for row in table.to_pylist()]
    return [f"{row['input_ids']!r}{row['loss_mask']!r}" for row in lines]


def test_documents_are_those_of_before(built: Built) -> None:
    found = {
        (each.manifest.labels["family"], each.manifest.labels["repository"]): ids(each)
        for each in built.documents
    }
    known = {name: (len(own), digest("\n".join(own))) for name, own in found.items()}
    assert {name: known[name] for name in DOCUMENTS} == DOCUMENTS


def test_rows_are_those_of_before(built: Built) -> None:
    found = {each.wanted.family: row_lines(each.train) for each in built.rows}
    assert {family: (len(own), digest(own)) for family, own in found.items()} == ROWS


def test_every_option_of_the_list_is_one_that_is_not_the_default() -> None:
    fields, servings = options()
    usual = small()
    assert fields
    assert all(getattr(usual, name) != value for name, value in fields.items())
    assert all(each.score == "all" for each in servings)
    assert [each.family for each in servings if each.both] == ["v4_context_graph"]
