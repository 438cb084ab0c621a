"""The training job, a process of its own.

job.py      a diet, a phase and artefacts become a Job
run.py      the parent: open or continue a run, start its process, publish it
session.py  the process: one job from its file to its report
loop.py     evaluate, ask the gate, step, checkpoint
loader.py   rows of a plan as batches, for our trainer and for anyone's
"""
