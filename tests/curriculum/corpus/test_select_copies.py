"""Near copies in a selection: which file of a cluster is kept, and what becomes of the others' documents."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.file_histories import FileHistories
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME, OtherCorpus
from curriculum.corpus.select import (
    KEPT_NAME,
    SIDES_NAME,
    KnownFiles,
    SelectionSummary,
    select,
)
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import DOCUMENT_SCHEMA, LEFT_OUT_FILES_SCHEMA, Document, Part, PartKind
from tests import factories


def text_of(name: object, *, size: int = 200, changed: int = 0) -> str:
    """Lines of a file's own; the last `changed` differ from those of another value."""
    lines = [f"int {name}_{at}() {{ return {at}; }}" for at in range(size)]
    return "\n".join(
        lines[: size - changed] + [f"{line} // {changed}" for line in lines[size - changed :]]
    )


def version(
    lineage: str, text: str, *, time: int = 0, family: str = "v2_simple", blob: str = ""
) -> Document:
    repository, _, path = lineage.partition(":")
    source = factories.provenance(
        repository=repository, path=path, blob=blob or f"blob of {text}", end=len(text)
    )
    return factories.document(
        text,
        family=family,
        timestamp=time,
        parts=(Part(kind="code", start=0, end=len(text), source=0),),
        provenance=(source,),
        lineage=lineage,
    )


def row(document: Document) -> dict[str, object]:
    return {
        name: getattr(document, name)
        for name in ("document_id", "content_id", "family", "language", "licence", "timestamp")
    } | {
        "text": document.text,
        "num_bytes": len(document.text.encode()),
        "lineage": document.lineage,
        "base_document_id": None,
        **{
            name: [
                {key: getattr(value, key) for key in value.__dataclass_fields__}
                for value in getattr(document, name)
            ]
            for name in ("parts", "spans", "provenance", "chunks", "edges", "left_out")
        },
    }


def folder_of(
    folder: Path,
    *documents: Document,
    births: Mapping[str, int] | None = None,
    versions: Mapping[str, tuple[int, str]] = MappingProxyType({}),
) -> Path:
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist([row(one) for one in documents], schema=DOCUMENT_SCHEMA)
    pq.write_table(table, factories.shard_path(folder))
    if births is not None:
        histories = FileHistories()
        for lineage, time in births.items():
            histories.add(lineage, time, "")
            histories.want(lineage)
        for lineage, (time, blob) in versions.items():
            histories.add(lineage, time, blob)
        histories.write(folder)
    return folder


def selected(
    folder: Path,
    *documents: Document,
    births: dict[str, int] | None = None,
    versions: Mapping[str, tuple[int, str]] = MappingProxyType({}),
    others: tuple[OtherCorpus, ...] = (),
) -> tuple[pl.DataFrame, SelectionSummary]:
    """The selection of files; repositories in the order in which the documents name them."""
    names = dict.fromkeys(each.provenance[0].repository for each in documents)
    given = []
    for name in names:
        own = [each for each in documents if each.provenance[0].repository == name]
        born = {key: at for key, at in (births or {}).items() if key.startswith(f"{name}:")}
        older = {key: at for key, at in versions.items() if key.startswith(f"{name}:")}
        path = folder_of(folder / "documents" / name, *own, births=born, versions=older)
        given.append(DocumentFolder(repository=name, path=path))
    (folder / "kept").mkdir()
    summary = select(given, corpus_of(*names), folder / "kept", others=others)
    return pl.read_parquet(folder / "kept" / KEPT_NAME), summary


def corpus_of(*names: str) -> CorpusSpec:
    pins = tuple(RepositorySpec(name=name, path="/x") for name in names)
    return CorpusSpec(name="c", repositories=pins, val_fraction=0.3)


def fates(frame: pl.DataFrame) -> dict[str, tuple[str | None, str | None]]:
    columns = frame.select("lineage", "reason", "evidence")
    return {lineage: (reason, evidence) for lineage, reason, evidence in columns.iter_rows()}


COPIED, EDITED = text_of("a"), text_of("a", changed=10)
OTHER = version("own:other.cc", text_of("other"))


def test_a_near_copy_in_another_repository_is_left_out_with_all_its_documents(tmp_path):
    copy = version("copy:third/a.cc", EDITED, time=5)
    diff = version("copy:third/a.cc", "a diff", time=5, family="v2_simple")
    frame, summary = selected(tmp_path, OTHER, version("own:a.cc", COPIED, time=1), copy, diff)
    assert fates(frame) == {
        "own:other.cc": (None, None),
        "own:a.cc": (None, None),
        "copy:third/a.cc": ("near_duplicate", "own:a.cc"),
    }
    assert summary.rejected == (("near_duplicate", 2),)


def test_the_repository_whose_history_has_the_text_first_is_upstream(tmp_path):
    """Its versions that are read are newer here, and the corpus names it last."""
    frame, _ = selected(
        tmp_path,
        version("user:bundled/a.cc", EDITED, time=5),
        version("library:a.cc", COPIED, time=9),
        births={"user:bundled/a.cc": 3, "library:a.cc": 2},
    )
    assert fates(frame)["user:bundled/a.cc"] == ("near_duplicate", "library:a.cc")
    assert fates(frame)["library:a.cc"] == (None, None)


