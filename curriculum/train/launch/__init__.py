"""Launching of jobs as processes: on this machine, or through Slurm."""
