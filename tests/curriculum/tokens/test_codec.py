import doctest
import json
import pickle
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from curriculum.tokens import codec, encoding
from curriculum.tokens.adversarial import adversarial_texts
from curriculum.tokens.codec import NAMES, Roles, Tokenizer
from curriculum.tokens.encoding import byte_ranges
from schemas.errors import TokenizerError
from tests.error_fields import fields

LETTERS = st.characters(exclude_categories=["Cs"])
PIECES = st.sampled_from(
    ["  ", "\n", "\r\n", "\t", "//", "a", "é", "123", "<|bos|>", "<|", "👍", "\u0301"]
)
STRINGS = st.lists(st.one_of(PIECES, LETTERS), max_size=40).map("".join)


@pytest.mark.parametrize("module", [encoding, codec])
def test_examples_in_docstrings_hold(module: Any) -> None:
    done = doctest.testmod(module)
    assert done.attempted
    assert not done.failed


def test_a_trained_tokenizer_has_every_role_and_frames_documents(trained: Tokenizer) -> None:
    assert set(trained.ids_of) == set(NAMES)
    assert (trained.bos_id, trained.eos_id, trained.pad_id) == (0, 1, 2)
    assert trained.document_tokens == "bos_eos"
    assert trained.special.sum() == len(NAMES)
    assert not trained.token_bytes[trained.special].any()
    assert trained.token_bytes[~trained.special].all()


@pytest.mark.parametrize("control", [names[0] for names in NAMES.values()])
def test_text_of_a_control_token_is_plain_bytes(trained: Tokenizer, control: str) -> None:
    for text in (
        control,
        f"x{control}y",
        f" {control}\n",
        "int x;\n" * 5000 + control * 2 + "a" * 5000,
    ):
        ids = trained.encode(text)
        assert not trained.special[ids].any()
        assert trained.decode_bytes(ids.tolist()) == text.encode()


@pytest.mark.parametrize(
    "control", ["<|endoftext|>", "<|im_start|>", "<|fim_prefix|>", "<tool_call>"]
)
def test_foreign_added_tokens_never_come_from_text_flagged_special_or_not(
    without_bos: Tokenizer, control: str
) -> None:
    text = f"a{control} {control}{control}\n" * 50
    ids = without_bos.encode(text)
    assert ids.max() < 256
    assert without_bos.decode_bytes(ids.tolist()) == text.encode()


def test_added_runs_of_spaces_stay_text(foreign_tokenizer: Any) -> None:
    tokenizer = Tokenizer.parse(foreign_tokenizer(("    ", 256, False), ("<|eos|>", 257, True)))
    assert tokenizer.encode("a    b").tolist() == [97, 256, 98]
    assert tokenizer.token_bytes[[256, 257]].tolist() == [4, 0]
    assert tokenizer.decode_bytes([97, 256, 98]) == b"a    b"


def test_runs_of_spaces_behind_control_tokens_keep_their_ids(foreign_tokenizer: Any) -> None:
    tokenizer = Tokenizer.parse(foreign_tokenizer(("<|eos|>", 256, True), ("    ", 257, False)))
    assert tokenizer.encode("a    b").tolist() == [97, 257, 98]
    assert tokenizer.decode_bytes([97, 257, 98]) == b"a    b"


@pytest.mark.parametrize(
    ("added", "wrong", "given"),
    [
        ((("<|eos|>", 260, True),), 260, 256),
        ((("    ", 260, False),), 260, 256),
        ((("<|eos|>", 256, True), ("    ", 258, False)), 258, 257),
        ((("    ", 257, False), ("<|eos|>", 256, True)), 257, 256),
    ],
)
def test_an_added_token_with_another_id_than_tokenizers_gives_it_is_refused_for_that(
    foreign_tokenizer: Any, added: tuple[tuple[str, int, bool], ...], wrong: int, given: int
) -> None:
    text = foreign_tokenizer(*added)
    engine = tokenizers.Tokenizer.from_str(text)
    assert given in [engine.token_to_id(content) for content, _, _ in added]
    with pytest.raises(TokenizerError) as refused:
        Tokenizer.parse(text)
    assert str(refused.value.value).endswith(f"has id {wrong}")
    assert f" id {given}" in refused.value.cause


