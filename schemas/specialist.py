"""Names of specialists, as commands, pages and SQL show them."""

from typing import NamedTuple


class SpecialistRef(NamedTuple):
    """A specialist with its branch, if it has one."""

    specialist: str
    branch: str | None = None

    @staticmethod
    def parse(name: str) -> "SpecialistRef":
        """Return the specialist that a name from `format_reference` refers to.

        >>> SpecialistRef.parse("templates/demo")
        SpecialistRef(specialist='templates', branch='demo')
        """
        specialist, _, branch = name.partition("/")
        return SpecialistRef(specialist, branch or None)


def format_reference(ref: tuple[str, str | None], *more: str) -> str:
    """Return the name to show for a specialist with its branch and, if given, a phase.

    >>> format_reference(SpecialistRef("templates", "demo"), "syntax")
    'templates/demo/syntax'
    >>> format_reference(SpecialistRef("testing"))
    'testing'
    """
    return "/".join([*filter(None, ref), *more])


def file_stem(ref: tuple[str, str | None]) -> str:
    """Return the name to use in file names for a specialist and its branch.

    The name is unique, because names of specialists and branches can't contain @.

    >>> file_stem(SpecialistRef("templates", "demo")), file_stem(SpecialistRef("templates-demo"))
    ('templates@demo', 'templates-demo')
    """
    return "@".join(filter(None, ref))
