"""A macro answers by its arguments alone: whatever the question around it calls its tables and columns."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curriculum.catalog import macros, open_catalog
from curriculum.catalog.views import Statement, statements
from tests.curriculum.catalog.branched import write_branched
from tests.flows.tiny_workspace import IDS, TinyWorkspace

RESERVED = "__"
"""Prefix of all names inside a macro."""
PHASES = {
    "templates": ("syntax", "anneal", "file_graph"),
    "templates/wide": ("syntax", "anneal"),
    "fmt": ("syntax", "file_graph"),
}
"""Mixed phases by specialist."""
NAMES = ("templates/syntax", "templates/anneal", "templates/wide/syntax", "templates/wide/anneal")
OF_A_PHASE = [(name, phase) for name, phases in PHASES.items() for phase in phases]
OF_A_STEP = [(name, step) for name in NAMES for step in (1, 2)]
CALLS: dict[str, Sequence[tuple[Any, ...]]] = {
    "mixture": OF_A_PHASE,
    "planned_vs_realised": OF_A_PHASE,
    "epochs": OF_A_PHASE,
    "run_named": [(name,) for name in NAMES],
    "distinct_tokens": [(name,) for name in NAMES],
    "consumed": OF_A_STEP,
    "seen_before": OF_A_STEP,
    "consumed_until": OF_A_STEP,
    "checkpoints_after": OF_A_STEP,
    "consumers": [
        *((7 * digit,) for digit in "abc"),
        *((name,) for name in IDS.values()),
        *(("one-0",), ("one-1",), ("two-0",)),
        *(("src/a.h",), ("alpha:src/b.cpp",), ("lib/[d].c",)),
    ],
    "provenance": [("one-0",), ("two-0",)],
}
"""Arguments of each macro, with different answers."""
WORDS = sorted(
    {
        word
        for each in statements()
        for word in re.findall(r"[a-z_][a-z0-9_]*", each.text)
        if each.makes and not word.startswith(RESERVED)
    }
)
"""Whatever stands in the text of the catalog: names of its tables, columns, parameters, and words of SQL."""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    home = tmp_path_factory.mktemp("branched") / "home"
    write_branched(home)
    catalog = open_catalog(home)
    catalog.execute("SET threads = 1")
    return catalog


def _lines(found: duckdb.DuckDBPyConnection) -> list[str]:
    return sorted(map(str, found.fetchall()))


def _literal(value: str | int) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


Answers = dict[tuple[Any, ...], list[str]]
"""The lines of a macro by its arguments, which stand before them."""


def _one_by_one(catalog: duckdb.DuckDBPyConnection, name: str) -> Answers:
    """Return a macro's answers to each of its arguments."""
    found = {}
    for values in CALLS[name]:
        listed = ", ".join(map(_literal, values))
        found[values] = _lines(catalog.execute(f"SELECT {listed}, * FROM {name}({listed})"))
    return found


Shape = tuple[str, list[str], str, bool, bool]
"""An alias for the arguments, names of their columns, one for the answer; is it qualified, is it a CTE."""
SHAPES: st.SearchStrategy[Shape] = st.tuples(
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=2, unique=True),
    st.sampled_from(WORDS),
    st.booleans(),
    st.booleans(),
).filter(lambda shape: shape[0] != shape[2])


def _question(name: str, shape: Shape, select: str) -> str:
    """A question that calls a macro with columns of another table."""
    outer, columns, answer, is_qualified, is_cte = shape
    columns = columns[: len(CALLS[name][0])]
    named = ", ".join(f'"{column}"' for column in columns)
    passed = ", ".join(
        f'"{outer}"."{column}"' if is_qualified else f'"{column}"' for column in columns
    )
    rows = ", ".join(f"({', '.join(map(_literal, values))})" for values in CALLS[name])
    given_by = f"(VALUES {rows})"
    texts = {"outer": f'"{outer}"', "answer": f'"{answer}"', "call": f"{name}({passed})"}
    texts["columns"] = ", ".join(f'"{outer}"."{column}"' for column in columns)
    if is_cte:
        head = f'WITH "{outer}"({named}) AS ({given_by[1:-1]}) '
        return head + select.format(**texts, source=f'"{outer}"')
    return select.format(**texts, source=f'{given_by} "{outer}"({named})')


