"""`curriculum leakcheck`: check that documents packed into the same row never influence each other."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rich.table import Table
from rich.text import Text

from curriculum.leakcheck.claims import ROW_LENGTH
from curriculum.leakcheck.external_models import external, prove_external_model
from curriculum.leakcheck.job_proof import proven_file
from curriculum.leakcheck.proof import (
    DTYPES,
    THREE,
    TRAINED_LENGTHS,
    ProofScope,
    cases_of,
    device_of,
    prove,
    trained_model,
)
from curriculum.pipeline.references import run_of
from curriculum.store import Store
from curriculum.train.run_directory import JOB
from flows.cli.console import BAD, GOOD, MUTED, err, out, plain_table
from flows.cli.output_files import drafted
from flows.cli.progress_bars import watching
from schemas.errors import JobError
from schemas.job import Backend
from schemas.leak import Finding, InjectedLeakReport, LeakReport, Skipped
from schemas.progress import ProgressCallback

PARTLY = "yellow"
BACKENDS: tuple[Backend, ...] = get_args(Backend)


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakcheckOptions:
    """Options of `leakcheck`; an empty option means its default."""

    what: str | None = None
    """Job or run to check, or the function package.module:builder that builds a model."""
    home: Path = Path()
    """Workspace of the run."""
    model: str | None = None
    backends: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    row_lengths: tuple[int, ...] = ()
    device: str | None = None


def leakcheck(options: LeakcheckOptions, json_file: Path | None) -> bool:
    """Run the check, print its report and write the report to `json_file`; return True if no leak was found.

    Raises:
        JobError: for an unknown name, or something that can't be checked.
    """
    with watching() as watch:
        report = _proven(options, watch)
    show(report)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        with drafted(json_file) as draft:
            draft.write_text(report.json_text(), encoding="utf-8")
        err.print(Text(f"report written to {json_file}", MUTED))
    return report.passed


def _proven(options: LeakcheckOptions, watch: ProgressCallback) -> LeakReport:
    dtypes = tuple(DTYPES[_known("dtype", name, DTYPES)] for name in options.dtypes)
    device = device_of(options.device)
    if options.what is not None:
        _require_no_decoder_options(options)
    job = _job(options)
    if job is not None:
        _require_no_sizes(options)
        return proven_file(job, watch, anew=True)
    if options.what is not None:
        return prove_external_model(
            external(options.what),
            dtypes=dtypes or (DTYPES["float32"],),
            row_lengths=options.row_lengths or (ROW_LENGTH,),
            device=device,
            watch=watch,
        )
    chosen = {_known("backend", name, BACKENDS) for name in options.backends}
    scope = ProofScope(
        cases=cases_of(options.model),
        backends=tuple(backend for backend in BACKENDS if not chosen or backend in chosen),
        dtypes=dtypes or THREE,
        row_lengths=options.row_lengths or (ROW_LENGTH,),
        uneven=not options.row_lengths,
        model=trained_model(options.model),
        trained_lengths=options.row_lengths or TRAINED_LENGTHS,
        device=device,
    )
    return prove(scope, watch)


def _job(options: LeakcheckOptions) -> Path | None:
    """Return the job.json that the options name: the file, or that of a run, given by its folder or name.

    None means that the options name a function that builds a model, or nothing.

    Raises:
        JobError: if there is no such run.
    """
    if options.what is None:
        return None
    path = Path(options.what)
    if path.is_file() and path.suffix == ".json":
        return path
    if (path / JOB).is_file():
        return path / JOB
    if ":" in options.what:
        return None
    return run_of(Store(options.home, dry=True), options.what, name="leakcheck").path / JOB


def _require_no_sizes(options: LeakcheckOptions) -> None:
    if options.row_lengths or options.dtypes or options.device:
        raise JobError(
            "leakcheck",
            options.what,
            cause="the job determines row lengths, dtype and device",
            cure="Omit --row-length, --dtype and --device",
        )


def _known(what: str, name: str, names: Iterable[str]) -> str:
    if name in names:
        return name
    raise JobError(f"--{what}", name, cause=f"unknown {what}", cure=f"Choose {', '.join(names)}")


def _require_no_decoder_options(options: LeakcheckOptions) -> None:
    if options.model is not None or options.backends:
        raise JobError(
            "leakcheck",
            options.what,
            cause="--model and --backend apply to the built-in models only",
            cure="Omit them; the builder or the job determines model and backend",
        )


def show(report: LeakReport) -> None:
    """Print a report: the checked models, the leaks, the claims, and the leaks planted as a test."""
    out.print(_subjects(report.findings))
    for failure in report.failures:
        line = Text("LEAK  ", BAD)
        line.append(f"{_who(failure)}: {failure.claim}", "default")
        line.append(f"  {failure.detail}", MUTED)
        out.print(line)
    out.print()
    out.print(_claims(report.findings))
    if report.planted:
        out.print()
        out.print(_injected(report.planted))
    _tell_skipped(report.skipped)
    for words in report.covered:
        out.print(Text(f"covered      {words}", MUTED))
    for words in report.uncovered:
        out.print(Text(f"not covered  {words}", PARTLY))
    out.print()
    out.print(_verdict(report))


def _who(finding: Finding) -> str:
    words = (
        finding.subject,
        finding.backend,
        finding.dtype,
        f"T={finding.row_length}",
        finding.mode,
    )
    return " ".join(word for word in words if word)


def _subjects(findings: Iterable[Finding]) -> Table:
    """Return a table of the checked models: one line per model and attention backend, one column per dtype.

    A cell counts the claims that passed, over all row lengths.
    """
    cells: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        cells[finding.subject, finding.backend][finding.dtype].append(finding.passed)
    dtypes = [name for name in DTYPES if any(name in cell for cell in cells.values())]
    drawn = plain_table("examined", "attention", *dtypes)
    for (subject, backend), by_dtype in cells.items():
        shown = [_table_cell(by_dtype.get(dtype, [])) for dtype in dtypes]
        drawn.add_row(Text(subject, "bold"), backend or Text("–", MUTED), *shown)
    return drawn


def _table_cell(passed: list[bool]) -> Text:
    if not passed:
        return Text("–", MUTED)
    if all(passed):
        return Text(f"{len(passed)} hold", GOOD)
    return Text(f"{passed.count(False)} of {len(passed)} LEAK", BAD)


def _claims(findings: Iterable[Finding]) -> Table:
    by_claim: dict[str, list[bool]] = defaultdict(list)
    for finding in findings:
        by_claim[finding.claim].append(finding.passed)
    drawn = plain_table("claim", "holds in")
    for claim, passed in by_claim.items():
        style = GOOD if all(passed) else BAD
        drawn.add_row(claim, Text(f"{passed.count(True)} of {len(passed)}", style))
    return drawn


def _injected(planted: Iterable[InjectedLeakReport]) -> Table:
    drawn = plain_table("planted leak", "in", "attention", "dtype", "failed claims")
    for leak in planted:
        drawn.add_row(
            Text(leak.leak, "bold"),
            leak.subject,
            leak.backend or Text("–", MUTED),
            leak.dtype,
            _seen(leak),
        )
    return drawn


def _seen(leak: InjectedLeakReport) -> Text:
    if leak.passed:
        return Text(f"{len(leak.red)}, as expected", GOOD)
    words = [f"undetected: {'; '.join(leak.blind)} still hold"] if leak.blind else []
    words += [f"unexpected failures: {'; '.join(leak.beyond)}"] if leak.beyond else []
    return Text(". ".join(words), BAD)


def _tell_skipped(skipped: Iterable[Skipped]) -> None:
    """Print the backends that were skipped, one line for each backend and reason."""
    whose: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for skip in skipped:
        whose[skip.backend or skip.subject, skip.reason][skip.subject] = None
    if whose:
        out.print()
    for (backend, reason), subjects in whose.items():
        out.print(Text(f"skipped  {backend} ({', '.join(subjects)}): {reason}", MUTED))


def _verdict(report: LeakReport) -> Text:
    seen = f"{len(report.planted) - len(report.unproven)} of {len(report.planted)}"
    planted = f"; {seen} planted leaks were found" if report.planted else ""
    held = len(report.findings) - len(report.failures)
    counted = f"{held:,} of {len(report.findings):,} checks passed{planted}."
    if report.result == "covered":
        return Text(f"No leak found. {counted}", GOOD)
    if report.result == "not all covered":
        return Text(
            f"No leak found in the part that was checked; some parts were not checked. {counted}",
            PARTLY,
        )
    leak = "Leak found: documents influence each other. "
    words = leak if report.failures else "The check isn't valid. "
    return Text(words + counted, BAD)
