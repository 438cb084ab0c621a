"""Reports of finished runs, their figures in words, and comparisons of several runs.

A comparison has the settings that differ, measurements, and the strata of their mixtures.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from curriculum.inspection.formats import TOO_FEW, count, held_out_words, percent
from curriculum.inspection.paired import Place, changes, measured
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ANNEAL
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import JOB, WHICH_RUN, read_job, read_report
from schemas.job import Evaluation, Figure, Heartbeat, Job, Report
from schemas.label_folders import label_of
from schemas.manifest import MANIFEST_NAME
from schemas.mixture import MixtureReport, StratumReport
from schemas.study import Study, study_mark, study_words


def report_of(run: Artefact) -> Report:
    """Read the report of a closed run."""
    return read_report(run.path)


def run_words(report: Report) -> str:
    """A run in a sentence, which begins with its study where it is one.

    run_words(report) ->
    'val_bpb 3.622 → 1.770, anchor 3.520 → 2.018, after 198k tokens (end of its budget)'
    """
    figures = (
        ("val_bpb", change(report, "phase")),
        ("anchor", change(report, "anchor")),
    )
    measured = "".join(f"{name} {figure}, " for name, figure in figures if figure)
    why = ENDINGS.get(report.stopped, report.stopped)
    words = f"{measured}after {count(report.tokens.valid)} tokens ({why})"
    return marked(report.study, words)


def marked(study: Study | None, words: str) -> str:
    """Words about a run behind its mark, where it has one.

    >>> marked(None, "45 steps"), marked(Study(positions="continue"), "")
    ('45 steps', 'study: positions continue')
    """
    return "; ".join(filter(None, (study_mark(study), words)))


NOTICEABLE = 0.05
"""Share of a phase's tokens that is worth a word where whole steps leave it out."""


def whole_steps(steps: int, tokens_per_step: int, tokens: int, budget: int) -> str:
    """The tokens of whole steps against a phase's budget, in words; empty where hardly any are left out.

    >>> whole_steps(7, 2048, 14_400, 18_000)
    '7 whole steps of 2,048 positions hold 14.4k of 18k tokens'
    >>> whole_steps(700, 2048, 1_440_000, 1_441_000)
    ''
    """
    if not steps or tokens >= (1 - NOTICEABLE) * budget:
        return ""
    listed = f"{steps:,} whole {'step' if steps == 1 else 'steps'} of {tokens_per_step:,} positions"
    return f"{listed} {'holds' if steps == 1 else 'hold'} {count(tokens)} of {count(budget)} tokens"


ENDINGS: Mapping[str, str] = {"budget": "end of its budget", "gate": "gate opened"}
"""Words for the reasons for which runs end, where they say more than the reason's name."""


def ending(report: Report) -> str:
    """The reason for which a run ended, in words."""
    why = ENDINGS.get(report.stopped, report.stopped)
    return f"{why}: {report.reason}" if report.reason else why


def unused_budget(report: Report, mixture: MixtureReport) -> str:
    """The tokens of a run that ended with its budget against it; empty where hardly any are left out."""
    if report.stopped != "budget":
        return ""
    tokens = report.tokens.valid
    return whole_steps(report.steps, mixture.tokens_per_step, tokens, mixture.budget)


def mixture_of_run(store: Store, run: Artefact) -> MixtureReport | None:
    """The report of the mixture that a closed run was trained on; None where that is gone."""
    folder = (store.root / read_job(run.path / JOB).plan).parent
    is_there = (folder / MANIFEST_NAME).is_file()
    return mixture_report_of(store.load(folder)) if is_there else None


def change(report: Report, kind: Literal["phase", "anchor"]) -> str:
    """val_bpb before and after as `3.214 → 2.871`; empty where it wasn't measured.

    A figure of too few documents or lineages says so. A phase that serves only imported rows may have no
    figure of its own.
    """
    # The decay continues under the name of the last phase.
    is_every_phase = kind == "anchor" or report.phase == ANNEAL
    measured = [
        [each for each in figures if is_every_phase or each.phase == report.phase]
        for figures in (report.before, report.after)
    ]
    before, after = (mean(figures, kind) for figures in measured)
    if after is None:
        return ""
    said = f"{before.val_bpb:.3f} → {after.val_bpb:.3f}" if before else f"{after.val_bpb:.3f}"
    return said if after.is_sure else f"{said}, {TOO_FEW}"


