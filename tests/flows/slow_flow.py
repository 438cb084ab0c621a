"""A flow that does nothing but take its time: what workers and servers are tried with."""

import os
import subprocess
import sys
from pathlib import Path

from prefect import flow, suspend_flow_run

NAP = """\
import pathlib, sys, time
seconds, until = float(sys.argv[1]), sys.argv[2]
time.sleep(seconds)
while until and not pathlib.Path(until).exists():
    time.sleep(0.1)
"""


@flow(name="nap")
def nap(seconds: float = 0.0, until: str = "", asks: bool = False, trace: str = "") -> None:
    """Write down who and where it is, and wait for a process of its own: for a time, then for a file."""
    if trace:
        with Path(trace).open("a") as file:
            file.write(f"{os.getpid()} {os.environ['CURRICULUM_HOME']}\n")
    if asks:
        suspend_flow_run(timeout=None)
    child = subprocess.Popen(
        [sys.executable, "-c", NAP, str(seconds), until], stdout=subprocess.DEVNULL
    )
    try:
        child.wait()
    finally:
        child.kill()
        child.wait()