BESIDE = "SELECT {columns}, {answer}.* FROM {source}, {call} {answer}"
WITHIN = "SELECT {columns}, (SELECT count(*) FROM {call} {answer}) FROM {source}"


def _holds(catalog: duckdb.DuckDBPyConnection, name: str, answers: Answers, shape: Shape) -> None:
    asked = _question(name, shape, BESIDE)
    lines = sorted(line for each in answers.values() for line in each)
    assert _lines(catalog.execute(asked)) == lines, asked
    asked = _question(name, shape, WITHIN)
    counts = sorted(str((*values, len(each))) for values, each in answers.items())
    assert _lines(catalog.execute(asked)) == counts, asked


def test_every_macro_with_parameters_is_called_here(catalog: duckdb.DuckDBPyConnection) -> None:
    assert {each.name for each in macros() if each.columns} == set(CALLS)


def test_a_plan_beside_each_phase_is_that_phases_plan(catalog: duckdb.DuckDBPyConnection) -> None:
    asked = """
        SELECT {0}.specialist, {0}.phase, m.* FROM status {0},
            planned_vs_realised({0}.specialist, {0}.phase) m
    """
    lines = _lines(catalog.execute(asked.format("p")))
    assert lines == _lines(catalog.execute(asked.format("zz")))
    assert len(lines) == 9


def _same_under(shapes: int, name: str, catalog: duckdb.DuckDBPyConnection) -> None:
    answers = _one_by_one(catalog, name)
    assert len({len(each) for each in answers.values()} | {0}) > 1
    own = next(each.columns for each in macros() if each.name == name)
    parameters = [*own, "other"][:2]

    @example(("p", ["specialist", "phase"], "s", False, False))
    @example(("lineage", ["run", "step"], "l", True, True))
    @example(("r", ["pack_id", "commit"], "steps", True, False))
    @example(("given", parameters, "r", False, False))
    @given(SHAPES)
    @settings(max_examples=shapes)
    def same(shape: Shape) -> None:
        _holds(catalog, name, answers, shape)

    same()


@pytest.mark.parametrize("name", CALLS)
def test_a_macro_answers_the_same_under_any_outer_names(
    name: str, catalog: duckdb.DuckDBPyConnection
) -> None:
    _same_under(4, name, catalog)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CALLS)
def test_a_macro_answers_the_same_under_many_outer_names(
    name: str, catalog: duckdb.DuckDBPyConnection
) -> None:
    _same_under(400, name, catalog)


# Names in their text


def _bodies() -> Iterator[tuple[Statement, str]]:
    """The table macros of the catalog with what they select."""
    for each in statements():
        found = re.search(r"^CREATE MACRO [\w.]+\([^)]*\) AS TABLE\s", each.text, re.MULTILINE)
        if each.makes and found:
            yield each, each.text[found.end() :]


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(each)


def _tree(body: str) -> Any:
    found = duckdb.execute("SELECT json_serialize_sql($1)", [body]).fetchone()
    assert found
    tree = json.loads(found[0])
    assert not tree["error"], tree
    return tree


FROM_KINDS = {"BASE_TABLE", "SUBQUERY", "TABLE_FUNCTION", "COLUMN_DATA", "PIVOT"}


def test_every_inner_name_of_a_macro_has_the_reserved_prefix() -> None:
    bodies = list(_bodies())
    assert len(bodies) > len(CALLS)
    for statement, body in bodies:
        nodes = list(_nodes(_tree(body)))
        ctes = {each["key"] for node in nodes for each in node.get("cte_map", {}).get("map", ())}
        for node in nodes:
            if node.get("type") in FROM_KINDS and "alias" in node and "sample" in node:
                assert node["alias"].startswith(RESERVED), f"{statement.name}: {node}"
            if node.get("type") == "BASE_TABLE":
                is_own = node["table_name"] in ctes
                assert is_own or node["schema_name"], f"{statement.name}: {node['table_name']}"
        assert all(name.startswith(RESERVED) for name in ctes), f"{statement.name}: {ctes}"


