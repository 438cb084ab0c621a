"""A run goes on while its trainer lives, also one that /proc of the asker doesn't list."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from curriculum.catalog import query
from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state
from curriculum.pipeline.context import Resources
from curriculum.store import Store
from curriculum.store.owners import this_process
from tests.curriculum.store.test_leases import NAMESPACE, UNKNOWN_PID, has_namespaces
from tests.factories import training
from tests.flows.tiny_workspace import TinyWorkspace, job, run

TRAIN = """
import sys
from pathlib import Path
from tests.factories import training
with training(Path(sys.argv[1])):
    print("trains", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The directory of a run that is open."""
    home = tmp_path / "workspace"
    larder = TinyWorkspace(home)
    folder = run(home, job(larder.syntax, home, run_key="1"), [], closed=False)
    for part in (folder / "metrics").iterdir():
        part.unlink()
    return folder


def states(folder: Path) -> tuple[str, str]:
    """The state of a run by `status` and by SQL."""
    store = Store.containing(folder)
    slots = SlotQueue.read(Resources().slots_of(store.root))
    found = attempt_state(store, Attempt.at(folder), slots).state
    path = folder.relative_to(store.root).as_posix()
    ((asked,),) = query(store.root, f"SELECT state FROM attempts WHERE path = '{path}'").rows
    return found, str(asked)


def test_a_run_is_running_while_its_lock_is_held_whatever_pid_its_record_names(begun: Path) -> None:
    with training(begun):
        unknown = this_process().model_copy(update={"pid": UNKNOWN_PID})
        (begun / "state.json").write_text(unknown.model_dump_json())
        assert states(begun) == ("running", "running")
    (begun / "state.json").write_text(this_process().model_dump_json())
    assert states(begun) == ("interrupted", "interrupted")


@pytest.mark.parametrize(
    "beside",
    [
        (),
        pytest.param(
            NAMESPACE,
            marks=pytest.mark.skipif(
                not has_namespaces(), reason="needs the right to begin a PID namespace"
            ),
        ),
    ],
    ids=["here", "in another namespace"],
)
def test_a_run_that_another_process_trains_is_running_until_that_is_killed(
    begun: Path, beside: Sequence[str]
) -> None:
    command = [*beside, sys.executable, "-c", TRAIN, str(begun)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"trains\n"
        assert states(begun) == ("running", "running")
        trainer.kill()
        assert trainer.stdout.read() == b"", "it has ended"
    assert (begun / "state.json").exists()
    assert states(begun) == ("interrupted", "interrupted")
