from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from curriculum.corpus.blobs import Skips
from curriculum.corpus.load import unpack_samples
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.families.check import check_document
from curriculum.families.context import BUDGET
from curriculum.families.render import RenderResult
from curriculum.families.v4_context_graph import documents
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.names import TYPES
from schemas.change import CommitChange, FileChange, TreeFile
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document
from schemas.families import CONTEXT_FAMILY


class Made(NamedTuple):
    commit: CommitChange
    result: RenderResult


def made(path: Path) -> Iterator[Made]:
    spec = RepositorySpec(name=path.name, path=str(path))
    history = HistorySpec(versions_per_path=1000)
    corpus = CorpusSpec(name="sample", repositories=(spec,), history=history)
    graph = CallGraph()
    for commit in read_commits(resolve(spec, cache=path), spec, corpus, Skips()):
        graph.apply(commit.tree)
        yield Made(commit, documents(commit, graph, family=CONTEXT_FAMILY))


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, list[Made]]:
    """Every commit of the sample corpus with its documents."""
    paths = unpack_samples(tmp_path_factory.mktemp("samples"))
    return {path.name: list(made(path)) for path in paths}


def all_documents(samples: dict[str, list[Made]]) -> list[tuple[CommitChange, Document]]:
    return [
        (each.commit, document)
        for commits in samples.values()
        for each in commits
        for document in each.result.documents
    ]


def parts_of(document: Document, number: int) -> Iterator[tuple[str, str, int, int]]:
    """Text, path and place of what a chunk shows."""
    data = document.text.encode()
    chunk = document.chunks[number]
    for part in document.parts[chunk.first_part : chunk.last_part]:
        if part.source >= 0:
            source = document.provenance[part.source]
            text = data[part.start : part.end].decode()
            yield text, source.path, source.start, source.end


def test_every_document_of_the_sample_corpus_keeps_the_rules(samples):
    found = all_documents(samples)
    assert {document.provenance[0].repository for _, document in found} == set(samples)
    assert len(found) > 30
    for _, document in found:
        check_document(document)
        assert len(document.text.encode()) <= BUDGET
    ids = [document.document_id for _, document in found]
    assert len(set(ids)) == len(ids)


def test_a_commit_has_documents_or_a_reason(samples):
    for commits in samples.values():
        for commit, result in commits:
            reasons = {count.reason for count in result.counts}
            is_code = [document.language in ("cpp", "c") for document in result.documents]
            assert ("no_function" in reasons) == (not any(is_code)), commit.subject


def hunk_bytes(change: FileChange) -> list[tuple[int, int]]:
    """Places in the file afterwards that a hunk touches; between two lines where it only removed."""
    assert change.after is not None
    lines = change.after.text.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:at])) for at in range(len(lines) + 1)]
    return [
        (starts[hunk.after_start], starts[hunk.after_start + hunk.after_lines])
        for hunk in change.hunks
    ]


def test_each_target_is_a_function_that_a_hunk_touched(samples):
    seen = 0
    for commit, document in all_documents(samples):
        touched = {each.path: hunk_bytes(each) for each in commit.changes if each.after}
        texts = {each.path: each.after.text for each in commit.changes if each.after}
        for number, chunk in enumerate(document.chunks):
            if chunk.hop == 0:
                if document.language == "cmake":
                    continue
                ((_, path, start, end),) = parts_of(document, number)
                assert any(low < end and start <= high for low, high in touched[path])
                is_added = touched[path] == [(0, len(texts[path].encode()))]
                assert chunk.symbol == "function" or (is_added and chunk.symbol in TYPES)
                seen += 1
    assert seen > 100


def test_text_and_lineage_are_those_of_the_commits_tree(samples):
    for commits in samples.values():
        tree: dict[str, TreeFile] = {}
        for commit, result in commits:
            tree.update((file.path, file) for file in commit.tree.files)
            for document in result.documents:
                for number in range(len(document.chunks)):
                    for text, path, start, end in parts_of(document, number):
                        whole = tree[path].blob.text.encode()
                        assert text.removesuffix("\n") == whole[start:end].decode().removesuffix(
                            "\n"
                        )
                assert {each.lineage for each in document.provenance} <= {
                    file.lineage for file in tree.values()
                }


