"""Cures of missing packages and tokenizers, and of damaged files: none deletes what can't be made again.

Documents, rows and mixtures are made again by a build. Trained weights aren't: a run whose log or metrics are
damaged keeps its weights, and is used without the damaged file.
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
"""The folder of the packages: a checkout, unless they were installed from elsewhere."""
LOCK = "requirements.lock"
LOST = ".lost"
"""Suffix of a file beside a run's file: the run's file is lost, and the run is used without it."""
_MANIFEST = "manifest.json"
_NEEDED = re.compile(r"job\.json|manifest\.json|checkpoints/.*")
"""Files that a run can't be used without."""


def run_of(path: Path) -> Path | None:
    """Return the directory of the run that a path lies in, or None."""
    above = (path, *path.parents)
    return next((each for each in above if number_of(each.name, ATTEMPT) is not None), None)


def cure_of(file: Path) -> str:
    """Return the cure for a damaged or missing file of an artefact or of a run.

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
    how = f"Rename it to {lost}" if file.exists() else f"Make an empty file {lost}"
    return f"{how}: the file alone is lost, and the run is used without it"


def set_aside(run: Path) -> str:
    """Return the cure for a run that can't be used as it is: it trains anew, and nothing is deleted."""
    return (
        f"Restore it from a copy, or move {one_line(str(run))} out of the workspace, where its "
        "checkpoints stay readable, and train the phase again"
    )


def is_checkout(folder: Path) -> bool:
    """Return True for a checkout of this project, whose lock pins the versions of its extras."""
    return (folder / LOCK).is_file() and (folder / "pyproject.toml").is_file()


def install_command(requirement: str) -> str:
    """Return the command that installs a package for this Python: by pip where it has one, else by uv.

    An extra such as `curriculum[ray]` is installed from the checkout in use, within the versions of its lock.
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
    """A path, relative to the current directory where it lies in it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


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
