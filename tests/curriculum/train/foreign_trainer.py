"""A trainer of another make: one layer of plain torch. Started as `python foreign_trainer.py {job}`."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.train.dataloader import Batch
from curriculum.train.external_trainer import listen, open_run

HEADS, WIDTH, RATE = 4, 64, 3e-3


class Model(nn.Module):
    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab_size, WIDTH)
        self.place = nn.Embedding(1 << 16, WIDTH)
        self.mix = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head = nn.Linear(WIDTH, vocab_size)

    def nll(self, batch: Batch) -> Tensor:
        """Nats of the scored targets, row by row."""
        doc_ids = batch.boundaries.doc_ids
        hidden = ~(doc_ids[:, :, None] == doc_ids[:, None]).tril().repeat_interleave(HEADS, 0)
        x = self.embed(batch.input_ids) + self.place(batch.boundaries.position_ids)
        x = x + self.mix(x, x, x, attn_mask=hidden, need_weights=False)[0]
        scored = batch.loss_mask.bool()
        targets = batch.target_ids[scored].long()
        return F.cross_entropy(self.head(x[scored]), targets, reduction="none")


def main() -> int:
    run, asked_to_stop = open_run(Path(sys.argv[1])), listen()
    torch.manual_seed(run.job.seed)
    model = Model(run.job.model.vocab_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    if before := run.resumed or run.start:
        saved = torch.load(before / "model.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    def save(folder: Path) -> None:
        whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(whole, folder / "model.pt")

    if run.step == 0:
        run.evaluate(torch.no_grad()(model.nll))
    for batches in run.steps():
        counts = run.counts(batches)
        loss = torch.stack([model.nll(batch).sum() for batch in batches]).sum() / counts.scored
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        run.record(counts, loss=loss.item(), learning_rate=RATE)
        if run.step == run.job.steps:
            run.evaluate(torch.no_grad()(model.nll))
        if run.is_due or asked_to_stop():
            run.publish_checkpoint(save)
        if asked_to_stop():
            return run.write_report("cancelled")
    return run.write_report("budget")


if __name__ == "__main__":
    sys.exit(main())
