"""A first diet and a first corpus of one's own, to edit; they run as they are.

The JSON Schemas are written beside them, under `.schemas`: an editor finds them wherever the package is
installed, and a folder that is shared or committed has them.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from curriculum.corpus.load import load_corpus
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.diet import Diet
from schemas.errors import CurriculumError
from schemas.json_schema import schema_text

HERE = Path(__file__).parent
DIET_NAME, CORPUS_NAME, SCHEMAS_NAME = "diet.yaml", "corpus.yaml", ".schemas"
SAMPLES = "@SAMPLES@\n"
"""Stands for the repositories of the sample corpus, which lie where the package is installed."""
MODELS: dict[str, type[BaseModel]] = {"diet": Diet, "corpus": CorpusSpec}


def write_starter(folder: Path) -> tuple[Path, Path]:
    """Write diet.yaml and corpus.yaml with their schemas into `folder`; returns their paths.

    Raises:
        CurriculumError: if one of them is there already, or the folder can't be written; then nothing is.
    """
    diet, corpus = folder / DIET_NAME, folder / CORPUS_NAME
    for file in (diet, corpus):
        if file.exists() or file.is_symlink():
            raise CurriculumError(
                str(file),
                cause="it is there already, and nothing is overwritten",
                cure="Name another folder, such as: curriculum init my-diet",
            )
    try:
        (folder / SCHEMAS_NAME).mkdir(parents=True, exist_ok=True)
        for name, model in MODELS.items():
            schema = folder / SCHEMAS_NAME / f"{name}.schema.json"
            schema.write_text(schema_text(model), encoding="utf-8")
        text = (HERE / CORPUS_NAME).read_text(encoding="utf-8")
        corpus.write_text(text.replace(SAMPLES, _samples()), encoding="utf-8")
        diet.write_text((HERE / DIET_NAME).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as refused:
        raise CurriculumError(
            str(folder), cause=f"it can't be written ({refused})", cure="Name another folder"
        ) from None
    return diet, corpus


def _samples() -> str:
    return "".join(_entry(each) for each in load_corpus("sample").repositories)


def _entry(spec: RepositorySpec) -> str:
    lines = [f"  - name: {spec.name}"]
    for field in ("path", "licence", "compile_commands"):
        value = getattr(spec, field)
        if value is not None:
            # JSON's strings are YAML's, whatever a path holds
            lines.append(f"    {field}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
