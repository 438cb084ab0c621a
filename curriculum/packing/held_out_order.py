"""Order in which validation rows are measured, so that the first few rows cover many documents.

    held_out.json   next to the rows of an artefact of validation rows

A document longer than a row fills many adjacent rows. Therefore, each document contributes one row at a time,
and the documents of different lineages take turns. Random choices depend only on names, so that rows of
another length, phase or objective begin with the same documents. If a row contains a small document and a
piece of a long document, the row waits until it is the long document's turn, so that the long document
doesn't appear more often than others.
"""

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curriculum import parquet
from curriculum.published_files import require_published
from schemas.cures import cure_of
from schemas.errors import StoreError
from schemas.held_out import MIN_DOCUMENTS, HeldOutRow, HeldOutRows
from schemas.json_text import read_json

ORDER_NAME = "held_out.json"
MAX_POSITIONS = 1 << 17
"""Maximum number of positions in the listed rows of a domain; at least MIN_DOCUMENTS rows are always listed.
"""
_SEED = 17


def order_by_lineage(lineages: Mapping[str, str]) -> list[str]:
    """Sort documents so that the first few come from as many lineages as possible.

    `lineages` has the lineage of each document, by document id.

    >>> order_by_lineage({"a1": "a", "a2": "a", "a3": "a", "b1": "b"})
    ['a2', 'b1', 'a3', 'a1']
    """
    turns = Counter[str]()
    found: list[tuple[int, bytes, str]] = []
    for document in sorted(lineages, key=_draw):
        lineage = lineages[document]
        found.append((turns[lineage], _draw(lineage), document))
        turns[lineage] += 1
    return [document for *_, document in sorted(found)]


def write_order(folder: Path, row_length: int, lineages: Mapping[str, str]) -> None:
    """Compute the order of the rows in a folder, and write it to held_out.json in this folder."""
    order = held_out_order(parquet.shards_of(folder), row_length, lineages)
    (folder / ORDER_NAME).write_text(order.model_dump_json())


def held_out_order(
    files: Sequence[Path], row_length: int, lineages: Mapping[str, str]
) -> HeldOutRows:
    """Return the rows to measure, by domain, in the order in which they are measured.

    `files` are all files of an artefact, in order. A document without an entry in `lineages`, such as an
    imported one, is a lineage of its own.
    """
    domains: defaultdict[str, dict[int, _StoredRow]] = defaultdict(dict)
    listed = parquet.read_table(list(files), columns=list(_COLUMNS)).to_pylist() if files else []
    for number, stored in enumerate(listed):
        domains[str(stored["domain"])][number] = _StoredRow.from_columns(stored, row_length)
    limit = max(MAX_POSITIONS // row_length, MIN_DOCUMENTS)
    return HeldOutRows(
        rows=tuple(
            HeldOutRow(
                row=number,
                domain=domain,
                documents=rows[number].documents,
                lineages=tuple(lineages.get(name, name) for name in rows[number].documents),
            )
            for domain, rows in sorted(domains.items())
            for number in _ordered(rows, lineages)[:limit]
        )
    )


_COLUMNS = ("domain", "document_ids", "doc_starts", "valid_token_count")


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredRow:
    """Documents of a row, without duplicates."""

    documents: tuple[str, ...]
    filling: tuple[str, ...]
    """Documents that fill more than half of the row."""

    @staticmethod
    def from_columns(stored: Mapping[str, Any], row_length: int) -> "_StoredRow":
        starts = [*stored["doc_starts"][: len(stored["document_ids"])], stored["valid_token_count"]]
        tokens = Counter[str]()
        for at, document in enumerate(stored["document_ids"]):
            tokens[document] += starts[at + 1] - starts[at]
        filling = tuple(name for name, count in tokens.items() if 2 * count > row_length)
        return _StoredRow(documents=tuple(tokens), filling=filling)


def read_order(folder: Path) -> HeldOutRows:
    """Read the order in which an artefact's rows are measured.

    Raises:
        StoreError: if the file differs from the published file, or if no build can have written it.
    """
    file = folder / ORDER_NAME
    require_published(file)
    cause = "it isn't an order of held-out rows as a build writes it"
    return read_json(HeldOutRows, file, error=StoreError, cause=cause, cure=cure_of(file))


def _ordered(rows: Mapping[int, _StoredRow], lineages: Mapping[str, str]) -> list[int]:
    """Return the numbers of one domain's rows in the order in which they are measured.

    In turn k, every document adds one row, unless k rows with this document are already listed. A row is also
    skipped while k listed rows already show one of its filling documents (see `_StoredRow.filling`). The
    turns end when the next one could give a document more than 1 in MIN_DOCUMENTS of all listed rows. The
    remaining rows of longer documents are never measured.
    """
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in rows.items():
        for document in row.documents:
            rows_of[document].append(number)
    order = order_by_lineage({document: lineages.get(document, document) for document in rows_of})
    waiting = {document: _shuffled(document, rows_of[document]) for document in order}
    taken: dict[int, None] = {}
    shown = Counter[str]()
    turn, before = 1, -1
    while before < len(taken) and (turn == 1 or turn * MIN_DOCUMENTS <= len(taken)):
        before = len(taken)
        for document in order:
            for _ in range(len(waiting[document]) if shown[document] < turn else 0):
                number = waiting[document].popleft()
                if number in taken:
                    continue
                if all(shown[name] < turn for name in rows[number].filling):
                    taken[number] = None
                    shown.update(rows[number].documents)
                    break
                waiting[document].append(number)
        turn += 1
    return list(taken)


def _shuffled(document: str, numbers: Sequence[int]) -> deque[int]:
    """Shuffle the rows of a document, because the first lines of a file aren't typical of the file."""
    drawn = sorted((_draw(f"{document} {at}"), number) for at, number in enumerate(numbers))
    return deque(number for _, number in drawn)


def _draw(name: str) -> bytes:
    return hashlib.blake2b(f"{_SEED} {name}".encode(), digest_size=8).digest()
