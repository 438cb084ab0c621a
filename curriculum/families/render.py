"""The registry of families: one change in, the documents of the families that were asked for out."""

from collections.abc import Iterator, Mapping, Sequence

from curriculum.families import v2, v3
from curriculum.families.header import Style
from curriculum.families.rendered import Count, Reason, Rendered
from curriculum.graph.syntax_tree import grammar_versions
from schemas.change import FileChange
from schemas.document import Document

REVISIONS: Mapping[str, int] = {
    "v2_simple": 6,
    "v2_doxygen": 6,
    "v3_simple": 6,
    "v3_doxygen": 6,
}
"""Producer revisions, for keys; whoever changes a family's bytes raises its number."""

_STYLES: Mapping[str, Style] = {
    "v2_simple": "simple",
    "v2_doxygen": "doxygen",
    "v3_simple": "simple",
    "v3_doxygen": "doxygen",
}


def tools() -> Mapping[str, str]:
    """The versions of tools that decide the bytes of documents, for keys."""
    return grammar_versions()


def render(change: FileChange, families: Sequence[str]) -> Rendered:
    """The documents of one change; equal input gives equal documents, on any machine.

    Costs one parse for each version of a file, whatever the number of families.
    """
    documents: list[Document] = []
    counts: list[Count] = []
    edit = v3.edit(change) if any(family.startswith("v3") for family in families) else None
    for family in families:
        for made in _made(change, edit, family):
            if isinstance(made, Document):
                documents.append(made)
            elif isinstance(made, Count):
                counts.append(made)
            else:
                counts.append(Count(family=family, reason=made))
    return Rendered(documents=tuple(documents), counts=tuple(counts))


def _made(
    change: FileChange, edit: v3.Edit | Reason | None, family: str
) -> Iterator[Document | Reason | Count]:
    style = _STYLES[family]
    if family.startswith("v2"):
        yield from v2.documents(change, family=family, style=style)
    elif isinstance(edit, v3.Edit):
        yield v3.document(edit, family=family, style=style)
        yield from _left_out(edit, family)
    else:
        assert edit is not None
        yield edit


def _left_out(edit: v3.Edit, family: str) -> Iterator[Count]:
    changes = edit.changes
    if changes.hunks_left_out:
        yield Count(family=family, reason="hunks_left_out", number=changes.hunks_left_out)
    if changes.lines_left_out:
        yield Count(family=family, reason="lines_left_out", number=changes.lines_left_out)
