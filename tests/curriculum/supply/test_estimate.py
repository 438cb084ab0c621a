"""An estimate is held against the build that it saves."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from curriculum.corpus.load import corpus_of_repositories, load_corpus
from curriculum.corpus.sources import Sources
from curriculum.mixing.row_supply import read_supply
from curriculum.stages import RowSet, RowsSpec, Tokenizing, build
from curriculum.stages.indexes import Index
from curriculum.store import Recipe, Store
from curriculum.supply import DocumentKind, Estimate, EstimateTask, estimate, sampled_corpus
from schemas.corpus import CorpusSpec, HistorySpec
from schemas.errors import CorpusError
from schemas.objectives import Score
from schemas.reports import RowsReport
from tests.curriculum.stages.test_on_error import tree_bomb

pytestmark = pytest.mark.system

TOKENIZING = Tokenizing(vocab_size=1024)
FILES = tuple(
    DocumentKind(family=family, row_length=512, score="all")
    for family in ("v2_doxygen", "v2_simple", "v3_doxygen", "v3_simple")
)
CONTEXT = DocumentKind(family="v4_context_graph", row_length=2048, score="all")
TALKS = DocumentKind(family="chat", row_length=512)
BOUND = 0.25
"""Maximum error of scored and distinct tokens, as a share of a build's."""


def one_repository(**changes: object) -> CorpusSpec:
    corpus = load_corpus("sample")
    return corpus.model_copy(update={"repositories": corpus.repositories[:1], **changes})


def built_rows(
    corpus: CorpusSpec, kinds: tuple[DocumentKind, ...], folder: Path
) -> dict[DocumentKind, RowSet]:
    """The rows that a build of everything leaves to train on."""
    wanted = [
        RowsSpec(
            family=each.family,
            objective=each.objective,
            row_length=each.row_length,
            score=each.score,
        )
        for each in kinds
    ]
    built = build(Store(folder), corpus, wanted, fixed_length=512, tokenizing=TOKENIZING)
    return dict(zip(kinds, built.rows, strict=True))


def truth(
    corpus: CorpusSpec, kinds: tuple[DocumentKind, ...], folder: Path
) -> dict[DocumentKind, dict[str, int]]:
    """Return the training tokens of a complete build, by kind and domain."""
    found = {}
    for kind, rows in built_rows(corpus, kinds, folder).items():
        supply = read_supply(rows.train.shards(), key=rows.train.key)
        found[kind] = {name: supply.tokens_of(name) for name in supply.domains}
    return found


def guess(
    corpus: CorpusSpec, kinds: tuple[DocumentKind, ...], folder: Path, share: float
) -> Estimate:
    return estimate(asked(corpus, kinds, folder, share))


def asked(
    corpus: CorpusSpec, kinds: tuple[DocumentKind, ...], folder: Path, share: float, **settings: Any
) -> EstimateTask:
    sources = Sources(cache=folder)
    given = {"tokenizing": TOKENIZING, "share": share, "sources": sources, **settings}
    return EstimateTask.from_corpus(corpus, kinds, **given)


def test_an_estimate_from_all_commits_is_what_a_build_leaves(tmp_path: Path) -> None:
    corpus, kinds = one_repository(), (*FILES, TALKS)
    found = guess(corpus, kinds, tmp_path / "cache", 1.0)
    for kind, domains in truth(corpus, kinds, tmp_path / "workspace").items():
        assert len(domains) > 1 or kind == TALKS
        assert found.total(kind) == (sum(domains.values()), 0.0)
        told = {name: found.total(kind, name)[0] for name in found.domains}
        assert {name: tokens for name, tokens in told.items() if tokens} == pytest.approx(domains)


def test_scored_and_distinct_tokens_are_about_those_of_a_build(tmp_path: Path) -> None:
    """Distinct tokens are windows of 16 tokens there, and those of new lines here."""
    corpus = one_repository()
    kinds = tuple(
        replace(each, score=score) for each in (*FILES, CONTEXT) for score in get_args(Score)
    )
    found = guess(corpus, kinds, tmp_path / "cache", 1.0)
    for kind, rows in built_rows(corpus, kinds, tmp_path / "workspace").items():
        windows = rows.train.reported(RowsReport).windows
        lines = [each for each in found.lines if each.kind == kind and each.is_total]
        scored, distinct = (
            sum(each.scored for each in lines),
            sum(each.distinct for each in lines),
        )
        assert distinct <= scored
        assert scored == pytest.approx(windows.scored, rel=BOUND), kind
        assert distinct == pytest.approx(windows.kept << windows.halvings, rel=BOUND), kind


def test_documents_that_leave_out_parts_to_fit_are_counted(tmp_path: Path) -> None:
    kinds = tuple(
        DocumentKind(family=family, row_length=length, score="all")
        for family in ("v2_simple", "v3_simple")
        for length in (512, 8192)
    )
    found = guess(one_repository(), kinds, tmp_path, 1.0)
    totals = {each.kind: each for each in found.lines if each.is_total}
    whole_files, short, whole_changes = totals[kinds[0]], totals[kinds[2]], totals[kinds[3]]
    assert whole_files.shortened == 0, "v2 is divided over rows"
    assert 0 < short.shortened <= short.documents
    assert whole_changes.shortened == 0
    assert short.tokens < whole_changes.tokens


