"""A check for pytest.raises: an error's fields, so that tests don't depend on its wording."""

from collections.abc import Callable

from schemas.errors import CurriculumError


def fields(**expected: object) -> Callable[[CurriculumError], bool]:
    """Return a check that the attributes of an error equal `expected`, with paths as text."""

    def check(error: CurriculumError) -> bool:
        found = {name: getattr(error, name) for name in expected}
        wanted = {name: str(value) for name, value in expected.items()}
        assert {name: str(value) for name, value in found.items()} == wanted, found
        return True

    return check
