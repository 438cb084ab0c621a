"""A workspace that another user of the machine can change is neither made nor trusted."""

import grp
import inspect
import os
import pwd
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from curriculum.exposure import ACCESS_LIST, DEFAULT_LIST, claim, exposure, exposure_below
from curriculum.mixing.diet_files import PACKAGE
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from flows import settings
from flows.settings import SettingError, prefect_variables, trust
from flows.settings.contexts import trainer_command
from schemas.errors import StoreError
from tests.flows.cli_runner import curriculum

NOBODY = 65534
WRONG = 2
as_root = pytest.mark.skipif(os.getuid() != 0, reason="gives folders to another user")


@pytest.fixture(autouse=True)
def _nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST")
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    return folder


def _give_away(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)


def _open_to_all(folder: Path) -> None:
    folder.chmod(0o777)


def _let_all_add(folder: Path) -> None:
    folder.chmod(0o1777)


def _open_to_a_team(folder: Path) -> None:
    os.chown(folder, -1, NOBODY)
    folder.chmod(0o775)


def _set_list(folder: Path, name: str, *, theirs: int, mask: int = 7) -> None:
    """Set an access control list that grants another user rights; a mask limits them."""
    me, nobody = 0xFFFFFFFF, NOBODY
    entries = ((1, 7, me), (2, theirs, nobody), (4, 5, me), (16, mask, me), (32, 5, me))
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(folder, name, struct.pack("<I", 2) + packed)
    except OSError:
        pytest.skip("this file system has no access control lists")


def _list_another_user(folder: Path) -> None:
    """Let one more user write by an access control list; only the bits of the group show it."""
    _set_list(folder, ACCESS_LIST, theirs=7)
    assert folder.stat().st_mode & 0o077 == 0o075


def _list_another_user_by_default(folder: Path) -> None:
    """Let one more user write to what is made in a folder, whatever the umask is."""
    _set_list(folder, DEFAULT_LIST, theirs=7)
    assert folder.stat().st_mode & 0o077 == 0o055


WRITABLE = [
    _list_another_user,
    pytest.param(_give_away, marks=as_root),
    _open_to_all,
    pytest.param(_open_to_a_team, marks=as_root),
]
EXPOSING = [*WRITABLE, _list_another_user_by_default]


@pytest.mark.parametrize("expose", EXPOSING)
def test_an_empty_folder_that_others_can_change_is_not_new(
    shared: Path, expose: Callable[[Path], None]
) -> None:
    assert trust.is_new(shared)
    expose(shared)
    refused = curriculum("diet", "check", "templates.demo", "--home", str(shared))
    assert refused.returncode == WRONG
    assert f"{shared}: " in refused.stderr
    assert "chown" in refused.stderr
    assert [*shared.iterdir()] == []


