from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.corpus.document_folders import DocumentFolder
from curriculum.corpus.domains import NO_RULE, LabelledDocuments, label_domains
from curriculum.corpus.select import KEPT_NAME, SELECTION_NAME, SIDES_NAME
from schemas.corpus import DomainRule, DomainsSpec
from schemas.document import (
    DOCUMENT_SCHEMA,
    KEPT_SCHEMA,
    SELECTION_SCHEMA,
    Document,
    Part,
    PartKind,
    Provenance,
)
from tests import factories

SPEC = DomainsSpec(
    features={"loops": r"\bfor\b", "news": r"\bnew\b"},
    rules=(
        DomainRule(domain="tests", rule="path", when="path ~ '_test'"),
        DomainRule(domain="busy", rule="loops", when="loops > 2"),
        DomainRule(domain="owners", rule="news", when="news > 2"),
    ),
)
LOOP, NEW, PLAIN = "for (;;) {}\n", "auto p = new int;\n", "int x = 1;\n"


def source(path: str, lineage: str | None = None, repository: str = "r") -> Provenance:
    return factories.provenance(
        repository=repository,
        commit="c",
        path=path,
        blob="b",
        lineage=f"{repository}:{lineage or path}",
    )


def document(
    *texts: tuple[PartKind, str],
    path: str = "a.cc",
    lineage: str | None = None,
    language: str = "cpp",
    family: str = "v2_simple",
    context: tuple[Provenance, ...] = (),
) -> Document:
    """Parts one after another; code and targets come from `path`, context from elsewhere."""
    sources = (*context, source(path, lineage))
    parts, at = [], 0
    for kind, text in texts:
        cited = {"code": len(context), "target": len(context), "context": 0}.get(kind, -1)
        end = at + len(text.encode())
        parts.append(Part(kind=kind, start=at, end=end, source=cited))
        at = end
    return factories.document(
        "".join(text for _, text in texts),
        family=family,
        language=language,
        parts=tuple(parts),
        provenance=sources,
        lineage=sources[-1].lineage,
    )


def file(text: str, path: str = "a.cc", language: str = "cpp") -> Document:
    return document(("header", f"// File: {path}\n"), ("code", text), path=path, language=language)


def row(each: Document) -> dict[str, object]:
    values = {name: getattr(each, name) for name in ("text", "family", "language", "licence")}
    return {
        **values,
        "document_id": each.document_id,
        "content_id": each.content_id,
        "num_bytes": len(each.text.encode()),
        "timestamp": each.timestamp,
        "parts": [{name: getattr(part, name) for name in Part.__slots__} for part in each.parts],
        "spans": [],
        "provenance": [
            {name: getattr(one, name) for name in Provenance.__slots__} for one in each.provenance
        ],
        "lineage": each.lineage,
        "chunks": [],
        "edges": [],
        "base_document_id": None,
    }


def decided(
    folder: Path, *documents: Document, spec: DomainsSpec = SPEC, dropped: str = ""
) -> tuple[dict[str, tuple[str, str]], LabelledDocuments]:
    """(domain, rule) by document id, and what was counted; `dropped` is an id that isn't kept."""
    given_ = folder / "documents"
    kept, target = folder / "kept", folder / "selection"
    for each in (given_, kept, target):
        each.mkdir(parents=True)
    rows = [row(each) for each in documents]
    pq.write_table(pa.Table.from_pylist(rows, DOCUMENT_SCHEMA), factories.shard_path(given_))
    choices = {
        each.document_id: {
            "document_id": each.document_id,
            "family": each.family,
            "repository": "r",
            "keep": each.document_id != dropped,
            "lineage": each.lineage,
            "split": "train",
        }
        for each in documents
    }
    table = pa.Table.from_pylist([choices[name] for name in sorted(choices)], KEPT_SCHEMA)
    pq.write_table(table, kept / KEPT_NAME)
    (kept / SIDES_NAME).write_bytes(b"sides")
    found = label_domains([DocumentFolder(repository="r", path=given_)], kept, spec, target)
    frame = pl.read_parquet(target / SELECTION_NAME)
    assert pq.read_schema(target / SELECTION_NAME).equals(SELECTION_SCHEMA, check_metadata=True)
    assert (target / SIDES_NAME).read_bytes() == b"sides"
    names = frame.select("document_id", "domain", "domain_rule").iter_rows()
    return {each: (domain, rule) for each, domain, rule in names}, found


