"""v6_enriched, from a sample repository's documents to rows: without its columns it is its base family."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from curriculum import pack
from curriculum.corpus.sample import SAMPLES
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.encode import Counts, Fitter, encode_documents, policy_of
from curriculum.families.render import render
from curriculum.families.write import EnrichedWriter, write_documents
from curriculum.objectives import causal
from curriculum.rows.check import check
from curriculum.rows.spool import Spool, SpooledDocuments
from curriculum.rows.write import RowLabels, RowWriter
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import TokenStore, tokenise_documents
from curriculum.tokens.train import train_tokenizer
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import Document
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.structure import STRUCTURE_TOKENS, Structure, StructureChunk, StructureEdge

OUTCOMES = {
    "v2_simple": {"whole", "divided"},
    "v3_simple": {"whole", "elided", "divided"},
}
"""What becomes of a family's documents in rows of 256 to 4,096 tokens."""
LENGTHS = (256, 512, 1024, 4096)
DOCUMENTS = 40
NAMED = ("document_ids", "family", "pack_id")
"""Columns that say which family rows are of."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The documents of a base family, and the same with structure."""

    documents: list[Document]
    base: Path
    enriched: Path
    tokenizer: Tokenizer


def documents_of(family: str, cache: Path) -> Iterator[Document]:
    spec = RepositorySpec(name="lattice", path=str(SAMPLES / "lattice.bundle"))
    corpus = CorpusSpec(name="sample", repositories=(spec,))
    for commit in read_commits(resolve(spec, cache=cache), spec, corpus, Skips()):
        for change in commit.changes:
            yield from render(change, (family,)).documents


def painted(document: Document) -> Structure:
    """Runs of a word's length, chunks of some lines, calls and types between them; by its id."""
    size = len(document.text.encode())
    random = np.random.default_rng(int(document.document_id[:8], 16))
    ends = np.unique([*random.integers(1, size + 1, size // 5), size]).tolist()
    borders = np.unique(random.integers(0, size + 1, 3 + size // 80)).tolist()
    chunks = tuple(
        StructureChunk(start=start, end=end, kind=4, name="", dep_level=1 + number % 64)
        for number, (start, end) in enumerate(pairwise(borders))
        if number % 5
    )
    edges = tuple(
        StructureEdge(source=number, target=target, label=1 + number % 4)
        for number in range(len(chunks) - 1)
        for target in (number, number + 1)
    )
    runs = [tuple(random.integers(0, most, len(ends)).tolist()) for most in (10, 65, 65, 256)]
    return Structure(
        ends=tuple(ends),
        structure_ids=runs[0],
        ast_depth=runs[1],
        sibling_index=runs[2],
        ast_node_type=runs[3],
        chunks=chunks,
        call_edges=edges[::2],
        type_edges=edges[1::2],
    )


@pytest.fixture(scope="module", params=OUTCOMES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param)
    documents = list(islice(documents_of(request.param, folder / "cache"), DOCUMENTS))
    documents = list({document.document_id: document for document in documents}.values())
    assert len(documents) > DOCUMENTS // 2
    base, enriched = folder / "base", folder / "enriched"
    for each in (base, enriched):
        each.mkdir()
    write_documents(documents, base)
    with EnrichedWriter(enriched) as writer:
        for document in documents:
            writer.append(document, painted(document))
    texts = [document.text for document in documents]
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=800).decode())
    tokenise_documents(sorted(base.glob("part-*.parquet")), tokenizer, base)
    return Pair(documents=documents, base=base, enriched=enriched, tokenizer=tokenizer)


def rows_of(pair: Pair, folder: Path, row_length: int, *, structured: bool) -> Counts:
    """Rows as a build makes them: fitted, scored, spooled, packed, written."""
    family, tokenizer, counts = pair.documents[0].family, pair.tokenizer, Counts()
    fitter = Fitter.of(tokenizer, row_length=row_length, policy=policy_of(family))
    source = pair.enriched if structured else pair.base
    (folder / "spool").mkdir(parents=True)
    with Spool(folder / "spool", structured=structured) as spool:
        for fitted in encode_documents(
            sorted(source.glob("part-*.parquet")),
            TokenStore.open(pair.base),
            fitter,
            structure=structured,
        ):
            counts.add(fitted)
            repeated = fitted.spans.of("repeated")
            for encoding in fitted.encodings:
                spool.append(causal.apply(encoding, repeated, tokenizer.token_bytes))
    spooled = SpooledDocuments(folder / "spool")
    kept = spooled.with_targets()
    ties = pack.ties(spooled.tie_ids[kept], seed=17)
    plan = pack.plan(spooled.lengths[kept], row_length, ties, seed=17).over(kept)
    row_format = RowFormat(
        row_length=row_length,
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    labels = RowLabels(
        rows_key="c0ffee" * 10, family=family, objective="causal", variant=0, split="train"
    )
    if structured:
        labels = replace(labels, family="v6_enriched", structured=True)
    with RowWriter(
        folder, row_format=row_format, labels=labels, shard_tokens=row_length * 16
    ) as writer:
        writer.write(spooled, plan.order, plan.row_starts, domain="all")
    return counts


def test_without_the_structure_columns_rows_are_the_flat_rows(pair: Pair, tmp_path: Path) -> None:
    seen: set[str] = set()
    for row_length in LENGTHS:
        flat, enriched = tmp_path / f"flat{row_length}", tmp_path / f"enriched{row_length}"
        expected = rows_of(pair, flat, row_length, structured=False)
        found = rows_of(pair, enriched, row_length, structured=True)
        assert found.documents == expected.documents
        assert found.structure["chunks"] > found.structure["chunks_without_tokens"]
        seen |= set(found.documents)
        check_rows(flat, enriched)
    assert seen == OUTCOMES[pair.documents[0].family]


def check_rows(flat: Path, enriched: Path) -> None:
    files = sorted(flat.glob("part-*.parquet"))
    assert files
    assert [file.name for file in files] == [
        file.name for file in sorted(enriched.glob("part-*.parquet"))
    ]
    same = [name for name in PACKED_ROW_SCHEMA.names if name not in NAMED]
    assert {"input_ids", "target_ids", "loss_mask", "doc_ids", "doc_starts"} <= set(same)
    for file in files:
        plain = pq.read_table(file).select(same)
        assert pq.read_table(enriched / file.name).select(same).equals(plain)
    check(enriched).raise_first()
    check(flat).raise_first()
    table = pq.read_table(sorted(enriched.glob("part-*.parquet")))
    for name in STRUCTURE_TOKENS:
        assert len(pc.unique(pc.list_flatten(table[name]))) > 2, name
    for name in ("chunk_boundaries", "call_edges", "type_edges"):
        assert pc.sum(pc.list_value_length(table[name])).as_py() > 0, name