@as_root
def test_a_diet_of_the_owner_of_an_empty_folder_never_runs(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give_away(shared)
    curriculum("diet", "check", "templates.demo", "--home", str(shared))
    fired = tmp_path / "fired"
    diet = shared / "diets" / "templates.demo.yaml"
    diet.parent.mkdir()
    shipped = (PACKAGE / "diets" / diet.name).read_text().replace("../", f"{PACKAGE}/")
    command = f"touch {fired} {{job}}.touched"
    diet.write_text(f"{shipped}\ntrainer: {{command: '{command}'}}\n")
    for words in (("run", "templates.demo"), ("trust",)):
        place = (str(shared),) if words == ("trust",) else ("--home", str(shared))
        refused = curriculum(*words, *place)
        assert (refused.returncode, "another user" in refused.stderr) == (WRONG, True)
    assert not fired.exists()
    assert not trust.is_trusted(shared)
    monkeypatch.setenv("CURRICULUM_TRUST", str(shared))
    config = RunConfig.of(specialist="templates.demo", workspace=settings.home(shared))
    assert trainer_command(resolve_plan(config, dry=True)) == command, "the diet would run it"


@pytest.mark.parametrize("expose", EXPOSING)
def test_a_workspace_is_trusted_no_more_once_others_can_change_it(
    shared: Path, expose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    trust.make_trusted(shared)
    assert trust.is_trusted(shared)
    expose(shared)
    assert not trust.is_trusted(shared)
    with pytest.raises(StoreError) as refused:
        trust.trust(shared)
    assert refused.value.name == str(shared)
    monkeypatch.setenv("CURRICULUM_TRUST", str(shared))
    assert trust.is_trusted(shared)


@pytest.mark.parametrize("expose", EXPOSING)
def test_a_workspace_below_a_folder_that_others_can_change_is_not_new(
    shared: Path, expose: Callable[[Path], None]
) -> None:
    home = shared / "mine"
    expose(shared)
    assert not trust.is_new(home)
    refused = curriculum("init", "mine", "--home", str(home))
    assert (refused.returncode, str(shared) in refused.stderr) == (WRONG, True)
    assert not home.exists()


def test_a_folder_that_another_user_makes_first_is_not_trusted(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the place and the first write."""
    home, made = shared / "mine", Store.open

    def open_late(store: Store) -> None:
        home.mkdir()
        home.chmod(0o777)
        made(store)

    monkeypatch.setattr(Store, "open", open_late)
    with pytest.raises(StoreError):
        trust.make_trusted(home)
    assert not trust.is_trusted(home)


def test_folders_below_a_shared_one_with_the_sticky_bit_are_their_owners(shared: Path) -> None:
    shared.chmod(0o1777)
    assert exposure(shared / "mine") is not None, "others may make it first"
    claim(shared / "mine" / "home")
    assert [*shared.rglob("*")] == [shared / "mine"]
    assert exposure(shared / "mine" / "home") is None
    assert exposure(shared) is not None, "others may add files to the folder itself"


@pytest.mark.parametrize("expose", WRITABLE)
def test_slots_whose_records_others_can_rename_are_refused(
    shared: Path, expose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old record that is put back would end the run that it names."""
    monkeypatch.setenv("CURRICULUM_SLOTS", str(shared / "slots"))
    assert settings.slots_folder() == shared / "slots"
    expose(shared)
    for place in (shared, shared / "slots"):
        monkeypatch.setenv("CURRICULUM_SLOTS", str(place))
        with pytest.raises(SettingError) as refused:
            settings.slots_folder()
        assert refused.value.name == "$CURRICULUM_SLOTS"


def test_slots_that_others_could_write_to_once_made_are_refused(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _list_another_user_by_default(shared)
    monkeypatch.setenv("CURRICULUM_SLOTS", str(shared / "slots"))
    with pytest.raises(SettingError):
        settings.slots_folder()


def test_slots_lie_in_a_shared_folder_with_the_sticky_bit(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.chmod(0o1777)
    monkeypatch.setenv("CURRICULUM_SLOTS", str(shared))
    assert settings.slots_folder() == shared


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False), (0o700, False)])
def test_temporary_folders_that_others_could_replace_are_refused(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, refused: bool
) -> None:
    shared.chmod(mode)
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    if not refused:
        assert settings.home(tmp_path / "home") == tmp_path / "home"
        return
    with pytest.raises(StoreError) as found:
        settings.home(tmp_path / "home")
    assert (found.value.name, found.value.value) == ("$TMPDIR", shared)
    monkeypatch.setenv("CURRICULUM_TRUST", str(tmp_path))
    assert settings.home(tmp_path / "home") == tmp_path / "home"


def test_a_group_of_its_owner_alone_may_write(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On systems with a group per user, the umask is 002."""
    shared.chmod(0o775)
    owner = pwd.getpwuid(os.getuid()).pw_name

    def group(members: list[str]) -> grp.struct_group:
        return grp.struct_group((owner, "x", shared.stat().st_gid, members))

    monkeypatch.setattr(grp, "getgrgid", lambda _: group([]))
    assert exposure(shared) is None
    monkeypatch.setattr(grp, "getgrgid", lambda _: group([owner, "another"]))
    assert exposure(shared) is not None
    # The list of members lacks whoever has the group as the first one.
    monkeypatch.setattr(grp, "getgrgid", lambda _: group([]))
    known = pwd.getpwall()
    other = pwd.struct_passwd(("another", "x", 4242, shared.stat().st_gid, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [*known, other])
    assert exposure(shared) is not None


@pytest.fixture
def planted_link(tmp_path: Path) -> Path:
    """A link to a trusted workspace, in a folder such as /tmp."""
    sticky, mine = tmp_path / "sticky", tmp_path / "mine"
    sticky.mkdir()
    sticky.chmod(0o1777)
    mine.mkdir()
    trust.make_trusted(mine)
    link = sticky / "workspace"
    link.symlink_to(mine)
    return link


@as_root
@pytest.mark.parametrize("links", [1, 2])
def test_a_workspace_behind_a_link_of_another_user_is_refused(
    planted_link: Path, tmp_path: Path, links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could lead the link elsewhere after it was looked at."""
    mine, home = tmp_path / "mine", planted_link
    if links == 2:
        home = tmp_path / "own"
        home.symlink_to(planted_link)
    assert settings.home(home) == mine
    os.lchown(planted_link, NOBODY, NOBODY)
    with pytest.raises(SettingError) as refused:
        settings.home(home)
    assert (refused.value.name, str(mine) in refused.value.cure) == (str(home), True)
    assert settings.home(mine) == mine, "the cure"
    monkeypatch.setenv("CURRICULUM_TRUST", str(mine))
    assert settings.home(home) == mine


@as_root
@pytest.mark.parametrize(
    "words", ["init a --home {link}", "status --home {link}", "trust {link}", "merge {link}"]
)
def test_commands_follow_no_link_of_another_user(
    planted_link: Path, tmp_path: Path, words: str
) -> None:
    def command(link: Path) -> tuple[int, bool]:
        done = curriculum(*words.format(link=link).split(), home=tmp_path / "new")
        return done.returncode, f"{link} belongs to another user" in done.stderr

    assert command(planted_link) == (0, False)
    os.lchown(planted_link, NOBODY, NOBODY)
    assert command(planted_link) == (WRONG, True)


def test_a_link_in_a_folder_that_others_may_write_is_refused(planted_link: Path) -> None:
    assert settings.home(planted_link)
    _open_to_all(planted_link.parent)
    with pytest.raises(SettingError):
        settings.home(planted_link)


@pytest.mark.parametrize("new", [False, True])
def test_a_link_that_leads_elsewhere_after_the_look_changes_nothing(
    planted_link: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    looked, elsewhere = trust.require_trusted, tmp_path / "elsewhere"
    elsewhere.mkdir()
    below = ("new",) if new else ()

    def switch(home: Path, *named: str | Path | None) -> None:
        looked(home, *named)
        planted_link.unlink()
        planted_link.symlink_to(elsewhere)

    monkeypatch.setattr(trust, "require_trusted", switch)
    words = ("init", "specialist", "--home", str(planted_link.joinpath(*below)))
    assert curriculum(*words).returncode == 0
    diet = Path(*below, "diets", "specialist.yaml")
    assert ((tmp_path / "mine" / diet).is_file(), [*elsewhere.iterdir()]) == (True, [])
    assert curriculum(*words).returncode == 0
    assert (elsewhere / diet).is_file(), "the next command follows the link anew"


def test_the_server_of_a_workspace_behind_a_link_names_the_real_one(
    planted_link: Path, tmp_path: Path
) -> None:
    home = settings.home(planted_link)
    named = {
        *settings.flow_run_variables(home, "").values(),
        prefect_variables.isolated(home)["CURRICULUM_HOME"],
    }
    assert named == {str(tmp_path / "mine")}


def _make_a_link(folder: Path) -> None:
    folder.rmdir()
    folder.symlink_to(folder.parent.parent)


def _make_a_file(folder: Path) -> None:
    folder.rmdir()
    folder.touch()


@pytest.mark.parametrize("plant", [*EXPOSING, _make_a_link, _make_a_file])
def test_a_folder_with_what_another_user_planted_is_not_new(
    shared: Path, plant: Callable[[Path], None]
) -> None:
    """Locks are written through what lies there."""
    planted_link = shared / ".locks"
    planted_link.mkdir()
    assert trust.is_new(shared)
    plant(planted_link)
    refused = curriculum("init", "mine", "--home", str(shared))
    assert refused.returncode == WRONG
    assert [*shared.iterdir()] == [planted_link]


@pytest.mark.parametrize("name", ["diets", "diets/theirs.yaml"])
@pytest.mark.parametrize("expose", [*EXPOSING, _let_all_add])
def test_a_workspace_with_a_part_that_others_can_change_is_not_trusted(
    shared: Path, name: str, expose: Callable[[Path], None]
) -> None:
    part = shared / name
    (shared / "diets").mkdir()
    (shared / "diets/theirs.yaml").touch()
    expose(part)
    refused = curriculum("trust", str(shared))
    assert refused.returncode == WRONG
    assert f"{part}" in refused.stderr
    assert trust.trusted() == ()
    part.chmod(0o755)
    os.chown(part, os.getuid(), os.getgid())
    if DEFAULT_LIST in os.listxattr(part):
        os.removexattr(part, DEFAULT_LIST)
    assert curriculum("trust", str(shared)).returncode == 0
    assert trust.is_trusted(shared)


@pytest.fixture
def group_folder(shared: Path) -> Iterator[Path]:
    """A folder whose entries belong to a group with other members, under a umask that lets them write."""
    os.chown(shared, -1, NOBODY)
    shared.chmod(0o2755)
    before = os.umask(0o002)
    yield shared
    os.umask(before)


def _writable_by_the_group(folder: Path) -> list[Path]:
    found = (entry for entry in folder.rglob("*") if not entry.is_symlink())
    return [entry for entry in found if entry.stat().st_mode & 0o022]


@pytest.fixture
def home_of_a_group(group_folder: Path) -> Path:
    """A folder that this user alone may write to, as `claim` makes one."""
    home = group_folder / "home"
    home.mkdir()
    home.chmod(0o2755)
    return home


@as_root
@pytest.mark.parametrize("words", ["init mine", "trust {home}", "build templates.demo --explain"])
def test_a_group_can_write_to_nothing_that_a_command_makes_in_a_workspace(
    home_of_a_group: Path, words: str
) -> None:
    done = curriculum(*words.format(home=home_of_a_group).split(), home=home_of_a_group)
    assert done.returncode == 0
    assert _writable_by_the_group(home_of_a_group) == []
    assert curriculum("init", "more", home=home_of_a_group).returncode == 0
    assert trust.is_trusted(home_of_a_group)


@as_root
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_group_can_add_a_diet_to_a_workspace_only_where_all_share_it(
    home_of_a_group: Path, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shared workspace is the control: there the umask lets the group write."""
    if is_shared:
        monkeypatch.setenv("CURRICULUM_TRUST", str(home_of_a_group))
    assert curriculum("init", "mine", home=home_of_a_group).returncode == 0
    writable = _writable_by_the_group(home_of_a_group)
    assert (home_of_a_group / "diets" in writable) is is_shared
    assert trust.is_trusted(home_of_a_group)


@as_root
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_process_that_begins_by_itself_keeps_a_group_out(
    home_of_a_group: Path, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow whose worker was started by hand has no command line above it."""
    trusted = str(home_of_a_group) if is_shared else ""
    monkeypatch.setenv("CURRICULUM_TRUST", trusted)
    monkeypatch.setenv("CURRICULUM_HOME", str(home_of_a_group))
    Store(settings.home()).open()
    assert bool(_writable_by_the_group(home_of_a_group)) is is_shared


@as_root
def test_a_workspace_that_a_loose_umask_made_is_refused_until_its_parts_are_safe(
    home_of_a_group: Path,
) -> None:
    """Its own folder is safe, and another member of the group can add a diet that names a command."""
    home, diets = home_of_a_group, home_of_a_group / "diets"
    assert curriculum("init", "mine", home=home).returncode == 0
    for part in (home / "workspace.json", diets, diets / "mine.yaml"):
        mode = part.stat().st_mode
        assert trust.is_trusted(home)
        part.chmod(mode | 0o020)
        refused = curriculum("init", "more", home=home)
        assert (refused.returncode, f"write to {part}:" in refused.stderr) == (WRONG, True)
        part.chmod(mode)
        if part.name == "workspace.json":
            assert not trust.is_trusted(home), "its time has changed"
            assert curriculum("trust", str(home)).returncode == 0


@pytest.mark.parametrize(("theirs", "mask"), [(5, 7), (7, 5)])
def test_a_default_list_that_lets_nobody_else_write_exposes_nothing(
    shared: Path, theirs: int, mask: int
) -> None:
    _set_list(shared, DEFAULT_LIST, theirs=theirs, mask=mask)
    assert (exposure(shared), exposure(shared / "new")) == (None, None)


def test_a_workspace_in_a_shared_folder_with_a_default_list_is_refused_with_a_cure(
    shared: Path,
) -> None:
    shared.chmod(0o1777)
    _set_list(shared, DEFAULT_LIST, theirs=7)
    home = shared / "home"
    refused = curriculum("init", "mine", home=home)
    assert (refused.returncode, "setfacl -k" in refused.stderr) == (WRONG, True)
    assert [*home.iterdir()] == []
    os.removexattr(home, DEFAULT_LIST)
    assert curriculum("init", "mine", home=home).returncode == 0, "the cure"
    assert trust.is_trusted(home)
    assert _writable_by_the_group(home) == []


def test_folders_that_others_may_write_are_found_at_any_depth(tmp_path: Path) -> None:
    depth = 300
    deepest = tmp_path.joinpath(*["a"] * depth)
    deepest.mkdir(parents=True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + depth // 2)
    try:
        with pytest.raises(RecursionError):
            assert [*os.walk(tmp_path)]
        assert exposure_below(tmp_path) is None
        deepest.chmod(0o777)
        assert str(deepest) in str(exposure_below(tmp_path))
    finally:
        sys.setrecursionlimit(limit)
