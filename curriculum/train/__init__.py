"""Training jobs: one process, or several that share the model and every step.

In the parent process, without torch:
    job.py          builds a Job from a diet, a phase and artefacts
    run.py          opens or resumes a run, launches it, publishes it
    launch/         runs a job as a process on a GPU slot, or through Slurm
    run_directory.py, checkpoint_files.py   key and files of a run, files of a checkpoint

In the job's process:
    process_environment.py  environment variables that must be set before torch is loaded
    job_process.py  runs one job, from its file to its report
    trainer.py      training loop: evaluate, check the gate, step, checkpoint
    step.py         one optimizer step over all ranks; search for rows that aren't finite
    optimizer.py    model and optimizer, whole or sharded; learning rate
    dataloader.py   batches of a plan's rows, for our trainer and for others; a batch is in batch.py
    evaluation.py   val_bpb by stratum; document_sums.py has documents, advance_when.py the gate
    run_measurement.py   evaluates a finished run's checkpoint on other held-out rows
    checkpoint.py   contents of a checkpoint, and writing during training; sharded.py for several ranks,
                    restore.py reads checkpoints, sample.py samples text from one
    metrics.py      one row of metrics per step; metric_writers.py for TensorBoard and Weights & Biases
    report.py       report.json and the heartbeat
    required_proof.py   the leakcheck required by a job, before its first step
    validate.py     checks that job, plan, rows, tokenizer and checkpoint match, before the first step
    distributed.py  communication between ranks; processes.py starts and ends them

With another trainer:
    external_trainer.py   functions for the other trainer, and the files it must write
    external_command.py   starts, stops and checks its command
"""
