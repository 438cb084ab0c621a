"""Imported rows that a diet serves by name, described by their manifests."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from schemas.corpus import is_name
from schemas.diet import Diet, DietPhase, Serving
from schemas.errors import DietError, DietFieldError
from schemas.families import FAMILIES
from schemas.mistakes import nearest
from schemas.regular_files import PlainPath
from schemas.reports import RowsReport

LABEL = "imported"
"""Name of the label that marks imported rows; the label's value is the format of the imported files."""
TRAIN, VAL = "train", "val"
IMPORT = "import"
_DIGITS = re.compile(r"[0-9a-f]{6,64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedRows:
    """Imported rows that a diet serves; `name` is the name that the diet uses for them."""

    name: str
    key: str
    path: PlainPath
    """Path of the rows, relative to the workspace."""
    family: str
    objective: str
    row_length: int
    domains: tuple[str, ...]
    measured_by: PlainPath | None = None
    """Path of the rows of split val that are imported under the same name, or None."""


def mark_of(name: str, split: str) -> str:
    """Return the name of the entry in current/ that points to the rows imported as `name`.

    >>> mark_of("my-rows", "train")
    'import-my-rows-train'
    """
    return f"{IMPORT}-{name}-{split}"


def check_name(name: str) -> None:
    """Raise unless `name` can name imported rows without being confused with something else.

    Raises:
        DietError: for invalid characters, a name that looks like digits of a key, and the name of a family.
    """
    cause = None
    if not is_name(name):
        cause = "a name may only have letters, digits, dots, dashes and underscores"
    elif _DIGITS.fullmatch(name):
        cause = "a diet would read it as digits of a key"
    elif name in FAMILIES:
        cause = "it is the name of a family"
    if cause is not None:
        raise DietError("--name", name, cause=cause, cure="Choose another name, such as my-rows")


def imported_rows(store: Store, diet: Diet) -> dict[str, ImportedRows]:
    """Return the imported rows that a diet serves, by the name that the diet uses.

    Raises:
        DietError: for a name or the first digits of a key that match no imported rows, for rows of split val,
            and for artefacts without rows.
    """
    called = (serving.imported for phase in diet.phases for serving in phase.servings)
    return {name: _rows(store, diet, name) for name in dict.fromkeys(called) if name is not None}


def complete_diet(diet: Diet, found: Mapping[str, ImportedRows]) -> Diet:
    """Return the diet with missing fields taken from its imported rows, which are given as `found` by name.

    Raises:
        DietError: naming a field whose value in the diet differs from that of the imported rows.
    """
    if not found:
        return diet
    phases = tuple(_complete_phase(diet, at, found) for at in range(len(diet.phases)))
    return diet.model_copy(update={"phases": phases})


def _complete_phase(diet: Diet, at: int, found: Mapping[str, ImportedRows]) -> DietPhase:
    phase = diet.phases[at]
    servings = tuple(
        serving
        if serving.imported is None
        else _complete_serving(diet, (at, index), serving, found)
        for index, serving in enumerate(phase.servings)
    )
    return phase.model_copy(update={"servings": servings})


def _complete_serving(
    diet: Diet, place: tuple[int, int], serving: Serving, found: Mapping[str, ImportedRows]
) -> Serving:
    assert serving.imported is not None
    rows = found[serving.imported]
    theirs = {name: getattr(rows, name) for name in ("family", "objective", "row_length")}
    for name, value in theirs.items():
        if getattr(serving, name) not in (None, value):
            raise DietFieldError(
                f"diet {diet.specialist}",
                f"phases.{place[0]}.servings.{place[1]}.{name} = {getattr(serving, name)}",
                location=("phases", place[0], "servings", place[1], name),
                cause=f"the rows imported as {rows.name} have {name} {value}",
                cure=f"Leave {name} out, or name other rows",
            )
    return serving.model_copy(update=theirs)


def _rows(store: Store, diet: Diet, name: str) -> ImportedRows:
    named = dict(_named(store))
    rows = _at(store, named[name, TRAIN]) if (name, TRAIN) in named else _of_key(store, diet, name)
    labels, domains = rows.manifest.labels, rows.reported(RowsReport).domains
    where, location = f"diet {diet.specialist}", _location(diet, name)
    if labels["split"] != TRAIN:
        raise DietFieldError(
            where,
            f"imported = {name!r}",
            location=location,
            cause=f"these rows are of split {labels['split']}, which is never trained on",
            cure="Name rows of split train",
        )
    if not domains:
        raise DietFieldError(
            where,
            f"imported = {name!r}",
            location=location,
            cause=f"{rows.path.relative_to(store.root)} contains no rows",
            cure="Import rows that are not empty, or remove the serving",
        )
    measured_by = named.get((name, VAL))
    if measured_by is not None and not _at(store, measured_by).reported(RowsReport).domains:
        measured_by = None
    return ImportedRows(
        name=name,
        key=rows.key,
        path=rows.path.relative_to(store.root).as_posix(),
        family=labels["family"],
        objective=labels["objective"],
        row_length=int(labels["row_length"]),
        domains=tuple(sorted(domains)),
        measured_by=measured_by,
    )


def _location(diet: Diet, name: str) -> tuple[int | str, ...]:
    """Return the location in `diet` of the first serving of the imported rows `name`."""
    return next(
        ("phases", at, "servings", index, "imported")
        for at, phase in enumerate(diet.phases)
        for index, serving in enumerate(phase.servings)
        if serving.imported == name
    )


def _of_key(store: Store, diet: Diet, digits: str) -> Artefact:
    there = [artefact for artefact in store.artefacts("rows") if LABEL in artefact.manifest.labels]
    found = [rows for rows in there if _DIGITS.fullmatch(digits) and rows.key.startswith(digits)]
    if len(found) == 1:
        return found[0]
    names = [name for name, split in dict(_named(store)) if split == TRAIN]
    keys = [rows.key[:KEY_DIGITS] for rows in there if rows.manifest.labels["split"] == TRAIN]
    raise DietFieldError(
        f"diet {diet.specialist}",
        f"imported = {digits!r}",
        location=_location(diet, digits),
        cause=f"{len(found)} keys of imported rows start with these digits"
        if found
        else "no imported rows have that name or a key that begins with it",
        cure=nearest(digits, [*names, *keys])
        if names or keys
        else "Import some: curriculum import PATH --name NAME",
    )


def _named(store: Store) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield ((name, split), path) for all rows imported under a name; deleted rows are skipped."""
    for file in sorted((store.root / "current").glob(f"{IMPORT}-*.txt")):
        name, _, split = file.stem.removeprefix(f"{IMPORT}-").rpartition("-")
        if name and split in (TRAIN, VAL):
            for line in read_mark(file):
                if line.startswith("rows/") and (store.root / line).is_dir():
                    yield (name, split), line


def _at(store: Store, path: str) -> Artefact:
    return store.load(store.root / path)


def objective_of(serving: Serving) -> str:
    """Return the objective of a serving that `complete_diet` has completed."""
    assert serving.objective is not None, "said, usual, or told by imported rows"
    return serving.objective


def family_of(serving: Serving) -> str:
    """Return the family of a serving that `complete_diet` has completed.

    Imported rows may have a family that only they have.
    """
    assert serving.family is not None, "said, or told by imported rows"
    return serving.family
