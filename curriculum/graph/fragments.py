"""Fragments of files, which are the lines of definitions that a context document shows within a byte budget.

No line is shown twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from curriculum.graph.facts import NodeId, Range, RepositoryGraph, symbol
from curriculum.graph.line_ranges import (
    LineRanges,
    outside_bodies,
    size_of,
    subtract_ranges,
    with_text,
)
from schemas.document import ChunkForm, EdgeKind, EdgeLabel

SMALL_BODY_BYTES = 256
"""Maximum size of a function's body that is always shown, since omitting it would save too little."""
WHOLE_FILE = -1
"""Node number that means a whole file instead of a symbol."""


class NodeLink(NamedTuple):
    """Edge between two nodes."""

    source: NodeId
    target: NodeId
    kind: EdgeKind
    label: EdgeLabel
    confidence: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Fragment:
    """Excerpt of one definition; if the node's number is WHOLE_FILE, excerpt of a file."""

    node: NodeId
    form: ChunkForm
    ranges: tuple[Range, ...]
    """Whole lines of the file, sorted. The lines between two ranges are omitted."""
    hop: int
    """Number of edges on the path from the nearest target."""
    via: NodeLink | None
    """Edge over which the fragment was found; None for a target."""


class NodeForm(NamedTuple):
    """One of the ways to show a node: a form (whole, signature, skeleton) and the lines to show."""

    form: ChunkForm
    ranges: tuple[Range, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FragmentCosts:
    """Computation of the bytes that fragments take in a document, including header lines and gap lines."""

    lead: Callable[[str], int]
    """Function from a path to the number of bytes of the header line that names this file."""
    gap: int
    """Number of bytes of the line that separates two ranges or fragments of one file."""

    def size(self, fragment: Fragment, beside: Fragment | None = None) -> int:
        """Return the maximum number of bytes that a fragment takes.

        If the fragment before it (`beside`) is of the same file, no header line is needed.
        """
        is_led = beside is None or beside.node.path != fragment.node.path
        lead = self.lead(fragment.node.path) if is_led else self.gap
        return lead + size_of(fragment.ranges) + self.gap * (len(fragment.ranges) - 1)

    def total_size(self, fragments: Sequence[Fragment]) -> int:
        """Return the maximum number of bytes that the fragments take in this order."""
        return sum(
            self.size(fragment, beside)
            for beside, fragment in zip((None, *fragments), fragments, strict=False)
        )


def span_of(graph: RepositoryGraph, node: NodeId) -> Range:
    """Return the byte range of a definition's lines."""
    found = symbol(graph, node)
    return Range(found.start, found.end)


def whole_fragment(graph: RepositoryGraph, node: NodeId) -> Fragment:
    """Return a fragment that shows the target at `node` as a whole."""
    return Fragment(node=node, form="whole", ranges=(span_of(graph, node),), hop=0, via=None)


@dataclass(kw_only=True, slots=True)
class Budget:
    """Byte budget of a document, with the fragments shown so far and their total cost.

    Most definitions are shown on their own. Classes and files are shown as skeletons: the lines outside of
    function bodies that no other fragment shows. If a definition is added later, its lines are removed from
    the skeletons.
    """

    graph: RepositoryGraph
    costs: FragmentCosts
    budget: int
    fragments: list[Fragment] = field(default_factory=list)
    used: int = 0
    _hidden: defaultdict[str, LineRanges] = field(default_factory=lambda: defaultdict(LineRanges))
    _standalone: defaultdict[str, LineRanges] = field(
        default_factory=lambda: defaultdict(LineRanges)
    )
    """Lines of definitions that are shown on their own."""
    _shown: defaultdict[str, LineRanges] = field(default_factory=lambda: defaultdict(LineRanges))
    """Lines of definitions shown on their own, and of skeletons."""
    _skeletons: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Indices of skeleton fragments, by path."""
    _texts: dict[str, bytes] = field(default_factory=dict)
    _known_texts: set[bytes] = field(default_factory=set)
    """Texts of all fragments: their shown lines, and the whole definitions to which the lines belong."""

    def hide(self, fragments: Iterable[Fragment]) -> None:
        """Prevent other fragments from showing the lines of `fragments`."""
        for fragment in fragments:
            self._hidden[fragment.node.path].add(fragment.ranges)
            self._known_texts.update(self._texts_of(fragment.node, fragment.ranges))

    def forms(self, node: NodeId, *, in_full: bool) -> list[NodeForm]:
        """Return the forms in which a node can still be shown, fullest first; none if it is already shown.

        If a function's body exceeds SMALL_BODY_BYTES, only its signature is offered, unless `in_full` is set.
        """
        if self._is_skeleton(node):
            lines = self._skeleton(node)
            return [lines] if lines.ranges else []
        span = span_of(self.graph, node)
        is_cut = self._standalone[node.path].missing([span]) != (span,)
        if is_cut or not self._shown[node.path].missing([span]):
            return []
        signature = outside_bodies(self._text(node.path), span, [symbol(self.graph, node)])
        saved = size_of([span]) - size_of(signature)
        full = [NodeForm("whole", (span,))] if in_full or saved <= SMALL_BODY_BYTES else []
        return [*full, NodeForm("signature", signature)] if saved else full

    def is_repeated(self, node: NodeId, ranges: Sequence[Range]) -> bool:
        """Return True if the same text is already shown or hidden.

        The compared texts are the whole definition at `node` and its lines in `ranges`.
        """
        return not self._known_texts.isdisjoint(self._texts_of(node, ranges))

    def _texts_of(self, node: NodeId, ranges: Sequence[Range]) -> Iterator[bytes]:
        """Yield two stripped texts: the lines in `ranges`, and the whole definition or file."""
        text = self._text(node.path)
        yield b"".join(text[start:end] for start, end in ranges).strip()
        whole = text
        if node.number != WHOLE_FILE:
            span = span_of(self.graph, node)
            whole = text[span.start : span.end]
        yield whole.strip()

    def take(self, fragment: Fragment) -> bool:
        """Add a fragment and return True.

        Return False and add nothing if the fragment would exceed the budget or leave a skeleton without
        lines.
        """
        path = fragment.node.path
        is_skeleton = self._is_skeleton(fragment.node)
        smaller = {} if is_skeleton else self._shrunken_skeletons(path, fragment.ranges)
        cost = self.costs.size(fragment, self.fragments[-1] if self.fragments else None) + sum(
            self.costs.size(skeleton) - self.costs.size(self.fragments[at])
            for at, skeleton in smaller.items()
        )
        if self.used + cost > self.budget or not all(
            skeleton.ranges for skeleton in smaller.values()
        ):
            return False
        for at, skeleton in smaller.items():
            self.fragments[at] = skeleton
        if is_skeleton:
            self._skeletons[path].append(len(self.fragments))
        else:
            self._standalone[path].add(fragment.ranges)
        self._shown[path].add(fragment.ranges)
        self._known_texts.update(self._texts_of(fragment.node, fragment.ranges))
        self.fragments.append(fragment)
        self.used += cost
        return True

    def _is_skeleton(self, node: NodeId) -> bool:
        """Return True if a node is shown as a skeleton.

        Such nodes are classes, files, and definitions that contain a target.
        """
        if node.number == WHOLE_FILE or symbol(self.graph, node).kind == "class":
            return True
        span = span_of(self.graph, node)
        return self._hidden[node.path].missing([span]) != (span,)

    def _skeleton(self, node: NodeId) -> NodeForm:
        text = self._text(node.path)
        is_file = node.number == WHOLE_FILE
        span = Range(0, len(text)) if is_file else span_of(self.graph, node)
        lines = outside_bodies(text, span, self.graph.source(node.path).facts.symbols)
        left = self._shown[node.path].missing(self._hidden[node.path].missing(lines))
        left = with_text(text, left)
        return NodeForm("whole" if left == (span,) else "skeleton", left)

    def _shrunken_skeletons(self, path: str, ranges: tuple[Range, ...]) -> dict[int, Fragment]:
        """Return the skeletons of the file `path` that show lines of `ranges`, without these lines.

        The keys are indices into `fragments`.
        """
        found: dict[int, Fragment] = {}
        for at in self._skeletons[path]:
            before = self.fragments[at]
            if ranges[-1].end <= before.ranges[0].start or before.ranges[-1].end <= ranges[0].start:
                continue
            left = subtract_ranges(before.ranges, ranges)
            if left != before.ranges:
                left = with_text(self._text(path), left)
                found[at] = replace(before, form="skeleton", ranges=left)
        return found

    def _text(self, path: str) -> bytes:
        if path not in self._texts:
            self._texts[path] = self.graph.source(path).file.blob.text.encode()
        return self._texts[path]
