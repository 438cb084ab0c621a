from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.load import unpack_samples
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.families.document_check import check_document
from curriculum.families.render import RenderResult
from curriculum.families.touched_functions import Shares, distribute_targets, touched_functions
from curriculum.families.v4_context_graph import documents
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile, Symbol
from curriculum.graph.fragments import Fragment, FragmentCosts
from curriculum.graph.names import TYPES
from schemas.change import CommitChange, FileChange, Hunk, TreeFile
from schemas.corpus import (
    CONTEXT_BYTES,
    USUAL_CONTEXT,
    ContextSettings,
    CorpusSpec,
    HistorySpec,
    RepositorySpec,
)
from schemas.document import Document
from schemas.families import CONTEXT_FAMILY
from tests.curriculum.families.small_trees import FILLED, MakeChange, rendered


class Made(NamedTuple):
    commit: CommitChange
    result: RenderResult


def rendered_commits(path: Path, settings: ContextSettings = USUAL_CONTEXT) -> Iterator[Made]:
    spec = RepositorySpec(name=path.name, path=str(path))
    history = HistorySpec(versions_per_path=1000)
    corpus = CorpusSpec(name="sample", repositories=(spec,), history=history)
    graph = CallGraph()
    for commit in read_commits(resolve(spec, cache=path), spec, corpus, Skips()):
        graph.apply(commit.tree)
        yield Made(commit, documents(commit, graph, family=CONTEXT_FAMILY, settings=settings))


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, list[Made]]:
    """Every commit of the sample corpus with its documents."""
    paths = unpack_samples(tmp_path_factory.mktemp("samples"))
    return {path.name: list(rendered_commits(path)) for path in paths}


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
        assert len(document.text.encode()) <= CONTEXT_BYTES
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
    assert list(rendered_commits(path)) == samples["ringlog"]


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


TEXT = """\
int a;

// About f.
int f() {
  one();
  struct Local {
    int g() {
      two();
    }
  };
  three();
}
int h() {
  four();
}
int declared();
"""
LINES = TEXT.splitlines(keepends=True)
FUNCTIONS = {"f": (2, 12), "g": (6, 9), "h": (12, 15)}


def offset(line: int) -> int:
    return sum(map(len, LINES[:line]))


def facts() -> FileFacts:
    def symbol(name: str, first: int, last: int, *, has_body: bool = True) -> Symbol:
        start, end = offset(first), offset(last)
        return Symbol(
            kind="function",
            name=name,
            scope=(),
            start=start,
            end=end,
            name_start=TEXT.index(f"{name}()"),
            body=Range(TEXT.index("{", start), end - 1) if has_body else None,
        )

    symbols = [symbol(name, *lines) for name, lines in FUNCTIONS.items()]
    symbols.append(symbol("declared", 15, 16, has_body=False))
    return FileFacts(
        symbols=tuple(symbols),
        calls=(),
        includes=(),
        usings=(),
        error_bytes=0,
        is_complete=True,
    )


def touched(first: int, count: int) -> list[str]:
    hunk = Hunk(before_start=first, before_lines=1, after_start=first, after_lines=count)
    return [facts().symbols[number].name for number in touched_functions(facts(), TEXT, [hunk])]


@pytest.mark.parametrize(
    ("first", "count", "names"),
    [
        (0, 1, []),
        (1, 1, []),
        (2, 1, ["f"]),
        (4, 1, ["f"]),
        (7, 1, ["g"]),
        (8, 3, ["f", "g"]),
        (11, 1, ["f"]),
        (11, 2, ["f", "h"]),
        (15, 1, []),
        (0, 16, ["f", "g", "h"]),
    ],
)
def test_a_hunk_touches_the_innermost_function_of_each_of_its_lines(first, count, names):
    assert touched(first, count) == names


@pytest.mark.parametrize(
    ("before", "names"),
    [
        (0, []),
        (2, []),
        (3, ["f"]),
        (5, ["f"]),
        (7, ["g"]),
        (8, ["g"]),
        (9, ["f"]),
        (11, ["f"]),
        (12, []),
        (15, []),
        (16, []),
    ],
)
def test_lines_that_were_only_taken_away_touch_the_function_in_which_they_stood(before, names):
    assert touched(before, 0) == names


COSTS = FragmentCosts(lead=lambda _: 10, gap=7)


@dataclass
class Joined:
    """Edges between functions of one file or of two, and nothing else."""

    pairs: list[tuple[NodeId, NodeId]]

    def paths(self) -> list[str]:
        return []

    def source(self, path: str) -> SourceFile:
        raise KeyError(path)

    def neighbours(self, node: NodeId) -> list[Neighbour]:
        others = [b if a == node else a for a, b in self.pairs if node in (a, b)]
        return [Neighbour(other, "calls", True, "syntactic", 1.0) for other in others]


def fragments(path: str, sizes: list[int]) -> list[Fragment]:
    return [
        Fragment(
            node=NodeId(path, number),
            form="whole",
            ranges=(Range(number * 1_000, number * 1_000 + size),),
            hop=0,
            via=None,
        )
        for number, size in enumerate(sizes)
    ]


def numbers(shares: Shares) -> list[list[tuple[str, int]]]:
    return [[(each.node.path, each.node.number) for each in group] for group in shares.groups]


def test_targets_that_fit_are_one_group():
    shares = distribute_targets(fragments("a", [90]) + fragments("b", [90]), Joined([]), COSTS, 200)
    assert numbers(shares) == [[("a", 0), ("b", 0)]]


