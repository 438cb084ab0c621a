"""Repositories that lead to other files of this machine: refused by name, and nothing of those is read."""

import hashlib
import itertools
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus.sources import resolve
from schemas.corpus import RepositorySpec
from schemas.errors import CorpusError
from tests.bounded import endless
from tests.error_fields import fields

SECRET = "int secret_of_the_owner;\n"
Attack = Callable[[Any, Any], None]


@pytest.fixture
def private(build: Any) -> Any:
    """A repository of the user, packed, that no corpus names."""
    repo = build("private")
    repo.commit("private", secret_cc=SECRET)
    repo.git("repack", "-a", "-d", "--quiet")
    return repo


@pytest.fixture
def hostile(build: Any) -> Any:
    """A repository from elsewhere, whose author may write any file of it."""
    repo = build("hostile")
    repo.commit("public", a_cc="int a;\n")
    return repo


def point_to(folder: Path, target: Path) -> None:
    """Put a link to `target` in the place of a file or a folder."""
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.unlink(missing_ok=True)
    folder.symlink_to(target)


def alternates(hostile: Any, private: Any) -> None:
    place = hostile.path / ".git/objects/info/alternates"
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"{private.path}/.git/objects\n")


def alternates_behind_a_link(hostile: Any, private: Any) -> None:
    alternates(hostile, private)
    place = hostile.path / ".git/objects/info/alternates"
    point_to(place, shutil.copy(place, hostile.path / "elsewhere"))


def objects(hostile: Any, private: Any) -> None:
    point_to(hostile.path / ".git/objects", private.path / ".git/objects")


def packs(hostile: Any, private: Any) -> None:
    point_to(hostile.path / ".git/objects/pack", private.path / ".git/objects/pack")


def each_pack(hostile: Any, private: Any) -> None:
    for pack in (private.path / ".git/objects/pack").iterdir():
        point_to(hostile.path / ".git/objects/pack" / pack.name, pack)


def loose_objects(hostile: Any, private: Any) -> None:
    packed = [*(private.path / ".git/objects/pack").iterdir()]
    pack = next(each.read_bytes() for each in packed if each.suffix == ".pack")
    for each in packed:
        each.unlink()
    private.git("unpack-objects", "-q", stdin=pack)
    for folder in (private.path / ".git/objects").glob("??"):
        point_to(hostile.path / ".git/objects" / folder.name, folder)


def git_folder(hostile: Any, private: Any) -> None:
    point_to(hostile.path / ".git", private.path / ".git")


def git_file(hostile: Any, private: Any) -> None:
    shutil.rmtree(hostile.path / ".git")
    (hostile.path / ".git").write_text(f"gitdir: {private.path}/.git\n")


def git_file_of_another_work_tree(hostile: Any, private: Any) -> None:
    private.git("worktree", "add", "--quiet", "--detach", str(private.path.parent / "linked"))
    shutil.rmtree(hostile.path / ".git")
    (hostile.path / ".git").write_text(f"gitdir: {private.path}/.git/worktrees/linked\n")


def common_folder(hostile: Any, private: Any) -> None:
    (hostile.path / ".git/commondir").write_text(f"{private.path}/.git\n")


def work_tree_of_its_own_account(hostile: Any, private: Any) -> None:
    """The folder behind `.git` names the work tree back, but the private one doesn't name that folder."""
    (hostile.path / ".git").rename(hostile.path / "inner")
    (hostile.path / ".git").write_text("gitdir: inner\n")
    (hostile.path / "inner/gitdir").write_text(f"{hostile.path}/.git\n")
    (hostile.path / "inner/commondir").write_text(f"{private.path}/.git\n")


def refs(hostile: Any, private: Any) -> None:
    alternates(hostile, private)
    point_to(hostile.path / ".git/refs", private.path / ".git/refs")


