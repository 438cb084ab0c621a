from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME
from curriculum.corpus.select import (
    GRAPHS,
    KEPT_NAME,
    SIDES_NAME,
    KnownFiles,
    SelectionSummary,
    ingredients,
    select,
)
from curriculum.corpus.split import Lineage, choose_val_clusters, hash_fraction
from schemas.corpus import CorpusSpec, LicencesSpec, RepositorySpec
from schemas.document import DOCUMENT_SCHEMA, KEPT_SCHEMA, Document, Part, Span
from tests import factories


def document(
    repository: str,
    path: str,
    text: str,
    *,
    family: str = "v2_simple",
    blob: str | None = None,
    time: int = 0,
) -> Document:
    blob = blob or f"blob of {text}"
    part = Part(kind="code", start=0, end=len(text), source=0)
    source = factories.provenance(
        repository=repository, commit="c", path=path, blob=blob, end=len(text)
    )
    return factories.document(
        text,
        family=family,
        timestamp=time,
        parts=(part,),
        provenance=(source,),
        lineage=f"{repository}:{path}",
    )


def row(each: Document) -> dict[str, object]:
    return {
        **asdict(each),
        "document_id": each.document_id,
        "content_id": each.content_id,
        "num_bytes": len(each.text.encode()),
        "base_document_id": None,
    }


def corpus_of(*names: str, val_fraction: float = 0.3) -> CorpusSpec:
    pins = tuple(RepositorySpec(name=name, path="/x") for name in names)
    return CorpusSpec(name="c", repositories=pins, val_fraction=val_fraction)


def select_from(
    folder: Path,
    corpus: CorpusSpec,
    *documents: Document,
    name: str = "s",
    known: KnownFiles | None = None,
) -> tuple[pl.DataFrame, SelectionSummary]:
    """The selection as a frame, and its summary; one folder a repository and family."""
    given = []
    groups: dict[tuple[str, str], list[Document]] = {}
    for each in documents:
        groups.setdefault((each.provenance[0].repository, each.family), []).append(each)
    for (repository, family), group in groups.items():
        path = folder / f"documents-{name}-{repository}-{family}"
        path.mkdir()
        table = pa.Table.from_pylist([row(one) for one in group], schema=DOCUMENT_SCHEMA)
        pq.write_table(table, factories.shard_path(path))
        given.append(DocumentFolder(repository=repository, path=path))
    target = folder / name
    target.mkdir()
    summary = select(given, corpus, target, known=known)
    return pl.read_parquet(target / KEPT_NAME), summary


def splits_by_lineage(frame: pl.DataFrame) -> dict[str, str]:
    return dict(frame.select("lineage", "split").iter_rows())


FILES = [document("r", f"f{i}.cc", f"text {i}") for i in range(40)]


def test_a_selection_has_its_schema_and_order(tmp_path):
    frame, summary = select_from(tmp_path, corpus_of("r"), *reversed(FILES))
    written = pq.read_schema(tmp_path / "s" / KEPT_NAME)
    assert written.equals(KEPT_SCHEMA, check_metadata=True)
    assert frame.equals(frame.sort("family", "repository", "document_id"))
    assert (summary.documents, summary.kept, summary.joined) == (40, 40, ())
    assert 0 < summary.val < 40
    assert summary.report().val == summary.val


def test_a_selection_is_the_same_whatever_the_order_of_its_input(tmp_path):
    select_from(tmp_path, corpus_of("r"), *FILES, name="a")
    select_from(tmp_path, corpus_of("r"), *reversed(FILES), name="b")
    assert (tmp_path / "a" / KEPT_NAME).read_bytes() == (tmp_path / "b" / KEPT_NAME).read_bytes()


def expected_sides(count: int) -> dict[str, str]:
    """The sides of so many files of one repository that share no text."""
    files = [
        Lineage(name=f"r:f{i}.cc", repository="r", order=0, since=0, language="cpp")
        for i in range(count)
    ]
    val = choose_val_clusters({file.name: file for file in files}, val_fraction=0.3)
    return {file.name: "val" if file.name in val else "train" for file in files}


def test_the_side_of_a_file_is_the_same_in_every_family(tmp_path):
    more = [document("r", f"f{i}.cc", f"diff {i}", family="v3_simple") for i in range(40)]
    frame, _ = select_from(tmp_path, corpus_of("r"), *FILES, *more)
    assert frame.height == 80
    expected = expected_sides(40)
    for lineage, split in frame.select("lineage", "split").iter_rows():
        assert split == expected[lineage]


