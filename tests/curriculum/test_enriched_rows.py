"""v6_enriched, from a sample repository's documents to rows: without its columns it is its base family."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import SAMPLES
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.encode import Counts, FitResult, Fitter, Split, encode_documents, policy_of
from curriculum.families import v4_context_graph
from curriculum.families.document_writer import EnrichedWriter
from curriculum.families.render import render
from curriculum.families.v6_enriched import enrich
from curriculum.graph.call_graph import CallGraph
from curriculum.objectives import fim, objective_of
from curriculum.packing import best_fit
from curriculum.packing.row_check import check
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.stages.row_sources import apply_objective
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding, byte_ranges
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from curriculum.tokens.train import train_tokenizer
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.document import Document, Part
from schemas.families import CONTEXT_FAMILY
from schemas.packed_row import PACKED_ROW_SCHEMA, TEXT_PIECE, RowFormat
from schemas.structure import STRUCTURE_TOKENS
from tests.factories import write_documents

OUTCOMES = {
    "v2_simple": {"whole", "divided"},
    "v3_simple": {"whole", "elided", "divided"},
    "v4_context_graph": {"whole", "elided", "routed"},
}
"""Expected outcome of each family's documents in rows of 256 to 4,096 tokens."""
LISTED = ("chunk_boundaries", "call_edges", "type_edges")
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
    graph = CallGraph()
    for commit in read_commits(resolve(spec, cache=cache), spec, corpus, Skips()):
        graph.apply(commit.tree)
        if family == "v4_context_graph":
            yield from v4_context_graph.documents(commit, graph, family=CONTEXT_FAMILY).documents
        else:
            for change in commit.changes:
                yield from render(change, (family,)).documents


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """Return flat and enriched rows by base family."""
    return {family: build_pair(family, tmp_path_factory.mktemp(family)) for family in OUTCOMES}


def build_pair(family: str, folder: Path) -> Pair:
    documents = list(islice(documents_of(family, folder / "cache"), DOCUMENTS))
    documents = list({document.document_id: document for document in documents}.values())
    assert len(documents) > DOCUMENTS // 2
    base, enriched = folder / "base", folder / "enriched"
    for each in (base, enriched):
        each.mkdir()
    write_documents(documents, base)
    with EnrichedWriter(enriched) as writer:
        for document in documents:
            writer.append(document, enrich(document))
    texts = [document.text for document in documents]
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=800).decode())
    tokenize_documents(sorted(base.glob("data/part-*.parquet")), tokenizer, base)
    return Pair(documents=documents, base=base, enriched=enriched, tokenizer=tokenizer)


