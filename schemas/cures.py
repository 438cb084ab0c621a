"""Cures of a missing tokenizer, and of damaged files: none of these deletes what can't be made again.

Documents, rows and mixtures are made again by a build. Trained weights aren't: a run whose log or metrics are
damaged keeps its weights, and is used without the damaged file.
"""

import re
from pathlib import Path

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
LOST = ".lost"
"""Suffix of a file beside a run's file: the run's file is lost, and the run is used without it."""
_ATTEMPT = re.compile(r"attempt=\d+")
_MANIFEST = "manifest.json"
_NEEDED = re.compile(r"job\.json|manifest\.json|checkpoints/.*")
"""Files that a run can't be used without."""


def run_of(path: Path) -> Path | None:
    """Return the directory of the run that a path lies in, or None."""
    return next((above for above in (path, *path.parents) if _ATTEMPT.fullmatch(above.name)), None)


def cure_of(file: Path) -> str:
    """Return the cure for a damaged or missing file of an artefact or of a run.

    >>> cure_of(Path("w/rows/0a1b/part-00000.parquet"))
    'Move w/rows/0a1b out of the workspace, and build again'
    """
    run = run_of(file)
    if run is None:
        made = next((above for above in file.parents if (above / _MANIFEST).is_file()), file.parent)
        return f"Move {made} out of the workspace, and build again"
    if file == run or _NEEDED.fullmatch(file.relative_to(run).as_posix()):
        return set_aside(run)
    lost = f"{file}{LOST}"
    how = f"Rename it to {lost}" if file.exists() else f"Make an empty file {lost}"
    return f"{how}: the file alone is lost, and the run is used without it"


def set_aside(run: Path) -> str:
    """Return the cure for a run that can't be used as it is: it trains anew, and nothing is deleted."""
    return (
        f"Restore it from a copy, or move {run} out of the workspace, where its checkpoints stay "
        "readable, and train the phase again"
    )


def tokenizer_file(name: str) -> str:
    """Return the cure for a tokenizer that isn't a file; for what may be a name of a hub, how to get one.

    >>> tokenizer_file("gpt2").split(": ")[1]
    'hf download gpt2 tokenizer.json tokenizer_config.json --local-dir gpt2; then name gpt2/tokenizer.json'
    >>> tokenizer_file("my tokenizer")
    'Give the path of a tokenizer.json'
    """
    if _HUB_NAME.fullmatch(name) is None or name.endswith(".json"):
        return "Give the path of a tokenizer.json"
    folder = name.rpartition("/")[2]
    return (
        "Give the path of a tokenizer.json. Of a model of the Hugging Face hub you get it so: "
        f"hf download {name} tokenizer.json tokenizer_config.json --local-dir {folder}; "
        f"then name {folder}/tokenizer.json"
    )


def is_lost(file: Path) -> bool:
    """Return True where a run's file is marked as lost."""
    run = run_of(file)
    if run is None or _NEEDED.fullmatch(file.relative_to(run).as_posix()):
        return False
    return file.with_name(f"{file.name}{LOST}").is_file()