def test_a_corpus_may_give_documents_another_budget(tmp_path: Path) -> None:
    """A larger one takes more of what stands around, never less; none is exceeded."""
    paths = {path.name: path for path in unpack_samples(tmp_path)}
    sizes = {}
    for budget in (8_192, CONTEXT_BYTES):
        settings = replace(FILLED, context_bytes=budget)
        found = [
            document
            for each in rendered_commits(paths["arena"], settings)
            for document in each.result.documents
        ]
        for document in found:
            check_document(document, settings)
        sizes[budget] = max(len(document.text.encode()) for document in found)
    assert sizes[8_192] <= 8_192 < sizes[CONTEXT_BYTES]


def test_targets_over_the_budget_are_divided_by_file():
    targets = fragments("a", [90]) + fragments("b", [40, 40])
    shares = distribute_targets(targets, Joined([]), COSTS, 196)
    assert numbers(shares) == [[("a", 0)], [("b", 0), ("b", 1)]]


def test_functions_that_call_each_other_stay_together_where_they_fit():
    targets = fragments("a", [40, 40, 40, 40])
    apart = [(NodeId("a", 0), NodeId("a", 3)), (NodeId("a", 1), NodeId("a", 2))]
    shares = distribute_targets(targets, Joined(apart), COSTS, 100)
    assert numbers(shares) == [[("a", 0), ("a", 3)], [("a", 1), ("a", 2)]]
    chain = [(NodeId("a", n), NodeId("a", n + 1)) for n in range(3)]
    cut = distribute_targets(targets, Joined(chain), COSTS, 150)
    assert numbers(cut) == [[("a", 0), ("a", 1), ("a", 2)], [("a", 3)]]


def test_a_function_over_the_budget_is_counted_and_left_out():
    shares = distribute_targets(fragments("a", [40, 500]), Joined([]), COSTS, 100)
    assert (numbers(shares), shares.too_large) == ([[("a", 0)]], 1)
    assert distribute_targets(fragments("a", [500]), Joined([]), COSTS, 100).groups == ()


@given(
    sizes=st.lists(st.integers(1, 120), min_size=1, max_size=20),
    pairs=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=15),
    room=st.integers(20, 300),
)
def test_every_function_that_fits_is_in_one_group_and_every_group_fits(sizes, pairs, room):
    targets = fragments("a", sizes[::2]) + fragments("b", sizes[1::2])
    graph = Joined([(NodeId("a", first), NodeId("a", last)) for first, last in pairs])
    shares = distribute_targets(targets, graph, COSTS, room)
    shown = [each.node for group in shares.groups for each in group]
    assert sorted(shown) == [each.node for each in targets if COSTS.size(each) <= room]
    assert len(shown) + shares.too_large == len(targets)
    assert all(0 < COSTS.total_size(group) <= room for group in shares.groups)


CALLEE = "int length(int x) {\n  return x + 1;\n}\n"
CALLER = "int use() {\n  // All that there is.\n  return length(0);\n}\n"
BEFORE = {
    "extras/copies/use.cc": f'#include "../../src/core/length.h"\n\n{CALLER}',
    "extras/more/deep/use.cc": f'#include "../../../src/core/length.h"\n\n{CALLER}',
    "src/core/length.h": CALLEE,
    "src/core/use.cc": f'#include "length.h"\n\n{CALLER}',
}


def shown(document: Document) -> list[tuple[str, str]]:
    """The path of each chunk, and what it shows without the blank lines around."""
    data = document.text.encode()
    found = []
    for chunk in document.chunks:
        parts = document.parts[chunk.first_part : chunk.last_part]
        cited = [part for part in parts if part.source >= 0]
        text = b"".join(data[part.start : part.end] for part in cited).decode()
        found.append((document.provenance[cited[0].source].path, text.strip()))
    return found


def test_an_equal_definition_stands_once_under_the_nearest_path(make_change: MakeChange) -> None:
    after = BEFORE | {"src/core/length.h": CALLEE.replace("x + 1", "x + 2")}
    (document,) = rendered(make_change, BEFORE, after).documents
    found = shown(document)
    assert [path for path, text in found if text == CALLER.strip()] == ["src/core/use.cc"]
    texts = [text for _, text in found]
    assert sorted(set(texts)) == sorted(texts)


def test_what_equals_the_target_stands_in_the_target_alone(make_change: MakeChange) -> None:
    before = BEFORE | {"src/core/use.cc": BEFORE["src/core/use.cc"].replace("length(0)", "7")}
    (document,) = rendered(make_change, before, BEFORE).documents
    found = shown(document)
    assert [path for path, text in found if text == CALLER.strip()] == ["src/core/use.cc"]
    assert [path for path, text in found if text == CALLEE.strip()] == ["src/core/length.h"]


def test_what_is_left_out_as_a_repetition_is_counted(make_change: MakeChange) -> None:
    after = BEFORE | {"src/core/length.h": CALLEE.replace("x + 1", "x + 2")}
    found = rendered(make_change, BEFORE, after)
    counts: dict[str, int] = {each.reason: each.number for each in found.counts}
    assert counts == {"repeated_definitions": 2, "repeated_bytes": 2 * len(CALLER.encode())}


HANDLERS = """int table_lookup(int n) { return n; }
int deep(int n) { return n; }
void (*pick_handler(int code))(int) {
  return table_lookup(deep(code));
}
"""


def test_a_function_that_returns_a_pointer_to_a_function_is_a_target_among_its_callees(
    make_change: MakeChange,
) -> None:
    before = {"a.cc": HANDLERS}
    after = {"a.cc": HANDLERS.replace("deep(code)", "deep(code + 1)")}
    (document,) = rendered(make_change, before, after).documents
    names = {chunk.name: chunk.hop for chunk in document.chunks}
    assert names == {"pick_handler": 0, "table_lookup": 1, "deep": 1}
