"""Parameters of the flows as Prefect's forms show them: the fields of a RunConfig with dropdowns and bounds.

Advanced fields are in a nested group, which a form shows collapsed. Dropdowns list the diets, corpora and
phases files of the workspace, then those of the package. These names are looked up each time when the forms
are generated.
"""

import contextlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from curriculum.pipeline.run_config import (
    COMMON_FIELDS,
    BuildConfig,
    CorpusConfig,
    Group,
    MixConfig,
    ResumeConfig,
    TrainConfig,
)
from flows import settings
from schemas import regular_files
from schemas.corpus import NAME
from schemas.diet import TOKEN_COUNT
from schemas.errors import CurriculumError
from schemas.label_folders import label_of
from schemas.packed_row import MAX_ROW_LENGTH, ROW_MULTIPLE

ALL_PHASES = "all"
ARM_DIET = r"/diets/ablation-[^/]+/[^/]+\.yaml$"
"""Pattern of the diet files that an ablation writes for its arms."""


def specialists() -> tuple[str, ...]:
    """Return the diets of the workspace, then the diets of the package."""
    from curriculum.mixing.diet_files import diet_names

    return _own_first(diet_names(settings.home()), diet_names())


def phases() -> tuple[str, ...]:
    """Return `all`, then the phases of all phases files in the order of training, then the anneal job."""
    from curriculum.mixing.diet_files import phase_names
    from schemas.job import ANNEAL

    names = [ALL_PHASES]
    for file in phases_files():
        # A faulty file must not hide the names of the other files; runs that use it fail with its error.
        with contextlib.suppress(CurriculumError):
            names += phase_names(file, settings.home())
    return _distinct([*names, ANNEAL])


def phases_files() -> tuple[str, ...]:
    """Return the phases files of the workspace, then those of the package."""
    from curriculum.mixing.diet_files import phases_files as files

    return _own_first(files(settings.home()), files())


def corpora() -> tuple[str, ...]:
    """Return the corpora of the workspace, then those of the package."""
    from curriculum.corpus.load import corpus_names

    return _own_first(corpus_names(settings.home()), corpus_names())


def models() -> tuple[str, ...]:
    """Return the model presets, smallest first."""
    from curriculum.model.presets import PRESETS

    return tuple(PRESETS)


def writers() -> tuple[str, ...]:
    """Return the destinations of metrics that can be chosen: each installed one, and all of them together."""
    from schemas.job import WriterName

    names = [str(name) for name in get_args(WriterName) if importlib.util.find_spec(name)]
    return _distinct([*names, ",".join(names)] if names else [])


def branches() -> tuple[str, ...]:
    """Return the branches that have mixtures or runs in the workspace."""
    found = settings.home().glob("*/specialist-*/branch-*")
    return _distinct(sorted(label_of(folder.name)[1] for folder in found))


def _own_first(names: Iterable[str], shipped: Iterable[str]) -> tuple[str, ...]:
    known = {*shipped}
    return tuple(sorted(names, key=lambda name: (name in known, name)))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def ablation_files() -> tuple[str, ...]:
    """Return the ablation files of the workspace as relative paths.

    Diets and corpora in the same folder are left out.
    """
    files = (settings.home() / "ablations").glob("*.y*ml")
    return tuple(sorted(f"ablations/{file.name}" for file in files if _has_claims(file)))


def _has_claims(file: Path) -> bool:
    try:
        return b"\nclaims:" in regular_files.read(file, follow_links=True)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Dropdown:
    """Annotation of a form field that accepts only certain names.

    Code and the command line may give a path instead.
    """

    names: Callable[[], tuple[str, ...]]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names: list[JsonValue] = [*self.names()]
        # A field with an empty list of choices could not be filled in.
        return {**handler(core), **({"enum": names} if names else {})}


@dataclass(frozen=True, slots=True)
class _NameOrPath:
    """Annotation of a form field that suggests names and also accepts a path that matches a pattern."""

    names: Callable[[], tuple[str, ...]]
    path_title: str
    pattern: str

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        path = {"pattern": self.pattern, "title": self.path_title}
        return _suggested(handler(core), self.names(), path)


def _labelled(title: str, description: str) -> Any:
    """Return the annotation that gives a flow's parameter a title and a description."""
    return Field(json_schema_extra={"title": title, "description": description})


