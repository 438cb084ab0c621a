"""Runs side by side: their different settings, their figures with verdicts, and their mixtures' shares.

`curriculum compare` prints these values as tables and as JSON.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curriculum.inspection.formats import TOO_FEW, percent
from curriculum.inspection.paired import Place, changes_between
from curriculum.inspection.runs import NOT_SURE
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.store.attempt_state import AttemptState
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import WHICH_RUN
from schemas.job import Evaluation, Figure, Job, Report
from schemas.label_folders import label_of
from schemas.study import study_words

NOT_SETTINGS = {
    *WHICH_RUN,
    *("plan", "plan_key", "plan_content", "rows", "evaluations", "tokenizer", "start_from"),
    "study",
}
"""Fields of a job that aren't settings: they identify the run, or are compared under other names."""
ROWS = "rows"
OTHER_ROWS, TOUCH = "measured on other rows", "intervals touch"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedRun:
    """A run, open or closed, with the files that describe it."""

    title: str
    path: Path
    job: Job
    report: Report | None
    """Report of a closed run; None while the run is open."""
    progress: AttemptState | None
    """State and progress of an open run."""
    mixture: Artefact | None
    """Mixture that the run is trained on; None if it was deleted."""
    tools: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingValues:
    """A setting with its value in each run; the value is None if a run lacks the setting."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """True unless all runs have the same value."""
        return len({*self.values}) > 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPair:
    """An evaluation at the end of each run; its figure is None if a run lacks it."""

    set: str
    phase: str
    family: str
    """Family, or `*` for the weighted mean of a set."""
    domain: str
    figures: tuple[Figure | None, ...]
    is_sure: tuple[bool, ...]
    """For each figure, True if it is based on enough documents and lineages."""
    bpb_change: float | None
    """Last figure minus first figure; None if a figure is missing, or if more than two runs are compared."""
    paired: PairedChange | None
    """Change on the documents that both runs measured; None if there are none."""
    documents: int
    lineages: int
    """Numbers of documents and lineages behind the paired change, or else behind the last figure."""
    same_rows: bool
    """True if all figures were measured on the same rows. Only then can they be compared."""
    verdict: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StratumShare:
    """Share of a stratum in one mixture, as planned and as it is."""

    planned: float
    realised: float
    tokens: int
    repetition: float

    def __str__(self) -> str:
        """Return both shares."""
        return f"{percent(self.realised)} of {percent(self.planned)} planned"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedStratum:
    """A stratum with its share in each mixture; None if a mixture lacks the stratum."""

    serving: str
    domain: str
    shares: tuple[StratumShare | None, ...]


def setting_differences(compared: Sequence[ComparedRun]) -> list[SettingValues]:
    """Return the settings that differ, in the order of the job's fields.

    Rows that only some of the runs read aren't listed here, but with the servings.
    """
    listed = [recorded_settings(side.job, side.tools, side.mixture) for side in compared]
    return [
        setting
        for setting in setting_values(listed)
        if setting.differs and not (setting.name.startswith(f"{ROWS} ") and None in setting.values)
    ]


def setting_values(runs: Sequence[Mapping[str, str]]) -> list[SettingValues]:
    """Return every setting with its values; `runs` has the settings of each run by name."""
    names = dict.fromkeys(name for settings in runs for name in settings)
    return [
        SettingValues(name=name, values=tuple(settings.get(name) or None for settings in runs))
        for name in names
    ]


def recorded_settings(
    job: Job, tools: Mapping[str, str], mixture: Artefact | None = None
) -> dict[str, str]:
    """Return the settings of a run by name, in the order of the job's fields.

    `tools` are the versions of the tools that trained the run. The settings of its mixture are included only
    if `mixture` is given.
    """
    return dict(_settings(job, tools, mixture))


def measured_pairs(compared: Sequence[ComparedRun]) -> list[MeasuredPair]:
    """Return all evaluations at the end of the runs: first the weighted means, then the strata."""
    after = [
        {figure.place: figure for figure in (side.report.after if side.report else ())}
        for side in compared
    ]
    grounds = [_grounds(side.job) for side in compared]
    places = dict.fromkeys(place for figures in after for place in figures)
    pairs = _paired(compared)
    found = [
        _pair(
            place,
            [figures.get(place) for figures in after],
            pairs.get(place),
            {ground.get(place) for ground, own in zip(grounds, after, strict=True) if place in own},
        )
        for place in places
    ]
    return sorted(found, key=lambda pair: (pair.family != "*", pair.set, pair.phase))


def _pair(
    place: Place,
    figures: Sequence[Figure | None],
    change: PairedChange | None,
    grounds: set[str | None],
) -> MeasuredPair:
    name, phase, family, domain = place
    first, last = figures[0], figures[-1]
    count = change.count if change else next(figure for figure in reversed(figures) if figure)
    same_rows = len(grounds) == 1
    return MeasuredPair(
        set=name,
        phase=phase,
        family=family,
        domain=domain,
        figures=tuple(figures),
        is_sure=tuple(bool(figure and figure.is_sure) for figure in figures),
        bpb_change=last.val_bpb - first.val_bpb if first and last and len(figures) == 2 else None,
        paired=change,
        documents=count.documents,
        lineages=count.lineages,
        same_rows=same_rows,
        verdict=_verdict(first, last, change, same_rows=same_rows),
    )


def _verdict(
    first: Figure | None, last: Figure | None, change: PairedChange | None, *, same_rows: bool
) -> str:
    """Return `lower` or `higher` if the last figure surely differs from the first, else why it is uncertain.

    If the change on shared documents is known, the verdict depends on it. Otherwise, it depends on the
    intervals of the figures, which must not overlap. Figures with too few documents or lineages have no
    verdict.
    """
    if not all(figure is None or figure.is_sure for figure in (first, last)):
        return TOO_FEW
    if first is None or last is None:
        return ""
    if change is not None:
        return change.verdict or (NOT_SURE if change.count.is_sure else TOO_FEW)
    if not same_rows:
        return OTHER_ROWS
    if first.low <= last.high and last.low <= first.high:
        return TOUCH
    return "lower" if last.val_bpb < first.val_bpb else "higher"


def _paired(compared: Sequence[ComparedRun]) -> dict[Place, PairedChange]:
    """Return the changes from the first to the last of two runs, if both stored their documents."""
    ends = [(side.path, side.report.steps) for side in compared if side.report]
    return changes_between(*ends) if len(compared) == len(ends) == 2 else {}


def shared_strata(compared: Sequence[ComparedRun]) -> list[ComparedStratum]:
    """Return the strata of all mixtures, the largest first."""
    reports = [mixture_report_of(side.mixture) if side.mixture else None for side in compared]
    shares = [
        {
            (stratum.title, stratum.domain): StratumShare(
                planned=stratum.share,
                realised=stratum.tokens / max(report.tokens, 1),
                tokens=stratum.tokens,
                repetition=stratum.repetition,
            )
            for stratum in report.strata
        }
        if report
        else {}
        for report in reports
    ]
    places = dict.fromkeys(place for own in shares for place in own)
    found = [
        ComparedStratum(
            serving=serving,
            domain=domain,
            shares=tuple(own.get((serving, domain)) for own in shares),
        )
        for serving, domain in places
    ]
    return sorted(
        found, key=lambda line: -max(share.realised if share else 0.0 for share in line.shares)
    )


def _settings(
    job: Job, tools: Mapping[str, str], mixture: Artefact | None
) -> Iterator[tuple[str, str]]:
    yield from _flatten(
        "", {k: v for k, v in job.model_dump(mode="json").items() if k not in NOT_SETTINGS}
    )
    yield "study", study_words(job.study) or "none"
    yield "tokenizer", job.tokenizer.key[:KEY_DIGITS]
    yield "starts from", job.start_from.run_key[:KEY_DIGITS] if job.start_from else "nothing"
    for rows in job.rows:
        yield f"{ROWS} {_labels(rows.path)}", rows.key[:KEY_DIGITS]
    if mixture is not None:
        yield from _of_mixture(mixture)
    yield from tools.items()
    for name, value in job.overrides.items():
        yield name if name == "diet" else f"override {name}", value


@dataclass(frozen=True, kw_only=True, slots=True)
class _Serving:
    """One serving in the manifest of a mixture."""

    family: str
    objective: str
    row_length: int
    share: float
    domains: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Servings:
    """The servings in the manifest of a mixture."""

    servings: tuple[_Serving, ...]


def _of_mixture(mixture: Artefact) -> Iterator[tuple[str, str]]:
    config: Mapping[str, Any] = mixture.manifest.config
    fields = {
        name: value for name, value in config.items() if name not in ("servings", "drawn", "seed")
    }
    yield from _flatten("mixture.", fields)
    for serving in mixture.configured(_Servings).servings:
        name = f"serving {serving.family} {serving.objective} {serving.row_length}"
        factors = ", ".join(f"{domain} {factor:g}" for domain, factor in serving.domains.items())
        yield name, ", ".join(filter(None, (percent(serving.share), factors)))


def _flatten(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of nested mappings, each with its path as a dotted name.

    >>> [*_flatten("", {"model": {"width": 128}, "require": ["leakcheck"]})]
    [('model.width', '128'), ('require', 'leakcheck')]
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(f"{prefix}{name}.", value)
        elif isinstance(value, list | tuple):
            yield f"{prefix}{name}", ", ".join(map(str, value)) or "none"
        else:
            yield f"{prefix}{name}", "none" if value is None else str(value)


def _labels(path: str) -> str:
    """Return the label values in the path of an artefact, except its split and variant 0.

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
    """Return a text for each figure that identifies the rows it was measured on.

    Figures of two runs were measured on the same rows if their texts are equal.
    """
    found: dict[Place, str] = {}
    for evaluation in job.evaluations:
        found[evaluation.set, evaluation.phase, "*", "*"] = repr(_ground(evaluation))
        for stratum in evaluation.strata:
            place = (evaluation.set, evaluation.phase, stratum.family, stratum.domain)
            found[place] = f"{stratum.rows.content} {stratum.measured}"
    return found


def _ground(evaluation: Evaluation) -> list[tuple[object, ...]]:
    return [
        (stratum.family, stratum.domain, stratum.weight, stratum.rows.content, stratum.measured)
        for stratum in evaluation.strata
    ]
