"""Hugging Face's Trainer in place of ours: `python foreign_transformers.py {job}`."""

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from curriculum.train.dataloader import MicroBatches, for_transformers, loader_of
from curriculum.train.external_trainer import ForeignRun, listen, open_run

RATE = 3e-3


class PlanOrder(Trainer):  # type: ignore[misc]
    """Reads the plan's micro-batches as they come."""

    run: ForeignRun

    def get_train_dataloader(self) -> Any:
        job = self.run.job
        return loader_of(
            job, self.run.workspace, first_step=self.run.step, collate_fn=for_transformers
        )


class Keep(TrainerCallback):  # type: ignore[misc]
    """Records each step, publishes checkpoints, and passes a stop on."""

    def __init__(self, run: ForeignRun, model: Any, optimizer: Any) -> None:
        self.run, self.model, self.optimizer = run, model, optimizer
        self.steps, self.asked_to_stop = run.steps(), listen()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" not in logs:
            return
        counts = self.run.counts(next(self.steps))
        norm = float(logs["grad_norm"])
        self.run.record(counts, loss=logs["loss"], learning_rate=RATE, gradient_norm=norm)
        if self.run.is_due or self.asked_to_stop():
            self.run.publish_checkpoint(self.save)
        control.should_training_stop |= self.asked_to_stop()

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")


def main() -> int:
    run = open_run(Path(sys.argv[1]))
    torch.manual_seed(run.job.seed)
    before = run.resumed or run.start
    sizes: Any = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads: Any = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(vocab_size=run.job.model.vocab_size, **sizes, **heads)
    model = LlamaForCausalLM.from_pretrained(before) if before else LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    if before:
        optimizer.load_state_dict(torch.load(before / "optimizer.pt"))
    (first_step, *_) = MicroBatches.from_job(run.job, run.rows, first_step=run.step).steps
    micro_batches = len(MicroBatches.from_job(run.job, run.rows).of_step(first_step))
    arguments = TrainingArguments(
        output_dir=str(run.directory / "transformers"),
        max_steps=run.job.steps - run.step,
        gradient_accumulation_steps=micro_batches,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=run.job.device == "cpu",
        disable_tqdm=True,
        lr_scheduler_type="constant",
    )
    keep = Keep(run, model, optimizer)
    trainer = PlanOrder(model, arguments, optimizers=(optimizer, None), callbacks=[keep])
    trainer.run = run
    trainer.train()
    return run.write_report("cancelled" if keep.asked_to_stop() else "budget")


if __name__ == "__main__":
    sys.exit(main())
