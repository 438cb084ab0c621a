"""A job as processes: of this machine, or handed to Slurm."""
