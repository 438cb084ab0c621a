"""Places of a unit in the tree, and names that are the same wherever the tree lies."""

from dataclasses import dataclass, field
from pathlib import Path

from curriculum.graph.clang import frontend
from curriculum.graph.clang.frontend import Cursor
from curriculum.graph.clang.seen import Chain
from curriculum.graph.facts import Range


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The files under a folder, for one unit: handles are reused by the next."""

    root: Path
    """Without symbolic links."""
    paths: dict[int, str | None] = field(default_factory=dict)
    """A file's path in the tree by the frontend's handle; None for one outside."""
    contents: dict[str, bytes] = field(default_factory=dict)

    def path(self, handle: int) -> str | None:
        """The path in the tree of a file."""
        if handle not in self.paths:
            self.paths[handle] = self.relative(frontend.file_name(handle)) if handle else None
        return self.paths[handle]

    def relative(self, name: str) -> str | None:
        """`src/a.h` for `<root>/include/../src/./a.h`; None for a file outside."""
        file = Path(name).resolve()
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else None

    def has(self, cursor: Cursor) -> bool:
        """Return True if a declaration stands in the tree."""
        return self.path(frontend.place_of(cursor).file) is not None

    def spot(self, cursor: Cursor) -> tuple[str, int] | None:
        """Path and first byte of a cursor's name."""
        at = frontend.place_of(cursor)
        path = self.path(at.file)
        return None if path is None else (path, at.offset)

    def extent(self, cursor: Cursor) -> Range | None:
        """A cursor's bytes; None where they begin and end in different files."""
        start, end = frontend.extent_of(cursor)
        if start.file != end.file or start.offset > end.offset:
            return None
        return Range(start.offset, end.offset)

    def bytes_of(self, path: str) -> bytes:
        """The bytes of a file of the tree."""
        if path not in self.contents:
            self.contents[path] = (self.root / path).read_bytes()
        return self.contents[path]

    def usr(self, cursor: Cursor) -> str:
        """The name that a thing has in all units; the frontend writes whole paths into some."""
        return self.neutral(str(cursor.get_usr()))

    def chain(self, cursor: Cursor) -> Chain:
        """A declaration's USR, then those of the templates that it comes from."""
        return tuple(self.usr(each) for each in frontend.templates_of(cursor))

    def neutral(self, text: str) -> str:
        """A text of the frontend without the place of the tree."""
        return text.replace(f"{self.root}/", "")
