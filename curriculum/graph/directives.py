"""What #include and #define say, read off the text: their branches may be blanked in the tree."""

import re
from collections.abc import Iterator, Sequence

from curriculum.graph.blank import TO_LINE_END
from curriculum.graph.extents import Extents
from curriculum.graph.facts import Range
from curriculum.graph.ranges import is_in
from curriculum.graph.spelling import Parameters
from curriculum.graph.sweep import Draft

_DIRECTIVE = re.compile(
    rb"\n[ \t]*#[ \t]*(?:include(?:_next)?[ \t]*[<\"]([^>\"\n]*)[>\"]"
    rb"|define[ \t]+([A-Za-z_]\w*)(\([^)\n]*\))?" + TO_LINE_END + rb")"
)


class Directives:
    """The directives of one file that stand in no comment or raw string."""

    def __init__(self, data: bytes, hidden: Sequence[Range]) -> None:
        self._found = [
            match
            for match in _DIRECTIVE.finditer(b"\n" + data)
            if not (hidden and is_in(match.start(), hidden))
        ]

    def includes(self, dead: Sequence[Range]) -> tuple[str, ...]:
        """What is included outside of dead branches."""
        return tuple(
            match[1].decode(errors="replace")
            for match in self._found
            if match[1] is not None and not is_in(match.start(), dead)
        )

    def macros(self, extents: Extents) -> Iterator[Draft]:
        """All macros, of whatever branch."""
        for match in self._found:
            if match[2] is None:
                continue
            lines = extents.lines(match.start(), match.end() - 1)
            listed = (match[3] or b"()")[1:-1].strip()
            number = len(listed.split(b",")) if listed else 0
            is_open = b"..." in listed
            parameters = Parameters((), number - is_open, -1 if is_open else number)
            yield Draft(
                kind="macro", name=match[2].decode(), scope=(), start=lines.start, end=lines.end,
                name_start=match.start(2) - 1, body=None, parent=-1, parameters=parameters,
            )  # fmt: skip
