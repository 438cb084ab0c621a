"""Tables of held-out row sets: their size, and the share that also occurs in training documents."""

from collections.abc import Iterator

from curriculum.inspection.formats import Line, count, percent
from curriculum.stages import Built, RowsSpec
from curriculum.store import Artefact
from curriculum.train.evaluation_sets import order_of, trained_share
from schemas.objectives import FixedSet
from schemas.reports import RowsReport

MAX_TRAINED_SHARE = 0.02
"""A build warns if training documents contain more than this share of an unseen repository's text."""
CURES: dict[FixedSet, str] = {
    "anchor": "Raise val_fraction in the corpus",
    "unseen": "Of its repositories no file is kept, or all are copies of files elsewhere: name other ones "
    "as unseen in the corpus",
    "later": "No commit from that day on changes a file that is trained on: move later in the corpus to an "
    "earlier day",
}


def held_out_lines(built: Built) -> Iterator[Line]:
    """Yield one table row per set of held-out rows: its documents, files and scored tokens.

    The last column is the share of targets that also occur in training documents, which are left unscored.
    Conversations and imported rows aren't compared with training documents.
    """
    measured = {rows.val.key: (_title(rows.wanted), rows.val) for rows in built.rows if rows.val}
    for title, rows in (*measured.values(), *built.fixed.items()):
        if not rows.planned:
            yield _line(title, rows)


def _title(wanted: RowsSpec) -> str:
    return wanted.title if wanted.imported else wanted.held_out.title


def _line(title: str, rows: Artefact) -> Line:
    listed, shown = order_of(rows).rows, trained_share([rows])
    report = rows.reported(RowsReport)
    return {
        "held out": title,
        "documents": len({name for row in listed for name in row.documents}),
        "files": len({name for row in listed for name in row.lineages}),
        "scored": count(sum(size.scored_tokens for size in report.domains.values())),
        "in training": "" if shown is None else percent(shown),
    }


def held_out_set_warnings(built: Built) -> Iterator[str]:
    """Yield warnings about empty fixed sets, and about unseen text that training documents contain."""
    for name, rows in built.fixed.items():
        if rows.planned:
            continue
        shown = trained_share([rows])
        if not rows.reported(RowsReport).domains:
            yield f"the set {name} has no row to measure on. {CURES[name]}"
        elif name == "unseen" and shown is not None and shown > MAX_TRAINED_SHARE:
            yield (
                f"{shown:.1%} of the text of unseen repositories stands in training documents, too, and is "
                "left unscored: somebody copied from them, or they from others"
            )
