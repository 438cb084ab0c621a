"""A workspace with documents made by hand: a context document, the same with structure, a plain one."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from curriculum.families.write import as_table, write_documents
from curriculum.store import Artefact, Draft, Input, Recipe, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import tokenise_documents
from schemas.document import Chunk, Document, Edge, Part, Provenance
from schemas.structure import (
    ENRICHED_SCHEMA,
    LABEL_CODES,
    RUN_COLUMNS,
    STRUCTURE_CODES,
    STRUCTURE_FIELDS,
    Structure,
    StructureChunk,
    StructureEdge,
)

SUBJECT = "Grow </script><script>alert(1)</script> by <img src=x onerror=alert(2)>"
HEADER = f"""// Commit: 02dff1d4a3b5
// Subject: {SUBJECT}

"""
SOURCES = (
    ("arena::MemoryResource", "class", "skeleton", 2, "src/memory_resource.h", 0.5,
     "class MemoryResource {\n public:\n  virtual ~MemoryResource() = default;\n"
     "  // what a resource gives\n  virtual void* do_allocate(std::size_t) = 0;\n};\n"),
    ("arena::<img src=x onerror=alert(3)>", "function", "signature", 2, "src/</script>.cpp", 0.25,
     'std::string text() { return "</script><img src=x onerror=alert(4)>"; }\n'),
    ("arena::align_up(std::size_t, std::size_t)", "function", "whole", 1, "src/align.h", 1.0,
     "constexpr std::size_t align_up(std::size_t size, std::size_t to) {\n"
     "  return (size + to - 1) / to * to;\n}\n"),
    ("main", "function", "whole", 1, "tools/größe.cpp", 0.75,
     "int main() {\n  BumpArena arena;\n  return arena.take(8) == nullptr;\n}\n"),
    ("arena::BumpArena::take", "function", "whole", 0, "src/bump.cpp", 1.0,
     "void* BumpArena::take(std::size_t size) {\n"
     "  const auto at = align_up(used_, 16); // 16: größer\n"
     "  used_ = at + size;\n  return at < size_ ? begin_ + at : nullptr;\n}\n"),
)  # fmt: skip
EDGES = (
    Edge(source=1, target=2, kind="calls", label="syntactic", confidence=0.25),
    Edge(source=3, target=4, kind="calls", label="resolved", confidence=0.75),
    Edge(source=4, target=0, kind="overrides", label="overridden", confidence=0.5),
    Edge(source=4, target=2, kind="calls", label="resolved", confidence=1.0),
)
VIA = (2, 0, 3, 1, -1)


def context_document(family: str = "v4_context_graph", repeat: int = 1) -> Document:
    """A target with two neighbours and two of theirs; each but the target `repeat` times."""
    order = [index for index in range(4) for _ in range(repeat)] + [4]
    place = {old: order.index(old) for old in range(5)}
    parts = [Part(kind="header", start=0, end=len(HEADER.encode()))]
    text, provenance, chunks = HEADER, [], []
    for number, index in enumerate(order):
        name, symbol, form, hop, path, _, code = SOURCES[index]
        for piece, source in ((f"// File: {path}\n", -1), (code, number)):
            start = parts[-1].end
            kind = "context" if hop else "target"
            parts.append(
                Part(
                    kind=kind,
                    start=start,
                    end=start + len(piece.encode()),
                    rank=hop,
                    elidable=hop > 0,
                    source=source,
                )
            )
            text += piece
        provenance.append(
            Provenance(
                repository="arena",
                commit="02dff1d4a3b5" + "0" * 28,
                path=path,
                blob="0" * 40,
                start=0,
                end=len(code.encode()),
                lineage=f"arena:{path}",
            )
        )
        chunks.append(
            Chunk(
                first_part=2 * number + 1,
                last_part=2 * number + 3,
                name=name,
                symbol=symbol,
                form=form,
                hop=hop,
                via=-1,
            )
        )
    return _hung(Document(
        text=text,
        family=family,
        language="cpp",
        licence="MIT",
        timestamp=1_700_000_000,
        parts=tuple(parts),
        spans=(),
        provenance=tuple(provenance),
        lineage="arena:src/bump.cpp",
        chunks=tuple(chunks),
    ), order, place)  # fmt: skip


def _hung(document: Document, order: list[int], place: dict[int, int]) -> Document:
    """The document with an edge for each chunk, to the first copy of its neighbour."""
    edges = []
    for number, old in enumerate(order):
        if VIA[old] < 0:
            continue
        edge = EDGES[VIA[old]]
        ends = [number if end == old else place[end] for end in (edge.source, edge.target)]
        edges.append(
            (number, Edge(source=ends[0], target=ends[1], kind=edge.kind, label=edge.label,
                          confidence=edge.confidence))
        )  # fmt: skip
    edges.sort(key=lambda item: (item[1].source, item[1].target, item[1].kind))
    via = {number: index for index, (number, _) in enumerate(edges)}
    chunks = tuple(
        Chunk(first_part=chunk.first_part, last_part=chunk.last_part, name=chunk.name,
              symbol=chunk.symbol, form=chunk.form, hop=chunk.hop, via=via.get(number, -1))
        for number, chunk in enumerate(document.chunks)
    )  # fmt: skip
    fields = {name: getattr(document, name) for name in document.__slots__}
    return Document(**{**fields, "chunks": chunks, "edges": tuple(edge for _, edge in edges)})


def plain_document() -> Document:
    """A header and a file."""
    text = "// File: a.cpp\n\nint one() { return 1; }\n\x1b[31mred\n"
    parts = (
        Part(kind="header", start=0, end=16),
        Part(kind="code", start=16, end=len(text), source=0),
    )
    origin = Provenance(
        repository="arena", commit="1" * 40, path="a.cpp", blob="0" * 40,
        start=0, end=len(text) - 16, lineage="arena:a.cpp",
    )  # fmt: skip
    return Document(
        text=text, family="v2_simple", language="cpp", licence=None, timestamp=0, parts=parts,
        spans=(), provenance=(origin,), lineage="arena:a.cpp",
    )  # fmt: skip


def structure_of(document: Document) -> Structure:
    """Lines of comment, signature and body; a structure chunk for each chunk's code, without its path."""
    content = document.text.encode()
    runs: list[tuple[int, int]] = []
    chunks = []
    at = 0
    for line in content.splitlines(keepends=True):
        at += len(line)
        stripped = line.strip()
        code = "comment" if stripped.startswith(b"//") else "func_body"
        code = "func_sig" if line[:1].isalpha() else code
        code = "none" if not stripped else code
        runs.append((at, STRUCTURE_CODES[code]))
    merged = [
        (max(end for end, _ in group), code)
        for code, group in (
            (code, [*each]) for code, each in itertools.groupby(runs, lambda r: r[1])
        )
    ]
    for chunk in document.chunks:
        part = document.parts[chunk.last_part - 1]
        kind = "class_decl" if chunk.symbol == "class" else "func_body"
        chunks.append(
            StructureChunk(
                start=part.start,
                end=part.end,
                kind=STRUCTURE_CODES[kind],
                name=chunk.name,
                dep_level=4 - chunk.hop,
            )
        )
    edges = tuple(
        StructureEdge(source=edge.source, target=edge.target, label=LABEL_CODES[edge.label])
        for edge in document.edges
        if edge.kind == "calls"
    )
    codes = tuple(code for _, code in merged)
    return Structure(
        ends=tuple(end for end, _ in merged),
        structure_ids=codes,
        ast_depth=codes,
        sibling_index=codes,
        ast_node_type=codes,
        chunks=tuple(chunks),
        call_edges=edges,
        type_edges=(),
    )


