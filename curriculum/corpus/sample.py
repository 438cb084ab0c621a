"""The sample repositories that are shipped: bundles of small C++ projects with a history."""

from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.atomic_dir import once
from schemas.errors import CorpusError

SAMPLES = Path(__file__).parent.parent / "corpora" / "sample"
ROOT = "@ROOT@"
"""Stands for the work tree's path in a shipped compilation database."""


def sample_names() -> list[str]:
    """The names of the sample repositories."""
    return sorted(file.stem for file in SAMPLES.glob("*.bundle"))


def unpack_samples(folder: Path) -> list[Path]:
    """Work trees of all samples under `folder`, with a compile_commands.json where one is shipped.

    What is there already stays; commit ids are the same wherever they are unpacked.

    Raises:
        CorpusError: if nothing is shipped, or git can't unpack it.
    """
    names = sample_names()
    if not names:
        raise CorpusError(
            str(SAMPLES), cause="no sample is shipped there", cure="Install the package anew"
        )
    return [_unpack(name, folder.absolute() / name) for name in names]


def _unpack(name: str, target: Path) -> Path:
    return once(target, lambda draft: _fill(name, draft, root=target))


def _fill(name: str, draft: Path, *, root: Path) -> None:
    bundle = SAMPLES / f"{name}.bundle"
    git.transfer("clone", "--quiet", "--template=", "--", str(bundle), str(draft))
    database = SAMPLES / f"{name}.compile_commands.json"
    if database.is_file():
        text = database.read_text(encoding="utf-8").replace(ROOT, str(root))
        (draft / "compile_commands.json").write_text(text, encoding="utf-8")
