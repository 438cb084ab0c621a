import hashlib
from pathlib import Path
from typing import Any

from curriculum.corpus.history import SampledCommits, iterate_changes, open_history
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.survey import Survey, sample_commits, survey
from schemas.change import FileChange
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec

TEXT = "int value_{0}() {{\n  return {0};\n}}\n"


def looked_over(
    path: Path, chosen: Any = None, **rules: Any
) -> tuple[Survey, list[FileChange], list[FileChange]]:
    """The survey, all changes, and those of the chosen commits."""
    spec = RepositorySpec(name="repo", path=str(path), **rules.pop("pin", {}))
    quality = rules.pop("quality", QualitySpec(min_bytes=0))
    corpus = CorpusSpec(name="c", repositories=(spec,), quality=quality, **rules)
    source = resolve(spec, cache=path / "cache")
    assert source.layout is not None
    with open_history(source.layout, source, spec, corpus, Skips()) as past:
        found = survey(past, spec, source.commit)
        every = list(iterate_changes(past, spec, Skips()))
        sampled = SampledCommits(commits=chosen or found.commits, marks=found.marks)
        some = list(iterate_changes(past, spec, Skips(), sampled))
    return found, every, some


def test_a_survey_knows_the_bytes_that_reading_gives(build: Any) -> None:
    repository = build()
    for number in range(5):
        repository.commit(a_cc=TEXT.format(number) * (number + 1))
    repository.commit(b_h="struct B {};\n", note_txt="not read")
    found, every, _ = looked_over(repository.path)
    sizes = {each.commit: len(each.after.text) for each in every if each.after}
    versions = dict(found.changes.select("commit", "versions").iter_rows())
    edits = dict(found.changes.select("commit", "edits").iter_rows())
    assert versions == sizes
    assert found.commits == repository.ids
    assert edits == {**sizes, repository.ids[0]: 0, repository.ids[5]: 0}
    assert found.tree_bytes == len(TEXT.format(4) * 5) + len("struct B {};\n")


def test_a_version_before_the_cap_counts_once(build: Any) -> None:
    repository = build()
    for number in range(6):
        repository.commit(a_cc=TEXT.format(number) * 2)
    found, every, _ = looked_over(repository.path, history=HistorySpec(versions_per_path=3))
    assert found.commits == repository.ids[3:] == [each.commit for each in every]
    size = len(TEXT.format(1) * 2)
    assert found.changes["versions"].to_list() == [2 * size, size, size]
    assert [each.before_is_new for each in every] == [True, False, False]


def test_a_survey_counts_what_git_log_has_more(build: Any) -> None:
    repository = build()
    for number in range(5):
        repository.commit(a_cc=TEXT.format(number) * 2)
    repository.commit(note_txt="not read")
    found, _, _ = looked_over(repository.path, history=HistorySpec(versions_per_path=3))
    assert len(found.commits) == 3
    assert found.in_log == 6
    assert found.unread == {"versions": 2, "no_file": 1}


def test_a_survey_counts_commits_by_what_limits_them(build: Any) -> None:
    repository = build()
    for number in range(6):
        repository.commit(a_cc=TEXT.format(number) * 2)
    repository.commit(note_txt="not read")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit(deps__d_cc=TEXT.format(7) * 2)
    repository.git("checkout", "-q", "-")
    repository.commit(b_cc=TEXT.format(8) * 2)
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", "side")
    history = HistorySpec(versions_per_path=3)
    found, _, _ = looked_over(repository.path, history=history)
    assert len(found.commits) == 4
    assert found.unread == {"versions": 3, "no_file": 1, "vendored": 1, "merges": 1}
    assert found.in_log == len(found.commits) + sum(found.unread.values())
    few, _, _ = looked_over(repository.path, history=history, pin={"max_commits": 2})
    assert few.unread["max_commits"] == 7
    assert few.in_log == len(few.commits) + sum(few.unread.values())


def test_what_is_left_out_for_its_size_counts_nothing(build: Any) -> None:
    repository = build()
    repository.commit(a_cc=TEXT.format(1), b_cc="int b;\n")
    found, _, _ = looked_over(repository.path, quality=QualitySpec(min_bytes=20))
    assert sorted(found.changes["versions"]) == [0, len(TEXT.format(1))]


def test_a_sample_reads_its_commits_as_they_are_read_among_all(build: Any) -> None:
    repository = build()
    for number in range(8):
        repository.commit(a_cc=TEXT.format(number), b_cc=TEXT.format(number % 3))
    chosen = repository.ids[2::3]
    _, every, some = looked_over(repository.path, chosen)
    assert len(some) >= 3
    assert some == [each for each in every if each.commit in chosen]


def test_a_sample_is_the_beginning_of_a_larger_one_and_keeps_its_commits() -> None:
    commits = [hashlib.sha1(str(n).encode()).hexdigest() for n in range(1000)]
    small, large = (
        sample_commits(commits, 0.01, min_count=5),
        sample_commits(commits, 0.1, min_count=5),
    )
    assert (len(small), len(large)) == (10, 100)
    assert large[:10] == small == sample_commits(reversed(commits), 0.01, min_count=5)
    assert len(sample_commits(commits, 0.001, min_count=64)) == 64
    assert sorted(sample_commits(commits[:20], 0.01, min_count=64)) == sorted(commits[:20])
    more = sample_commits([*commits, "another"], 0.1, min_count=5)
    assert len(set(large) - set(more)) <= 1
