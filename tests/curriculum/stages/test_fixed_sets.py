"""Sets that are the same in every phase: the anchor, unseen repositories and later commits."""

import datetime
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer as Encoder

from curriculum.corpus.select import SELECTION_NAME
from curriculum.inspection.held_out_tables import held_out_lines, held_out_set_warnings
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build
from curriculum.stages.fixed_sets import sets_of
from curriculum.store import Artefact, Store
from curriculum.train.evaluation_sets import order_of
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.objectives import FIXED_SETS
from schemas.reports import RowsReport, SelectionReport
from tests.curriculum.stages.test_held_out_text import (
    commit,
    function,
    git,
    marks,
    split_by_lineage,
)

V4 = "v4_context_graph"
LATER = datetime.date(2026, 6, 1)
FILES = RowsSpec(family="v2_simple", row_length=512)
WANTED = (
    FILES,
    RowsSpec(family="v3_simple", row_length=512),
    RowsSpec(family=V4, objective="target", row_length=1024),
)
STRANGE, COPIED, MORE, LATE, NEW_FILE = range(100, 110), 200, 300, 400, 500


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Own: 12 files before the date, of which each has a function more in three commits after it.

    Strange is held out whole; one of its files stands in own, too.
    """
    root = tmp_path_factory.mktemp("fixed")
    monkeypatch = pytest.MonkeyPatch()
    own, strange = root / "own", root / "strange"
    for repository in (own, strange):
        repository.mkdir()
        git(repository, "init", "--quiet")
    copied = "".join(function(f"copied{part}", number=COPIED + part) for part in range(4))
    texts = {
        f"file{at}": "".join(function(f"own{at}_{part}", number=at * 5 + part) for part in range(5))
        for at in range(12)
    }
    with monkeypatch.context() as patched:
        at_time(patched, "2026-05-31T23:00:00Z")
        for name, text in texts.items():
            commit(own, **{name: text})
        for at, name in enumerate(texts):
            texts[name] += function(f"more{at}", number=MORE + at)
            commit(own, **{name: texts[name]})
        commit(own, copied=copied)
        for at, number in enumerate(STRANGE):
            commit(strange, **{f"strange{at}": function(f"strange{at}", number=number)})
        commit(strange, original=copied)
        at_time(patched, "2026-06-01T00:00:00Z")
        for part in range(3):
            for at, name in enumerate(texts):
                texts[name] += function(f"late{at}_{part}", number=LATE + at * 3 + part)
                commit(own, **{name: texts[name]})
        commit(own, fresh="".join(function(f"new{at}", number=NEW_FILE + at) for at in range(3)))
        commit(strange, strange0=function("late", number=STRANGE[0]))
    corpus = CorpusSpec(
        name="own",
        repositories=(
            RepositorySpec(name="own", path=str(own)),
            RepositorySpec(name="strange", path=str(strange), unseen=True),
        ),
        history=HistorySpec(versions_per_path=2),
        val_fraction=0.2,
        later=LATER,
    )
    return build(
        Store(root / "home"),
        corpus,
        WANTED,
        fixed_length=2048,
        tokenizing=Tokenizing(vocab_size=400),
        workers=Workers(processes=1),
    )


def at_time(patched: pytest.MonkeyPatch, time: str) -> None:
    """Let git write commits of a time."""
    patched.setenv("GIT_COMMITTER_DATE", time)
    patched.setenv("GIT_AUTHOR_DATE", time)


def scored_marks(built: Built, rows: Artefact) -> set[int]:
    """The numbers of the functions whose word is scored in rows."""
    encoder = Encoder.from_file(str(built.tokenizer.path / "tokenizer.json"))
    found = set[int]()
    table = pq.read_table(rows.shards(), columns=["input_ids", "loss_mask"], partitioning=None)
    for row in table.to_pylist():
        scored = zip(row["input_ids"], [0, *row["loss_mask"][:-1]], strict=True)
        # A word whose tokens aren't all scored is no word.
        text = encoder.decode([token if is_scored else 0 for token, is_scored in scored])
        found.update(int(word[:3]) for word in text.split("mark")[1:] if word[:3].isdigit())
    return found


def decided(built: Built) -> list[dict[str, str]]:
    """The documents of files' versions that are kept."""
    table = pq.read_table(built.selection.path / SELECTION_NAME, partitioning=None)
    return [
        line for line in table.to_pylist() if line["keep"] and line["family"] == FILES.flat_family
    ]


def numbers_of_train(built: Built) -> set[int]:
    return {number for rows in built.rows for number in marks(built, rows.train)}


def test_nothing_of_an_unseen_repository_is_trained_on(built: Built) -> None:
    trained = numbers_of_train(built)
    assert len(trained) > 20
    assert trained.isdisjoint({*STRANGE})
    assert {*STRANGE} & marks(built, built.fixed["unseen"])


