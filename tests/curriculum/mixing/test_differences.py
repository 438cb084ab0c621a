from curriculum.mixing.diet_files import load_diet, load_phases
from curriculum.mixing.differences import changes, fields
from curriculum.mixing.resolve import resolve
from schemas.diet import Diet
from schemas.study import Study

BEFORE = load_diet("templates.demo")
PHASES = load_phases("phases.demo")


def without_last_serving(diet: Diet) -> Diet:
    """The first phase serves its first family alone, tests three times as often."""
    first = diet.phases[0]
    only = first.servings[0].model_copy(update={"share": 1.0, "domains": {"*": 1, "testing": 3}})
    phase = first.model_copy(update={"servings": (only,), "max_repetition": 9.0})
    return diet.model_copy(update={"phases": (phase, *diet.phases[1:]), "model": "other"})


def test_a_diet_does_not_differ_from_itself() -> None:
    phases = resolve(BEFORE, PHASES)
    listed = list(changes(phases, phases))
    assert len(listed) == sum(len(phase.servings) for phase in phases)
    assert {each.tokens_change for each in listed} == {0}
    assert list(fields((BEFORE, BEFORE), phases, phases)) == []


def test_what_differs_is_told_in_tokens() -> None:
    after = without_last_serving(BEFORE)
    old, new = resolve(BEFORE, PHASES), resolve(after, PHASES)
    listed = list(changes(old, new))
    syntax = [each for each in listed if each.phase == "syntax"]
    assert len(syntax) == 4
    assert syntax[-1].domains == "testing 3, * 1"
    assert (syntax[-1].tokens_before, syntax[-1].tokens_after) == (0, old[0].tokens)
    assert sum(each.tokens_change for each in syntax) == 0
    assert {each.tokens_change for each in listed if each.phase != "syntax"} == {0}


def test_a_serving_that_scores_all_lines_is_another_serving() -> None:
    first = BEFORE.phases[0]
    serving = first.servings[0].model_copy(update={"score": "all"})
    phase = first.model_copy(update={"servings": (serving, *first.servings[1:])})
    after = BEFORE.model_copy(update={"phases": (phase, *BEFORE.phases[1:])})
    listed = changes(resolve(BEFORE, PHASES), resolve(after, PHASES))
    differing = [each for each in listed if each.tokens_change]
    assert [each.score for each in differing if each.phase == first.phase] == ["new", "all"]


def test_what_differs_beside_tokens_is_told_by_field() -> None:
    after = without_last_serving(BEFORE)
    found = list(fields((BEFORE, after), resolve(BEFORE, PHASES), resolve(after, PHASES)))
    assert [(each.name, each.before, each.after) for each in found] == [
        ("model", "tiny", "other"),
        ("syntax.max_repetition", "4.0", "9.0"),
    ]


def test_a_study_is_a_difference_beside_tokens() -> None:
    phases = resolve(BEFORE, PHASES)
    after = BEFORE.model_copy(update={"study": Study(positions="continue")})
    (found,) = fields((BEFORE, after), phases, phases)
    assert (found.name, found.before, found.after) == ("study", "none", "positions continue")


def test_a_phase_that_only_one_has_is_listed_with_nothing_on_the_other_side() -> None:
    old = resolve(BEFORE, PHASES)
    listed = [each for each in changes(old, old[:1]) if each.phase == "structure"]
    assert listed
    assert {each.tokens_after for each in listed} == {0}
    assert all(each.tokens_before for each in listed)