def test_no_file_changes_side_when_the_corpus_grows(tmp_path):
    small, _ = select_from(tmp_path, corpus_of("r"), *FILES, name="small")
    newer = [document("r", f"n{i}.cc", f"new {i}", time=9) for i in range(30)]
    copies = [document("s", f"c{i}.cc", f"text {i}", time=-9) for i in range(40)]
    edits = [document("r", f"f{i}.cc", f"later {i}", time=9) for i in range(40)]
    large, _ = select_from(
        tmp_path, corpus_of("r", "s"), *FILES, *newer, *copies, *edits, name="large"
    )
    before, after = splits_by_lineage(small), splits_by_lineage(large)
    assert before == {lineage: after[lineage] for lineage in before}
    assert set(before.values()) == {"train", "val"}


def test_byte_equal_files_are_on_one_side(tmp_path):
    copies = [document("r", f"z{i}.cc", f"copy {i}", blob=f"blob of text {i}") for i in range(40)]
    frame, _ = select_from(tmp_path, corpus_of("r"), *FILES, *copies)
    side = splits_by_lineage(frame)
    assert all(side[f"r:f{i}.cc"] == side[f"r:z{i}.cc"] for i in range(40))
    assert {hash_fraction(f"r:z{i}.cc") < 0.3 for i in range(40)} == {True, False}


def under_header(each: Document, header: str) -> Document:
    """The document with a generated header before its source text."""
    size = len(header.encode())
    (code,) = each.parts
    moved = replace(code, start=size, end=size + code.end)
    return replace(
        each, text=header + each.text, parts=(Part(kind="header", start=0, end=size), moved)
    )


def test_the_same_source_text_is_kept_once_whatever_header_stands_above_it(tmp_path):
    ours = [
        under_header(document(name, path, "same", blob=blob, time=time), f"// {path} {time}\n")
        for name, path, blob, time in (
            ("first", "later.cc", "b", 5),
            ("first", "a.cc", "b", 3),
            ("first", "a.cc", "with CRLF", 4),
            ("second", "oldest.cc", "b", 1),
        )
    ]
    frame, summary = select_from(tmp_path, corpus_of("first", "second"), *ours)
    (kept,) = frame.filter("keep").iter_rows(named=True)
    assert (kept["repository"], kept["lineage"]) == ("first", "first:a.cc")
    assert kept["document_id"] == ours[1].document_id
    rejected = frame.filter(~pl.col("keep"))
    assert set(rejected.select("reason", "evidence").iter_rows()) == {("duplicate", "first:a.cc")}
    assert summary.rejected == (("duplicate", 3),)


def test_documents_of_two_families_are_never_duplicates(tmp_path):
    ours = [document("r", "a.cc", "same", family=family) for family in ("v2_simple", "v2_doxygen")]
    frame, _ = select_from(tmp_path, corpus_of("r"), *ours)
    assert frame["keep"].to_list() == [True, True]


LICENCE = "// Copyright 2020 A\n// All rights reserved\n// See LICENSE for terms\n#include <a.h>\n"


def source_text(name: object, lines: int) -> str:
    return LICENCE + "".join(f"int {name}_{at}() {{\n  return {at};\n}}\n" for at in range(lines))


def test_copies_with_a_changed_line_are_on_one_side(tmp_path):
    files = [document("r", f"f{i}.cc", source_text(i, 5)) for i in range(40)]
    edited = [source_text(i, 5).replace("return 2;", "return 7;") for i in range(40)]
    copies = [document("s", f"z{i}.cc", text) for i, text in enumerate(edited)]
    frame, _ = select_from(tmp_path, corpus_of("r", "s"), *files, *copies)
    side = splits_by_lineage(frame)
    assert all(side[f"r:f{i}.cc"] == side[f"s:z{i}.cc"] for i in range(40))
    assert set(side.values()) == {"train", "val"}


