"""Kept tables and manifests of a workspace that was copied or changed: made anew, or named."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import query
from curriculum.catalog.cache import Cache
from curriculum.catalog.snapshot import KEPT, take
from curriculum.sandbox import landlock
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
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
    assert _tree(outside) == before, "a link is removed itself"
    # What has a name of ours is gone: the pruning did run, and the rest was left alone.
    assert not (catalog / "0123456789ab").exists()
    assert (catalog / "letters/letter.txt").read_text() == SECRET
    assert (catalog / "notes.txt").read_text() == SECRET
    assert not (catalog / "ba9876543210").is_symlink()


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
