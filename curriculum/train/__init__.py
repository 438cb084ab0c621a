"""The training job, a process of its own, or several that share the model and each step.

job.py          a diet, a phase and artefacts become a Job
run.py          the parent: open or continue a run, launch it, publish it
launch.py       a job as a process of its own: started, followed (follow.py), ended (orphans.py)
slots.py        so many jobs at once, first come first served; slurm.py hands them to Slurm instead
machine.py      where a job runs: this machine, a share of it, or what Slurm is asked for
start.py        the ranks of a job on one machine
session.py      the processes: one job from its file to its report
loop.py         evaluate, ask the gate, step, checkpoint
steps.py        one step: micro-batches shared among ranks, one gradient of one loss
learner.py      the model and its optimizer, whole or sharded
distributed.py  what ranks say to each other
checkpoint.py   what a checkpoint is; saver.py writes it meanwhile, restore.py reads it
loader.py       rows of a plan as batches, for our trainer and for anyone's
require.py      what must fit together before the first step
foreign.py      what another trainer needs to stand in for ours
command.py      starts that trainer; left.py holds it against what a run must leave
"""
