"""v2_simple, v2_doxygen: the file before and the file after a commit, as two documents with a header each."""

from collections.abc import Iterator
from functools import partial

from curriculum.families.document_builder import DocumentBuilder, Side, Style, header
from curriculum.families.render import Reason
from curriculum.graph.outline import outline
from schemas.change import Blob, FileChange
from schemas.document import Document


def documents(change: FileChange, *, family: str, style: Style) -> Iterator[Document | Reason]:
    """Yield the document of the file before the change, then that of the file after it, or reasons instead.

    The file before the change has no document if it is the file after another change.
    """
    if change.before is not None:
        yield (
            _version(change, change.before, "before", family=family, style=style)
            if change.before_is_new
            else "before_known"
        )
    if change.after is None:
        yield "deleted"
    elif change.before is not None and change.before.text == change.after.text:
        yield "unchanged"
    else:
        yield _version(change, change.after, "after", family=family, style=style)


def _version(
    change: FileChange, blob: Blob, side: Side, *, family: str, style: Style
) -> Document | Reason:
    if not blob.text:
        return "empty"
    path = change.old_path if side == "before" else change.path
    lines = outline(blob.text, change.language)
    builder = DocumentBuilder()
    builder.head(header(change, side=side, style=style))
    source = builder.cite(change, path, blob, (0, int(lines.starts[-1])), lineage=change.lineage)
    builder.file(blob, lines, source, [None] * len(lines.items))
    return builder.document(family, change, file=change)


simple = partial(documents, style="simple")
doxygen = partial(documents, style="doxygen")
