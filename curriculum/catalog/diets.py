"""The specialists and phases of diets: names that a workspace knows before anything of them is made."""

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.catalog.tables import OPEN_TABLES, Line
from curriculum.diets.load import config_files, diet_names, load_diet
from curriculum.diets.resolve import ANNEAL
from schemas.errors import CurriculumError


def diets(home: Path, folder: Path) -> dict[str, pa.Table]:
    """The table of the phases of each diet that can be run in the workspace `home`.

    It is kept in `folder` under a digest of the diets' text, since parsing YAML takes longer than most
    questions. A diet with a fault has no line: `curriculum diet check` reports it.
    """
    digest = hashlib.sha256(str(OPEN_TABLES["diets"]).encode())
    for file in config_files(home):
        text = file.read_bytes()
        digest.update(f"{file}\0{len(text)}\0".encode() + text)
    kept = folder / f"diets-{digest.hexdigest()[:12]}.parquet"
    try:
        return {"diets": pq.ParquetFile(kept).read()}
    except (OSError, pa.ArrowException):
        pass  # Not kept yet, or damaged: the diets are loaded.
    table = pa.Table.from_pylist([*_lines(home)], schema=OPEN_TABLES["diets"])
    if folder.is_dir():
        _keep(table, kept)
    return {"diets": table}


def _lines(home: Path) -> Iterator[Line]:
    for name in diet_names(home):
        try:
            diet = load_diet(name, home=home)
        except CurriculumError:
            continue
        phases = [each.phase for each in diet.phases] + [ANNEAL] * (diet.anneal is not None)
        for phase in phases:
            yield {"specialist": diet.specialist, "branch": diet.branch, "phase": phase}


def _keep(table: pa.Table, file: Path) -> None:
    """Write the table in one rename; nothing where the folder can't be written."""
    draft = file.with_name(f".{uuid.uuid4().hex}")
    try:
        pq.write_table(table, draft)
        draft.replace(file)
    except OSError:
        return  # Read-only, or full: the next question loads the diets again.
