"""RunConfig: settings of a run from a form, a command line or a notebook, in one group per stage.

The fields of a group, with their help texts, become fields of the Prefect forms, and options of the commands
that use the group. Empty fields keep the values of the diet and the corpus. `command` converts a config to a
command line.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, Field, ValidationError

from schemas.errors import DietError
from schemas.text import Strict

NAMES = {"continue_run": ["--continue"], "repositories": ["--repo"]}
"""Command line options whose names differ from their fields, by field."""


def _title(name: str, _: object) -> str:
    return name.replace("_", " ").capitalize()


class Group(Strict):
    """Settings of one stage; all have defaults.

    Help texts are field descriptions, because pydantic would read docstrings from the source code on every
    import.
    """

    model_config = ConfigDict(field_title_generator=_title)


class CorpusConfig(Group):
    """Repositories to read, and the number of build processes."""

    corpus: str | None = Field(
        default=None,
        description="Corpus to read instead of the diet's: a name from the workspace's corpora/ or the "
        "package.",
    )
    repositories: tuple[str, ...] = Field(
        default=(),
        description="Repositories to read instead of the corpus: paths on the machine that builds.",
    )
    max_commits: int | None = Field(
        default=None,
        ge=1,
        title="Maximum commits",
        description="Maximum number of commits to read from each repository, newest first.",
    )
    versions_per_path: int | None = Field(
        default=None,
        ge=1,
        title="Versions per file",
        description="Maximum number of versions to read of each file.",
    )
    workers: int | None = Field(
        default=None,
        ge=1,
        title="Build processes",
        description="Number of build processes; default: one per core. Doesn't change the data.",
    )


class BuildConfig(Group):
    """Packed rows: row length, tokenizer, and the branch that the artefacts are marked under."""

    phases_file: str | None = Field(
        default=None,
        description="Phases file to use instead of the diet's: phases (full row lengths), phases.demo (short "
        "rows for CPUs) or a name from the workspace's phases/.",
    )
    branch: str | None = Field(
        default=None,
        description="Name under which this run's mixtures and checkpoints are kept, apart from other "
        "branches.",
    )
    row_length: int | None = Field(
        default=None,
        ge=1,
        description="Row length of all servings in tokens, a multiple of 128; default: as in the diet and "
        "phases file.",
    )
    tokenizer: str | None = Field(
        default=None,
        description="Path of a tokenizer.json, or the word corpus to train a tokenizer on the corpus.",
    )
    configure: bool = Field(
        default=False,
        title="Run cmake",
        description="Create missing compilation databases with cmake, in a temporary copy. This runs the "
        "repositories' own code.",
    )
    unsandboxed: bool = Field(
        default=False,
        title="Parse without a sandbox",
        description="Parse code with libclang and load tokenizer.json without a sandbox, on kernels without "
        "Landlock. A vulnerability in these parsers could then run the authors' code.",
    )


class MixConfig(Group):
    """Rows of a mixture: budget, model, repetition and order."""

    token_budget: str | None = Field(
        default=None,
        description="Training tokens of all phases together, such as 500K, 20M or 10B.",
    )
    model: str | None = Field(
        default=None, description="Model preset instead of the diet's; tiny trains on a CPU."
    )
    max_repetition: float | None = Field(
        default=None, gt=0, description="Maximum number of times a row is used in a phase."
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        title="Random seed",
        description="Random seed of row order, shuffling and initial weights.",
    )


class ResumeConfig(Group):
    """Checkpoint to continue from, and rows to exclude after it."""

    continue_run: str | None = Field(
        default=None,
        title="Run to continue",
        description="RUN or RUN@STEP: continue a run from its last checkpoint or the checkpoint at a step, "
        "with the current diet. RUN is a name, a path or the first digits of a key. The rest of the phase is "
        "mixed again without forgetting which rows were used, then later phases run.",
    )
    from_step: int | None = Field(
        default=None,
        ge=0,
        title="Step to go back to",
        description="Go back to the last checkpoint at or before this step, in the newest run or the run to "
        "continue, and mix the phase again from there.",
    )
    without_rows: str | None = Field(
        default=None,
        title="Rows to exclude",
        description="Exclude rows after that checkpoint: pack_ids, document ids or repositories, separated "
        "by commas, or a file with one per line. A row is excluded if any of its documents matches.",
    )


class TrainConfig(Group):
    """Training on this machine. These settings don't change the identity of a run."""

    processes: int | None = Field(
        default=None,
        ge=1,
        title="Training processes",
        description="Number of training processes, among which the model is sharded; default: one per GPU, "
        "or one on a CPU.",
    )
    context_parallel: int | None = Field(
        default=None,
        ge=1,
        title="Context-parallel processes",
        description="Number of training processes among which the positions of each row are split, for rows "
        "whose activations don't fit on one GPU; default: rows are not split.",
    )
    recompute: bool = Field(
        default=False,
        title="Recompute activations",
        description="Recompute activations in the backward pass: less memory, slower, same losses.",
    )
    loader_workers: int | None = Field(
        default=None,
        ge=0,
        title="Loader processes",
        description="Number of loader processes per training process; default: 2 on a GPU, 0 on a CPU. "
        "Doesn't change the order of rows.",
    )
    log: str | None = Field(
        default=None,
        title="Metrics destinations",
        description="Additional destinations of metrics: tensorboard, wandb (offline), or both, separated by "
        "a comma.",
    )


