from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.split import (
    BY_HASH,
    Lineage,
    choose_val_clusters,
    clusters,
    clusters_beside_unseen,
    clusters_for_whole_commits,
    clusters_to_move,
    hash_fraction,
)


def lineage(number: int, *, order: int = 0, since: int | None = None) -> Lineage:
    return Lineage(
        name=f"r{order}:f{number}",
        repository=f"r{order}",
        order=order,
        since=number if since is None else since,
    )


NUMBERS = st.integers(0, 30)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


@given(pairs=PAIRS)
def test_a_cluster_is_what_pairs_connect_and_its_oldest_stands_for_it(pairs):
    files = {i: lineage(i) for i in range(31)}
    named = [(files[one].name, files[other].name) for one, other in pairs]
    found = clusters(files.values(), named)
    reach = {i: {i} for i in files}
    for _ in files:
        for one, other in pairs:
            reach[one] = reach[other] = reach[one] | reach[other]
    for i, own in files.items():
        assert found[own.name] == files[min(reach[i])]


@given(pairs=PAIRS, added=st.integers(31, 40), copy_of=NUMBERS)
def test_a_copy_that_is_added_later_takes_the_side_of_what_was_there(pairs, added, copy_of):
    files = {i: lineage(i) for i in range(31)}
    named = [(files[one].name, files[other].name) for one, other in pairs]
    before = clusters(files.values(), named)
    for newer in (lineage(added), lineage(0, order=1, since=-5)):
        grown = [*named, (newer.name, files[copy_of].name)]
        after = clusters([*files.values(), newer], grown)
        assert {name: after[name] for name in before} == before
        assert after[newer.name] == before[files[copy_of].name]


def test_places_are_spread_evenly_and_never_change():
    places = [hash_fraction(f"repo:src/{number}.cc") for number in range(20_000)]
    assert all(0 <= each < 1 for each in places)
    assert 0.018 < sum(each < 0.02 for each in places) / len(places) < 0.022
    assert hash_fraction("fmt:include/fmt/format.h") == 0.2742171974148206


STRATA = st.tuples(
    st.integers(0, 3), st.sampled_from(["cpp", "c", "cmake"]), st.sampled_from(["src", "tests"])
)
FRACTIONS = st.floats(0.02, 0.5)


def files_in(strata: list[tuple[int, str, str]]) -> list[Lineage]:
    """Lineages in the order of their age: one for each stratum named."""
    files = [
        Lineage(
            name=f"r{order}:{folder}/f{number}.cc",
            repository=f"r{order}",
            order=order,
            since=number,
            language=language,
        )
        for number, (order, language, folder) in enumerate(strata)
    ]
    return sorted(files, key=lambda file: file.age)


def alone(files: list[Lineage]) -> dict[str, Lineage]:
    """Clusters of one lineage each."""
    return {file.name: file for file in files}


@given(strata=st.lists(STRATA, max_size=400), fraction=FRACTIONS)
def test_every_stratum_and_repository_gives_its_share(
    strata: list[tuple[int, str, str]], fraction: float
) -> None:
    files = files_in(strata)
    val = choose_val_clusters(alone(files), val_fraction=fraction)
    seen = Counter(group for file in files for group in file.strata)
    held = Counter(group for file in files if file.name in val for group in file.strata)
    if len(files) > 1:
        assert all(held[group] > fraction * count - 1 for group, count in seen.items())


def test_the_share_of_a_large_corpus_is_the_one_that_was_asked_for() -> None:
    strata = [(number % 4, "cpp", "src") for number in range(8_000)]
    val = choose_val_clusters(alone(files_in(strata)), val_fraction=0.02)
    assert 0.019 < len(val) / 8_000 < 0.023


@given(strata=st.lists(STRATA, min_size=2, max_size=200), fraction=FRACTIONS, cut=st.data())
def test_what_is_appended_changes_no_earlier_side(
    strata: list[tuple[int, str, str]], fraction: float, cut: st.DataObject
) -> None:
    files = files_in(strata)
    some = files[: cut.draw(st.integers(2, len(files)))]
    before = choose_val_clusters(alone(some), val_fraction=fraction)
    after = choose_val_clusters(alone(files), val_fraction=fraction)
    assert before == after & {file.name for file in some}


