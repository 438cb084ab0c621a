"""Suggestions of commands to try next, for a workspace without mixtures or runs."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from curriculum.mixing.diet_files import diet_names, load_diet
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from schemas.diet import Diet
from schemas.errors import CurriculumError
from schemas.specialist import file_stem

SAMPLE = "templates.demo"
"""Name of a diet for the sample corpus that ships with the package."""
MOST = 3
"""Maximum number of diets to suggest."""
EFFECTS: dict[str, str] = {
    "run": "builds, mixes and trains, phase by phase",
    "mix": "selects and orders the training rows; missing rows are built",
}
Verb = Literal["run", "mix"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NextStep:
    """A command that works in the current workspace, and its effect."""

    command: str
    effect: str


def next_steps(home: Path, verb: Verb) -> tuple[NextStep, ...]:
    """Return commands that create a first mixture or run in a workspace, best first.

    Diets with built artefacts come first, then the workspace's own diets, then the sample. Invalid diets
    are skipped; `curriculum diet check` shows their mistakes.
    """
    built = [name for name, diet in _diets(home) if _is_built(home, diet)]
    if works := [name for name in built if _is_whole(home, name)]:
        effect = f"continues from the built artefacts: {EFFECTS[verb]}"
        return tuple(_step(verb, name, home, effect) for name in works[:MOST])
    own = sorted(file.stem for file in (home / "diets").glob("*.yaml"))
    if works := [name for name in own if _is_whole(home, name)]:
        return tuple(_step(verb, name, home, EFFECTS[verb]) for name in works[:MOST])
    sample = _step(verb, SAMPLE, home, EFFECTS[verb])
    if verb == "mix":
        return (sample,)
    return (
        NextStep(
            command=_command("demo", "--home", str(home)),
            effect="a small specialist on a sample corpus, from its repositories to a trained model",
        ),
        sample,
        NextStep(
            command=_command("init", "--home", str(home)),
            effect="a diet and a corpus of your own to edit",
        ),
    )


def _step(verb: Verb, diet: str, home: Path, effect: str) -> NextStep:
    return NextStep(command=_command(verb, diet, "--home", str(home)), effect=effect)


def _command(*words: str) -> str:
    return shlex.join(["curriculum", *words])


def _diets(home: Path) -> Iterator[tuple[str, Diet]]:
    """Yield the readable diets with their names."""
    for name in diet_names(home):
        try:
            yield name, load_diet(name, home=home)
        except CurriculumError:
            continue


def _is_whole(home: Path, name: str) -> bool:
    """Return True if a diet can be read, with its phases, corpus and model. Nothing is built."""
    try:
        resolve_plan(RunConfig.of(specialist=name, workspace=home), dry=True)
    except CurriculumError:
        return False
    return True


def _is_built(home: Path, diet: Diet) -> bool:
    """Return True if a build of one of the phases of a diet is current."""
    name = file_stem((diet.specialist, diet.branch))
    return any(
        any((home / "current").glob(f"build+{name}+{phase.phase}+*.txt")) for phase in diet.phases
    )