def domain_of(folder: Path, each: Document, spec: DomainsSpec = SPEC) -> str:
    return decided(folder, each, spec=spec)[0][each.document_id][0]


def test_the_first_rule_that_holds_decides(tmp_path):
    both = file(LOOP * 3 + NEW * 3)
    assert domain_of(tmp_path / "a", both) == "busy"
    turned = replace_rules(SPEC, tuple(reversed(SPEC.rules)))
    assert domain_of(tmp_path / "b", both, turned) == "owners"


def replace_rules(spec: DomainsSpec, rules: tuple[DomainRule, ...]) -> DomainsSpec:
    return DomainsSpec(features=spec.features, rules=rules)


def test_the_rule_that_decided_is_kept_with_the_document(tmp_path):
    tested, plain = file(LOOP, path="a_test.cc"), file(PLAIN, path="b.cc")
    found, _ = decided(tmp_path, tested, plain)
    assert found[tested.document_id] == ("tests", "path")
    assert found[plain.document_id] == ("general", NO_RULE)


def test_features_are_matches_per_thousand_bytes_of_code(tmp_path):
    rule = DomainRule(domain="exact", rule="r", when="loops = 20 AND num_bytes = 100")
    spec = DomainsSpec(features={"loops": "for"}, rules=(rule,))
    assert domain_of(tmp_path / "a", file("for for " + " " * 92), spec) == "exact"
    assert domain_of(tmp_path / "b", file("for for " + " " * 93), spec) == "general"


def test_a_header_is_no_code(tmp_path):
    loud = document(("header", "// for " * 20 + "\n"), ("code", PLAIN))
    assert domain_of(tmp_path, loud) == "general"


def test_a_change_is_judged_by_the_whole_file_as_it_became(tmp_path):
    change: tuple[tuple[PartKind, str], ...] = (
        ("header", "// h\n"),
        ("changes", f"// - {LOOP}{NEW * 9}"),
        ("header", "// === FULL FILE ===\n"),
        ("code", LOOP * 5),
    )
    edited = document(*change, family="v3_simple")
    assert domain_of(tmp_path / "a", edited) == domain_of(tmp_path / "b", file(LOOP * 5)) == "busy"


def test_a_deleted_file_is_judged_by_what_was_taken_away(tmp_path):
    gone = document(("header", "// h\n"), ("changes", f"// - {LOOP}" * 5), family="v3_simple")
    found, counted = decided(tmp_path, gone)
    assert found[gone.document_id][0] == "busy"
    assert counted.sizes["code_bytes"].sum() == counted.sizes["comment_bytes"].sum() == 0


def test_of_a_context_document_only_the_target_counts(tmp_path):
    far = source("far_test.cc")
    context: tuple[PartKind, str] = ("context", LOOP * 50)
    around = document(
        ("header", "// h\n"),
        context,
        ("target", NEW * 5),
        family="v4_context_graph",
        context=(far,),
    )
    assert domain_of(tmp_path, around) == "owners"


def test_the_path_is_that_of_the_documents_lineage_at_its_commit(tmp_path):
    moved = document(
        ("target", PLAIN),
        path="tests/a_test.cc",
        lineage="a.cc",
        family="v4_context_graph",
        context=(source("b.cc"), source("c.cc")),
    )
    assert domain_of(tmp_path, moved) == "tests"


def test_only_what_is_kept_is_counted(tmp_path):
    busy, plain = file(LOOP * 5), file(PLAIN, path="b.cc")
    found, counted = decided(tmp_path, busy, plain, dropped=busy.document_id)
    assert found[busy.document_id][0] == "busy"
    assert counted.sizes["domain"].to_list() == ["general"]


@pytest.mark.parametrize(
    ("language", "code", "comments"),
    [
        ("cpp", "// a\nint x; // b\n", "// a// b"),
        ("c", "/* a\n * b\n */ int x;\n/**/", "/* a\n * b\n *//**/"),
        ("cpp", 'auto s = "http://x";\n', ""),
        ("cpp", 'auto s = "a\\"//"; // b\n', "// b"),
        ("cpp", "auto c = '\"'; // b\n", "// b"),
        ("cpp", "// don't\nint x; // can't\n", "// don't// can't"),
        ("cpp", "int y = 1'000'000; // n\n", "// n"),
        ("cpp", "# define X 1\n", ""),
        ("cmake", '# a\nset(x "# no") # b\n', "# a# b"),
        ("cpp", "// ünï\n", "// ünï"),
    ],
)
def test_comments_are_counted_by_bytes(tmp_path, language, code, comments):
    _, counted = decided(tmp_path, file(code, language=language))
    assert counted.sizes["comment_bytes"].to_list() == [len(comments.encode())]
    assert counted.sizes["code_bytes"].to_list() == [len(code.encode())]


