"""The layers in JAX equal their torch twins, keep documents apart, and refuse what they can't compute."""

from collections.abc import Iterator

import pytest

from schemas.errors import JobError, SchemaError
from tests.jax_process import Call, jax_process

SPLASH = "jax.experimental.pallas.ops.tpu.splash_attention"


@pytest.fixture(scope="module")
def twins() -> Iterator[Call]:
    """Functions of jax_twins.py by name, in a process with JAX."""
    with jax_process("tests.curriculum.model.jax_twins") as call:
        yield call


@pytest.mark.parametrize(("softcap", "block"), [(None, 128), (20.0, 256)])
def test_attention_by_splash_equals_the_reference(
    twins: Call, softcap: float | None, block: int
) -> None:
    apart = twins("attention", softcap, block)
    assert apart.outputs < 5e-6
    assert apart.gradients < 5e-6
    assert apart.across == 0.0


@pytest.mark.parametrize(
    ("dtype", "chunk", "bound"), [("float64", 64, 1e-14), ("float32", 48, 2e-6)]
)
def test_the_scan_equals_that_of_document_aligned_chunks(
    twins: Call, dtype: str, chunk: int, bound: float
) -> None:
    apart = twins("scan", dtype, chunk)
    assert apart.outputs < bound
    assert apart.gradients < bound
    assert apart.across == 0.0


def test_a_decoder_of_two_streams_equals_ours_on_its_weights(twins: Call) -> None:
    """Outputs, the loss with its z-loss, and the gradient of every weight."""
    apart = twins("decoder", "EMCF", "float64", streams=2)
    assert apart.outputs < 1e-13
    assert apart.gradients < 1e-12


def test_a_decoder_with_attention_equals_ours_on_its_weights(twins: Call) -> None:
    apart = twins("decoder", "AF", "float32", softcap=20.0)
    assert apart.outputs < 2e-6
    assert apart.gradients < 1e-5


def test_masks_follow_from_rows_as_in_torch(twins: Call) -> None:
    found = twins("masks")
    assert found == dict.fromkeys(found, True)


def test_documents_that_come_again_are_refused(twins: Call) -> None:
    with pytest.raises(SchemaError, match=r"^doc_ids: "):
        twins("recurring")


def test_attention_refuses_float64(twins: Call) -> None:
    with pytest.raises(JobError, match=r"float64 on cpu; .*float32"):
        twins("in_float64")


def test_attention_refuses_rows_that_no_block_divides(twins: Call) -> None:
    with pytest.raises(SchemaError, match=r"^row_length: 200; .*128"):
        twins("uneven_row")


def test_a_model_with_structure_is_refused(twins: Call) -> None:
    with pytest.raises(JobError, match=r"Splash .* bias"):
        twins("with_structure")


@pytest.mark.parametrize(
    ("module", "version", "words"),
    [
        ("jax", "0.10.2", "jax; jax can't be imported: "),
        ("nothing", "0.9.1", "jax 0.9.1; the version is too old; "),
        (SPLASH, "0.11.0", "jax 0.11.0; Splash can't be imported: "),
    ],
    ids=["no JAX", "an old JAX", "a JAX without Splash"],
)
def test_a_jax_that_does_not_suit_is_refused(
    twins: Call, module: str, version: str, words: str
) -> None:
    with pytest.raises(JobError) as refused:
        twins("imported_again", module, version)
    assert words in str(refused.value)
    assert "0.10" in refused.value.cause
    assert "[jax]" in refused.value.cure
    assert "jax[tpu]==0.10.2" in refused.value.cure