GROUPS: tuple[tuple[str, type[Group]], ...] = (
    ("corpus", CorpusConfig),
    ("build", BuildConfig),
    ("mix", MixConfig),
    ("resume", ResumeConfig),
    ("train", TrainConfig),
)
"""Groups of a RunConfig by the name of their field, in the order of the stages."""

COMMON_FIELDS = ("corpus", "repositories", "max_commits", "branch", "token_budget", "model")
"""Fields that forms and --help show at once; all other fields are advanced."""
_OF_ONE_MACHINE = {
    *("workers", "processes", "context_parallel", "recompute", "loader_workers", "log"),
}
"""Fields that change neither a mixture nor the identity of a run."""
YAML_FIELDS = ("phases_file", "corpus")
"""Fields that contain a name or, except in forms, the path of a YAML file."""
_FILES = (*YAML_FIELDS, "tokenizer")
"""Fields that contain a name or the path of a file."""
_RECORDED_NAMES = {"continue_run": "continue"}
"""Names in the record of a job that differ from their fields, by field."""
_TO_MIX = ("corpus", "build", "mix", "resume")
USED_GROUPS: Mapping[str, tuple[str, ...]] = {
    "tokenizer train": ("corpus",),
    "build": ("corpus", "build"),
    "diet check": ("corpus", "build", "mix"),
    "mix": _TO_MIX,
    "train": (*_TO_MIX, "train"),
    "run": (*_TO_MIX, "train"),
}
"""Groups that each command uses. A command has no options for other groups."""


