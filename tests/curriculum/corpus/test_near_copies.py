import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.corpus.copy_clusters import CopyClusters, jaccard, min_large_similarity
from curriculum.corpus.near_pairs import candidate_pairs, large_pairs
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME, OtherCorpus, find_in_other_corpora
from curriculum.corpus.shingles import shingles
from curriculum.corpus.signatures import SIGNATURES_NAME, SignatureWriter, SignedVersion
from schemas.document import SIGNATURES_SCHEMA

RANDOM = np.random.default_rng(7)


def words(count: int, seed: int) -> list[str]:
    return [f"w{number}" for number in np.random.default_rng(seed).integers(1 << 30, size=count)]


def changed(text: Sequence[str], every: int) -> list[str]:
    return [f"{word}x" if at % every == 0 else word for at, word in enumerate(text)]


def signed(folder: Path, texts: Sequence[str]) -> Path:
    folder.mkdir(exist_ok=True)
    with SignatureWriter(folder / SIGNATURES_NAME) as writer:
        for number, text in enumerate(texts):
            writer.add(
                SignedVersion(
                    lineage=f"r:{number}.cc", document_id=f"{number:032x}", shingles=shingles(text)
                )
            )
    return folder / SIGNATURES_NAME


def test_signatures_have_their_schema_and_texts_without_shingles_have_none(tmp_path):
    file = signed(tmp_path, ["", " ".join(words(50, 1)), "// nothing"])
    table = pq.read_table(file)
    assert table.schema.equals(SIGNATURES_SCHEMA, check_metadata=True)
    assert table["lineage"].to_pylist() == ["r:1.cc"]


def test_pairs_at_seven_tenths_are_nearly_all_candidates_and_unrelated_pairs_are_not(tmp_path):
    originals = [words(400, seed) for seed in range(100)]
    copies = [changed(text, 40) for text in originals]
    texts = [" ".join(text) for text in (*originals, *copies)]
    sets = [shingles(text) for text in texts]
    assert all(0.7 <= jaccard(sets[at], sets[at + 100]) < 0.85 for at in range(100))
    pairs = candidate_pairs(signed(tmp_path, texts), 200).tolist()
    wanted = [[at, at + 100] for at in range(100)]
    assert sum(pair in pairs for pair in wanted) >= 97
    assert all(pair in wanted for pair in pairs)


@given(
    sizes=st.lists(st.integers(2_000, 4_000), min_size=2, max_size=8),
    shared=st.floats(0.0, 1.0),
    seed=st.integers(0, 1 << 32),
)
@settings(max_examples=25, deadline=None)
def test_large_similar_files_are_candidates_and_unrelated_files_are_not(
    tmp_path_factory, sizes, shared, seed
):
    random = np.random.default_rng(seed)
    common = random.integers(1 << 64, size=int(4_000 * shared), dtype=np.uint64)
    sets = [
        np.unique(np.r_[common, random.integers(1 << 64, size=size, dtype=np.uint64)])
        for size in sizes
    ]
    file = tmp_path_factory.mktemp("signed") / SIGNATURES_NAME
    with SignatureWriter(file) as writer:
        for number, hashes in enumerate(sets):
            writer.add(
                SignedVersion(lineage=f"r:{number}", document_id=f"{number}", shingles=hashes)
            )
    is_large = np.array([size % 3 > 0 for size in sizes])
    pairs = set(map(tuple, large_pairs(file, is_large).tolist()))
    for one, other in itertools.combinations(range(len(sizes)), 2):
        similarity = jaccard(sets[one], sets[other])
        if similarity >= 0.4 and is_large[one] and is_large[other]:
            assert (one, other) in pairs
        if similarity < 0.01 or not (is_large[one] and is_large[other]):
            assert (one, other) not in pairs


def test_few_bands_at_once_give_the_same_pairs(tmp_path):
    texts = [" ".join(changed(words(100, at % 10), 20 + at)) for at in range(40)]
    file = signed(tmp_path, texts)
    assert np.array_equal(candidate_pairs(file, 40), candidate_pairs(file, 40, max_key_bytes=1))


def test_files_that_are_all_alike_have_few_candidates_that_join_them_all(tmp_path):
    count = 500
    pairs = candidate_pairs(signed(tmp_path, [" ".join(words(100, 1))] * count), count)
    assert len(pairs) < 2 * count
    clusters = CopyClusters(repositories=[0] * count)
    clusters.join([(one, other) for one, other in pairs.tolist()], lambda number: 1.0)
    assert set(clusters.groups.roots().tolist()) == {clusters.groups.root(0)}


