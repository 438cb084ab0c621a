"""polars and DuckDB spill into folders that no other user made."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.catalog.connections import connected

NO_PROCESS = "99999999"
"""polars takes a folder of this name for what a process that has ended left there."""
POLARS = "import polars, time; time.sleep(1)"
SPILL = "SELECT count(*) FROM (SELECT i, repeat('x', 200) AS t FROM range(400000) r(i) ORDER BY t, hash(i))"


@pytest.fixture
def planted_link(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Plant a link to a folder where polars would look for the user of a name; the folder in it may go."""
    name = f"test-{uuid.uuid4().hex}"
    foreign = Path("/var/tmp") / f"polars-{name}"
    victim = tmp_path / "photos" / NO_PROCESS
    victim.mkdir(parents=True)
    foreign.mkdir()
    (foreign / "spill").symlink_to(victim.parent)
    yield name, victim
    shutil.rmtree(foreign)


def _run(code: str, home: Path, user: str) -> None:
    environment = {**os.environ, "HOME": str(home), "USER": user}
    environment.pop("POLARS_OOC_SPILL_DIR", None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_polars_deletes_nothing_behind_a_link_that_another_user_made(
    planted_link: tuple[str, Path], tmp_path: Path
) -> None:
    user, victim = planted_link
    own = tmp_path / "home" / ".cache" / "polars-spill" / NO_PROCESS
    own.mkdir(parents=True)
    _run(f"import curriculum.frames; {POLARS}", tmp_path / "home", user)
    assert victim.is_dir()
    assert not own.exists(), "polars looks into the user's own folder"
    _run(POLARS, tmp_path / "home", user)
    assert not victim.exists(), "by itself polars follows the link"


def test_a_question_spills_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a folder `.tmp` in the current one, which DuckDB by itself takes."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    (here / ".tmp").mkdir(parents=True)
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    connection = connected(may_spill=True, memory_limit="40MB", threads="1")
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    answer = connection.execute(
        f"SELECT max(size) FROM duckdb_temporary_files() WHERE ({SPILL}) > 0"
    )
    assert answer.fetchone() is not None
    assert [*(here / ".tmp").iterdir()] == []
    assert any(folder.iterdir()), "the question spilled"
    connection.close()
    del connection, answer
    assert not folder.exists()


def test_a_connection_that_may_not_spill_names_no_folder() -> None:
    with connected() as connection:
        asked = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert asked == [("",)]
