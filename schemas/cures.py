"""Hints for missing packages and tokenizers, and for damaged files.

No hint deletes data that can't be rebuilt. A build recreates documents, rows and mixtures, but not trained
weights. So a run whose log or metrics are damaged keeps its weights, and is used without the damaged file.
"""

import importlib.util
import re
import shlex
import sys
from pathlib import Path

from schemas.run_folders import ATTEMPT, number_of
from schemas.visible import one_line

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
CHECKOUT = Path(__file__).parents[1]
"""Folder that contains the packages. It is a checkout, unless the packages were installed from elsewhere."""
LOCK = "requirements.lock"
LOST = ".lost"
"""Suffix of a file that marks a file of a run as lost. The run is then used without that file."""
_MANIFEST = "manifest.json"
_NEEDED = re.compile(r"job\.json|manifest\.json|checkpoints/.*")
"""Pattern of the files without which a run can't be used."""


def run_of(path: Path) -> Path | None:
    """Return the directory of the run that a path belongs to, or None."""
    above = (path, *path.parents)
    return next((folder for folder in above if number_of(folder.name, ATTEMPT) is not None), None)


def cure_of(file: Path) -> str:
    """Return the hint for a damaged or missing file of an artefact or run.

    >>> cure_of(Path("w/rows/0a1b/selection.parquet"))
    'Move w/rows/0a1b out of the workspace, and build again'
    """
    run = run_of(file)
    if run is None:
        made = next((above for above in file.parents if (above / _MANIFEST).is_file()), file.parent)
        return f"Move {one_line(str(made))} out of the workspace, and build again"
    if file == run or _NEEDED.fullmatch(file.relative_to(run).as_posix()):
        return set_aside(run)
    lost = one_line(f"{file}{LOST}")
    how = f"Rename it to {lost}" if file.exists() else f"Create an empty file {lost}"
    return f"{how}: only this file is then lost, and the run is used without it"


def set_aside(run: Path) -> str:
    """Return the hint for a run that can't be used: restore it, or move it away and train again."""
    return (
        f"Restore it from a copy, or move {one_line(str(run))} out of the workspace (its checkpoints stay "
        "readable "
        "there), and train the phase again"
    )


def is_checkout(folder: Path) -> bool:
    """Return True for a checkout of this project, which has a file that locks the versions of extras."""
    return (folder / LOCK).is_file() and (folder / "pyproject.toml").is_file()


def install_command(requirement: str) -> str:
    """Return the command that installs a package for this Python: with pip if available, else with uv.

    In a checkout, an extra like `curriculum[ray]` is installed with the versions of its lock file.
    """
    python = shlex.quote(_short(Path(sys.executable)))
    has_pip = importlib.util.find_spec("pip") is not None
    pip = f"{python} -m pip install" if has_pip else f"uv pip install --python {python}"
    name, _, extra = requirement.partition("[")
    if name != "curriculum" or not is_checkout(CHECKOUT):
        return f"{pip} {shlex.quote(requirement)}"
    there = _short(CHECKOUT)
    lock, source = (there, there) if there != "." else ("", ".")
    locked = shlex.quote(str(Path(lock) / LOCK))
    return f"{pip} -c {locked} -e {shlex.quote(f'{source}[{extra}')}"


def _short(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def tokenizer_file(name: str) -> str:
    """Return the hint for a tokenizer that isn't a file. For a model on the hub, say how to download it.

    >>> tokenizer_file("gpt2").split(": ")[1]
    'hf download gpt2 tokenizer.json tokenizer_config.json --local-dir gpt2; then name gpt2/tokenizer.json'
    >>> tokenizer_file("my tokenizer")
    'Give the path of a tokenizer.json'
    """
    if _HUB_NAME.fullmatch(name) is None or name.endswith(".json"):
        return "Give the path of a tokenizer.json"
    folder = name.rpartition("/")[2]
    return (
        f"Give the path of a tokenizer.json. To get one from the Hugging Face hub, run: hf download {name} "
        f"tokenizer.json tokenizer_config.json --local-dir {folder}; then name {folder}/tokenizer.json"
    )


def is_lost(file: Path) -> bool:
    """Return True if a file of a run is marked as lost."""
    run = run_of(file)
    if run is None or _NEEDED.fullmatch(file.relative_to(run).as_posix()):
        return False
    return file.with_name(f"{file.name}{LOST}").is_file()
