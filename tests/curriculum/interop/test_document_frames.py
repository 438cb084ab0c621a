"""--document-tokens is compared with BOS and EOS in the data; a mismatch is refused with counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop.tokens_out import write_index
from curriculum.store import Store
from tests.curriculum.tokens.templates import tokenizer_json
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.usefixtures("read_in_this_process")
BOS, EOS, PAD = 256, 257, 258
LENGTHS = (20, 30, 10, 40)
FRAMES: dict[str, tuple[list[int], list[int]]] = {
    "bos_eos": ([BOS], [EOS]),
    "bos": ([BOS], []),
    "eos": ([], [EOS]),
    "none": ([], []),
}


def documents(frame: str, lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    """Documents of letters, each framed alike."""
    first, last = FRAMES[frame]
    return [[*first, *[60] * length, *last] for length in lengths]


def write_tokens(folder: Path, texts: list[list[int]], form: str) -> Path:
    """Documents as a flat file with offsets, a Megatron file or one packed row, and their tokenizer."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer_json(("<s>", "</s>", "<pad>")))
    ids = np.concatenate(texts).astype(np.int32)
    edges = np.cumsum([0, *map(len, texts)])
    if form == "parquet":
        mask = np.ones(len(ids), dtype=np.uint8)
        mask[edges[1:] - 1] = 0
        padding = 128 - len(ids)
        columns = {
            "input_ids": pa.array([[*ids.tolist(), *[PAD] * padding]]),
            "loss_mask": pa.array([[*mask.tolist(), *[0] * padding]]),
            "doc_starts": pa.array([edges[:-1].tolist()]),
            "valid_token_count": pa.array([len(ids)], pa.int32()),
        }
        pq.write_table(pa.table(columns), folder / "rows.parquet")
        return folder / "rows.parquet"
    ids.tofile(folder / "tokens.bin")
    if form == "megatron":
        write_index(folder / "tokens.idx", edges, "int32")
    else:
        edges.astype("<i8").tofile(folder / "offsets.bin")
    return folder


def take(home: Path, path: Path, form: str, claim: str | None, *more: str) -> Any:
    length = () if form == "parquet" else ("--row-length", "128")
    said = ("--document-tokens", claim) if claim else ()
    words = ("import", str(path), "--format", form, "--family", "mine", *length, *said, *more)
    return curriculum(*words, home=home)


@pytest.mark.parametrize(
    ("frame", "form"),
    [("none", "flat"), ("bos", "parquet"), ("eos", "flat"), ("bos_eos", "parquet")],
)
def test_only_the_claim_that_the_data_bears_out_is_taken(
    tmp_path: Path, frame: str, form: str
) -> None:
    path = write_tokens(tmp_path / "data", documents(frame), form)
    for claim in FRAMES:
        done = take(tmp_path / "home", path, form, claim)
        assert done.returncode == (0 if claim == frame else 2), (claim, done.stdout, done.stderr)
        if claim != frame:
            wrong_bos = ("bos" in claim) != ("bos" in frame)
            held = frame.startswith("bos") if wrong_bos else frame.endswith("eos")
            assert f"{4 if held else 0} of 4 documents" in done.stderr
            assert f"--document-tokens {frame}" in done.stderr
    assert len(list(Store(tmp_path / "home").artefacts("rows"))) == 1


@pytest.mark.parametrize("form", ["megatron", "parquet"])
@pytest.mark.parametrize("claim", FRAMES)
def test_documents_that_begin_with_two_bos_are_refused_whatever_is_claimed(
    tmp_path: Path, form: str, claim: str
) -> None:
    texts = [[BOS, *text] for text in documents("bos_eos")]
    done = take(tmp_path / "home", write_tokens(tmp_path / "data", texts, form), form, claim)
    assert done.returncode == 2
    assert "BOS of 4 documents" in done.stderr
    assert not list(Store(tmp_path / "home").artefacts("rows"))


