"""Worker processes: pools that map a function over tasks, on this machine or on a Ray cluster.

pool.py    processes of this machine
ray.py     workers of a Ray cluster
spawn.py   start of a process while interrupts are held
"""
