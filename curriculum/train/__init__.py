"""The training job, a process of its own."""
