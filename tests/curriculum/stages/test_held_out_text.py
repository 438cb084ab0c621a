"""Text of held-out files in rows, by words that stand in one function of one file alone."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from tokenizers import Tokenizer as Encoder

from curriculum.corpus.select import SIDES_NAME
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build
from curriculum.store import Artefact, Store
from schemas.corpus import CorpusSpec, RepositorySpec

V4 = "v4_context_graph"
WANTED = (
    RowsSpec(family="v2_simple", row_length=512),
    RowsSpec(family=V4, objective="target", row_length=1024),
)


def function(name: str, calls: Sequence[str] = (), *, number: int) -> str:
    """A function with a word of its own, and lines that no other number has."""
    lines = [f"    sum += {number * 97 + at} * value % {at + 3 + number};" for at in range(8)]
    declared = "".join(f"int {call}(int value);\n" for call in calls)
    called = "".join(f"    sum += {call}(sum);\n" for call in calls)
    return (
        f'{declared}int {name}(int value) {{\n    const char* word = "mark{number:03}";\n'
        "    int sum = value + word[0];\n" + "\n".join(lines) + f"\n{called}    return sum;\n}}\n"
    )


def git(repository: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True)


def commit(repository: Path, **files: str) -> None:
    for name, text in files.items():
        (repository / f"{name}.cpp").write_text(text)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", f"Write {', '.join(files)}")


def built_of(home: Path, *repositories: RepositorySpec, val_fraction: float) -> Built:
    corpus = CorpusSpec(name="own", repositories=repositories, val_fraction=val_fraction)
    return build(
        Store(home),
        corpus,
        WANTED,
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=400),
        workers=Workers(processes=1),
    )


def split_by_lineage(built: Built) -> dict[str, str]:
    """The side of each file by the selection of files, by its lineage."""
    table = pq.read_table(built.selection.path / SIDES_NAME, partitioning=None)
    return {side["lineage"]: side["split"] for side in table.to_pylist()}


def marks(built: Built, rows: Artefact | None) -> set[int]:
    """The numbers of all functions whose word stands in rows."""
    assert rows is not None
    encoder = Encoder.from_file(str(built.tokenizer.path / "tokenizer.json"))
    table = pq.read_table(rows.shards(), columns=["input_ids"], partitioning=None)
    text = "".join(encoder.decode(row["input_ids"]) for row in table.to_pylist())
    return {int(word[:3]) for word in text.split("mark")[1:]}


def test_no_copy_of_a_held_out_file_is_trained_on_as_context(tmp_path: Path) -> None:
    """Copies that didn't change in the commits that are read have no document, and stand in contexts."""
    repository, numbers = tmp_path / "own", range(12)
    repository.mkdir()
    git(repository, "init", "--quiet")
    commit(repository, **{f"old{at}": function(f"old{at}", number=at) for at in numbers})
    for at in numbers:
        calls = [f"old{(at + step) % 12}" for step in (1, 5)]
        commit(repository, **{f"new{at}": function(f"new{at}", calls, number=at)})
    own = RepositorySpec(name="own", path=str(repository), max_commits=12)
    built = built_of(tmp_path / "home", own, val_fraction=0.3)

    side = split_by_lineage(built)
    assert {*side} == {f"own:new{at}.cpp" for at in numbers}
    held_out = {at for at in numbers if side[f"own:new{at}.cpp"] == "val"}
    assert 0 < len(held_out) < 12
    for rows in built.rows:
        assert marks(built, rows.train) == {*numbers} - held_out
    graphs = built.rows_of(WANTED[1])
    assert marks(built, graphs.val) > held_out, "context of both sides"


def test_a_file_that_every_repository_copies_is_on_one_side(tmp_path: Path) -> None:
    repositories = []
    for at in range(8):
        repository = tmp_path / f"own{at}"
        repository.mkdir()
        git(repository, "init", "--quiet")
        commit(
            repository,
            copied=function("copied", number=900).replace("return sum", f"return {at} + sum"),
        )
        commit(repository, own=function(f"own{at}", number=at))
        both = {"copied": "// Changed.\n" + function("copied", ["more"], number=900)}
        commit(repository, **both, more=function("more", number=at + 100))
        repositories.append(RepositorySpec(name=f"own{at}", path=str(repository)))
    built = built_of(tmp_path / "home", *repositories, val_fraction=0.2)

    side = split_by_lineage(built)
    (split,) = {side[f"own{at}:copied.cpp"] for at in range(8)}
    held_out = {at for at in range(8) if side[f"own{at}:own.cpp"] == "val"}
    assert held_out
    for rows in built.rows:
        assert (900 in marks(built, rows.train)) == (split == "train")
        assert (900 in marks(built, rows.val)) == (split == "val") or rows.wanted.family == V4
        assert marks(built, rows.train).isdisjoint(held_out)
