"""Context documents of a commit between two small trees."""

from collections.abc import Callable, Mapping

from curriculum.families.document_check import check_document
from curriculum.families.render import RenderResult
from curriculum.families.v4_context_graph import documents
from curriculum.graph.call_graph import CallGraph
from schemas.change import Blob, CommitChange, FileChange, TreeDelta, TreeFile
from schemas.corpus import USUAL_CONTEXT, ContextSettings
from schemas.families import CONTEXT_FAMILY

MakeChange = Callable[..., FileChange]
FILLED = ContextSettings(context="filled", edges="all")


def rendered(
    make_change: MakeChange,
    before: Mapping[str, str],
    after: Mapping[str, str],
    settings: ContextSettings = USUAL_CONTEXT,
) -> RenderResult:
    """Return the rendered documents of the commit between two trees."""
    changes = tuple(
        make_change(before.get(path), text, path=path)
        for path, text in sorted(after.items())
        if before.get(path) != text
    )
    files = tuple(
        TreeFile(
            path=path,
            language="cpp",
            blob=Blob(blob_id=f"id of {path}", text=text),
            lineage=f"sample:{path}",
        )
        for path, text in sorted(after.items())
    )
    first = changes[0]
    commit = CommitChange(
        repository=first.repository,
        licence=first.licence,
        commit=first.commit,
        timestamp=first.timestamp,
        subject=first.subject,
        changes=changes,
        tree=TreeDelta(removed=(), files=files),
    )
    graph = CallGraph()
    graph.apply(commit.tree)
    found = documents(commit, graph, family=CONTEXT_FAMILY, settings=settings)
    for document in found.documents:
        check_document(document, settings)
    return found
