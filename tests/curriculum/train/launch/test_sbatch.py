"""The options of sbatch as sbatch parses them: the GPUs and cores of one machine, or a refusal."""

import pytest

from curriculum.train.launch.slurm import RequestedResources, asked
from schemas.errors import JobError


@pytest.mark.parametrize(
    ("options", "gpus", "cores"),
    [
        ("-c16 -G4", 4, 16),
        ("-G4 -c 16", 4, 16),
        ("-Ga100:4", 4, 1),
        ("--gpus a100:2,v100:1", 3, 1),
        ("--tres-per-node=gres/gpu:4", 4, 1),
        ("--tres-per-node gres/gpu:h200:4 -c8", 4, 8),
        ("--gres=gres/gpu:2", 2, 1),
        ("--gres=gpu:a100:4(S:0-1)", 4, 1),
        ("--gpus-per-n=4 --cpus-per-t 6", 4, 6),
        ("-n4 -c8 --gpus-per-task=1", 4, 32),
        ("--ntasks=4 --cpus-per-task=8", 0, 32),
        ("-N2 -G8", 4, 1),
        ("-N2 -n8 -c4 --gpus-per-task=1", 4, 16),
        ("--nodes=2 --ntasks-per-node=4 -c4 --gpus-per-node=4", 4, 16),
        ("-n2 --tres-per-task=cpu=8,gres/gpu=2", 4, 16),
        ("--gpus-per-node=4 --cpus-per-gpu=8", 4, 32),
        ("--sockets-per-node=2 --gpus-per-socket=2", 4, 1),
        ("-Hc16", 0, 16),
        ("--gres=gpu:a100", 1, 1),
        ("--gres=none -n8 --ntasks-per-node=4", 0, 4),
        ("-G4 --gpus-per-task=2 -c3", 4, 6),
        ("-N1-1 -G2 --ntasks-per-gpu=2 -c2", 2, 8),
        ("-c2 --mincpus=8 --gres=gpu:1 --gres=lustre:4", 0, 8),
    ],
)
def test_gpus_and_cores_are_those_that_sbatch_would_give(
    options: str, gpus: int, cores: int
) -> None:
    assert asked(options) == RequestedResources(gpus=gpus, cores=cores)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("-c many", "--cpus-per-task many"),
        ("--gres=gpu:a100:lots", "--gres gpu:a100:lots"),
        ("--gpus=4x", "--gpus 4x"),
        ("-N2 -G3", "--gpus 3"),
        ("--gpus-per-task=1", "--gpus-per-task 1"),
        ("--gpu-per-node=4", "--gpu-per-node=4"),
        ("--cpus=4", "--cpus=4"),
        ("gres=gpu:4", "gres=gpu:4"),
        ("-c 4 : -c 8", ":"),
        ("-G", "--gpus"),
        ("-N2-4 -G4", "--gpus 4"),
        ("--gpus-per-socket=1", "--gpus-per-socket 1"),
        ("-X4", "-X4"),
        ("--comment='half open", "'half open"),
    ],
)
def test_what_is_not_understood_and_would_matter_is_refused_by_name_value_and_cure(
    options: str, named: str
) -> None:
    with pytest.raises(JobError) as raised:
        asked(options)
    assert "$CURRICULUM_SBATCH" in str(raised.value)
    assert all(word in str(raised.value) for word in named.split())
    assert raised.value.cure


def test_options_that_give_neither_gpus_nor_cores_are_left_to_sbatch() -> None:
    options = "-p long --exclusive -t1:00:00 --mem=64G --container-image /images/c16 --nice=-5 -Q"
    assert asked(options) == RequestedResources(gpus=0, cores=1)
