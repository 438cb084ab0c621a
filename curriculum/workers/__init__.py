"""Pools that map a function over tasks in worker processes, on this machine or on a Ray cluster.

pool.py               pool of processes on this machine; outcomes and failures of tasks in any pool
answers.py            answers as bytes, and safe reading of those from an untrusted worker
sandboxed_worker.py   a worker process that enters a sandbox before its first task
stopped_processes.py  reports of workers that a signal stopped
ray.py                workers of a Ray cluster
"""

from curriculum.workers.answers import Failure
from curriculum.workers.pool import TRIES, WorkerPool
from curriculum.workers.ray import RayPool

__all__ = ["TRIES", "Failure", "RayPool", "WorkerPool"]
