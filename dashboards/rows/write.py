"""Writing of pages of rows to files beside the reports: reports/rows/<key12>.html.

<key12> is the first 12 digits of the key of the rows artefact.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from curriculum.inspection.line_selection import InspectOptions
from curriculum.inspection.lineage import tokenizer_in, tokenizer_of
from curriculum.inspection.row_view import RowView, row_views, spread
from curriculum.inspection.row_view import rows as chosen
from curriculum.inspection.row_yields import RowYields
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import Tokenizer
from curriculum.whole_files import write_whole
from dashboards import html, palette
from dashboards.page_digest import digest_line, ends_with
from dashboards.rows.row_page import MAX_BYTES, TEMPLATES, RowsDataSet, describe_rows, page
from schemas.errors import StoreError
from schemas.reports import RowsReport

FOLDER = "rows"
MAX_ROWS = 6
REVISION = 7
"""Revision of the content of pages.

Increment it when the code that renders pages changes. Changed templates and colours are noticed without it.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleRow:
    """An example row of an artefact, which links to the page of the artefact's rows."""

    link: str
    """Link from the report."""
    spans: tuple[tuple[int, int], ...]
    length: int
    valid: int


def page_path(reports: Path, rows: Artefact) -> Path:
    """Return the path of the page of a rows artefact below the folder `reports`."""
    return reports / FOLDER / f"{rows.key[:KEY_DIGITS]}.html"


def example(rows: Artefact) -> ExampleRow | None:
    """Return, of the rows on the page of an artefact, the one with the most documents; None without rows."""
    columns = ("doc_starts", "valid_token_count")
    found = [(at, line) for at, line in enumerate(spread(rows, MAX_ROWS, columns))]
    if not found:
        return None
    number, line = max(
        found, key=lambda candidate: (len(candidate[1]["doc_starts"]), -candidate[0])
    )
    valid = line["valid_token_count"]
    starts = [start for start in line["doc_starts"] if start < valid]
    return ExampleRow(
        link=f"{FOLDER}/{rows.key[:KEY_DIGITS]}.html#r{number}",
        spans=tuple(itertools.pairwise([*starts, valid])),
        length=int(rows.manifest.labels["row_length"]),
        valid=valid,
    )


def write(
    root: Path,
    rows: Artefact,
    made_of: Sequence[Artefact],
    reports: Path,
    urls: Mapping[str, str] = MappingProxyType({}),
) -> Path | None:
    """Write the page of a rows artefact, unless it is up to date, and return its path.

    Args:
        root: Workspace.
        rows: Rows artefact.
        made_of: Inputs of the rows; they contain the tokenizer and the documents.
        reports: Folder of reports, below which the page is written.
        urls: Urls of repositories by name.

    Returns:
        None if there are no rows or the tokenizer is missing.

    Raises:
        OSError: If the file can't be read or written.
    """
    file = page_path(reports, rows)
    if ends_with(file, _mark(urls)):
        return file
    tokenizers = [artefact for artefact in made_of if artefact.manifest.stage == "tokenizers"]
    documents = [artefact for artefact in made_of if artefact.manifest.stage == "documents"]
    held = row_views(spread(rows, MAX_ROWS), documents)
    if not held or not tokenizers:
        return None
    tokenizer = tokenizer_in(tokenizers[0])
    text = _page(root, rows, held, tokenizer, urls=urls, max_bytes=MAX_BYTES)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    return file


def chosen_rows(store: Store, rows: Artefact, options: InspectOptions) -> str:
    """Return a page with the rows that `options` select.

    Raises:
        StoreError: If no row matches or the tokenizer is missing.
    """
    tokenizer = tokenizer_of(store, rows)
    held = chosen(store, rows, options)
    if not held:
        raise StoreError(
            rows.path.relative_to(store.root).as_posix(),
            options.pack_id,
            cause="no row of it is what was asked for",
            cure="`curriculum inspect` without --html shows its first rows",
        )
    return _page(store.root, rows, held, tokenizer)


def _page(
    root: Path,
    rows: Artefact,
    held: Sequence[RowView],
    tokenizer: Tokenizer,
    *,
    urls: Mapping[str, str] = MappingProxyType({}),
    max_bytes: int = 0,
) -> str:
    where = rows.path.relative_to(root).as_posix()
    report = rows.reported(RowsReport)
    yields = RowYields.of(report, int(rows.manifest.labels["row_length"]))
    shown = page(
        describe_rows(rows.manifest.labels),
        where,
        held,
        tokenizer,
        data_set=RowsDataSet(
            artefact=rows.key[:KEY_DIGITS],
            rows=report.rows,
            fullness=yields.words if yields else "",
            urls=urls,
        ),
        max_bytes=max_bytes,
    )
    return shown + _mark(urls)


@cache
def _look() -> str:
    return f"{''.join(map(html.asset, TEMPLATES))} {palette.properties()}"


def _mark(urls: Mapping[str, str]) -> str:
    """Return the last line of a page, a digest of REVISION, the templates, the colours and the urls."""
    return digest_line(REVISION, _look(), sorted(urls.items()))
