import subprocess
import sys
import time

import psutil

DEAF = """\
import signal, sys, time
from flows import flow_process
flow_process.END_WITHIN_S = 2.0
signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
flow_process.end_with_parent(signal.SIGTERM)
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""
PARENT = f"""\
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {DEAF!r}])
print(child.pid, flush=True)
child.wait()
"""


def test_a_flow_run_that_does_not_heed_its_workers_end_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        flow = psutil.Process(int(parent.stdout.readline()))
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.stdout.readline() == b"heard\n", "it is asked first"
        deadline = time.monotonic() + 120
        while flow.is_running() and flow.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "it outlives its worker"
            time.sleep(0.1)