def test_a_file_that_was_merged_into_another_is_on_its_side(tmp_path):
    small = [document("r", f"z{i}.cc", source_text(i, 9)) for i in range(40)]
    large = [
        document("r", f"f{i}.cc", source_text(f"own{i}", 60) + source_text(i, 9), time=1)
        for i in range(40)
    ]
    frame, _ = select_from(tmp_path, corpus_of("r"), *small, *large)
    side = splits_by_lineage(frame)
    assert all(side[f"r:f{i}.cc"] == side[f"r:z{i}.cc"] for i in range(40))
    assert set(side.values()) == {"train", "val"}


def test_a_version_that_is_no_longer_there_joins_too(tmp_path):
    files = [document("r", f"f{i}.cc", source_text(i, 5)) for i in range(40)]
    later = [document("r", f"f{i}.cc", source_text(f"new{i}", 5), time=2) for i in range(40)]
    moved = [document("r", f"z{i}.cc", source_text(i, 4), time=3) for i in range(40)]
    side = splits_by_lineage(select_from(tmp_path, corpus_of("r"), *files, *later, *moved)[0])
    assert all(side[f"r:f{i}.cc"] == side[f"r:z{i}.cc"] for i in range(40))


def test_a_licence_and_includes_in_common_join_no_files(tmp_path):
    files = [document("r", f"f{i}.cc", source_text(i, 5)) for i in range(40)]
    frame, _ = select_from(tmp_path, corpus_of("r"), *files)
    assert splits_by_lineage(frame) == expected_sides(40)


def test_the_same_text_is_kept_once_in_the_first_repository(tmp_path):
    ours = [document(name, "a.cc", "same") for name in ("second", "first", "third")]
    frame, summary = select_from(tmp_path, corpus_of("first", "second", "third"), *ours)
    assert frame.filter("keep")["repository"].to_list() == ["first"]
    rejected = frame.filter(~pl.col("keep"))
    assert set(rejected.select("reason", "evidence").iter_rows()) == {("duplicate", "first:a.cc")}
    assert frame.filter("keep")["reason"].to_list() == [None]
    assert summary.rejected == (("duplicate", 2),)


def test_one_text_twice_in_a_repository_is_one_row_with_its_first_lineage(tmp_path):
    twice = [document("r", "b.cc", "same", time=5), document("r", "c.cc", "same", time=1)]
    frame, summary = select_from(tmp_path, corpus_of("r"), *twice)
    assert frame["lineage"].to_list() == ["r:c.cc"]
    assert summary.repeated == 1


def test_no_text_of_val_stands_in_train(tmp_path):
    copies = [document("s", f"f{i}.cc", f"text {i}") for i in range(0, 40, 2)]
    forks = [document("s", f"g{i}.cc", f"x {i}", blob=f"blob of text {i}") for i in range(1, 40, 2)]
    everything = [*FILES, *copies, *forks]
    frame, _ = select_from(tmp_path, corpus_of("r", "s"), *everything)
    kept = frame.filter("keep")
    blobs: dict[str, set[str]] = {"train": set(), "val": set()}
    by_key = {(each.lineage.split(":")[0], each.document_id): each for each in everything}
    for repository, document_id, split in kept.select(
        "repository", "document_id", "split"
    ).iter_rows():
        found = by_key[repository, document_id].provenance
        blobs[split] |= {each.blob for each in found}
    assert blobs["train"]
    assert blobs["val"]
    assert not blobs["train"] & blobs["val"]


def test_every_repository_of_a_large_corpus_is_on_both_sides(tmp_path):
    names = [f"r{i:02}" for i in range(24)]
    own = [document(name, f"{i}.cc", f"{name} {i}") for name in names for i in range(4)]
    shared = [document(name, "shared.cc", f"shared in {name}", blob="shared") for name in names]
    frame, summary = select_from(tmp_path, corpus_of(*names), *own, *shared)
    alone = frame.filter(~pl.col("lineage").str.ends_with("shared.cc"))
    by_repository = alone.group_by("repository").agg(pl.col("split").n_unique())
    assert by_repository["split"].to_list() == [2] * len(names)
    copies = frame.filter(pl.col("lineage").str.ends_with("shared.cc"))
    assert copies["split"].n_unique() == 1
    assert summary.rejected == ()