@given(strata=st.lists(STRATA, min_size=4, max_size=200), fraction=FRACTIONS, at=st.data())
def test_a_cluster_that_its_hash_holds_out_stays_whatever_else_changes(
    strata: list[tuple[int, str, str]], fraction: float, at: st.DataObject
) -> None:
    files = files_in(strata)
    some = at.draw(st.permutations(files))[: max(2, len(files) // 2)]
    hashed = {file.name for file in some if hash_fraction(file.name) < BY_HASH * fraction}
    assert hashed <= choose_val_clusters(alone(some), val_fraction=fraction)
    assert hashed <= choose_val_clusters(alone(files), val_fraction=fraction)


@given(strata=st.lists(STRATA, max_size=60), fraction=FRACTIONS)
def test_a_cluster_of_more_than_half_of_all_lineages_is_trained_on(
    strata: list[tuple[int, str, str]], fraction: float
) -> None:
    files = files_in(strata)
    majority = len(files) // 2 + 1
    oldest = alone(files) | {file.name: files[0] for file in files[:majority]}
    assert all(
        file.name not in choose_val_clusters(oldest, val_fraction=fraction) for file in files[:1]
    )


def test_tests_are_a_stratum_of_their_own() -> None:
    file = files_in([(0, "cpp", "src")])[0]
    paths = (
        "tests/a.cc",
        "test/a.cc",
        "a_test.cc",
        "unit_test-a.cc",
        "lib/testing/a.h",
        "FileTest.cpp",
    )
    others = ("src/a.cc", "src/latest.cc", "contest/a.cc", "attestation.h", "testify.c")
    found = {path: replace(file, name=f"r0:{path}").strata[0] for path in (*paths, *others)}
    assert {found[path] for path in paths} == {("r0", "cpp", "tests")}
    assert {found[path] for path in others} == {("r0", "cpp", "files")}


def test_a_family_without_any_gets_its_lowest_and_says_so():
    units = {"v2_simple": [f"u{i}" for i in range(5)], "v3_simple": ["u1", "u2"]}
    joined = dict(clusters_to_move(units, frozenset()))
    lowest = min(units["v2_simple"], key=hash_fraction)
    assert joined["v2_simple"] == lowest
    assert not {*joined.values()}.isdisjoint(units["v3_simple"])
    assert clusters_to_move(units, frozenset(units["v3_simple"])) == ()


def test_a_family_with_one_unit_keeps_it_in_train():
    assert clusters_to_move({"v2_simple": ["u", "u"]}, frozenset()) == ()


def test_the_cluster_of_most_files_of_a_family_joins_last() -> None:
    large, small = sorted("ab", key=hash_fraction)
    assert clusters_to_move({"v2_simple": [large, large, small]}, frozenset()) == (
        ("v2_simple", small),
    )


COMMITS = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]


def test_where_too_few_commits_lie_in_val_whole_the_lowest_hash_that_was_changed_alone_joins() -> (
    None
):
    assert clusters_for_whole_commits(COMMITS, frozenset(), val_fraction=0.4) == ("c",)
    assert clusters_for_whole_commits(COMMITS, frozenset(), val_fraction=0.9) == ("c", "b")
    assert clusters_for_whole_commits(COMMITS, frozenset("a"), val_fraction=0.4) == ()
    assert clusters_for_whole_commits(COMMITS, frozenset("a"), val_fraction=0.8) == ("c",)
    assert clusters_for_whole_commits([frozenset("ab")], frozenset("a"), val_fraction=0.4) == ()


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1), max_size=30))
def test_train_keeps_a_unit_that_was_changed_alone(commits: list[frozenset[str]]) -> None:
    joined = clusters_for_whole_commits(commits, frozenset(), val_fraction=0.9)
    alone = {next(iter(each)) for each in commits if len(each) == 1}
    assert set(joined) < alone or not alone
    assert bool(joined) == (len(alone) > 1)


def test_a_cluster_with_an_unseen_file_is_beside_it_unless_it_is_most_of_the_rest():
    files = [lineage(number) for number in range(5)]
    strange = [lineage(number, order=1) for number in range(3)]
    shared = [(files[0].name, strange[0].name), (strange[1].name, strange[2].name)]
    few = clusters([*files, *strange], shared)
    assert clusters_beside_unseen(few, {"r1"}) == {"r0:f0", "r1:f1"}
    assert clusters_beside_unseen(few, ()) == frozenset()
    many = [*shared, *((files[0].name, files[number].name) for number in (1, 2))]
    assert clusters_beside_unseen(clusters([*files, *strange], many), {"r1"}) == {"r1:f1"}


@given(pairs=PAIRS, unseen=st.sets(st.integers(0, 2), max_size=2))
def test_no_other_file_of_a_cluster_beside_an_unseen_one_is_left_to_training(pairs, unseen):
    files = {number: lineage(number, order=number % 3) for number in range(31)}
    named = [(files[one].name, files[other].name) for one, other in pairs]
    oldest = clusters(files.values(), named)
    repositories = {f"r{order}" for order in unseen}
    beside = clusters_beside_unseen(oldest, repositories)
    seen = [name for name in oldest if name.partition(":")[0] not in repositories]
    strange = {oldest[name].name for name in oldest if name not in set(seen)}
    for unit in strange:
        members = sum(oldest[name].name == unit for name in seen)
        assert (unit in beside) == (2 * members <= len(seen))
    assert beside <= strange
