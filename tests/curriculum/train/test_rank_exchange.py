"""Exchange between ranks: what a rank sends is never run, and no other user reaches where ranks meet."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import curriculum.train
from tests.rank_processes import ROOT

VICTIM = """
import sys
import torch
import torch.distributed as dist
from pydantic import TypeAdapter
from curriculum.train.distributed import Ranks, leave
from schemas.errors import JobError
dist.init_process_group("gloo", init_method=sys.argv[1], rank=0, world_size=2)
dist.all_gather_object([None, None], "honest")
ranks = Ranks(size=2, host=dist.group.WORLD)
for call in (
    lambda: ranks.gathered("honest", TypeAdapter(str)),
    lambda: ranks.gathered_tensors({"honest": torch.ones(1)}),
    lambda: ranks.together(lambda: None),
):
    try:
        call()
    except JobError as refused:
        assert refused.name == "rank 1", refused
    else:
        sys.exit("a planted pickle is a value")
leave(0)
"""
INTRUDER = """
import pickle, sys
from pathlib import Path
import torch.distributed as dist
from curriculum.train.distributed import Ranks, leave
from tests.flows.hostile_workspace import Canary
dist.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
wire = Ranks(rank=1, size=2, host=dist.group.WORLD)
for name in sys.argv[2:]:
    wire._bytes(pickle.dumps(Canary(file=Path(name))))
leave(0)
"""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def test_torch_runs_what_joins_by_a_port_and_our_exchange_refuses_it(tmp_path: Path) -> None:
    meet = f"tcp://127.0.0.1:{free_port()}"
    planted = [tmp_path / name for name in ("torch", "value", "tensors", "error")]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, meet, *names], env=environment, cwd=ROOT)
        for code, names in ((VICTIM, ()), (INTRUDER, map(str, planted)))
    ]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [file.name for file in planted if file.exists()] == ["torch"]


def test_no_module_of_training_pickles_what_ranks_send() -> None:
    (folder,) = curriculum.train.__path__
    pickling = re.compile(r"import pickle|from pickle|\w+_object(_list)?\(")
    assert not [
        file.name for file in Path(folder).rglob("*.py") if pickling.search(file.read_text())
    ]
