"""Each url means the same to git and to us: a folder of this machine, another machine, or nothing."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from curriculum.corpus import git
from curriculum.corpus.clone_urls import file_url, local_folder
from curriculum.corpus.sources import resolve
from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError
from tests.curriculum.corpus.conftest import Built

Meaning = Literal["local", "other machine", "nothing"]

FORMS: list[tuple[str, Meaning, Meaning]] = [
    # The url, what git makes of it, and what we do: the same, or nothing.
    ("{root}/r", "local", "local"),
    ("{root}/r%41b", "local", "local"),
    ("file://{root}/r", "local", "local"),
    ("file://localhost{root}/r", "local", "local"),
    ("file:///{root}/r", "local", "local"),
    ("file://{root}/%72", "local", "local"),
    ("file://{root}/r%2541b", "local", "local"),
    ("file://{root}/r?q#f", "local", "local"),
    ("file://127.0.0.1{root}/r", "local", "nothing"),
    ("file://elsewhere{root}/r", "local", "nothing"),
    ("file://[::1]{root}/r", "local", "nothing"),
    ("file://%2F{relative}/r", "local", "nothing"),
    ("{relative}/r", "local", "nothing"),
    ("./{relative}/r", "local", "nothing"),
    ("~/r", "nothing", "nothing"),
    ("file://", "nothing", "nothing"),
    ("file://{root}/r%00", "nothing", "nothing"),
    ("FILE://{root}/r", "nothing", "nothing"),
    ("HTTP://127.0.0.1:1/r", "nothing", "nothing"),
    ("ftp://127.0.0.1:1/r", "nothing", "nothing"),
    ("file::{root}/r", "nothing", "nothing"),
    ("ext::true", "nothing", "nothing"),
    ("file:{root}/r", "other machine", "nothing"),
    ("file:r", "other machine", "nothing"),
    ("git+ssh://example.invalid/r", "other machine", "nothing"),
    ("ssh://example.invalid{root}/r", "other machine", "other machine"),
    ("git@example.invalid:{relative}/r", "other machine", "other machine"),
    ("example.invalid:{root}/r", "other machine", "other machine"),
    ("http://127.0.0.1:1{root}/r", "other machine", "other machine"),
    ("git://127.0.0.1:1{root}/r", "other machine", "other machine"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repositories under names that an encoded url may mean."""
    root = tmp_path_factory.mktemp("places")
    for name in ("r", "r%41b", "r?q#f"):
        (root / name).mkdir()
        built = Built(path=root / name)
        built.git("init", "-q", "-b", "main")
        built.git("commit", "-q", "--allow-empty", "-m", name)
    return root


def _url(form: str, places: Path) -> str:
    return form.format(root=places, relative=places.relative_to("/"))


def _meaning_to_git(url: str, clone: Path, *, seconds: int = 60) -> Meaning:
    """Clone as we do, with an ssh that only says that it was asked; a clone that waits is ended."""
    clone_words = ("clone", "--quiet", "--bare", "--template=", "--", url, str(clone))
    words = ["timeout", "--kill-after=1", str(seconds), *git.command(*clone_words)]
    ours = {**git.ENVIRONMENT, "GIT_ALLOW_PROTOCOL": git.TRANSPORTS}
    asked = {**ours, "PATH": os.environ["PATH"], "GIT_SSH_COMMAND": "echo asked ssh >&2; false"}
    done = subprocess.run(words, env=asked, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "local"
    is_other = any(word in done.stderr for word in ("asked ssh", "127.0.0.1 port", "127.0.0.1[0"))
    return "other machine" if is_other else "nothing"


def _meaning_to_us(url: str) -> Meaning:
    try:
        return "other machine" if local_folder(_pin(url)) is None else "local"
    except CorpusError:
        return "nothing"


def _pin(url: str) -> RepositorySpec:
    return RepositorySpec(name="repo", url=url)


@pytest.mark.parametrize(("form", "to_git", "to_us"), FORMS)
def test_a_url_is_local_to_git_and_to_us_or_refused(
    places: Path, tmp_path: Path, form: str, to_git: Meaning, to_us: Meaning
) -> None:
    url = _url(form, places)
    assert (_meaning_to_git(url, tmp_path / "clone.git"), _meaning_to_us(url)) == (to_git, to_us)
    if to_us == "local":
        folder = local_folder(_pin(url))
        assert folder is not None
        assert _meaning_to_git(file_url(folder), tmp_path / "again.git") == "local"
        heads = [
            (tmp_path / name / "packed-refs").read_text() for name in ("clone.git", "again.git")
        ]
        assert heads[0] == heads[1]


@pytest.mark.parametrize("form", [form for form, _, to_us in FORMS if to_us == "nothing"])
def test_a_url_of_no_known_form_is_refused_by_name_before_git_is_asked(
    places: Path, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "transfer", lambda *_: pytest.fail("git was asked"))
    with pytest.raises(CorpusError) as refused:
        resolve(_pin(_url(form, places)), cache=tmp_path / "cache")
    assert refused.value.name == "repository repo"
    assert "file:///absolute/path" in (refused.value.cure or "")
    assert not (tmp_path / "cache").exists()


def test_a_url_with_encoded_letters_is_cloned_from_the_folder_that_it_names(
    places: Path, tmp_path: Path
) -> None:
    found = resolve(_pin(f"file://{places}/r%2541b"), cache=tmp_path / "cache")
    assert found.commit == resolve(_pin(f"{places}/r%41b"), cache=tmp_path / "cache").commit


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    for url in ("https://bob:s3cret@example.org/x.git", "http://bob:s3@cret@example.org/x"):
        with pytest.raises(CorpusError) as refused:
            local_folder(RepositorySpec(name="x", url=url, licence="MIT"))
        assert "s3" not in str(refused.value)
    named = RepositorySpec(name="x", url="https://bob@example.org/x.git", licence="MIT")
    assert local_folder(named) is None


def _unparsable(file: Path) -> None:
    file.write_text("[not a config")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [_unparsable, os.mkfifo])
@pytest.mark.parametrize("form", ["{path}", "file://{path}"])
def test_the_config_of_a_local_repository_and_what_it_includes_are_not_read(
    tmp_path: Path, form: str, make: Callable[[Path], None]
) -> None:
    built = Built(path=tmp_path / "r")
    built.path.mkdir()
    built.git("init", "-q", "-b", "main")
    built.git("commit", "-q", "--allow-empty", "-m", "first")
    tip = built.git("rev-parse", "HEAD")
    url = form.format(path=built.path)
    assert _meaning_to_git(url, tmp_path / "before.git") == "local"
    make(tmp_path / "included")
    with (built.path / ".git/config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path / 'included'}\n")
    spec = RepositorySpec(name="r", url=url, licence="MIT")
    assert resolve(spec, cache=tmp_path / "cache").commit == tip
    # A clone of the folder itself reads the included file: it fails, or waits for the pipe.
    assert _meaning_to_git(url, tmp_path / "plain.git", seconds=2) == "nothing"
