import copy
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries
from curriculum.model.sampling import Sampling
from curriculum.train.sample import continuation, sample_token
from schemas.errors import JobError
from schemas.job import ModelSpec

GREEDY = Sampling(temperature=0)
PREFIX = [1, 5, 9, 5]


@pytest.fixture(scope="module")
def model() -> Decoder:
    torch.set_num_threads(1)
    spec = ModelSpec(
        name="small", vocab_size=24, blocks="AFAF", width=16, heads=2, kv_heads=1, mlp_width=16
    )
    return initialise(Decoder(spec, "documents"), 3)


def go_on(
    model: Decoder, sampling: Sampling, *, tokens: int = 12, end: int | None = None
) -> list[int]:
    return list(continuation(model, PREFIX, sampling, tokens=tokens, end=end))


def test_greedy_takes_the_likeliest_token_behind_all_that_stands(model: Decoder) -> None:
    document = PREFIX + go_on(model, GREEDY)
    ids_BT = torch.tensor([document])
    with torch.no_grad():
        logits_BTV = model(ids_BT, Boundaries.from_doc_ids(torch.zeros_like(ids_BT)))
    for at in range(len(PREFIX), len(document)):
        assert logits_BTV[0, at - 1].argmax() == document[at]


def test_the_same_seed_draws_the_same_and_another_draws_otherwise(model: Decoder) -> None:
    one, again, other = (go_on(model, Sampling(seed=seed)) for seed in (4, 4, 5))
    assert one == again != other


def test_it_stops_at_the_end_of_the_document(model: Decoder) -> None:
    whole = go_on(model, Sampling(seed=1))
    end = whole[5]
    assert go_on(model, Sampling(seed=1), end=end) == whole[: whole.index(end) + 1]
    assert len(whole) == 12


@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=12),
    top_k=st.integers(1, 14),
    top_p=st.floats(0.01, 1),
    temperature=st.floats(0.1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=60)
def test_only_the_likeliest_k_that_reach_p_are_drawn(
    logits: list[float], top_k: int, top_p: float, temperature: float, seed: int
) -> None:
    """Against the slow way: sort, add up, cut."""
    weights = [math.exp((each - max(logits)) / temperature) for each in logits]
    order = sorted(range(len(logits)), key=lambda at: -logits[at])[:top_k]
    total = sum(weights[at] for at in order)
    kept, share = [], 0.0
    for at in order:
        if share < top_p + 1e-9:
            kept.append(at)
        share += weights[at] / total
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    found = sample_token(torch.tensor(logits), sampling, torch.Generator().manual_seed(seed))
    assert found in kept


def test_draws_have_the_shares_that_the_model_expects() -> None:
    logits, generator = torch.tensor([0.5, 0.25, 0.25, 0.0]).log(), torch.Generator().manual_seed(0)
    counts = Counter(sample_token(logits, Sampling(), generator) for _ in range(4000))
    assert counts[0] == pytest.approx(2000, abs=150)
    assert counts[1] == pytest.approx(1000, abs=120)
    assert counts[3] == 0


def test_the_greedy_one_needs_no_seed() -> None:
    logits = torch.tensor([0.0, 3.0, 3.0])
    assert {
        sample_token(logits, GREEDY, torch.Generator().manual_seed(each)) for each in range(4)
    } == {1}


def test_a_model_that_expects_no_number_is_refused(model: Decoder) -> None:
    broken = copy.deepcopy(model)
    with torch.no_grad():
        broken.head.weight[3] = math.nan
    with pytest.raises(JobError, match=r"model small: .*NaN"):
        list(continuation(broken, PREFIX, GREEDY, tokens=2, end=None))
