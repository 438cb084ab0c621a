"""Conversations in the format of others' chat templates: byte-exact contents, exact spans, one end learnt."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.encode import Counts, fitter_of
from curriculum.families import chat
from curriculum.objectives import objective_of
from curriculum.tokens.codec import Roles, Tokenizer
from curriculum.tokens.encoding import byte_ranges
from curriculum.tokens.turns import turn_format
from schemas.change import Role, Turn
from schemas.errors import TokenizerError
from schemas.packed_row import TEXT_PIECE
from tests.curriculum.objectives.test_chat_objective import (
    conversation_of,
    dict_of,
    document,
    objective_counts,
    scored_ids,
    tokenized_as,
)
from tests.curriculum.tokens.templates import (
    LLAMA3,
    MISTRAL,
    QWEN3,
    QWEN25,
    plainly,
    template_of,
    tokenizer_with,
)

SYSTEM: tuple[Role, str] = ("system", "Be brief.")
TALK: tuple[tuple[Role, str], ...] = (
    ("user", "What does <|im_end|> mean, or [/INST] or <|eot_id|></s>?"),
    ("assistant", "It is text:\n  <|im_start|>é;<|im_end|>"),
    ("user", "And then?"),
    ("assistant", "The end.</s>"),
)
NAMED = {"qwen2.5": QWEN25, "qwen3": QWEN3, "llama3": LLAMA3, "mistral": MISTRAL}
ENDS = {"qwen2.5": "<|im_end|>", "qwen3": "<|im_end|>", "llama3": "<|eot_id|>", "mistral": "</s>"}


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, Tokenizer]:
    return {name: tokenizer_with(text) for name, text in NAMED.items()}


def talk_of(name: str) -> tuple[tuple[Role, str], ...]:
    return TALK if name == "mistral" else (SYSTEM, *TALK)


@pytest.mark.parametrize("name", NAMED)
def test_a_conversation_reads_as_its_template_renders_it(
    tokenizers: dict[str, Tokenizer], kit: Any, name: str
) -> None:
    tokenizer = tokenizers[name]
    (encoding,) = objective_counts(document(*talk_of(name)), tokenizer, kit, 4096).encodings
    eos = tokenizer.decode([tokenizer.eos_id]) if tokenizer.eos_id is not None else ""
    rendered = plainly(NAMED[name], talk_of(name))
    # EOS ends a document; a template that ends with it has written it already.
    expected = rendered if rendered.endswith(eos) else rendered + eos
    assert tokenizer.decode(encoding.ids) == expected


@pytest.mark.parametrize("name", NAMED)
def test_special_tokens_are_those_of_the_template_and_never_those_that_contents_spell(
    tokenizers: dict[str, Tokenizer], kit: Any, name: str
) -> None:
    tokenizer, end = tokenizers[name], ENDS[name]
    talk = document(*talk_of(name))
    (encoding,) = objective_counts(talk, tokenizer, kit, 4096).encodings
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    assert not tokenizer.special[encoding.ids[ends > starts]].any()
    said = "".join(text for _, text in talk_of(name))
    assert tokenizer.decode_bytes(encoding.ids[ends > starts]) == said.encode()
    control = next(
        token for token in range(tokenizer.vocab_size)
        if tokenizer.special[token] and tokenizer.decode([token]) == end
    )  # fmt: skip
    turns = len(talk_of(name)) if name != "mistral" else 2
    # Qwen2.5's default turn isn't written where one is given.
    assert encoding.ids.tolist().count(control) == turns


@pytest.mark.parametrize("name", NAMED)
def test_what_the_assistant_says_and_the_token_that_ends_it_is_scored(
    tokenizers: dict[str, Tokenizer], kit: Any, name: str
) -> None:
    tokenizer = tokenizers[name]
    talk = document(*talk_of(name))
    done = objective_counts(talk, tokenizer, kit, 4096)
    (encoding,) = done.encodings
    answers = [text for role, text in TALK if role == "assistant"]
    assert tokenizer.decode(scored_ids(encoding)) == "".join(each + ENDS[name] for each in answers)
    counts = dict_of(done)
    assert counts["assistant_bytes"] == len("".join(answers).encode())
    assert done.elided_bytes == len(talk_of(name))
    assert counts["turns_by_template"] == len(talk_of(name))
    assert counts["turns_ended_by_template"] == (2 if name == "mistral" else len(talk_of(name)))
    assert encoding.loss_mask[-1] == 0


def test_thoughts_that_a_template_opens_are_generated_and_not_learnt(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    (encoding,) = objective_counts(document(*TALK), tokenizers["qwen3"], kit, 4096).encodings
    shown = tokenizers["qwen3"].decode(encoding.ids)
    assert shown.count("<think>\n\n</think>\n\nThe end.") == 1
    assert "<think>" not in tokenizers["qwen3"].decode(scored_ids(encoding))


def test_a_content_that_a_template_takes_apart_is_refused_naming_the_turn(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    talk = document(*TALK[:3], ("assistant", "<think>hm</think>Yes."))
    fitter = fitter_of(tokenizers["qwen3"], row_length=4096, family="chat")
    left_out = fitter.fit(tokenized_as(talk, tokenizers["qwen3"], kit))
    assert (left_out.outcome, left_out.encodings) == ("refused", ())
    assert left_out.refusal is not None
    assert talk.document_id in str(left_out.refusal)
    assert "turn 4, assistant" in str(left_out.refusal)
    assert "</think>" in str(left_out.refusal)
    counts = Counts()
    counts.add(left_out)
    assert counts.report().documents == {"refused": 1}
    assert counts.report().refused == {left_out.refusal.cause: 1}
    assert talk.document_id in counts.report().refused_examples[left_out.refusal.cause]
    done = objective_counts(talk, tokenizers["qwen2.5"], kit, 4096)
    (encoding,) = done.encodings
    assert "<think>hm</think>Yes.<|im_end|>" in tokenizers["qwen2.5"].decode(scored_ids(encoding))


def test_contents_that_a_template_would_trim_keep_their_whitespace(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    talk = document(("user", " ? "), ("assistant", "  yes  "))
    (encoding,) = objective_counts(talk, tokenizers["llama3"], kit, 4096).encodings
    assert tokenizers["llama3"].decode(scored_ids(encoding)) == "  yes  <|eot_id|>"


def test_bos_leads_a_conversation_once_and_a_template_with_more_of_it_is_refused(kit: Any) -> None:
    question = "{% if m.role == 'user' %}<s>[INST]{{ m.content }}[/INST]"
    answer = "{% else %}{{ m.content }}</s>{% endif %}"
    twice = f"{{% for m in messages %}}{question}{answer}{{% endfor %}}"
    marked = tokenizer_with(MISTRAL)
    other = tokenizer_with(QWEN25)
    rebuilt = Tokenizer.parse(marked.json, marked.roles, chat_template=template_of(twice))
    with pytest.raises(TokenizerError, match=r"turn 3, user, .*BOS") as refused:
        objective_counts(document(*TALK), rebuilt, kit, 4096)
    assert "document_tokens" in str(refused.value)
    without = Tokenizer.parse(
        marked.json, Roles(document_tokens="eos"), chat_template=template_of(twice)
    )
    (encoding,) = objective_counts(document(*TALK), without, kit, 4096).encodings
    assert without.decode(encoding.ids).count("<s>[INST]") == 2
    assert other.bos_id is None


def test_whitespace_that_a_special_token_takes_with_it_is_taken() -> None:
    bare, taking = (tokenizer_with(QWEN25, rstrip=rstrip) for rstrip in (False, True))
    roles: tuple[Role, ...] = ("user", "assistant")
    leads = [each.decode(turn_format(each).frame(roles).leads[1]) for each in (bare, taking)]
    ends = [each.decode(turn_format(each).frame(roles).ends[0]) for each in (bare, taking)]
    assert leads == ["<|im_start|>assistant\n"] * 2
    assert ends == ["<|im_end|>\n", "<|im_end|>"]


MARKED = "{% for m in messages %}### {{ m.role }}\n{{ m.content }}"
ANSWERS = tuple(text for role, text in TALK if role == "assistant")


@pytest.mark.parametrize(
    ("behind", "end"),
    [
        ("\n{% endfor %}", "\n"),
        ("\n\n{% endfor %}", "\n\n"),
        (" END\n{% endfor %}", " END\n"),
        # What only the last answer ends with is the end of none.
        ("{% if loop.last %}<|im_end|>{% endif %}{% endfor %}", ""),
        ("{% if not loop.last %}\n{% endif %}{% endfor %}", ""),
        ("{% endfor %}", ""),
    ],
)
def test_a_template_without_a_token_behind_each_answer_scores_the_end_of_every_answer_or_none(
    kit: Any, behind: str, end: str
) -> None:
    tokenizer = tokenizer_with(MARKED + behind)
    done = objective_counts(document(*TALK), tokenizer, kit, 4096)
    (encoding,) = done.encodings
    assert tokenizer.decode(scored_ids(encoding)) == "".join(answer + end for answer in ANSWERS)
    ended = dict_of(done)["turns_ended_by_template"]
    assert ended >= len(ANSWERS) if end else ended == 0


def test_a_text_that_ends_answers_reads_as_the_template_writes_it(kit: Any) -> None:
    text = MARKED + "\n{% endfor %}"
    tokenizer = tokenizer_with(text)
    (encoding,) = objective_counts(document(*TALK), tokenizer, kit, 4096).encodings
    assert tokenizer.decode(encoding.ids).removesuffix("<|endoftext|>") == plainly(text, TALK)


def test_an_objective_is_refused_before_anything_is_read(tokenizers: dict[str, Tokenizer]) -> None:
    broken = Tokenizer.parse(tokenizers["mistral"].json, chat_template=template_of("{{ messages }"))
    with pytest.raises(TokenizerError, match="valid template"):
        objective_of("chat", broken, variant=0)
    assert objective_of("causal", broken, variant=0).reserve == 0


def test_a_row_too_short_for_what_a_template_writes_holds_no_conversation(kit: Any) -> None:
    long = "{% for m in messages %}{{ 'rule ' * 50 }}{{ m.content }}<|im_end|>{% endfor %}"
    done = objective_counts(document(*TALK), tokenizer_with(long), kit, 128, "drop_oldest")
    assert (done.outcome, done.encodings) == ("too_long", ())


def test_fewer_turns_are_marked_as_the_template_marks_them(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    """A template that writes something before the first turn writes it before the first that stays."""
    roles: list[tuple[Role, str]] = [("user", "first " * 60), ("assistant", "one")]
    roles += [("user", "second"), ("assistant", "two")]
    for name, tokenizer in tokenizers.items():
        done = objective_counts(document(*roles), tokenizer, kit, 256, "drop_oldest")
        (encoding,) = done.encodings
        alone = objective_counts(document(*roles[2:]), tokenizer, kit, 256)
        assert encoding.ids.tolist() == alone.encodings[0].ids.tolist(), name
        assert encoding.loss_mask.tolist() == alone.encodings[0].loss_mask.tolist(), name


def test_an_answer_that_is_context_is_not_scored_and_neither_is_its_end(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    talk: list[tuple[Role, str]] = [("user", "ask"), ("assistant", "wrong")]
    talk += [("user", "again"), ("assistant", "right")]
    turns = tuple(Turn(role=role, text=text, is_context=text == "wrong") for role, text in talk)
    for name, tokenizer in tokenizers.items():
        marked = chat.document(conversation_of(turns))
        (encoding,) = objective_counts(marked, tokenizer, kit, 4096).encodings
        assert tokenizer.decode(scored_ids(encoding)) == "right" + ENDS[name], name
        assert "wrong" in tokenizer.decode(encoding.ids)


def test_only_turns_that_stay_are_held_against_what_a_template_takes_apart(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    thought: tuple[Role, str] = ("assistant", "<think>hm</think>Yes.")
    newest: list[tuple[Role, str]] = [("user", "again"), ("assistant", "No.")]
    for oldest, outcome in (("? " * 200, "elided"), ("?", "refused")):
        talk = document(("user", oldest), thought, *newest)
        done = objective_counts(talk, tokenizers["qwen3"], kit, 256, "drop_oldest")
        assert done.outcome == outcome
        if done.refusal is not None:
            assert "turn 2, assistant, " in str(done.refusal)


WORDS = st.text("ab é\n𝄞<|im_end|>", min_size=1, max_size=60).filter(str.strip)


@given(
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5),
    st.sampled_from([256, 300, 4096]),
    st.sampled_from(sorted(NAMED)),
    st.booleans(),
)
def test_every_byte_that_stays_stands_once_in_its_turn_s_marks(
    tokenizers: dict[str, Tokenizer],
    kit: Any,
    exchanges: list[tuple[str, str]],
    row_length: int,
    name: str,
    system: bool,
) -> None:
    tokenizer = tokenizers[name]
    lead: list[tuple[Role, str]] = [SYSTEM] if system and name != "mistral" else []
    said = list(lead)
    for question, answer in exchanges:
        said += [("user", question), ("assistant", answer * 3)]
    talk = document(*said)
    done = objective_counts(talk, tokenizer, kit, row_length, "drop_oldest")
    if not done.encodings:
        assert done.outcome == "too_long"
        return
    (encoding,) = done.encodings
    assert len(encoding.ids) <= row_length
    data = talk.text.encode()
    pieces = [piece for piece in encoding.pieces.tolist() if piece[0] == TEXT_PIECE]
    dropped = len(said) - len(pieces)
    turns = [*range(len(lead)), *range(len(lead) + dropped, len(said))]
    frame = turn_format(tokenizer).frame([said[turn][0] for turn in turns])
    for at, (turn, (_, first, last, low, high)) in enumerate(zip(turns, pieces, strict=True)):
        part = talk.parts[turn]
        assert (low, high) == (part.start, part.end - 1)
        assert tokenizer.decode_bytes(encoding.ids[first:last].tolist()) == data[low:high]
        before, end = frame.leads[at].tolist(), frame.ends[at].tolist()
        assert encoding.ids[first - len(before) : first].tolist() == before
        assert encoding.ids[last : last + len(end)].tolist() == end
    answers = [talk.parts[turn] for turn in turns if said[turn][0] == "assistant"]
    own = b"".join(data[part.start : part.end - 1] for part in answers)
    assert tokenizer.decode_bytes(scored_ids(encoding)) == own
    assert dict_of(done)["turns_ended_by_template"] >= len(answers)


def test_a_conversation_of_many_turns_is_marked_as_short_ones_are(
    tokenizers: dict[str, Tokenizer], kit: Any
) -> None:
    said: list[tuple[Role, str]] = [("user", "q"), ("assistant", "a")] * 50
    fitter = fitter_of(tokenizers["qwen2.5"], row_length=4096, family="chat")
    assert fitter.tokenizer is tokenizers["qwen2.5"]
    (encoding,) = objective_counts(document(*said), tokenizers["qwen2.5"], kit, 4096).encodings
    shown = tokenizers["qwen2.5"].decode(encoding.ids)
    assert len(re.findall(r"<\|im_start\|>assistant\na<\|im_end\|>\n", shown)) == 50
