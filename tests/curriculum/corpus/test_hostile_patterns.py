"""Foreign patterns and YAML files: matching time is bounded, and reading never blocks."""

import os
import time
from pathlib import Path

import pytest

from curriculum.corpus.domains import load_domains
from curriculum.corpus.header_languages import HeaderLanguages
from curriculum.corpus.load import load_corpus
from curriculum.corpus.paths import path_rules
from schemas.corpus import CorpusSpec
from schemas.errors import CorpusError
from tests.error_fields import fields

pytestmark = pytest.mark.timeout(60)
LONG = b"a" * 250 + b".cpp"
DEEP = b"a/" * 2_000 + b"a.cpp"


def corpus(*patterns: str) -> CorpusSpec:
    return CorpusSpec.model_validate(
        {"name": "c", "repositories": [{"name": "a", "path": "/a", "exclude": patterns}]}
    )


def verdicts(*patterns: str) -> list[object]:
    spec = corpus(*patterns)
    rules = path_rules(spec.repositories[0], spec, headers=HeaderLanguages(usual="cpp"))
    return [rules.verdict(path) for path in (LONG, DEEP)]


@pytest.mark.parametrize(
    "pattern",
    ["*a*a*a*a*b.cpp", "*" * 40, "*a" * 40 + "*.cpp", "a/**/a/**/a/**/b.cpp", "**/" * 40 + "b.cpp"],
)
def test_a_pattern_that_tries_a_path_at_each_place_again_is_refused(pattern: str) -> None:
    with pytest.raises(CorpusError, match=r"repository a: exclude: .*stars"):
        verdicts(pattern)


@pytest.mark.parametrize(
    "pattern", ["*a*a*b.cpp", "**/a/**/b.cpp", "**", "**/test/**", "/src/*_test.*", "!*.cpp", "a/"]
)
def test_patterns_in_use_are_tried_on_the_longest_paths_in_seconds(pattern: str) -> None:
    begun = time.process_time()
    assert len(verdicts(pattern)) == 2
    assert time.process_time() - begun < 10


def test_a_name_that_no_file_can_have_is_no_path() -> None:
    spec = corpus()
    rules = path_rules(spec.repositories[0], spec, headers=HeaderLanguages(usual="cpp"))
    assert rules.verdict(b"a" * 255 + b"/x.cpp") != "path"
    assert rules.verdict(b"a" * 256 + b"/x.cpp") == "path"


def test_a_yaml_file_that_is_a_pipe_or_has_no_end_is_refused(tmp_path: Path) -> None:
    pipe, device = tmp_path / "pipe.yaml", tmp_path / "device.yaml"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for file in (pipe, device):
        with pytest.raises(CorpusError, match="regular", check=fields(name=file)):
            load_domains(str(file))
    folder = tmp_path / "corpora"
    folder.mkdir()
    for file in (pipe, device):
        file.rename(folder / file.name)
        with pytest.raises(CorpusError, match="regular", check=fields(name=folder / file.name)):
            load_corpus(file.stem, tmp_path)
