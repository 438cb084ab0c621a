"""Mixtures in the terminal: the shares of their strata, and the rows of their plan."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from curriculum.inspection.formats import count, number, percent
from curriculum.inspection.line_selection import InspectOptions, Line
from curriculum.inspection.lineage import inputs
from curriculum.inspection.row_view import DocumentOrigin, sources_in
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from flows.cli.console import MUTED, out
from flows.cli.inspect.artefacts import InspectedArtefact
from flows.cli.inspect.text import columns, family_style, strip
from schemas.errors import StoreError
from schemas.mixture import MixtureReport
from schemas.visible import one_line

STRIP_CELLS = 96
_PLANNED = ("slot", "position", "pack_id", "repetition", "valid_tokens")
"""Columns of the plan that are shown for a row."""
MAX_PLACES = 4
"""Maximum number of documents per row without --full."""


def plan_panels(
    store: Store, mixture: Artefact, view: InspectedArtefact[Line], options: InspectOptions
) -> Iterator[RenderableType]:
    """Yield the strata and some planned rows of a mixture.

    With a filter, yield only the matching planned rows, with their documents.
    """
    report = report_of(mixture)
    _require_planned(mixture, report, view.lines)
    if view.matching is not None:
        places = _places(store, mixture, view.lines)
        yield _plan_lines(view.lines, report, places, full=options.full)
        rest = view.matching - len(view.lines)
        more = f"; {rest:,} more: --full" if rest else ""
        yield Text(f"{number(view.matching, 'row')} of {report.rows:,} match{more}", MUTED)
        return
    yield Text(one_line(_facts(report)))
    shares = [
        (stratum.tokens / max(report.tokens, 1), _style(stratum.family, at))
        for at, stratum in enumerate(report.strata)
    ]
    yield strip(shares, min(STRIP_CELLS, out.options.max_width))
    yield _strata(report)
    for warning in report.warnings:
        yield Text(one_line(warning), "yellow")
    yield ""
    yield _plan_lines(view.lines, report, {}, full=options.full)


def _style(family: str, at: int) -> str:
    """Return the colour of a stratum's family, dimmed if `at` is odd.

    `at` is the index of the stratum; neighbours of the same family thus look different.
    """
    return f"{'dim ' if at % 2 else ''}{family_style(family)}"


def _facts(report: MixtureReport) -> str:
    said = [
        f"{count(report.tokens)} tokens in {number(report.rows, 'row')}",
        f"{number(report.steps, 'step')} of {report.tokens_per_step:,} positions",
        f"budget {count(report.budget)}",
    ]
    if report.continued:
        run = report.continued.run[:KEY_DIGITS]
        said.append(f"continues from step {report.continued.step:,} of {run}")
    if report.left_out:
        said.append(f"{number(report.left_out.rows, 'row')} excluded")
    said.append(f"{count(report.repetition.new)} new distinct tokens")
    said.append(f"distinct tokens scored {report.repetition.repetition:.2f} times so far")
    return " · ".join(said)


def _strata(report: MixtureReport) -> Table:
    right = ("planned", "realised", "tokens", "rows", "repetition")
    drawn = columns("", "serving", "domain", right=right)
    drawn.add_column("key")
    for at, stratum in enumerate(report.strata):
        drawn.add_row(
            Text("■", _style(stratum.family, at)),
            Text(one_line(stratum.title), "bold"),
            Text(one_line(stratum.domain)),
            percent(stratum.share),
            percent(stratum.tokens / max(report.tokens, 1)),
            count(stratum.tokens),
            f"{stratum.drawn:,}",
            f"{stratum.repetition:.2f}",
            Text(one_line(stratum.rows_key[:KEY_DIGITS]), MUTED),
        )
    return drawn


def _require_planned(mixture: Artefact, report: MixtureReport, lines: Sequence[Line]) -> None:
    """Raise a StoreError if a planned row lacks a value or its stratum isn't in the mixture's report."""
    known = {stratum.stratum for stratum in report.strata}
    for line in lines:
        if line["stratum"] not in known or None in [line[name] for name in _PLANNED]:
            raise StoreError(
                str(mixture.path / PLAN_NAME),
                f"the planned row of stratum {line['stratum']}, slot {line['slot']}",
                cause="the report has no such stratum, or the row lacks a value",
                cure="Run curriculum check on its folder, then build the mixture again",
            )


def _plan_lines(
    lines: tuple[Line, ...],
    report: MixtureReport,
    places: dict[str, list[DocumentOrigin]],
    *,
    full: bool,
) -> Table:
    slots = max(report.tokens_per_step // report.slot_length, 1)
    strata = {stratum.stratum: stratum for stratum in report.strata}
    drawn = columns(right=("step", "position"))
    for name in ("family", "domain", "pack_id"):
        drawn.add_column(name, overflow="fold", no_wrap=name == "pack_id")
    for name in ("repetition", "tokens"):
        drawn.add_column(name, justify="right")
    if places:
        drawn.add_column("documents", overflow="fold")
    for line in lines:
        stratum = strata[line["stratum"]]
        drawn.add_row(
            f"{line['slot'] // slots + 1:,}",
            f"{line['position']:,}",
            Text(one_line(stratum.family), family_style(stratum.family)),
            Text(one_line(stratum.domain)),
            one_line(line["pack_id"]),
            f"{line['repetition']:,}",
            f"{line['valid_tokens']:,}",
            *([_named(places[line["pack_id"]], full=full)] if places else []),
        )
    return drawn


def _named(documents: list[DocumentOrigin], *, full: bool) -> Text:
    """Return the names of the documents of a row, one per line."""
    kept = documents if full else documents[:MAX_PLACES]
    said = [
        f"{one_line(document.repository)} {document.commit[:10]} {one_line(document.path)}"
        for document in kept
    ]
    more = [f"… {len(documents) - len(kept)} more"] if len(documents) > len(kept) else []
    return Text("\n".join([*said, *more]))


def _places(
    store: Store, mixture: Artefact, lines: tuple[Line, ...]
) -> dict[str, list[DocumentOrigin]]:
    """Return the files and commits of the documents in some planned rows, by the pack_id of the row."""
    wanted: dict[str, set[str]] = {}
    for line in lines:
        wanted.setdefault(line["rows_key"], set()).add(line["pack_id"])
    found: dict[str, list[DocumentOrigin]] = {line["pack_id"]: [] for line in lines}
    for rows in inputs(store, mixture, "rows"):
        if rows.key in wanted:
            found |= sources_in(store, rows, wanted[rows.key])
    return found
