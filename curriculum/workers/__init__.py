"""Pools that map a function over tasks in worker processes, on this machine or on a Ray cluster.

pool.py      processes of this machine
ray.py       workers of a Ray cluster
map.py       outcomes of tasks and the rule after a failure, shared by both
"""

from curriculum.workers.map import TRIES, Failure
from curriculum.workers.pool import WorkerPool
from curriculum.workers.ray import RayPool

__all__ = ["TRIES", "Failure", "RayPool", "WorkerPool"]