def enriched_table(documents: Sequence[Document]) -> pa.Table:
    """ENRICHED_SCHEMA, as the family writes it."""
    structures = [structure_of(document) for document in documents]
    columns = {name: as_table(documents)[name] for name in as_table(documents).column_names}
    columns["base_document_id"] = pa.array(["b" * 32] * len(documents))
    columns["run_ends"] = [list(each.ends) for each in structures]
    for name in RUN_COLUMNS:
        columns[f"run_{name}"] = [list(getattr(each, name)) for each in structures]
    for name, field in (
        ("structure_chunks", "chunks"),
        ("call_edges", "call_edges"),
        ("type_edges", "type_edges"),
    ):
        columns[name] = [
            [
                {slot: getattr(item, slot) for slot in item.__slots__}
                for item in getattr(each, field)
            ]
            for each in structures
        ]
    assert {field.name for field in STRUCTURE_FIELDS} < set(columns)
    return pa.table({name: columns[name] for name in ENRICHED_SCHEMA.names}, schema=ENRICHED_SCHEMA)


Keep = Callable[..., Artefact]


def published(
    home: Path, family: str, fill: Callable[[Path], object], inputs: tuple[Input, ...] = (),
    stage: str = "documents", repository: str = "arena",
) -> Artefact:  # fmt: skip
    """An artefact with what `fill` writes."""

    def make(drafts: Sequence[Draft]) -> None:
        fill(drafts[0].path)

    recipe = Recipe(
        stage=stage,
        labels=(("family", family), ("repository", repository)),
        revision=1,
        config={"of": f"{family} {repository}"},
        inputs=inputs,
    )
    return Store(home).produce([recipe], make)[0]


def byte_tokenizer() -> Tokenizer:
    """A token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(
        models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[])
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return Tokenizer.parse(made.to_str())


@pytest.fixture(scope="session")
def context() -> Document:
    """The context document of the workspace."""
    return context_document()


@pytest.fixture(scope="session")
def wide() -> Document:
    """A context document of 121 chunks."""
    return context_document(repeat=30)


@pytest.fixture(scope="session")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace: v4 with tokens, v6 of it, v2, an older v4 and one without documents."""
    home = tmp_path_factory.mktemp("looked")
    both = [context_document(), context_document(repeat=30)]
    v4 = published(home, "v4_context_graph", lambda folder: write_documents(both, folder))
    published(
        home,
        "v4_context_graph",
        lambda folder: tokenise_documents(v4.files(), byte_tokenizer(), folder),
        (v4.as_input("documents"),),
        stage="tokens",
    )
    published(
        home,
        "v6_enriched",
        lambda folder: pq.write_table(
            enriched_table([context_document("v6_enriched")]), folder / "part-00000.parquet"
        ),
        (v4.as_input("documents"),),
    )
    published(home, "v2_simple", lambda folder: write_documents([plain_document()], folder))
    published(
        home, "v2_simple", lambda folder: write_documents([plain_document()], folder),
        repository="fork",
    )  # fmt: skip
    older = as_table([context_document("v5_clang_graph")])
    published(
        home,
        "v5_clang_graph",
        lambda folder: pq.write_table(
            older.drop_columns(["chunks", "edges", "base_document_id"]),
            folder / "part-00000.parquet",
        ),
    )
    published(home, "v3_simple", lambda folder: write_documents([], folder))
    return home