def test_a_tokenizer_without_bos_pads_with_eos(without_bos: Tokenizer) -> None:
    assert (without_bos.bos_id, without_bos.eos_id, without_bos.pad_id) == (None, 256, 256)
    assert without_bos.document_tokens == "eos"
    assert without_bos.vocab_size == 260
    assert without_bos.ids_of["fim_prefix"] == 258


def test_a_tokenizer_without_control_tokens_pads_with_0(foreign_tokenizer: Any) -> None:
    tokenizer = Tokenizer.parse(foreign_tokenizer())
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (None, None, 0)
    assert tokenizer.document_tokens == "none"


def test_explicit_roles_win(foreign_tokenizer: Any) -> None:
    text = foreign_tokenizer(
        ("<|endoftext|>", 256, True), ("<|begin|>", 257, True), ("<|fill|>", 258, True)
    )
    tokenizer = Tokenizer.parse(text, Roles(bos="<|begin|>", pad="<|fill|>"))
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (257, 256, 258)
    only_eos = Tokenizer.parse(text, Roles(bos="<|begin|>", document_tokens="eos"))
    assert (only_eos.bos_id, only_eos.eos_id) == (None, 256)


def test_a_role_that_is_no_added_token_is_an_error_that_lists_them(foreign_tokenizer: Any) -> None:
    with pytest.raises(TokenizerError, match=r"<\|eos\|>", check=fields(value="bos = '<s>'")):
        Tokenizer.parse(foreign_tokenizer(("<|eos|>", 256, True)), Roles(bos="<s>"))


def test_bos_that_is_eos_must_be_pad_or_is_refused(foreign_tokenizer: Any) -> None:
    one = foreign_tokenizer(("<s>", 256, True), ("<pad>", 257, True))
    with pytest.raises(TokenizerError, match="same token"):
        Tokenizer.parse(one, Roles(eos="<s>"))
    assert Tokenizer.parse(one, Roles(eos="<s>", document_tokens="bos")).eos_id is None
    assert Tokenizer.parse(one, Roles(eos="<s>", pad="<s>")).bos_id == 256