def test_a_folder_without_history_is_never_upstream_of_one_that_has_some(tmp_path):
    frame, _ = selected(
        tmp_path,
        version("folder:a.cc", EDITED, time=0),
        version("library:a.cc", COPIED, time=9),
        births={"library:a.cc": 9},
    )
    assert fates(frame)["folder:a.cc"] == ("near_duplicate", "library:a.cc")


@pytest.mark.parametrize(("text", "is_left_out"), [(text_of("old"), True), ("int a;", False)])
def test_a_copy_of_a_version_that_is_not_read_is_found_by_its_blob(tmp_path, text, is_left_out):
    blob = "0123456789abcdef" * 2
    frame, _ = selected(
        tmp_path,
        version("user:bundled/a.cc", text, time=5, blob=blob),
        version("library:a.cc", text_of("new"), time=9),
        births={"user:bundled/a.cc": 3, "library:a.cc": 2},
        versions={"library:a.cc": (8, blob)},
    )
    fate = ("near_duplicate", "library:a.cc") if is_left_out else (None, None)
    assert fates(frame)["user:bundled/a.cc"] == fate
    assert fates(frame)["library:a.cc"] == (None, None)


def test_an_old_file_that_became_a_copy_is_not_upstream(tmp_path):
    blob = "0123456789abcdef" * 2
    frame, _ = selected(
        tmp_path,
        version("user:a.cc", text_of("old"), time=5, blob=blob),
        version("library:a.cc", text_of("new"), time=9),
        births={"user:a.cc": 1, "library:a.cc": 2},
        versions={"user:a.cc": (5, blob), "library:a.cc": (4, blob)},
    )
    assert fates(frame)["user:a.cc"] == ("near_duplicate", "library:a.cc")
    assert fates(frame)["library:a.cc"] == (None, None)


def library(year: str, *, size: int) -> str:
    """A version of a library: half of its text is that year's."""
    return f"{text_of('lib', size=size)}\n{text_of(year, size=size // 2)}"


@pytest.mark.parametrize(("size", "is_left_out"), [(1_000, True), (500, False)])
def test_two_versions_of_a_large_library_are_copies_that_are_kept_once(tmp_path, size, is_left_out):
    frame, _ = selected(
        tmp_path,
        version("one:src/all.hpp", library("early", size=size), time=1),
        version("two:code/b.hpp", library("late", size=size), time=5),
        OTHER,
    )
    fate = ("near_duplicate", "one:src/all.hpp") if is_left_out else (None, None)
    assert fates(frame)["two:code/b.hpp"] == fate
    assert fates(frame)["one:src/all.hpp"] == (None, None)


def test_two_versions_of_a_large_library_stay_in_one_repository(tmp_path):
    frame, _ = selected(
        tmp_path,
        version("one:v1/all.hpp", library("early", size=1_000), time=1),
        version("one:v2/all.hpp", library("late", size=1_000), time=5),
    )
    assert frame["keep"].all()


def test_another_version_of_a_large_library_in_another_corpus_is_left_out(tmp_path):
    selected(tmp_path / "big", version("lib:a.hpp", library("early", size=1_000)), OTHER)
    others = (OtherCorpus(name="big", selection=tmp_path / "big" / "kept"),)
    late = version("two:b.hpp", library("late", size=1_000))
    frame, _ = selected(tmp_path / "small", late, others=others)
    assert fates(frame) == {"two:b.hpp": ("other_corpus", "big lib:a.hpp")}


def test_an_old_version_of_a_file_is_found_too(tmp_path):
    rewritten = version("copy:a.cc", text_of("rewritten"), time=9)
    frame, _ = selected(
        tmp_path, version("own:a.cc", COPIED), version("copy:a.cc", EDITED, time=1), rewritten
    )
    assert set(frame.filter(lineage="copy:a.cc")["reason"]) == {"near_duplicate"}


@pytest.mark.parametrize(("changed", "is_kept"), [(10, False), (30, True)])
def test_within_a_repository_only_files_that_are_nearly_equal_are_left_out(
    tmp_path, changed, is_kept
):
    second = version("own:b.cc", text_of("a", size=200 + changed), time=3)
    frame, _ = selected(tmp_path, version("own:a.cc", COPIED, time=1), second)
    assert (fates(frame)["own:b.cc"][0] is None) is is_kept
    assert fates(frame)["own:a.cc"] == (None, None)


def test_the_upstream_keeps_files_that_only_a_copy_elsewhere_joins(tmp_path):
    """The copy is near both; they are less alike than files of one repository must be."""
    first, second = text_of("a", size=200), text_of("a", size=250)
    frame, _ = selected(
        tmp_path,
        version("own:a.cc", first, time=1),
        version("own:b.cc", second, time=1),
        version("copy:a.cc", text_of("a", size=225), time=5),
    )
    assert [fates(frame)[f"own:{name}.cc"][0] for name in "ab"] == [None, None]
    assert fates(frame)["copy:a.cc"] == ("near_duplicate", "own:a.cc")


