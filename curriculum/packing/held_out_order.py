"""Held-out rows in the order in which they are measured, so that a few of them are of many documents.

    held_out.json   beside the rows of an artefact that measures

A document that is longer than a row is divided over many, and these lie side by side. So rows are taken
document by document, and documents lineage by lineage. Draws depend on names alone: rows of another length,
phase or objective begin with the same documents.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from curriculum import parquet
from curriculum.published_files import require_published
from schemas.held_out import MIN_DOCUMENTS, HeldOutRow, HeldOutRows

ORDER_NAME = "held_out.json"
MAX_POSITIONS = 1 << 17
"""Positions of the rows of one domain that are listed; a row longer than that is listed whole."""
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
    if not files:
        return HeldOutRows(rows=())
    table = parquet.read_table(list(files), columns=["domain", "document_ids"])
    documents = [
        tuple(dict.fromkeys(str(name) for name in listed or ()))
        for listed in table["document_ids"].to_pylist()
    ]
    domains: defaultdict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
    for number, domain in enumerate(table["domain"].to_pylist()):
        domains[str(domain)][number] = documents[number]
    limit = max(MAX_POSITIONS // row_length, 1)
    return HeldOutRows(
        rows=tuple(
            HeldOutRow(
                row=number,
                domain=domain,
                documents=documents[number],
                lineages=tuple(lineages.get(each, each) for each in documents[number]),
            )
            for domain, rows in sorted(domains.items())
            for number in _ordered(rows, lineages)[:limit]
        )
    )


def read_order(folder: Path) -> HeldOutRows:
    """Read the order of an artefact's rows.

    Raises:
        StoreError: for another file than the published one.
    """
    require_published(folder / ORDER_NAME)
    return HeldOutRows.model_validate_json((folder / ORDER_NAME).read_bytes())


def _ordered(rows: Mapping[int, Sequence[str]], lineages: Mapping[str, str]) -> list[int]:
    """The rows of one domain, by number with their documents, in the order in which they are measured.

    In each turn every document adds a row, unless its rows so far are as many as the turn says. Turns end
    where the next one could give a document more than one in MIN_DOCUMENTS of all rows. The rest of the
    rows of longer documents is never measured.
    """
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for number, documents in rows.items():
        for document in documents:
            rows_of[document].append(number)
    order = spread({document: lineages.get(document, document) for document in rows_of})
    waiting = {document: _shuffled(document, rows_of[document]) for document in order}
    taken: dict[int, None] = {}
    shown = Counter[str]()
    turn, before = 1, -1
    while before < len(taken) and (turn == 1 or turn * MIN_DOCUMENTS <= len(taken)):
        before = len(taken)
        for document in order:
            if shown[document] < turn:
                more = next((each for each in waiting[document] if each not in taken), None)
                if more is not None:
                    taken[more] = None
                    shown.update(rows[more])
        turn += 1
    return list(taken)


def _shuffled(document: str, numbers: Sequence[int]) -> Iterator[int]:
    """The rows of a document in a drawn order: a file's first lines aren't what it is about."""
    drawn = sorted((_draw(f"{document} {at}"), number) for at, number in enumerate(numbers))
    return iter([number for _, number in drawn])


def _draw(name: str) -> bytes:
    return hashlib.blake2b(f"{_SEED} {name}".encode(), digest_size=8).digest()