def test_a_small_corpus_gives_each_family_its_lowest_hash(tmp_path):
    few = [document("r", f"f{i}.cc", f"text {i}") for i in range(3)]
    diffs = [document("r", f"f{i}.cc", f"d {i}", family="v3_simple") for i in range(2)]
    frame, summary = select_from(tmp_path, corpus_of("r", val_fraction=1e-9), *few, *diffs)
    assert {family for family, _ in summary.joined} <= {"v2_simple", "v3_simple"}
    for family in ("v2_simple", "v3_simple"):
        assert set(frame.filter(family=family)["split"]) == {"train", "val"}
    assert len({frozenset(each) for each in splits_by_lineage(frame).items()}) == 3
    assert summary.families_without_val == ()


def test_a_family_of_one_file_has_no_val_and_says_so(tmp_path):
    frame, summary = select_from(tmp_path, corpus_of("r"), document("r", "f0.cc", "text"))
    assert frame["split"].to_list() == ["train"]
    assert summary.families_without_val == ("v2_simple",)


def test_only_what_decides_a_selection_is_an_ingredient():
    assert ingredients(corpus_of("a", "b")) == {"repositories": ["a", "b"], "val_fraction": 0.3}


def test_documents_of_a_repository_outside_the_corpus_are_a_mistake_of_the_caller(tmp_path):
    with pytest.raises(AssertionError, match="not in the corpus"):
        select_from(tmp_path, corpus_of("other"), FILES[0])


def context(path: str, text: str, *around: str) -> Document:
    """A document of a graph, in whose context other files stand."""
    target = document("r", path, text, family="v4_context_graph")
    other = tuple(
        factories.provenance(commit="c", path=name, blob=f"blob of {name}") for name in around
    )
    return replace(target, provenance=(*target.provenance, *other))


def known_sides(folder: Path) -> dict[str, str]:
    return splits_by_lineage(pl.read_parquet(folder / SIDES_NAME))


def known_files(folder: Path) -> KnownFiles:
    """Return the decisions of the selection `files` in a folder."""
    versions = DocumentFolder(repository="r", path=folder / "documents-files-r-v2_simple")
    decided = folder / "files"
    return KnownFiles(
        sides=decided / SIDES_NAME,
        left_out=decided / LEFT_OUT_FILES_NAME,
        versions=[versions],
    )


def test_documents_of_graphs_are_selected_on_the_sides_that_are_known(tmp_path):
    corpus = corpus_of("r")
    select_from(tmp_path, corpus, *FILES, name="files")
    before = known_sides(tmp_path / "files")
    graphs = [context(f"f{i}.cc", f"graph {i}", f"f{39 - i}.cc") for i in range(40)]
    known = known_files(tmp_path)
    frame, summary = select_from(tmp_path, corpus, *graphs, name="graphs", known=known)
    assert splits_by_lineage(frame) == before == known_sides(tmp_path / "graphs")
    assert summary.joined == ()
    assert set(before.values()) == {"train", "val"}


def test_files_that_stand_only_in_a_context_get_a_side_of_their_own(tmp_path):
    corpus = corpus_of("r")
    select_from(tmp_path, corpus, *FILES, name="files")
    known = known_files(tmp_path)
    around = [f"only{i}.h" for i in range(40)]
    select_from(tmp_path, corpus, context("f0.cc", "graph", *around), name="graphs", known=known)
    found = known_sides(tmp_path / "graphs")
    assert len(found) == 80
    assert all(
        found[f"r:{name}"] == ("val" if hash_fraction(f"r:{name}") < 0.3 else "train")
        for name in around
    )


def test_a_copy_that_stands_only_in_a_context_is_on_the_side_of_the_file_that_it_equals(tmp_path):
    corpus = corpus_of("r")
    select_from(tmp_path, corpus, *FILES, name="files")
    before = known_sides(tmp_path / "files")
    graphs = []
    for number, (name, _) in enumerate(before.items()):
        path = name.removeprefix("r:")
        graph = context(path, f"graph {path}", f"copy{number}.cc")
        own, copy = graph.provenance
        graphs.append(replace(graph, provenance=(own, replace(copy, blob=own.blob))))
    known = known_files(tmp_path)
    select_from(tmp_path, corpus, *graphs, name="graphs", known=known)
    found = known_sides(tmp_path / "graphs")
    assert all(found[f"r:copy{at}.cc"] == side for at, side in enumerate(before.values()))


def with_function(commit: str, each: Document) -> Document:
    body = Span(kind="body", start=0, end=1)
    return replace(each, spans=(body,), provenance=(replace(each.provenance[0], commit=commit),))


