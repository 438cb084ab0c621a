"""The error of the catalog."""

from schemas.errors import CurriculumError


class CatalogError(CurriculumError):
    """A question that the catalog can't answer."""