def measured_on(report: Report) -> str:
    """The documents and lineages that val_bpb of a phase is of; empty where it wasn't measured."""
    last = mean(report.after, "phase")
    return held_out_words(last) if last else ""


def mean(figures: Iterable[Figure], kind: Literal["phase", "anchor"]) -> Figure | None:
    """The weighted mean of one evaluation: the anchor, or the phase that came last."""
    means = [each for each in figures if (each.set, each.family) == (kind, "*")]
    return means[-1] if means else None


NOT_SETTINGS = {
    *WHICH_RUN,
    *("plan", "plan_key", "plan_content", "rows", "evaluations", "tokenizer", "start_from"),
    "study",
}
"""Fields of a job that identify the run, or are listed by other names."""
ROWS = "rows"
OTHER_ROWS, TOUCH = "measured on other rows", "intervals touch"
NOT_SURE = "no sure difference"
Stratum = tuple[str, str]
"""A serving and a domain."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRun:
    """A run, open or closed."""

    title: str
    path: Path
    job: Job
    report: Report | None
    """None while it is open."""
    state: str
    """State of an open one, with its reason; empty of a finished one."""
    beat: Heartbeat | None
    """Progress of an open one."""
    mixture: Artefact | None
    """Mixture that it is trained on; None where that is gone."""
    tools: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Something that isn't set alike."""

    name: str
    values: tuple[str, ...]
    """A word a run; empty where it has no such thing."""

    @property
    def says_something(self) -> bool:
        """Return True if it differs; rows that only some draw on are listed with the servings."""
        is_partial = self.name.startswith(f"{ROWS} ") and not all(self.values)
        return len(set(self.values)) > 1 and not is_partial


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPair:
    """An evaluation at the end of each run; None where a run hasn't got it."""

    place: Place
    figures: tuple[Figure | None, ...]
    same_rows: bool
    """True if all that have it were measured on the same rows, so that the figures can be compared."""
    paired: PairedChange | None = None
    """The last of two runs less the first, on the documents that both were measured on; None where there
    are none, and of more runs."""

    @property
    def is_shared(self) -> bool:
        """Return True if two runs or more have it."""
        return sum(each is not None for each in self.figures) > 1

    @property
    def verdict(self) -> str:
        """Compare the last with the first: `lower` or `higher` only where the interval is surely so.

        That of the change on the same documents where it is known, else their own must not touch. Figures
        of too few documents or lineages say nothing.
        """
        first, last = self.figures[0], self.figures[-1]
        if first is None or last is None:
            return ""
        if not (first.is_sure and last.is_sure):
            return TOO_FEW
        if self.paired is not None:
            return self.paired.verdict or NOT_SURE
        if not self.same_rows:
            return OTHER_ROWS
        if first.low <= last.high and last.low <= first.high:
            return TOUCH
        return "lower" if last.val_bpb < first.val_bpb else "higher"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """A stratum in each mixture; None where a mixture hasn't got it."""

    place: Stratum
    strata: tuple[StratumReport | None, ...]
    totals: tuple[int, ...]
    """Valid tokens of each mixture; 0 for one that is gone."""


def setting_differences(compared: Sequence[ComparedRun]) -> list[Setting]:
    """Return the settings that differ, in the order of the job."""
    listed = [dict(_settings(each)) for each in compared]
    names = dict.fromkeys(name for each in listed for name in each)
    found = (
        Setting(name=name, values=tuple(each.get(name, "") for each in listed)) for name in names
    )
    return [each for each in found if each.says_something]


def measured_pairs(compared: Sequence[ComparedRun]) -> list[MeasuredPair]:
    """Every evaluation that a run ended with: the weighted means first, then strata."""
    after = [
        {_place(each): each for each in (side.report.after if side.report else ())}
        for side in compared
    ]
    grounds = [_grounds(side.job) for side in compared]
    places = dict.fromkeys(place for each in after for place in each)
    pairs = _paired(compared)
    found = [
        MeasuredPair(
            place=place,
            figures=tuple(each.get(place) for each in after),
            same_rows=len(
                {
                    ground.get(place)
                    for ground, each in zip(grounds, after, strict=True)
                    if place in each
                }
            )
            == 1,
            paired=pairs.get(place),
        )
        for place in places
    ]
    return sorted(found, key=lambda each: (each.place[2] != "*", *each.place[:2]))


