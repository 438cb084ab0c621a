"""A workspace that came from somebody else is data: questions to it touch nothing outside of it."""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import publish, query
from curriculum.catalog.cache import Cache, LastGroups
from curriculum.catalog.page_query import ask
from curriculum.catalog.snapshot import KEPT, take
from curriculum.sandbox import landlock
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.errors import StoreError
from schemas.manifest import read_manifest
from schemas.mixture import PLAN_SCHEMA

OLD = 1_000_000_000
SECRET = "the secret of another user"
confined = pytest.mark.skipif(not landlock(), reason="needs Landlock")


def _plan(number: int, serving: str = "rows") -> pa.Table:
    line = {
        field.name: serving if pa.types.is_string(field.type) else 1
        for field in PLAN_SCHEMA
        if not pa.types.is_nested(field.type)
    }
    return pa.Table.from_pylist([line] * number, schema=PLAN_SCHEMA)


def _publish(home: Path, phase: str, number: int = 3) -> Artefact:
    recipe = Recipe(
        stage="mixtures",
        labels=(("specialist", "s"), ("phase", phase)),
        revision=1,
        config={"phase": phase},
    )

    def fill(drafts: list[StagingDirectory]) -> None:
        pq.write_table(_plan(number), drafts[0].path / "plan.parquet")

    store = Store(home)
    (made,) = store.produce([recipe], fill)  # type: ignore[arg-type]
    store.mark(phase, [made])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace of one mixture."""
    _publish(tmp_path / "home", "one")
    return tmp_path / "home"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of another purpose, all of it old, with names that a cache could have."""
    folder = tmp_path / "documents of mine"
    names = ("0123456789ab", f".{uuid.uuid4().hex}", "letters")
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "letter.txt").write_text(SECRET)
    (folder / "notes.txt").write_text(SECRET)
    (folder / "replaced.json").write_text(
        json.dumps(dict.fromkeys((*names, "notes.txt"), "2001-01-01T00:00:00.000000+00:00"))
    )
    return folder


def _tree(folder: Path) -> dict[str, str]:
    return {
        each.relative_to(folder).as_posix(): each.read_text() if each.is_file() else ""
        for each in folder.rglob("*")
    }


COUNT = "SELECT count(*) FROM mixture_rows"
PROBLEMS = "SELECT path, problem FROM problems WHERE problem NOT LIKE '%report%'"


def _forget(home: Path) -> None:
    shutil.rmtree(home / "catalog", ignore_errors=True)


# The folder of kept tables


def test_a_question_removes_nothing_behind_a_link_in_place_of_the_catalog(
    home: Path, outside: Path
) -> None:
    before = _tree(outside)
    _forget(home)
    (home / "catalog").symlink_to(outside)
    for asked in (lambda: query(home, COUNT), lambda: publish(home)):
        with pytest.raises(StoreError, match="catalog: a link"):
            asked()
    # The link may also appear after the workspace was opened.
    cache, group = Cache(home=home), "0123456789ab"
    assert not cache.keep(group, {"t": _plan(1)})
    cache.forget(group)
    cache.prune(())
    assert _tree(outside) == before


def test_only_what_a_cache_could_have_made_is_pruned_from_the_catalog(
    home: Path, outside: Path
) -> None:
    query(home, COUNT)
    catalog = home / "catalog"
    shutil.copytree(outside, catalog, dirs_exist_ok=True)
    (catalog / "ba9876543210").symlink_to(outside)
    said = json.loads((catalog / "replaced.json").read_text())
    (catalog / "replaced.json").write_text(
        json.dumps(said | {"ba9876543210": "2001-01-01T00:00:00.000000+00:00"})
    )
    before = _tree(outside)
    Cache(home=home).prune(())
    assert _tree(outside) == before
    # What has a name of ours is gone: the pruning did run, and the rest was left alone.
    assert not (catalog / "0123456789ab").exists()
    assert (catalog / "letters/letter.txt").read_text() == SECRET
    assert (catalog / "notes.txt").read_text() == SECRET
    assert (catalog / "ba9876543210").is_symlink()


