"""Parameters of the flows: the fields of a RunConfig's groups in one box, with dropdowns and bounds.

What is rarely set lies in the box's Advanced group, which a form shows folded. The names of a dropdown are
looked up when a form is made: the workspace's own diets, corpora and phases with those of the package.
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
"""Pattern of the diets that an ablation writes for its arms."""


def specialists() -> tuple[str, ...]:
    """The diets of the workspace, then those of the package."""
    from curriculum.mixing.diet_files import diet_names

    return _own_first(diet_names(settings.home()), diet_names())


def phases() -> tuple[str, ...]:
    """All, then every phase of every phases file, in the order of the curriculum, and the tail job."""
    from curriculum.mixing.diet_files import phase_names
    from schemas.job import ANNEAL

    names = [ALL_PHASES]
    for file in phases_files():
        # A file with a fault must not take the others' names away; who uses it is told.
        with contextlib.suppress(CurriculumError):
            names += phase_names(file, settings.home())
    return _distinct([*names, ANNEAL])


def phases_files() -> tuple[str, ...]:
    """The phases files of the workspace, then those of the package."""
    from curriculum.mixing.diet_files import phases_files as files

    return _own_first(files(settings.home()), files())


def corpora() -> tuple[str, ...]:
    """The corpora of the workspace, then those of the package."""
    from curriculum.corpus.load import corpus_names

    return _own_first(corpus_names(settings.home()), corpus_names())


def models() -> tuple[str, ...]:
    """The presets of models, from the smallest."""
    from curriculum.model.presets import PRESETS

    return tuple(PRESETS)


def writers() -> tuple[str, ...]:
    """Return the installed destinations of metrics beside the run's own: each, and all together."""
    from schemas.job import WriterName

    names = [str(name) for name in get_args(WriterName) if importlib.util.find_spec(name)]
    return _distinct([*names, ",".join(names)] if names else [])


def branches() -> tuple[str, ...]:
    """The branches under which the workspace holds mixtures or runs."""
    found = settings.home().glob("*/specialist-*/branch-*")
    return _distinct(sorted(label_of(each.name)[1] for each in found))


def _own_first(names: Iterable[str], shipped: Iterable[str]) -> tuple[str, ...]:
    known = {*shipped}
    return tuple(sorted(names, key=lambda name: (name in known, name)))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def ablation_files() -> tuple[str, ...]:
    """The ablation files of the workspace, as paths in it; diets and corpora may lie beside them."""
    files = (settings.home() / "ablations").glob("*.y*ml")
    return tuple(sorted(f"ablations/{file.name}" for file in files if _has_claims(file)))


def _has_claims(file: Path) -> bool:
    try:
        return b"\nclaims:" in regular_files.read(file, follow_links=True)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Dropdown:
    """Restricts a form's field to names; code and the command line may also give a path."""

    names: Callable[[], tuple[str, ...]]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names: list[JsonValue] = [*self.names()]
        # An empty list of choices could not be filled in.
        return {**handler(core), **({"enum": names} if names else {})}


@dataclass(frozen=True, slots=True)
class _NameOrPath:
    """Offers names in a form's field, and beside them paths of a pattern."""

    names: Callable[[], tuple[str, ...]]
    path_title: str
    pattern: str

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        path = {"pattern": self.pattern, "title": self.path_title}
        return _suggested(handler(core), self.names(), path)


def _said(title: str, description: str) -> Any:
    """Title and explanation of a flow's parameter, in place of Prefect's own."""
    return Field(json_schema_extra={"title": title, "description": description})


Specialist = Annotated[
    str,
    _Dropdown(specialists),
    _said("Specialist", "Whose diet is served: one of the workspace's diets/ or of the package's."),
]
TrainedSpecialist = Annotated[
    str,
    _NameOrPath(specialists, "An arm of an ablation", ARM_DIET),
    _said("Specialist", "Whose diet is trained; or the file of an ablation's arm."),
]
AblationFile = Annotated[
    str,
    _NameOrPath(ablation_files, "Another file", r"\.ya?ml$"),
    _said(
        "Ablation",
        "YAML file with a diet, arms, seeds and claims: one of the workspace's ablations/, or a path on the "
        "machine of the server.",
    ),
]
Repositories = Annotated[
    tuple[str, ...],
    _said("Repositories", CorpusConfig.model_fields["repositories"].description or ""),
]
Phase = Annotated[
    str,
    _Dropdown(phases),
    _said(
        "Phase",
        f"{ALL_PHASES}: go through the curriculum in order, and make what isn't there yet. "
        "One phase: only that one, from where the phase before it ended.",
    ),
]
LaterPhases = Annotated[
    bool,
    _said(
        "And the phases after it",
        "With one phase: train that one anew, then continue with those after it, each anew where what it "
        "continues from has other weights.",
    ),
]
Again = Annotated[bool, _said("Anew", "With one phase: train it anew where it is done already.")]
DryRun = Annotated[
    bool,
    _said(
        "Dry run",
        "Make nothing: the run shows what would be made and why, on how many tokens, and how long.",
    ),
]


