"""Errors of several sources are one error that names each source."""

from curriculum.corpus.source_errors import combine_errors
from schemas.errors import CorpusError


def test_a_source_that_says_much_hides_no_other() -> None:
    names = [f"repository {number}" for number in range(4)]
    failed = [CorpusError(name, "x" * 10**6, cause="y" * 10**6, cure="Mend it") for name in names]
    words = str(combine_errors(failed))
    assert len(words) < 11_000
    assert [name for name in names if name not in words] == []
