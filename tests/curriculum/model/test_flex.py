"""Compilation of the adapter; test_backends and test_relations compare it with the reference."""

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from curriculum.model.backends import attention
from curriculum.model.masks import Boundaries
from curriculum.model.structure_tensors import StructureTensors


def graphs() -> int:
    """Graphs that were compiled so far."""
    return int(counters["stats"]["unique_graphs"])


def attend(
    lengths: list[int], *, seed: int, chunks: int = 60, softcap: float | None = None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    cut = Boundaries.from_doc_ids(
        torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None]
    )
    T = sum(lengths)
    room = 64 if chunks < 64 else 128
    structure = StructureTensors(
        tokens=torch.zeros(1, T, 5).byte(),
        chunks=torch.randint(chunks, (1, T), generator=generator).int(),
        relations=torch.randint(9, (1, room, room), generator=generator).byte(),
    )
    q, k, v = (torch.randn(1, 2, T, 8, generator=generator, requires_grad=True) for _ in range(3))
    table = torch.randn(2, 9, generator=generator, requires_grad=True)
    out = attention("flex", softcap=softcap, relations=True)(cut, structure)(q, k, v, table)
    (gradient,) = torch.autograd.grad(out.square().sum(), table)
    assert gradient.abs().max() > 0


def test_batches_of_one_shape_share_a_graph_whatever_their_documents_and_structure() -> None:
    attend([100, 156], seed=0)
    before = graphs()
    attend([1, 255], seed=1)
    attend([256], seed=2, chunks=9)
    assert graphs() == before
    attend([256], seed=2, chunks=100)
    assert graphs() == before + 1


def test_a_run_fails_rather_than_fall_back_to_the_uncompiled_form() -> None:
    attend([256], seed=2)
    assert torch._dynamo.config.fail_on_recompile_limit_hit
    assert torch._dynamo.config.recompile_limit == 64


OPTIMIZER = """
import torch
from curriculum.train import optimizer
torch.optim.AdamW(torch.nn.Linear(2, 2).parameters())
from torch._inductor.runtime.cache_dir_utils import cache_dir
print(cache_dir())
"""
"""Code that makes an optimizer, as `new_train_state` does: torch then names its kernel folder."""


@pytest.mark.parametrize("theirs", [None, "elsewhere"], ids=["ours", "the user's own"])
def test_kernels_are_kept_in_a_folder_that_no_other_user_made(
    tmp_path: Path, theirs: str | None
) -> None:
    found = kernels(tmp_path, home="home", theirs=theirs)
    assert found == tmp_path / (theirs or "home/.cache/torchinductor")
    assert [file.name for file in (tmp_path / "shared").iterdir()] == [link_to_kernels()]


def test_torch_by_itself_takes_the_folder_that_others_can_make(tmp_path: Path) -> None:
    planted = tmp_path / link_to_kernels()
    planted.touch()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    code = "from torch._inductor.runtime.cache_dir_utils import cache_dir; cache_dir()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert str(planted) in done.stderr, "it fails at the planted file"


def test_without_a_home_nobody_guesses_the_folder_of_the_kernels(tmp_path: Path) -> None:
    one, other = (kernels(tmp_path, home="none") for _ in range(2))
    assert one != other
    for folder in (one, other):
        assert folder.is_relative_to(tmp_path / "shared")
        assert len(folder.parent.name) == 32


def link_to_kernels() -> str:
    """Name torch's own folder, where another user of the machine may put a file or a folder."""
    return f"torchinductor_{getpass.getuser()}"


def kernels(place: Path, *, home: str, theirs: str | None = None) -> Path:
    """Make an optimizer in a fresh process, where another user planted a file; the folder of its kernels."""
    (place / "home").mkdir(exist_ok=True)
    (place / "shared").mkdir(exist_ok=True)
    (place / "shared" / link_to_kernels()).touch()
    environment = {
        **{name: word for name, word in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"},
        "HOME": str(place / home),
        "TMPDIR": str(place / "shared"),
        **({"TORCHINDUCTOR_CACHE_DIR": str(place / theirs)} if theirs else {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", OPTIMIZER], env=environment, stdout=subprocess.PIPE, check=True
    )
    return Path(done.stdout.decode().strip())
