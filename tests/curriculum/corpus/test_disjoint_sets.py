from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.disjoint_sets import DisjointSets


def test_sets_have_one_root_and_count_their_members():
    sets = DisjointSets(4)
    root = sets.join(0, 1)
    assert sets.size(root) == 2
    assert sets.roots().tolist() == [root, root, 2, 3]
    assert sets.join(0, 1) == root
    assert sets.size(root) == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_members_of_a_set_are_those_that_pairs_lead_to(pairs):
    sets = DisjointSets(10)
    reached = [{number} for number in range(10)]
    for one, other in pairs:
        sets.join(one, other)
        both = reached[one] | reached[other]
        for number in both:
            reached[number] = both
    roots, firsts = sets.roots().tolist(), sets.firsts().tolist()
    for number, members in enumerate(reached):
        assert {at for at, root in enumerate(roots) if root == roots[number]} == members
        assert firsts[number] == min(members)
        assert sets.size(roots[number]) == len(members)


def test_no_number_has_no_set():
    assert DisjointSets(0).firsts().tolist() == []
