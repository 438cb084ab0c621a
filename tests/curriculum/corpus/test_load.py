import pickle
from pathlib import Path

import pytest

from curriculum.corpus.conversations import conversation_paths
from curriculum.corpus.load import corpus_names, corpus_of_repositories, load_corpus
from curriculum.corpus.sources import Sources
from schemas.errors import CorpusError
from tests.error_fields import fields

CORPUS = """
name: mine
repositories:
  - {name: near, path: repos/near}
  - {name: home, path: ~/far}
  - {name: there, path: /abs/there}
  - {name: remote, url: "https://example.org/r.git", since: 2020-01-01}
"""


def test_paths_are_relative_to_the_file_and_home_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "c.yaml").write_text(CORPUS)
    corpus = load_corpus(str(tmp_path / "c.yaml"))
    assert [each.path for each in corpus.repositories] == [
        f"{tmp_path}/repos/near",
        "/home/me/far",
        "/abs/there",
        None,
    ]


def test_every_shipped_corpus_can_be_loaded():
    for name in corpus_names():
        assert load_corpus(name).repositories


def test_a_corpus_that_is_left_out_is_named_by_name_or_by_file(tmp_path):
    (tmp_path / "big.yaml").write_text("name: large\nrepositories: [{name: a, path: /x}]\n")
    file = tmp_path / "c.yaml"
    text = "name: c\nnot_in: [sample, ./big.yaml]\nrepositories: [{name: a, path: /x}]\n"
    file.write_text(text)
    assert load_corpus(str(file)).not_in == ("sample", "large")
    file.write_text(text.replace("big", "gone"))
    with pytest.raises(CorpusError, check=fields(name=tmp_path / "gone.yaml")):
        load_corpus(str(file))
    file.write_text(text.replace("sample", "c"))
    with pytest.raises(CorpusError, match="not_in"):
        load_corpus(str(file))


def test_an_unknown_name_lists_what_there_is(monkeypatch, tmp_path):
    (tmp_path / "sample.yaml").write_text(CORPUS)
    monkeypatch.setattr("curriculum.corpus.load.CORPORA", tmp_path)
    with pytest.raises(CorpusError, match="'sample'"):
        load_corpus("sampel")
    with pytest.raises(CorpusError, match="Available: sample"):
        load_corpus("other")
    assert load_corpus("sample").name == "mine"


def test_a_fault_in_the_file_names_its_line(tmp_path):
    (tmp_path / "c.yaml").write_text(CORPUS + "val_fractoin: 0.5\n")
    with pytest.raises(CorpusError, match=r"c\.yaml:8: .*'val_fraction'"):
        load_corpus(str(tmp_path / "c.yaml"))


@pytest.mark.parametrize(
    ("licence", "message"),
    [
        ("Apachee-2.0", r"c\.yaml:4: .*'Apachee-2.0' isn't an SPDX licence.*'Apache-2.0'"),
        ("MIT/Zlib", r"c\.yaml:4: .*isn't an SPDX expression"),
        ("MIT OR Frob-1.0", r"c\.yaml:4: .*'Frob-1.0'.*LicenseRef-"),
    ],
)
def test_a_licence_that_spdx_lacks_is_named_with_its_line(tmp_path, licence, message):
    near = f"{{name: near, path: repos/near, licence: {licence}}}"
    (tmp_path / "c.yaml").write_text(CORPUS.replace("{name: near, path: repos/near}", near))
    with pytest.raises(CorpusError, match=message):
        load_corpus(str(tmp_path / "c.yaml"))


def test_a_licence_of_the_corpus_takes_its_present_form(tmp_path):
    near = "{name: near, path: repos/near, licence: gpl-2.0+ or LicenseRef-ours}"
    (tmp_path / "c.yaml").write_text(CORPUS.replace("{name: near, path: repos/near}", near))
    first = load_corpus(str(tmp_path / "c.yaml")).repositories[0]
    assert first.licence == "GPL-2.0-or-later OR LicenseRef-ours"


BROKEN = """
name: mine
repositories:
  - name: gone
    licence: MIT
    path: repos/gone
  - name: other
    path: repo
    commit: v9
  - {name: far, url: "file:///nowhere/at/all"}
conversations:
  - name: chats
    path: none.jsonl
"""