ATTACKS = [
    alternates, alternates_behind_a_link, objects, packs, each_pack, loose_objects, git_folder, git_file,
    git_file_of_another_work_tree, common_folder, work_tree_of_its_own_account, refs,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_repository_cannot_lead_to_the_objects_of_another(
    hostile: Any, private: Any, read: Any, attack: Attack
) -> None:
    stolen = private.ids[0]
    attack(hostile, private)
    assert f"{hostile.git('show', f'{stolen}:secret.cc')}\n" == SECRET, "git reads the secret"
    with pytest.raises(CorpusError) as refused:
        read(hostile.path, commit=stolen)
    assert refused.value.name == "repository repo"
    assert str(refused.value.value).startswith(str(hostile.path))
    assert "secret" not in str(refused.value)


def moved_packs(index: bytes, folder: Path) -> bytes:
    """An index of many packs whose packs lie in another folder."""
    chunks = index[6]
    table = [struct.unpack(">4sQ", index[12 + 12 * i : 24 + 12 * i]) for i in range(chunks + 1)]
    bodies = {
        name: index[start:end]
        for (name, start), (_, end) in itertools.pairwise(table)
    }  # fmt: skip
    names = [f"{folder}/".encode() + each for each in bodies[b"PNAM"].split(b"\0") if each]
    packed = b"".join(each + b"\0" for each in sorted(names))
    bodies[b"PNAM"] = packed + b"\0" * (-len(packed) % 4)
    at, head, rest = 12 + 12 * (chunks + 1), b"", b""
    for name, body in bodies.items():
        head += struct.pack(">4sQ", name, at + len(rest))
        rest += body
    head += struct.pack(">4sQ", b"\0" * 4, at + len(rest))
    whole = index[:12] + head + rest
    return whole + hashlib.sha1(whole).digest()


def index_of_elsewhere(hostile: Any, private: Any) -> None:
    place = private.path / ".git/objects/pack"
    private.git("multi-pack-index", "write")
    ours = hostile.path / ".git/objects/pack"
    climbed = Path(os.path.relpath(place, ours))  # noqa: TID251
    index = moved_packs((place / "multi-pack-index").read_bytes(), climbed)
    (ours / "multi-pack-index").write_bytes(index)


def test_an_index_of_many_packs_cannot_name_a_pack_of_another_repository(
    hostile: Any, private: Any, read: Any
) -> None:
    index_of_elsewhere(hostile, private)
    stolen = private.ids[0]
    assert f"{hostile.git('show', f'{stolen}:secret.cc')}\n" == SECRET, "git reads the secret"
    with pytest.raises(CorpusError, check=fields(value=f"commit = {stolen!r}")):
        read(hostile.path, commit=stolen)


@pytest.mark.parametrize("attack", [*ATTACKS, index_of_elsewhere])
@pytest.mark.parametrize("form", ["file://{}", "{}", "file://localhost{}"])
def test_a_clone_does_not_copy_what_a_repository_borrows(
    hostile: Any, private: Any, tmp_path: Path, form: str, attack: Attack
) -> None:
    attack(hostile, private)
    for branch in ("main", "stolen"):
        hostile.git("update-ref", f"refs/heads/{branch}", private.ids[0])
    hostile.git("clone", "-q", "--bare", f"file://{hostile.path}", f"{tmp_path}/plain.git")
    assert hostile.git("-C", f"{tmp_path}/plain.git", "show", "stolen:secret.cc") in SECRET
    spec = RepositorySpec(name="repo", url=form.format(hostile.path), commit="stolen")
    with pytest.raises(CorpusError) as refused:
        resolve(spec, cache=tmp_path / "cache")
    assert str(refused.value.value).startswith(str(hostile.path))
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("form", ["file://{}", "{}", "file://localhost{}"])
def test_a_file_that_names_a_repository_is_not_cloned(
    private: Any, tmp_path: Path, form: str
) -> None:
    (tmp_path / "named").write_text(f"gitdir: {private.path}/.git\n")
    url = form.format(tmp_path / "named")
    private.git("clone", "-q", "--bare", url, f"{tmp_path}/plain.git")
    with pytest.raises(CorpusError, match="`path:`", check=fields(value=url)):
        resolve(RepositorySpec(name="repo", url=url), cache=tmp_path / "cache")


def test_a_repository_beside_a_bundle_is_not_cloned_in_its_place(
    hostile: Any, private: Any, tmp_path: Path
) -> None:
    """Git looks for a.bundle.git before it looks at a.bundle."""
    bundle = tmp_path / "a.bundle"
    hostile.git("bundle", "create", "-q", str(bundle), "--all")
    (tmp_path / "a.bundle.git").symlink_to(private.path / ".git")
    hostile.git("clone", "-q", "--bare", str(bundle), f"{tmp_path}/plain.git")
    theirs = f"{tmp_path}/plain.git"
    assert hostile.git("-C", theirs, "rev-parse", "HEAD") == private.ids[0], "git takes the other"
    found = resolve(RepositorySpec(name="repo", path=str(bundle)), cache=tmp_path / "cache")
    assert found.commit == hostile.ids[0]


@pytest.mark.parametrize(
    "name", ["HEAD", "config", "packed-refs", "shallow", "commondir", "refs/heads/main"]
)
def test_a_link_among_the_files_of_a_repository_discloses_nothing(
    hostile: Any, read: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / "id_rsa").write_text("BEGIN OPENSSH PRIVATE KEY of the user\n")
    point_to(hostile.path / ".git" / name, tmp_path / "id_rsa")
    assert "OPENSSH" in (hostile.path / ".git" / name).read_text(), "the link leads there"
    with pytest.raises(CorpusError) as refused:
        read(hostile.path)
    assert name.partition("/")[2] or name in str(refused.value)
    assert "OPENSSH" not in str(refused.value)


@pytest.mark.parametrize("name", ["HEAD", "config", "shallow", "commondir", "../.git"])
def test_what_the_files_of_a_repository_hold_is_no_part_of_an_error(
    hostile: Any, read: Any, name: str
) -> None:
    if name == "../.git":
        shutil.rmtree(hostile.path / ".git")
        hostile.write(".git", "gitdir: \x1b]0;title\x07\n")
    else:
        (hostile.path / ".git" / name).write_text("[extensions \x1b]0;title\x07\n")
    with pytest.raises(CorpusError) as refused:
        read(hostile.path)
    assert "title" not in str(refused.value)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["HEAD", "config", "shallow", "commondir", "objects/ab/cd"])