def test_two_builds_give_the_same_documents(samples, tmp_path):
    (path,) = (each for each in unpack_samples(tmp_path) if each.name == "ringlog")
    assert list(made(path)) == samples["ringlog"]


def test_nearer_chunks_stand_nearer_to_the_target(samples):
    """Ranks fall towards the target, and no chunk stands behind the one that led to it."""
    hops: Counter[int] = Counter()
    for _, document in all_documents(samples):
        for number, chunk in enumerate(document.chunks):
            hops[chunk.hop] += 1
            if chunk.hop:
                edge = document.edges[chunk.via]
                assert number < max(edge.source, edge.target)
        near = [chunk.hop for chunk in document.chunks]
        assert near[-1] == 0
    assert min(hops[hop] for hop in range(4)) > 10


def edges_between(document: Document) -> set[tuple[str, str, str]]:
    names = [
        chunk.name.removeprefix("lattice::").removeprefix("arena::") for chunk in document.chunks
    ]
    return {(names[edge.source], edge.kind, names[edge.target]) for edge in document.edges}


KNOWN = {
    "Multiply matrices with vectors": {
        ("operator*", "calls", "multiply"),
        ("multiply", "calls", "transpose"),
        ("multiply", "calls", "multiply"),
    },
    "Add exact and approximate comparison": {
        ("exact::order", "calls", "exact::equal"),
        ("approx::order", "calls", "approx::equal"),
        ("approx::order", "calls", "exact::order"),
    },
    "Trace the requests": {
        ("TracingResource::do_allocate", "overrides", "CountingResource::do_allocate"),
        ("TracingResource::do_allocate", "calls", "CountingResource::do_allocate"),
        ("TracingResource::do_allocate", "member", "TracingResource"),
        ("TracingResource", "inherits", "CountingResource"),
        ("CountingResource", "inherits", "ChainedResource"),
        ("ChainedResource", "inherits", "MemoryResource"),
    },
    "Drain the ring sink": {
        ("rl_ring_sink_drain", "calls", "take_one"),
        ("drop_one", "calls", "take_one"),
    },
}


@pytest.mark.parametrize("subject", KNOWN)
def test_edges_that_are_known_by_hand_join_the_chunks(samples, subject):
    (found,) = (
        document
        for commit, document in all_documents(samples)
        if commit.subject.startswith(subject) and document.language in ("cpp", "c")
    )
    assert edges_between(found) >= KNOWN[subject]


def test_a_crop_from_the_far_end_takes_whole_chunks(samples):
    cropped = 0
    for _, document in all_documents(samples):
        borders = [document.parts[chunk.first_part].start for chunk in document.chunks]
        assert all(one < later for one, later in pairwise(borders))
        elidable = [part for part in document.parts if part.elidable]
        lasts = [document.parts[each.last_part - 1] for each in document.chunks if each.hop]
        ranks = [part.rank for part in lasts]
        assert ranks == sorted(ranks, reverse=True)
        assert {part.rank for part in elidable} == set(ranks)
        cropped += len(elidable)
    assert cropped > 1000


def test_statements_and_arguments_are_marked_in_targets_only(samples):
    seen: Counter[str] = Counter()
    for _, document in all_documents(samples):
        targets = [part for part in document.parts if part.kind == "target"]
        for span in document.spans:
            within = any(part.start <= span.start < part.end for part in targets)
            seen[f"{span.kind} {'target' if within else 'context'}"] += 1
    assert min(seen[f"{kind} target"] for kind in ("body", "statement", "arguments")) > 30
    assert seen["body context"] > 30
    assert seen["statement context"] == seen["arguments context"] == 0


def test_documented_declarations_are_marked_with_their_comments_and_bodies(samples):
    seen: Counter[str] = Counter()
    for _, document in all_documents(samples):
        data = document.text.encode()
        spans = {
            kind: [each for each in document.spans if each.kind == kind]
            for kind in ("documentation", "declaration", "body")
        }
        bodies = {each.start for each in spans["body"]}
        for each in spans["declaration"]:
            comment = max(one.end for one in spans["documentation"] if one.end <= each.start)
            assert data[comment : comment + 1] == b"\n"
            seen["with a body" if each.end in bodies else "without"] += 1
    assert min(seen["with a body"], seen["without"]) > 30