def _leftmost(table: dict[str, Any]) -> dict[str, Any]:
    """Return the first table of FROM, which sees no columns of later tables."""
    return _leftmost(table["left"]) if table["type"] == "JOIN" else table


def _guarded(tree: Any) -> Iterator[dict[str, Any]]:
    """Expressions where no column of a macro's own tables can be meant."""
    for node in _nodes(tree):
        if node.get("type") != "SELECT_NODE":
            continue
        if node["from_table"]["type"] == "EMPTY":
            yield from node["select_list"]
        elif (first := _leftmost(node["from_table"]))["type"] == "TABLE_FUNCTION":
            assert first["function"]["schema"] == "internal"
            yield from first["function"]["arguments"]


def test_a_parameter_stands_only_where_no_column_of_the_macro_does() -> None:
    for statement, body in _bodies():
        header = re.search(r"CREATE MACRO (?:internal\.)?\w+\(([^)]*)\)", statement.text)
        assert header
        tree = _tree(body)
        guarded = [node for each in _guarded(tree) for node in _nodes(each)]
        for name in re.findall(r"\w+", header[1]):
            counts = [
                sum(node.get("column_names") == [name] for node in nodes)
                for nodes in (guarded, list(_nodes(tree)))
            ]
            assert counts == [1, 1], f"{statement.name}: {name}"


# Names that there aren't, and branches

UNKNOWN = [
    ("mixture('tmplates', 'syntax')", "tmplates", "templates/wide"),
    ("epochs('templates/wider', 'syntax')", "templates/wider", "templates/wide"),
    ("planned_vs_realised('nobody/*', 'syntax')", "nobody/*", "templates/wide"),
    ("planned_vs_realised('templates', 'sintax')", "sintax", "file_graph"),
    ("run_named('tmplates/syntax')", "tmplates", "templates/wide"),
    ("consumed('templates/wider/syntax', 1)", "templates/wider", "templates/wide"),
    ("seen_before('templates/sintax', 1)", "sintax", "anneal"),
    ("consumed_until('0123456789ab', 1)", "0123456789ab", "key"),
    ("checkpoints_after('runs/specialist-templates/nowhere', 1)", "nowhere", "runs"),
    ("distinct_tokens('templates')", "templates", "templates/syntax"),
]