def test_val_holds_its_share_of_the_commits_whole(tmp_path):
    together = [with_function("both", document("r", f"t{i}.cc", f"text {i}")) for i in range(30)]
    alone = [with_function(f"own {i}", document("r", f"z{i}.cc", f"alone {i}")) for i in range(9)]
    assert all(hash_fraction(each.lineage) > 0.05 for each in alone)
    frame, summary = select_from(tmp_path, corpus_of("r", val_fraction=0.1), *together, *alone)
    held = frame.filter(split="val")["lineage"].unique()
    assert len([name for name in held if name.startswith("r:t")]) >= 3
    lowest = min((each.lineage for each in alone), key=hash_fraction)
    assert [name for name in held if name.startswith("r:z")] == [lowest]
    assert summary.joined == ((GRAPHS, lowest),)


def test_files_without_functions_are_not_held_out_for_graphs(tmp_path):
    plain = [document("r", f"h{i}.h", f"text {i}") for i in range(3)]
    bare = [
        replace(each, provenance=(replace(each.provenance[0], commit=each.text),)) for each in plain
    ]
    _, summary = select_from(tmp_path, corpus_of("r", val_fraction=1e-9), *bare)
    assert GRAPHS not in {family for family, _ in summary.joined}


LICENSED = {"a.cc": "MIT", "b.cc": "GPL-3.0-only", "c.cc": None, "d.cc": "MIT OR GPL-3.0-only"}


def licensed(path: str, licence: str | None, *, text: str = "", time: int = 0) -> Document:
    made = document("one", path, text or f"int {path[0]};\n", time=time)
    return replace(made, provenance=(replace(made.provenance[0], licence=licence),))


@pytest.mark.parametrize(
    ("licences", "rejected"),
    [
        (LicencesSpec(), {}),
        (LicencesSpec(refuse=("GPL-*",)), {"one:b.cc": "GPL-3.0-only"}),
        (LicencesSpec(allow=("MIT",)), {"one:b.cc": "GPL-3.0-only"}),
        (LicencesSpec(purpose="release"), {"one:c.cc": "unknown"}),
        (
            LicencesSpec(purpose="release", allow=("GPL-3.0-only",)),
            {"one:a.cc": "MIT", "one:c.cc": "unknown"},
        ),
    ],
)
def test_a_document_whose_licence_is_refused_is_left_out(tmp_path, licences, rejected):
    own = [licensed(path, licence) for path, licence in LICENSED.items()]
    corpus = corpus_of("one").model_copy(update={"licences": licences})
    kept, summary = select_from(tmp_path, corpus, *own)
    assert dict(summary.rejected) == ({"licence": len(rejected)} if rejected else {})
    dropped = kept.filter(~pl.col("keep"))
    assert dict(dropped.select("lineage", "evidence").iter_rows()) == rejected
    assert set(dropped["reason"]) == ({"licence"} if rejected else set())


def test_of_one_text_the_oldest_whose_licence_is_taken_is_kept(tmp_path):
    old = licensed("old.cc", "GPL-3.0-only", text="int a;\n")
    new = licensed("new.cc", "MIT", text="int a;\n", time=1)
    new = replace(new, text="// new\nint a;\n", parts=(replace(new.parts[0], start=7, end=14),))
    corpus = corpus_of("one").model_copy(update={"licences": LicencesSpec(refuse=("GPL-3.0-*",))})
    kept = select_from(tmp_path, corpus, old, new)[0].filter("keep")
    assert kept["lineage"].to_list() == ["one:new.cc"]


def test_context_under_a_refused_licence_leaves_its_target_in(tmp_path):
    made = document("one", "a.cc", "int a;\nint b;\n", family="v4_context_graph")
    near = factories.provenance(repository="one", path="b.h", licence="GPL-3.0-only")
    own = replace(made.provenance[0], licence="MIT")
    for context, kept in (((near, own), True), ((own, near), False)):
        parts = (
            Part(kind="context", start=0, end=7, source=0),
            Part(kind="target", start=7, end=14, source=1),
        )
        target = replace(made, parts=parts, provenance=context)
        corpus = corpus_of("one").model_copy(update={"licences": LicencesSpec(refuse=("GPL-*",))})
        frame, _ = select_from(tmp_path, corpus, target, name=str(kept))
        assert frame["keep"].to_list() == [kept]