PREFIX = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
BYTES = {**PREFIX, "add_prefix_space": False}
SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"normalizer": {"type": "Lowercase"}}, r"'A' comes back as 'a'; its normalizer \(Lowercase"),
        ({"normalizer": {"type": "NFC"}}, r"u0301.* comes back as .*normalizer \(NFC"),
        ({"pre_tokenizer": PREFIX}, "comes back as ' .*puts a space in front"),
        ({"pre_tokenizer": None}, "comes back as .*isn't byte-level"),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, BYTES]}}, "' ' comes back as ''"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_loses_bytes_is_refused_by_what_it_lost(
    foreign_tokenizer: Any, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(TokenizerError, match=said):
        Tokenizer.parse(foreign_tokenizer(**changes))


def test_a_vocabulary_without_every_byte_is_refused(foreign_tokenizer: Any) -> None:
    content = json.loads(foreign_tokenizer())
    del content["model"]["vocab"]["a"]
    with pytest.raises(TokenizerError, match="every byte"):
        Tokenizer.parse(json.dumps(content))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": {"type": "Unigram"}}', '{"model": 3}'])
def test_what_is_no_byte_pair_tokenizer_is_refused(text: str) -> None:
    with pytest.raises(TokenizerError):
        Tokenizer.parse(text)


def test_dropout_is_refused(foreign_tokenizer: Any) -> None:
    content = json.loads(foreign_tokenizer())
    content["model"]["dropout"] = 0.1
    with pytest.raises(TokenizerError, match=r"dropout 0\.1"):
        Tokenizer.parse(json.dumps(content))


def test_a_file_that_is_not_there_is_an_error_of_the_user(tmp_path: Any) -> None:
    with pytest.raises(TokenizerError, check=fields(name=tmp_path / "tokenizer.json")):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_an_engine_that_differs_is_not_used_and_the_reason_is_told(
    trained: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(bare: str) -> codec.Encode:
        right = codec._reference_engine(bare)

        def encode(texts: list[str]) -> tuple[codec.Ids, codec.Offsets]:
            ids, offsets = right(texts)
            return np.where(ids == trained.encode("Z")[0], ids + 1, ids), offsets

        return encode

    monkeypatch.setattr(codec, "_fast_engine", wrong)
    fallen = Tokenizer.parse(trained.json)
    assert fallen.engine == "tokenizers"
    assert "differs on" in fallen.engine_reason
    assert np.array_equal(fallen.encode("Z a"), trained.encode("Z a"))


def test_fastokens_is_the_engine(trained: Tokenizer, without_bos: Tokenizer) -> None:
    assert (trained.engine, trained.engine_reason) == ("fastokens", "")
    assert without_bos.engine == "fastokens"


@pytest.fixture(scope="module")
def reference(trained: Tokenizer) -> tokenizers.Tokenizer:
    model = tokenizers.Tokenizer.from_str(trained.json)
    model.encode_special_tokens = True
    return model


@given(st.lists(STRINGS, max_size=4))
def test_ids_equal_those_of_hugging_face_and_keep_every_byte(
    trained: Tokenizer, reference: tokenizers.Tokenizer, texts: list[str]
) -> None:
    ids, offsets = trained.encode_batch(texts)
    assert (ids.dtype.name, offsets.dtype.name) == ("int32", "int64")
    for index, text in enumerate(texts):
        own = ids[offsets[index] : offsets[index + 1]].tolist()
        assert own == reference.encode(text, add_special_tokens=False).ids
        assert trained.decode_bytes(own) == text.encode()
        assert trained.token_bytes[own].sum() == len(text.encode())


def test_adversarial_texts_hold_every_byte_that_utf8_can_hold() -> None:
    held = set("".join(adversarial_texts(["<|x|>"])).encode())
    assert held == set(range(256)) - {0xC0, 0xC1, *range(0xF5, 0x100)}


def test_every_line_starts_at_a_token_border(trained: Tokenizer, texts: list[str]) -> None:
    text = "\n".join(texts) + "\r\n\n  \n\tx\n    y;\n"
    ids = trained.encode(text)
    ends = np.cumsum(trained.token_bytes[ids])[trained.ends_line[ids]].tolist()
    lines = {index + 1 for index, byte in enumerate(text.encode()) if byte == 10}
    joined = {end for end in lines if text.encode()[end : end + 1] in (b"\n", b"\r", b" ")}
    assert set(ends) <= lines
    assert lines - set(ends) <= joined
    assert len(ends) > 20


def test_leading_space_ends_at_the_first_byte_that_is_none(trained: Tokenizer) -> None:
    seen = {"some": 0, "none": 0, "all": 0}
    for token, space in enumerate(trained.leading_space.tolist()):
        text = trained.decode_bytes([token])
        if not text.strip():
            assert space == 0
            seen["all"] += len(text) > 0
        else:
            assert not text[:space].strip()
            assert text[space : space + 1].strip()
            seen["some" if space else "none"] += 1
    assert min(seen.values()) > 5


def test_decode_shows_control_tokens_and_decode_bytes_does_not(trained: Tokenizer) -> None:
    ids = [trained.bos_id or 0, *trained.encode("int é").tolist(), trained.eos_id or 0]
    assert trained.decode(ids) == "<|bos|>int é<|eos|>"
    assert trained.decode_bytes(ids) == "int é".encode()


def test_a_tokenizer_survives_a_process_border(without_bos: Tokenizer) -> None:
    other = pickle.loads(pickle.dumps(without_bos))
    assert other.sha256 == without_bos.sha256
    assert other.ids_of == without_bos.ids_of
    assert np.array_equal(other.encode("a b"), without_bos.encode("a b"))


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), min_size=1, max_size=6), st.data())
def test_byte_ranges_tile_each_text_piece(
    runs: list[tuple[bool, int]], data: st.DataObject
) -> None:
    token_bytes = np.array([1, 2, 3], dtype=np.int32)
    pieces, expected = [], []
    ids: list[int] = []
    at, byte = 0, data.draw(st.integers(0, 100))
    for generated, count in runs:
        own = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        size = 0 if generated else int(token_bytes[own].sum())
        pieces.append((int(generated), at, at + count, byte, byte + size))
        for token in own:
            step = 0 if generated else int(token_bytes[token])
            expected.append((byte, byte + step))
            byte += step
        at, ids = at + count, ids + own
        byte += data.draw(st.integers(0, 9))
    start, end = byte_ranges(np.array(ids), np.array(pieces, dtype=np.int32), token_bytes)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == expected
