"""Small files of a workspace are read up to a bound: a sparse one takes no memory."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.catalog.cache import Cache, LastGroups
from curriculum.catalog.tables import closed_gates, open_tables
from curriculum.corpus.conversations import find_conversations
from curriculum.corpus.sources import resolve
from curriculum.packing.held_out_order import ORDER_NAME, read_order
from curriculum.published_files import footer_of
from curriculum.sandboxed_process import stored_bytes, usual_seconds
from curriculum.store import inside, read_mark
from schemas.corpus import ConversationsSpec, RepositorySpec
from schemas.errors import CorpusError, StoreError
from schemas.job import Heartbeat
from tests.bounded import bounded

NUM_BYTES = 256 << 20
GROUP = "0123456789ab"
RUN = "runs/specialist-a/phase-b/attempt=1"


def _refused(read: Callable[[Path], object]) -> Callable[[Path], bool]:
    def is_refused(file: Path) -> bool:
        with pytest.raises(StoreError) as refused:
            read(file)
        return refused.value.name == str(file)

    return is_refused


READERS: dict[str, Callable[[Path], bool]] = {
    "current/x.txt": _refused(read_mark),
    "catalog/last.json": lambda file: Cache(home=file.parents[1]).last() == LastGroups(),
    f"catalog/{GROUP}/identities.json": lambda file: (
        not Cache(home=file.parents[2]).holds(GROUP, ["runs"])
    ),
    "gates/x.json": lambda file: (
        [path for path, _ in closed_gates(file.parents[1]).problems] == ["gates/x.json"]
    ),
    f"{RUN}/job.json": lambda file: (
        [path for path, _ in open_tables(file.parents[4], [RUN]).problems] == [RUN]
    ),
    f"{RUN}/heartbeat.json": lambda file: inside.read(Heartbeat, file) is None,
    f"rows/{GROUP}/{ORDER_NAME}": _refused(lambda file: read_order(file.parent)),
}
"""Files by path, with True if they are refused as unreadable."""


@pytest.mark.parametrize("name", READERS)
def test_a_sparse_file_is_refused_within_memory(tmp_path: Path, name: str) -> None:
    file = _sparse(tmp_path / name)
    with bounded(seconds=2, mebibytes=16):
        assert READERS[name](file)
    with pytest.raises(AssertionError), bounded(seconds=20, mebibytes=16):
        file.read_bytes()


def test_sources_of_holes_that_claim_terabytes_are_refused_at_once(tmp_path: Path) -> None:
    for name in ("a.bundle", "a.jsonl"):
        with (tmp_path / name).open("wb") as opened:
            opened.write(b"# v2 git bundle\n")
            opened.truncate(15 << 40)
    bundle = RepositorySpec(name="a", path=str(tmp_path / "a.bundle"), licence="MIT")
    spoken = ConversationsSpec(name="b", path=str(tmp_path / "a.jsonl"), licence="MIT")
    with bounded(seconds=2, mebibytes=16):
        with pytest.raises(CorpusError):
            resolve(bundle, cache=tmp_path / "cache")
        with pytest.raises(CorpusError):
            find_conversations(spoken)


def test_the_holes_of_a_file_raise_no_limit_of_its_reader(tmp_path: Path) -> None:
    full, sparse = tmp_path / "full", _sparse(tmp_path / "tokens.bin")
    full.write_bytes(b"a" * (1 << 20))
    os.truncate(sparse, 256 << 30)
    assert stored_bytes([full]) == 1 << 20
    assert usual_seconds(stored_bytes([full, sparse])) == usual_seconds(1 << 20)
    claimed = sum(file.stat().st_size for file in (full, sparse))
    assert usual_seconds(claimed) > 1000 * usual_seconds(1 << 20), "the size that the file claims"


def test_a_footer_is_hashed_in_parts(tmp_path: Path) -> None:
    file = _sparse(tmp_path / "a.parquet")
    with file.open("ab") as opened:
        opened.write((NUM_BYTES // 2).to_bytes(4, "little") + b"PAR1")
    with bounded(seconds=10, mebibytes=16):
        assert footer_of(file) is not None


def _sparse(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(NUM_BYTES)
    return file
