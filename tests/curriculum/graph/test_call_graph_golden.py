"""Edges of the sample corpus that are known by hand, at its head.

What a syntax tree can't know: which overload arguments of equal number select – all stand as candidates –
what an object is whose type isn't written nearby, what a template's argument has, and operators.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha1
from pathlib import Path

import pytest

from curriculum.corpus.load import unpack_samples
from curriculum.corpus.paths import language_of
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import NodeId, symbol
from schemas.change import Blob, TreeDelta, TreeFile
from schemas.document import EdgeKind

Graphs = Callable[[str], CallGraph]


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Graphs:
    roots = {root.name: root for root in unpack_samples(tmp_path_factory.mktemp("samples"))}
    return cache(lambda name: graph_of(roots[name]))


def graph_of(root: Path) -> CallGraph:
    files = []
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        language = language_of(path, headers="cpp") if file.is_file() else None
        if language is not None:
            raw = file.read_bytes()
            blob = Blob(blob_id=sha1(raw).hexdigest(), text=raw.decode())
            files.append(TreeFile(path=path, language=language, blob=blob, lineage=path))
    graph = CallGraph()
    graph.apply(TreeDelta(removed=(), files=tuple(sorted(files, key=lambda each: each.path))))
    return graph


def nodes(graph: CallGraph, name: str, path: str = "") -> list[NodeId]:
    """The definitions that have a qualified name."""
    return [
        NodeId(file, number)
        for file in graph.paths()
        if path in file
        for number, each in enumerate(graph.source(file).facts.symbols)
        if each.qualified == name
        and (each.body is not None or graph.neighbours(NodeId(file, number)))
    ]


def near(
    graph: CallGraph, name: str, kind: EdgeKind = "calls", *, path: str = "", outward: bool = True
) -> set[str]:
    """The qualified names at the far ends of the edges of all definitions of a name."""
    found = nodes(graph, name, path)
    assert found, name
    return {
        symbol(graph, each.node).qualified
        for node in found
        for each in graph.neighbours(node)
        if each.kind == kind and each.outward == outward
    }


def inside(prefix: str, names: str) -> set[str]:
    return {f"{prefix}::{name}" for name in names.split()}


def edges(graph: CallGraph, kind: EdgeKind, under: str) -> set[tuple[str, str]]:
    return {
        (each.qualified, symbol(graph, other.node).qualified)
        for file in graph.paths()
        if file.startswith(under)
        for number, each in enumerate(graph.source(file).facts.symbols)
        for other in graph.neighbours(NodeId(file, number))
        if other.kind == kind and other.outward
    }


@pytest.mark.parametrize(
    ("caller", "callees"),
    [
        ("exact::order", "exact::equal"),
        ("approx::order", "approx::equal exact::order"),
        ("approx::equal", "approx::equal"),
        ("normalized", "norm"),
        ("cross", "NamedAxes::x NamedAxes::y NamedAxes::z"),
        ("determinant", "minor_of determinant"),
        ("dynamic::determinant", "dynamic::factorize dynamic::SquareMatrix::order"),
        ("ipow", "ipow"),
        ("sum_of", "sum_of"),
        ("compose", "compose"),
        ("expr::depth", "expr::depth"),
        ("expr::operand_text", "expr::to_text expr::precedence"),
        (
            "expr::Parser::sum",
            "expr::make expr::Parser::product expr::Parser::peek expr::Parser::next",
        ),
        (
            "expr::Parser::product",
            "expr::make expr::Parser::unary expr::Parser::peek expr::Parser::next",
        ),
        (
            "expr::Parser::unary",
            "expr::make expr::Parser::unary expr::Parser::atom expr::Parser::accept",
        ),
        ("expr::Parser::arguments", "expr::Parser::sum expr::Parser::accept expr::Parser::expect"),
        ("view::Stage::reduce", "view::Stage::for_each"),
        ("view::Stage::to_vector", "view::Stage::for_each"),
    ],
)
def test_functions_of_lattice_call(samples: Graphs, caller: str, callees: str) -> None:
    found = near(samples("lattice"), f"lattice::{caller}")
    assert found == inside("lattice", callees)


@pytest.mark.parametrize(
    ("caller", "callees"),
    [
        ("dynamic::factorize", "find_pivot eliminate SquareMatrix::swap_rows"),
        ("dynamic::solve", "factorize solve"),
        ("expr::Parser::atom", "Parser::sum Parser::name_or_call"),
        ("expr::Parser::name_or_call", "Parser::arguments"),
        ("expr::to_text", "to_text operand_text"),
        ("expr::evaluate", "parse evaluate compute"),
    ],
)
def test_functions_of_lattice_call_among_others(samples: Graphs, caller: str, callees: str) -> None:
    space = caller.split("::")[0]
    found = near(samples("lattice"), f"lattice::{caller}")
    assert found >= inside(f"lattice::{space}", callees)


def test_overloads_are_told_by_arity_and_else_share(samples: Graphs) -> None:
    """(Matrix, Matrix), (Matrix, Vec) and (Vec, Matrix): only the types of arguments tell them apart."""
    graph = samples("lattice")
    operators = nodes(graph, "lattice::operator*", "matrix.hpp")
    callers = {node: graph.neighbours(node) for node in operators}
    shares = [
        sorted(each.confidence for each in found if each.kind == "calls" and each.outward)
        for found in callers.values()
        if any(symbol(graph, each.node).name == "multiply" for each in found)
    ]
    assert len(shares) == 3
    assert all(share == [pytest.approx(1 / 3)] * 3 for share in shares)
    (both,) = (n for n in nodes(graph, "lattice::expr::evaluate") if two(graph, n))
    called = {
        (symbol(graph, each.node).name, symbol(graph, each.node).max_arity)
        for each in graph.neighbours(both)
        if each.kind == "calls" and each.outward
    }
    assert called >= {("evaluate", 2), ("compute", 3), ("compute", 2)}


def two(graph: CallGraph, node: NodeId) -> bool:
    return symbol(graph, node).max_arity == 2


def test_namespaces_keep_equal_names_apart(samples: Graphs) -> None:
    graph = samples("lattice")
    assert "lattice::approx::equal" not in near(graph, "lattice::exact::order")
    assert "lattice::exact::equal" not in near(graph, "lattice::approx::order")
    assert "lattice::to_text" in near(graph, "lattice::expr::ParseError::ParseError")
    assert "lattice::expr::to_text" not in near(graph, "lattice::expr::ParseError::ParseError")
    tests = {
        each.node.path
        for name in ("lattice::determinant", "lattice::dynamic::determinant")
        for node in nodes(graph, name)
        for each in graph.neighbours(node)
        if each.kind == "calls" and not each.outward
    }
    assert "tests/test_solve.cpp" in tests


def test_names_of_the_library_lead_nowhere(samples: Graphs) -> None:
    """std::equal and std::swap, and `at` of a standard container."""
    graph = samples("lattice")
    names = {name for _, name in edges(graph, "calls", "")}
    assert names
    assert not any(name.startswith("std::") for name in names)


def test_specialisations_stand_for_their_template(samples: Graphs) -> None:
    """The arguments decide the specialisation of an object; a syntax tree can't."""
    graph = samples("lattice")
    found = {node.number for node in nodes(graph, "lattice::NamedAxes")}
    assert len(found) == 3
    assert near(graph, "lattice::Vec", "inherits") == inside(
        "lattice", "Additive Scalable NamedAxes"
    )