@pytest.mark.parametrize("claim", FRAMES)
def test_an_eos_that_begins_documents_is_refused_whatever_is_claimed(
    tmp_path: Path, claim: str
) -> None:
    texts = [[EOS, *text] for text in documents("none")]
    path = write_tokens(tmp_path / "data", texts, "flat")
    done = take(tmp_path / "home", path, "flat", claim)
    assert done.returncode == 2
    assert f"EOS {EOS} begins 4 of 4 documents" in done.stderr


@pytest.mark.parametrize("claim", FRAMES)
def test_padding_at_the_ends_of_documents_is_refused_whatever_is_claimed(
    tmp_path: Path, claim: str
) -> None:
    texts = [[*text, PAD, PAD] for text in documents("bos_eos")]
    path = write_tokens(tmp_path / "data", texts, "megatron")
    done = take(tmp_path / "home", path, "megatron", claim)
    assert done.returncode == 2
    assert f"padding {PAD} ends 4 of 4 documents" in done.stderr
    assert not list(Store(tmp_path / "home").artefacts("rows"))


@pytest.mark.parametrize("form", ["flat", "megatron", "parquet"])
@pytest.mark.parametrize("claim", FRAMES)
def test_two_eos_at_the_ends_of_documents_are_refused_whatever_is_claimed(
    tmp_path: Path, form: str, claim: str
) -> None:
    texts = documents("bos_eos")
    texts[2] = [*texts[2], EOS]
    done = take(tmp_path / "home", write_tokens(tmp_path / "data", texts, form), form, claim)
    assert done.returncode == 2
    assert f"two EOS {EOS} end 1 of 4 documents" in done.stderr
    assert not list(Store(tmp_path / "home").artefacts("rows"))


def test_a_document_of_nothing_but_its_eos_has_no_second_one(tmp_path: Path) -> None:
    texts = [*documents("eos"), [EOS]]
    path = write_tokens(tmp_path / "data", texts, "flat")
    assert take(tmp_path / "home", path, "flat", "eos").returncode == 0


def test_documents_that_were_cut_may_lack_an_eos_and_are_counted(tmp_path: Path) -> None:
    texts = documents("eos")
    texts[1] = texts[1][:-1]
    path = write_tokens(tmp_path / "data", texts, "flat")
    done = take(tmp_path / "home", path, "flat", "eos")
    assert done.returncode == 0, done.stderr
    assert "EOS: 1" in done.stdout


def test_a_bos_that_leads_some_documents_is_refused_with_and_without_the_claim(
    tmp_path: Path,
) -> None:
    texts = [*documents("bos_eos"), *documents("eos")]
    path = write_tokens(tmp_path / "data", texts, "flat")
    for claim in ("bos_eos", "eos"):
        done = take(tmp_path / "home", path, "flat", claim)
        assert done.returncode == 2
        assert f"BOS {BOS} begins 4 of 8 documents" in done.stderr


def test_tokens_without_an_eos_have_no_boundaries_that_an_eos_gives(tmp_path: Path) -> None:
    path = write_tokens(tmp_path / "data", documents("none"), "flat")
    (path / "offsets.bin").unlink()
    words = ("--boundaries", "eos", "--dtype", "int32")
    done = take(tmp_path / "home", path, "flat", "eos", *words)
    assert done.returncode == 2
    assert f"EOS {EOS} ends 0 of 1 documents" in done.stderr


def test_a_claim_is_also_compared_for_a_tokenizer_of_the_workspace(tmp_path: Path) -> None:
    """Its key brings its document tokens along, and what is said beside it counts."""
    home = tmp_path / "home"
    path = write_tokens(tmp_path / "data", documents("bos_eos"), "flat")
    assert take(home, path, "flat", None).returncode == 0
    (tokenizer,) = Store(home).artefacts("tokenizers")
    (path / "tokenizer.json").unlink()
    key = ("--tokenizer", tokenizer.key[:12])
    assert take(home, path, "flat", None, *key).returncode == 0
    refused = take(home, path, "flat", "eos", *key)
    assert refused.returncode == 2
    assert "--document-tokens eos" in refused.stderr
    assert "BOS" in refused.stderr