def test_no_signature_has_no_candidate(tmp_path):
    assert candidate_pairs(signed(tmp_path, []), 0).tolist() == []


@given(one=st.integers(10_000, 99_999), other=st.integers(10_000, 99_999), share=st.floats(0.01, 1))
def test_large_versions_are_copies_where_the_larger_has_over_half_of_the_smaller(one, other, share):
    shared = int(share * min(one, other))
    similarity = shared / (one + other - shared)
    (least,) = min_large_similarity(np.array([one]), np.array([other])).tolist()
    has_most = shared / min(one, other) >= 0.55 - 1e-9
    assert (similarity >= least - 1e-9) == (has_most and similarity >= 0.2 - 1e-9)


def test_a_lower_similarity_joins_files_across_repositories_alone():
    clusters = CopyClusters(repositories=[0, 1, 1])
    clusters.join([(0, 1), (1, 2)], lambda number: 0.4, min_across=lambda number: 0.35)
    assert clusters.clusters.root(0) == clusters.clusters.root(1) != clusters.clusters.root(2)


@pytest.mark.parametrize(
    ("repositories", "similarity", "is_joined"),
    [((0, 1), 0.7, True), ((0, 1), 0.69, False), ((0, 0), 0.89, False), ((0, 0), 0.9, True)],
)
def test_files_of_one_repository_must_be_more_alike_than_those_of_two(
    repositories, similarity, is_joined
):
    clusters = CopyClusters(repositories=repositories)
    clusters.join([(0, 1)], lambda number: similarity)
    assert (clusters.clusters.root(0) == clusters.clusters.root(1)) is is_joined
    assert (clusters.groups.root(0) == clusters.groups.root(1)) is (similarity >= 0.9)


def test_the_largest_join_of_a_cluster_is_the_pair_between_two_large_parts():
    clusters = CopyClusters(repositories=[0] * 6)
    chain = [(0, 1), (1, 2), (3, 4), (4, 5), (2, 3)]
    clusters.join(chain, lambda number: 0.9 + number / 100)
    join = clusters.largest_joins[clusters.clusters.root(0)]
    assert (join.first, join.second, join.joined) == (2, 3, 3)
    assert join.similarity == pytest.approx(0.94)


def test_pairs_that_are_together_are_not_compared_again():
    asked = []

    def similarity(number: int) -> float:
        asked.append(number)
        return 1.0

    CopyClusters(repositories=[0, 0, 0]).join([(0, 1), (1, 2), (0, 2)], similarity)
    assert asked == [0, 1]


def test_a_near_copy_in_another_corpus_is_found_by_signatures_alone(tmp_path):
    texts = [words(400, seed) for seed in range(20)]
    own = signed(tmp_path / "own", [" ".join(text) for text in texts])
    other = [" ".join(changed(text, 80)) for text in texts[5:10]]
    signed(tmp_path / "other", [" ".join(words(400, 99)), *other])
    third = {"lineage": ["r:1.cc"], "reason": ["other_corpus"], "evidence": ["third r:a.cc"]}
    pl.DataFrame(third).write_parquet(tmp_path / "other" / LEFT_OUT_FILES_NAME)
    found = find_in_other_corpora(own, [OtherCorpus(name="big", selection=tmp_path / "other")])
    assert found == {f"r:{at}.cc": f"big r:{at - 4}.cc" for at in range(6, 10)}


def test_signatures_compress_to_the_bytes_that_a_workspace_has_room_for(tmp_path):
    """4 GB for ten million documents, projected from two sizes."""
    sizes = []
    for count in (2_000, 8_000):
        with SignatureWriter(tmp_path / f"{count}.parquet") as writer:
            for number in range(count):
                hashes = np.sort(RANDOM.integers(1 << 64, size=200, dtype=np.uint64))
                lineage = f"repository:source/folder{number % 50}/file{number // 2}.cc"
                name = RANDOM.bytes(16).hex()
                writer.add(SignedVersion(lineage=lineage, document_id=name, shingles=hashes))
        sizes.append((tmp_path / f"{count}.parquet").stat().st_size / count)
    assert max(sizes) * 10**7 < 4e9
    assert pl.read_parquet(tmp_path / "8000.parquet").height == 8_000
