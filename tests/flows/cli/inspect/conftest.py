"""A workspace with documents made by hand: a context document, the same with structure, a plain one."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from curriculum.families.document_writer import EnrichedWriter, as_table
from curriculum.inspection.document_view import DocumentView
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import tokenize_documents
from schemas.document import Chunk, ChunkForm, Document, Edge, Part, Provenance
from schemas.structure import (
    LABEL_CODES,
    STRUCTURE_CODES,
    Structure,
    StructureChunk,
    StructureEdge,
)
from tests import factories
from tests.factories import write_documents

SUBJECT = "Grow </script><script>alert(1)</script> by <img src=x onerror=alert(2)>"
HEADER = f"""// Subject: {SUBJECT}
// Commit: 02dff1d4a3b5

"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A chunk to be, and the edge by which the search reaches it: to or from another chunk."""

    name: str
    symbol: str
    path: str
    code: str
    form: ChunkForm = "whole"
    hop: int = 1
    edge: Edge | None = None


CHUNKS = (
    Made(
        name="arena::MemoryResource",
        symbol="class",
        form="skeleton",
        path="src/memory_resource.h",
        code="class MemoryResource {\n public:\n  virtual ~MemoryResource() = default;\n"
        "  // what a resource gives\n  virtual void* do_allocate(std::size_t) = 0;\n};\n",
        edge=Edge(source=4, target=0, kind="overrides", label="overridden", confidence=0.5),
    ),
    Made(
        name="arena::<img src=x onerror=alert(3)>",
        symbol="function",
        form="signature",
        path="src/</script>.cpp",
        code='std::string text() { return "</script><img src=x onerror=alert(4)>"; }\n',
        hop=2,
        edge=Edge(source=1, target=2, kind="calls", label="syntactic", confidence=0.25),
    ),
    Made(
        name="arena::align_up(std::size_t, std::size_t)",
        symbol="function",
        path="src/align.h",
        code="constexpr std::size_t align_up(std::size_t size, std::size_t to) {\n"
        "  return (size + to - 1) / to * to;\n}\n",
        edge=Edge(source=4, target=2, kind="calls", label="resolved", confidence=1.0),
    ),
    Made(
        name="main",
        symbol="function",
        path="tools/größe.cpp",
        code="int main() {\n  BumpArena arena;\n  return arena.take(8) == nullptr;\n}\n",
        edge=Edge(source=3, target=4, kind="calls", label="resolved", confidence=0.75),
    ),
    Made(
        name="arena::BumpArena::take",
        symbol="function",
        path="src/bump.cpp",
        code="void* BumpArena::take(std::size_t size) {\n"
        "  const auto at = align_up(used_, 16); // 16: größer\n"
        "  used_ = at + size;\n  return at < size_ ? begin_ + at : nullptr;\n}\n",
        hop=0,
    ),
)


def context_document(family: str = "v4_context_graph", repeat: int = 1) -> Document:
    """A target, three neighbours and a neighbour of one of them; all but the target `repeat` times."""
    order = [index for index in range(4) for _ in range(repeat)] + [4]
    made_edges = [_edge(CHUNKS[index], number, order) for number, index in enumerate(order)]
    edges = sorted(filter(None, made_edges), key=lambda edge: (edge.source, edge.target, edge.kind))
    text, parts = HEADER, [Part(kind="header", start=0, end=len(HEADER.encode()))]
    chunks = []
    for number, index in enumerate(order):
        made = CHUNKS[index]
        for piece, source in ((f"// File: {made.path}\n", -1), (made.code, number)):
            start = parts[-1].end
            parts.append(
                Part(
                    kind="context" if made.hop else "target",
                    start=start,
                    end=start + len(piece.encode()),
                    rank=made.hop,
                    elidable=made.hop > 0,
                    source=source,
                )
            )
            text += piece
        edge = made_edges[number]
        chunks.append(
            Chunk(
                first_part=2 * number + 1,
                last_part=2 * number + 3,
                name=made.name,
                symbol=made.symbol,
                form=made.form,
                hop=made.hop,
                via=edges.index(edge) if edge else -1,
            )
        )
    return factories.document(
        text,
        family=family,
        licence="MIT",
        timestamp=1_700_000_000,
        parts=tuple(parts),
        provenance=tuple(_provenance(CHUNKS[index]) for index in order),
        lineage="arena:src/bump.cpp",
        chunks=tuple(chunks),
        edges=tuple(edges),
    )


def _edge(made: Made, number: int, order: list[int]) -> Edge | None:
    """The edge of the number-th chunk, from or to the first copy of its neighbour."""
    if made.edge is None:
        return None
    ends = (made.edge.source, made.edge.target)
    source, target = (number if CHUNKS[end] is made else order.index(end) for end in ends)
    return replace(made.edge, source=source, target=target)


def _provenance(made: Made) -> Provenance:
    return factories.provenance(
        repository="arena",
        commit="02dff1d4a3b5" + "0" * 28,
        path=made.path,
        blob="0" * 40,
        end=len(made.code.encode()),
    )


def view_of(document: Document) -> DocumentView:
    """A document as it is shown where the workspace knows nothing beside it."""
    values = {field.name: getattr(document, field.name) for field in fields(document)}
    return DocumentView(
        **values,
        document_id=document.document_id,
        content_id=document.content_id,
        num_bytes=len(document.text.encode()),
        number=0,
    )


def plain_document() -> Document:
    """A header and a file."""
    text = "// File: a.cpp\n\nint one() { return 1; }\n\x1b[31mred\n"
    parts = (
        Part(kind="header", start=0, end=16),
        Part(kind="code", start=16, end=len(text), source=0),
    )
    origin = factories.provenance(
        repository="arena", commit="1" * 40, path="a.cpp", blob="0" * 40, end=len(text) - 16
    )
    return factories.document(text, parts=parts, provenance=(origin,), lineage="arena:a.cpp")


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


def write_enriched(documents: Sequence[Document], folder: Path) -> None:
    """Documents and their structure, as the family writes them."""
    with EnrichedWriter(folder) as writer:
        for document in documents:
            writer.append(document, structure_of(document))


def published(
    home: Path, family: str, fill: Callable[[Path], object], inputs: tuple[Input, ...] = (),
    stage: str = "documents", repository: str = "arena",
) -> Artefact:  # fmt: skip
    """An artefact with what `fill` writes."""

    def make(drafts: Sequence[StagingDirectory]) -> None:
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
def bytes_tokenizer() -> Tokenizer:
    """A token a byte."""
    return byte_tokenizer()


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
        lambda folder: tokenize_documents(v4.shards(), byte_tokenizer(), folder),
        (v4.as_input("documents"),),
        stage="tokens",
    )
    published(
        home,
        "v6_enriched",
        lambda folder: write_enriched([context_document()], folder),
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
            factories.shard_path(folder),
        ),
    )
    published(home, "v3_simple", lambda folder: write_documents([], folder))
    return home