@pytest.mark.parametrize("name", ["replaced.json", "last.json"])
def test_a_link_or_a_pipe_in_the_catalog_is_replaced_and_not_followed(
    home: Path, tmp_path: Path, name: str
) -> None:
    query(home, COUNT)
    mine = tmp_path / "mine.json"
    for way in (lambda file: file.symlink_to(mine), os.mkfifo):
        mine.write_text("{}")
        (home / "catalog" / name).unlink(missing_ok=True)
        way(home / "catalog" / name)
        cache = Cache(home=home)
        cache.prune(())
        cache.keep_last(LastGroups())
        assert mine.read_text() == "{}"
        assert (home / "catalog" / name).is_file()
        assert not (home / "catalog" / name).is_symlink()


# catalog.sql


def _as_link(file: Path, target: Path) -> None:
    file.symlink_to(target)


def _as_pipe(file: Path, target: Path) -> None:
    os.mkfifo(file)


def _as_folder(file: Path, target: Path) -> None:
    file.mkdir()


def _as_noise(file: Path, target: Path) -> None:
    file.write_bytes(b"\xff\xfe SELECT")


@pytest.mark.parametrize("way", [_as_link, _as_pipe, _as_folder, _as_noise])
def test_whatever_lies_in_place_of_catalog_sql_is_not_read_through(
    home: Path, tmp_path: Path, way: Callable[[Path, Path], None]
) -> None:
    target = tmp_path / "mine.sql"
    target.write_text(SECRET)
    file = home / "catalog.sql"
    way(file, target)
    if file.is_file() and not file.is_symlink():
        assert query(home, COUNT).rows == [(3,)]
        assert "CREATE" in file.read_text()
    else:
        with pytest.raises(StoreError, match=r"catalog\.sql: a "):
            query(home, COUNT)
    assert target.read_text() == SECRET
    assert not [*home.glob(".catalog.sql.*")]


# Forged tables


