"""The corpus of public repositories that comes with the package."""

import fnmatch
import re
from urllib.parse import urlsplit

import pytest

from curriculum.corpus.load import load_corpus
from curriculum.mixing.diet_files import diet_names, load_diet
from schemas.corpus import CorpusSpec

SPECIALISTS = tuple(name for name in diet_names() if "." not in name)


@pytest.fixture(scope="module")
def cpp() -> CorpusSpec:
    return load_corpus("cpp")


def test_each_repository_is_a_public_url_at_a_commit_with_licence_and_size(cpp: CorpusSpec) -> None:
    assert len(cpp.repositories) >= 24
    for spec in cpp.repositories:
        url = urlsplit(spec.url or "")
        assert (url.scheme, url.username, url.query) == ("https", None, ""), spec.name
        assert re.fullmatch("[0-9a-f]{40}", spec.commit), spec.name
        assert spec.licence, spec.name
        assert spec.download_megabytes, spec.name


def test_no_repository_stands_twice(cpp: CorpusSpec) -> None:
    urls = [spec.url for spec in cpp.repositories]
    assert len({*urls}) == len(urls)
    commits = [spec.commit for spec in cpp.repositories]
    assert len({*commits}) == len(commits)


def test_all_eight_diets_read_it(cpp: CorpusSpec) -> None:
    names = [spec.name for spec in cpp.repositories]
    assert len(SPECIALISTS) == 8
    for specialist in SPECIALISTS:
        diet = load_diet(specialist)
        assert diet.corpus == cpp.name
        assert diet.model not in (None, "tiny")
        patterns = [
            pattern
            for phase in diet.phases
            for serving in phase.servings or ()
            for pattern in serving.repositories or ()
        ]
        for pattern in patterns:
            parts = pattern.split("|")
            assert any(fnmatch.filter(names, part) for part in parts), (specialist, pattern)