@pytest.mark.parametrize(("call", "named", "there_is"), UNKNOWN)
def test_a_name_that_the_workspace_lacks_is_an_error_that_says_it_and_what_there_is(
    call: str, named: str, there_is: str, catalog: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(duckdb.InvalidInputException) as refused:
        catalog.execute(f"FROM {call}").fetchall()
    fault, _, there = str(refused.value).partition(", only ")
    assert named in fault
    assert there_is in there


def _specialists(catalog: duckdb.DuckDBPyConnection, call: str) -> list[str]:
    found = catalog.execute(f"SELECT DISTINCT specialist FROM {call} ORDER BY 1").fetchall()
    return [name for (name,) in found]


OF_SPECIALISTS = ("mixture", "planned_vs_realised", "epochs")


def test_a_specialist_has_the_name_in_an_answer_by_which_it_is_asked_for(
    catalog: duckdb.DuckDBPyConnection,
) -> None:
    for name in ("templates", "templates/wide"):
        for macro in OF_SPECIALISTS:
            assert _specialists(catalog, f"{macro}('{name}', 'syntax')") == [name]
        for macro in ("consumed", "seen_before", "consumed_until", "checkpoints_after"):
            assert _specialists(catalog, f"{macro}('{name}/anneal', 1)") in ([name], []), macro
        assert _specialists(catalog, f"distinct_tokens('{name}/anneal')") == [name]
    assert _specialists(catalog, "mixture('templates.wide', 'syntax')") == ["templates/wide"]
    assert _specialists(catalog, "consumed('templates.wide/syntax', 1)") == ["templates/wide"]


def test_the_name_of_each_view_is_one_that_macros_take(catalog: duckdb.DuckDBPyConnection) -> None:
    """Example: FROM mixtures m, planned_vs_realised(m.specialist, m.phase)."""
    columns = catalog.execute("""
        SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'main'
        GROUP BY ALL
    """).fetchall()
    with_name = [view for view, names in columns if "specialist" in names]
    assert not [view for view, names in columns if "branch" in names]
    assert len(with_name) > 10
    known = {*PHASES}
    for view in with_name:
        assert {*_specialists(catalog, view)} <= {*known, None}, view
    for view in ("mixtures", "strata", "mixture_rows"):
        (asked,) = catalog.execute(f"""
            SELECT count(*) FROM (SELECT DISTINCT specialist, phase FROM {view}) m,
                planned_vs_realised(m.specialist, m.phase)
        """).fetchall()
        assert asked == (9,), view
    (asked,) = catalog.execute("""
        SELECT count(*) FROM status p, consumed(p.specialist || '/' || p.phase, 1)
        WHERE p.run IS NOT NULL
    """).fetchall()
    assert asked[0] > 0


def test_a_star_means_all_branches_each_with_its_name(catalog: duckdb.DuckDBPyConnection) -> None:
    both = ["templates", "templates/wide"]
    for macro in OF_SPECIALISTS:
        assert _specialists(catalog, f"{macro}('templates/*', 'syntax')") == both
    assert _specialists(catalog, "consumed('templates/*/anneal', 1)") == both


def test_what_the_models_of_several_branches_have_read_is_told_apart(
    catalog: duckdb.DuckDBPyConnection,
) -> None:
    for macro in ("consumed_until", "seen_before"):
        whole = catalog.execute(f"FROM {macro}('templates/*/anneal', 2)").fetchall()
        for name in ("templates", "templates/wide"):
            alone = catalog.execute(f"FROM {macro}('{name}/anneal', 2)")
            at = [column[0] for column in alone.description or ()].index("model_specialist")
            lines = sorted(map(str, alone.fetchall()))
            assert lines
            assert sorted(str(line) for line in whole if line[at] == name) == lines


NOTHING_OF_IT = (
    "mixture('templates/wide', 'file_graph')",
    "epochs('testing', 'syntax')",
    "planned_vs_realised('testing/*', 'syntax')",
    "consumed('templates/file_graph', 1)",
    "seen_before('testing/syntax', 1)",
)
"""Phases and diets that there are, of which nothing is mixed or trained."""


@pytest.mark.parametrize("call", NOTHING_OF_IT)
def test_a_name_of_which_nothing_is_made_is_an_error_rather_than_an_empty_answer(
    call: str, catalog: duckdb.DuckDBPyConnection
) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="there is no"):
        catalog.execute(f"FROM {call}").fetchall()


NOT_THERE: dict[str, tuple[Any, ...]] = {
    "consumed": ("templates/syntax", 9999),
    "checkpoints_after": ("templates/syntax", 9999),
    "consumers": ("f" * 7,),
    "provenance": ("one-99",),
}


@pytest.mark.parametrize("name", NOT_THERE)
def test_a_macro_that_is_asked_for_what_is_not_there_is_an_error(
    catalog: duckdb.DuckDBPyConnection, name: str
) -> None:
    *before, last = NOT_THERE[name]
    marks = ["?"] * len(before)
    plain = f"SELECT count(*) FROM {name}({', '.join([*marks, '?'])})"
    with pytest.raises(duckdb.InvalidInputException, match=f"no .*{last}"):
        catalog.execute(plain, [*before, last]).fetchall()
    lateral = f"SELECT count(*) FROM (SELECT ? AS one) q, {name}({', '.join([*marks, 'q.one'])})"
    with pytest.raises(duckdb.InvalidInputException, match=f"no .*{last}"):
        catalog.execute(lateral, [last, *before]).fetchall()


def test_what_is_there_and_no_step_has_read_is_no_error(tmp_path: Path) -> None:
    TinyWorkspace(tmp_path)
    catalog = open_catalog(tmp_path)
    for call in CALLS["consumers"]:
        assert catalog.execute("FROM consumers(?)", list(call)).fetchall() == []
    for name in ("f" * 7, "f" * 8, "one-99", "src/nothing.h", "src/a"):
        with pytest.raises(duckdb.InvalidInputException):
            catalog.execute("FROM consumers(?)", [name]).fetchall()
