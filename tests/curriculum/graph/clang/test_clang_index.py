"""Edges that are known by hand: of the sample repositories, and of small files that ask one question."""

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from curriculum.corpus.load import unpack_samples
from curriculum.graph.clang import GraphSnapshot, index_tree
from curriculum.graph.clang.graph_snapshot import IndexedClass, IndexedFunction, digest_of
from schemas.document import EdgeKind
from tests.curriculum.graph.clang.conftest import IndexFiles, whole, write_tree

pytestmark = pytest.mark.clang


def title(node: IndexedFunction | IndexedClass) -> str:
    """`lattice::norm(const Vec<T, N> &)`, `lattice::Vec`."""
    if isinstance(node, IndexedClass):
        return node.qualified
    return f"{node.qualified}({', '.join(node.parameters)})"


def says(snapshot: GraphSnapshot, source: str, kind: EdgeKind = "calls") -> dict[str, str]:
    """Return a definition's edges as labels by title, with the number of candidates if there are several."""
    nodes = snapshot.nodes
    assert source in {title(node) for node in nodes}
    return {
        title(nodes[edge.target]): edge.label
        + ("" if edge.candidates == 1 else f" {edge.candidates}")
        for edge in snapshot.edges
        if edge.kind == kind and title(nodes[edge.source]) == source
    }


def test_every_unit_of_the_samples_is_indexed(snapshots: Mapping[str, GraphSnapshot]) -> None:
    assert sorted(snapshots) == ["arena", "lattice", "ringlog"]
    for snapshot in snapshots.values():
        assert whole(snapshot.report)
        assert snapshot.report.problems == ()
    units = {name: snapshot.report.indexed for name, snapshot in snapshots.items()}
    assert units == {"arena": 23, "lattice": 14, "ringlog": 20}


def test_overloads_are_told_apart(snapshots: Mapping[str, GraphSnapshot]) -> None:
    lattice = snapshots["lattice"]
    assert says(lattice, "lattice::to_text(int)") == {"lattice::to_text(long long)": "resolved"}
    for number in ("long long", "double"):
        assert says(lattice, f"lattice::to_text({number})") == {
            "lattice::through_charconv(T)": "resolved"
        }
    evaluate = "lattice::expr::evaluate"
    assert says(lattice, f"{evaluate}(std::string_view)") == {
        "lattice::expr::parse(std::string_view)": "resolved",
        f"{evaluate}(const Node &)": "resolved",
    }
    assert says(lattice, f"{evaluate}(const Node &)") == {
        f"{evaluate}(const Node &, const Environment &)": "resolved"
    }


