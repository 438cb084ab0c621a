"""Files of one thing over and over: every stage that reads text takes time in proportion to it."""

import resource
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from curriculum import objectives
from curriculum.corpus.batch_diff import whole_text_hunks
from curriculum.corpus.blobs import decode
from curriculum.corpus.history import read_changes
from curriculum.corpus.quality import reason_against
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.encode import Fitter, TokenizedDocument
from curriculum.families.render import render
from curriculum.families.v4_context_graph import documents
from curriculum.families.v6_enriched import enrich
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.index import facts_of
from curriculum.graph.outline import outline
from curriculum.graph.syntax_tree import parse
from curriculum.objectives import objective_of
from curriculum.packing.repeats import in_repeats
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Spans
from curriculum.tokens.train import train_tokenizer
from schemas.change import Blob, CommitChange, FileChange, Hunk, TreeDelta, TreeFile
from schemas.corpus import CorpusSpec, QualitySpec, RepositorySpec
from schemas.document import PART_KINDS, SPAN_KINDS
from schemas.families import CONTEXT_FAMILY, families_of

LARGEST = QualitySpec().max_bytes
MIN_SECONDS = 0.5
MOST = 6.0
"""CPU(4n) / CPU(n); 4 would be linear."""


def repeated(text: str) -> Callable[[int], str]:
    return lambda size: text * (size // len(text.encode()))


def numbered(text: str) -> Callable[[int], str]:
    return lambda size: "".join(
        text.replace("N", str(number)).replace("M", str(number // 2))
        for number in range(size // (len(text) + 4))
    )


RUNS: Mapping[str, Callable[[int], str]] = {
    "letters": repeated("a" * 80 + "\n"),
    "quotes": repeated('"' * 80 + "\n"),
    "backslashes": repeated("a \\\n"),
    "blank lines": repeated("\n"),
    "lines": repeated("int x;\n"),
    "macros": repeated("FOO(x)\n"),
    "comments": repeated("/// x\n"),
    "documented declarations": repeated("/// x\nint f();\n"),
    "parentheses": repeated("(" * 80 + "\n"),
    "macros and parentheses": repeated("A(\n"),
    "braces": repeated("{" * 80 + "\n"),
    "pairs of braces": repeated("{}\n"),
    "closing braces": repeated("}\n"),
    "angle brackets": repeated("a<" * 40 + "\n"),
    "attributes": repeated("[[a]] " * 10 + "\n"),
    "attributes of nothing": repeated("[[a]];\n"),
    "#if": repeated("#if X\n"),
    "#if and #endif": repeated("#if X\nint x;\n#endif\n"),
    "#elif": lambda size: "#if X\n" + "#elif Y\n" * (size // 8),
    "identifiers": repeated("foo bar\n"),
    "qualified names": repeated("a::" * 20 + "b;\n"),
    "functions": repeated("int f(int x) { return f(x); }\n"),
    "functions with numbers": numbered("int fN(int x) { return fM(x); }\n"),
    "overloads": numbered("int f(AN a) { return f(a); }\n"),
    "methods": lambda size: "class A {\n" + "  void m() { m(); }\n" * (size // 20) + "};\n",
    "classes": repeated("class A { void m(); A *a; };\n"),
    "derived classes": numbered("class AN : AM { void m() { m(); } };\n"),
    "constructors": repeated("A::A() : x(1) { A a; }\n"),
    "statements": lambda size: "void f() {\n" + "  A x; x.g();\n" * (size // 14) + "}\n",
    "nested namespaces": repeated("namespace a {\n"),
    "nested classes": lambda size: "class A {\n" * (size // 13) + "};\n" * (size // 13),
    "members": lambda size: "struct S {\n" + "  T x;\n" * (size // 7) + "};\n",
    "usings": repeated("using namespace a;\n"),
    "typedefs": repeated("typedef int T;\n"),
    "includes": repeated('#include "a.h"\n'),
    "macro definitions": repeated("#define X 1\n"),
}


def change_to(text: str, *hunks: Hunk, before: str | None = None) -> FileChange:
    """A change of one file to this text; all of it is new where there is no text before."""
    return FileChange(
        kind="added" if before is None else "modified",
        repository="sample",
        licence="MIT",
        commit="0" * 40,
        timestamp=1_600_000_000,
        subject="Repeat it",
        path="src/a.cc",
        old_path="src/a.cc",
        language="cpp",
        before=None if before is None else Blob(blob_id="b" * 40, text=before),
        after=Blob(blob_id="a" * 40, text=text),
        hunks=hunks or whole_text_hunks(text, added=True),
        lineage="sample:src/a.cc",
        before_is_new=True,
    )


def edited(text: str) -> FileChange:
    """A change of every tenth line."""
    lines = text.split("\n")
    places = range(0, len(lines) - 1, 10)
    before = "\n".join(
        f"/* before */ {line}" if number % 10 == 0 else line
        for number, line in enumerate(lines[:-1])
    )
    hunks = [Hunk(before_start=at, before_lines=1, after_start=at, after_lines=1) for at in places]
    return change_to(text, *hunks, before=before + "\n")


def commit_of(change: FileChange) -> CommitChange:
    assert change.after is not None
    file = TreeFile(path=change.path, language="cpp", blob=change.after, lineage=change.lineage)
    return CommitChange(
        repository=change.repository,
        licence=change.licence,
        commit=change.commit,
        timestamp=change.timestamp,
        subject=change.subject,
        changes=(change,),
        tree=TreeDelta(removed=(), files=(file,)),
    )


def of_graph(change: FileChange) -> None:
    commit = commit_of(change)
    graph = CallGraph()
    graph.apply(commit.tree)
    for document in documents(commit, graph, family=CONTEXT_FAMILY).documents:
        enrich(document)


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.parse(train_tokenizer(["int x;\n"] * 50, vocab_size=280).decode())


def of_rows(text: str) -> None:
    """Tokens, fitting and every objective of the document of a change."""
    (document,) = render(edited(text), ("v3_doxygen",)).documents
    data = document.text.encode()
    parts = [tokenizer().encode(data[each.start : each.end].decode()) for each in document.parts]
    borders = np.array([0, *(each.end for each in document.parts)], dtype=np.int32)
    spans = Spans(
        kinds=np.array([SPAN_KINDS.index(each.kind) for each in document.spans], dtype=np.int32),
        starts=np.array([each.start for each in document.spans], dtype=np.int32),
        ends=np.array([each.end for each in document.spans], dtype=np.int32),
    )
    kinds = [PART_KINDS.index(each.kind) for each in document.parts]
    tokenized = TokenizedDocument(
        row=0,
        document_id=document.document_id,
        flat_id=document.document_id,
        language="cpp",
        ids=np.concatenate(([tokenizer().bos_id], *parts, [tokenizer().eos_id])),
        part_bytes=borders,
        part_tokens=np.cumsum([0, *map(len, parts)], dtype=np.int32),
        part_kinds=np.array(kinds, dtype=np.int32),
        ranks=np.array([each.rank for each in document.parts], dtype=np.int32),
        elidable=np.array([each.elidable for each in document.parts]),
        spans=spans,
        generated=np.zeros(len(parts), dtype=np.bool_),
        other_side=np.zeros(len(parts), dtype=np.bool_),
        refused=np.zeros(len(parts), dtype=np.bool_),
    )
    fitter = Fitter.from_tokenizer(tokenizer(), row_length=65_536, policy="divide")
    known = objectives.DocumentFacts(
        flat_id=document.document_id,
        spans=spans,
        part_bytes=borders,
        part_kinds=tokenized.part_kinds,
        room=65_536,
    )
    for encoding in fitter.fit(tokenized).encodings:
        for name in ("causal", "fim", "doc_to_code", "code_to_doc"):
            objective_of(name, tokenizer(), variant=0).apply(encoding, known)
        in_repeats(encoding.ids)


def of_history(text: str) -> None:
    """Both versions of a file, read from a repository that git makes."""
    change = edited(text)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repo"
        root.mkdir()
        git(root, "init", "--quiet", "--template=")
        for version in (change.before, change.after):
            assert version is not None
            (root / "a.cc").write_text(version.text)
            git(root, "add", "--all")
            git(root, "commit", "--quiet", "-m", "Change")
        spec = RepositorySpec(name="repo", path=str(root))
        corpus = CorpusSpec(name="corpus", repositories=(spec,))
        source = resolve(spec, cache=Path(folder))
        for _ in read_changes(source, spec, corpus, Skips()):
            pass


def git(root: Path, *arguments: str) -> None:
    user = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *user, *arguments], cwd=root, check=True, capture_output=True)


STAGES: Mapping[str, Callable[[str], object]] = {
    "reading": lambda text: decode("id", text.encode(), QualitySpec()),
    "facts": lambda text: facts_of(text, "cpp"),
    "files": lambda text: render(edited(text), families_of("changes")),
    "structure": lambda text: [
        enrich(document)
        for document in render(change_to(text), families_of("changes")[:1]).documents
    ],
    "added to a graph": lambda text: of_graph(change_to(text)),
    "changed in a graph": lambda text: of_graph(edited(text)),
    "history": of_history,
    "rows": of_rows,
    "tokens": lambda text: tokenizer().encode(text),
}


def cpu_seconds(stage: Callable[[str], object], text: str) -> float:
    for kept in (parse, facts_of, outline):
        kept.cache_clear()
    begin = _used()
    if reason_against(text.encode(), QualitySpec()) is None:
        stage(text)
    return _used() - begin


def _used() -> float:
    """CPU seconds of this process and of those that it started."""
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def growth(stage: Callable[[str], object], run: Callable[[int], str]) -> float:
    """CPU(4n) / CPU(n) of the least n that takes long enough; 0 where no file that a corpus takes does."""
    stage(run(1_000))
    for shift in range(5, -1, -1):
        size = LARGEST // 4 >> shift
        seconds = cpu_seconds(stage, run(size))
        if seconds >= MIN_SECONDS:
            return cpu_seconds(stage, run(4 * size)) / seconds
    return 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "run"),
    [(stage, run) for stage in STAGES for run in RUNS],
)
def test_time_grows_with_the_size_of_a_file_and_not_faster(stage: str, run: str) -> None:
    assert growth(STAGES[stage], RUNS[run]) <= MOST
