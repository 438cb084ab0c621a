import subprocess
import sys

import pytest

SCRIPT = """
import resource
{before}
def faults():
    began = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(b"x") * (64 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - began
print(faults(), faults())
"""
KEEP = "from curriculum.train.device import keep_freed_memory; keep_freed_memory()"


def faults(before: str) -> tuple[int, int]:
    """Return page faults of touching 64 MiB first, and again after they were freed."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)],
        capture_output=True,
        text=True,
        check=True,
    )
    first, again = map(int, done.stdout.split())
    return first, again


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc that is told")
def test_what_was_freed_is_used_again_without_asking_the_system() -> None:
    first, again = faults(KEEP)
    assert again < first / 10
    first, again = faults("")
    assert again > first / 2, "by itself it comes anew each time, or there is nothing to keep"