def test_a_cluster_lies_on_one_side(tmp_path):
    documents = [version(f"own:f{at}.cc", text_of(f"f{at}")) for at in range(30)]
    copies = [version(f"copy:z{at}.cc", text_of(f"f{at}", changed=5)) for at in range(30)]
    frame, _ = selected(tmp_path, *documents, *copies)
    side = dict(frame.select("lineage", "split").iter_rows())
    assert all(side[f"own:f{at}.cc"] == side[f"copy:z{at}.cc"] for at in range(30))
    assert set(side.values()) == {"train", "val"}


def test_a_cluster_of_everything_keeps_one_file_and_is_named(tmp_path):
    documents = [version(f"own:f{at:02}.cc", f"{COPIED}\n// {at}", time=at) for at in range(60)]
    frame, summary = selected(tmp_path, *documents)
    assert frame.filter("keep")["lineage"].to_list() == ["own:f00.cc"]
    (cluster,) = summary.copy_clusters
    assert (cluster.lineages, cluster.share) == (60, 1.0)
    assert cluster.similarity >= 0.9
    assert {cluster.first, cluster.second} <= set(frame["lineage"])
    assert summary.report().copy_clusters == (cluster,)


@pytest.mark.parametrize("text", ["", "int a;", "// only a comment\n"])
def test_texts_without_shingles_are_no_copies(tmp_path, text):
    frame, _ = selected(
        tmp_path, version("own:a.cc", text), version("copy:b.cc", f"{text} "), OTHER
    )
    assert "near_duplicate" not in set(frame["reason"])
    assert pq.read_schema(tmp_path / "kept" / LEFT_OUT_FILES_NAME).equals(
        LEFT_OUT_FILES_SCHEMA, check_metadata=True
    )


def test_a_repository_with_one_file_keeps_it(tmp_path):
    frame, summary = selected(tmp_path, OTHER)
    assert frame["keep"].to_list() == [True]
    assert summary.copy_clusters == ()


def test_what_another_corpus_has_is_left_out_and_what_is_a_copy_of_it_too(tmp_path):
    selected(tmp_path / "big", version("lib:a.cc", COPIED), version("lib:b.cc", text_of("b")))
    frame, summary = selected(
        tmp_path / "small",
        version("own:a.cc", EDITED),
        OTHER,
        others=(OtherCorpus(name="big", selection=tmp_path / "big" / "kept"),),
    )
    assert fates(frame) == {
        "own:a.cc": ("other_corpus", "big lib:a.cc"),
        "own:other.cc": (None, None),
    }
    assert summary.rejected == (("other_corpus", 1),)


def graph(target: str, context: str, *, text: str, kind: PartKind = "context") -> Document:
    """A document of a commit whose target is one file, with another as context or target."""
    made = version(target, text, family="v4_context_graph")
    own = made.provenance[0]
    parts = (
        Part(kind=kind, start=0, end=0, source=1),
        Part(kind="target", start=0, end=len(text), source=0),
    )
    return replace(made, parts=parts, provenance=(own, replace(own, lineage=context, blob=context)))


def test_a_commit_gives_no_target_from_a_file_that_is_left_out_and_may_show_it_as_context(tmp_path):
    selected(
        tmp_path,
        version("own:a.cc", COPIED, time=1),
        version("copy:a.cc", EDITED, time=2),
        version("copy:b.cc", text_of("b"), time=2),
    )
    documents = [
        graph("copy:a.cc", "copy:b.cc", text="the copy"),
        graph("copy:b.cc", "copy:a.cc", text="shows the copy"),
        graph("copy:b.cc", "copy:a.cc", text="changes both", kind="target"),
    ]
    folder = folder_of(tmp_path / "graphs", *documents)
    kept = tmp_path / "kept"
    known = KnownFiles(
        sides=kept / SIDES_NAME,
        left_out=kept / LEFT_OUT_FILES_NAME,
        versions=[DocumentFolder(repository="copy", path=tmp_path / "documents" / "copy")],
    )
    (tmp_path / "selection").mkdir()
    given = [DocumentFolder(repository="copy", path=folder)]
    select(given, corpus_of("own", "copy"), tmp_path / "selection", known=known)
    frame = pl.read_parquet(tmp_path / "selection" / KEPT_NAME)
    fate = dict(frame.select("document_id", "keep").iter_rows())
    assert [fate[document.document_id] for document in documents] == [False, True, False]
    assert set(frame["reason"].drop_nulls()) == {"near_duplicate"}
    assert set(frame["evidence"].drop_nulls()) == {"own:a.cc"}


def test_the_same_documents_give_the_same_bytes(tmp_path):
    documents = (OTHER, version("own:a.cc", COPIED), version("copy:a.cc", EDITED))
    selected(tmp_path / "one", *documents)
    selected(tmp_path / "two", *documents)
    shutil.rmtree(tmp_path / "one" / "documents")
    for file in (tmp_path / "one" / "kept").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / "kept" / file.name).read_bytes()
