"""A training job: a process of its own, or several that share the model and each step.

In the parent, without torch:
    job.py          a diet, a phase and artefacts become a Job
    run.py          open or continue a run, launch it, publish it
    launch/         a job as a process: started and followed, in a slot of GPUs or through Slurm
    run_directory.py, checkpoint_files.py   the key and the files of a run, the files of a checkpoint

In the job's process:
    process_environment.py  GPUs and waiting of threads, before torch is loaded
    job_process.py  one job from its file to its report
    trainer.py      its loop: evaluate, check the gate, step, checkpoint
    step.py         one optimizer step: one gradient of one loss over all ranks; rows that aren't finite
    optimizer.py    the model and its optimizer, whole or sharded; the learning rate
    dataloader.py   rows of a plan as batches, for our trainer and for anyone's; batch.py is one of them
    evaluation.py   val_bpb by stratum, of documents in document_sums.py; advance_when.py ends the phase by it
    run_measurement.py   the same of a finished run's checkpoint, on other held-out rows
    checkpoint.py   what a checkpoint is, and its writing while training continues; sharded.py for several
                    ranks, restore.py reads it, sample.py continues a text by it
    metrics.py      a row a step; metric_writers.py hands it to TensorBoard and Weights & Biases
    report.py       report.json and the heartbeat
    required_proof.py   the leakcheck that a job requires, before its first step
    validate.py     job, plan, rows, tokenizer and checkpoint fit together, before the first step
    distributed.py  the calls between ranks; processes.py starts and ends them

With another trainer:
    external_trainer.py   what it needs to stand in for ours, and what it must leave
    external_command.py   its command: started, stopped, checked
"""
