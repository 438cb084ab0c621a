"""Diets and phases by name or path: YAML files, `extends`, and overrides of the command line.

A name is looked up in the workspace first, if one is given, as `<workspace>/diets/NAME.yaml` or
`<workspace>/phases/NAME.yaml`, then in the package.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from curriculum.mixing.resolve import DietFault, faults
from curriculum.store.inside import missing_workspace
from schemas.diet import Diet, PhaseSpec, PhasesSpec, token_count
from schemas.errors import CurriculumError, DietError, DietFieldError, MixtureError
from schemas.mistakes import Location, locate, nearest
from schemas.regular_files import expanded
from schemas.text import line_of, named, parse, read_yaml, text_of, validated

EXTENDS = "extends"


def merge_diets(child: Mapping[str, Any], parent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the diet `parent`, replaced by those of the diet `child` that extends it.

    Invalid values are kept.

    >>> parent = {"seed": 3, "phases": [{"phase": "a", "portion": 0.5}, {"phase": "b", "portion": 0.5}]}
    >>> merge_diets({"phases": [{"phase": "b", "portion": 1.0}]}, parent)
    {'seed': 3, 'phases': [{'phase': 'b', 'portion': 1.0}]}
    """
    phases = {phase["phase"]: phase for phase in parent["phases"]}
    content = {**parent, **child}
    if isinstance(child.get("phases"), list):
        content["phases"] = [
            {**phases.get(entry["phase"], {}), **entry}
            if isinstance(entry, dict) and isinstance(entry.get("phase"), str)
            else entry
            for entry in child["phases"]
        ]
    return content


PACKAGE = Path(__file__).parents[1]
DIETS = PACKAGE / "diets"
FOLDERS = MappingProxyType({"diet": "diets", "phases file": "phases"})
"""Folder of the workspace that contains the files of each kind."""
PATHS = ("phases_file", "corpus", "tokenizer")
"""Fields of a diet that may contain a path."""

Phases = Mapping[str, PhaseSpec]
"""Phases by name, in curriculum order; read-only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DietOverrides:
    """Values given on the command line for a diet's fields; None keeps the diet's value."""

    phases_file: str | None = None
    corpus: str | None = None
    model: str | None = None
    tokenizer: str | None = None
    token_budget: int | str | None = None
    """Token budget, as a whole number or as text such as 20M or 10B."""
    max_repetition: float | None = None
    """max_repetition for all phases."""
    seed: int | None = None
    branch: str | None = None

    @property
    def as_recorded(self) -> dict[str, str]:
        """Overridden fields and their values as text, for the record of the job."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: str(value) for name, value in values if value is not None}

    def apply(self, diet: Diet) -> Diet:
        """Return the diet with the overrides, validated as if they were in the file.

        Raises:
            DietError: naming the option with an invalid value.
        """
        changed = {name: getattr(self, name) for name in self.as_recorded}
        every_phase = {name: changed.pop(name) for name in ("max_repetition",) if name in changed}
        content = diet.model_dump() | changed
        content["phases"] = [phase | every_phase for phase in content["phases"]]
        if self.token_budget is not None:
            _scale_gates(content, diet.token_budget)
        try:
            return Diet.model_validate(content)
        except ValidationError as invalid:
            fault = invalid.errors(include_url=False)[0]
            option = str(fault["loc"][-1]).replace("_", "-")
            message = str(fault["msg"]).removeprefix("Value error, ")
            cause, _, cure = message.partition(". ")
            raise DietError(
                f"--{option}", fault["input"], cause=cause, cure=cure or "Give another value"
            ) from None