Specialist = Annotated[
    str,
    _Dropdown(specialists),
    _labelled(
        "Specialist", "Diet of the specialist: a name from the workspace's diets/ or the package."
    ),
]
TrainedSpecialist = Annotated[
    str,
    _NameOrPath(specialists, "Diet of an ablation arm", ARM_DIET),
    _labelled(
        "Specialist",
        "Diet of the specialist: a name from the workspace's diets/ or the "
        "package, or the diet file of an ablation arm.",
    ),
]
AblationFile = Annotated[
    str,
    _NameOrPath(ablation_files, "Path of another file", r"\.ya?ml$"),
    _labelled(
        "Ablation",
        "YAML file with the diet, arms, seeds and claims of the ablation: a file in the "
        "workspace's ablations/, or a path on the server's machine.",
    ),
]
Repositories = Annotated[
    tuple[str, ...],
    _labelled("Repositories", CorpusConfig.model_fields["repositories"].description or ""),
]
Phase = Annotated[
    str,
    _Dropdown(phases),
    _labelled(
        "Phase",
        f"{ALL_PHASES}: run all phases in order and skip finished phases. Otherwise run only this "
        "phase, from the weights of the previous phase.",
    ),
]
LaterPhases = Annotated[
    bool,
    _labelled(
        "Also run later phases",
        "With a single phase: retrain this phase, then retrain later phases whose starting "
        "weights changed.",
    ),
]
Again = Annotated[
    bool, _labelled("Retrain", "With a single phase: retrain the phase even if it is finished.")
]
DryRun = Annotated[
    bool,
    _labelled(
        "Dry run",
        "Make nothing; show the steps that would run, with reasons, tokens and estimated time.",
    ),
]


_NAMES: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "corpus": corpora,
    "phases_file": phases_files,
    "model": models,
    "log": writers,
}
"""Functions that return the names of a field's dropdown."""
_BOUNDS: Mapping[str, Mapping[str, JsonValue]] = {
    "token_budget": {"pattern": TOKEN_COUNT},
    "branch": {"pattern": NAME},
    "row_length": {"minimum": ROW_MULTIPLE, "maximum": MAX_ROW_LENGTH, "multipleOf": ROW_MULTIPLE},
}
"""Bounds that the form checks before a run is created."""
ADVANCED = "advanced"


class Boxed(Group):
    """Flat fields whose JSON, as in a form, has a nested Advanced group."""

    @model_validator(mode="before")
    @classmethod
    def _flattened(cls, given: Any) -> Any:
        match given:
            case {"advanced": Mapping() | None as advanced, **usual}:
                return {**usual, **(advanced or {})}
        return given

    @model_serializer(mode="wrap")
    def _grouped(self, fields_of: SerializerFunctionWrapHandler) -> dict[str, Any]:
        usual, advanced = _split(fields_of(self))
        return {**usual, ADVANCED: advanced} if advanced else usual


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split fields into common and advanced fields."""
    usual = {name: value for name, value in fields.items() if name in COMMON_FIELDS}
    return usual, {name: value for name, value in fields.items() if name not in COMMON_FIELDS}


class BuildChanges(Boxed, BuildConfig, CorpusConfig):
    """Changes that apply to a build."""


class MixChanges(ResumeConfig, MixConfig, BuildChanges):
    """Changes that apply to a mixture."""


class Changes(TrainConfig, MixChanges):
    """Settings of this run. Empty fields keep the values of the diet and the corpus."""


@dataclass(frozen=True, slots=True)
class _Box:
    """Annotation that changes the schema of a form's group of fields.

    Fields with names become dropdowns, and switches become empty fields instead of toggles.
    """

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        usual, advanced = _split(
            {name: _field(name, field) for name, field in whole["properties"].items()}
        )
        return {**whole, "properties": {**usual, ADVANCED: _collapsed(advanced)}}


def _collapsed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a group of fields that a form shows collapsed.

    Prefect's form shows alternatives as tabs. The first tab, which is open, has no fields; the second tab has
    all of them. The fields are also listed outside of the alternatives, so that a validation error names a
    field rather than the whole group.
    """
    closed = {"title": "Defaults", "type": "object"}
    opened = {"title": "Custom", "type": "object", "properties": fields}
    return {
        "title": "Advanced",
        "description": "Rarely used settings. Choose Custom to change them; with Defaults they "
        "are ignored.",
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "anyOf": [closed, opened],
    }


def _field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field that a form shows empty, without a choice of null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    plain = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    shown = (
        {**plain, **kinds[0]} if len(kinds) == 1 else {**plain, "anyOf": kinds} if kinds else plain
    )
    shown = {**shown, **_BOUNDS.get(name, {})}
    if name == "branch":
        return _suggested(shown, branches())
    # A field with an empty list of choices could not be filled in.
    names = _NAMES[name]() if name in _NAMES else ()
    return {**shown, "enum": [*names]} if names else shown


NEW_NAME = {"title": "New branch"}


def _suggested(
    schema: dict[str, Any], names: tuple[str, ...], other: dict[str, str] = NEW_NAME
) -> dict[str, Any]:
    """Return the schema of a form field that suggests names and also accepts other texts."""
    if not names:
        return {**schema, **{key: value for key, value in other.items() if key != "title"}}
    known = {"type": "string", "enum": [*names], "title": "Existing branch"}
    plain = {key: value for key, value in schema.items() if key != "type"}
    return {**plain, "anyOf": [known, {"type": "string", **other}]}


_FIELD = Field(
    json_schema_extra={
        "title": "Changes",
        "description": inspect.getdoc(Changes),
        # A form submits its defaults, and null isn't among the names of a dropdown.
        "default": {},
    }
)
ChangesOfBuild = Annotated[BuildChanges, _Box(), _FIELD]
ChangesOfMix = Annotated[MixChanges, _Box(), _FIELD]
ChangesOfRun = Annotated[Changes, _Box(), _FIELD]
