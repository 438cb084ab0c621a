"""A JSON file of ours becomes a frozen model, or an error that names the file and its first fault."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from schemas.errors import CurriculumError

Model = TypeVar("Model", bound=BaseModel)


def read_json(
    model: type[Model], file: Path, *, error: type[CurriculumError], cause: str, cure: str
) -> Model:
    """What a file says that a version of ours wrote.

    Raises:
        CurriculumError: of the given kind, for a file that says something else.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except ValidationError as broken:
        first = broken.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise error(str(file), f"{place}: {first['msg']}", cause=cause, cure=cure) from None
