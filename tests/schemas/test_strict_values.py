"""Values of YAML files: a wrong kind is refused with its line, never converted in silence."""

import pytest
from pydantic import BaseModel

from schemas.corpus import CorpusSpec
from schemas.diet import Diet, PhasesSpec
from schemas.errors import DietError
from schemas.text import parse

DIET = """\
specialist: mine
corpus: sample
model: tiny
token_budget: 1M
seed: 17
vocab_size: 1024
phases:
  - phase: syntax
    portion: 1.0
    max_repetition: 4
    servings:
      - {family: v3_simple, share: 1.0, domains: {templates: 3}}
"""
CORPUS = """\
name: mine
val_fraction: 0.02
repositories:
  - {name: a, path: a, commit: HEAD, max_commits: 10}
quality: {min_bytes: 100}
"""
PHASES = """\
syntax: {row_length: 4096, rope_base: 500000, families: [v3_simple]}
"""
TEXTS = {"diet": DIET, "corpus": CORPUS, "phases": PHASES}
MODELS: dict[str, type[BaseModel]] = {"diet": Diet, "corpus": CorpusSpec, "phases": PhasesSpec}


def refused(kind: str, before: str, now: str) -> str:
    """The message that refuses a file after one change."""
    text = TEXTS[kind]
    changed = text.replace(before, now, 1)
    assert changed != text
    with pytest.raises(DietError) as error:
        parse(MODELS[kind], changed, file="it.yaml", error=DietError)
    line = next(
        number
        for number, (old, new) in enumerate(
            zip(text.splitlines(), changed.splitlines(), strict=True), 1
        )
        if old != new
    )
    assert f"it.yaml:{line}" in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_files_are_sound_before_a_change(kind: str) -> None:
    assert parse(MODELS[kind], TEXTS[kind], file="it.yaml", error=DietError)


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        ("diet", "seed: 17", 'seed: "17"'),
        ("diet", "seed: 17", "seed: ' 17 '"),
        ("diet", "seed: 17", "seed: 0_1_7"),
        ("diet", "vocab_size: 1024", "vocab_size: '1024'"),
        ("diet", "share: 1.0", "share: '1.0'"),
        ("diet", "templates: 3", "templates: '3'"),
        ("diet", "max_repetition: 4", "max_repetition: '4'"),
        ("corpus", "max_commits: 10", "max_commits: '10'"),
        ("corpus", "val_fraction: 0.02", "val_fraction: '0.02'"),
        ("corpus", "min_bytes: 100", "min_bytes: '100'"),
        ("phases", "row_length: 4096", "row_length: '4096'"),
        ("phases", "row_length: 4096", "row_length: ['4096']"),
        ("phases", "rope_base: 500000", "rope_base: '500000'"),
    ],
)
def test_text_for_a_number_is_refused_with_its_line(kind: str, before: str, now: str) -> None:
    assert "number" in refused(kind, before, now)


@pytest.mark.parametrize("now", ["seed: １７", "seed: ١٧"])
def test_a_number_in_digits_of_another_script_is_refused(now: str) -> None:
    assert "number" in refused("diet", "seed: 17", now)


@pytest.mark.parametrize("budget", ["１M", "١M", "１０_000_000", "1.５M"])
def test_a_budget_in_digits_of_another_script_is_refused(budget: str) -> None:
    assert "token count" in refused("diet", "token_budget: 1M", f"token_budget: {budget}")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("seed: 17", "seed: -1"),
        ("share: 1.0", "share: 0.0000009"),
        ("portion: 1.0", "portion: 1e-7"),
        ("templates: 3", "templates: 1000001"),
        ("templates: 3", "templates: 1e300"),
    ],
)
def test_a_number_out_of_range_is_refused_with_its_line(before: str, now: str) -> None:
    field = now.partition(":")[0]
    assert f"{field} = " in refused("diet", before, now)


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        ("corpus", "commit: HEAD", r'commit: "HE\0AD"'),
        ("corpus", "path: a", r'path: "a\0b"'),
        ("corpus", "path: a", r'url: "file:///a\0b"'),
        ("corpus", "max_commits: 10", r'include: ["a\0b"]'),
        ("diet", "corpus: sample", r'corpus: "sam\0ple"'),
    ],
)
def test_a_nul_is_refused_with_its_line(kind: str, before: str, now: str) -> None:
    assert "NUL" in refused(kind, before, now)


def test_half_a_character_is_refused_with_its_line() -> None:
    assert "lone surrogate" in refused("corpus", "commit: HEAD", r'commit: "HE\ud800AD"')
