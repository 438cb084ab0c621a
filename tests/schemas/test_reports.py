"""Reports of stages: one model each, written and read by the same fields, whatever version wrote them."""

import json
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel, ValidationError

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

STAGES: tuple[type[StageReport], ...] = (
    DocumentsReport, ImportReport, IndexReport, RowsReport, SelectionReport, SurveyReport,
    TokenizerReport, TokensReport,
)  # fmt: skip
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


def test_a_report_is_frozen_and_built_of_named_fields() -> None:
    with pytest.raises(ValidationError):
        SurveyReport(tree_bytes=1).tree_bytes = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        SurveyReport(1)  # type: ignore[call-arg]


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
