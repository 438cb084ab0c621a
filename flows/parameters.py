"""The words that the forms, the command line and the YAML share, with their help texts.

What a dropdown offers is looked up when a form is made: the workspace's own diets, corpora and phases
stand there with those of the package.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, JsonValue
from pydantic_core import CoreSchema

from flows import choices
from schemas.text import Strict

ALL_PHASES = choices.ALL_PHASES


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
class _Only:
    """Restricts a form's box to those fields that its flow heeds."""

    fields: tuple[str, ...]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        shown = {name: whole["properties"][name] for name in self.fields}
        return {**whole, "properties": shown}


@dataclass(frozen=True, slots=True)
class _Suggested:
    """Lets a form's field be one of some names, or a new one."""

    names: Callable[[], tuple[str, ...]]

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        names: list[JsonValue] = [*self.names()]
        new = {"type": "string", "title": "A new one"}
        known = {"type": "string", "enum": names, "title": "One that is there"}
        return {"anyOf": [known, new]} if names else new


def _said(title: str, description: str) -> Any:
    """How a form names and explains a flow's parameter, in place of what Prefect would say."""
    return Field(json_schema_extra={"title": title, "description": description})


Specialist = Annotated[
    str,
    _Dropdown(choices.specialists),
    _said("Specialist", "Whose diet is served: one of the workspace's diets/ or of the package's."),
]
Phase = Annotated[
    str,
    _Dropdown(choices.phases),
    _said(
        "Phase",
        f"{ALL_PHASES}: go through the curriculum in order, and make what isn't there yet. "
        "One phase: only that one, from where the phase before it ended.",
    ),
]
Onwards = Annotated[
    bool,
    _said(
        "And the phases after it",
        "With one phase: train that one anew, then go on with those after it, each anew where what it "
        "goes on from has other weights.",
    ),
]
Again = Annotated[bool, _said("Anew", "With one phase: train it anew where it is done already.")]


def _without_toggles(schema: dict[str, Any]) -> None:
    """Let a form show an optional field as an empty box, not as a choice between a type and None."""
    for field in schema["properties"].values():
        field.pop("default", None)
        kinds = [each for each in field.get("anyOf", ()) if each != {"type": "null"}]
        if len(kinds) == 1:
            del field["anyOf"]
            field |= kinds[0]


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize()


class Changes(Strict):
    """What this run changes. Whatever is left empty stays as the diet and the corpus say."""

    model_config = ConfigDict(json_schema_extra=_without_toggles, field_title_generator=_title)

    token_budget: str | None = None
    """Tokens of all phases together: 500K, 20M, 10B."""
    corpus: Annotated[str | None, _Dropdown(choices.corpora)] = None
    """Another corpus: one of the workspace's corpora/ or of the package's. The command line also takes the
    path of a YAML."""
    phases: Annotated[str | None, _Dropdown(choices.phases_files)] = Field(
        default=None, title="Phases file"
    )
    """Other row lengths: phases has the real ones, phases.demo short ones for CPUs, and the workspace's
    phases/ its own. The command line also takes the path of a YAML."""
    model: Annotated[str | None, _Dropdown(choices.models)] = None
    """Another size of the model; tiny trains on a CPU."""
    branch: Annotated[str | None, _Suggested(choices.branches)] = None
    """Keep this run's mixture and training apart from the specialist's others, under a branch's name."""
    row_length: int | None = Field(default=None, ge=1)
    """Tokens of a row in every serving, a multiple of 128; otherwise as diet and phases say."""
    max_repetition: float | None = Field(default=None, gt=0)
    """How often a row may be seen, in every phase."""
    seed: int | None = None
    """Of order, shuffling and initial weights."""
    repositories: tuple[str, ...] = ()
    """Read these repositories instead of the corpus: paths on the machine that builds."""
    max_commits: int | None = Field(default=None, ge=1, title="Newest commits")
    """Read only the newest so many commits of each repository."""
    versions_per_path: int | None = Field(default=None, ge=1)
    """Read at most so many versions of a file."""
    tokenizer: str | None = None
    """The path of a tokenizer.json; or corpus, to train one."""
    configure: bool = Field(default=False, title="Configure with cmake")
    """Let cmake make the compilation databases that lack, in a throw-away copy. It runs the repositories'
    own code."""
    workers: int | None = Field(default=None, ge=1, title="Processes that build")
    """Processes that build; by default one a core. Their number changes no byte."""
    processes: int | None = Field(default=None, ge=1, title="Processes that train")
    """Processes that train together, each with its part of the model; by default one a GPU, one on a CPU."""
    recompute: bool = Field(default=False, title="Recompute for backward")
    """Keep less in memory for backward and compute it again: the same losses, more slowly."""
    log: Annotated[str | None, _Dropdown(choices.writers)] = Field(
        default=None, title="Metrics also to"
    )
    """Where training also writes its metrics: tensorboard, wandb (offline), or both with a comma."""
    continue_run: str | None = Field(default=None, title="Continue a run")
    """Go on from the middle of this run, a path or the first digits of a key, with the diet as it is now:
    its phase is mixed anew from there on, what was seen stays seen, and later phases follow."""
    at_step: int | None = Field(default=None, ge=0)
    """The step of that run to go on from, one that it keeps a checkpoint of; by default its last."""
    from_step: int | None = Field(default=None, ge=0)
    """Go back in the run that began last, or the one to continue: to its last checkpoint at or before
    this step, and mix the phase anew from there on."""
    without_rows: str | None = None
    """Rows that must not be seen from there on: pack_ids, documents' ids or repositories, with commas, or a
    file of them. Whole rows that hold one are left out."""


_OF_TRAINING = ("processes", "recompute", "log")
_OF_MIXING = (
    *("token_budget", "model", "branch", "max_repetition", "seed"),
    *("continue_run", "at_step", "from_step", "without_rows"),
)
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "build": tuple(
        name for name in Changes.model_fields if name not in (*_OF_TRAINING, *_OF_MIXING)
    ),
    "mix": tuple(name for name in Changes.model_fields if name not in _OF_TRAINING),
}
"""What the form of each flow offers, where that isn't all."""

_BOX = Field(
    json_schema_extra={
        "title": "Changes",
        "description": inspect.getdoc(Changes),
        # A form sends its defaults back, and null is no name of a dropdown.
        "default": {},
    }
)
ChangesOfBuild = Annotated[Changes, _Only(_FIELDS["build"]), _BOX]
ChangesOfMix = Annotated[Changes, _Only(_FIELDS["mix"]), _BOX]
ChangesOfRun = Annotated[Changes, _BOX]
