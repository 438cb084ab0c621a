"""Name of a specialist: the one spelling that commands, pages and SQL show."""

from typing import NamedTuple


class SpecialistRef(NamedTuple):
    """A specialist and its branch, if it has one."""

    specialist: str
    branch: str | None = None

    @staticmethod
    def parse(name: str) -> "SpecialistRef":
        """Return the specialist of a name as `spelled` gives it.

        >>> SpecialistRef.parse("templates/demo")
        SpecialistRef(specialist='templates', branch='demo')
        """
        specialist, _, branch = name.partition("/")
        return SpecialistRef(specialist, branch or None)


def spelled(ref: tuple[str, str | None], *more: str) -> str:
    """The one spelling that is shown of a specialist, its branch and a phase or more of it.

    >>> spelled(SpecialistRef("templates", "demo"), "syntax"), spelled(SpecialistRef("testing"))
    ('templates/demo/syntax', 'testing')
    """
    return "/".join([*filter(None, ref), *more])


def file_stem(ref: tuple[str, str | None]) -> str:
    """Return the name that a specialist has in names of files.

    Names of specialists and branches don't hold @, so that no two share a file.

    >>> file_stem(SpecialistRef("templates", "demo")), file_stem(SpecialistRef("templates-demo"))
    ('templates@demo', 'templates-demo')
    """
    return "@".join(filter(None, ref))
