from typing import Any

import pytest
from pydantic import ValidationError

from schemas.diet import Diet, DietPhase, Serving


def serving(**fields: Any) -> dict[str, Any]:
    return {"family": "v3_simple", "share": 1} | fields


def phase(**fields: Any) -> dict[str, Any]:
    return {"phase": "syntax", "portion": 1, "servings": [serving()]} | fields


def diet(**fields: Any) -> dict[str, Any]:
    about = {"specialist": "x", "corpus": "c", "model": "tiny", "token_budget": "10M"}
    return about | {"phases": [phase()]} | fields


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (serving(variants=2), "causal has no variants: only fim can split"),
        (serving(objective="chat"), "v3_simple has no turns"),
        (serving(family="chat", objective="code_to_doc"), "Remove objective"),
        (
            serving(family="chat", objective="fim"),
            "conversations can only be trained with objective chat",
        ),
        (serving(family="v6_enriched", base="chat"), "conversations have no code structure"),
        (
            serving(family="edit", objective="fim"),
            "family edit supports only objective causal",
        ),
        (serving(family="v6_enriched", base="edit", objective="target"), "Remove objective"),
        (serving(base="v2_simple"), "v3_simple has no base"),
        (serving(domains={"*": 0}), "no domain has a factor above 0"),
        (serving(domains={"a": 0, "*": 0}), "Raise a factor, or remove domains"),
        (serving(domains={}), "no domain has a factor above 0"),
        (serving(repositories=[]), "Remove repositories to use all"),
        (serving(family="chat", score="new"), "score compares versions of files"),
        (
            {"imported": "mine", "share": 1, "score": "all"},
            "score applies only to rows built from a corpus",
        ),
        (serving(score="old"), "new"),
    ],
)
def test_a_serving_that_contradicts_itself_is_told_what_to_change(
    content: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError, match=said):
        Serving.model_validate(content)


def test_a_factor_of_zero_beside_others_is_a_way_to_leave_a_domain_out() -> None:
    Serving.model_validate(serving(domains={"a": 0}))
    Serving.model_validate(serving(domains={"a": 1, "*": 0}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (phase(advance_when={}), "advance_when of syntax has no condition"),
        (phase(on_budget="hold"), "waits for a gate, but the phase has none"),
    ],
)
def test_a_phase_whose_gate_can_never_open_is_refused(content: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        DietPhase.model_validate(content)


def test_a_gate_behind_the_end_of_its_budget_is_refused() -> None:
    gated = phase(portion=0.5, advance_when={"min_tokens": "6M"})
    rest = phase(phase="file_graph", portion=0.5)
    with pytest.raises(ValidationError, match=r"\b6,000,000 tokens"):
        Diet.model_validate(diet(phases=[gated, rest]))
    gated["advance_when"] = {"min_tokens": "5M"}
    assert Diet.model_validate(diet(phases=[gated, rest])).phases[0].advance_when
