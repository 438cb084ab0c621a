import polars as pl

from curriculum.supply.sampled_corpus import (
    MIN_GRAPHS,
    MIN_GRAPHS_OF_MANY,
    commits_to_walk,
    sampling_depth,
    sizes_of,
)
from curriculum.supply.sampled_documents import TOUCHED_SCHEMA
from schemas.corpus import CONTEXT_BYTES


def touched(*rows: tuple[str, str, int]) -> pl.DataFrame:
    told = [(unit, lineage, lineage.endswith(".cmake"), size) for unit, lineage, size in rows]
    return pl.DataFrame(told, schema=TOUCHED_SCHEMA, orient="row")


SIDES = pl.DataFrame(
    {
        "lineage": ["r:a", "r:b", "r:val", "r:b.cmake", "r:val.cmake"],
        "split": ["train", "train", "val", "train", "val"],
    },
)
DOMAINS = pl.DataFrame(
    [
        *[("one", "r:a", "testing"), ("one", "r:b", "general"), ("two", "r:b", "general")],
        *[("two", "r:b.cmake", "build_toolchain"), ("one", "r:b.cmake", "build_toolchain")],
    ],
    schema=["unit", "lineage", "domain"],
    orient="row",
)


def sizes(*rows: tuple[str, str, int]) -> list[tuple[object, ...]]:
    return sizes_of(touched(*rows), SIDES, DOMAINS).rows()


def test_a_commit_that_touched_functions_gives_one_document_shared_by_its_domains() -> None:
    found = sizes(("one", "", 0), ("one", "r:a", 30), ("one", "r:b", 10), ("two", "r:b", 5))
    assert found == [("one", "general", 0.25), ("one", "testing", 0.75), ("two", "general", 1.0)]


def test_many_bytes_of_functions_give_several_documents() -> None:
    assert sizes(("two", "r:b", 3 * CONTEXT_BYTES)) == [("two", "general", 3.0)]


def test_a_commit_that_touched_a_held_out_file_gives_nothing_to_train_on() -> None:
    assert sizes(("one", "r:a", 30), ("one", "r:val", 1)) == []


def test_a_held_out_build_file_leaves_the_functions_of_its_commit_to_train_on() -> None:
    assert sizes(("two", "r:b", 5), ("two", "r:val.cmake", 1)) == [("two", "general", 1.0)]


def test_held_out_functions_leave_the_build_targets_of_their_commit_to_train_on() -> None:
    found = sizes(("one", "r:val", 30), ("one", "r:b.cmake", 1))
    assert found == [("one", "build_toolchain", 1.0)]


def test_build_targets_give_documents_beside_those_of_functions() -> None:
    found = sizes(("two", "r:b", 30), ("two", "r:b.cmake", 1))
    assert found == [("two", "build_toolchain", 1.0), ("two", "general", 1.0)]


def test_a_commit_that_touched_nothing_has_no_size() -> None:
    assert sizes(("one", "", 0), ("one", "r:a", 0)) == []


def test_large_trees_are_walked_for_fewer_commits() -> None:
    found = pl.DataFrame({"unit": [f"c{n}" for n in range(500)]})
    small = commits_to_walk(found, 0.01, tree_bytes=1_000_000)
    large = commits_to_walk(found, 0.01, tree_bytes=500_000_000)
    assert len(large) == MIN_GRAPHS < len(small) < 500
    assert small[:MIN_GRAPHS] == large
    assert len(commits_to_walk(found, 1.0, tree_bytes=1_000_000)) == 500


def test_of_many_repositories_fewer_trees_of_each_are_walked() -> None:
    found = pl.DataFrame({"unit": [f"c{n}" for n in range(500)]})
    alone = commits_to_walk(found, 0.01, tree_bytes=1_000_000)
    beside = commits_to_walk(found, 0.01, tree_bytes=1_000_000, depth=sampling_depth(6))
    assert len(alone) == 2 * len(beside)
    assert alone[: len(beside)] == beside
    large = commits_to_walk(found, 0.01, tree_bytes=500_000_000, depth=sampling_depth(30))
    assert len(large) == MIN_GRAPHS_OF_MANY