def test_a_file_that_an_unseen_repository_has_too_is_held_out(built: Built) -> None:
    found = split_by_lineage(built)
    assert (found["own:copied.cpp"], found["strange:original.cpp"]) == ("val", "unseen")
    assert numbers_of_train(built).isdisjoint(range(COPIED, COPIED + 4))


def test_nothing_of_a_later_commit_is_trained_on(built: Built) -> None:
    trained = numbers_of_train(built)
    assert trained.isdisjoint(range(LATE, LATE + 36))
    assert trained.isdisjoint(range(NEW_FILE, NEW_FILE + 3))


def test_later_commits_are_measured_on_lines_that_they_added_alone(built: Built) -> None:
    rows = built.fixed["later"]
    late = set(range(LATE, LATE + 36))
    shown, scored = marks(built, rows), scored_marks(built, rows)
    assert shown & numbers_of_train(built)
    assert len(scored & late) > 5
    assert scored <= late | set(range(NEW_FILE, NEW_FILE + 3))


def test_the_first_versions_after_the_date_are_read(built: Built) -> None:
    later = [line for line in decided(built) if line["split"] == "later"]
    changed = [line for line in later if line["lineage"] != "own:fresh.cpp"]
    trained = {name for name, side in split_by_lineage(built).items() if side == "train"} - {
        "own:fresh.cpp"
    }
    assert len(changed) == 2 * len(trained)
    shown = marks(built, built.fixed["later"])
    assert {number % 3 for number in shown if LATE <= number < LATE + 36} == {1, 2}


def test_documents_are_counted_by_side(built: Built) -> None:
    report = built.selection.reported(SelectionReport)
    kept = [
        line["split"]
        for line in pq.read_table(
            built.selection.path / SELECTION_NAME, partitioning=None
        ).to_pylist()
        if line["keep"]
    ]
    counts = {side: kept.count(side) for side in ("val", "unseen", "later")}
    assert counts == {"val": report.val, "unseen": report.unseen, "later": report.later}
    assert all(counts.values())


def test_little_of_an_unseen_repository_stands_in_training_documents(built: Built) -> None:
    counts = built.fixed["unseen"].reported(RowsReport).encode.objective
    assert counts["held_out_scored"] > 1000
    assert counts["held_out_trained"] <= 0.02 * counts["held_out_scored"]


def test_the_table_of_a_build_lists_each_set_with_its_size_and_what_training_shows_of_it(
    built: Built,
) -> None:
    lines = {line["held out"]: line for line in held_out_lines(built)}
    assert {*FIXED_SETS} < {*lines}
    for name in FIXED_SETS:
        rows = order_of(built.fixed[name]).rows
        documents = {document for row in rows for document in row.documents}
        lineages = {lineage for row in rows for lineage in row.lineages}
        assert lines[name]["documents"] == len(documents) > 1
        assert lines[name]["files"] == len(lineages) > 1
        assert str(lines[name]["in training"]).endswith("%")
    assert [*held_out_set_warnings(built)] == []


def test_a_set_without_a_row_is_warned_of(built: Built) -> None:
    rows = built.fixed["later"]
    empty = replace(rows, manifest=rows.manifest.model_copy(update={"report": {}}))
    warned = [*held_out_set_warnings(replace(built, fixed={"later": empty}))]
    assert len(warned) == 1
    assert "later" in warned[0]


def test_graphs_are_made_of_what_is_trained_on(built: Built) -> None:
    graphs = [each for each in built.documents if each.manifest.labels["family"] == V4]
    assert [each.manifest.labels["repository"] for each in graphs] == ["own"]
    rows = built.rows_of(WANTED[2])
    for side in (rows.train, rows.val):
        assert marks(built, side).isdisjoint(range(LATE, LATE + 36))


def test_only_sets_that_a_corpus_holds_out_are_made() -> None:
    spec = RepositorySpec(name="own", path="own")
    plain = CorpusSpec(name="own", repositories=(spec,))
    assert sets_of(plain) == ("anchor",)
    assert sets_of(plain.model_copy(update={"later": LATER})) == ("anchor", "later")


def test_a_corpus_of_unseen_repositories_alone_is_refused() -> None:
    unseen = RepositorySpec(name="own", path="own", unseen=True)
    with pytest.raises(ValueError, match="unseen"):
        CorpusSpec(name="own", repositories=(unseen,))


def test_a_corpus_as_trained_ends_before_the_later_commits() -> None:
    first, last = datetime.date(2025, 1, 1), datetime.date(2026, 5, 31)
    corpus = CorpusSpec(
        name="own",
        repositories=(
            RepositorySpec(name="own", path="own"),
            RepositorySpec(name="short", path="short", until=first),
            RepositorySpec(name="strange", path="strange", unseen=True),
        ),
        later=LATER,
    )
    trained = corpus.trained()
    assert {each.name: each.until for each in trained.repositories} == {"own": last, "short": first}
    assert trained.later is None
    assert corpus.trained_before == 1_780_272_000
