"""The type of ids in a bare .bin file is inferred only where one type fits; else it must be given."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curriculum.interop.token_files import open_tokens
from curriculum.store import Store
from curriculum.tokens.codec import Roles, Tokenizer
from tests.curriculum.tokens.templates import tokenizer_json
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.usefixtures("read_in_this_process")
TEXT = [*range(65, 91)]
DTYPES = ("uint16", "int32", "uint32", "int64")


def bare(folder: Path, ids: list[int], dtype: str, controls: tuple[str, ...]) -> Path:
    """Ids end to end in one file, with a tokenizer beside it and nothing that says how wide they are."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer_json(controls))
    np.array(ids).astype(dtype).tofile(folder / "train.bin")
    return folder / "train.bin"


def take(home: Path, file: Path, *words: str) -> Any:
    given = ("--format", "flat", "--family", "mine", "--row-length", "128")
    return curriculum("import", str(file), *given, *words, home=home)


def tokens_of(home: Path) -> list[int]:
    """The valid tokens of the only rows in a workspace."""
    (rows,) = Store(home).artefacts("rows")
    lines = pq.read_table(rows.shards(), partitioning=None).to_pylist()
    return sorted(
        token for line in lines for token in line["input_ids"][: line["valid_token_count"]]
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_ids_of_any_width_are_read_as_they_were_written_where_frames_make_it_certain(
    tmp_path: Path, dtype: str
) -> None:
    bos, eos = 256, 257
    ids = [bos, *TEXT, eos, bos, *TEXT[:9], eos]
    file = bare(tmp_path / "data", ids, dtype, ("<s>", "</s>", "<pad>"))
    done = take(tmp_path / "home", file)
    assert done.returncode == 0, done.stderr
    assert tokens_of(tmp_path / "home") == sorted(ids)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_a_width_that_is_not_certain_is_refused_until_it_is_said(
    tmp_path: Path, dtype: str
) -> None:
    """With BOS alone, 14 tokens are 28 of half the width as well, every second one of them 0."""
    ids = [256, *TEXT[:6], 256, *TEXT[:6]]
    file = bare(tmp_path / "data", ids, dtype, ("<s>", "<pad>"))
    home = tmp_path / "home"
    refused = take(home, file)
    assert refused.returncode == 2
    assert "28 ids of" in refused.stderr
    assert "14 ids of" in refused.stderr
    assert "Say --dtype" in refused.stderr
    assert not list(Store(home).artefacts("rows"))
    done = take(home, file, "--dtype", dtype)
    assert done.returncode == 0, done.stderr
    assert tokens_of(home) == sorted(ids)


def test_ends_of_documents_alone_do_not_make_a_width_certain(tmp_path: Path) -> None:
    ids = [*TEXT, 256, *TEXT[:5], 256]
    file = bare(tmp_path / "data", ids, "uint32", ("<|endoftext|>",))
    refused = take(tmp_path / "home", file, "--boundaries", "eos")
    assert refused.returncode == 2
    assert "66 ids of uint16 in 3 documents" in refused.stderr
    assert "33 ids of uint32 in 2 documents" in refused.stderr


def test_a_vocabulary_that_two_bytes_do_not_hold_has_wider_ids(tmp_path: Path) -> None:
    """Only the first 65,536 of 70,000 ids fit into two bytes, so all ids are wider."""
    ids = [256, *TEXT[:6], 256, *TEXT[:6]]
    file = bare(tmp_path / "data", ids, "uint32", ("<s>", "<pad>"))
    tokenizer = file.with_name("tokenizer.json")
    content = json.loads(tokenizer.read_text())
    texts = ("<s>", "<pad>", *(f"<t{number}>" for number in range(70_000)))
    content["model"]["vocab"].update({text: 256 + at for at, text in enumerate(texts)})
    tokenizer.write_text(json.dumps(content))
    codec = Tokenizer.load(tokenizer, Roles(document_tokens="bos"))
    assert codec.vocab_size > 70_000
    tokens = open_tokens(file, "flat", codec)
    assert tokens.ids.tolist() == ids
    assert tokens.edges.tolist() == [0, 7, 14]


def test_narrow_ids_are_not_read_as_wide_ones(tmp_path: Path) -> None:
    ids = [*TEXT, 256, *TEXT[:4], 256]
    file = bare(tmp_path / "data", ids, "uint16", ("<|endoftext|>",))
    done = take(tmp_path / "home", file, "--boundaries", "eos")
    assert done.returncode == 0, done.stderr
    assert tokens_of(tmp_path / "home") == sorted(ids)


def test_a_type_that_is_said_and_wrong_is_refused_by_what_it_reads(tmp_path: Path) -> None:
    ids = [256, *TEXT, 257]
    file = bare(tmp_path / "data", ids, "uint16", ("<s>", "</s>"))
    wide = take(tmp_path / "home", file, "--dtype", "uint32")
    assert wide.returncode == 2
    assert "ids 0 to 257" in wide.stderr
    narrow = bare(tmp_path / "wide", ids, "uint32", ("<s>", "</s>"))
    refused = take(tmp_path / "home", narrow, "--dtype", "uint16")
    assert refused.returncode == 2
    assert "halves" in refused.stderr


@pytest.mark.parametrize("dtype", ["uint32", "int64"])
def test_a_type_that_is_said_and_reads_halves_of_ids_is_refused(tmp_path: Path, dtype: str) -> None:
    """BOS is 0 and EOS 1, so that halves of ids are framed as documents are."""
    content = json.loads(tokenizer_json(("<s>", "</s>")))
    for token in content["added_tokens"]:
        token["id"] -= 256
    shifted = {text: at + 2 for text, at in content["model"]["vocab"].items()}
    content["model"]["vocab"] = {"<s>": 0, "</s>": 1, **shifted}
    file = bare(tmp_path / "data", [0, *TEXT, 1, 0, *TEXT[:9], 1], dtype, ())
    file.with_name("tokenizer.json").write_text(json.dumps(content))
    done = take(tmp_path / "home", file, "--dtype", "uint16")
    assert done.returncode == 2
    assert "halves" in done.stderr


def test_offsets_make_each_width_certain_and_a_wrong_type_is_refused(tmp_path: Path) -> None:
    ids = [256, *TEXT[:6], 256, *TEXT[:6]]
    for dtype in DTYPES:
        file = bare(tmp_path / dtype, ids, dtype, ("<s>", "<pad>"))
        np.array([0, 7, 14]).astype("<i8").tofile(file.with_name("train.offsets.bin"))
        home = tmp_path / f"home-{dtype}"
        done = take(home, file)
        assert done.returncode == 0, done.stderr
        assert tokens_of(home) == sorted(ids)
        wrong = "uint16" if dtype != "uint16" else "int64"
        assert take(home, file, "--dtype", wrong).returncode == 2


def test_a_type_is_refused_where_the_data_says_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    file = bare(tmp_path / "data", [256, 65], "uint16", ("<s>", "<pad>"))
    for form in ("parquet", "megatron"):
        done = take(home, file, "--format", form, "--dtype", "uint16")
        assert done.returncode == 2
        assert "--dtype" in done.stderr
    unknown = take(home, file, "--dtype", "uint64")
    assert unknown.returncode == 2
    assert "--dtype: uint64" in unknown.stderr