CLASSES = """
HeapResource MemoryResource, ChainedResource MemoryResource, BumpArena ChainedResource,
PoolResource ChainedResource, CountingResource ChainedResource, LockedResource ChainedResource,
SizeClassResource ChainedResource, TracingResource CountingResource, NullSink Sink, StringSink Sink,
IndentingSink Sink, BufferedSink Sink, FileSink BufferedSink
"""
CONCRETE = "Heap Bump Pool Counting Tracing Locked SizeClass"


def test_classes_of_arena_inherit(samples: Graphs) -> None:
    pairs = (line.split() for line in CLASSES.replace("\n", " ").split(","))
    expected = {(f"arena::{heir}", f"arena::{base}") for heir, base in pairs}
    graph = samples("arena")
    assert edges(graph, "inherits", "include/") == expected
    assert ("PieceSink", "arena::BufferedSink") in edges(graph, "inherits", "tests/")


def full(short: str) -> str:
    return f"arena::{short}" + ("Arena" if short == "Bump" else "Resource")


def test_methods_of_arena_override(samples: Graphs) -> None:
    graph = samples("arena")
    found = {
        pair
        for pair in edges(graph, "overrides", "")
        if pair[1].startswith("arena::") and "~" not in pair[0]
    }
    root = "arena::MemoryResource"
    expected = {
        (f"{full(short)}::{name}", f"{root}::{name}")
        for short in CONCRETE.split()
        for name in ("do_allocate", "do_deallocate", "name")
        if short != "Tracing"
    }
    expected |= {
        (f"arena::TracingResource::{name}", f"arena::CountingResource::{name}")
        for name in ("do_allocate", "do_deallocate", "name")
    }
    expected |= {("arena::ChainedResource::upstream", f"{root}::upstream")}
    expected |= {(f"{full(short)}::owns", f"{root}::owns") for short in ("Bump", "Pool")}
    expected |= {
        (f"arena::{short}Sink::put", "arena::Sink::put")
        for short in ("Null", "String", "Indenting", "Buffered")
    }
    expected |= {
        (f"arena::{s}Sink::flush", "arena::Sink::flush") for s in ("Indenting", "Buffered")
    }
    expected |= {("arena::FileSink::flush", "arena::BufferedSink::flush")}
    expected |= {
        (s, "arena::BufferedSink::drain") for s in ("arena::FileSink::drain", "PieceSink::drain")
    }
    assert found == expected


