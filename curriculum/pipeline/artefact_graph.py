"""Graph of a specialist's artefacts: the corpus, and documents, rows, mixture and run of each phase.

A node is built if the artefacts of the current diet exist, stale if only an earlier version exists, and
planned if nothing exists. The node of a run has the state of its phase.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.pipeline.attempts import attempts_in
from curriculum.pipeline.context import Resources
from curriculum.pipeline.explanations import why
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.recorded_config import newest_plan
from curriculum.pipeline.run_config import command
from curriculum.pipeline.status import PhaseStatus, PlannedArtefacts, State, planned_statuses
from curriculum.pipeline.wanted_rows import wanted_of
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from schemas.packed_row import unusual_options
from schemas.reports import DocumentsReport, RowsReport, SelectionReport
from schemas.specialist import SpecialistRef
from schemas.study import study_mark

NodeKind = Literal["corpus", "documents", "rows", "mixture", "run"]
NodeState = Literal[
    "built", "stale", "planned", "running", "waiting", "failed", "interrupted"
]  # fmt: skip
KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
"""Kinds of nodes in build order."""
CORPUS = "corpus"
"""Name of the node shared by all phases."""
_RUN_STATES: Mapping[State, NodeState] = {
    "done": "built",
    "holds": "built",
    "stale": "stale",
    "missing": "planned",
    "running": "running",
    "waiting": "waiting",
    "failed": "failed",
    "interrupted": "interrupted",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One or more artefacts of one kind at one place in the graph."""

    name: str
    """Unique name in the graph, for example syntax/rows/v3_simple causal 512."""
    kind: NodeKind
    phase: str
    """Phase; empty for the corpus."""
    title: str
    how: str
    """Detail to show next to the title, or empty."""
    state: NodeState
    why: str = ""
    """Reason for a state other than `built`; for planned nodes, the command that builds them."""
    artefacts: tuple[Artefact, ...] = ()
    """Published artefacts; for a stale node, those of the earlier version."""
    amount: int | None = None
    """Number of documents (for corpus and documents) or of tokens (for others); None if unknown."""
    val_bpb: float | None = None
    """val_bpb of a finished run after its last step."""
    made_of: tuple[str, ...] = ()
    """Names of the nodes that this node is made of."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Distinct key prefixes of its artefacts."""
        return tuple(dict.fromkeys(artefact.key[:KEY_DIGITS] for artefact in self.artefacts))


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtefactGraph:
    """All nodes of a specialist in topological order."""

    ref: SpecialistRef
    phases: tuple[str, ...]
    nodes: tuple[Node, ...]

    def of_phase(self, phase: str, kind: NodeKind) -> list[Node]:
        """Return the nodes of one kind in a phase, in serving order."""
        return [node for node in self.nodes if (node.phase, node.kind) == (phase, kind)]


def artefact_graph(home: Path, ref: SpecialistRef, resources: Resources) -> ArtefactGraph:
    """Return the graph of a specialist's artefacts for its current diet, without building anything.

    Raises:
        CurriculumError: if its diet or corpus can't be read.
    """
    store = Store(home, dry=True)
    return graph_of_plan(newest_plan(store, ref, attempts_in(store)), resources)


def graph_of_plan(plan: RunPlan, resources: Resources) -> ArtefactGraph:
    """Return the graph of a plan's artefacts.

    Raises:
        CurriculumError: if its corpus can't be read.
    """
    planned, statuses = planned_statuses(plan, resources)
    builder = _Builder(plan=plan, planned=planned)
    corpus = builder.corpus()
    nodes = [corpus]
    for phase, status in zip(plan.phases, statuses, strict=True):
        nodes += builder.phase(phase, status)
    return ArtefactGraph(
        ref=SpecialistRef(plan.diet.specialist, plan.diet.branch),
        phases=tuple(phase.name for phase in plan.phases),
        nodes=tuple(nodes),
    )