def test_graphs_of_all_commits_are_what_a_build_leaves_but_for_what_files_cannot_tell(
    tmp_path: Path,
) -> None:
    corpus = one_repository()
    (domains,) = truth(corpus, (CONTEXT,), tmp_path / "workspace").values()
    tokens, _ = guess(corpus, (CONTEXT,), tmp_path / "cache", 1.0).total(CONTEXT)
    assert tokens == pytest.approx(sum(domains.values()), rel=0.1)


def test_the_cap_of_versions_holds_in_a_sample(tmp_path: Path) -> None:
    """A sample that saw each commit alone would take every version of a hot file for wanted."""
    kind = DocumentKind(family="v3_simple", row_length=512, score="all")
    capped = one_repository(history=HistorySpec(versions_per_path=1))
    (domains,) = truth(capped, (kind,), tmp_path / "workspace").values()
    whole, _ = guess(one_repository(), (kind,), tmp_path, 1.0).total(kind)
    tokens, _ = guess(capped, (kind,), tmp_path, 1.0).total(kind)
    assert tokens == sum(domains.values()) < whole / 1.5


def test_a_part_of_the_commits_tells_about_as_much_as_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = FILES[1:2]
    corpus = load_corpus("sample").model_copy(update={"conversations": ()})
    whole = guess(corpus, kinds, tmp_path, 1.0)
    monkeypatch.setattr(sampled_corpus, "MIN_COMMITS", 12)
    monkeypatch.setattr(sampled_corpus, "MIN_COMMITS_OF_MANY", 12)
    part = guess(corpus, kinds, tmp_path, 0.4)
    assert all(each.read < each.units for each in part.samplings)
    assert [each.units for each in part.samplings] == [each.units for each in whole.samplings]
    tokens, error = part.total(kinds[0])
    assert 0 < error < 0.2 * tokens
    assert abs(tokens - whole.total(kinds[0])[0]) < 4 * error
    assert any("tokenizer" in note for note in part.notes)


@pytest.mark.system
def test_the_same_sample_is_estimated_alike_by_any_number_of_processes(tmp_path: Path) -> None:
    corpus, kinds = one_repository(), (CONTEXT, FILES[0])
    one = guess(corpus, kinds, tmp_path, 0.01)
    two = estimate(asked(corpus, kinds, tmp_path, 0.01), workers=2)
    assert one == two


@pytest.mark.parametrize("workers", [1, 2])
def test_a_repository_that_the_corpus_skips_has_no_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """The repository loses its objects once its pin is resolved."""
    alone = one_repository()
    gone = tree_bomb(tmp_path / "gone")
    both = {"repositories": (*alone.repositories, gone), "max_skipped": 0.5}
    kinds = (FILES[1],)
    expected = guess(alone, kinds, tmp_path, 0.5)
    task = asked(alone.model_copy(update={**both, "on_error": "skip"}), kinds, tmp_path, 0.5)
    shutil.rmtree(tmp_path / "gone" / ".git" / "objects")
    (tmp_path / "gone" / ".git" / "objects").mkdir()
    found = estimate(task, workers=workers)
    assert found.total(FILES[1]) == expected.total(FILES[1])
    corpus = task.plan.corpus.model_copy(update={"on_error": "stop"})
    with pytest.raises(CorpusError):
        estimate(replace(task, plan=replace(task.plan, corpus=corpus)), workers=workers)


def test_a_folder_without_history_is_read_whole(tmp_path: Path, sample_clone: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    for file in sample_clone.rglob("*.h*"):
        (folder / file.name).write_bytes(file.read_bytes())
    corpus = corpus_of_repositories([folder])
    found = guess(corpus, (FILES[1], FILES[3], CONTEXT), tmp_path / "cache", 0.01)
    assert found.total(FILES[1])[0] > 0
    assert found.total(FILES[1])[1] == 0
    assert found.total(FILES[3])[0] == 0
    assert [(each.units, each.read) for each in found.samplings] == [(1, 1)]


def test_a_family_whose_index_is_not_made_yet_is_taken_to_have_what_the_other_graph_has(
    tmp_path: Path,
) -> None:
    kind, corpus = replace(CONTEXT, family="v5_clang_graph"), one_repository()
    recipe = Recipe(stage="indexes", labels=(), revision=0)
    (planned,) = Store(tmp_path, dry=True).produce([recipe], lambda _: None)
    name = corpus.repositories[0].name
    found = {
        lacks: estimate(asked(corpus, (kind, CONTEXT), tmp_path, 0.01, indexes=(index,)))
        for lacks in ("", "libclang")
        for index in [Index(repository=name, artefact=None if lacks else planned, lacks=lacks)]
    }
    assert found[""].total(kind) == found[""].total(CONTEXT) != (0.0, 0.0)
    assert any("assumed" in note for note in found[""].notes)
    assert found["libclang"].total(kind) == (0.0, 0.0)
    assert any("libclang" in note for note in found["libclang"].notes)
