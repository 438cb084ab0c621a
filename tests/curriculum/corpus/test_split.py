from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.split import (
    WHOLE_REPOSITORIES,
    Lineage,
    clusters,
    hash_fraction,
    held_out,
    held_out_alone,
    side_fraction,
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


def test_files_are_placed_alone_until_there_are_many_repositories():
    one, other = "fmt:include/fmt/format.h", "fmt:src/os.cc"
    few, many = WHOLE_REPOSITORIES - 1, WHOLE_REPOSITORIES
    assert side_fraction(one, few) == hash_fraction(one) != side_fraction(other, few)
    assert side_fraction(one, many) == hash_fraction("fmt") == side_fraction(other, many)


def test_a_family_without_any_gets_its_lowest_and_says_so():
    units = {"v2_simple": [f"u{i}" for i in range(5)], "v3_simple": ["u1", "u2"]}
    val, joined = held_out(units, val_fraction=1e-9)
    lowest = min(units["v2_simple"], key=hash_fraction)
    assert lowest in val
    assert joined[0] == ("v2_simple", lowest)
    assert not val.isdisjoint(units["v3_simple"])


def test_a_family_with_one_unit_keeps_it_in_train():
    assert held_out({"v2_simple": ["u", "u"]}, val_fraction=1e-9) == (frozenset(), ())


@given(fraction=st.floats(0.01, 0.9), old=st.integers(1, 50), new=st.integers(0, 50))
def test_a_larger_corpus_moves_nothing_that_the_hash_decided(fraction, old, new):
    units = [f"u{number}" for number in range(old + new)]
    small, joined = held_out({"f": units[:old]}, val_fraction=fraction)
    large, _ = held_out({"f": units}, val_fraction=fraction)
    by_hash = small - {unit for _, unit in joined}
    assert by_hash == {unit for unit in units[:old] if unit in large} - {u for _, u in joined}


COMMITS = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]


def test_where_no_commit_lies_in_val_whole_the_lowest_hash_that_was_changed_alone_joins() -> None:
    assert held_out_alone(COMMITS, frozenset(), val_fraction=0.4) == ("c",)
    assert held_out_alone(COMMITS, frozenset(), val_fraction=0.6) == ("c", "b")
    assert held_out_alone(COMMITS, frozenset("a"), val_fraction=0.4) == ()
    assert held_out_alone([frozenset("ab")], frozenset("a"), val_fraction=0.4) == ()


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1), max_size=30))
def test_train_keeps_a_unit_that_was_changed_alone(commits: list[frozenset[str]]) -> None:
    joined = held_out_alone(commits, frozenset(), val_fraction=0.9)
    alone = {next(iter(each)) for each in commits if len(each) == 1}
    assert set(joined) < alone or not alone
    assert bool(joined) == (len(alone) > 1)