def _scale_gates(content: dict[str, Any], before: int) -> None:
    """Scale min_tokens of all gates with the new token budget in `content`; `before` is the old budget.

    So a gate still waits for the same share of the budget.
    """
    try:
        budget = token_count(content["token_budget"])
    except ValueError:
        return
    assert isinstance(budget, int)
    for phase in content["phases"]:
        rule = phase["advance_when"]
        if rule and rule["min_tokens"]:
            phase["advance_when"] = rule | {
                "min_tokens": max(1, rule["min_tokens"] * budget // before)
            }


def diet_names(home: Path | None = None) -> tuple[str, ...]:
    """Return the names of the diets in the package and in the workspace `home`, sorted."""
    return tuple(_diets(home))


def phases_files(home: Path | None = None) -> tuple[str, ...]:
    """Return the names of the phases files in the package and in the workspace, sorted."""
    return tuple(_phases(home))


def _diets(home: Path | None) -> dict[str, Path]:
    return named(DIETS.glob("*.yaml"), home and home / "diets")


def _phases(home: Path | None) -> dict[str, Path]:
    return named(PACKAGE.glob("phases*.yaml"), home and home / "phases")


def phase_names(name_or_path: str = "phases", home: Path | None = None) -> tuple[str, ...]:
    """Return the names of the phases in a phases file, in curriculum order."""
    return tuple(load_phases(name_or_path, home))


def load_diet(
    name_or_path: str, overrides: DietOverrides | None = None, home: Path | None = None
) -> Diet:
    """Load a diet by name or from a YAML file, and check it against its phases file.

    Paths in a diet are relative to its file. Names are looked up in the workspace `home` first.

    Raises:
        DietError: for an unknown name (the error names the closest one), a fault in the file (the error gives
            its line), a phase missing from the phases file, or an invalid override.
    """
    file = _find_file(name_or_path, _diets(home), home, kind="diet")
    text = text_of(file, error=DietError)
    diet = _diet(file, text, home)
    overrides = overrides or DietOverrides()
    if overrides.phases_file:
        diet = diet.model_copy(update={"phases_file": overrides.phases_file})
    in_file = name_field_line(name_or_path, "phases_file", diet.phases_file, home)
    with contextlib.nullcontext() if overrides.phases_file else in_file:
        phases = load_phases(diet.phases_file, home)
    require_no_fault(name_or_path, faults(diet, phases), home)
    return overrides.apply(diet)


def require_no_fault(diet: str, found: Iterable[DietFault], home: Path | None = None) -> None:
    """Raise an error for the first of the faults `found` in a diet.

    Raises:
        DietError: with the fault's file and line.
    """
    for fault in found:
        where = place_of(diet, fault.location, home)
        raise DietError(where, fault.value, cause=fault.cause, cure=fault.cure)


def warnings(diet: str, found: Iterable[DietFault], home: Path | None = None) -> Iterator[str]:
    """Yield each of the faults `found` as a warning, which is one line that begins with file and line."""
    for fault in found:
        where = place_of(diet, fault.location, home)
        yield str(DietError(where, fault.value, cause=fault.cause, cure=fault.cure))


def place_of(diet: str, location: Location, home: Path | None = None) -> str:
    """Return the file and line of the field at `location` in a diet.

    If neither the diet nor the diet that it extends has the field, the line of the nearest parent is
    returned.
    """
    files = diet_files(diet, home)
    texts = [(file, text_of(file, error=DietError)) for file in files]
    for file, text in texts:
        source = read_yaml(text, file=str(file), error=DietError)
        if location[0] in source.content:
            return f"{file}:{locate(source.node, location)[0]}"
    return f"{files[0]}:1"


@contextlib.contextmanager
def name_diet_line(diet: str, home: Path | None = None) -> Iterator[None]:
    """Put the diet's file and line into errors raised in the `with` block.

    This applies to errors about a field of the diet and about the supply of a phase.
    """
    try:
        yield
    except DietFieldError as wrong:
        where = place_of(diet, wrong.location, home)
        raise DietError(where, wrong.value, cause=wrong.cause, cure=wrong.cure) from None
    except MixtureError as unserved:
        raise placed_shortage(diet, unserved, home) from None


def placed_shortage(diet: str, unserved: MixtureError, home: Path | None = None) -> MixtureError:
    """Return the error `unserved` about a phase with the phase's file and line in front.

    The error is returned unchanged if it has no location or the diet can no longer be read.
    """
    if not unserved.location:
        return unserved
    try:
        where = place_of(diet, unserved.location, home)
    except DietError:
        return unserved
    return MixtureError(
        f"{where}: {unserved.name}", unserved.value, cause=unserved.cause, cure=unserved.cure
    )


@contextlib.contextmanager
def name_field_line(diet: str, field: str, value: str, home: Path | None = None) -> Iterator[None]:
    """Put the file and line of the diet's `field` into errors raised in the `with` block.

    This applies to errors that name `field` or its `value`; file and line replace the name.
    """
    try:
        yield
    except CurriculumError as wrong:
        if wrong.name not in {field, value}:
            raise
        where = place_of(diet, (field,), home)
        raise type(wrong)(
            where, f"{field} = {value!r}", cause=wrong.cause, cure=wrong.cure
        ) from None


def diet_files(name_or_path: str, home: Path | None = None) -> tuple[Path, ...]:
    """Return the file of a diet, followed by the file of the diet that it extends, if any.

    Raises:
        DietError: as `load_diet`, for missing or unreadable files.
    """
    file = _find_file(name_or_path, _diets(home), home, kind="diet")
    parent = read_yaml(text_of(file, error=DietError), file=str(file), error=DietError).content.get(
        EXTENDS
    )
    return (file, _extended_file(file, parent, home)) if isinstance(parent, str) else (file,)


def _extended_file(file: Path, name: str, home: Path | None) -> Path:
    """Return the file of the diet called `name`, which the diet in `file` extends.

    If `name` is the diet's own name, the file is that of the package.
    """
    is_own = home is not None and file.parent == home / "diets"
    others = _diets(None if is_own and name == file.stem else home)
    path = str(file.parent / expanded(name)) if is_path(name) else name
    return _find_file(path, others, home, kind="diet")


def _diet(file: Path, text: str, home: Path | None) -> Diet:
    """Load the diet in `file`, completed by the fields of the diet that it extends."""
    source = read_yaml(text, file=str(file), error=DietError)
    content = dict(source.content)
    for name in PATHS:
        value = content.get(name)
        if isinstance(value, str) and is_path(value):
            content[name] = str(file.parent / expanded(value))
    if isinstance(source.content.get(EXTENDS), str):
        parent = _extended(file, text, source.content, home)
        content = merge_diets(content, parent.model_dump(exclude_unset=True))
    return validated(Diet, content, source.node, file=str(file), error=DietError)


def _extended(file: Path, text: str, child: Mapping[str, Any], home: Path | None) -> Diet:
    """Return the diet that results from the fields `child` in `file` and the diet that they extend.

    A diet of the workspace may extend the package's diet of the same name.

    Raises:
        DietError: if the extended diet doesn't exist or extends another one, or if both would write artefacts
            under the same name.
    """
    where = f"{file}:{line_of(text, (EXTENDS,), file=str(file), error=DietError)}"
    name = child[EXTENDS]
    try:
        found = _extended_file(file, name, home)
    except DietError as unknown:
        raise DietError(
            where, f"extends = {name!r}", cause=unknown.cause, cure=unknown.cure
        ) from None
    said = text_of(found, error=DietError)
    if EXTENDS in read_yaml(said, file=str(found), error=DietError).content:
        raise DietError(
            where,
            f"extends = {name!r}",
            cause=f"{found} extends another diet itself, and only one level is supported",
            cure="Extend a diet without `extends`, or write out all fields of this one",
        )
    parent = _diet(found, said, home)
    own = child.get("specialist", parent.specialist), child.get("branch", parent.branch)
    if own == (parent.specialist, parent.branch):
        raise DietError(
            where,
            f"extends = {name!r}",
            cause=f"both would write artefacts under the same name, {parent.specialist}",
            cure="Give it a branch, such as `branch: wide`",
        )
    return parent


def load_phases(name_or_path: str = "phases", home: Path | None = None) -> Phases:
    """Load phases by name or from a YAML file, in curriculum order.

    Raises:
        DietError: for an unknown name (the error names the closest one) or a fault in the file (the error
            gives its line).
    """
    file = _find_file(name_or_path, _phases(home), home, kind="phases file")
    spec = parse(PhasesSpec, text_of(file, error=DietError), file=str(file), error=DietError)
    return MappingProxyType(spec.root)


def is_path(name: str) -> bool:
    """Return True if `name` is the path of a diet or of a phases file, rather than a name."""
    return "/" in name or name.endswith((".yaml", ".yml", ".json"))


def _find_file(
    name_or_path: str, known: Mapping[str, Path], home: Path | None, *, kind: str
) -> Path:
    if not is_path(name_or_path):
        if name_or_path not in known:
            raise _unknown(name_or_path, known, home, kind)
        return known[name_or_path]
    file = Path(name_or_path)
    if not file.exists():
        raise DietError(
            name_or_path, cause="there is no such file", cure=f"Name a {kind}: {', '.join(known)}"
        )
    return file


def _unknown(name: str, known: Mapping[str, Path], home: Path | None, kind: str) -> DietError:
    """Return the error for a name that is neither in the workspace nor in the package."""
    cause, cure = f"there is no such {kind}", nearest(name, tuple(known))
    if home is not None:
        cause += f" in {home / FOLDERS[kind]}, and none comes with the package"
        if (missing := missing_workspace(home)) is not None:
            cure += f"{'' if cure.endswith('?') else '.'} {missing}"
    return DietError(name, cause=cause, cure=cure)
