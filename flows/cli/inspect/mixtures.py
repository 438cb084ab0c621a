"""Mixtures and selections in the terminal: shares, planned rows, and what is kept in which domains."""

import itertools
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from curriculum.inspection.documents import Line, chosen_lines
from curriculum.inspection.formats import Line as TableLine
from curriculum.inspection.formats import count, number, percent
from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.lineage import inputs
from curriculum.inspection.rows import Origin, origins_in
from curriculum.mixing.mix import PLAN_NAME, report_of
from curriculum.store import Artefact, Store
from flows.cli.console import MUTED, out, plain_table, table
from flows.cli.inspect.text import bar, family_style, strip
from schemas.errors import StoreError
from schemas.mixture import MixtureReport
from schemas.reports import SelectionReport
from schemas.visible import one_line

STRIP_CELLS = 96
PLAN_LINES = 12
_PLANNED = ("slot", "position", "pack_id", "repetition", "valid_tokens")
"""Columns of a plan's line that are shown."""
MOST_PLACES = 4
"""Documents of a row that are named, unless all are asked for."""


def plan(store: Store, mixture: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    """A mixture: its strata, and rows of its plan; chosen rows alone, with the documents in them."""
    report = report_of(mixture)
    if options.only.given:
        yield from _rows(store, mixture, report, options)
        return
    yield Text(_facts(report))
    yield strip(
        [
            (each.tokens / max(report.tokens, 1), _style(each.family, at))
            for at, each in enumerate(report.strata)
        ],
        min(STRIP_CELLS, out.options.max_width),
    )
    yield _strata(report)
    for warning in report.warnings:
        yield Text(one_line(warning), "yellow")
    yield ""
    yield from _rows(store, mixture, report, options)


def _style(family: str, at: int) -> str:
    """The colour of a family, every other stratum dim: neighbours can be told apart."""
    return f"{'dim ' if at % 2 else ''}{family_style(family)}"


def _facts(report: MixtureReport) -> str:
    said = [
        f"{count(report.tokens)} tokens in {number(report.rows, 'row')}",
        f"{number(report.steps, 'step')} of {report.tokens_per_step:,} positions",
        f"budget {count(report.budget)}",
    ]
    if report.continued:
        said.append(f"continues from step {report.continued.step:,} of {report.continued.run[:12]}")
    if report.left_out:
        said.append(f"{number(report.left_out.rows, 'row')} left out")
    if report.sources:
        said.append(f"a source file is seen {report.sources.mean:.2f} times on average")
    return " · ".join(said)


def _strata(report: MixtureReport) -> Table:
    drawn = plain_table(
        *("", "serving", "domain", "planned", "realised", "tokens", "rows", "repetition", "key")
    )
    for column in drawn.columns[3:8]:
        column.justify = "right"
    for at, each in enumerate(report.strata):
        drawn.add_row(
            Text("■", _style(each.family, at)),
            Text(f"{each.family} {each.objective} {each.row_length}", "bold"),
            Text(one_line(each.domain)),
            percent(each.share),
            percent(each.tokens / max(report.tokens, 1)),
            count(each.tokens),
            f"{each.drawn:,}",
            f"{each.repetition:.2f}",
            Text(each.rows_key[:12], MUTED),
        )
    return drawn


def _rows(
    store: Store, mixture: Artefact, report: MixtureReport, options: InspectOptions
) -> Iterator[RenderableType]:
    most = None if options.full and options.only.given else max(options.rows, PLAN_LINES)
    found = chosen_lines(store, mixture, options)
    held = [line for _, line in itertools.islice(found, most)]
    _require_planned(mixture, report, held)
    places = _places(store, mixture, held) if options.only.given else {}
    yield _plan_lines(held, report, places, full=options.full)
    if options.only.given:
        rest = sum(1 for _ in found)
        yield Text(
            f"{number(len(held) + rest, 'row')} of {report.rows:,} match"
            + (f"; {rest:,} more: --full" if rest else ""),
            MUTED,
        )


def _require_planned(mixture: Artefact, report: MixtureReport, held: list[Line]) -> None:
    """Raise a StoreError for a line of a plan that its report doesn't describe, or that lacks a value."""
    known = {each.stratum for each in report.strata}
    for line in held:
        if line["stratum"] not in known or None in [line[name] for name in _PLANNED]:
            raise StoreError(
                str(mixture.path / PLAN_NAME),
                f"a line of stratum {line['stratum']}, slot {line['slot']}",
                cause="its report knows no such stratum, or the line lacks a value",
                cure="Run curriculum check on its folder, and make the mixture again",
            )


def _plan_lines(
    held: list[Line], report: MixtureReport, places: dict[str, list[Origin]], *, full: bool
) -> Table:
    each_step = max(report.tokens_per_step // report.slot_length, 1)
    families = {each.stratum: each for each in report.strata}
    names = ["step", "position", "family", "domain", "pack_id", "repetition", "tokens"]
    drawn = plain_table(*names, *(["documents"] if places else []))
    for at in (0, 1, 5, 6):
        drawn.columns[at].justify = "right"
    for line in held:
        stratum = families[line["stratum"]]
        drawn.add_row(
            f"{line['slot'] // each_step + 1:,}",
            f"{line['position']:,}",
            Text(stratum.family, family_style(stratum.family)),
            Text(one_line(stratum.domain)),
            line["pack_id"],
            f"{line['repetition']:,}",
            f"{line['valid_tokens']:,}",
            *([_named(places[line["pack_id"]], full=full)] if places else []),
        )
    return drawn


def _named(origins: list[Origin], *, full: bool) -> Text:
    """The documents of a row, a line each."""
    kept = origins if full else origins[:MOST_PLACES]
    said = [
        f"{one_line(each.repository)} {each.commit[:10]} {one_line(each.path)}" for each in kept
    ]
    more = [f"… {len(origins) - len(kept)} more"] if len(origins) > len(kept) else []
    return Text("\n".join([*said, *more]))


def _places(store: Store, mixture: Artefact, held: list[Line]) -> dict[str, list[Origin]]:
    """Return the origins of the documents of some planned rows, by pack_id."""
    wanted: dict[str, set[str]] = {}
    for line in held:
        wanted.setdefault(line["rows_key"], set()).add(line["pack_id"])
    found: dict[str, list[Origin]] = {each["pack_id"]: [] for each in held}
    for rows in inputs(store, mixture, "rows"):
        if rows.key in wanted:
            found |= origins_in(store, rows, wanted[rows.key])
    return found


LINES = 12


def selection(
    store: Store, artefact: Artefact, options: InspectOptions
) -> Iterator[RenderableType]:
    """A selection: domains, losses by reason, and some documents; chosen documents alone."""
    if options.only.given:
        yield from _lines(store, artefact, options)
        return
    report = artefact.reported(SelectionReport)
    yield Text(
        f"{report.kept:,} of {number(report.documents, 'document')} kept, {report.val:,} of them to "
        "validate" + (f" · {report.repeated:,} repeated" if report.repeated else "")
    )
    if report.domains:
        yield ""
        yield _domains(report)
    if report.rejected:
        yield ""
        yield table(_rejected(report))
    for warning in report.warnings:
        yield Text(f"\n{one_line(warning)}", "yellow")
    yield ""
    yield from _lines(store, artefact, options)


def _domains(report: SelectionReport) -> RenderableType:
    drawn = plain_table("domain", "documents", "val", "bytes", "share", "", "comments")
    for at in (1, 2, 3, 4, 6):
        drawn.columns[at].justify = "right"
    for name, each in sorted(report.domains.items(), key=lambda pair: -pair[1].bytes):
        drawn.add_row(
            Text(one_line(name), "bold"),
            f"{each.documents:,}",
            f"{each.val:,}",
            count(each.bytes),
            percent(each.share),
            bar(each.share),
            percent(each.comment_share),
        )
    return drawn


def _rejected(report: SelectionReport) -> Iterator[TableLine]:
    for reason, some in sorted(report.rejected.items(), key=lambda pair: -pair[1]):
        yield {"not kept": reason.replace("_", " "), "documents": some}


def _lines(store: Store, artefact: Artefact, options: InspectOptions) -> Iterator[RenderableType]:
    found = chosen_lines(store, artefact, options)
    most = None if options.full and options.only.given else max(options.rows, LINES)
    held = [line for _, line in itertools.islice(found, most)]
    names = ("family", "repository", "lineage", "split", "domain", "domain_rule")
    drawn = plain_table("document", *names[:2], "file", "split", "domain", "by the rule", "")
    for line in held:
        fate = "" if line["keep"] else " ".join(filter(None, (line["reason"], line["evidence"])))
        cells = (Text(one_line(str(line.get(name) or ""))) for name in names)
        drawn.add_row(line["document_id"][:12], *cells, Text(one_line(fate), "yellow"))
    yield drawn
    rest = sum(1 for _ in found)
    if options.only.given:
        yield Text(f"{number(len(held) + rest, 'document')} match", MUTED)