def test_every_entry_that_can_t_be_read_names_file_and_line(sample_clone, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(BROKEN.replace("path: repo\n", f"path: {sample_clone}\n"))
    corpus = load_corpus(str(file))
    found = Sources.from_workspace(tmp_path)
    for spec, line in zip(corpus.repositories, (6, 9, 10), strict=True):
        with pytest.raises(CorpusError) as wrong:
            found.resolve(spec)
        assert wrong.value.name == f"{file}:{line}: repository {spec.name}"
    with pytest.raises(CorpusError, match=f"{file}:6: "):
        found.resolve_all(corpus.repositories)
    with pytest.raises(CorpusError) as wrong:
        conversation_paths(corpus.conversations[0])
    assert wrong.value.name == f"{file}:13: conversations chats"
    assert pickle.loads(pickle.dumps(corpus)).repositories[0].title("path").startswith(f"{file}:6")
    assert corpus_of_repositories([tmp_path]).repositories[0].title("path").startswith("repository")


def test_rules_that_a_corpus_names_and_that_are_not_there_name_its_line(tmp_path):
    file = tmp_path / "c.yaml"
    for domains in ("dmains", "./none.yaml"):
        file.write_text(f"{CORPUS}domains: {domains}\n")
        with pytest.raises(CorpusError, match=rf"^{file}:8: domains = "):
            load_corpus(str(file))


def test_a_file_that_is_no_text_says_so(tmp_path):
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError) as refused:
        load_corpus(str(tmp_path / "c.yaml"))
    assert refused.value.name == f"{tmp_path / 'c.yaml'}:1"


def test_repositories_on_the_spot_get_distinct_safe_names():
    paths = ["/a/fmt", "/b/FMT", "/c/fmt.git", "/d/my repo", "/e/ü", "/f/x/.git", "/g/r.bundle"]
    corpus = corpus_of_repositories([Path(path) for path in paths])
    names = [each.name for each in corpus.repositories]
    assert names == ["fmt", "FMT-2", "fmt-3", "my-repo", "repository", "x", "r"]
    assert [each.path for each in corpus.repositories] == paths


def test_no_repository_is_an_error():
    with pytest.raises(CorpusError, check=fields(name="repositories", value="none")):
        corpus_of_repositories([])


def test_a_workspace_has_corpora_of_its_own_by_name(tmp_path):
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "ours.yaml").write_text(CORPUS)
    (tmp_path / "corpora" / "sample.yaml").write_text(CORPUS)
    assert set(corpus_names(tmp_path)) - set(corpus_names()) == {"ours"}
    ours = load_corpus("ours", tmp_path)
    assert ours.repositories[0].path == f"{tmp_path}/corpora/repos/near"
    assert load_corpus("sample", tmp_path).name == "mine", "the shipped one went before"
    with pytest.raises(CorpusError, match=r"workspace.*'ours'"):
        load_corpus("our", tmp_path)
    with pytest.raises(CorpusError, match="shipped", check=fields(value="'ours'")):
        load_corpus("ours")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("{refuse: [GPL-9.9]}", r"c\.yaml:\d+: .*'GPL-9.9'"),
        ("{allow: [XPL-*]}", r"c\.yaml:\d+: .*no SPDX licence matches 'XPL-\*'"),
        ("{allow: [MIT OR Zlib]}", r"c\.yaml:\d+: .*several licences"),
        ("{purpose: sale}", r"c\.yaml:\d+: .*purpose"),
    ],
)
def test_a_faulty_policy_of_licences_is_named_with_its_line(tmp_path, policy, message):
    (tmp_path / "c.yaml").write_text(f"{CORPUS}licences: {policy}\n")
    with pytest.raises(CorpusError, match=message):
        load_corpus(str(tmp_path / "c.yaml"))


def test_a_policy_takes_ids_in_any_form_and_patterns(tmp_path):
    policy = "{purpose: release, allow: [mit, BSD-*], refuse: [gpl-2.0]}"
    (tmp_path / "c.yaml").write_text(f"{CORPUS}licences: {policy}\n")
    licences = load_corpus(str(tmp_path / "c.yaml")).licences
    assert (licences.allow, licences.refuse) == (("MIT", "BSD-*"), ("GPL-2.0-only",))
    assert licences.not_usual() == {
        "licences": {
            "purpose": "release",
            "allow": ["MIT", "BSD-*"],
            "refuse": ["GPL-2.0-only"],
        }
    }
