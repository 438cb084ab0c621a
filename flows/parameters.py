"""The words that the forms, the command line and the YAML share, with their help texts."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue

from curriculum.diets.load import diet_names, phase_names, phases_files
from schemas.text import Strict

ALL_PHASES = "all"


def _dropdown(title: str, names: list[str], description: str) -> dict[str, JsonValue]:
    """Restricts a form's field to names; code and the command line may also give a path.

    Prefect sets title and description of a parameter itself, and takes these in their stead.
    """
    return {"title": title, "enum": [*names], "description": description}


def _phases() -> list[str]:
    """Every phase of every phases file, in the order of the curriculum."""
    return list(dict.fromkeys(name for file in phases_files() for name in phase_names(file)))


Specialist = Annotated[
    str,
    Field(
        json_schema_extra=_dropdown("Specialist", [*diet_names()], "Whose diet is served."),
    ),
]
Phase = Annotated[
    str,
    Field(
        json_schema_extra=_dropdown(
            "Phase",
            [ALL_PHASES, *_phases()],
            f"{ALL_PHASES}: go through the curriculum in order, and make what isn't there yet. "
            "One phase: only that one, from where the phase before it ended.",
        ),
    ),
]
Onwards = Annotated[
    bool,
    Field(
        json_schema_extra={
            "title": "And those after it",
            "description": "With one phase: train that one anew, then go on with those after it, each anew "
            "where what it goes on from has other weights.",
        }
    ),
]
Again = Annotated[
    bool,
    Field(
        json_schema_extra={
            "title": "Anew",
            "description": "With one phase: train it anew where it is done already.",
        }
    ),
]


def _without_toggles(schema: dict[str, Any]) -> None:
    """Let a form show an optional field as an empty box, not as a choice between a type and None."""
    for field in schema["properties"].values():
        field.pop("default", None)
        kinds = field.pop("anyOf", [{}])
        field.update(kinds[0])


class Changes(Strict):
    """What this run changes. Whatever is left empty stays as the diet and the corpus say."""

    model_config = ConfigDict(json_schema_extra=_without_toggles)

    token_budget: str | None = None
    """Tokens of all phases together: 500K, 20M, 10B."""
    model: str | None = None
    """Another model preset, such as tiny."""
    phases: str | None = Field(default=None, title="Phases file")
    """Another phases file: phases has the real row lengths, phases.demo short ones for CPUs; or a path."""
    corpus: str | None = None
    """Another corpus: a name such as sample, or the path of its YAML."""
    repositories: tuple[str, ...] = ()
    """Read these repositories instead of the corpus: paths."""
    max_commits: int | None = None
    """Read only the newest so many commits of each repository."""
    versions_per_path: int | None = None
    """Read at most so many versions of a file."""
    row_length: int | None = None
    """Tokens of a row in every serving, a multiple of 128; otherwise as diet and phases say."""
    max_repetition: float | None = None
    """How often a row may be seen, in every phase."""
    tokenizer: str | None = None
    """The path of a tokenizer.json; or corpus, to train one."""
    configure: bool = False
    """Let cmake make the compilation databases that lack, in a throw-away copy. It runs the repositories'
    own code."""
    seed: int | None = None
    """Of order, shuffling and initial weights."""
    workers: int | None = None
    """Processes that build; by default one a core. Their number changes no byte."""
    processes: int | None = Field(default=None, ge=1)
    """Processes that train together, each with its part of the model; by default one a GPU, one on a CPU."""
    recompute: bool = False
    """Keep less in memory for backward and compute it again: the same losses, more slowly."""
    log: str | None = None
    """Where training also writes its metrics: tensorboard, wandb (offline), or both with a comma."""
    continue_run: str | None = Field(default=None, title="Continue a run")
    """Go on from the middle of this run, a path or the first digits of a key, with the diet as it is now:
    its phase is mixed anew from there on, what was seen stays seen, and later phases follow."""
    at_step: int | None = None
    """The step of that run to go on from, one that it keeps a checkpoint of; by default its last."""
    from_step: int | None = None
    """Go back in the run that began last, or the one to continue: to its last checkpoint at or before
    this step, and mix the phase anew from there on."""
    without_rows: str | None = None
    """Rows that must not be seen from there on: pack_ids, documents' ids or repositories, with commas, or a
    file of them. Whole rows that hold one are left out."""


ChangesOfRun = Annotated[Changes, Field(json_schema_extra={"title": "Changes"})]
