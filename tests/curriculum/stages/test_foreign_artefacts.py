"""Artefacts of others hold what their stage writes: else they are refused where they enter."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.foreign_decoding import decode_foreign
from curriculum.published_files import footer_of, sha256_of
from curriculum.sandbox import landlock
from curriculum.stage_contracts import require_contract
from curriculum.stages import Built
from curriculum.stages.merge import merge
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.errors import CurriculumError, StoreError
from schemas.json_text import digest
from schemas.manifest import MANIFEST_NAME

Change = Callable[[pa.Table], pa.Table]
confined = pytest.mark.skipif(not landlock(), reason="needs Landlock")


def made_of(store: Store, artefact: Artefact) -> dict[str, Path]:
    """The folders of the documents and the tokenizer that tokens were made of."""
    keys = {record.key for record in artefact.manifest.inputs}
    return {
        stage: each.path
        for stage in ("documents", "tokenizers")
        for each in store.artefacts(stage)
        if each.key in keys
    }


def replace_column(name: str, change: Callable[[list[Any]], list[Any]]) -> Change:
    """A table with other values in one column, of the same type."""

    def changed(table: pa.Table) -> pa.Table:
        at, field = table.schema.get_field_index(name), table.schema.field(name)
        values = pa.array(change(table[name].to_pylist()), field.type)
        return table.set_column(at, field, values)

    return changed


def seal(artefact: Artefact) -> Artefact:
    """Write the manifest of an artefact anew, for its files as they are."""
    files = tuple(
        record.model_copy(
            update={
                "sha256": sha256_of(file := artefact.path / record.name),
                "num_bytes": file.stat().st_size,
                "footer": footer_of(file) if record.footer else None,
            }
        )
        for record in artefact.manifest.files
        if (artefact.path / record.name).is_file()
    )
    pairs = sorted((each.name, each.sha256) for each in files)
    content = digest([list(pair) for pair in pairs])
    manifest = artefact.manifest.model_copy(update={"files": files, "content": content})
    (artefact.path / MANIFEST_NAME).unlink()
    (artefact.path / MANIFEST_NAME).write_text(manifest.model_dump_json())
    return Artefact(path=artefact.path, manifest=manifest)


def change_table(artefact: Artefact, name: str, change: Change) -> Artefact:
    """Change the tables of an artefact whose names begin so, and seal it as its sender would."""
    for file in artefact.files():
        if file.relative_to(artefact.path).as_posix().startswith(name):
            table = change(pq.read_table(file))
            file.unlink()
            pq.write_table(table, file, write_page_checksum=True)
    return seal(artefact)


CHANGES: dict[str, tuple[str, str, Change]] = {
    **{
        f"{name} of {stage}": (stage, file, change)
        for stage, file in (
            ("documents", "data/"),
            ("documents", "file_histories"),
            ("selections", "sides"),
            ("tokenizers", "token_bytes"),
            ("tokens", "parts"),
            ("rows", "data/"),
            ("rows", "windows"),
        )
        for name, change in {
            f"{file} without a column": lambda table: table.drop_columns([table.schema.names[-1]]),
            f"{file} with a column more": lambda table: table.append_column(
                "more", pa.array([1] * len(table))
            ),
            f"{file} of numbers": lambda table: pa.table(
                {name: [1] * len(table) for name in table.schema.names}
            ),
            f"{file} of one column": lambda table: pa.table({"zz": [1] * len(table)}),
        }.items()
    },
    "names of ids": (
        "tokenizers",
        "token_bytes",
        replace_column("id", lambda ids: [*reversed(ids)]),
    ),
    "sizes of ids": (
        "tokenizers",
        "token_bytes",
        replace_column("num_bytes", lambda sizes: [-3] * len(sizes)),
    ),
    "ids that are all special": (
        "tokenizers",
        "token_bytes",
        replace_column("special", lambda flags: [True] * len(flags)),
    ),
    "ids that are gone": ("tokenizers", "token_bytes", lambda table: table.slice(0, 10)),
    "ids of documents": (
        "documents",
        "data/",
        replace_column("document_id", lambda ids: ["0" * 32] * len(ids)),
    ),
    "sizes of documents": (
        "documents",
        "data/",
        replace_column("num_bytes", lambda sizes: [-1] * len(sizes)),
    ),
    "documents of parts": (
        "tokens",
        "parts",
        replace_column("document", lambda numbers: [-1] * len(numbers)),
    ),
    "starts of parts": (
        "tokens",
        "parts",
        replace_column("token_start", lambda starts: [1 << 62] * len(starts)),
    ),
    "lengths of parts": (
        "tokens",
        "parts",
        replace_column("token_end", lambda ends: [each - 1 for each in ends]),
    ),
    "parts that are gone": ("tokens", "parts", lambda table: table.slice(0, len(table) - 1)),
    "ids of rows": (
        "rows",
        "data/",
        replace_column("doc_ids", lambda rows: [[-7] * len(each) for each in rows]),
    ),
    "sides": ("selections", "sides", replace_column("split", lambda sides: ["both"] * len(sides))),
    "a document listed twice": (
        "selections",
        "",
        lambda table: pa.concat_tables([table.slice(0, 1), table]),
    ),
}


@pytest.fixture
def copied(tiny: Built, tmp_path: Path) -> Store:
    """A copy of a built workspace, of which a test may change an artefact."""
    root = tmp_path / "sent"
    shutil.copytree(root_of(tiny), root)
    return Store(root)


def test_estimates_and_ablations_of_others_are_left_where_they_are(
    copied: Store, tmp_path: Path
) -> None:
    def write(drafts: Sequence[StagingDirectory]) -> None:
        pq.write_table(pa.table({"forged": [1]}), drafts[0].path / "lines.parquet")

    for stage in ("estimates", "ablations"):
        copied.produce([Recipe(stage=stage, labels=(("kind", "x"),), revision=1)], write)
    taken = {artefact.manifest.stage for artefact in merge(Store(tmp_path / "to"), copied.root)}
    assert "rows" in taken
    assert not taken & {"estimates", "ablations"}
    own = merge(Store(tmp_path / "own"), copied.root, own=True)
    assert {artefact.manifest.stage for artefact in own} == {*taken, "estimates", "ablations"}


def root_of(built: Built) -> Path:
    """The workspace of a build."""
    return Store.containing(built.documents[0].path).root


def test_all_that_a_build_makes_keeps_its_contract(tiny: Built) -> None:
    store = Store(root_of(tiny))
    stages = set[str]()
    for artefact in store.artefacts():
        require_contract(artefact, made_of(store, artefact))
        stages.add(artefact.manifest.stage)
    assert stages >= {"documents", "selections", "tokenizers", "tokens", "rows"}


@confined
@pytest.mark.parametrize("name", CHANGES)
def test_a_table_that_no_build_writes_breaks_the_contract(copied: Store, name: str) -> None:
    stage, file, change = CHANGES[name]
    sound = next(
        each
        for each in copied.artefacts(stage)
        if any(record.name.startswith(file) for record in each.manifest.files)
    )
    sources = made_of(copied, sound)
    require_contract(sound, sources)
    forged = change_table(sound, file, change)
    decode_foreign(forged.files())
    with pytest.raises((ValueError, CurriculumError)):
        require_contract(forged, sources)


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.bin", "parts.parquet"])
def test_tokens_without_a_file_break_the_contract(copied: Store, name: str) -> None:
    artefact = next(copied.artefacts("tokens"))
    (artefact.path / name).unlink()
    with pytest.raises((OSError, ValueError, CurriculumError)):
        require_contract(seal(artefact), made_of(copied, artefact))


def test_ids_beyond_the_vocabulary_break_the_contract(copied: Store) -> None:
    artefact = next(copied.artefacts("tokens"))
    ids = np.fromfile(artefact.path / "tokens.bin", dtype=np.uint16)
    (artefact.path / "tokens.bin").unlink()
    np.full_like(ids, 65_535).tofile(artefact.path / "tokens.bin")
    with pytest.raises(ValueError, match="65535"):
        require_contract(seal(artefact), made_of(copied, artefact))


@confined
@pytest.mark.parametrize("stage", ["documents", "tokenizers", "tokens"])
def test_merge_publishes_no_artefact_that_breaks_its_contract(
    copied: Store, tmp_path: Path, stage: str
) -> None:
    keep = [next(copied.artefacts("tokens"))]
    kept = {keep[0].path, *made_of(copied, keep[0]).values()}
    for artefact in [*copied.artefacts()]:
        if artefact.path not in kept:
            shutil.rmtree(artefact.path)
    assert len([*merge(Store(tmp_path / "sound"), copied.root)]) == len(kept)
    artefact = next(copied.artefacts(stage))
    drop: Change = lambda table: table.drop_columns([table.schema.names[-1]])  # noqa: E731
    change_table(artefact, "", drop)
    to = Store(tmp_path / "to")
    with pytest.raises(StoreError) as refused:
        list(merge(to, copied.root))
    assert refused.value.name == str(artefact.path)
    assert stage not in {each.manifest.stage for each in to.artefacts()}
    own = merge(Store(tmp_path / "own"), copied.root, own=True)
    assert stage in {artefact.manifest.stage for artefact in own}, "its sizes and digests agree"


@confined
def test_tokens_whose_documents_are_in_neither_workspace_are_refused(
    copied: Store, tmp_path: Path
) -> None:
    artefact = next(copied.artefacts("tokens"))
    for stage in ("documents", "indexes", "rows", "selections", "mixtures"):
        shutil.rmtree(copied.root / stage, ignore_errors=True)
    with pytest.raises(StoreError) as refused:
        list(merge(Store(tmp_path / "to"), copied.root))
    assert refused.value.name == str(artefact.path)
