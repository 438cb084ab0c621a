"""A workspace with rows made by hand: three documents in a row, one of structure, hostile text among them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.inspection.row_view import RowView, row_views, spread
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from curriculum.tokens.codec import Roles, Tokenizer
from curriculum.tokens.train import train_tokenizer
from schemas.document import Document
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.reports import DomainRows, RowsReport, StageReport
from tests import factories
from tests.factories import write_documents

LENGTH = 256
TEXTS = (
    "/// Adds two values.\ntemplate <typename T>\nT add(T a, T b) { return a + b; }\n",
    'const char* größe = "</script><img src=x onerror=alert(1)>{{data}} \U0001f600";\n',
    "int f();\nint g() { f(); }\n",
)
STRUCTURED = 2
"""The document whose row has structure: a signature, then a body that calls it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The workspace and what is in it."""

    home: Path
    store: Store
    rows: Artefact
    documents: tuple[Artefact, ...]
    tokenizer: Artefact

    @property
    def made_of(self) -> list[Artefact]:
        """All that the rows are made of."""
        return [self.tokenizer, *self.documents]

    def loaded(self) -> Tokenizer:
        """The tokenizer."""
        return Tokenizer.load(self.tokenizer.path / "tokenizer.json")

    def shown(self, most: int = 6) -> list[RowView]:
        """The rows as they are shown."""
        return row_views(spread(self.rows, most), self.documents)


def document(number: int) -> Document:
    """A document of two places; the second has a hostile path."""
    text = TEXTS[number]
    places = [f"src/f{number}.cpp", f"src/</script>{number}.cpp"]
    return factories.document(
        text,
        family="v3_simple",
        licence="MIT",
        timestamp=1_700_000_000,
        provenance=tuple(
            factories.provenance(
                repository="arena",
                commit=f"{number}c" + "0" * 38,
                path=path,
                blob="0" * 40,
                end=len(text.encode()),
            )
            for path in places
        ),
        lineage=f"arena:{places[0]}",
    )


def _line(tokenizer: Tokenizer, number: int, documents: Sequence[int]) -> dict[str, Any]:
    """A row of some documents; of the first its comment isn't scored."""
    ids, mask, starts, pieces = list[int](), list[int](), list[int](), list[dict[str, int]]()
    assert tokenizer.bos_id is not None
    for at, index in enumerate(documents):
        text = tokenizer.encode(TEXTS[index]).tolist()
        start = len(ids)
        starts.append(start)
        ids += [tokenizer.bos_id, *text]
        unscored = len(tokenizer.encode(TEXTS[0].partition("\n")[0])) if index == 0 else 0
        mask += [*([0] * unscored), *([1] * (len(text) - unscored)), 0]
        pieces += [
            _piece(at, 1, (start, start + 1), 0),
            _piece(at, 0, (start + 1, len(ids)), len(TEXTS[index].encode())),
        ]
    valid = len(ids)
    lengths = [end - start for start, end in zip(starts, [*starts[1:], valid], strict=True)]
    padding = LENGTH - valid
    line: dict[str, Any] = {
        "pack_id": f"{'a' * 12}-{number:010d}",
        "input_ids": ids + [tokenizer.pad_id] * padding,
        "loss_mask": mask + [0] * padding,
        "doc_starts": starts,
        "valid_token_count": valid,
        "num_docs": len(documents),
        "loss_token_count": sum(mask),
        "attention_pairs": sum(n * (n + 1) // 2 for n in lengths),
        "context_histogram": [sum(mask), 0, 0, 0],
        "domain": "templates",
        "document_ids": [document(index).document_id for index in documents],
        "pieces": pieces,
        "structure_ids": [0] * LENGTH,
        "chunk_boundaries": [],
        "call_edges": [],
        "type_edges": [],
    }
    if documents == (STRUCTURED,):
        signature = 1 + len(tokenizer.encode(TEXTS[STRUCTURED].partition("\n")[0] + "\n"))
        line["structure_ids"] = [
            0,
            *([3] * (signature - 1)),
            *([4] * (valid - signature)),
            *([0] * padding),
        ]
        line["chunk_boundaries"] = [
            {"start": 1, "end": signature, "kind": 3, "dep_level": 1, "doc": 0},
            {"start": signature, "end": valid, "kind": 4, "dep_level": 2, "doc": 0},
        ]  # fmt: skip
        line["call_edges"] = [{"source": 1, "target": 0, "label": 1}]
    return line


def _piece(doc: int, kind: int, tokens: tuple[int, int], size: int) -> dict[str, int]:
    named = {"token_start": tokens[0], "token_end": tokens[1], "byte_start": 0, "byte_end": size}
    return {"doc": doc, "kind": kind, **named}


def _write_rows(folder: Path, tokenizer: Tokenizer) -> None:
    lines = [
        _line(tokenizer, 0, (0,)),
        _line(tokenizer, 1, (0, 1, 2)),
        _line(tokenizer, 2, (STRUCTURED,)),
    ]
    edges = pa.list_(pa.struct([(name, pa.int32()) for name in ("source", "target", "label")]))
    chunk = [(name, pa.int32()) for name in ("start", "end", "kind", "dep_level", "doc")]
    fields = [field for field in PACKED_ROW_SCHEMA if field.name in lines[0]]
    fields += [
        pa.field("structure_ids", pa.list_(pa.uint8())),
        pa.field("chunk_boundaries", pa.list_(pa.struct(chunk))),
        pa.field("call_edges", edges),
        pa.field("type_edges", edges),
    ]
    schema = pa.schema(fields)
    pq.write_table(
        pa.Table.from_pylist(lines, schema=schema), factories.shard_path(folder), row_group_size=2
    )


def _published(
    store: Store,
    stage: str,
    labels: dict[str, str],
    fill: Callable[[Path], object],
    inputs: Sequence[Input] = (),
    report: StageReport | None = None,
) -> Artefact:
    def make(drafts: Sequence[StagingDirectory]) -> None:
        fill(drafts[0].path)
        if report is not None:
            drafts[0].record(report)

    recipe = Recipe(
        stage=stage,
        labels=tuple(labels.items()),
        revision=1,
        config=asdict(Roles()),
        inputs=tuple(inputs),
    )
    return store.produce([recipe], make)[0]


@pytest.fixture(scope="session")
def rows_home(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The workspace."""
    home = tmp_path_factory.mktemp("rows") / "workspace"
    store = Store(home)
    content = train_tokenizer(TEXTS * 4, vocab_size=320)
    tokenizer = _published(
        store, "tokenizers", {"corpus": "x"},
        lambda folder: (folder / "tokenizer.json").write_bytes(content),
    )  # fmt: skip
    documents = _published(
        store, "documents", {"family": "v3_simple", "repository": "arena"},
        lambda folder: write_documents([document(at) for at in range(3)], folder),
    )  # fmt: skip
    labels = {
        "family": "v3_simple",
        "objective": "causal",
        "variant": "0",
        "row_length": str(LENGTH),
    }
    rows = _published(
        store, "rows", {**labels, "split": "train"},
        lambda folder: _write_rows(folder, Tokenizer.parse(content.decode())),
        [tokenizer.as_input("tokenizer"), documents.as_input("documents v3_simple arena")],
        RowsReport(domains={"general": DomainRows(rows=4, documents=6, tokens=2 * LENGTH)}),
    )  # fmt: skip
    return Made(home=home, store=store, rows=rows, documents=(documents,), tokenizer=tokenizer)