_NAMES: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "corpus": corpora,
    "phases_file": phases_files,
    "model": models,
    "log": writers,
}
"""Names that a field's dropdown offers."""
_BOUNDS: Mapping[str, Mapping[str, JsonValue]] = {
    "token_budget": {"pattern": TOKEN_COUNT},
    "branch": {"pattern": NAME},
    "row_length": {"minimum": ROW_MULTIPLE, "maximum": MAX_ROW_LENGTH, "multipleOf": ROW_MULTIPLE},
}
"""Bounds of a form alone: it refuses what is outside of them before there is a run."""
USUAL = ("corpus", "repositories", "max_commits", "branch", "token_budget", "model")
"""Fields that a form shows at once; all others are in its Advanced group."""
ADVANCED = "advanced"


class Boxed(Group):
    """Fields of one flat value whose JSON, that of a form, has an Advanced group."""

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
    """Split fields into those of a box and those of its Advanced group."""
    usual = {name: each for name, each in fields.items() if name in USUAL}
    return usual, {name: each for name, each in fields.items() if name not in USUAL}


class BuildChanges(Boxed, BuildConfig, CorpusConfig):
    """The changes that a build heeds."""


class MixChanges(ResumeConfig, MixConfig, BuildChanges):
    """The changes that a mixture heeds."""


class Changes(TrainConfig, MixChanges):
    """Changes of this run. Whatever is left empty stays as the diet and the corpus say."""


@dataclass(frozen=True, slots=True)
class _Box:
    """The fields of a form's box: dropdowns of names, and empty boxes in place of toggles."""

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        usual, advanced = _split(
            {name: _field(name, field) for name, field in whole["properties"].items()}
        )
        return {**whole, "properties": {**usual, ADVANCED: _folded(advanced)}}


def _folded(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a group of fields that a form shows folded.

    Prefect's form draws alternatives as tabs, of which the first, without fields, is open. The fields also
    lie outside of the alternatives: an error then names its field, and not the whole group.
    """
    closed = {"title": "Defaults", "type": "object"}
    opened = {"title": "Change", "type": "object", "properties": fields}
    return {
        "title": "Advanced",
        "description": "Fields that are rarely set: Change shows them. With Defaults none of them is used.",
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "anyOf": [closed, opened],
    }


def _field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field that is shown as an empty box, not as a type or None."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    plain = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    shown = (
        {**plain, **kinds[0]} if len(kinds) == 1 else {**plain, "anyOf": kinds} if kinds else plain
    )
    shown = {**shown, **_BOUNDS.get(name, {})}
    if name == "branch":
        return _suggested(shown, branches())
    # An empty list of choices could not be filled in.
    names = _NAMES[name]() if name in _NAMES else ()
    return {**shown, "enum": [*names]} if names else shown


NEW_NAME = {"title": "A new one"}


def _suggested(
    schema: dict[str, Any], names: tuple[str, ...], other: dict[str, str] = NEW_NAME
) -> dict[str, Any]:
    """Return the schema of a field that is one of some names or another text."""
    if not names:
        return {**schema, **{key: value for key, value in other.items() if key != "title"}}
    known = {"type": "string", "enum": [*names], "title": "One that is there"}
    plain = {key: value for key, value in schema.items() if key != "type"}
    return {**plain, "anyOf": [known, {"type": "string", **other}]}


_FIELD = Field(
    json_schema_extra={
        "title": "Changes",
        "description": inspect.getdoc(Changes),
        # A form sends its defaults back, and null is no name of a dropdown.
        "default": {},
    }
)
ChangesOfBuild = Annotated[BuildChanges, _Box(), _FIELD]
ChangesOfMix = Annotated[MixChanges, _Box(), _FIELD]
ChangesOfRun = Annotated[Changes, _Box(), _FIELD]
