"""Views: the held-out rows of the fixed sets in several formats, the same for all arms of an ablation."""

from collections.abc import Collection, Mapping, Sequence

from curriculum.ablations.planned_arms import PlannedArm
from curriculum.pipeline.context import Context
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.steps import build_measured, fixed_length
from curriculum.stages import RowsSpec
from curriculum.stages.fixed_sets import sets_of
from curriculum.train.evaluation_sets import fixed_set, limit_positions
from schemas.ablation import BASE, FILE_VIEW, AblationSpec, Claim, View
from schemas.errors import JobError
from schemas.families import CONTEXT_FAMILY, VERSIONS_FAMILY
from schemas.job import Evaluation
from schemas.objectives import TARGET_OBJECTIVE, FixedSet

ViewSets = Mapping[View, tuple[Evaluation, ...]]
"""Fixed sets by view. The view `file` is left out, and so are sets without rows."""
VIEW_SHARE = 1 / 16
"""Maximum size of a set in a view: positions divided by the positions that the base diet trains on."""
_OF_FILES: tuple[View, ...] = ("fim", "doc_to_code", "code_to_doc")


def view_specs(base: RunPlan, views: Collection[View]) -> dict[View, RowsSpec]:
    """Return the specification of rows for each view in `views` that the base diet's row lengths allow.

    Rows of views with whole files are as long as the anchor's rows. A diet with a single row length has no
    cropped targets.
    """
    lengths = {serving.row_length for phase in base.phases for serving in phase.servings}
    lengths_of_targets: dict[View, int] = {"target": max(lengths)}
    if len(lengths) > 1:
        lengths_of_targets["target_cropped"] = min(lengths)
    of_targets = {
        view: RowsSpec(family=CONTEXT_FAMILY, objective=TARGET_OBJECTIVE, row_length=length)
        for view, length in lengths_of_targets.items()
    }
    of_files: dict[View, RowsSpec] = {
        view: RowsSpec(family=VERSIONS_FAMILY, objective=view, row_length=fixed_length(base))
        for view in _OF_FILES
    }
    return {view: spec for view, spec in (of_files | of_targets).items() if view in views}


def build_views(
    spec: AblationSpec, planned: Sequence[PlannedArm], context: Context
) -> list[ViewSets]:
    """Build the rows of all views that the claims name, and return the sets of each arm.

    Arms with different tokenizers get different rows. The base diet's budget determines the number of rows
    for all arms.

    Raises:
        JobError: for a claim on a set that has no rows in its view.
    """
    views = {claim.view for claim in spec.claims} - {FILE_VIEW}
    base = next(arm.plan for arm in planned if arm.arm.name == BASE)
    specs = view_specs(base, views)
    positions = VIEW_SHARE * sum(phase.tokens for phase in base.phases)
    known: dict[str, ViewSets] = {}
    found = []
    for arm in planned:
        plan, diet = arm.plan, arm.plan.diet
        made_of = repr((plan.corpus, diet.tokenizer, diet.vocab_size, diet.document_tokens))
        if made_of not in known:
            known[made_of] = _sets(plan, specs, positions, context) if specs else {}
        found.append(known[made_of])
    for claim in spec.claims:
        for arm, sets in zip(planned, found, strict=True):
            if arm.arm.name in (claim.arm, claim.against):
                _require_set(claim, arm.plan, sets, base)
    return found


def _sets(
    plan: RunPlan, specs: Mapping[View, RowsSpec], positions: float, context: Context
) -> ViewSets:
    root = plan.store.root
    made = build_measured(plan, tuple(specs.values()), context)
    return {
        view: tuple(
            evaluation
            for name, rows in made[spec].items()
            if (whole := fixed_set(name, rows, workspace=root)) is not None
            for evaluation in limit_positions([whole], positions)
        )
        for view, spec in specs.items()
    }


def _require_set(claim: Claim, plan: RunPlan, sets: ViewSets, base: RunPlan) -> None:
    """Raise unless a claim's set has rows in its view."""
    known: dict[View, Sequence[FixedSet | str]] = {FILE_VIEW: sets_of(plan.corpus)}
    known |= {view: [evaluation.set for evaluation in held] for view, held in sets.items()}
    if claim.set in known.get(claim.view, ()):
        return
    listed = "; ".join(f"{view}: {', '.join(names)}" for view, names in known.items() if names)
    raise JobError(
        f"claim {claim.claim!r}",
        f"set {claim.set} in the view {claim.view}",
        cause=_cause(claim.view, base),
        cure=f"Name another set or view. Available: {listed}",
    )


def _cause(view: View, base: RunPlan) -> str:
    if view in _OF_FILES or view == FILE_VIEW:
        return "the corpus has no held-out rows of this set"
    if view not in view_specs(base, [view]):
        return "the base diet has rows of a single length, so that no target is cropped"
    return (
        "this view needs graphs, and no graphs are built for unseen repositories and later commits"
    )