def test_a_pipe_among_the_files_of_a_repository_does_not_hang(
    hostile: Any, read: Any, name: str
) -> None:
    place = hostile.path / ".git" / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(CorpusError):
        read(hostile.path)
    with endless(seconds=0.3):
        place.read_bytes()


def test_a_loop_of_links_is_refused(hostile: Any, read: Any) -> None:
    (hostile.path / "loop").symlink_to("loop")
    for place, prefix in ((".git/commondir", ""), (".git", "gitdir: ")):
        if place == ".git":
            shutil.rmtree(hostile.path / ".git")
        (hostile.path / place).write_text(f"{prefix}{hostile.path}/loop/x\n")
        with pytest.raises(CorpusError):
            read(hostile.path)


def test_a_work_tree_a_submodule_and_a_linked_path_are_read(
    hostile: Any, build: Any, read: Any, tmp_path: Path
) -> None:
    """The kinds of repositories that users have: each names its parts in both directions."""
    outer = build("outer")
    outer.git("submodule", "--quiet", "add", str(hostile.path), "sub")
    hostile.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    (tmp_path / "by_link").symlink_to(tmp_path / "linked")
    for path in (outer.path / "sub", tmp_path / "linked", tmp_path / "by_link"):
        assert [each.path for each in read(path)[0]] == ["a.cc"]


def test_a_clone_that_borrows_can_be_made_whole(hostile: Any, read: Any, tmp_path: Path) -> None:
    hostile.git("clone", "--quiet", "--shared", ".", str(tmp_path / "shared"))
    with pytest.raises(CorpusError, match="repack -a -d") as refused:
        read(tmp_path / "shared")
    hostile.git("-C", str(tmp_path / "shared"), "repack", "-a", "-d", "--quiet")
    Path(str(refused.value.value)).unlink()
    shutil.rmtree(hostile.path)
    assert [each.path for each in read(tmp_path / "shared")[0]] == ["a.cc"]


def test_a_repository_with_its_folder_apart_is_read_by_that_folder(
    hostile: Any, read: Any, tmp_path: Path
) -> None:
    hostile.git("clone", "-q", "--separate-git-dir", str(tmp_path / "apart"), ".", f"{tmp_path}/w")
    with pytest.raises(
        CorpusError, match="worktree repair", check=fields(value=tmp_path / "w/.git")
    ):
        read(tmp_path / "w")
    assert [each.path for each in read(tmp_path / "apart")[0]] == ["a.cc"]


def test_a_folder_too_deep_to_list_refuses_the_repository(hostile: Any, read: Any) -> None:
    refs = hostile.path / ".git" / "refs"
    at = os.open(refs, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("x" * 200, dir_fd=at)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    with pytest.raises(CorpusError) as refused:
        read(hostile.path)
    assert str(refused.value.value) == str(refs)