def _paired(compared: Sequence[ComparedRun]) -> dict[Place, PairedChange]:
    """The changes from the first of two runs to the last, where both left documents."""
    if len(compared) != 2:
        return {}
    first, last = (
        measured(side.path, side.report.steps) if side.report else None for side in compared
    )
    return changes(first, last) if first is not None and last is not None else {}


def shared_strata(compared: Sequence[ComparedRun]) -> list[Shared]:
    """Every stratum of the mixtures, in their order."""
    reports = [mixture_report_of(side.mixture) if side.mixture else None for side in compared]
    by_place = [
        {_stratum(each): each for each in (report.strata if report else ())} for report in reports
    ]
    places = dict.fromkeys(place for each in by_place for place in each)
    totals = tuple(report.tokens if report else 0 for report in reports)
    return [
        Shared(place=place, strata=tuple(each.get(place) for each in by_place), totals=totals)
        for place in places
    ]


def _settings(side: ComparedRun) -> Iterator[tuple[str, str]]:
    job = side.job
    yield from _flat(
        "", {k: v for k, v in job.model_dump(mode="json").items() if k not in NOT_SETTINGS}
    )
    yield "study", study_words(job.study) or "none"
    yield "tokenizer", job.tokenizer.key[:KEY_DIGITS]
    yield "starts from", job.start_from.run_key[:KEY_DIGITS] if job.start_from else "nothing"
    for rows in job.rows:
        yield f"{ROWS} {_labels(rows.path)}", rows.key[:KEY_DIGITS]
    if side.mixture is not None:
        yield from _of_mixture(side.mixture)
    yield from side.tools.items()
    for name, value in job.overrides.items():
        yield name if name == "diet" else f"override {name}", value


def _of_mixture(mixture: Artefact) -> Iterator[tuple[str, str]]:
    config: Mapping[str, Any] = mixture.manifest.config
    fields = {
        name: value for name, value in config.items() if name not in ("servings", "drawn", "seed")
    }
    yield from _flat("mixture.", fields)
    for serving in config["servings"]:
        name = f"serving {serving['family']} {serving['objective']} {serving['row_length']}"
        factors = ", ".join(f"{domain} {factor:g}" for domain, factor in serving["domains"].items())
        yield name, ", ".join(filter(None, (percent(serving["share"]), factors)))


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Nested values by dotted names.

    >>> [*_flat("", {"model": {"width": 128}, "require": ["leakcheck"]})]
    [('model.width', '128'), ('require', 'leakcheck')]
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(map(str, value)) or "none"
        else:
            yield f"{prefix}{name}", "none" if value is None else str(value)


def _labels(path: str) -> str:
    """The labels of an artefact's path, but for its split and a variant of 0.

    >>> _labels("rows/family-v3_simple/objective-causal/variant-0/row_length-512/split-train/787bd5ce12ad")
    'v3_simple causal 512'
    """
    pairs = map(label_of, Path(path).parts)
    return " ".join(
        value
        for name, value in pairs
        if value and name != "split" and (name, value) != ("variant", "0")
    )


def _grounds(job: Job) -> dict[Place, str]:
    """Return the rows behind each figure of a run, in words that are the same for the same rows."""
    found: dict[Place, str] = {}
    for each in job.evaluations:
        found[each.set, each.phase, "*", "*"] = repr(_ground(each))
        for stratum in each.strata:
            place = (each.set, each.phase, stratum.family, stratum.domain)
            found[place] = f"{stratum.rows.content} {stratum.measured}"
    return found


def _ground(evaluation: Evaluation) -> list[tuple[object, ...]]:
    return [
        (each.family, each.domain, each.weight, each.rows.content, each.measured)
        for each in evaluation.strata
    ]


def _place(figure: Figure) -> Place:
    return figure.set, figure.phase, figure.family, figure.domain


def _stratum(stratum: StratumReport) -> Stratum:
    return f"{stratum.family} {stratum.objective} {stratum.row_length}", stratum.domain
