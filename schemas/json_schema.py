"""JSON Schemas for editors, generated from the models.

`python -m schemas.json_schema` writes schemas/json/{diet,corpus,phases,domains}.schema.json.
"""

import json
from pathlib import Path

from pydantic import BaseModel

from schemas.ablation import AblationSpec
from schemas.corpus import CorpusSpec, DomainsSpec
from schemas.diet import Diet, PhasesSpec

MODELS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("corpus", CorpusSpec),
    ("diet", Diet),
    ("phases", PhasesSpec),
    ("domains", DomainsSpec),
    ("ablation", AblationSpec),
)
FOLDER = Path(__file__).parent / "json"


def schema_text(model: type[BaseModel]) -> str:
    """Return the JSON Schema of a model as text with a final newline."""
    schema = model.model_json_schema(mode="validation")
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | schema, indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    """Write the schemas of all models."""
    FOLDER.mkdir(exist_ok=True)
    for name, model in MODELS:
        (FOLDER / f"{name}.schema.json").write_text(schema_text(model), encoding="utf-8")


if __name__ == "__main__":
    write()
