"""Held-out rows in the order in which they are measured, so that a few of them are of many documents.

    held_out.json   beside the rows of an artefact that measures

A document that is longer than a row is divided over many, and these lie side by side. So rows are taken
document by document, and documents lineage by lineage. Draws depend on names alone: rows of another length,
phase or objective begin with the same documents. A small document beside the pieces of a long one takes no
more of these rows in: it waits until the long one may fill another.
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
"""Positions of the rows of one domain that are listed, where these are MIN_DOCUMENTS rows or more."""
_SEED = 17


def spread(lineages: Mapping[str, str]) -> list[str]:
    """Documents in an order of which the first few are of as many lineages as there are.

    `lineages` are those of the documents, by document id.

    >>> spread({"a1": "a", "a2": "a", "a3": "a", "b1": "b"})
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
    """Write the order of the rows in a folder beside them."""
    order = held_out_order(parquet.shards_of(folder), row_length, lineages)
    (folder / ORDER_NAME).write_text(order.model_dump_json())


def held_out_order(
    files: Sequence[Path], row_length: int, lineages: Mapping[str, str]
) -> HeldOutRows:
    """Return the rows of each domain that are measured, the first before the others.

    `files` hold all rows of an artefact in their order. A document that `lineages` lacks, such as an
    imported one, is a lineage of its own.
    """
    domains: defaultdict[str, dict[int, _StoredRow]] = defaultdict(dict)
    listed = parquet.read_table(list(files), columns=list(_COLUMNS)).to_pylist() if files else []
    for number, stored in enumerate(listed):
        domains[str(stored["domain"])][number] = _StoredRow.of(stored, row_length)
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
    """Documents of a row, each once."""

    documents: tuple[str, ...]
    filling: tuple[str, ...]
    """Those that take more than half of the row."""

    @staticmethod
    def of(stored: Mapping[str, Any], row_length: int) -> "_StoredRow":
        starts = [*stored["doc_starts"][: len(stored["document_ids"])], stored["valid_token_count"]]
        tokens = Counter[str]()
        for at, document in enumerate(stored["document_ids"]):
            tokens[document] += starts[at + 1] - starts[at]
        filling = tuple(name for name, count in tokens.items() if 2 * count > row_length)
        return _StoredRow(documents=tuple(tokens), filling=filling)


def read_order(folder: Path) -> HeldOutRows:
    """Read the order of an artefact's rows.

    Raises:
        StoreError: for another file than the published one, and for one that no build writes.
    """
    file = folder / ORDER_NAME
    require_published(file)
    cause = "it isn't the order of held-out rows that a build writes"
    return read_json(HeldOutRows, file, error=StoreError, cause=cause, cure=cure_of(file))


def _ordered(rows: Mapping[int, _StoredRow], lineages: Mapping[str, str]) -> list[int]:
    """The rows of one domain, by number with their documents, in the order in which they are measured.

    In each turn every document adds a row, unless its rows so far are as many as the turn says. Nor is a
    row added that a document fills of which this holds. Turns end where the next one could give a document
    more than one in MIN_DOCUMENTS of all rows. The rest of the rows of longer documents is never measured.
    """
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, row in rows.items():
        for document in row.documents:
            rows_of[document].append(number)
    order = spread({document: lineages.get(document, document) for document in rows_of})
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
    """The rows of a document in a drawn order: a file's first lines aren't what it is about."""
    drawn = sorted((_draw(f"{document} {at}"), number) for at, number in enumerate(numbers))
    return deque(number for _, number in drawn)


def _draw(name: str) -> bytes:
    return hashlib.blake2b(f"{_SEED} {name}".encode(), digest_size=8).digest()
