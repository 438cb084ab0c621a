"""A specialist of four weeks, as its report would find it: every state, gates, approvals, GPUs that cost."""

import itertools
from collections import Counter

import pytest

from curriculum.inspection.losses import Exclusions
from curriculum.inspection.paired import Place
from curriculum.inspection.step_metrics import TrainingPoint
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.pipeline.status import PhaseStatus, State
from curriculum.store.attempt_state import AttemptState
from curriculum.train.document_sums import PairedChange
from dashboards.report.facts import Facts, PhaseFacts, TrainedRun
from dashboards.report.packed_data_sets import PackedDataSet
from dashboards.rows.write import ExampleRow
from schemas.diet import AdvanceWhen, StopsImproving
from schemas.job import (
    Figure,
    Job,
    ModelSpec,
    OptimizerSpec,
    Report,
    RowsSource,
    TokenCounts,
    TokenizerRef,
)
from schemas.mixture import LeftOutRows, MixtureReport, StratumReport, TokenRepetition
from schemas.phase_status import Approval
from schemas.reports import DomainRows, EncodeReport, RowsReport, SelectionReport, SkipsReport
from schemas.specialist import SpecialistRef
from tests import factories

NAMES = ("syntax", "file_graph", "repository_graph", "structure", "anneal")
ENDS = (
    {"syntax": 0.912, "anchor": 0.951, "unseen": 1.131},
    {"syntax": 0.918, "file_graph": 0.803, "anchor": 0.938, "unseen": 1.117},
    {
        "syntax": 0.961,
        "file_graph": 0.799,
        "repository_graph": 0.741,
        "anchor": 0.942,
        "unseen": 1.12,
    },
)
"""val_bpb of each evaluation after each phase: repository_graph forgets syntax."""


def figure(
    phase: str, step: int, bits: float, *, family: str = "*", domain: str = "*", **changes: str
) -> Figure:
    """A figure with an interval around it."""
    return factories.figure(
        bits,
        **changes,
        phase=phase,
        family=family,
        domain=domain,
        step=step,
        low=bits - 0.012,
        high=bits + 0.012,
        scored_tokens=410_000,
        scored_bytes=1_310_000,
    )


