"""Blocks of every family under torch.compile: one graph, few compilations, the same numbers."""

from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.utils import counters

from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec
from schemas.job import Backend

T, WIDTH, VOCAB = 256, 32, 97
BOUNDARIES = 50
MAX_COMPILATIONS = 4


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(recompile_limit=BOUNDARIES):
        yield
    torch._dynamo.reset()


def boundaries(seed: int) -> Boundaries:
    """A row of one to 40 documents, of any length from 1 on."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.zeros(1, T, dtype=torch.int32)
    starts[0, torch.randint(1, T, (seed % 40,), generator=generator)] = 1
    return Boundaries.from_doc_ids(starts.cumsum(1).int())


# The compiler itself instantiates an autograd function while it traces one.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    ("letter", "backend", "streams"),
    [
        ("A", "flex", 1),
        ("A", "sdpa", 1),
        ("A", "math", 1),
        ("C", "math", 1),
        ("E", "math", 1),
        ("F", "math", 1),
        ("M", "math", 1),
        ("F", "math", 2),
    ],
)
def test_a_block_is_one_graph_whatever_the_boundaries(
    letter: str, backend: Backend, streams: int
) -> None:
    changes = {"blocks": letter, "width": WIDTH, "heads": 2, "kv_heads": 1, "mlp_width": 32}
    spec = model_spec("tiny", VOCAB).model_copy(update={**changes, "streams": streams})
    model = initialise(Decoder(spec, backend), 0)
    (block,) = model.blocks
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    weights = [*block.parameters()]
    distinct = set()
    for seed in range(BOUNDARIES):
        generator = torch.Generator().manual_seed(seed)
        cut = boundaries(seed)
        distinct.add(cut.lengths)
        inputs = model.inputs_of(torch.randint(VOCAB, (1, T), generator=generator), cut)
        shape = (1, T, WIDTH) if streams == 1 else (1, T, streams, WIDTH)
        x = torch.randn(shape, generator=generator, requires_grad=True)
        found = []
        for each in (block, compiled) if seed % 7 == 0 else (compiled,):
            out = each(x, inputs)
            found.append([out.detach(), *torch.autograd.grad(out.square().sum(), (x, *weights))])
        for ours, theirs in zip(found[0], found[-1], strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert len(distinct) > BOUNDARIES * 0.9
    assert 1 <= counters["stats"]["unique_graphs"] <= MAX_COMPILATIONS
    assert not counters["graph_break"]
