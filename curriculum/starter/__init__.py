"""A first diet and a first corpus of one's own in a workspace, to edit; they run as they are.

    diets/<name>.yaml      diets/.schemas/diet.schema.json
    corpora/<name>.yaml    corpora/.schemas/corpus.schema.json

The JSON Schemas are written beside them: an editor finds them wherever the package is installed, and a
workspace that is shared or committed has them.
"""

import json
from pathlib import Path

import yaml
from pydantic import BaseModel

from curriculum.corpus.load import load_corpus
from schemas.corpus import CorpusSpec, RepositorySpec, is_name
from schemas.diet import Diet
from schemas.errors import CurriculumError
from schemas.json_schema import schema_text

HERE = Path(__file__).parent
SCHEMAS = ".schemas"
NAME, SAMPLES = "@NAME@", "@SAMPLES@\n"
"""Stand for the name, and for the sample's repositories, which lie where the package is installed."""
MODELS: dict[str, type[BaseModel]] = {"diet": Diet, "corpus": CorpusSpec}


def starter_files(home: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of a diet and a corpus of that name, neither of which is there yet.

    Raises:
        CurriculumError: for a text that is no name, or if one of them is there already.
    """
    if not is_name(name):
        raise CurriculumError(
            "init",
            repr(name),
            cause="a name has letters, digits, dots, dashes and underscores, at most 100",
            cure="Give a name such as: curriculum init mine",
        )
    diet, corpus = home / "diets" / f"{name}.yaml", home / "corpora" / f"{name}.yaml"
    for file in (diet, corpus):
        if file.exists() or file.is_symlink():
            raise CurriculumError(
                str(file),
                cause="it is there already, and nothing is overwritten",
                cure="Give another name, such as: curriculum init my-diet",
            )
    return diet, corpus


def write_starter(home: Path, name: str) -> tuple[Path, Path]:
    """Write a diet and a corpus of that name with their schemas into a workspace; returns their paths.

    Raises:
        CurriculumError: as by starter_files, or if the workspace can't be written.
    """
    diet, corpus = starter_files(home, name)
    try:
        for file, kind in ((corpus, "corpus"), (diet, "diet")):
            (file.parent / SCHEMAS).mkdir(parents=True, exist_ok=True)
            schema = file.parent / SCHEMAS / f"{kind}.schema.json"
            schema.write_text(schema_text(MODELS[kind]), encoding="utf-8")
            text = (HERE / f"{kind}.yaml").read_text(encoding="utf-8")
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text.replace(NAME, _scalar(name)).replace(SAMPLES, _samples()))
    except OSError as refused:
        raise CurriculumError(
            str(home), cause=f"it can't be written ({refused})", cure="Name another workspace"
        ) from None
    return diet, corpus


def _scalar(name: str) -> str:
    """Return a name as YAML reads it back; a word such as `on` is quoted."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def _samples() -> str:
    return "".join(_entry(repository) for repository in load_corpus("sample").repositories)


def _entry(spec: RepositorySpec) -> str:
    lines = [f"  - name: {spec.name}"]
    for field in ("path", "licence", "compile_commands"):
        value = getattr(spec, field)
        if value is not None:
            # JSON's strings are YAML's, whatever a path holds
            lines.append(f"    {field}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