def test_rules_that_tell_nothing_apart_are_warned_of_with_counts(tmp_path):
    rules = (
        *SPEC.rules[:1],
        DomainRule(domain="all", rule="everything", when="num_bytes > 0"),
        DomainRule(domain="busy", rule="too late", when="loops > 2"),
    )
    documents = [file(LOOP * 5), file(PLAIN, path="b.cc"), file(NEW, path="c.cc")]
    _, counted = decided(tmp_path, *documents, spec=replace_rules(SPEC, rules))
    assert list(counted.warnings()) == [
        "rules of domains that hold for none of 3 documents: path (tests, 0)",
        "rules of domains that hold for all 3 documents: everything (all, 3)",
        "rules of domains that hold where rules before them decide: too late (busy, 1)",
    ]


def test_the_report_has_sizes_by_domain_and_repository(tmp_path):
    documents = [file(LOOP * 5), file("// c\n" * 5, path="b.cc"), file(PLAIN, path="c.cc")]
    _, counted = decided(tmp_path, *documents)
    report = counted.report()
    domains = report.domains
    assert {name: size.documents for name, size in domains.items()} == {"busy": 1, "general": 2}
    assert sum(size.share for size in domains.values()) == pytest.approx(1, abs=1e-5)
    assert {name: size.dump() for name, size in report.repositories["r"].items()} == {
        name: {field: value for field, value in size.dump().items() if field != "share"}
        for name, size in domains.items()
    }


TEXTS = st.lists(st.sampled_from([LOOP, NEW, PLAIN, "// für ünï\n"]), min_size=1, max_size=12)
LANGUAGES = {"a.cc": "cpp", "b_test.cc": "cpp", "c/d.h": "c"}
PATHS = st.sampled_from(sorted(LANGUAGES))
WHENS = st.sampled_from(
    [
        "path ~ '_test'",
        "loops > 20",
        "news > 20",
        "num_bytes > 80",
        "language = 'c'",
        "1 = 1",
        "1 = 0",
    ]
)


@settings(max_examples=15, deadline=None)
@given(
    files=st.lists(st.tuples(TEXTS, PATHS), min_size=1, max_size=6),
    whens=st.lists(WHENS, min_size=1, max_size=5),
)
def test_each_document_has_exactly_the_domain_of_its_first_rule(tmp_path_factory, files, whens):
    documents = [file("".join(text), path=path, language=LANGUAGES[path]) for text, path in files]
    rules = tuple(
        DomainRule(domain=f"d{at}", rule=f"r{at}", when=when) for at, when in enumerate(whens)
    )
    folder = tmp_path_factory.mktemp("decide")
    found, counted = decided(folder, *documents, spec=replace_rules(SPEC, rules))
    assert found.keys() == {each.document_id for each in documents}
    assert counted.sizes["documents"].sum() == len(found)
    assert counted.rules["decides"].sum() <= len(found)
    # The same text of another file is the same document, judged at its first lineage.
    first = {
        each.document_id: each
        for each in sorted(documents, key=lambda one: one.lineage, reverse=True)
    }
    for name, each in first.items():
        code = each.text.partition("\n")[2]
        size = len(code.encode())
        values = {
            "path ~ '_test'": "_test" in each.lineage,
            "loops > 20": code.count("for ") * 1000 / size > 20,
            "news > 20": code.count("new ") * 1000 / size > 20,
            "num_bytes > 80": size > 80,
            "language = 'c'": each.language == "c",
            "1 = 1": True,
            "1 = 0": False,
        }
        expected = next((f"d{at}" for at, when in enumerate(whens) if values[when]), "general")
        assert found[name][0] == expected


def test_a_document_of_two_files_is_judged_at_the_first(tmp_path):
    early = document(("code", PLAIN), path="a.cc")
    late = replace(early, provenance=(source("z_test.cc"),), lineage="r:z_test.cc", timestamp=9)
    assert early.document_id == late.document_id
    found, _ = decided(tmp_path, late, early)
    assert found == {early.document_id: ("general", NO_RULE)}