class RunConfig(Strict):
    """A specialist in a workspace, with the changes that this run makes to its diet and corpus."""

    specialist: str
    """Name of a diet, or the path of its YAML file."""
    workspace: Path
    corpus: CorpusConfig = Field(default_factory=CorpusConfig)
    build: BuildConfig = Field(default_factory=BuildConfig)
    mix: MixConfig = Field(default_factory=MixConfig)
    resume: ResumeConfig = Field(default_factory=ResumeConfig)
    train: TrainConfig = Field(default_factory=TrainConfig)
    shard: str | None = None
    """Part of a build to do on this machine, written as i/n."""

    @classmethod
    def of(cls, *, specialist: str, workspace: Path, **settings: Any) -> Self:
        """Return a config from settings without groups; the names of fields are unique across groups.

        >>> RunConfig.of(specialist="templates", workspace=Path("w"), seed=5).mix.seed
        5

        Raises:
            DietError: for a value that its field doesn't allow.
        """
        groups = {name: {} for name, _ in GROUPS}  # type: dict[str, dict[str, Any]]
        for field, value in settings.items():
            name = next((name for name, group in GROUPS if field in group.model_fields), None)
            if name is None:
                raise TypeError(f"no group of a RunConfig has a field {field!r}")
            groups[name][field] = value
        try:
            return cls.model_validate({"specialist": specialist, "workspace": workspace, **groups})
        except ValidationError as invalid:
            fault = invalid.errors()[0]
            raise DietError(
                option(str(fault["loc"][-1])),
                fault["input"],
                cause=fault["msg"],
                cure="See the command's --help",
            ) from None

    def changes(self, command: str = "run") -> Iterator[tuple[str, object]]:
        """Yield names and values of the fields that differ from their defaults and that `command` uses."""
        for name, group in GROUPS:
            if name not in USED_GROUPS[command]:
                continue
            values = getattr(self, name)
            for field, info in group.model_fields.items():
                if (value := getattr(values, field)) != info.default:
                    yield field, value

    @classmethod
    def of_overrides(cls, recorded: Mapping[str, str], *, specialist: str, workspace: Path) -> Self:
        """Return the config of a specialist from the overrides recorded in a job; ignore unknown names.

        Raises:
            DietError: for a value that its field doesn't allow.
        """
        fields = {field for _, group in GROUPS for field in group.model_fields} - _OF_ONE_MACHINE
        names = {field: _RECORDED_NAMES.get(field, field) for field in fields}
        settings: dict[str, Any] = {
            field: recorded[name] for field, name in names.items() if name in recorded
        }
        if "repositories" in settings:
            settings["repositories"] = tuple(shlex.split(settings["repositories"]))
        return cls.of(specialist=specialist, workspace=workspace, **settings)

    def overrides(self) -> dict[str, str]:
        """Return the changes to diet and corpus by name, as jobs record them. Files have absolute paths.

        >>> given = {"phases_file": "phases.demo", "seed": 5}
        >>> RunConfig.of(specialist="templates", workspace=Path(), **given).overrides()
        {'diet': 'templates', 'phases_file': 'phases.demo', 'seed': '5'}
        """
        is_file = Path(self.specialist).is_file()
        recorded = {"diet": str(Path(self.specialist).absolute()) if is_file else self.specialist}
        for field, value in self.changes("mix"):
            name = _RECORDED_NAMES.get(field, field)
            if isinstance(value, tuple):
                recorded[name] = shlex.join(str(Path(path).absolute()) for path in value)
            elif field in _FILES and Path(str(value)).is_file():
                recorded[name] = str(Path(str(value)).absolute())
            elif field not in _OF_ONE_MACHINE:
                recorded[name] = str(value)
        return recorded

    def changed(self, **settings: Any) -> Self:
        """Return a copy with new values for some fields in its groups."""
        flat = {**dict(self.changes()), **settings}
        new = type(self).of(specialist=self.specialist, workspace=self.workspace, **flat)
        return new.model_copy(update={"shard": self.shard})


def option(field: str) -> str:
    """Return the command line option of a field.

    >>> option("max_commits"), option("continue_run")
    ('--max-commits', '--continue')
    """
    return NAMES.get(field, [f"--{field.replace('_', '-')}"])[0]


def command(verb: str, config: RunConfig, *words: str) -> str:
    """Return the command line that runs `verb` with a config, with quotes where a shell needs them.

    >>> command("run", RunConfig.of(specialist="templates", workspace=Path(), branch="ux", seed=5))
    'curriculum run templates --branch ux --seed 5'
    """
    options: list[str] = []
    for field, value in config.changes(verb):
        if field in _OF_ONE_MACHINE:
            continue
        if value is True:
            options.append(option(field))
        else:
            for item in value if isinstance(value, tuple) else (value,):
                options += [option(field), str(item)]
    return shlex.join(["curriculum", *verb.split(), config.specialist, *words, *options])
