"""Reports of stages: one model each, written and read by the same fields, whatever version wrote them."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from schemas import reports
from schemas.reports import (
    DocumentsReport,
    DomainRows,
    EncodeReport,
    ImportReport,
    IndexReport,
    RowsReport,
    SelectionReport,
    SkipsReport,
    StageReport,
    SurveyReport,
    TokenizerReport,
    TokensReport,
)

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
STAGES: tuple[type[StageReport], ...] = (
    DocumentsReport, ImportReport, IndexReport, RowsReport, SelectionReport, SurveyReport,
    TokenizerReport, TokensReport,
)  # fmt: skip
GENERIC = {"curriculum/store/artefact.py", "curriculum/stages/merge.py"}
"""Modules that carry any report as it is: the store's own, and its copy from another workspace."""
SHOWN_WHOLE = {
    "curriculum/catalog/tables.py",
    "dashboards/manifest_page.py",
    "flows/cli/inspect/command.py",
}
"""Modules that show any report as it is, without a field's name."""
EXPLICIT: dict[type[Any], Any] = {str: "word", int: 3, float: 0.25}


def filled(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON of a model with a value in every field."""
    return {
        str(field.serialization_alias or name): _value(field.annotation)
        for name, field in model.model_fields.items()
    }


def _value(kind: Any) -> Any:
    if get_origin(kind) is dict:
        return {"name": _value(get_args(kind)[1])}
    if get_origin(kind) is tuple:
        return [_value(get_args(kind)[0])]
    if get_args(kind):
        return _value(next(each for each in get_args(kind) if each is not NoneType))
    return EXPLICIT[kind] if kind in EXPLICIT else filled(kind)


@pytest.mark.parametrize("model", STAGES)
def test_a_report_is_dumped_as_it_was_read_in_the_order_of_its_fields(
    model: type[StageReport],
) -> None:
    written = filled(model)
    assert json.dumps(model.model_validate(written).dump()) == json.dumps(written)


@pytest.mark.parametrize("model", STAGES)
def test_a_reader_takes_a_report_without_any_one_field(model: type[StageReport]) -> None:
    written = filled(model)
    for name in written:
        some = {other: value for other, value in written.items() if other != name}
        read = model.model_validate(some)
        assert json.dumps(read.dump()) == json.dumps(some)
        assert getattr(read, name) == model.model_fields[name].get_default()
    assert model.model_validate({}).dump() == {}


@pytest.mark.parametrize("model", STAGES)
def test_a_reader_ignores_fields_of_a_later_version_at_any_depth(model: type[StageReport]) -> None:
    assert model.model_validate(_with_more(model)) == model.model_validate(filled(model))


def _with_more(model: type[BaseModel]) -> dict[str, Any]:
    written = filled(model) | {"of_a_later_version": [1]}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            written[name] = _with_more(field.annotation)
    return written


def test_a_report_is_frozen() -> None:
    with pytest.raises(ValidationError):
        SurveyReport(tree_bytes=1).tree_bytes = 2  # type: ignore[misc]


def test_only_what_was_filled_in_is_dumped_and_equals_the_default_or_not() -> None:
    report = DocumentsReport(documents=0, changes=SkipsReport(read=0, lost=0.0))
    assert report.dump() == {"documents": 0, "changes": {"read": 0, "lost": 0.0}}
    assert RowsReport(encode=EncodeReport(), unscored=0).dump() == {"encode": {}, "unscored": 0}


def test_the_yield_has_the_name_that_manifests_have() -> None:
    assert DomainRows(rows=2, pack_yield=0.5).dump() == {"rows": 2, "yield": 0.5}
    assert DomainRows.model_validate({"yield": 0.5}).pack_yield == 0.5


def test_rows_read_what_an_import_wrote() -> None:
    read = RowsReport.model_validate(filled(ImportReport))
    assert read.domains["name"].dump() == {
        "row_length": 3, "rows": 3, "documents": 3, "tokens": 3, "scored_tokens": 3, "yield": 0.25,
    }  # fmt: skip


def test_no_other_module_reads_a_report_as_a_dict() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in _modules()
        if name not in GENERIC | SHOWN_WHOLE
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and _reads_a_dict(node)
    ]
    assert found == []


def test_no_other_module_declares_a_model_of_a_report() -> None:
    """A private model is taken for one where some report has all of its fields."""
    named = {
        name: set(vars(reports)[name].model_fields)
        for name in vars(reports)
        if name.endswith(("Report", "Size", "Rows", "Bucket"))
    }
    found = [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in _modules()
        if name != "schemas/reports.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.startswith("_") and _is_model(node)
        if any(len(_fields(node)) > 0 and _fields(node) <= fields for fields in named.values())
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "rows.manifest.report['domains']",
        "rows.manifest.report.get('domains')",
        "draft.report['tree_bytes']",
        "draft.report.update(found)",
        "Mine.model_validate(rows.manifest.report)",
        "found = manifest.report",
    ],
)
def test_a_report_that_is_read_as_a_dict_is_seen(line: str) -> None:
    assert any(_reads_a_dict(node) for node in ast.walk(ast.parse(line)))


def _reads_a_dict(node: ast.AST) -> bool:
    """Return True for `….manifest.report`, and for an index or a method of a dict on `….report`."""
    if isinstance(node, ast.Subscript):
        return _is_report(node.value)
    if not isinstance(node, ast.Attribute):
        return False
    if node.attr in {"get", "items", "keys", "values", "update", "setdefault"}:
        return _is_report(node.value)
    return _is_report(node) and ast.unparse(node).endswith("manifest.report")


def _is_report(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "report"


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            yield file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())


def _is_model(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("BaseModel", "Strict")) for base in node.bases)


def _fields(node: ast.ClassDef) -> set[str]:
    return {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
