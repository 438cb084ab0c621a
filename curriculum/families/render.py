"""Render one change as documents of the families that read changes."""

from collections.abc import Mapping, Sequence

from curriculum.families.rendered import Count, Rendered
from curriculum.graph.syntax_tree import grammar_versions
from schemas.change import FileChange
from schemas.document import Document
from schemas.families import FAMILIES


def tools() -> Mapping[str, str]:
    """Versions of the tools that decide the bytes of documents, for keys."""
    return grammar_versions()


def render(change: FileChange, families: Sequence[str]) -> Rendered:
    """Render one change for each of the families; equal input gives equal documents, on any machine.

    Costs one parse for each version of a file, whatever the number of families.
    """
    documents: list[Document] = []
    counts: list[Count] = []
    for family in families:
        for made in FAMILIES[family].function(change, family=family):
            if isinstance(made, Document):
                documents.append(made)
            elif isinstance(made, Count):
                counts.append(made)
            else:
                counts.append(Count(family=family, reason=made))
    return Rendered(documents=tuple(documents), counts=tuple(counts))