def _forge(home: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a kept table as its sender can: all digests are right again."""
    digest = take(home).digest
    folder = home / "catalog" / digest
    file = folder / f"{table}.parquet"
    forged = change(pq.read_table(file))
    pq.write_table(forged, file)
    for record in folder.glob("*.json"):
        said = json.loads(record.read_text())
        said.pop("digest", None)
        if table in said.get("tables", {}) and isinstance(said["tables"][table], str):
            said["tables"][table] = hashlib.sha256(file.read_bytes()).hexdigest()
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        record.write_text(json.dumps({**said, "digest": hashlib.sha256(text.encode()).hexdigest()}))


def test_a_forged_table_is_not_believed(home: Path, tmp_path: Path) -> None:
    pq.write_table(_plan(1, SECRET), tmp_path / "secret.parquet")
    size = (tmp_path / "secret.parquet").stat().st_size
    query(home, COUNT)

    def outside(table: pa.Table) -> pa.Table:
        lines = table.to_pylist()
        return pa.Table.from_pylist(
            [{**line, "file": "../secret.parquet", "num_bytes": size} for line in lines],
            schema=table.schema,
        )

    _forge(home, "data", outside)
    assert query(home, "SELECT DISTINCT rows_key FROM mixture_rows").rows == [("rows",)]


def test_a_copied_catalog_is_made_anew(home: Path, tmp_path: Path) -> None:
    cache, digest = Cache(home=home), take(home).digest
    tables = cache.tables(digest, KEPT)
    assert tables is not None
    stages = tables["artefacts"].schema.get_field_index("stage")
    lie = tables["artefacts"].set_column(stages, "stage", pa.array(["lie"]))
    cache.forget(digest)
    assert cache.keep(digest, {**tables, "artefacts": lie})
    assert query(home, "SELECT stage FROM artefacts").rows == [("lie",)]
    shutil.copytree(home, tmp_path / "received", symlinks=True)
    assert query(tmp_path / "received", "SELECT stage FROM artefacts").rows == [("mixtures",)]


# Files of artefacts


def _published_file(home: Path) -> Path:
    return next(home.rglob("plan.parquet"))


def _file_link(home: Path, secret: Path) -> None:
    file = _published_file(home)
    file.unlink()
    file.symlink_to(secret)


def _folder_link(home: Path, secret: Path) -> None:
    folder = _published_file(home).parent
    shutil.move(folder, secret.parent / "moved")
    shutil.copy(secret, secret.parent / "moved" / "plan.parquet")
    folder.symlink_to(secret.parent / "moved")


def _pipe(home: Path, secret: Path) -> None:
    _published_file(home).unlink()
    os.mkfifo(next(home.rglob("manifest.json")).with_name("plan.parquet"))


@confined
@pytest.mark.parametrize("way", [_file_link, _folder_link, _pipe])
@pytest.mark.parametrize("kept", [True, False])
def test_a_view_reads_no_file_behind_a_link(
    home: Path, tmp_path: Path, way: Callable[[Path, Path], None], kept: bool
) -> None:
    if kept:
        assert query(home, COUNT).rows == [(3,)]
    secret = tmp_path / "secret.parquet"
    pq.write_table(_plan(3, "hide"), secret)
    # A Parquet file of the same size, so that nothing but the link gives it away.
    assert secret.stat().st_size == _published_file(home).stat().st_size
    way(home, secret)
    for asked in (query, ask):
        assert asked(home, "SELECT rows_key FROM mixture_rows").rows == []
    assert query(home, PROBLEMS).rows


def test_a_workspace_whose_stage_is_a_link_answers_no_question(home: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    shutil.move(home / "mixtures", tmp_path / "moved")
    (home / "mixtures").symlink_to(tmp_path / "moved" / "mixtures")
    with pytest.raises(StoreError, match="mixtures: a link"):
        query(home, COUNT)


@confined
@pytest.mark.parametrize(
    "name", ["../secret.parquet", "mixtures/../../secret.parquet", "{absolute}"]
)
def test_no_table_leads_outside_the_workspace_even_where_it_is_believed(
    home: Path, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(_plan(1, SECRET), secret)
    cache, digest = Cache(home=home), take(home).digest
    tables = cache.tables(digest, KEPT)
    assert tables is not None
    forged = [
        {
            **line,
            "file": name.replace("{absolute}", str(secret)),
            "num_bytes": secret.stat().st_size,
        }
        for line in tables["data"].to_pylist()
    ]
    data = pa.Table.from_pylist(forged, schema=KEPT["data"])
    cache.forget(digest)
    # Written by the cache itself, as if the sender had made the file system.
    assert cache.keep(digest, {**tables, "data": data})
    assert take(home).digest == digest
    for asked in (query, ask):
        assert asked(home, "SELECT rows_key FROM mixture_rows").rows == []
        assert "plain relative" in asked(home, PROBLEMS).rows[0][1]


@pytest.mark.parametrize("name", ["manifest.json", "job.json"])
def test_a_pipe_in_place_of_a_manifest_or_a_job_does_not_stop_a_question(
    home: Path, name: str
) -> None:
    folder = home / "runs" / "specialist-s" / "0123456789ab" / "attempt=1"
    folder.mkdir(parents=True)
    os.mkfifo(folder / name)
    assert query(home, COUNT).rows == [(3,)]


def test_a_folder_whose_name_is_no_text_is_named_and_the_rest_answers(home: Path) -> None:
    folder = home / "mixtures" / os.fsdecode(b"specialist-\xff")
    shutil.copytree(home / "mixtures" / "specialist-s", folder)
    assert query(home, COUNT).rows == [(3,)]
    assert any("UTF-8" in problem for _, problem in query(home, PROBLEMS).rows)


@pytest.mark.parametrize(
    "labels",
    [{"row_length": "many"}, {"row_length": "9" * 40}, {"row_length": "９"}],
)
def test_a_manifest_of_impossible_numbers_is_named_and_the_rest_answers(
    home: Path, labels: dict[str, str]
) -> None:
    made = _publish(home, "two")
    file = made.path / "manifest.json"
    manifest = read_manifest(file)
    changed = manifest.model_copy(update={"labels": {**manifest.labels, **labels}})
    file.write_text(changed.model_dump_json())
    assert query(home, "SELECT phase FROM artefacts WHERE phase = 'one'").rows == [("one",)]


def test_folders_without_end_are_named_and_the_rest_answers(home: Path) -> None:
    folder = os.open(home / "mixtures", os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("a=b", dir_fd=folder)
        below = os.open("a=b", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert query(home, COUNT).rows == [(3,)]
    ((path, problem),) = query(home, PROBLEMS).rows
    assert path.startswith("mixtures/a=b/a=b/")
    assert "deeper" in problem
    while (home / "mixtures" / "a=b").exists():
        _unnest(home / "mixtures")


def _unnest(folder: Path) -> None:
    """Remove the outermost folder of a chain; what lies in it takes its place."""
    (folder / "a=b").rename(folder / "outer")
    if (folder / "outer" / "a=b").exists():
        (folder / "outer" / "a=b").rename(folder / "a=b")
    (folder / "outer").rmdir()