def rows_of(
    pair: Pair, folder: Path, row_length: int, objective: str, *, structured: bool
) -> Counts:
    """Rows as a build makes them: fitted, scored, spooled, packed, written."""
    family, tokenizer, counts = pair.documents[0].family, pair.tokenizer, Counts()
    rule = objective_of(objective, tokenizer, variant=0)
    room, policy = row_length - rule.reserve, policy_of(family)
    fitter = Fitter.from_tokenizer(tokenizer, row_length=room, policy=policy)
    source = pair.enriched if structured else pair.base
    (folder / "spool").mkdir(parents=True)
    with Spool(folder / "spool", structured=structured) as spool:
        for fitted in encode_documents(
            sorted(source.glob("data/part-*.parquet")),
            TokenStore.open(pair.base),
            fitter,
            structure=structured,
            objective=apply_objective(rule, pair.tokenizer, row_length=row_length),
        ):
            counts.add(fitted)
            for encoding in fitted.encodings:
                spool.append(encoding)
    spooled = SpooledDocuments(folder / "spool")
    kept = spooled.with_targets()
    ties = best_fit.tie_breakers(spooled.tie_ids[kept], seed=17)
    plan = best_fit.plan(spooled.lengths[kept], row_length, ties, seed=17).reindex(kept)
    row_format = RowFormat(
        row_length=row_length,
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    labels = RowLabels(
        rows_key="c0ffee" * 10, family=family, objective=objective, variant=0, split="train"
    )
    if structured:
        labels = replace(labels, family="v6_enriched", structured=True)
    with RowWriter(
        folder, row_format=row_format, labels=labels, shard_tokens=row_length * 16
    ) as writer:
        writer.write(spooled, plan.order, plan.row_starts, domain="all")
    return counts


@pytest.mark.parametrize("objective", ["causal", "fim", "doc_to_code", "code_to_doc"])
@pytest.mark.parametrize("family", OUTCOMES)
def test_without_the_structure_columns_rows_are_the_flat_rows(
    family: str, objective: str, pairs: dict[str, Pair], tmp_path: Path
) -> None:
    pair, seen = pairs[family], set[str]()
    counted: Counter[str] = Counter()
    cut = 0
    for row_length in LENGTHS:
        flat, enriched = tmp_path / f"flat{row_length}", tmp_path / f"enriched{row_length}"
        expected = rows_of(pair, flat, row_length, objective, structured=False)
        found = rows_of(pair, enriched, row_length, objective, structured=True)
        assert found.documents == expected.documents
        assert found.objective_counts == expected.objective_counts
        cut += found.structure["chunks_cut"]
        assert found.structure["chunks"] > found.structure["chunks_without_tokens"]
        seen |= set(found.documents)
        counted += check_rows(flat, enriched)
    assert min(counted[name] for name in LISTED) > 0
    assert seen == OUTCOMES[family]
    if objective in ("causal", "fim"):
        assert (cut > 0) == (objective == "fim")


def check_rows(flat: Path, enriched: Path) -> Counter[str]:
    """Check the rows and return their numbers of chunks and edges."""
    files = sorted(flat.glob("data/part-*.parquet"))
    assert files
    assert [file.name for file in files] == [
        file.name for file in sorted(enriched.glob("data/part-*.parquet"))
    ]
    same = [name for name in PACKED_ROW_SCHEMA.names if name not in NAMED]
    assert {"input_ids", "target_ids", "loss_mask", "doc_ids", "doc_starts"} <= set(same)
    for file in files:
        plain = pq.read_table(file).select(same)
        assert pq.read_table(enriched / "data" / file.name).select(same).equals(plain)
    check(enriched).raise_first()
    check(flat).raise_first()
    table = pq.read_table(sorted(enriched.glob("data/part-*.parquet")))
    for name in STRUCTURE_TOKENS:
        assert len(pc.unique(pc.list_flatten(table[name]))) > 2, name
    return Counter({name: len(pc.list_flatten(table[name])) for name in LISTED})


def test_held_out_files_stand_in_no_encoding_that_is_trained_on(pairs: dict[str, Pair]) -> None:
    """Files are put on sides by a hash; each document is on that of its own lineage."""
    pair = pairs["v4_context_graph"]
    lineages = {each.lineage for document in pair.documents for each in document.provenance}
    held_out = frozenset(
        name for name in lineages if int(sha256(f"{name}d".encode()).hexdigest(), 16) % 2
    )
    assert held_out < lineages
    val = np.array([document.lineage in held_out for document in pair.documents])
    files, store = sorted(pair.base.glob("data/part-*.parquet")), TokenStore.open(pair.base)
    fitter = Fitter.from_tokenizer(pair.tokenizer, row_length=16384, policy="route")
    counts, texts = Counts(), Counter[tuple[bool, str, bool]]()
    for fitted in encode_documents(
        files, store, fitter, split=Split(held_out=val, held_out_files=held_out)
    ):
        counts.add(fitted)
        document = pair.documents[fitted.row]
        for encoding in fitted.encodings:
            for part in parts_in(document, encoding):
                if part.source >= 0:
                    is_held_out = document.provenance[part.source].lineage in held_out
                    texts[bool(val[fitted.row]), part.kind, is_held_out] += 1
    for is_val in (False, True):
        assert texts[is_val, "target", is_val] > 0
        assert texts[is_val, "target", not is_val] == 0
    assert texts[False, "context", True] == 0
    assert min(texts[True, "context", False], texts[True, "context", True]) > 0
    assert counts.chunks["other_side"] > 0
    assert counts.documents["straddles"] > 0


def parts_in(document: Document, encoding: Encoding) -> Iterator[Part]:
    """The parts of which an encoding has a byte."""
    for kind, _, _, start, end in encoding.pieces.tolist():
        if kind == TEXT_PIECE:
            yield from (part for part in document.parts if part.start < end and start < part.end)


def encoded(pair: Pair, row_length: int, objective: str, variant: int) -> Iterator[FitResult]:
    rule = objective_of(objective, pair.tokenizer, variant=variant)
    policy = policy_of(pair.documents[0].family)
    return encode_documents(
        sorted(pair.enriched.glob("data/part-*.parquet")),
        TokenStore.open(pair.base),
        Fitter.from_tokenizer(pair.tokenizer, row_length=row_length - fim.RESERVE, policy=policy),
        structure=True,
        objective=apply_objective(rule, pair.tokenizer, row_length=row_length),
    )


@pytest.mark.parametrize(("objective", "variants"), [("fim", 3), ("code_to_doc", 1)])
@pytest.mark.parametrize("family", OUTCOMES)
def test_structure_goes_where_its_bytes_go(
    family: str, objective: str, variants: int, pairs: dict[str, Pair]
) -> None:
    """Moved tokens keep their codes, a cut chunk becomes one chunk per piece, and no edge appears."""
    pair, seen = pairs[family], Counter[str]()
    for variant in range(variants):
        plain = encoded(pair, 1024, "causal", 0)
        for before, after in zip(plain, encoded(pair, 1024, objective, variant), strict=True):
            for causal, split in zip(before.encodings, after.encodings, strict=True):
                seen.update(same_codes(causal, split, pair.tokenizer))
            if before.structure and after.structure:
                seen["cut"] += after.structure.chunks_cut
                assert before.structure.chunks_cut == 0
                assert before.structure.edges_dropped <= after.structure.edges_dropped
    assert seen["same"] > 20 * seen["anew"]
    assert min(seen["anew"], seen["cut"]) > 0 or objective != "fim"


def same_codes(plain: Encoding, moved: Encoding, tokenizer: Tokenizer) -> Counter[str]:
    """Count moved tokens that have the same codes as before."""
    assert plain.structure is not None
    assert moved.structure is not None
    known = dict(zip(placed(plain, tokenizer), plain.structure.codes.tolist(), strict=True))
    seen: Counter[str] = Counter()
    for place, codes in zip(placed(moved, tokenizer), moved.structure.codes.tolist(), strict=True):
        if place[0] == place[1]:
            assert codes == [0] * len(STRUCTURE_TOKENS)
        else:
            assert codes == known.get(place, codes)
            seen["same" if place in known else "anew"] += 1
    return seen


def placed(encoding: Encoding, tokenizer: Tokenizer) -> list[tuple[int, int, int]]:
    """First byte, the byte after the last, id of each token."""
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    return list(zip(starts.tolist(), ends.tolist(), encoding.ids.tolist(), strict=True))
