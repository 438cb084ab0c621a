"""Rows that measure say which of them come first, with the documents and lineages of each."""

import math
from collections import defaultdict

import pyarrow.parquet as pq

from curriculum.families.document_writer import documents_in
from curriculum.stages import Built, RowsSpec
from curriculum.store import Artefact
from curriculum.train.evaluation_sets import Validation, evaluation, limit_positions, order_of

FILES = RowsSpec(family="v2_simple", row_length=512)


def measuring(built: Built) -> list[Artefact]:
    return [*built.fixed.values(), *(side for made in built.rows for side in made.splits[1:])]


def test_every_row_that_is_listed_has_its_documents_and_their_lineages(built: Built) -> None:
    lineages = {
        document.document_id: document.lineage
        for artefact in built.documents
        for document in documents_in(artefact.path)
    }
    for rows in measuring(built):
        table = pq.read_table(rows.shards(), columns=["domain", "document_ids"], partitioning=None)
        stored, listed = table.to_pylist(), order_of(rows).rows
        assert listed
        assert len({row.row for row in listed}) == len(listed) <= len(stored)
        for row in listed:
            assert row.domain == stored[row.row]["domain"]
            assert set(row.documents) == set(stored[row.row]["document_ids"])
            assert [lineages[name] for name in row.documents] == [*row.lineages]


def test_every_document_is_measured_and_each_lineage_of_a_domain_comes_before_a_second_document(
    built: Built,
) -> None:
    for rows in measuring(built):
        table = pq.read_table(rows.shards(), columns=["document_ids"], partitioning=None)
        stored = {name for listed in table["document_ids"].to_pylist() for name in listed or ()}
        order = order_of(rows).rows
        assert {name for row in order for name in row.documents} == stored
        seen: defaultdict[str, set[str]] = defaultdict(set)
        for row in order:
            new = set(row.lineages) - seen[row.domain]
            everything = {
                name for other in order if other.domain == row.domain for name in other.lineages
            }
            assert new or seen[row.domain] == everything
            seen[row.domain].update(row.lineages)


def test_the_smallest_limit_measures_more_files_than_the_first_rows_hold(built: Built) -> None:
    rows = built.rows_of(FILES).val
    assert rows is not None
    validation = Validation(family="v2_simple", share=1.0, rows=rows)
    root = rows.path.parents[len(rows.path.parts) - rows.path.parts.index("rows") - 1]
    held = evaluation("syntax", [validation], workspace=root)
    (few,), (everything,) = limit_positions([held], 0), limit_positions([held], math.inf)
    assert few.documents < everything.documents
    assert (few.documents >= 8, few.lineages >= 4) == (True, True)
    lineage = {
        document.document_id: document.lineage
        for artefact in built.documents
        for document in documents_in(artefact.path)
    }
    for stratum in few.strata:
        table = pq.read_table(
            rows.shards(), columns=["domain", "document_ids"], partitioning=None
        ).to_pylist()
        own = [row["document_ids"] for row in table if row["domain"] == stratum.domain]
        first = {lineage[name] for names in own[: len(stratum.measured)] for name in names}
        assert stratum.lineages >= len(first)
    assert few.strata[0].documents <= few.documents
