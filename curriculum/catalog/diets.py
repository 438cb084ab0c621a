"""The specialists and phases of diets: names that a workspace knows before anything of them is made."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from curriculum.catalog.cache import Cache
from curriculum.catalog.tables import OPEN_TABLES, Line
from curriculum.mixing.load import config_files, diet_names, load_diet
from curriculum.mixing.resolve import ANNEAL
from schemas.errors import CurriculumError


def diets(home: Path, cache: Cache) -> dict[str, pa.Table]:
    """The table of the phases of each diet that can be run in the workspace `home`.

    It is kept under a digest of the diets' text, since parsing YAML takes longer than most questions. A
    diet with a fault has no line: `curriculum diet check` reports it.
    """
    schemas = {"diets": OPEN_TABLES["diets"]}
    digest = hashlib.sha256(str(schemas).encode())
    for file in config_files(home):
        text = file.read_bytes()
        digest.update(f"{file}\0{len(text)}\0".encode() + text)
    group = digest.hexdigest()[:12]
    kept = cache.tables(group, schemas)
    if kept is None:
        kept = {"diets": pa.Table.from_pylist([*_lines(home)], schema=schemas["diets"])}
        cache.keep(group, kept)
    return kept


def _lines(home: Path) -> Iterator[Line]:
    for name in diet_names(home):
        try:
            diet = load_diet(name, home=home)
        except CurriculumError:
            continue
        phases = [each.phase for each in diet.phases] + [ANNEAL] * (diet.anneal is not None)
        for phase in phases:
            yield {"specialist": diet.specialist, "branch": diet.branch, "phase": phase}
