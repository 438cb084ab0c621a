from pathlib import Path
from types import SimpleNamespace
from typing import Any

from curriculum.inspection.build_tables import comment_lines, domain_lines, domain_warnings


def size(documents: int, num_bytes: int, comments: int = 0) -> dict[str, int]:
    return {
        "documents": documents,
        "val": 1,
        "bytes": num_bytes,
        "code_bytes": num_bytes // 2,
        "comment_bytes": comments,
    }


def selection(**repositories: dict[str, dict[str, int]]) -> Any:
    report = {"repositories": repositories, "warnings": ["a rule holds for none"]}
    return _artefact(report)


def _artefact(report: dict[str, Any]) -> Any:
    return SimpleNamespace(reported=lambda model: model.model_validate(report), path=Path())


BUILT: Any = SimpleNamespace(
    selection=selection(
        one={"testing": size(2, 400, 50), "general": size(1, 100)},
        two={"testing": size(1, 200)},
    ),
    selections={"v4_context_graph": selection(two={"templates": size(1, 300, 30)})},
)


def test_a_domain_is_summed_over_repositories_and_selections() -> None:
    lines = list(domain_lines(BUILT))
    assert [line["domain"] for line in lines] == ["testing", "templates", "general"]
    assert lines[0] == {
        "domain": "testing",
        "documents": 3,
        "in val": 2,
        "bytes": "600",
        "share": "60.0%",
        "comments": "16.7%",
    }


def test_comments_are_shares_by_repository_and_domain() -> None:
    assert list(comment_lines(BUILT)) == [
        {
            "comments in": "one",
            "all": "20.0%",
            "general": "0.0%",
            "templates": "",
            "testing": "25.0%",
        },
        {
            "comments in": "two",
            "all": "12.0%",
            "general": "",
            "templates": "20.0%",
            "testing": "0.0%",
        },
    ]


def test_warnings_are_those_of_files() -> None:
    assert list(domain_warnings(BUILT)) == ["a rule holds for none"]


def test_a_selection_without_domains_has_no_lines() -> None:
    empty = _artefact({"documents": 3})
    bare: Any = SimpleNamespace(selection=empty, selections={})
    assert not [*domain_lines(bare), *comment_lines(bare), *domain_warnings(bare)]