def report(number: int, *, attempt: int = 1, worse: float = 0.0) -> Report:
    """Return the report of phase `number`, with val_bpb raised by `worse`."""
    steps = 40_000
    ends = {name: bits + worse for name, bits in ENDS[number].items()}
    begins = dict(ENDS[number - 1]) if number else {"anchor": 3.2, "unseen": 3.3}
    begins = {**begins, NAMES[number]: begins.get(NAMES[number], 3.4 if number == 0 else 0.88)}
    history = [
        figure(name, steps * at // 8, begins[name] + (ends[name] - begins[name]) * (at / 8) ** 0.3)
        for at in range(9)
        for name in sorted(ends)
    ]
    stopped = ("gate", "budget", "budget")[number]
    return factories.run_report(
        phase=NAMES[number],
        attempt=attempt,
        stopped=stopped,
        reason="val_bpb fell by 0.0011 over 3 evaluations" if stopped == "gate" else "40000 steps",
        steps=steps,
        tokens=TokenCounts(
            positions=4_400_000_000, valid=4_310_000_000, scored=4_300_000_000, bytes=1
        ),
        before=tuple(figure(name, 0, bits) for name, bits in sorted(begins.items())),
        after=(
            *(figure(name, steps, bits) for name, bits in sorted(ends.items())),
            figure(NAMES[number], steps, 0.7, family="v3_doxygen", domain="templates"),
            figure(NAMES[number], steps, 0.9, set="fim"),
        ),
        history=tuple(history),
        tokens_per_second=412_345.0,
        seconds=201_600,
        gpu_seconds=1_612_800,
        cost=1120.0,
        device="cuda",
        backend="varlen",
        masked_mfu=0.412,
        mean_context=2210.0,
        attention_density=0.31,
        checkpoint="x",
    )


def job(number: int) -> Job:
    """The job of the number-th phase."""
    rows = RowsSource(key="r", content="c", path="rows/r", row_length=4096)
    return Job(
        specialist="templates",
        branch="wide",
        phase=NAMES[number],
        run_key="a" * 12,
        attempt=1,
        seed=17,
        model=ModelSpec(
            name="hybrid-60m",
            vocab_size=32_768,
            blocks="MFAF",
            width=512,
            heads=8,
            kv_heads=4,
            mlp_width=1536,
        ),
        backend="varlen",
        device="cuda",
        tokenizer=TokenizerRef(key="t", content="c", path="tokenizers/t", vocab_size=32_768),
        plan="mixtures/m/plan.parquet",
        plan_key="m",
        plan_content="c",
        rows=(rows,),
        rope_base=5e5,
        micro_positions=4096,
        tokens_per_step=110_592,
        steps=40_000,
        optimizer=OptimizerSpec(learning_rate=3e-4, warmup_steps=50 if number else 200),
        start_from=None,
        evaluations=(),
        evaluate_every=5_000,
        checkpoint_every=5_000,
        advance_when=None,
        require=(),
        overrides={},
    )


def training_points(number: int) -> tuple[TrainingPoint, ...]:
    """Points of the number-th phase: the loss falls, then is noise; each phase is slower than the last."""
    fall = 0.0 if number else 8.0
    return tuple(
        TrainingPoint(
            steps=step,
            tokens=100_000 * step,
            scored_tokens=90_000 * step,
            seconds=(1.0 + number) * step,
            loss=2.0 - 0.4 * number + fall / (1 + step / 300) + 0.05 * (step // 100 % 2),
            learning_rate=3e-4 * min(1.0, step / 2_000),
        )
        for step in range(100, 40_001, 100)
    )


def serving(index: int, family: str, share: float, row_length: int) -> ResolvedServing:
    """A line of a diet."""
    return ResolvedServing(
        index=index,
        family=family,
        objective="fim" if index == 1 else "causal",
        row_length=row_length,
        share=share,
        tokens=int(share * 1e9),
        domains=(),
        repositories=(),
    )


def phase(number: int, portion: float) -> ResolvedPhase:
    """The number-th of the diet."""
    gate = AdvanceWhen(min_tokens=1_000_000_000, val_bpb=StopsImproving(stops_improving_by=0.002))
    row_length = 4096 * 4 ** min(number, 2)
    return ResolvedPhase(
        specialist="templates",
        branch="wide",
        name=NAMES[number],
        tokens=int(portion * 10e9),
        rope_base=500_000,
        servings=(
            serving(0, "v3_doxygen", 0.6, row_length),
            serving(1, "v3_simple", 0.15, row_length),
            serving(2, "v4_context_graph", 0.25, row_length),
        ),
        max_repetition=4,
        max_token_repetition=4,
        on_shortage="stop",
        advance_when=gate if number < 3 else None,
        on_budget="hold" if number == 2 else "advance",
        require=("approval",) if number in (1, 3) else (),
        why="what a <commit> changed & why" if number else "a requires-clause is legal or not",
        portion=portion,
    )


def stratum(number: int, serving_: ResolvedServing, domain: str, share: float) -> StratumReport:
    """A serving in one domain, a little off its plan."""
    drawn = int(1_000_000 * share)
    return StratumReport(
        stratum=number,
        serving=serving_.index,
        family=serving_.family,
        objective=serving_.objective,
        domain=domain,
        row_length=serving_.row_length,
        rows_key="a" * 64,
        rows=300_000,
        rows_tokens=1_000_000_000,
        share=share * serving_.share,
        served=share * serving_.share,
        slots=drawn,
        drawn=drawn,
        drawn_before=0,
        tokens=int(4.3e9 * share * serving_.share * (1.04 if number % 2 else 0.97)),
    )


def mixture(each: ResolvedPhase) -> MixtureReport:
    """Return the mixture report of a phase."""
    domains = {"templates": 0.5, "testing": 0.3, "general": 0.2}
    strata = [
        stratum(number, serving_, domain, share)
        for number, (serving_, domain, share) in enumerate(
            (serving_, domain, share)
            for serving_ in each.servings
            for domain, share in domains.items()
        )
    ]
    return MixtureReport(
        slot_length=each.slot_length,
        slots=1_000_000,
        rows=1_000_000,
        tokens=sum(one.tokens for one in strata),
        budget=each.tokens,
        tokens_per_step=110_000,
        steps=40_000,
        strata=tuple(strata),
        repetition=TokenRepetition(scored=9_000_000, distinct=3_000_000, new=1_000_000, limit=4),
        left_out=LeftOutRows(rows=3, tokens=12_000, first=("a", "b", "c")),
        warnings=("v3_simple causal at 512: there is no row of it",),
    )


def packed(each: ResolvedServing) -> PackedDataSet:
    """The rows of a serving."""
    return PackedDataSet(
        key="a" * 64,
        labels={
            "family": each.family,
            "objective": each.objective,
            "row_length": f"{each.row_length}",
            "variant": "0",
        },
        report=RowsReport(
            encode=EncodeReport(
                documents={
                    "whole": 8000,
                    "elided": 900,
                    "divided": 700,
                    "routed": 300,
                    "dropped": 20,
                }
            ),
            domains={
                "general": DomainRows(
                    rows=12_345,
                    documents=9_600,
                    tokens=int(12_345 * each.row_length * 0.984),
                    padded_yield=0.41,
                )
            },
        ),
        example=example(each),
    )


def example(each: ResolvedServing) -> ExampleRow:
    """A row of three documents and some padding."""
    length = each.row_length
    ends = [0, length // 2, 3 * length // 4, length - length // 16]
    return ExampleRow(
        link=f"rows/{'a' * 12}.html#r{each.index}",
        spans=tuple(itertools.pairwise(ends)),
        length=length,
        valid=ends[-1],
    )


STARTED = ("2026-11-08T12:00:00+00:00", "2026-11-10T18:00:00+00:00", "2026-11-13T09:00:00+00:00",
         "2026-11-20T07:30:00+00:00", "")  # fmt: skip
ENDED = ("2026-11-10T17:03:00+00:00", "2026-11-11T17:03:00+00:00", "2026-11-19T17:03:00+00:00")
APPROVED = Approval(
    run_key="k",
    attempt=1,
    content="c",
    specialist="templates",
    phase="file_graph",
    who="ann <b>",
    when="2026-11-12T09:30:00+00:00",
    comment="looks right & </script>",
)
WHYS: dict[State, str] = {
    "holds": "repository_graph holds: its budget ended before its gate opened (40000 steps). Look at the "
    "run; then raise token_budget, loosen advance_when, or set on_budget: advance.",
    "running": "step 12,000 of 20,000, 401k tokens/s, val_bpb 0.731; process 4711 on gpu-1",
    "waiting": "for structure, which is running",
}


def changes_of(phase: str) -> dict[Place, PairedChange]:
    """Return the paired changes of a phase, overall and by objective."""
    change = PairedChange(change=-0.25, low=-0.3, high=-0.2, count=factories.equal_count(9, 9))
    return {(name, phase, "*", "*"): change for name in ("phase", "fim")}


def phase_facts(number: int, portion: float, state: State) -> PhaseFacts:
    """A phase in a state."""
    each = phase(number, portion)
    done = state in ("done", "stale", "holds")
    return PhaseFacts(
        number=number + 1,
        phase=each,
        evaluation="structure" if number == 4 else each.name,
        status=PhaseStatus(
            ref=SpecialistRef("templates", "wide"),
            phase=each.name,
            state=state,
            why=WHYS.get(state, ""),
            report=report(number) if done else None,
            progress=AttemptState(state="running", steps=12_000, valid_tokens=1_100_000_000)
            if state == "running"
            else None,
        ),
        run=TrainedRun(
            path=f"runs/specialist-templates/branch-wide/phase-{each.name}/{'a' * 12}/attempt=1",
            report=report(number),
            started=STARTED[number],
            ended=ENDED[number],
            price=2.5,
            job=job(number),
            versions={"torch": "2.13.0", "run revision": "4"},
            trained_shares={"unseen": 0.004},
        )
        if done
        else None,
        changes=changes_of(each.name) if done else {},
        approval=APPROVED if number == 1 else None,
        mixture=mixture(each) if state != "waiting" else None,
        packed=tuple(map(packed, each.servings)) if state != "waiting" else (),
        earlier=(
            TrainedRun(
                path=f"runs/specialist-templates/branch-wide/phase-syntax/{'b' * 12}/attempt=1",
                report=report(0, worse=0.03),
                started="2026-11-06T08:00:00+00:00",
                ended="2026-11-08T10:00:00+00:00",
            ),
        )
        if number == 0
        else (),
        started=STARTED[number],
        points=training_points(number) if done else (),
    )


@pytest.fixture(scope="session")
def facts() -> Facts:
    """All of it."""
    states: tuple[State, ...] = ("done", "stale", "holds", "running", "waiting")
    portions = (0.45, 0.2, 0.15, 0.1, 0.1)
    return Facts(
        specialist="templates",
        branch="wide",
        why="a requires-clause is legal or not by its structural position",
        workspace="lab <1>",
        corpus="cpp-core",
        model="hybrid-60m",
        tokenizer="cpp-32k",
        token_budget=10_000_000_000,
        written="2026-11-21T15:00:00+00:00",
        phases=tuple(
            phase_facts(number, portion, state)
            for number, (portion, state) in enumerate(zip(portions, states, strict=True))
        ),
        sources={
            "v3_doxygen": (1_204_000, 4_100_000_000),
            "v6_enriched of v3_simple": (90_000, 900_000_000),
        },
        exclusions=Exclusions(
            changes={
                "leveldb": SkipsReport(
                    read=2_400_000,
                    skipped={
                        "encoding": 1_204,
                        "corrupt": 3,
                        "versions": 300_000,
                        "too_large": 41_000,
                    },
                )
            },
            left_out={"v3_doxygen": Counter(new_file=120_000)},
            selections=(
                (
                    "files",
                    SelectionReport(
                        documents=1_294_000,
                        kept=1_145_000,
                        val=23_000,
                        rejected={"licence": 88_000, "duplicate": 61_000},
                    ),
                ),
            ),
            licences={"BSD-3-Clause": 900_000, "GPL-3.0-only": 20_000, "unknown": 400},
        ),
        largest_files=(
            {"largest files": "fmt:include/fmt/format.h", "v3_doxygen": "", "v3_simple": "46.8%"},
            {"largest files": "leveldb:db/db_impl.cc", "v3_doxygen": "2.1%", "v3_simple": ""},
        ),
    )
