"""One small workspace that all tests of the build read: the sample corpus, two versions a file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.build import Built, Tokenizing, Wanted, build
from curriculum.corpus.load import load_corpus
from curriculum.store import Store
from schemas.corpus import CorpusSpec, HistorySpec

WANTED = (
    Wanted(family="v2_simple", row_length=512),
    Wanted(family="v3_doxygen", row_length=1024),
    Wanted(family="v3_doxygen", objective="fim", variant=1, row_length=1024),
    Wanted(family="v2_simple", objective="doc_to_code", row_length=512),
    Wanted(family="v3_doxygen", objective="code_to_doc", row_length=1024),
)


def small_corpus() -> CorpusSpec:
    corpus = load_corpus("sample")
    return corpus.model_copy(
        update={"history": HistorySpec(versions_per_path=2), "val_fraction": 0.1}
    )


def small_build(
    store: Store, *, workers: int = 1, vocab_size: int = 800, domains: str = "domains"
) -> Built:
    return build(
        store,
        small_corpus().model_copy(update={"domains": domains}),
        WANTED,
        anchor_length=512,
        tokenizing=Tokenizing(vocab_size=vocab_size),
        workers=workers,
    )


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return small_build(Store(tmp_path_factory.mktemp("built")))


@pytest.fixture(scope="session")
def workspace(built: Built) -> Path:
    return built.selection.path.parents[2]


@pytest.fixture(scope="session")
def make() -> Callable[..., Built]:
    """The same build again, elsewhere or with other settings."""
    return small_build