@dataclass(kw_only=True, slots=True)
class _Builder:
    """Builder of the nodes of a plan, phase by phase."""

    plan: RunPlan
    planned: PlannedArtefacts
    _run_before: str = ""
    """Name of the node of the run from which the next phase continues."""
    _documents: dict[str, Artefact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._documents = {document.key: document for document in self.planned.built.documents}

    def corpus(self) -> Node:
        """Return the corpus node with the selections of its kept documents."""
        built, corpus = self.planned.built, self.plan.corpus
        selections = [built.selection, *built.selections.values()]
        marked = [
            artefact
            for phase in self.plan.phases
            for artefact in self._marked(phase.name, "selections")
        ]
        earlier = [artefact for artefact in marked if "step" not in artefact.manifest.labels]
        state, artefacts = _state(selections, earlier)
        report = artefacts[0].reported(SelectionReport) if artefacts else None
        number = len(corpus.repositories)
        return Node(
            name=CORPUS,
            kind="corpus",
            phase="",
            title=corpus.name,
            how=f"{number} {'repository' if number == 1 else 'repositories'}",
            state=state,
            why=self._why(state, selections, self.plan.phases[0].name),
            artefacts=artefacts,
            amount=report.kept if report else None,
        )

    def phase(self, phase: ResolvedPhase, status: PhaseStatus) -> Iterator[Node]:
        """Yield the nodes of a phase: documents and rows of each serving, then the mixture and the run."""
        documents: dict[str, Node] = {}
        rows: list[Node] = []
        for serving, variants in zip(phase.servings, wanted_of(phase), strict=True):
            train = [self.planned.built.rows_of(variant).train for variant in variants]
            read = self._documents_node(phase.name, serving, train)
            if read is not None:
                documents.setdefault(read.name, read)
            rows.append(self._rows_node(phase.name, serving, train, read))
        yield from documents.values()
        yield from rows
        mixture = self._mixture_node(phase, rows)
        yield mixture
        yield self._run_node(phase, status, mixture)

    def _documents_node(
        self, phase: str, serving: ResolvedServing, rows: Sequence[Artefact]
    ) -> Node | None:
        """Return the node of the documents that a serving's rows are made of; None for imported rows."""
        keys = dict.fromkeys(
            record.key for artefact in rows for record in artefact.manifest.inputs
            if record.key in self._documents
        )  # fmt: skip
        made = [
            document
            for document in map(self._documents.__getitem__, keys)
            if document.manifest.labels["family"] == serving.family
        ]
        if not made:
            return None
        earlier = [
            artefact
            for artefact in self._marked(phase, "documents")
            if _labels(artefact, "family", "base") == _labels(made[0], "family", "base")
        ]
        state, artefacts = _state(made, earlier)
        return Node(
            name=f"{phase}/documents/{_family(serving)}",
            kind="documents",
            phase=phase,
            title=serving.family,
            how=f"of {serving.base}" if serving.base else "",
            state=state,
            why=self._why(state, made, phase),
            artefacts=artefacts,
            amount=sum(artefact.reported(DocumentsReport).documents for artefact in artefacts)
            if artefacts
            else None,
            made_of=(CORPUS,),
        )

    def _rows_node(
        self, phase: str, serving: ResolvedServing, made: Sequence[Artefact], read: Node | None
    ) -> Node:
        options = ("packer", "score", "beside")
        names = ("family", "base", "objective", "row_length", *options, "split")
        earlier = [
            artefact
            for artefact in self._marked(phase, "rows")
            if _labels(artefact, *names) == _labels(made[0], *names)
        ]
        state, artefacts = _state(made, earlier)
        return Node(
            name=f"{phase}/rows/{serving.index} {_family(serving)}",
            kind="rows",
            phase=phase,
            title=f"{serving.objective} at {serving.row_length:,}",
            how="imported" if serving.imported else unusual_options(made[0].manifest.labels),
            state=state,
            why=self._why(state, made, phase),
            artefacts=artefacts,
            amount=_tokens(artefacts),
            made_of=() if read is None else (read.name,),
        )

    def _mixture_node(self, phase: ResolvedPhase, rows: Sequence[Node]) -> Node:
        made = self.planned.mixtures[phase.name]
        current = self.plan.current("mixtures", phase)
        state, artefacts = _state([made], [current] if current else [])
        number = len(rows)
        return Node(
            name=f"{phase.name}/mixture",
            kind="mixture",
            phase=phase.name,
            title=f"{number} serving{'' if number == 1 else 's'}",
            how="",
            state=state,
            why=self._why(state, [made], phase.name),
            artefacts=artefacts,
            amount=mixture_report_of(artefacts[0]).tokens if artefacts else None,
            made_of=tuple(node.name for node in rows),
        )

    def _run_node(self, phase: ResolvedPhase, status: PhaseStatus, mixture: Node) -> Node:
        current = self.plan.current("runs", phase)
        is_current = current is not None and current.path == status.run
        state = _RUN_STATES[status.state]
        if state == "waiting":
            # A finished run waits for an approval; a phase without a run waits for earlier phases.
            state = "built" if is_current else "waiting" if status.run else "planned"
        report, name = status.report, f"{phase.name}/run"
        made_of = (mixture.name, *filter(None, (self._run_before,)))
        self._run_before = name
        after = report.own_mean(report.after, "phase") if report else None
        return Node(
            name=name,
            kind="run",
            phase=phase.name,
            title="run" if status.attempt is None else f"attempt {status.attempt}",
            how=study_mark(status.study),
            state=state,
            why="" if status.state == "done" else status.why,
            artefacts=(current,) if current is not None and is_current else (),
            amount=report.tokens.valid if report else None,
            val_bpb=after.val_bpb if after else None,
            made_of=made_of,
        )

    def _marked(self, phase: str, stage: str) -> Iterator[Artefact]:
        """Yield the artefacts of a stage that the last builds of a phase marked."""
        root = self.plan.store.root
        for file in sorted((root / "current").glob(f"{self.plan.mark_of('build', phase)}+*.txt")):
            for line in read_mark(file):
                if line.startswith(f"{stage}/") and (root / line / "manifest.json").is_file():
                    yield self.plan.store.load(root / line)

    def _why(self, state: NodeState, made: Iterable[Artefact], phase: str) -> str:
        """Return why a node is stale, or the command that builds a planned node."""
        if state == "planned":
            return command("run", self.plan.config, "--phase", phase)
        missing = next((artefact for artefact in made if artefact.planned), None)
        if state == "built" or missing is None:
            return ""
        store = self.planned.plan.store
        recipes = (step.recipe for step in reversed(store.steps) if step.recipe.key == missing.key)
        return why(store, next(recipes))


def _state(
    made: Sequence[Artefact], earlier: Sequence[Artefact]
) -> tuple[NodeState, tuple[Artefact, ...]]:
    """Return the state of planned artefacts, and the artefacts to show: those that exist, or earlier ones."""
    if not any(artefact.planned for artefact in made):
        return "built", tuple(made)
    there = dict.fromkeys(artefact.path for artefact in earlier)
    found = tuple(next(artefact for artefact in earlier if artefact.path == path) for path in there)
    return ("stale", found) if found else ("planned", ())


def _family(serving: ResolvedServing) -> str:
    """Return the family of a serving, with its base if it has one, or the name of imported rows."""
    if serving.imported is not None:
        return serving.imported.name
    return f"{serving.family} of {serving.base}" if serving.base else serving.family


def _labels(artefact: Artefact, *names: str) -> tuple[str | None, ...]:
    return tuple(artefact.manifest.labels.get(name) for name in names)


def _tokens(rows: Sequence[Artefact]) -> int | None:
    """Return the number of tokens in rows; None if no rows are given."""
    if not rows:
        return None
    reports = [artefact.reported(RowsReport) for artefact in rows]
    return sum(domain.tokens for report in reports for domain in report.domains.values())
