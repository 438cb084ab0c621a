import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.spdx import (
    MAX_JOINED,
    UNRECOGNISED,
    is_satisfied,
    is_spdx_id,
    joined,
    licence_kind,
    normalized,
    parse_expression,
    unknown_ids,
)

IDS = ("MIT", "GPL-2.0-only", "BSL-1.0", "Zlib")
EXPRESSIONS = st.recursive(
    st.sampled_from(IDS),
    lambda parts: st.builds(
        lambda first, relation, second: f"({first}) {relation} ({second})",
        parts,
        st.sampled_from(["AND", "OR"]),
        parts,
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("mit", "MIT"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("lgpl-2.1", "LGPL-2.1-only"),
        ("(MIT or (ISC))", "MIT OR ISC"),
        ("LicenseRef-ours", "LicenseRef-ours"),
    ],
)
def test_an_expression_takes_its_present_form(text, expression):
    assert normalized(text) == expression


@pytest.mark.parametrize("text", ["", "()", "MIT/ISC", "MIT OR", "MIT MIT", "(MIT", "MIT WITH"])
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_expression(text)


def test_ids_that_spdx_lacks_are_named():
    assert unknown_ids("Frob-1.0 OR MIT AND LicenseRef-ours") == ["Frob-1.0"]
    assert not is_spdx_id("Frob-1.0")


@given(EXPRESSIONS, st.sets(st.sampled_from(IDS)))
def test_or_takes_one_choice_and_and_takes_all(expression, accepted):
    spelled = expression.replace("AND", "and").replace("OR", "or")
    for name in IDS:
        spelled = spelled.replace(name, str(name in accepted))
    found = is_satisfied(parse_expression(expression), lambda name, _: name in accepted)
    assert found is eval(spelled)


@given(st.lists(EXPRESSIONS, min_size=1, max_size=4))
def test_joined_licences_all_hold(expressions):
    whole = joined(expressions)
    assert whole is not None
    for accepted in ({"MIT"}, {"MIT", "Zlib"}, set(IDS)):
        judged = [
            is_satisfied(parse_expression(each), lambda name, _: name in accepted)  # noqa: B023
            for each in (*expressions, whole)
        ]
        assert all(judged[:-1]) is judged[-1]


@pytest.mark.parametrize("relation", ["AND", "OR"])
@pytest.mark.parametrize(
    "licences",
    [
        [f"LicenseRef-{number}" for number in range(20_000)],
        [f"LicenseRef-{number} OR LicenseRef-{number}{number}" for number in range(35)],
        [f"LicenseRef-{'x' * MAX_JOINED}"],
    ],
    ids=["many", "many with parentheses", "a long one"],
)
def test_an_expression_of_more_licences_than_it_can_show_is_unrecognised(licences, relation):
    assert joined(licences, relation) == UNRECOGNISED
    whole = joined(licences[:20], relation) if len(licences) > 1 else None
    assert whole is None or (UNRECOGNISED not in whole and len(whole) <= MAX_JOINED)


@pytest.mark.parametrize(
    ("licence", "kind"),
    [
        ("MIT", "permissive"),
        ("Apache-2.0 WITH LLVM-exception", "permissive"),
        ("LGPL-2.1-only OR MPL-1.1", "weak copyleft"),
        ("GPL-3.0-or-later WITH Bison-exception-2.2", "weak copyleft"),
        ("MIT AND AGPL-3.0-only", "copyleft"),
        ("MIT OR GPL-3.0-only", "permissive"),
        ("SSPL-1.0", "restricted"),
        (UNRECOGNISED, "unknown"),
        (None, "unknown"),
        ("no expression", "unknown"),
    ],
)
def test_a_licence_is_of_a_kind(licence, kind):
    assert licence_kind(licence) == kind
