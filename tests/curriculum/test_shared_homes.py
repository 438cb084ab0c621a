"""A home that other users may write to gives torch and polars no folder: services run with HOME=/tmp."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

VARIABLES = {
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "POLARS_OOC_SPILL_DIR": "polars-spill",
}
NOBODY = 65534
NO_PROCESS = "99999999"
"""polars takes a folder of this name for what a process that has ended left there."""
as_root = pytest.mark.skipif(os.getuid() != 0, reason="gives folders to another user")


def _folders(home: str | Path) -> list[Path]:
    """Return the folders that a fresh process of this home names."""
    environment = {name: word for name, word in os.environ.items() if name not in VARIABLES}
    code = f"import os, curriculum; print(*map(os.environ.get, {[*VARIABLES]}), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "HOME": str(home)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return [*map(Path, done.stdout.decode().splitlines())]


def _private(home: Path) -> None:
    (home / ".cache" / "polars-spill").mkdir(parents=True)


def _own_link(home: Path) -> None:
    elsewhere = home.with_name("elsewhere")
    elsewhere.mkdir()
    (home / ".cache").symlink_to(elsewhere)


def _own_cache_in_a_sticky_home(home: Path) -> None:
    home.chmod(0o1777)
    (home / ".cache").mkdir(mode=0o700)


@pytest.mark.parametrize(
    "make", [lambda home: None, _private, _own_link, _own_cache_in_a_sticky_home]
)
def test_folders_lie_in_a_home_that_nobody_else_can_change(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make(home)
    assert _folders(home) == [home / ".cache" / name for name in VARIABLES.values()]


def _sticky_home(home: Path) -> None:
    home.chmod(0o1777)


def _open_home(home: Path) -> None:
    _private(home)
    home.chmod(0o777)


def _open_cache(home: Path) -> None:
    _private(home)
    (home / ".cache").chmod(0o777)


def _open_folders(home: Path) -> None:
    for name in VARIABLES.values():
        (home / ".cache" / name).mkdir(parents=True)
        (home / ".cache" / name).chmod(0o777)


def _link_to_an_open_folder(home: Path) -> None:
    _own_link(home)
    home.with_name("elsewhere").chmod(0o777)


def _planted_cache(home: Path) -> None:
    _private(home)
    home.chmod(0o1777)
    os.chown(home / ".cache", NOBODY, NOBODY)


def _planted_folders(home: Path) -> None:
    _open_folders(home)
    for name in VARIABLES.values():
        (home / ".cache" / name).chmod(0o755)
        os.chown(home / ".cache" / name, NOBODY, NOBODY)


def _planted_link(home: Path) -> None:
    home.chmod(0o1777)
    _own_link(home)
    os.lchown(home / ".cache", NOBODY, NOBODY)


@pytest.mark.parametrize(
    "make",
    [
        _sticky_home,
        _open_home,
        _open_cache,
        _open_folders,
        _link_to_an_open_folder,
        pytest.param(_planted_cache, marks=as_root),
        pytest.param(_planted_folders, marks=as_root),
        pytest.param(_planted_link, marks=as_root),
    ],
)
def test_folders_have_unguessable_names_where_others_could_plant_them(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make(home)
    one, other = _folders(home), _folders(home)
    assert [folder.name for folder in one] == [*VARIABLES.values()]
    assert not any(folder.is_relative_to(home) for folder in one)
    assert {len(folder.parent.name) for folder in one} == {32}
    assert {*one}.isdisjoint(other)


@pytest.mark.parametrize("home", ["", ".", "home"])
def test_a_home_relative_to_the_current_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    assert {len(folder.parent.name) for folder in _folders(home)} == {32}


def test_polars_deletes_nothing_behind_a_link_in_a_shared_home(tmp_path: Path) -> None:
    victim, home = tmp_path / "photos" / NO_PROCESS, tmp_path / "home"
    victim.mkdir(parents=True)
    (home / ".cache").mkdir(parents=True)
    (home / ".cache" / "polars-spill").symlink_to(victim.parent)
    home.chmod(0o1777)
    (home / ".cache").chmod(0o777)
    environment = {name: word for name, word in os.environ.items() if name not in VARIABLES}
    code = "import curriculum.frames, polars, time; time.sleep(1)"
    subprocess.run([sys.executable, "-c", code], env={**environment, "HOME": str(home)}, check=True)
    assert victim.is_dir()


def test_torch_compiles_no_header_and_reads_no_answer_that_lies_in_tmp() -> None:
    code = (
        "import curriculum, torch._inductor.config as c; "
        "from torch._inductor.runtime.caching import config as k; "
        "print(c.cpp_cache_precompile_headers, k.IS_CACHING_MODULE_ENABLED())"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split() == [b"False", b"False"]
