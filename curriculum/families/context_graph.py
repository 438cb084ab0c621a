"""Context documents of functions: what a commit changed in a graph, and what stands around it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from curriculum.families import context
from curriculum.families.context import BUDGET, Excerpt, Mark
from curriculum.families.context_targets import shared_out, targets_of
from curriculum.families.doc_comments import comment_above
from curriculum.families.render import ExclusionCount, Reason, RenderResult
from curriculum.graph.facts import NodeId, Range, RepositoryGraph, SourceFile
from curriculum.graph.fragments import WHOLE_FILE, Costs, Fragment, Link
from curriculum.graph.neighbourhood import Neighbourhood, SearchOrder, neighbourhood
from curriculum.graph.outline import innermost, outline
from schemas.change import CommitChange
from schemas.document import Document, Edge

GAP = len(context.gap_line("cpp").encode())


def graph_documents(
    commit: CommitChange, graph: RepositoryGraph, *, family: str, order: SearchOrder
) -> RenderResult:
    """The documents of one commit, whose tree the graph has; equal input gives equal documents.

    The target is every function that the commit touched; what doesn't fit one document is divided.
    """
    targets = targets_of(commit, graph)
    if not targets:
        return _rendered(family, (), {"no_function": 1})
    costs = Costs(lead=lambda path: _lead(graph, path), gap=GAP)
    room = BUDGET - context.frame_bytes(commit, graph.source(targets[0].node.path).file.language)
    shares = shared_out(targets, graph, costs, room)
    composer = _Composer(commit=commit, graph=graph, family=family)
    around = [_around(graph, group, costs, room, order) for group in shares.groups]
    documents = [
        composer.document(group, near.fragments)
        for group, near in zip(shares.groups, around, strict=True)
    ]
    left_out: dict[Reason, int] = {
        "divided": len(documents) if len(documents) > 1 else 0,
        "function_too_large": shares.too_large,
        "repeated_definitions": sum(near.repeated_definitions for near in around),
        "repeated_bytes": sum(near.repeated_bytes for near in around),
    }
    return _rendered(family, documents, left_out)


def _rendered(
    family: str, documents: Sequence[Document], left_out: Mapping[Reason, int]
) -> RenderResult:
    counts = (
        ExclusionCount(family=family, reason=reason, number=number)
        for reason, number in left_out.items()
        if number
    )
    return RenderResult(documents=tuple(documents), counts=tuple(counts))


def _lead(graph: RepositoryGraph, path: str) -> int:
    return context.chunk_bytes(path, graph.source(path).file.language)


def _around(
    graph: RepositoryGraph,
    targets: Sequence[Fragment],
    costs: Costs,
    room: int,
    order: SearchOrder,
) -> Neighbourhood:
    return neighbourhood(graph, targets, room - costs.of_all(targets), order, costs)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Composer:
    """Makes a document of fragments."""

    commit: CommitChange
    graph: RepositoryGraph
    family: str

    def document(self, targets: Sequence[Fragment], around: Sequence[Fragment]) -> Document:
        """`around` has the nearest first."""
        chunks = [*reversed(around), *targets]
        places = {chunk.node: at for at, chunk in enumerate(chunks)}
        outer = {path: self._marks(path) for path in {chunk.node.path for chunk in chunks}}
        inner = {
            path: tuple(sorted((*outer[path], *self._inner(path)), key=_place))
            for path in {chunk.node.path for chunk in targets}
        }
        return context.document(
            self.commit,
            self.family,
            [self._excerpt(chunk, outer[chunk.node.path], places) for chunk in reversed(around)],
            [self._excerpt(chunk, inner[chunk.node.path], places) for chunk in targets],
            self._edges(chunks, places),
        )

    def _excerpt(
        self, chunk: Fragment, marks: Sequence[Mark], places: Mapping[NodeId, int]
    ) -> Excerpt:
        source = self.graph.source(chunk.node.path)
        name, symbol = chunk.node.path, "file"
        if chunk.node.number != WHOLE_FILE:
            found = source.facts.symbols[chunk.node.number]
            name, symbol = found.qualified, found.kind
        return Excerpt(
            file=source.file,
            name=name,
            symbol=symbol,
            form=chunk.form,
            ranges=chunk.ranges,
            hop=chunk.hop,
            marks=marks,
            via=None if chunk.via is None else _edge(chunk.via, places),
        )

    def _edges(self, chunks: Sequence[Fragment], places: Mapping[NodeId, int]) -> Iterator[Edge]:
        for chunk in chunks:
            if chunk.node.number != WHOLE_FILE:
                for near in self.graph.neighbours(chunk.node):
                    if near.outward and near.node in places:
                        ends = (chunk.node, near.node)
                        yield _edge(Link(*ends, near.kind, near.label, near.confidence), places)
            if chunk.via is not None:
                yield _edge(chunk.via, places)

    def _marks(self, path: str) -> tuple[Mark, ...]:
        return marks_of(self.graph.source(path))

    def _inner(self, path: str) -> tuple[Mark, ...]:
        return inner_marks_of(self.graph.source(path))


def _edge(link: Link, places: Mapping[NodeId, int]) -> Edge:
    return Edge(
        source=places[link.source],
        target=places[link.target],
        kind=link.kind,
        label=link.label,
        confidence=link.confidence,
    )


def marks_of(source: SourceFile) -> tuple[Mark, ...]:
    """Doc comments, what they stand above, and functions' bodies of a file; the outer before the inner."""
    data = source.file.blob.text.encode()
    found: list[Mark] = []
    declarations: list[Range] = []
    for symbol in source.facts.symbols:
        body = symbol.body if symbol.kind == "function" else None
        if body is not None:
            found.append(Mark(kind="body", start=body.start, end=body.end))
        comment = comment_above(data, symbol.start, symbol.name_start)
        if comment is not None and symbol.kind not in ("macro", "variable"):
            found.append(Mark(kind="documentation", start=comment.start, end=comment.end))
            code = data[comment.code : symbol.end].rstrip()
            end = body.start if body else comment.code + len(code)
            declarations.append(Range(comment.code, end))
    found += [
        Mark(kind="declaration", start=start, end=end) for start, end in innermost(declarations)
    ]
    return tuple(sorted(set(found), key=_place))


def _place(mark: Mark) -> tuple[int, int]:
    return mark.start, -mark.end


def inner_marks_of(source: SourceFile) -> tuple[Mark, ...]:
    """Statements and arguments of calls, one here and there; they are looked for in targets only."""
    found = outline(source.file.blob.text, source.file.language)
    marks = [Mark(kind="statement", start=start, end=end) for start, end in found.statements]
    marks += [Mark(kind="arguments", start=start, end=end) for start, end in found.arguments]
    return tuple(marks)
