"""Pools that map a function over tasks in worker processes, on this machine or on a Ray cluster.

pool.py      processes of this machine; outcomes of tasks and the rule after a failure, shared by both
ray.py       workers of a Ray cluster
"""

from curriculum.workers.pool import TRIES, Failure, WorkerPool
from curriculum.workers.ray import RayPool

__all__ = ["TRIES", "Failure", "RayPool", "WorkerPool"]