@pytest.mark.parametrize("name", ["allocate", "deallocate"])
def test_a_virtual_call_may_reach_every_overrider(samples: Graphs, name: str) -> None:
    found = near(samples("arena"), f"arena::MemoryResource::{name}")
    overriders = {f"{full(short)}::do_{name}" for short in CONCRETE.split()}
    called = "arena::is_power_of_two"  # Inside of ARENA_ASSERT.
    assert found == overriders | {f"arena::MemoryResource::do_{name}", called}


@pytest.mark.parametrize(
    ("caller", "callees"),
    [
        ("TracingResource::do_allocate", "CountingResource::do_allocate"),
        ("FileSink::flush", "BufferedSink::flush"),
        ("BufferedSink::put", "BufferedSink::flush"),
        ("BumpArena::rewind", "BumpArena::drop_chunks_above"),
        ("BumpArena::reset", "BumpArena::drop_chunks_above"),
        ("Interner::find_below", "Interner::find_below"),
        ("Interner::height_of", "Interner::height_of"),
        ("Interner::walk", "Interner::walk"),
        ("report::format", "units::format"),
        ("report::describe", "report::describe units::format"),
        ("PoolResource::do_deallocate", "PoolResource::owns PoolResource::push"),
        ("BumpArena::take", "align_up"),
        ("SizeClassResource::pool_for", "make_owned"),
        ("Sink::write", "Sink::write Sink::put"),
        ("TracingResource::trace", "Sink::write"),
    ],
)
def test_functions_of_arena_call(samples: Graphs, caller: str, callees: str) -> None:
    assert near(samples("arena"), f"arena::{caller}") >= inside("arena", callees)


def test_equal_names_of_arena_are_kept_apart(samples: Graphs) -> None:
    graph = samples("arena")
    assert "arena::report::format" not in near(graph, "arena::units::format")
    assert "arena::report::format" not in near(graph, "arena::report::format")


def test_arity_tells_overloads_of_align_up(samples: Graphs) -> None:
    """pool.cpp calls the template of one parameter; which of those with two, the types decide."""
    graph = samples("arena")
    (maker,) = nodes(graph, "arena::PoolResource::PoolResource", "pool.cpp")
    found = {
        symbol(graph, each.node).max_arity
        for each in graph.neighbours(maker)
        if each.outward and symbol(graph, each.node).name == "align_up"
    }
    assert found == {1}


def test_macros_that_look_like_calls_are_none(samples: Graphs) -> None:
    for name in ("arena", "lattice", "ringlog"):
        graph = samples(name)
        called = {callee.rpartition("::")[2] for _, callee in edges(graph, "calls", "")}
        macros = {
            each.name
            for file in graph.paths()
            for each in graph.source(file).facts.symbols
            if each.kind == "macro"
        }
        assert called
        assert not called & macros


def test_functions_of_ini_call_exactly(samples: Graphs) -> None:
    """C: no scopes, and a function pointer that leads nowhere."""
    assert edges(samples("ringlog"), "calls", "src/ini.c") == {
        ("parse_section", "skip_blanks"),
        ("parse_section", "cut_blanks"),
        ("parse_line", "skip_blanks"),
        ("parse_line", "cut_blanks"),
        ("parse_line", "parse_section"),
        ("rl_ini_parse", "parse_line"),
        ("rl_ini_parse_file", "rl_ini_parse"),
    }


def test_cpp_calls_c_through_its_header(samples: Graphs) -> None:
    found = edges(samples("ringlog"), "calls", "include/ringlog/ringlog.hpp")
    assert ("ringlog::Ring::capacity", "rl_ring_capacity") in found
    assert ("ringlog::Ring::empty", "ringlog::Ring::size") in found
