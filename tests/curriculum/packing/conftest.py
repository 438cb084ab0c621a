"""A small spool of random documents and the rows made of it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from curriculum.packing import best_fit
from curriculum.packing.row_writer import RowCounts, RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.tokens.encoding import EncodedStructure, Encoding
from schemas.packed_row import RowFormat

BOS, EOS, PAD = 1, 2, 0
ROW = 128
FORMAT = RowFormat(row_length=ROW, vocab_size=512, pad_id=PAD, bos_id=BOS, eos_id=EOS)
LABELS = RowLabels(
    rows_key="c0ffee" * 10, family="v2_simple", objective="causal", variant=0, split="train"
)


@dataclass(frozen=True, kw_only=True)
class Written:
    folder: Path
    encodings: list[Encoding]
    counts: RowCounts


def encoding(length: int, number: int, *, masked: int = 0) -> Encoding:
    """[BOS] text of two pieces [EOS], where `masked` predictions from the first on don't count."""
    random = np.random.default_rng(number)
    ids = random.integers(3, 512, length).astype(np.int32)
    ids[0], ids[-1] = BOS, EOS
    mask = np.ones(length, dtype=np.uint8)
    mask[:masked] = 0
    mask[-1] = 0
    return Encoding(
        document_id=f"{number:08x}" * 4, ids=ids, loss_mask=mask, pieces=_pieces(length)
    )


def enriched(flat: Encoding, number: int) -> Encoding:
    """With chunks over all text but the second token of every four, and calls between them."""
    random = np.random.default_rng(number)
    length = len(flat.ids)
    starts = np.arange(1, max(1, length - 2), 4)
    chunks = np.stack([starts, np.minimum(starts + 3, length - 1)], axis=1)
    chunks[1:, 0] += 1
    chunks = chunks[chunks[:, 0] < chunks[:, 1]]
    codes = random.integers(0, [10, 1, 65, 65, 256], (length, 5))
    levels = random.integers(1, 65, len(chunks))
    for (start, end), level in zip(chunks, levels, strict=True):
        codes[start:end, 1] = level
    codes[[0, -1]] = 0
    kinds = random.integers(0, 10, len(chunks))
    steps = np.arange(len(chunks) - 1)
    edges = np.stack([steps, steps + 1, 1 + steps % 4], axis=1).astype(np.int32)
    coded = EncodedStructure(
        base_document_id=f"{number + 1:08x}" * 4,
        codes=codes.astype(np.uint8),
        chunks=np.column_stack([chunks, kinds, levels]).astype(np.int32),
        call_edges=edges[::2],
        type_edges=edges[1::2],
    )
    return replace(flat, structure=coded)


def _pieces(length: int) -> npt.NDArray[np.int32]:
    middle = 1 + (length - 2) // 2
    pieces = [[1, 0, 1, 0, 0], [0, 1, middle, 0, 3 * middle - 3]]
    pieces += [[0, middle, length - 1, 3 * middle - 3, 3 * length]]
    pieces += [[1, length - 1, length, 3 * length, 3 * length]]
    return np.array([piece for piece in pieces if piece[1] < piece[2]], dtype=np.int32)


def spool(folder: Path, encodings: list[Encoding]) -> SpooledDocuments:
    folder.mkdir()
    structured = any(item.structure is not None for item in encodings)
    with Spool(folder, structured=structured) as writer:
        for item in encodings:
            writer.append(item)
    return SpooledDocuments(folder)


def write(
    folder: Path, encodings: list[Encoding], *, store_targets: bool = True, shard_rows: int = 4
) -> Written:
    """Rows of all encodings with targets, packed, in shards of `shard_rows`."""
    folder.mkdir(parents=True)
    spooled = spool(folder / "spool", encodings)
    kept = spooled.with_targets()
    ties = best_fit.tie_breakers(spooled.tie_ids[kept], seed=17)
    plan = best_fit.plan(spooled.lengths[kept], ROW, ties, seed=17).reindex(kept)
    with RowWriter(
        folder,
        row_format=FORMAT,
        labels=replace(LABELS, structured=spooled.structured),
        store_targets=store_targets,
        shard_tokens=shard_rows * ROW,
    ) as writer:
        counts = writer.write(spooled, plan.order, plan.row_starts, domain="templates")
    return Written(folder=folder, encodings=encodings, counts=counts)


class Kit:
    """The makers above, for tests, which can't import from here."""

    encoding = staticmethod(encoding)
    enriched = staticmethod(enriched)
    spool = staticmethod(spool)
    write = staticmethod(write)


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
def encodings() -> list[Encoding]:
    lengths = np.random.default_rng(11).integers(2, ROW + 1, 40)
    return [encoding(int(length), number) for number, length in enumerate(lengths)]


@pytest.fixture
def written(tmp_path: Path, encodings: list[Encoding]) -> Written:
    return write(tmp_path / "rows", encodings)