def test_calls_inside_lambdas_belong_to_the_function_around(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    evaluate = "lattice::expr::evaluate(const Node &, const Environment &)"
    compute = "lattice::expr::compute"
    assert says(snapshots["lattice"], evaluate) == {
        evaluate: "resolved",
        f"{compute}(char, double, double)": "resolved",
        f"{compute}(std::string_view, const std::vector<double> &)": "resolved",
    }


def test_same_names_in_two_namespaces_are_two_functions(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    lattice, arena = snapshots["lattice"], snapshots["arena"]
    approx = says(lattice, "lattice::approx::order(T, T)")
    assert approx["lattice::exact::order(T, T)"] == "dependent"
    assert "lattice::approx::equal(T, T, T)" in approx
    assert not any(name.startswith("lattice::exact::equal") for name in approx)
    node = says(lattice, "lattice::expr::to_text(const Node &)")
    assert node["lattice::to_text(double)"] == "resolved"
    assert node["lattice::expr::operand_text(const Node &, int)"] == "resolved"
    both = says(lattice, "Fixture_solve_determinants_agree::body()")
    assert both["lattice::determinant(const Matrix<T, N, N> &)"] == "resolved"
    assert both["lattice::dynamic::determinant(const SquareMatrix &)"] == "resolved"
    formats = says(arena, "arena::report::format(const Stats &)")
    assert formats["arena::units::format(std::size_t)"] == "resolved"


def test_recursion_is_an_edge_to_oneself_or_a_circle(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    lattice = snapshots["lattice"]
    depth = "lattice::expr::depth(const Node &)"
    assert says(lattice, depth) == {depth: "resolved"}
    determinant = "lattice::determinant(const Matrix<T, N, N> &)"
    assert determinant in says(lattice, determinant)
    steps = ["sum", "product", "unary", "atom", "name_or_call", "arguments", "sum"]
    parser = [f"lattice::expr::Parser::{step}()" for step in steps]
    for caller, callee in itertools.pairwise(parser):
        assert says(lattice, caller)[callee] == "resolved"
    text = "lattice::expr::to_text(const Node &)"
    operand = "lattice::expr::operand_text(const Node &, int)"
    assert says(lattice, text)[operand] == says(lattice, operand)[text] == "resolved"


def test_calls_that_a_template_decides_are_candidates(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    lattice = snapshots["lattice"]
    multiply = says(lattice, "lattice::multiply(const Vec<T, R> &, const Matrix<T, R, C> &)")
    assert multiply["lattice::transpose(const Matrix<T, R, C> &)"] == "dependent"
    assert multiply["lattice::multiply(const Matrix<T, R, C> &, const Vec<T, C> &)"] == (
        "dependent 3"
    )
    stages = says(lattice, "lattice::view::Stage::for_each(F)")
    drives = {
        f"lattice::view::{name}::drive(Sink &&)" for name in ("Source", "Map", "Filter", "Take")
    }
    assert drives <= stages.keys()
    assert {stages[drive] for drive in drives} == {"dependent 4"}
    assert says(lattice, "lattice::view::Stage::to_vector()") == {
        "lattice::view::Stage::for_each(F)": "dependent"
    }


def test_a_specialisation_stands_for_its_template(snapshots: Mapping[str, GraphSnapshot]) -> None:
    take = says(snapshots["arena"], "arena::BumpArena::take(std::size_t, std::size_t)")
    assert take == {"arena::align_up(void *, std::size_t)": "resolved"}
    pool = says(
        snapshots["arena"],
        "arena::PoolResource::PoolResource(std::size_t, std::size_t, MemoryResource &)",
    )
    assert pool["arena::align_up(std::size_t)"] == "resolved"
    aligned = {node.qualified: node for node in snapshots["arena"].functions if node.is_template}
    assert "arena::align_up" in aligned
    for other in ("arena::align_up(void *, std::size_t)", "arena::align_up(std::size_t)"):
        assert says(snapshots["arena"], other) == {
            "arena::align_up(std::size_t, std::size_t)": "resolved"
        }


def test_a_virtual_call_reaches_all_overriders(snapshots: Mapping[str, GraphSnapshot]) -> None:
    allocate = says(snapshots["arena"], "arena::MemoryResource::allocate(std::size_t, std::size_t)")
    resources = (
        *("MemoryResource", "HeapResource", "BumpArena", "PoolResource", "CountingResource"),
        *("LockedResource", "SizeClassResource", "TracingResource"),
    )
    expected = {f"arena::{name}::do_allocate(std::size_t, std::size_t)" for name in resources}
    assert expected == {name for name in allocate if "do_allocate" in name}
    assert {allocate[name] for name in expected} == {f"overridden {len(expected)}"}


def test_a_qualified_call_of_a_virtual_method_is_one_call(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    arena = snapshots["arena"]
    tracing = says(arena, "arena::TracingResource::do_allocate(std::size_t, std::size_t)")
    counting = "arena::CountingResource::do_allocate(std::size_t, std::size_t)"
    assert tracing[counting] == "resolved"
    assert not any("HeapResource" in name for name in tracing)
    assert says(arena, "arena::FileSink::flush()") == {"arena::BufferedSink::flush()": "resolved"}


def test_bases_and_overrides_are_those_of_the_classes(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    arena = snapshots["arena"]
    bases = {
        "arena::TracingResource": "arena::CountingResource",
        "arena::CountingResource": "arena::ChainedResource",
        "arena::ChainedResource": "arena::MemoryResource",
        "arena::FileSink": "arena::BufferedSink",
        "PieceSink": "arena::BufferedSink",
    }
    for derived, base in bases.items():
        assert says(arena, derived, "inherits") == {base: "resolved"}
    drain = "drain(std::string_view)"
    assert says(arena, f"PieceSink::{drain}", "overrides") == {
        f"arena::BufferedSink::{drain}": "resolved"
    }
    lattice = snapshots["lattice"]
    assert "lattice::view::Stage" in says(lattice, "lattice::view::Map", "inherits")
    put = "arena::Sink::put(std::string_view)"
    assert says(arena, put, "member") == {"arena::Sink": "resolved"}


def test_a_macro_that_looks_like_a_call_is_none_and_hides_none(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    arena = snapshots["arena"]
    names = {node.name for node in arena.functions}
    assert not {name for name in names if name.startswith(("ARENA_", "TEST", "CHECK"))}
    freed = "arena::PoolResource::do_deallocate(void *, std::size_t, std::size_t)"
    assert "arena::PoolResource::owns(const void *)" in says(arena, freed)
    allocate = says(arena, "arena::MemoryResource::allocate(std::size_t, std::size_t)")
    assert allocate["arena::is_power_of_two(std::size_t)"] == "resolved"
    made = [node for node in snapshots["lattice"].functions if node.is_macro]
    assert made
    assert {node.path.partition("/")[0] for node in made} == {"tests"}


def test_every_body_is_found_again_by_its_digest(
    snapshots: Mapping[str, GraphSnapshot], tmp_path: Path
) -> None:
    checked = 0
    for root in unpack_samples(tmp_path):
        for node in snapshots[root.name].functions:
            data = (root / node.path).read_bytes()
            if node.body is None:
                assert node.body_digest == node.digest == ""
                continue
            body = data[node.body.start : node.body.end]
            assert digest_of(body) == node.body_digest
            assert digest_of(data[node.name_start : node.body.end]) == node.digest
            if not node.is_macro:
                assert body.startswith((b"{", b"try"))
                assert body.endswith(b"}")
                word = node.name.split(" ")[0].split("[")[0].encode()[:8]
                assert data[node.name_start :].startswith(word)
            checked += 1
    assert checked > 400


def test_nothing_of_this_machine_stands_in_a_snapshot(
    snapshots: Mapping[str, GraphSnapshot],
) -> None:
    for snapshot in snapshots.values():
        for node in snapshot.nodes:
            assert not node.path.startswith(("/", ".."))
        for include in snapshot.includes:
            assert not include.source.startswith(("/", ".."))
            assert not include.target.startswith(("/", ".."))
        assert str(Path.home()) not in repr(snapshot)
        assert "/tmp" not in repr(snapshot)


@pytest.mark.system
def test_one_worker_makes_the_same_index_as_two(
    snapshots: Mapping[str, GraphSnapshot], tmp_path: Path
) -> None:
    (root,) = (each for each in unpack_samples(tmp_path / "samples") if each.name == "arena")
    out = tmp_path / "index"
    out.mkdir()
    index_tree(root, root / "compile_commands.json", out, original=root, workers=1)
    assert GraphSnapshot.open(out) == snapshots["arena"]


def test_includes_are_those_within_the_tree(snapshots: Mapping[str, GraphSnapshot]) -> None:
    included = {
        each.target for each in snapshots["lattice"].includes if each.source == "src/expr.cpp"
    }
    assert "include/lattice/expr.hpp" in included


def test_the_report_counts_what_there_is(snapshots: Mapping[str, GraphSnapshot]) -> None:
    for snapshot in snapshots.values():
        report = snapshot.report
        counts = Counter((edge.kind, edge.label) for edge in snapshot.edges)
        assert {(each.kind, each.label): each.edges for each in report.edges} == counts
        assert report.functions + report.declarations == len(snapshot.functions)
        assert report.classes == len(snapshot.classes)
        assert report.calls.inside > 100
        keys = [(edge.source, edge.target, edge.kind) for edge in snapshot.edges]
        assert keys == sorted(set(keys))


def test_constructors_count_where_they_are_written(index_files: IndexFiles) -> None:
    snapshot = index_files(
        {
            "a.cpp": "struct Q { Q(int); Q(int, int); Q(const Q&); };\n"
            "struct H { Q q; H() : q(1) {} };\n"
            "void take(Q);\n"
            "void implicit(Q q) { take(q); take(7); }\n"
            "void local() { Q q(1); }\n"
            "void braces() { take(Q{1, 2}); }\n"
            "Q* fresh() { return new Q(3); }\n"
        }
    )
    assert says(snapshot, "implicit(Q)") == {"take(Q)": "resolved"}
    assert says(snapshot, "implicit(Q)", "constructs") == {}
    for function in ("H::H()", "local()", "fresh()"):
        assert says(snapshot, function) == {"Q::Q(int)": "resolved"}
        assert says(snapshot, function, "constructs") == {"Q": "resolved"}
    assert says(snapshot, "braces()")["Q::Q(int, int)"] == "resolved"


def test_a_dependent_name_is_looked_up_in_the_class_that_is_known(
    index_files: IndexFiles,
) -> None:
    snapshot = index_files(
        {
            "a.cpp": "struct Other { int size() { return 1; } };\n"
            "template<class T> struct Base { int size() { return 2; } };\n"
            "template<class T> struct Derived : Base<T> {\n"
            "  int mine() { return this->size(); }\n"
            "};\n"
            "template<class T> int local() { Base<T> b; return b.size(); }\n"
            "template<class T> int any(T& t) { return t.size(); }\n"
            "template<class T> int more(T& t) { return t.size(1); }\n"
        }
    )
    assert says(snapshot, "Derived::mine()") == {"Base::size()": "dependent"}
    assert says(snapshot, "local()") == {"Base::size()": "dependent"}
    assert says(snapshot, "any(T &)") == {
        "Base::size()": "dependent 2",
        "Other::size()": "dependent 2",
    }
    assert says(snapshot, "more(T &)") == {}
    assert snapshot.report.calls.dependent == 4


def test_one_name_defined_twice_is_two_functions_and_the_near_one_is_called(
    index_files: IndexFiles,
) -> None:
    snapshot = index_files(
        {
            "include/a.h": "int helper();\n",
            "a.cpp": '#include "a.h"\nint helper() { return 1; }\nint main() { return helper(); }\n',
            "b.cpp": '#include "a.h"\nint helper() { return 2; }\nint main() { return helper(); }\n',
            "c.cpp": '#include "a.h"\nint far() { return helper(); }\n',
        }
    )
    helpers = [node for node in snapshot.functions if node.name == "helper"]
    assert [node.path for node in helpers] == ["a.cpp", "b.cpp"]
    pairs = {
        (snapshot.nodes[edge.source].path, snapshot.nodes[edge.target].path, edge.candidates)
        for edge in snapshot.edges
    }
    assert pairs == {
        ("a.cpp", "a.cpp", 1),
        ("b.cpp", "b.cpp", 1),
        ("c.cpp", "a.cpp", 2),
        ("c.cpp", "b.cpp", 2),
    }


def test_a_header_that_is_missing_costs_only_what_needs_it(index_files: IndexFiles) -> None:
    snapshot = index_files(
        {
            "a.cpp": '#include "generated.h"\nint one() { return 1; }\n'
            "int two() { return one(); }\nint three() { return absent(1); }\n"
        }
    )
    assert (snapshot.report.indexed, snapshot.report.partial) == (0, 1)
    (problem,) = snapshot.report.problems
    assert problem.path == "a.cpp"
    assert "'generated.h'" in problem.reason
    assert says(snapshot, "two()") == {"one()": "resolved"}
    assert all(node.is_partial for node in snapshot.functions)


def test_what_a_whole_unit_says_replaces_what_a_partial_one_said(
    index_files: IndexFiles,
) -> None:
    header = "inline int one() { return 1; }\ninline int two() { return one(); }\n"
    snapshot = index_files(
        {
            "include/a.h": header,
            "a.cpp": '#include "absent.h"\n#include "a.h"\nint broken() { return one(); }\n',
            "b.cpp": '#include "a.h"\nint sound() { return two(); }\n',
        }
    )
    partial = {node.name for node in snapshot.functions if node.is_partial}
    assert partial == {"broken"}
    assert says(snapshot, "two()") == {"one()": "resolved"}


def test_a_newer_standard_is_tried_where_the_given_one_fails(index_files: IndexFiles) -> None:
    newer = "template<class T> concept Any = true;\nint f(Any auto x) { return x; }\n"
    assert whole(index_files({"a.cpp": newer}).report)


def test_nesting_without_an_end_costs_only_its_own_file(index_files: IndexFiles) -> None:
    deep = "int f() { return " + "(" * 100_000 + "1" + ")" * 100_000 + "; }\n"
    long = "int g() { return 0" + " + 1" * 5_000 + "; }\n"
    snapshot = index_files(
        {"deep.cpp": deep, "long.cpp": long, "sound.cpp": "int h() { return 1; }\n"}
    )
    lost = {problem.path for problem in snapshot.report.problems}
    assert "deep.cpp" in lost
    assert "sound.cpp" not in lost
    assert "h" in {node.name for node in snapshot.functions}


def test_c_and_its_implicit_ways_are_indexed(snapshots: Mapping[str, GraphSnapshot]) -> None:
    ringlog = snapshots["ringlog"]
    assert ringlog.report.calls.inside > 400
    assert not any(edge.label == "dependent" for edge in ringlog.edges)
    paths = {node.path for node in ringlog.functions}
    assert any(path.endswith(".c") for path in paths)
    assert any(path.endswith(".cpp") for path in paths)


GOOD, BROKEN = "c++ -DGOOD -Iinclude -c a.cpp", "c++ -c a.cpp"
ENTRIES = {
    "a.cpp": "#ifndef GOOD\n#include <absent.h>\n#endif\n#include <b.h>\n"
    "int one() { return two() + B().three(); }\n",
    "include/b.h": "inline int two() { return 2; }\nstruct B { int three() { return 3; } };\n",
}


@pytest.mark.parametrize(
    "commands", [(GOOD,), (GOOD, BROKEN), (BROKEN, GOOD), (BROKEN, GOOD, GOOD)]
)
def test_of_a_file_s_entries_the_one_with_the_fewest_errors_counts(
    tmp_path: Path, commands: tuple[str, ...]
) -> None:
    root, folder = tmp_path / "tree", tmp_path / "index"
    folder.mkdir()
    database = write_tree(root, ENTRIES)
    entries = [
        {"directory": str(root), "file": "a.cpp", "command": command} for command in commands
    ]
    database.write_text(json.dumps(entries))
    index_tree(root, database, folder, original=None, workers=1)
    snapshot = GraphSnapshot.open(folder)
    assert says(snapshot, "one()") == {"two()": "resolved", "B::three()": "resolved"}
    report = snapshot.report
    assert (report.indexed, report.partial, report.problems) == (1, 0, ())
    assert (report.database.matched, report.database.duplicates) == (1, len(commands) - 1)
    assert report.replaced == (("a.cpp",) if commands[0] == BROKEN else ())


def test_of_entries_with_errors_the_first_one_with_the_fewest_counts(tmp_path: Path) -> None:
    root, folder = tmp_path / "tree", tmp_path / "index"
    folder.mkdir()
    text = (
        "#ifdef WORSE\nint x = a;\n#endif\nint y = b;\n#ifdef ONE\nint f() { return 1; }\n#endif\n"
    )
    database = write_tree(root, {"a.cpp": text})
    flags = ("-DWORSE", "-DONE", "-DTWO")
    entries = [
        {"directory": str(root), "file": "a.cpp", "command": f"c++ {flag} -c a.cpp"}
        for flag in flags
    ]
    database.write_text(json.dumps(entries))
    report = index_tree(root, database, folder, original=None, workers=1)
    assert (report.partial, report.replaced, report.functions) == (1, ("a.cpp",), 1)
